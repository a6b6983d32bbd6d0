"""Check whether a person can read a tool call reliably; if not, the call can be allowed only once."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, cast

from mcphost.sanitize import count_unsafe, has_only_plain_spaces, is_sanitized
from mcphost.translation import N_, _

_MAX_CHECKED_CHARACTERS = 10_000
"""Maximum number of joiners and variation selectors whose visibility is checked; 100,000 would take 0.1 s."""
_MAX_CHECKED_LENGTH = 800_000
"""Maximum number of characters that are checked for hidden ones, where a text that is not ASCII counts eightfold."""
_MAX_CHECKED_VALUES = 10_000
_MAX_COMPARED_LENGTH = 200
_MAX_SPACES_IN_NAME = 2
"""Maximum spaces in an argument's name; a name with more spaces could be mistaken for a sentence from mcphost."""

# More combining marks than any script uses, and what makes emoji of one cell look like emoji of several.
_EXCESS_MARKS = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{5}")
_AMBIGUOUS_WIDTH = re.compile("(?<=[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f])\u200d|[\ufe0e\ufe0f]")
_MAX_ZERO_WIDTH = 6
_FIRST_MARK = "\u0300"
_ZERO_WIDTH_CATEGORIES = frozenset({"Mn", "Me", "Mc", "Cf", "Cn"})
_OTHER_ZERO_WIDTH = ((0x1160, 0x11FF), (0xD7B0, 0xD7FF), (0x1F3FB, 0x1F3FF))
"""Hangul vowels and final consonants, and skin tones; terminals draw these characters over the previous one."""


class CallReadability(NamedTuple):
    """Properties of a call's arguments that could mislead a person reading them.

    - `is_checked`: whether the arguments were small enough to be searched completely for hidden characters.
    - `has_hidden_characters`: whether hidden characters were found; also True if `is_checked` is False.
    - `has_unusual_names`: whether the name of an argument could be mistaken for another name or for a label that
      mcphost shows.
    """

    has_hidden_characters: bool
    is_checked: bool
    has_unusual_names: bool


def check_arguments(arguments: dict[str, Any], original: dict[str, Any] | None = None) -> CallReadability:
    """Check whether the arguments of a call can be read reliably.

    If the user has edited the arguments, *original* contains them as they were before.
    """
    hidden = _have_hidden_characters(arguments)
    has_unusual = any(map(is_unusual_name, {**(original or {}), **arguments}))
    return CallReadability(hidden is not False, hidden is not None, has_unusual)


def once_only_reason(server: str, tool: str, arguments: CallReadability) -> str:
    """Return why a call can be allowed only once, or "" if the user may also allow later calls.

    If a call cannot be read reliably, the user cannot tell which later calls a permission would cover. The result is an
    untranslated phrase.
    """
    if arguments.has_hidden_characters or has_hidden_characters(tool) or has_hidden_characters(server):
        if not arguments.is_checked:
            return N_("calls that are too large to check can be allowed once only")
        return N_("calls with hidden characters can be allowed once only")
    if arguments.has_unusual_names:
        return N_("calls with unusual names of arguments can be allowed once only")
    return ""


def has_hidden_characters(text: str) -> bool:
    """Return whether *text* contains hidden or ambiguous characters.

    A tab counts as hidden unless the text has several lines.
    """
    if not is_sanitized(text.replace("\r\n", "\n")) or ("\t" in text and "\n" not in text):
        return True
    return not text.isascii() and (not has_only_plain_spaces(text) or _has_excess_marks(text))


def _have_hidden_characters(arguments: dict[str, Any]) -> bool | None:
    """Return whether any string in the arguments has hidden characters, or None if there is too much text to check."""
    unchecked, room = _MAX_CHECKED_CHARACTERS, _MAX_CHECKED_LENGTH
    for text in iter_texts(arguments, _MAX_CHECKED_VALUES):
        if text is None:
            return None
        room -= len(text) * (1 if text.isascii() else 8)
        if room < 0:
            return None
        if not text.isascii():
            unchecked -= count_unsafe(text, unchecked)
            if unchecked <= 0:
                return True
        if has_hidden_characters(text):
            return True
    return False


def _has_excess_marks(text: str) -> bool:
    """Return whether *text* has characters of ambiguous width, or too many combining marks in a row to be displayed."""
    if _AMBIGUOUS_WIDTH.search(text) or _EXCESS_MARKS.search(text):
        return True
    run = 0
    for character in text:
        run = run + 1 if character >= _FIRST_MARK and _is_zero_width(character) else 0
        if run > _MAX_ZERO_WIDTH:
            return True
    return False


@lru_cache(4_096)
def _is_zero_width(character: str) -> bool:
    """Return whether a terminal might display a character with zero width.

    Unassigned characters are included, because a later Unicode version may define them as combining marks.
    """
    return unicodedata.category(character) in _ZERO_WIDTH_CATEGORIES or any(
        first <= ord(character) <= last for first, last in _OTHER_ZERO_WIDTH
    )


def iter_texts(value: Any, limit: int) -> Iterator[str | None]:
    """Yield every string in a JSON value, including the member names of objects.

    If there are more than *limit* values and names, yield None and stop.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list):
            limit -= len(cast("Any", one)) * (2 if isinstance(one, dict) else 1)
            if limit < 0:
                yield None
                return
            if isinstance(one, dict):
                members = cast("dict[str, Any]", one)
                waiting += [*members.keys(), *members.values()]
            else:
                waiting += cast("list[Any]", one)


def is_unusual_name(name: str) -> bool:
    """Return whether an argument's name could be mistaken for another name or for a label from mcphost."""
    return (
        name != name.strip()
        or not name
        or name[0] in '"▲…'
        or any(part in name for part in ("  ", "\n", "\r", "\t", "⏎", "␉"))
        or name in {"asked for", _("  asked for").strip()}
        or name.endswith((" (text)", _(" (text)")))
        or name.count(" ") > _MAX_SPACES_IN_NAME
        or _looks_like_another(name)
    )


def _looks_like_another(name: str) -> bool:
    """Return whether a name contains letters that look like other letters, or is not in Unicode form NFC."""
    if name.isascii():
        return False
    from mcphost.unicode_forms import describe_name_risk, normalize  # only needed for non-ASCII names

    beginning = name[:_MAX_COMPARED_LENGTH]
    return bool(describe_name_risk(beginning)) or normalize("NFC", beginning) != beginning
