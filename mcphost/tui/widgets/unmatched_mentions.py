"""Hints about words in the composer's text that begin with "@" but attach nothing."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Literal

from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line

_MAX_WORDS = 50
_MAX_LINES = 100
_MAX_LINE_LENGTH = 2_000
_TYPED_LINES = re.compile(r":\d{1,9}(?:-\d{1,9})?\Z")
_PUNCTUATION = ".,;:!?)]}\"'"
_BEFORE_SENDING = {
    "unknown": N_("{word} matches no file or resource: it is sent as text."),
    "file": N_("{word} is attached when you send the message."),
    "other_file": N_("{word} is sent as text, without the file. Tab while you type it attaches the file."),
}
_AFTER_SENDING = {
    "unknown": N_("{word} was sent as text: no file or resource matches it."),
    "file": N_("{word} was sent as text, without the file."),
    "other_file": N_("{word} was sent as text, without the file."),
    "unsearched": N_("{word} was sent as text. Tab while you type it attaches the file."),
}


def list_mentions(text: str) -> list[str]:
    """Return the words of a message that begin with "@", without duplicates.

    Only the beginning of a long message is searched, and the number of words is limited.
    """
    words = (word for line in text.splitlines()[:_MAX_LINES] for word in line[:_MAX_LINE_LENGTH].split())
    return list(dict.fromkeys(word for word in words if word.startswith("@")))[:_MAX_WORDS]


def mentioned_name(word: str) -> str:
    """Return the path or name after the "@" of *word*, without the punctuation that follows it."""
    return word[1:].rstrip(_PUNCTUATION)


class Mentions:
    """Words in the user's text that begin with "@", and what was found for each of them.

    A word can match a file in the working folder, another file or folder, something else, or nothing.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Create an empty collection.

        *on_change* is called after each call of `record`.
        """
        self._on_change = on_change
        self._found: dict[str, Literal["unknown", "file", "other_file", "other"]] = {}

    def record(self, word: str, files: Iterable[str], *, is_unknown: bool) -> None:
        """Record what was found for *word*, which begins with "@".

        *files* are the paths of the matching files. *is_unknown* is true if no file and nothing else matches the word.
        """
        name = mentioned_name(word).rstrip("/")
        found = next((path for path in files if path.rstrip("/") == name), "") if name else ""
        is_inside = not found.endswith("/") and found[:1] not in ("/", "~") and ".." not in found.split("/")
        self._found.pop(word, None)
        is_file: Literal["file", "other_file"] = "file" if is_inside else "other_file"
        self._found[word] = "unknown" if is_unknown and name else is_file if found else "other"
        if len(self._found) > _MAX_WORDS:
            del self._found[next(iter(self._found))]
        self._on_change()

    def describe_unsent(
        self, lines: Sequence[str], current: str | None, attached: Sequence[str] = (), *, is_typed: bool
    ) -> str:
        """Return a hint about a word in *lines* that the user may expect to attach a file, or "" if there is none.

        This is the first word that begins with "@" and names a file or matches nothing, except for *current*, the word
        at the cursor. If the word names a file, the hint states whether sending the message attaches the file. Files
        are attached only if the user typed all of the text (*is_typed*).

        *attached* are the names of the files that are already attached. If there are any, and the text contains a word
        such as ":10-20", the hint is about this word: the user may expect it to select lines of an attached file.
        """
        for line in lines[:_MAX_LINES] if attached else ():
            for word in line[:_MAX_LINE_LENGTH].split():
                if _TYPED_LINES.fullmatch(word):
                    name = _TYPED_LINES.sub("", attached[-1])
                    told = _("{lines} is sent as text. Lines are typed before Tab: {mention}")
                    return told.format(lines=clean_line(word, 20), mention=clean_line(f"@{name}{word}", 80))
        for line in lines[:_MAX_LINES] if self._found else ():
            for word in line[:_MAX_LINE_LENGTH].split():
                kind = self._found.get(word, "")
                told = _BEFORE_SENDING.get("other_file" if kind == "file" and not is_typed else kind)
                if told is not None and word != current:
                    return _(told).format(word=clean_line(word, 60))
        return ""

    def describe_sent(self, words: Iterable[str], files: Container[str]) -> str:
        """Return a hint about the first of *words* that looks like a file, such as "@notes.txt", or "" if none does.

        *words* are the words of a sent message that begin with "@" but attached nothing. *files* contains those words
        of the message that name an existing file. A word such as "@ada" gets no hint; it probably names a person.
        """
        for word in words:
            kind = "file" if word in files else self._found.get(word, "unsearched")
            name = mentioned_name(word)
            if kind in _AFTER_SENDING and (kind.endswith("file") or "." in name or "/" in name):
                return _(_AFTER_SENDING[kind]).format(word=clean_line(word, 60))
        return ""
