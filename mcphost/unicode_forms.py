"""Unicode normalization of text and URLs in linear time, and detection of names that look alike.

Using only `unicodedata.normalize` is not safe, because it sorts each run of combining marks in quadratic time: 16,000
marks take 150 ms, and 160,000 marks take 15 s.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import combinations
from typing import Literal
from urllib.parse import SplitResult, urljoin, urlsplit

MARKS_LIMIT = 30
"""Maximum length of a run of marks; no writing system needs longer ones (UAX 15, Stream-Safe Text Format)."""
HOST_LIMIT = 255
"""Maximum length of a non-ASCII host name, as in DNS (RFC 1035, 2.3.4)."""
_SHORT_TEXT = 100
_COMBINING_GRAPHEME_JOINER = "\u034f"
_HIDDEN_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # are not combining marks, but decompose to them
_LAST_COMBINING_MARK = 0x1FFFF  # no combining marks follow this code point
_STRIPPED_FROM_URLS = str.maketrans("", "", "\t\r\n")
_AUTHORITY = re.compile(r"//([^/?#]*)")


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Return *text* in a Unicode normal form, with a grapheme joiner after every 30 marks in a row (UAX 15)."""
    if text.isascii():
        return text
    if len(text) > _SHORT_TEXT:
        text = _long_mark_runs().sub(_insert_joiners, text)
    return unicodedata.normalize(form, text)


def split_url(url: str) -> SplitResult:
    """Split a URL like `urlsplit`, but raise ValueError if a non-ASCII host exceeds HOST_LIMIT characters.

    The limit exists because normalizing a long host takes too long. ValueErrors from `urlsplit` propagate.
    """
    _check_host(url)
    return urlsplit(url)


def join_url(base: str, url: str) -> str:
    """Resolve *url* against *base* like `urljoin`, but limit the length of non-ASCII hosts.

    Raises ValueError if a non-ASCII host exceeds HOST_LIMIT characters. ValueErrors from `urljoin` propagate.
    """
    _check_host(base)
    _check_host(url)
    return urljoin(base, url)


def is_loopback_host(host: str) -> bool:
    """Return whether a host name or address refers to this machine.

    Returns False for names that end with `.localhost`, because many resolvers query the network for them.
    """
    from ipaddress import ip_address  # not needed to start

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _check_host(url: str) -> None:
    if not url.isascii():
        authority = _AUTHORITY.search(url.translate(_STRIPPED_FROM_URLS))
        if authority is not None and len(authority[1]) > HOST_LIMIT and not authority[1].isascii():
            raise ValueError(f"a host with letters beyond ASCII has more than {HOST_LIMIT} characters")


@cache
def _long_mark_runs() -> re.Pattern[str]:
    """Return a pattern that matches more than 30 combining or invisible marks in a row.

    The pattern is compiled on first use, because compiling it is slow.
    """
    marks = "".join(chr(code) for code in range(0x300, _LAST_COMBINING_MARK) if unicodedata.combining(chr(code)))
    return re.compile(f"[{re.escape(marks + _HIDDEN_MARKS)}]{{{MARKS_LIMIT + 1},}}")


def _insert_joiners(run: re.Match[str]) -> str:
    marks = run[0]
    return _COMBINING_GRAPHEME_JOINER.join(marks[at : at + MARKS_LIMIT] for at in range(0, len(marks), MARKS_LIMIT))


_CONFUSABLES = {
    "a": "аαɑ", "b": "Ьƅ", "c": "сϲᴄ", "d": "ԁ", "e": "еҽ", "g": "ɡց", "h": "һհ", "i": "іιı", "j": "јϳյ", "k": "κ",
    "l": "ӏʟꞁǀ", "n": "ոп", "o": "оοօσᴏ", "p": "рρ", "q": "ԛզ", "r": "г", "s": "ѕꜱ", "u": "սυʋ", "v": "ѵνᴠ", "w": "ԝωᴡ",
    "x": "хχ", "y": "уγү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙӀ", "J": "Ј",
    "K": "КΚ", "M": "МΜ", "N": "Ν", "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "U": "Ս", "X": "ХΧ",
    "Y": "УΥ", "Z": "Ζ",
    "-": "‐‑‒–—−", ".": "․·", "_": "＿ߺ", "/": "⁄∕",
}  # fmt: skip
"""Characters that most fonts draw like an ASCII character (an excerpt of confusables.txt from UTS 39)."""
_TO_ASCII = str.maketrans({sign: plain for plain, signs in _CONFUSABLES.items() for sign in signs})
_ASCII_CONFUSABLES = str.maketrans("01i|", "olll")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")


def ascii_skeleton(text: str) -> str:
    """Return *text* with each character that looks like an ASCII character replaced by that character."""
    return text if text.isascii() else normalize("NFKC", text.translate(_TO_ASCII))


@lru_cache(1024)
def describe_name_risk(name: str) -> str:
    """Return the reason why a name can be mistaken for another name, or "" if it cannot.

    The reason is a phrase to put after "It", such as "has a name that looks like …".
    """
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
    """Yield pairs of names that look alike in most fonts.

    If more than five names look alike, only the first five are used for pairs.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        skeleton = ascii_skeleton(name).casefold()
        groups.setdefault(skeleton.translate(_ASCII_CONFUSABLES), []).append(name)
    for group in groups.values():
        yield from combinations(group[:5], 2)
