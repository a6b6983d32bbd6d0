"""Two definitions of a tool as lines a person can compare: flat, complete, cleaned, bounded."""

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.servers.tool_fingerprints import fingerprint
from mcphost.sanitize import sanitize
from mcphost.serialization import dumps, loads

MAX_LINES = 1_000
"""Lines of one definition that are compared; what lies beyond is said to be there."""
MAX_WIDTH = 160
CONTEXT_LINES = 2
MAX_DEPTH = 64


def diff_definitions(before: bytes, after: bytes) -> tuple[str, ...]:
    """What changed, each line with a mark in front: `- ` it was, `+ ` it is, two blanks where nothing changed.

    Unchanged lines are kept only beside changed ones. `before` may be empty: what it was is not known any more.
    """
    new = _lines(after)
    if not before:
        return ("  What it was is not known any more; this is what it is.", *(f"+ {line}" for line in new))
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
    return tuple(out) or ("  It differs only in how it is written.",)


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
            # What is too long to be shown must not look the same when it is not.
            mark = fingerprint(definition)[:16]
            return [*out[:MAX_LINES], f"… and more: {len(definition):,} bytes in all, with the fingerprint {mark}"]
    return out


def _flatten(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        members = cast("dict[str, Any]", value)
        for key in sorted(members):
            yield from _flatten(f"{path}.{key}" if path else key, members[key], depth + 1)
    elif (
        isinstance(value, list) and depth < MAX_DEPTH and any(isinstance(one, dict) for one in cast("list[Any]", value))
    ):
        for number, one in enumerate(cast("list[Any]", value)):
            yield from _flatten(f"{path}[{number}]", one, depth + 1)
    else:
        yield path, value if isinstance(value, str) else dumps(value)


def _wrap(text: str) -> Iterator[str]:
    """Short lines, cut at line ends, then after sentences, then anywhere: one changed word marks few lines."""
    for line in text.split("\n"):
        start = 0
        while len(line) - start > MAX_WIDTH:
            stop = line.rfind(". ", start, start + MAX_WIDTH)
            stop = stop + 2 if stop > start else start + MAX_WIDTH
            yield line[start:stop]
            start = stop
        yield line[start:]
