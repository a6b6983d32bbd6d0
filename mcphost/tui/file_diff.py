"""Diffs that show what a tool call would change, and code with visible whitespace."""

import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple, cast

import anyio
import anyio.to_thread
from textual.content import Content
from textual.message import Message

from mcphost.bounded_diff import MAX_STEPS, Opcode, compare_lines, group_opcodes
from mcphost.host.questions.questions import ApproveTool
from mcphost.sanitize import mark_literal_marks
from mcphost.translation import _
from mcphost.tui.screen_text import clean, clean_line

_LANGUAGES_BY_SUFFIX = {
    ".bash": "bash", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".css": "css", ".diff": "diff",
    ".go": "go", ".h": "c", ".hpp": "cpp", ".htm": "html", ".html": "html", ".ini": "ini", ".java": "java",
    ".js": "javascript", ".json": "json", ".jsx": "javascript", ".kt": "kotlin", ".lua": "lua", ".md": "markdown",
    ".mjs": "javascript", ".patch": "diff", ".php": "php", ".py": "python", ".rb": "ruby", ".rs": "rust",
    ".scss": "scss",
    ".sh": "bash", ".sql": "sql", ".svg": "xml", ".swift": "swift", ".toml": "toml", ".ts": "typescript",
    ".tsx": "typescript", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml", ".zsh": "bash",
}  # fmt: skip
_LANGUAGES_BY_NAME = {"dockerfile": "docker", "makefile": "make"}
TAB_SIGN, TRAILING_SPACE_SIGN, FINAL_NEWLINE_SIGN, CARRIAGE_RETURN_SIGN = "→   ", "·", "⏎", "␍"
# Each run is matched only from its first character; otherwise the time would be quadratic in the run's length.
_SIGNS = re.compile(
    f"{TAB_SIGN}|(?<!{TRAILING_SPACE_SIGN}){TRAILING_SPACE_SIGN}++(?=\\n|$)|{FINAL_NEWLINE_SIGN}$|{CARRIAGE_RETURN_SIGN}(?=\\n|$)"
)
# Each begins with a class, so that `re` skips other characters without trying a match.
_END = f"[ \\t{TRAILING_SPACE_SIGN}]"
_ENDING_SIGNS = re.compile(rf"({_END}(?<!{_END}{_END}){_END}*+)(?=\r?$)", re.MULTILINE)
_TRAILING_BLANKS = re.compile(r"([ \t](?<![ \t][ \t])[ \t]*+)(?=\r?$)", re.MULTILINE)
_PIECE_LENGTH = 64 * 1024
"""Approximate number of characters in which matches are replaced at a time, to limit the memory for the matches."""
_PATH_WORDS = re.compile(r"(?i)path|file|dir|folder|cwd")
_LINE_LIMIT = 2_000
"""Maximum characters of a line to highlight. Longer lines are rarely source code and take too long."""


def looks_like_path(name: str, value: str) -> bool:
    """Return whether the tool argument *name* with the value *value* looks like a file path.

    This is the case if *value* begins with `/`, `./`, `../` or `~/`, or if *value* is not empty and *name* contains
    a word such as "path" or "file".
    """
    return value.startswith(("/", "./", "../", "~/")) or bool(value and _PATH_WORDS.search(name))


def detect_language(path: str) -> str:
    """Return the programming language suggested by a file's name, or "" if the name suggests none."""
    name = PurePath(path[-300:]).name.casefold()
    return _LANGUAGES_BY_NAME.get(name) or _LANGUAGES_BY_SUFFIX.get(PurePath(name).suffix, "")


def mark_literal_signs(text: str) -> str:
    """Replace characters that look like the symbols of `show_whitespace` with their codes, such as `‹U+00B7›`."""
    if text.isascii():
        return text
    # First, so that the codes that are inserted below are not taken for literal ones.
    text = mark_literal_marks(text).replace(TAB_SIGN, f"‹U+2192›{TAB_SIGN[1:]}")
    return _replace_at_line_ends(_ENDING_SIGNS, text, TRAILING_SPACE_SIGN, "‹U+00B7›")


