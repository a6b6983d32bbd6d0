"""Line diffs of two tool definitions, for the user's review."""

import hashlib
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.host.servers.catalog import fingerprint
from mcphost.sanitize import sanitize
from mcphost.serialization import dumps, loads

MAX_LINES = 1_000
"""Maximum lines of a definition to compare; a longer definition ends with a note and its fingerprint."""
REVERTED_NOTE = "  It changed and changed back. Difference from the definition in between:"
UNLOCKED_NOTE = "  The project's lock file does not contain this tool's definition; this is the current one."
UNKNOWN_NOTE = "  The previous definition is unknown; this is the current one."
FORMATTING_NOTE = "  Only the formatting differs."
DIFFERENCE_NOTES = frozenset({REVERTED_NOTE, UNLOCKED_NOTE, UNKNOWN_NOTE, FORMATTING_NOTE})
"""Lines of a diff that mcphost wrote; all other lines contain text from the server."""
MAX_WIDTH = 160
CONTEXT_LINES = 2
MAX_DEPTH = 64
MAX_PATH = 200
"""Maximum characters of a path; a longer path is shown once on a line of its own, and otherwise abbreviated."""
_PLAIN_KEY = re.compile(r"[\w$-]+(?: [\w$-]+)*")
"""A key that needs no quotes: without them, the path of `{"a.b": 1}` would look like that of `{"a": {"b": 1}}`."""


def diff_definitions(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return a line diff of two tool definitions: `- ` removed, `+ ` added, two spaces for unchanged.

    Unchanged lines are included only next to changes. An empty *before* means that the previous definition is unknown.
    """
    new = definition_lines(after)
    if not before:
        return (UNKNOWN_NOTE, *(f"+ {line}" for line in new))
    old = definition_lines(before)
    out: list[str] = []
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT_LINES):
        if out:
            out.append("  …")
        for kind, a, b, c, d in group:
            if kind == "equal":
                out += [f"  {line}" for line in old[a:b]]
            else:
                out += [f"- {line}" for line in old[a:b]] + [f"+ {line}" for line in new[c:d]]
    return tuple(out) or (FORMATTING_NOTE,)


def definition_lines(definition: bytes) -> list[str]:
    """Return a tool definition, or other JSON, as sanitized lines for comparison.

    At most MAX_LINES lines are returned; a note with the definition's fingerprint replaces the remaining lines.
    """
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
            # Different definitions must not look the same when truncated.
            mark = fingerprint(definition)[:16]
            return [*out[:MAX_LINES], f"… and more: {len(definition):,} bytes in all, with the fingerprint {mark}"]
    return out


def _flatten(path: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if len(path) > MAX_PATH:
        # Each value below this path repeats it: with a key of 500 kB, 900 values would take 450 MB.
        short = _abbreviate(path)
        yield short, f"= {path}"
        path = short
    if isinstance(value, dict) and value and depth < MAX_DEPTH:
        members = cast("dict[str, Any]", value)
        for key in sorted(members):
            name = key if _PLAIN_KEY.fullmatch(key) else dumps(key)
            yield from _flatten(f"{path}.{name}" if path else name, members[key], depth + 1)
    elif (
        isinstance(value, list)
        and depth < MAX_DEPTH
        and any(isinstance(item, dict) for item in cast("list[Any]", value))
    ):
        for number, item in enumerate(cast("list[Any]", value)):
            yield from _flatten(f"{path}[{number}]", item, depth + 1)
    else:
        yield path, value if isinstance(value, str) else dumps(value)


def _abbreviate(path: str) -> str:
    """Shorten a long path to its beginning and a digest, so that different paths remain distinguishable."""
    digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{path[: MAX_PATH // 2]}…{digest[:12]}"


def _wrap(text: str) -> Iterator[str]:
    """Split *text* into lines of at most MAX_WIDTH characters, at newlines or after sentences if possible.

    Splitting after sentences limits how many lines differ when one word changes.
    """
    for line in text.split("\n"):
        start = 0
        while len(line) - start > MAX_WIDTH:
            stop = line.rfind(". ", start, start + MAX_WIDTH)
            stop = stop + 2 if stop > start else start + MAX_WIDTH
            yield line[start:stop]
            start = stop
        yield line[start:]
