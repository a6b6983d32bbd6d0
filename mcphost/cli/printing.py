"""Functions that print the output of commands; control characters never reach a terminal."""

import errno
import math
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from mcphost.cli.colors import StateWord, uses_color
from mcphost.errors import McpHostError, UsageError, join_sentences
from mcphost.sanitize import escape_unsafe_json, sanitize, sanitize_line
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from mcphost.cli.rich_output import MarkdownStream, StatusLine

_MAX_PLAIN_WIDTH = 40
"""Columns of a table without a terminal are padded to at most this many characters."""
_BAR_CELLS = 20
_MAX_MESSAGE_LENGTH = 200
_status: "StatusLine | None" = None
"""The status line that is currently shown, if any."""


def print_text(text: str) -> None:
    """Print text with a final newline; on a terminal, control characters are made visible."""
    end_status()
    shown = sanitize(text) if sys.stdout.isatty() else text
    sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")


def print_markdown(text: str) -> None:
    """Print Markdown, rendered on a terminal; print its source text elsewhere or if NO_COLOR is set."""
    end_status()
    if not uses_color(sys.stdout):
        print_text(text)
        return
    from mcphost.cli.rich_output import draw_markdown

    draw_markdown(text)


def print_dim(text: str) -> None:
    """Print dimmed text, or plain text if stdout does not support color."""
    end_status()
    if not uses_color(sys.stdout):
        print_text(text)
        return
    from mcphost.cli.rich_output import draw_dim

    draw_dim(text)


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    from mcphost.serialization import dumps

    end_status()
    text = dumps(value, indent=2)
    sys.stdout.write((escape_unsafe_json(text) if sys.stdout.isatty() else text) + "\n")


def print_table(rows: Iterable[Sequence[str]], headers: Sequence[str] = (), *, wrap: bool = False) -> None:
    """Print rows as aligned columns; the headers are printed only on a terminal.

    On a terminal, the last column is cut off at the edge of the screen, or continues on the next line if *wrap* is set.
    """
    end_status()
    shown = list(rows)
    if not shown:
        return
    if sys.stdout.isatty():
        from mcphost.cli.rich_output import draw_table

        draw_table(shown, headers, wrap=wrap)
        return
    clean = [[_plain_cell(cell) for cell in row] for row in shown]
    widths = [min(_MAX_PLAIN_WIDTH, max(map(count_cells, column))) for column in zip(*clean, strict=False)]
    for row in clean:
        sys.stdout.write(_plain_row(row, widths))


class GrowingTable:
    """Table that is printed row by row; *widths* are the widths of all columns except the last."""

    def __init__(self, headers: Sequence[str], widths: Sequence[int]) -> None:
        self._headers = headers
        self._widths = widths
        self._has_rows = False

    def print_row(self, cells: Sequence[str]) -> None:
        """Print a row immediately; on a terminal, the headers precede the first row."""
        with _paused_status():
            if sys.stdout.isatty():
                from mcphost.cli.rich_output import draw_row

                widths = [
                    max(count_cells(header), width) for header, width in zip(self._headers, self._widths, strict=False)
                ]
                if not self._has_rows:
                    draw_row(self._headers, widths, is_header=True)
                draw_row(cells, widths)
            else:
                clean = [_plain_cell(cell) for cell in cells]
                sys.stdout.write(_plain_row(clean, self._widths))
            self._has_rows = True
            sys.stdout.flush()


def _plain_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - count_cells(cell)) for cell, width in zip(cells[:-1], widths, strict=False))
    return f"{'  '.join(padded)}  {cells[-1]}".rstrip() + "\n"


def _plain_cell(cell: str) -> str:
    return sanitize(_(cell) if isinstance(cell, StateWord) else cell, keep_newlines=False)


def count_cells(text: str) -> int:
    """Return the width of *text* in terminal columns."""
    if text.isascii():
        return len(text)
    from mcphost.cli.help_text import count_wide_cells

    return count_wide_cells(text)


def translate_counts(text: str) -> str:
    """Translate counts such as "2 tools, 1 resource"."""
    return join_list(map(translate_sentence, text.split(", ")))


def print_note(text: str) -> None:
    """Print a one-line message to standard error, translated if there is a translation."""
    print_line_on_stderr(f"mcphost: {translate_sentence(text)}")


def print_line_on_stderr(line: str) -> None:
    """Print a sanitized line to standard error, above the status line if there is one."""
    with _paused_status():
        sys.stderr.write(f"{sanitize(line, keep_newlines=False)}\n")


def create_markdown_stream() -> "MarkdownStream | None":
    """Return a printer for Markdown that arrives in pieces, or None if stdout does not support color."""
    if not uses_color(sys.stdout):
        return None
    from mcphost.cli.rich_output import MarkdownStream

    return MarkdownStream()