def show_whitespace(text: str) -> str:
    """Replace tabs, trailing spaces, the CR in CRLF and the final LF with visible symbols."""
    ended = text.endswith("\n")
    text = _replace_at_line_ends(_TRAILING_BLANKS, text[:-1] if ended else text, " ", TRAILING_SPACE_SIGN)
    return text.replace("\t", TAB_SIGN).replace("\r\n", f"{CARRIAGE_RETURN_SIGN}\n") + (
        FINAL_NEWLINE_SIGN if ended else ""
    )


def _replace_at_line_ends(runs: re.Pattern[str], text: str, old: str, new: str) -> str:
    """Replace *old* with *new* in each match of *runs*.

    *runs* must have one group, which contains the whole match, and must not match across lines. Equal matches are
    replaced only once, because a call for each of a million lines would take a second.
    """
    out: list[str] = []
    start = 0
    while start < len(text):
        end = text.find("\n", start + _PIECE_LENGTH) + 1 or len(text)
        pieces = runs.split(text[start:end])
        replaced = {run: run.replace(old, new) for run in set(pieces[1::2])}
        pieces[1::2] = map(replaced.__getitem__, pieces[1::2])
        out.append("".join(pieces))
        start = end
    return "".join(out)


def render_code(text: str, language: str) -> Content:
    """Highlight *text*, as returned by `show_whitespace`, and draw the whitespace symbols in a faint color.

    The characters are not changed. There is no syntax highlighting if *language* is "" or unknown, or if a line is
    longer than 2,000 characters.
    """
    from mcphost.tui.transcript.markdown import highlight_code

    plain = _SIGNS.sub(lambda match: " " * len(match[0]), text)
    short = max(map(len, plain.splitlines()), default=0) <= _LINE_LIMIT
    content = highlight_code(plain, language) if short else Content(plain)
    out = Content(text, spans=list(content.spans)).stylize_before("$text")
    for match in _SIGNS.finditer(text):
        out = out.stylize("$faint", match.start(), match.end())
    return out


FILE_LIMIT = 256 * 1024
"""Maximum size in bytes of a file that is compared."""
READ_SECONDS = 5.0
MAX_REPLACED = 100_000
"""Maximum total length in characters of the old and new texts of a call that are compared."""
_MAX_REPLACEMENTS = 20
_MAX_LINES = 5_000
_MAX_ROWS = 300
_CONTEXT_LINES = 3
_CONTENT_ARGUMENTS = frozenset({
    "content", "contents", "text", "body", "data", "source", "code", "file_text", "filetext", "file_content",
    "filecontent", "new_content", "newcontent",
})  # fmt: skip
_REPLACEMENT_ARGUMENTS = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("oldText", "newText"),
    ("oldString", "newString"), ("search", "replace"),
)  # fmt: skip
_PARTIAL_WRITE_WORDS = ("append", "insert", "prepend", "search", "find", "grep")
_PSEUDO_FILE_SYSTEMS = ("/proc/", "/sys/", "/dev/")


class TextDiff(NamedTuple):
    """A diff for display, with a title and sanitized rows.

    Each row begins with "+ " (added), "- " (removed), two spaces (unchanged) or "@ " (a line number or a note).
    """

    title: str
    rows: tuple[str, ...] = ()


class FileWrite(NamedTuple):
    """A file that a tool call would write.

    It contains the full path, the path as given in the tool call, and the new content.
    """

    path: str
    display_path: str
    text: str


