"""Parser for lines such as `NAME=VALUE` and `NAME: VALUE`, in which users type environment variables and headers."""

import re
from typing import Literal

from mcphost.config.env_file import unquote
from mcphost.errors import UsageError

PairSeparator = Literal["=", ":"]
"""The character after the name: "=" for environment variables, ":" for headers."""

PAIR_FORMS: dict[PairSeparator, str] = {"=": "Write NAME=VALUE.", ":": "Write NAME: VALUE."}
"""Hints that show how a pair is written."""

_EXPORT = re.compile(r"^export\s+")
_NAMES = {
    "=": re.compile(r"[A-Za-z0-9_.-]{1,200}"),  # as in an environment file
    ":": re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}"),  # RFC 9110, section 5.6.2
}


def split_pair_line(line: str, separator: PairSeparator) -> tuple[str, str, str]:
    """Split a line at the first *separator*; return the name, the separator and the value.

    The separator is "" if the line contains none. White space around the name is removed, and so is `export` before
    the name of a variable. The value is not changed.
    """
    name, found, value = line.partition(separator)
    name = name.strip()
    return _EXPORT.sub("", name) if separator == "=" else name, found, value


def is_pair_name(name: str, separator: PairSeparator) -> bool:
    """Return whether a variable (*separator* "=") or a header (":") can have this name."""
    return _NAMES[separator].fullmatch(name) is not None


def pair_key(name: str, separator: PairSeparator) -> str:
    """Return a key for comparing names: header names are case-insensitive, variable names are not.

    *separator* is ":" for headers or "=" for variables.
    """
    return name if separator == "=" else name.lower()


def parse_pair_lines(text: str, separator: PairSeparator) -> dict[str, str]:
    """Parse lines of names and values; return the values, keyed by name. Blank lines are ignored.

    *separator* is "=" for variables or ":" for headers. White space around a value is removed, and so are the
    quotes around the value of a variable. Only variables may have an empty value. Raises UsageError with the
    number of the first invalid line; the message does not quote the line, which may contain a secret.
    """
    form = PAIR_FORMS[separator]
    pairs: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, found, value = split_pair_line(line, separator)
        value = value.strip()
        if not name:
            raise UsageError(f"Line {number} has no name.", form)
        if not found or (separator == ":" and not value):
            raise UsageError(f"Line {number} has no value.", form)
        if not is_pair_name(name, separator):
            raise UsageError(f"The name in line {number} has a space or an unusual character.", form)
        first = lines.setdefault(pair_key(name, separator), number)
        if first != number:
            raise UsageError(f"Line {number} has the same name as line {first}.", "Delete one of them.")
        unquoted = unquote(value) if separator == "=" else None
        pairs[name] = value if unquoted is None else unquoted
    return pairs