@contextmanager
def show_status(text: str, *, quiet: bool = False) -> Generator[Callable[[str], object]]:
    """Show *text* in a status line on the terminal; the line disappears when the first result is printed.

    No line is shown if *quiet* is set or stdout is not a terminal. Yields a function that changes the text.
    """
    if not quiet and sys.stdout.isatty():
        set_status(text)
    try:
        yield update_status
    finally:
        end_status()


def set_status(text: str) -> bool:
    """Show *text* in the status line; return False if standard error does not support a status line.

    The caller must remove the line with `end_status`.
    """
    global _status  # noqa: PLW0603 - there is one terminal, and whatever prints must clear its last line
    if _status is not None:
        _status.update(text, at_once=True)
        return True
    if not uses_color(sys.stderr):
        return False
    from mcphost.cli.rich_output import StatusLine

    _status = StatusLine(text)
    _status.start()
    return True


def update_status(text: str, *, keep_time: bool = False) -> bool:
    """Change the text of the status line; return False if no status line is shown.

    The displayed elapsed time restarts unless *keep_time* is set.
    """
    if _status is None:
        return False
    _status.update(text, keep_time=keep_time)
    return True


def format_progress(progress: float, total: float | None, message: str) -> str:
    """Return the progress of a tool call as text, with a progress bar if *total* is known."""
    if total is None or not 0 < total < math.inf or not math.isfinite(progress):
        return f"{progress:g} {message[:_MAX_MESSAGE_LENGTH]}".rstrip()
    share = max(0.0, min(1.0, progress / total))
    bar = "█" * round(share * _BAR_CELLS)
    return f"{bar:░<{_BAR_CELLS}} {share:.0%} {message[:_MAX_MESSAGE_LENGTH]}".rstrip()


def end_status() -> None:
    """Remove the status line, if one is shown. Call this before printing a result or a prompt."""
    global _status
    status, _status = _status, None
    if status is not None:
        status.stop()


@contextmanager
def _paused_status() -> Generator[None]:
    status = _status
    if status is None:
        yield
        return
    status.stop()
    try:
        yield
    finally:
        status.start()


def format_error(error: McpHostError) -> str:
    """Return an error's message followed by its hint, in the user's language.

    A message without final punctuation gets a period before the hint.
    """
    return join_sentences(translate_sentence(error.message.rstrip()), translate_sentence(error.hint))


def print_error(error: McpHostError) -> None:
    """Print an error to standard error as one short paragraph: what failed, why, and what to do."""
    with _paused_status():
        sys.stderr.write(f"mcphost: {sanitize_line(format_error(error), 4000)}\n")


def first_line(text: str | None) -> str:
    """Return the first nonblank line without surrounding whitespace, or "" if all lines are blank."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def conversation_not_found(id_prefix: str) -> UsageError:
    """Return the error for an id prefix that matches no stored conversation.

    The prefix is, for example, the value of `--resume`. An empty *id_prefix* means that there are no stored
    conversations.
    """
    return UsageError(
        f"There is no conversation {id_prefix!r}." if id_prefix else "There is no conversation yet.",
        "List them with: mcphost sessions",
    )


def write_output_file(file_name: str, content: bytes) -> None:
    """Write *content* to a new file that only its owner can read, or to a device; see `create_output_file`."""
    with create_output_file(file_name) as file:
        file.write(content)


@contextmanager
def create_output_file(file_name: str) -> Generator[BinaryIO]:
    """Yield a new file that only its owner can read; it appears as *file_name* only when it is complete.

    If *file_name* is an existing pipe or device, it is opened for writing instead. Raises UsageError if *file_name*
    already exists and is not a pipe or device, or if the file cannot be written.
    """
    from pathlib import Path

    from mcphost.config.file_edits import create_complete_file

    target = Path(os.path.expanduser(file_name))
    has_begun = False
    try:
        with _open_device(target) or create_complete_file(target) as file:
            has_begun = True
            yield file
    except OSError as error:
        is_full = has_begun and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        raise UsageError(
            f"{file_name} cannot be written: {error.strerror}.",
            "Choose a file that does not exist yet."
            if isinstance(error, FileExistsError)
            else "Create its folder first, or choose another file."
            if isinstance(error, FileNotFoundError | NotADirectoryError)
            else "Is there enough space?"
            if is_full
            else "Choose another file.",
        ) from error


def _open_device(path: "Path") -> BinaryIO | None:
    """Open a pipe or device for writing; return None if *path* does not exist. Raises OSError."""
    if not os.path.lexists(path):
        return None
    exists = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    if path.is_file() or path.is_dir() or not path.exists():
        raise exists
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):  # replaced since the check
        os.close(descriptor)
        raise exists
    return os.fdopen(descriptor, "wb")