def find_file_write(question: ApproveTool, arguments: dict[str, Any]) -> FileWrite | None:
    """Return the file that the tool call would overwrite, or None if this cannot be determined with certainty.

    It is certain only if the server runs on this machine, the arguments contain exactly one path and exactly one string
    of file content, and the tool's name contains no word such as "append", "insert" or "search".
    """
    if question.folder is None or any(word in question.tool.casefold() for word in _PARTIAL_WRITE_WORDS):
        return None
    given = {name: value for name, value in arguments.items() if isinstance(value, str)}
    texts = [value for name, value in given.items() if name.casefold() in _CONTENT_ARGUMENTS]
    paths = [
        value
        for name, value in given.items()
        if name.casefold() not in _CONTENT_ARGUMENTS and looks_like_path(name, value)
    ]
    if len(paths) != 1 or len(texts) != 1 or _find_replacements(arguments):
        return None
    path = paths[0]
    if not path or clean_line(path, 4096) != path or path.startswith(("~", "-", "@")) or "://" in path:
        return None
    return FileWrite(os.path.join(question.folder, path), path, texts[0])


class FileDiffRequested(Message):
    """Request for the diff between a file and the text that a tool call would write to it.

    `on_compared` is called with the diff, unless the file cannot be read within READ_SECONDS.
    """

    def __init__(self, file_write: FileWrite, on_compared: Callable[[TextDiff], Awaitable[None]]) -> None:
        super().__init__()
        self.file_write, self.on_compared = file_write, on_compared


async def answer_file_diff(request: FileDiffRequested) -> None:
    """Compare the file with the new text in a worker thread, and pass the diff to `request.on_compared`.

    The callback is not called if the file cannot be read within READ_SECONDS.
    """
    found = None
    with anyio.move_on_after(READ_SECONDS):
        found = await anyio.to_thread.run_sync(diff_file, request.file_write, abandon_on_cancel=True)
    if found is not None:
        await request.on_compared(found)


