"""A pseudo-language with replaced letters, which reveals texts that are not translated."""

import re
from gettext import GNUTranslations

from mcphost import translation
from tests.translation.catalog import read

_LETTERS = str.maketrans({chr(ord("a") + number): chr(0x101 + 2 * number) for number in range(26)})
_FIELD = re.compile(r"(\{[^{}]*\}|%\(\w+\)s)")


def disguise(text: str) -> str:
    """Return a text with all letters replaced, except in its fields."""
    return "".join(
        part if part.startswith(("{", "%(")) else part.lower().translate(_LETTERS) for part in _FIELD.split(text)
    )


class PseudoLanguage(GNUTranslations):
    """A language in which each translation is the English text with its letters replaced."""

    def __init__(self) -> None:
        super().__init__()
        mark = f"{translation.SENTENCE}\x04"
        self._catalog = {
            f"{mark}{one.id}": disguise(str(one.id)) for one in read() if one.id and one.context == translation.SENTENCE
        }
        counted = [one.id for one in read() if one.id and not isinstance(one.id, str)]
        self._catalog |= {(str(ids[0]), 0): disguise(ids[0]) for ids in counted}

    def gettext(self, message: str) -> str:
        return disguise(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return disguise(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return disguise(message)
