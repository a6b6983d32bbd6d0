"""Positions of the tables in the text of a TOML file, so that an edit leaves the comments of other tables alone."""

import tomllib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, cast

_MAX_HEADER = 1_000
_MAX_KEY_PARTS = 50


class TomlSection(NamedTuple):
    """A table with a header such as `[a.b]`: the `keys` in the header, and the table's position in the text.

    `end` is the end of its last value. Blank lines and comments after it, up to the next table, are not part of it.
    """

    keys: tuple[str, ...]
    start: int
    end: int


def find_sections(text: str) -> Iterator[TomlSection]:
    """Yield the tables of *text*, which is valid TOML, in order.

    A line that only looks like a header, such as one in a multi-line string, is mistaken for one. Callers therefore
    compare the values before and after an edit.
    """
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if line.lstrip(" \t").startswith("[")]
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))
    for first, following in pairwise([*headers, len(lines)]):
        keys = _read_keys(lines[first])
        if keys:
            yield TomlSection(keys, offsets[first], offsets[_find_content_end(lines, first, following)])


def _find_content_end(lines: list[str], first: int, following: int) -> int:
    """Return the number of the line after the last value of the table whose header is the line *first*.

    Comments directly below the last value belong to the table if a blank line separates them from what follows.
    """
    end = following
    while end > first + 1 and _is_blank_or_comment(lines[end - 1]):
        end -= 1
    blank = next((number for number in range(end, following) if not lines[number].strip()), None)
    return end if blank is None else blank


def _is_blank_or_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _read_keys(line: str) -> tuple[str, ...]:
    """Return the keys in the header of a table, or () if *line* is not a header."""
    if line.lstrip().startswith("[[") or len(line) > _MAX_HEADER or line.count(".") > _MAX_KEY_PARTS:
        return ()
    try:
        table: Any = tomllib.loads(line)
    except ValueError:
        return ()
    keys: list[str] = []
    while isinstance(table, dict) and table:
        key, table = next(iter(cast("dict[str, Any]", table).items()))
        keys.append(key)
    return tuple(keys)
