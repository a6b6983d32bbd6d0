"""What a call would change: the text it carries beside the file that it names, or beside the text that it replaces."""

import os
import stat
from collections.abc import Awaitable, Callable
from difflib import SequenceMatcher
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
from textual.message import Message

from mcphost.host.questions.questions import ApproveTool
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.code_text import looks_like_path, signed

FILE_LIMIT = 256 * 1024
"""Bytes of a file that is compared."""
READ_SECONDS = 5.0
_MOST_LINES = 5_000
_MOST_COMPARED = 1_000
_MOST_EQUAL = 100_000
_MOST_ROWS = 300
_CONTEXT = 3
_CONTENT = frozenset({
    "content", "contents", "text", "body", "data", "source", "code", "file_text", "filetext", "file_content",
    "filecontent", "new_content", "newcontent",
})  # fmt: skip
_BEFORE_AFTER = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("oldText", "newText"),
    ("oldString", "newString"), ("search", "replace"),
)  # fmt: skip
_PARTIAL = ("append", "insert", "prepend", "search", "find", "grep")
_NOT_FILES = ("/proc/", "/sys/", "/dev/")


class Difference(NamedTuple):
    """A title and rows, each with its mark in front ("+ ", "- ", two blanks, "@ " for a place), clean."""

    title: str
    rows: tuple[str, ...] = ()


class Target(NamedTuple):
    """The file that a call names, and the text that it would hold."""

    path: str
    shown: str
    text: str


def target(question: ApproveTool, arguments: dict[str, Any]) -> Target | None:
    """Return the file that the call would write whole; None where the arguments do not say one for certain.

    Only for a server that runs on this machine, and only where one path and one text are given.
    """
    if question.folder is None or any(word in question.tool.casefold() for word in _PARTIAL):
        return None
    given = {name: value for name, value in arguments.items() if isinstance(value, str)}
    texts = [value for name, value in given.items() if name.casefold() in _CONTENT]
    paths = [value for name, value in given.items() if name.casefold() not in _CONTENT and looks_like_path(name, value)]
    if len(paths) != 1 or len(texts) != 1 or _replaced(arguments):
        return None
    path = paths[0]
    if not path or clean_line(path, 4096) != path or path.startswith(("~", "-", "@")) or "://" in path:
        return None
    return Target(os.path.join(question.folder, path), path, texts[0])


class FileWanted(Message):
    """A call names this file; `compared` gets how it differs from the text of the call, if that can be said in time."""

    def __init__(self, target: Target, compared: Callable[[Difference], Awaitable[None]]) -> None:
        super().__init__()
        self.target, self.compared = target, compared


async def compare(wanted: FileWanted) -> None:
    """Compare the file on a thread and hand the difference over; after some seconds nobody waits for it any more."""
    found = None
    with anyio.move_on_after(READ_SECONDS):
        found = await anyio.to_thread.run_sync(compare_file, wanted.target, abandon_on_cancel=True)
    if found is not None:
        await wanted.compared(found)


def compare_file(wanted: Target) -> Difference | None:
    """Read the file and compare it; None where it cannot be read. May block: for a worker thread.

    Only a regular file is opened, at most 256 kB of it are read, and nothing of it leaves the screen.
    """
    name = clean_line(wanted.shown, 200)
    try:
        path = os.path.realpath(wanted.path)
        if path.startswith(_NOT_FILES):
            return None
        data = _read(path)
    except FileNotFoundError:
        return Difference(f"{name} is not there yet")
    except (OSError, ValueError):
        return None
    if data is None:
        return Difference(f"{name} is over {FILE_LIMIT // 1024} kB and was not compared")
    try:
        before = data.decode()
    except UnicodeDecodeError:
        return Difference(f"{name} holds no text and was not compared")
    return compare_texts(f"{name} as it is here now, compared with this text", before, wanted.text)


