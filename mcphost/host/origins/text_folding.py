"""Folding of text for comparison: ignores case, width, accents, look-alikes and invisible characters."""

import re
import unicodedata
from array import array
from collections.abc import Iterator
from itertools import compress

from mcphost.sanitize import strip_unsafe
from mcphost.unicode_forms import ascii_skeleton, normalize

_TABLE_LIMIT = 20_000
_PIECE = 32 * 1024
"""Number of characters folded in one step; a thread that folds a long text in one step stops all others."""
_QUOTES = str.maketrans(dict.fromkeys('"`‘’‚‛“”„‟«»‹›′″＂＇', "'"))
_SPACES = re.compile("  +")
_REMOVED = re.compile("(?<= ) +|\0+")
_NOT_LETTERS = re.compile(r"[\W_]+")
_ASCII_NOT_LETTERS = {code: None for code in range(128) if not chr(code).isalnum()}
_IDEOGRAPHS = ((0x3400, 0xA000), (0x20000, 0x2F800))


class _FoldTable(dict[int, str]):
    """Table for `str.translate` that computes each character's folded form on first use."""

    def __missing__(self, code: int) -> str:
        if any(first <= code < end for first, end in _IDEOGRAPHS):
            return chr(code)
        folded = _fold_character(chr(code))
        if len(self) < _TABLE_LIMIT:
            self[code] = folded
        return folded


def _fold_character(char: str) -> str:
    if char.isspace():
        return " "
    plain = normalize("NFKD", ascii_skeleton(char)).casefold().translate(_QUOTES)
    return "".join(part for part in strip_unsafe(plain) if unicodedata.category(part)[0] not in "MZC")


_TABLE = _FoldTable()


class _SameLengthTable(dict[int, str]):
    """Table for `str.translate` that folds each character to one character, or keeps it if that is impossible."""

    def __missing__(self, code: int) -> str:
        folded = _TABLE[code]
        kept = folded if len(folded) == 1 else chr(code)
        if len(self) < _TABLE_LIMIT:
            self[code] = kept
        return kept


class _RemovalTable(dict[int, str]):
    """Table for `str.translate` that replaces each character with a mark for how `fold` treats it.

    White space becomes a space, characters that `fold` removes become NUL, and all others become "x".
    """

    def __missing__(self, code: int) -> str:
        mark = {"": "\0", " ": " "}.get(_TABLE[code], "x")
        if len(self) < _TABLE_LIMIT:
            self[code] = mark
        return mark


# Each ASCII character is folded to one character or removed, which is NUL here.
_ASCII_FOLDED = {code: _TABLE[code] or "\0" for code in range(128)}
_SPACE_FLAGS = bytes(code == 0x20 for code in range(256))
_LETTER_FLAGS = bytes(chr(code).isalnum() and code < 128 for code in range(256))
_SAME_LENGTH = _SameLengthTable()
_REMOVALS = _RemovalTable()


def fold(text: str) -> str:
    """Return *text* in a form for comparisons, without differences in case, accents, white space and the like.

    Each run of white space becomes one space. Takes time linear in the length of the text.
    """
    return "".join(_fold_pieces(text))


def _fold_pieces(text: str) -> Iterator[str]:
    was_space = False
    for at in range(0, len(text), _PIECE):
        piece = _SPACES.sub(" ", text[at : at + _PIECE].translate(_TABLE))
        if was_space and piece.startswith(" "):
            piece = piece[1:]
        if piece:
            was_space = piece.endswith(" ")
            yield piece


def fold_same_length(text: str) -> str:
    """Return *text* folded like `fold`, but with its length unchanged.

    Runs of white space and invisible characters are kept. A character whose folded form is longer is not folded.
    """
    return "".join(text[at : at + _PIECE].translate(_SAME_LENGTH) for at in range(0, len(text), _PIECE))


def removed_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of *text* that `fold` removes, such as the second of two spaces."""
    marks = "".join(text[at : at + _PIECE].translate(_REMOVALS) for at in range(0, len(text), _PIECE))
    for run in _REMOVED.finditer(marks):
        yield run.span()


def keep_letters(folded: str) -> str:
    """Return only the letters and digits of folded text."""
    if folded.isascii():
        return folded.translate(_ASCII_NOT_LETTERS)
    return "".join(_NOT_LETTERS.sub("", folded[at : at + _PIECE]) for at in range(0, len(folded), _PIECE))


class FoldedText:
    """Folded text with each character's position in the original; `letters` contains only letters and digits.

    Folding stops once the folded text has *limit* characters; `is_cut` is then True. One original character can
    become up to 18 folded characters.
    """

    def __init__(self, original: str, limit: int) -> None:
        self.is_cut = False
        self.places, self.letter_places = array("I"), array("I")
        texts: list[str] = []
        letters: list[str] = []
        was_space, left = False, limit
        for at in range(0, len(original), _PIECE):
            piece = original[at : at + _PIECE]
            if piece.isascii() and len(piece) <= left:
                text, was_space = self._fold_ascii(piece, at, was_space=was_space)
                letters.append(text.translate(_ASCII_NOT_LETTERS))
            else:
                text, was_space = self._fold_piece(piece, at, left, was_space=was_space)
                letters.append("".join(filter(str.isalnum, text)))
            left -= len(text)
            texts.append(text)
            if self.is_cut:
                break
        self.text, self.letters = "".join(texts), "".join(letters)

    def _fold_ascii(self, piece: str, start: int, *, was_space: bool) -> tuple[str, bool]:
        """Fold a piece like `_fold_piece`, ten times as fast; it must be ASCII and not longer than the limit.

        A byte stands for each character, because operations on bytes, and on integers made of them, need no loop.
        """
        data, places = piece.translate(_ASCII_FOLDED).encode(), array("I", range(start, start + len(piece)))
        if b"\0" in data:
            places = array("I", compress(places, data))
            data = data.replace(b"\0", b"")
        if not data:
            return "", was_space
        spaces = data.translate(_SPACE_FLAGS)
        after_spaces = bytes([was_space]) + spaces[:-1]
        repeated = int.from_bytes(spaces) & int.from_bytes(after_spaces)
        if repeated:
            kept = (repeated ^ int.from_bytes(b"\1" * len(data))).to_bytes(len(data))
            places, data = array("I", compress(places, kept)), bytes(compress(data, kept))
        self.places.extend(places)
        self.letter_places.extend(compress(places, data.translate(_LETTER_FLAGS)))
        return data.decode(), spaces[-1] == 1

    def _fold_piece(self, piece: str, start: int, limit: int, *, was_space: bool) -> tuple[str, bool]:
        """Return the folded text of a piece that begins at *start*, and whether it ends with a space.

        At most *limit* characters are folded. *was_space* means that the folded text before the piece ends with a
        space.
        """
        text: list[str] = []
        places, letter_places = self.places, self.letter_places
        for place, char in enumerate(piece, start):
            if len(text) >= limit:
                self.is_cut = True
                break
            folded = _TABLE[ord(char)]
            is_space = folded == " "
            if is_space and was_space:
                continue
            if folded:
                was_space = is_space
            for part in folded:
                text.append(part)
                places.append(place)
                if part.isalnum():
                    letter_places.append(place)
        return "".join(text), was_space
