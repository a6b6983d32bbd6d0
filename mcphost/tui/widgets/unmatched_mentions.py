"""Words that begin with "@" in the composer's text but attach nothing, and warnings about them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line

_MAX_WORDS = 50
_MAX_LINES = 100
_MAX_LINE_LENGTH = 2_000
_PUNCTUATION = ".,;:!?)]}\"'"
_BEFORE_SENDING = {
    "unknown": N_("{word} matches no file or resource: it is sent as text."),
    "file": N_("{word} is sent as text, without the file. Tab while you type it attaches the file."),
}
_AFTER_SENDING = {
    "unknown": N_("{word} was sent as text: no file or resource matches it."),
    "file": N_("{word} was sent as text, without the file."),
}


class Mentions:
    """Words that begin with "@" in the user's text, and what was found for each of them.

    A word matches a file, something else, or nothing.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Create an empty collection; *on_change* is called after each call of `record`."""
        self._on_change = on_change
        self._found: dict[str, Literal["unknown", "file", "other"]] = {}

    def record(self, word: str, files: Iterable[str], *, is_unknown: bool) -> None:
        """Record what was found for *word*, which begins with "@".

        *files* are the paths of the matching files; *is_unknown* is true if nothing matches at all.
        """
        name = word[1:].rstrip(_PUNCTUATION).rstrip("/")
        is_file = bool(name) and any(path.rstrip("/") == name for path in files)
        self._found.pop(word, None)
        self._found[word] = "unknown" if is_unknown and name else "file" if is_file else "other"
        if len(self._found) > _MAX_WORDS:
            del self._found[next(iter(self._found))]
        self._on_change()

    def describe_unsent(self, lines: Sequence[str], current: str | None) -> str:
        """Return a hint about the first word in *lines* that attaches nothing, or "" if there is none.

        *current* is the word at the cursor, which the user may still complete.
        """
        return self._describe(lines, _BEFORE_SENDING, lambda word: word != current)

    def describe_sent(self, lines: Sequence[str]) -> str:
        """Return a hint about a word in a sent message that looks like a file name but attached nothing.

        *lines* are the lines of the message. The hint is about the first such word, and is "" if there is none. A word
        such as "@ada" is not considered, because it probably names a person.
        """
        return self._describe(lines, _AFTER_SENDING, self._is_file_name)

    def _describe(self, lines: Sequence[str], descriptions: dict[str, str], is_wanted: Callable[[str], bool]) -> str:
        if not self._found:
            return ""
        for line in lines[:_MAX_LINES]:
            for word in line[:_MAX_LINE_LENGTH].split():
                told = descriptions.get(self._found.get(word, ""))
                if told is not None and is_wanted(word):
                    return _(told).format(word=clean_line(word, 60))
        return ""

    def _is_file_name(self, word: str) -> bool:
        name = word[1:].rstrip(_PUNCTUATION)
        return self._found[word] == "file" or "." in name or "/" in name