def _read(path: str) -> bytes | None:
    """The bytes of a regular file; None when there are too many. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        data = file.read(FILE_LIMIT + 1)
    return None if len(data) > FILE_LIMIT else data


def replacements(arguments: dict[str, Any]) -> tuple[Difference, ...]:
    """Return what the call replaces by what, where its arguments carry both texts."""
    return tuple(compare_texts(f"{where}{old} → {where}{new}", before, after)
                 for where, old, new, before, after in _replaced(arguments))  # fmt: skip


def _replaced(arguments: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    places: list[tuple[str, dict[str, Any]]] = [("", arguments)]
    for name, value in arguments.items():
        if isinstance(value, list):
            listed = enumerate(cast("list[Any]", value)[:20])
            places += [(f"{clean_line(name, 40)}[{at}].", cast("dict[str, Any]", one)) for at, one in listed
                       if isinstance(one, dict)]  # fmt: skip
    found: list[tuple[str, str, str, str, str]] = []
    for where, members in places:
        for old, new in _BEFORE_AFTER:
            before, after = members.get(old), members.get(new)
            if isinstance(before, str) and isinstance(after, str):
                found.append((where, old, new, before, after))
    return found


def compare_texts(title: str, before: str, after: str) -> Difference:
    """Compare two texts by lines; unchanged ones are kept only beside changed ones."""
    old, new = _lines(before), _lines(after)
    if before == after:
        return Difference(f"{title}: no difference")
    if max(len(old), len(new)) > _MOST_LINES:
        return Difference(f"{title}: over {_MOST_LINES:,} lines, not compared")
    blocks = _blocks(old, new)
    added = sum(d - c for kind, _, _, c, d in blocks if kind != "equal")
    removed = sum(b - a for kind, a, b, _, _ in blocks if kind != "equal")
    matcher: Any = SequenceMatcher(None, "", "")
    matcher.opcodes = blocks  # what it would find by comparing without a bound
    rows: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        rows.append(f"@ line {group[0][3] + 1}")
        for kind, a, b, c, d in group:
            if kind == "equal":
                rows += _marked("  ", new[c:d])
            else:
                rows += [*_marked("- ", old[a:b]), *_marked("+ ", new[c:d])]
    if len(rows) > _MOST_ROWS:
        rows = [*rows[:_MOST_ROWS], f"@ {len(rows) - _MOST_ROWS:,} more rows of differences; the whole text is below"]
    return Difference(f"{title}: +{added} −{removed} lines", tuple(rows))


def _lines(text: str) -> list[str]:
    """The lines with their ends; no other character than LF ends one."""
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), *([last] if last else [])]


_Block = tuple[Any, int, int, int, int]


def _blocks(old: list[str], new: list[str]) -> list[_Block]:
    """The blocks that are equal or not; what would take long to compare counts as replaced altogether."""
    start, least = 0, min(len(old), len(new))
    while start < least and old[start] == new[start]:
        start += 1
    end = 0
    while end < least - start and old[-1 - end] == new[-1 - end]:
        end += 1
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    counts: dict[str, int] = {}
    for line in other:
        counts[line] = counts.get(line, 0) + 1
    is_long = max(len(one), len(other)) > _MOST_COMPARED or sum(counts.get(line, 0) for line in one) > _MOST_EQUAL
    inner: list[_Block] = [("replace", 0, len(one), 0, len(other))]
    if not is_long:
        inner = list(SequenceMatcher(None, one, other).get_opcodes())
    out: list[_Block] = [("equal", 0, start, 0, start)] if start else []
    out += [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in inner]
    if end:
        out.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return out


def _marked(mark: str, lines: list[str]) -> list[str]:
    rows: list[str] = []
    for line in lines:
        rows.append(mark + clean(signed(line.removesuffix("\n"))))
        # The end of a line is no news, but that the last one has none is.
        if not line.endswith("\n"):
            rows.append("\\ no line end after this")
    return rows
