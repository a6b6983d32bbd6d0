"""Line diff of two tool definitions: flattened, complete, sanitized and bounded."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.servers.tool_fingerprints import fingerprint
from mcphost.sanitize import sanitize
from mcphost.serialization import dumps, loads

MAX_LINES = 1_000
"""Compared lines of one definition; longer ones end with a note and the fingerprint."""
MAX_WIDTH = 160
CONTEXT_LINES = 2
MAX_DEPTH = 64


def diff_definitions(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return the diff as lines: `- ` before, `+ ` after, two blanks for unchanged lines.

    Only the unchanged lines next to changes are included. An empty *before* means that the previous definition is
    unknown.
    """
    new = _lines(after)
    if not before:
        return ("  The previous definition is unknown; this is the present one.", *(f"+ {line}" for line in new))
    old = _lines(before)
    out: list[str] = []
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        if out:
            out.append("  …")
        for kind, a, b, c, d in group:
            if kind == "equal":
                out += [f"  {line}" for line in old[a:b]]
            else:
                out += [f"- {line}" for line in old[a:b]] + [f"+ {line}" for line in new[c:d]]
    return tuple(out) or ("  Only the formatting differs.",)


def _lines(definition: bytes) -> list[str]:
    try:
        flat = _flatten("", loads(definition))
    except MalformedMessage:
        flat = iter((("", definition.decode(errors="replace")),))
    out: list[str] = []
    for path, text in flat:
        parts = [sanitize(part, keep_newlines=False) for part in _wrap(text)]
        head = f"{sanitize(path, keep_newlines=False)}: " if path else ""
        out += [head + parts[0], *(f"    {part}" for part in parts[1:])]
        if len(out) > MAX_LINES:
            # Different definitions must not look the same after the cut.
            mark = fingerprint(definition)[:16]
            return [*out[:MAX_LINES], f"… and more: {len(definition):,} bytes in all, with the fingerprint {mark}"]
    return out


def _flatten(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        members = cast("dict[str, Any]", value)
        for key in sorted(members):
            yield from _flatten(f"{path}.{key}" if path else key, members[key], depth + 1)
    elif (
        isinstance(value, list)
        and depth < MAX_DEPTH
        and any(isinstance(item, dict) for item in cast("list[Any]", value))
    ):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _flatten(f"{path}[{number}]", item, depth + 1)
    else:
        yield path, value if isinstance(value, str) else dumps(value)


def _wrap(text: str) -> Iterator[str]:
    """Split at line ends, then after sentences, then anywhere, so that a changed word marks few lines."""
    for line in text.split("\n"):
        start = 0
        while len(line) - start > MAX_WIDTH:
            stop = line.rfind(". ", start, start + MAX_WIDTH)
            stop = stop + 2 if stop > start else start + MAX_WIDTH
            yield line[start:stop]
            start = stop
        yield line[start:]
