"""Detection of server names that look like others: mixed scripts and confusable characters."""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations

from mcphost.unicode_forms import normalize

_CONFUSABLES = {
    "a": "аαɑ", "b": "Ьƅ", "c": "сϲᴄ", "d": "ԁ", "e": "еҽ", "g": "ɡց", "h": "һհ", "i": "іιı", "j": "јϳյ", "k": "κ",
    "l": "ӏʟꞁǀ", "n": "ոп", "o": "оοօσᴏ", "p": "рρ", "q": "ԛզ", "r": "г", "s": "ѕꜱ", "u": "սυʋ", "v": "ѵνᴠ", "w": "ԝωᴡ",
    "x": "хχ", "y": "уγү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙӀ", "J": "Ј",
    "K": "КΚ", "M": "МΜ", "N": "Ν", "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "U": "Ս", "X": "ХΧ",
    "Y": "УΥ", "Z": "Ζ",
    "-": "‐‑‒–—−", ".": "․·", "_": "＿ߺ", "/": "⁄∕",
}  # fmt: skip
"""Characters that most fonts draw like an ASCII character (a part of confusables.txt of UTS 39)."""
_TO_ASCII = str.maketrans({sign: plain for plain, signs in _CONFUSABLES.items() for sign in signs})
_ASCII_CONFUSABLES = str.maketrans("01i|", "olll")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")


def ascii_skeleton(text: str) -> str:
    """Return *text* with each confusable character replaced by its ASCII look-alike."""
    return text if text.isascii() else normalize("NFKC", text.translate(_TO_ASCII))


@lru_cache(1024)
def describe_name_risk(name: str) -> str:
    """Return the rest of a sentence that begins with "It" if the name can be taken for another one, else ""."""
    if name.isascii():
        return ""
    skeleton = ascii_skeleton(name)
    odd = next((sign for sign in name if not sign.isascii() and unicodedata.category(sign)[0] != "M"), name[0])
    which = f"{odd} (U+{ord(odd):04X} {unicodedata.name(odd, 'a sign without a name')})"
    if skeleton.isascii():
        return f'has a name that looks like "{skeleton}" but is another one: {which}.'
    alphabets = {word for sign in name for word in _SCRIPTS if unicodedata.name(sign, "").startswith(word)}
    if len(alphabets) > 1:
        names = " and ".join(sorted(word.capitalize() for word in alphabets))
        return f"has a name with letters of several scripts ({names}), which can look like another name."
    return ""


def confusable_pairs(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each pair of names that look alike in most fonts."""
    groups: dict[str, list[str]] = {}
    for name in names:
        skeleton = ascii_skeleton(name).casefold()
        groups.setdefault(skeleton.translate(_ASCII_CONFUSABLES), []).append(name)
    for group in groups.values():
        yield from combinations(group[:5], 2)
