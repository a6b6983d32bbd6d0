"""Prints for people and programs; nothing from outside reaches a terminal with its control characters."""

import sys
from collections.abc import Iterable
from typing import Any, cast

from mcphost.errors import McpHostError, UsageError
from mcphost.sanitize import escape_unsafe_json, sanitize


def print_text(text: str) -> None:
    """One piece of output with a line end; cleaned when a terminal shows it, as it is for a file or a program."""
    shown = sanitize(text) if sys.stdout.isatty() else text
    sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")


def print_json(value: Any) -> None:
    """One JSON document."""
    from mcphost.serialization import dumps

    text = dumps(value, indent=2)
    sys.stdout.write((escape_unsafe_json(text) if sys.stdout.isatty() else text) + "\n")


def print_note(text: str) -> None:
    """One line for people, on stderr."""
    sys.stderr.write(f"mcphost: {sanitize(text, keep_newlines=False)}\n")


def format_error(error: McpHostError) -> str:
    """What failed, why, what to do; a message that ends without a full stop gets one before its hint."""
    message = error.message.rstrip()
    ended = not error.hint or message.endswith((".", "!", "?", ":", ";", "…"))
    return f"{message if ended else message + '.'} {error.hint}".strip()


def print_error(error: McpHostError) -> None:
    """One short paragraph: what failed, why, what to do."""
    print_note(format_error(error)[:4000])


def print_row(cells: tuple[str, ...], widths: tuple[int, ...]) -> None:
    """One row of a table whose other rows are not known yet, at once; cut like the rows of `table`."""
    _print_line(tuple(sanitize(cell, keep_newlines=False) for cell in cells), widths)
    sys.stdout.flush()


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Columns that line up; the last one is cut to the terminal's width, when there is a terminal."""
    shown = [tuple(sanitize(cell, keep_newlines=False) for cell in row) for row in rows]
    if not shown:
        return
    widths = [min(40, max(len(cells[column]) for cells in shown)) for column in range(len(shown[0]) - 1)]
    for cells in shown:
        _print_line(cells, tuple(widths))


def _print_line(cells: tuple[str, ...], widths: tuple[int, ...]) -> None:
    from shutil import get_terminal_size

    limit = get_terminal_size().columns if sys.stdout.isatty() else 0
    start = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
    line = f"{start}  {cells[-1]}".rstrip()
    sys.stdout.write((line if not limit or len(line) <= limit else line[: limit - 1] + "…") + "\n")


def first_line(text: str | None) -> str:
    """The first line of a description that has something in it."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def unwrap_error(error: BaseException) -> BaseException:
    """The one error that matters in a group; our own wins over its companions."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", inner)
        inner = (group.subgroup(McpHostError) or group).exceptions[0]
    return inner


def conversation_not_found(id_prefix: str) -> UsageError:
    """The error for `--resume` with an id prefix, or "" for the latest, that no stored conversation has."""
    wanted = f"There is no conversation {id_prefix!r}." if id_prefix else "There is no conversation yet."
    return UsageError(wanted, "List them with: mcphost sessions")
