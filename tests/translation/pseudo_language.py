"""A pseudo-language with replaced letters, which reveals texts that are not translated."""

import re
from functools import cache
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


@cache
def _translations() -> dict[str | tuple[str, int], str]:
    """Return the translations as gettext keeps them; reading the catalog takes as long as a whole test."""
    texts = [one for one in read() if one.id]
    mark = f"{translation.SENTENCE}\x04"
    sentences = [str(one.id) for one in texts if one.context == translation.SENTENCE]
    counted = [str(one.id[0]) for one in texts if not isinstance(one.id, str)]
    return {
        **{f"{mark}{sentence}": disguise(sentence) for sentence in sentences},
        **{(singular, 0): disguise(singular) for singular in counted},
    }


class PseudoLanguage(GNUTranslations):
    """A language in which each translation is the English text with its letters replaced."""

    def __init__(self) -> None:
        super().__init__()
        self._catalog = dict(_translations())

    def gettext(self, message: str) -> str:
        return disguise(message)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return disguise(msgid1 if n == 1 else msgid2)

    def pgettext(self, context: str, message: str) -> str:
        return disguise(message)
