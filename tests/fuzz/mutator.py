"""Random mutations of messages, as JSON values and as bytes."""

import json
import random
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**31, 2**53, 2**63, 2**64, 10**40, -(10**40), 1e308, "", " ", "x" * 300, "\ud800",
    "\udc00\ud800", "\x00", "\x1b[31m", "\u202e", [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": []}}},
    "2026-07-28", "complete", "input_required", "unknown kind", "Infinity", [1, "a", None, {}], float("nan"),
    float("inf"), -0.0,
)  # fmt: skip
KEYS = (
    "id", "ID", "jsonrpc", "method", "params", "result", "error", "_meta", "resultType", "content", "tools",
    "nextCursor", "progressToken", "requestId", "inputRequests", "requestState", "task", "taskId", "data", "__proto__",
    "x" * 200, "\ud800",
)  # fmt: skip
BYTE_PIECES = (
    b"\x00", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b"\xe2\x80\xa8", b'"', b"\\", b"\\u", b"\\ud800", b"{",
    b"}", b"[", b"]", b",", b":", b"null", b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"//", b"/*", b" " * 50, b"\t",
    b'"id":', b'"result":{}', b"\x1b]0;x\x07",
)  # fmt: skip
CHUNK = 256 * 1024  # the most that a pipe or a socket returns at once
DEPTHS = (10, 100, 200, 1_000, 5_000)


class Mutator:
    """A source of mutations that uses one random generator, so that the same seed gives the same bytes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def encode_mutated(self, value: Any, most: int = 3) -> bytes:
        """Return a message as JSON with up to *most* changed values and, sometimes, with changed bytes."""
        rng = self.rng
        for _ in range(rng.randrange(most + 1)):
            value = self.mutate_value(value)
        raw = self.encode(value)
        if rng.random() < 0.35:
            for _ in range(1 + rng.randrange(3)):
                raw = self.mutate_bytes(raw)
        return raw

    def encode(self, value: Any) -> bytes:
        """Encode a value as JSON, with or without spaces and escapes at random, as different programs do."""
        rng = self.rng
        style = rng.randrange(6)
        separators = (",", ":") if style else (", ", ": ")
        text = json.dumps(
            value, ensure_ascii=style > 2, separators=separators, indent=1 if rng.random() < 0.01 else None
        )
        return text.encode("utf-8", "surrogatepass")

    def mutate_value(self, value: Any) -> Any:
        """Return a copy of the value with one random change at any depth."""
        rng = self.rng
        if isinstance(value, dict) and value and rng.random() < 0.9:
            key = rng.choice(list(value))
            roll = rng.random()
            if roll < 0.65:
                return {**value, key: self.mutate_value(value[key])}
            if roll < 0.75:
                return {name: part for name, part in value.items() if name != key}
            if roll < 0.85:
                return {**value, rng.choice(KEYS): rng.choice(ODD_VALUES)}
            if roll < 0.92:
                return {(name.swapcase() if name == key else name): part for name, part in value.items()}
            return {(rng.choice(KEYS) if name == key else name): part for name, part in value.items()}
        if isinstance(value, list) and value and rng.random() < 0.8:
            at = rng.randrange(len(value))
            roll = rng.random()
            if roll < 0.6:
                return [*value[:at], self.mutate_value(value[at]), *value[at + 1 :]]
            if roll < 0.7:
                return value[:at] + value[at + 1 :]
            if roll < 0.8 and len(value) < 50:
                return value * rng.randrange(2, 30)
            return [*value, rng.choice(ODD_VALUES)]
        if isinstance(value, str) and rng.random() < 0.4:
            at = rng.randrange(len(value) + 1)
            return value[:at] + rng.choice(("\x00", "\ud83d", "\u202e", "é" * 100, "\n", "{", "%")) + value[at:]
        if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
            return rng.choice((value + 1, -value, str(value), float(value), value + 0.5, value * 2**60, [value]))
        return rng.choice(ODD_VALUES)

    def mutate_bytes(self, raw: bytes) -> bytes:
        """Return the bytes with one random change."""
        rng = self.rng
        at, to = sorted((rng.randrange(len(raw) + 1), rng.randrange(len(raw) + 1)))
        match rng.randrange(9):
            case 0:
                return raw[:at] + rng.choice(BYTE_PIECES) + raw[at:]
            case 1:
                return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
            case 2:
                return raw[:at] + raw[to:]
            case 3:
                return raw[:at]
            case 4:
                return raw[:to] + raw[at:to] + raw[to:]
            case 5:
                return raw[at:to]
            case 6:
                return rng.choice(BYTE_PIECES) + raw
            case 7:
                return raw + rng.choice(BYTE_PIECES)
            case _:
                deep = rng.choice(DEPTHS)
                opener, closer = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
                return raw[:at] + opener * deep + b"1" + closer * rng.choice((deep, deep - 1, 0)) + raw[at:]

    def split(self, data: bytes, most: int = 8) -> list[bytes]:
        """Split the data at random into pieces."""
        cuts = sorted(self.rng.randrange(len(data) + 1) for _ in range(self.rng.randrange(most)))
        parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]
        return [part[at : at + CHUNK] for part in parts for at in range(0, len(part), CHUNK)]