def diff_file(file_write: FileWrite) -> TextDiff | None:
    """Return the diff between a file's content and the new text, or None if the file cannot be read.

    Only a regular file of at most 256 kB is compared. If the file does not exist, is larger or is not UTF-8, the
    diff consists only of a title that states this. Call this function in a worker thread, because it blocks on the
    file system.
    """
    name = clean_line(file_write.display_path, 200)
    try:
        path = os.path.realpath(file_write.path)
        if path.startswith(_PSEUDO_FILE_SYSTEMS):
            return None
        data = _read(path)
    except FileNotFoundError:
        return TextDiff(_("{name} does not exist yet").format(name=name))
    except (OSError, ValueError):
        return None
    if data is None:
        return TextDiff(
            _("{name} is over {file_limit} kB and was not compared").format(name=name, file_limit=FILE_LIMIT // 1024)
        )
    try:
        before = data.decode()
    except UnicodeDecodeError:
        return TextDiff(_("{name} is not text and was not compared").format(name=name))
    return diff_texts(_("{name} now, compared with this text").format(name=name), before, file_write.text)


def _read(path: str) -> bytes | None:
    """Return the content of a regular file, or None if it is larger than FILE_LIMIT bytes.

    Raises OSError if the file cannot be read or is not a regular file.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(_("not a regular file"))
        data = file.read(FILE_LIMIT + 1)
    return None if len(data) > FILE_LIMIT else data


def diff_replacements(arguments: dict[str, Any]) -> tuple[TextDiff, ...]:
    """Return a diff for each pair of arguments that replaces text, such as `old_string` and `new_string`.

    The pairs may be at the top level, or in the first 20 objects of an argument that is a list. Only the first 20 pairs
    are compared, and only until their total length exceeds MAX_REPLACED characters. For the pair that exceeds this
    limit, the result ends with a TextDiff whose title says that the pair was not compared.
    """
    pairs = _find_replacements(arguments)
    steps = MAX_STEPS // max(1, len(pairs))  # all are compared before the question is shown
    left, diffs = MAX_REPLACED, list[TextDiff]()
    for where, old, new, before, after in pairs:
        title = f"{where}{old} → {where}{new}"
        left -= len(before) + len(after)
        if left < 0:
            words = _("{name} is over {file_limit} kB and was not compared")
            diffs.append(TextDiff(words.format(name=title, file_limit=MAX_REPLACED // 1_000)))
            break
        diffs.append(diff_texts(title, before, after, steps))
    return tuple(diffs)


def _find_replacements(arguments: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    places: list[tuple[str, dict[str, Any]]] = [("", arguments)]
    for name, value in arguments.items():
        if isinstance(value, list):
            listed = enumerate(cast("list[Any]", value)[:20])
            places += [(f"{clean_line(name, 40)}[{at}].", cast("dict[str, Any]", one)) for at, one in listed
                       if isinstance(one, dict)]  # fmt: skip
    found: list[tuple[str, str, str, str, str]] = []
    for where, members in places:
        for old, new in _REPLACEMENT_ARGUMENTS:
            before, after = members.get(old), members.get(new)
            if isinstance(before, str) and isinstance(after, str):
                found.append((where, old, new, before, after))
                if len(found) == _MAX_REPLACEMENTS:
                    return found
    return found


def diff_texts(title: str, before: str, after: str, max_steps: int = MAX_STEPS) -> TextDiff:
    """Compare two texts line by line, and show three unchanged lines around each change.

    Texts of more than 5,000 lines are not compared, and the title states this. If an exact comparison would have to
    examine more than *max_steps* pairs of lines, everything between the common beginning and the common end is
    shown as replaced. Only the first 300 rows are returned, followed by a row with the number of omitted rows.
    """
    old, new = _split_lines(before), _split_lines(after)
    if before == after:
        return TextDiff(_("{title}: no difference").format(title=title))
    if max(len(old), len(new)) > _MAX_LINES:
        return TextDiff(_("{title}: over {max_lines:,} lines, not compared").format(title=title, max_lines=_MAX_LINES))
    blocks = compare_lines(old, new, max_steps).opcodes
    added = sum(d - c for kind, _unused, _unused, c, d in blocks if kind != "equal")
    removed = sum(b - a for kind, a, b, _unused, _unused in blocks if kind != "equal")
    pieces = _list_rows(blocks, old, new)
    rows = [_render_row(*piece) for piece in islice(pieces, _MAX_ROWS)]
    if rows_count := sum(1 for _unused in pieces):  # not rendered, because there may be thousands
        rows.append(
            _("@ {rows_count:,} more rows of differences; the whole text is below").format(rows_count=rows_count)
        )
    return TextDiff(
        _("{title}: +{added} −{removed} lines").format(title=title, added=added, removed=removed), tuple(rows)
    )


def _split_lines(text: str) -> list[str]:
    """Split the text after each LF, which remains at the end of its line.

    No other character ends a line.
    """
    *ended, last = text.split("\n")
    return [*(f"{line}\n" for line in ended), *([last] if last else [])]


def _list_rows(blocks: list[Opcode], old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each row of a diff as a sign and a text that is not yet sanitized.

    The sign is "+ " for an added line, "- " for a removed line, and two spaces for an unchanged line. A row with the
    sign "@" begins each group of changes; its text is the line number in *new*. A row with a backslash as the sign
    states that the line above has no final LF.
    """
    for group in group_opcodes(blocks, _CONTEXT_LINES):
        yield "@", str(group[0][3] + 1)
        for kind, a, b, c, d in group:
            listed = (("  ", new[c:d]),) if kind == "equal" else (("- ", old[a:b]), ("+ ", new[c:d]))
            for sign, lines in listed:
                for line in lines:
                    yield sign, line
                    if not line.endswith("\n"):
                        yield "\\", ""


def _render_row(sign: str, line: str) -> str:
    if sign == "@":
        return _("@ line {group}").format(group=line)
    if sign == "\\":
        return _("\\ no newline at end")
    return sign + clean(show_whitespace(mark_literal_signs(line.removesuffix("\n"))))
