"""Comparison of argument names and values that servers may treat as equal.

A comparison is cheap for text of any length, so calls can be compared with rules on the event loop.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from mcphost.config.rules import Value
from mcphost.sanitize import strip_unsafe
from mcphost.unicode_forms import MARKS_LIMIT, normalize

_MAX_EXAMINED = 20_000
"""Maximum number of characters of all names of a call that are compared with the name in a rule."""
_MAX_LENGTH = 200
"""A name or value that is longer, and longer than four times the rule's own, is compared only by its beginning."""
_EXTENDED_BY = 4
_UNSETTLED = MARKS_LIMIT + 20
"""Number of characters at the end of a truncated text whose folded form may depend on the text that was cut off."""
_LIST_INDEX = re.compile(r"\[[0-9]*\]")
_CUT_LIST_INDEX = re.compile(r"\[[0-9]*(?:\]|\Z)")
_WHITESPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"[\d_.e+-]+")
_QUOTES = "\"'`"
_BOOLEAN_WORDS: dict[str, str] = {**dict.fromkeys(["true", "yes", "on", "y", "t"], "1"),
                          **dict.fromkeys(["false", "no", "off", "n", "f"], "0")}  # fmt: skip


class UnclearNameError(Exception):
    """Raised when an argument name is too long to be compared, or there are too many names."""


def normalize_name(name: str) -> str:
    """Return a name's letters and digits, case-folded and without accents and list indexes, for comparisons."""
    return "".join(map(_normalize_character, _LIST_INDEX.sub("", name)))


@lru_cache(4096)
def _normalize_character(char: str) -> str:
    folded = normalize("NFKD", normalize("NFKD", char).casefold())
    return "".join(filter(str.isalnum, strip_unsafe(folded)))


class NameComparison:
    """Comparison of the argument names of one call with a name in a rule, within a limit on the characters examined."""

    def __init__(self) -> None:
        self._left = _MAX_EXAMINED

    def count_spelled(self, name: str, wanted: str) -> int | None:
        """Return the length of the normalized *name* if *wanted* begins with it, else None.

        *wanted* must be normalized already. Raises UnclearNameError if *name* is too long, or if 20,000 characters
        have been examined in total.
        """
        limit = _MAX_LENGTH + _EXTENDED_BY * len(wanted)
        beginning = name[:limit]
        if "[" in beginning:
            beginning = (_CUT_LIST_INDEX if len(name) > limit else _LIST_INDEX).sub("", beginning)
        self._left -= 1
        length = 0
        for char in beginning:
            self._left -= 1
            if self._left < 0:
                raise UnclearNameError
            letters = _normalize_character(char)
            if not wanted.startswith(letters, length):
                return None
            length += len(letters)
        if len(name) > limit or self._left < 0:
            raise UnclearNameError
        return length


def may_equal(value: Value, wanted: Iterable[Value]) -> bool:
    """Return whether a server may treat *value* as equal to one of *wanted*.

    Differences in case, white space and quotes are ignored, and a number written as text counts as a number.
    """
    texts = [_to_text(one) for one in wanted]
    if isinstance(value, str):
        limit = _MAX_LENGTH + _EXTENDED_BY * max(map(len, texts), default=0)
        if len(value) > limit:
            beginning = _fold(value[:limit]).lstrip(_QUOTES)
            return any(_may_become(beginning, text) for text in texts)
    try:
        text = _to_text(value)
    except ValueError:
        return False
    return any(text == one or _is_same_number(text, one) for one in texts)


def _may_become(beginning: str, wanted: str) -> bool:
    """Return whether text that begins with *beginning* may be equal to *wanted*.

    Both must be normalized by `_fold`.
    """
    if len(beginning) < len(wanted) + _UNSETTLED:
        return True
    text = beginning.rstrip(_QUOTES)
    return _BOOLEAN_WORDS.get(text, text) == wanted or _NUMBER.fullmatch(text) is not None


def _is_same_number(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except (ValueError, OverflowError):
        return False


def _to_text(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    text = _fold(str(value)).strip(_QUOTES)
    return _BOOLEAN_WORDS.get(text, text)


def _fold(text: str) -> str:
    return _WHITESPACE.sub("", strip_unsafe(normalize("NFKC", text)).casefold())
