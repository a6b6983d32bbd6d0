"""Flow-style YAML of front matter: quoted scalars, lists in brackets, mappings in braces."""

import string
import sys
from collections.abc import Callable
from typing import Any

from mcphost.errors import MalformedMessage
from mcphost.serialization import Struct

UNSUPPORTED_INDICATORS = "&*!%@`?"
"""The indicators of anchors, aliases, tags, directives, reserved words and complex keys."""
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEX = {"x": 2, "u": 4, "U": 8}
_DIGITS = frozenset(string.hexdigits)


class PlainScalar(Struct, frozen=True):
    """An unquoted scalar; its type differs between versions of YAML and is left open."""

    text: str


class FlowParser:
    """A parser of flow-style YAML that requests further lines as needed."""

    def __init__(self, line: str, next_line: Callable[[], str], count_node: Callable[[int], None]) -> None:
        self._line = line
        self._pos = 0
        self._next_line = next_line
        self._count_node = count_node

    @property
    def rest(self) -> str:
        """The unread part of the line."""
        return self._line[self._pos :]

    def parse_value(self, depth: int) -> Any:
        """Return the next value. Raises MalformedMessage."""
        self._count_node(depth)
        match self._peek():
            case "[":
                return self._parse_sequence(depth)
            case "{":
                return self._parse_mapping(depth)
            case '"':
                return self._parse_double_quoted()
            case "'":
                return self._parse_single_quoted()
            case _:
                return PlainScalar(self._parse_plain())

    def _peek(self) -> str:
        """Return the next character that is neither a space nor a comment."""
        while True:
            while self._pos < len(self._line) and self._line[self._pos] in " \t":
                self._pos += 1
            comment = self._line[self._pos : self._pos + 1] == "#" and self._line[self._pos - 1 : self._pos] in (
                "",
                " ",
                "\t",
            )
            if self._pos < len(self._line) and not comment:
                return self._line[self._pos]
            self._line, self._pos = self._next_line(), 0

    def _parse_sequence(self, depth: int) -> list[Any]:
        self._pos += 1
        found: list[Any] = []
        while self._peek() != "]":
            found.append(self.parse_value(depth + 1))
            self._expect_comma("]")
        self._pos += 1
        return found

    def _parse_mapping(self, depth: int) -> dict[str, Any]:
        self._pos += 1
        found: dict[str, Any] = {}
        while self._peek() != "}":
            key = self.parse_value(depth + 1)
            name = key.text if isinstance(key, PlainScalar) else key
            if not isinstance(name, str) or name in found or name == "<<":
                raise MalformedMessage("Its front matter has a field in braces that is no field, or is there twice.")
            if self._peek() == ":":
                self._pos += 1
                found[name] = PlainScalar("") if self._peek() in ",}" else self.parse_value(depth + 1)
            else:
                found[name] = PlainScalar("")
            self._expect_comma("}")
        self._pos += 1
        return found

    def _expect_comma(self, end: str) -> None:
        char = self._peek()
        if char == ",":
            self._pos += 1
        elif char != end:
            raise MalformedMessage(f"Its front matter has {char!r} where a comma or {end!r} belongs.")

    def _parse_plain(self) -> str:
        parts: list[str] = []
        while True:
            begin = self._pos
            while self._pos < len(self._line) and not self._is_at_scalar_end():
                self._pos += 1
            parts.append(self._line[begin : self._pos].strip(" \t"))
            if self._pos < len(self._line) and self._line[self._pos] != "#":
                break
            if self._peek() in ",]}:":
                break
        if not parts[0] or parts[0][0] in UNSUPPORTED_INDICATORS:
            raise MalformedMessage(f"Its front matter has {self._line[self._pos :][:1]!r} where a value belongs.")
        return fold_lines(parts)

    def _is_at_scalar_end(self) -> bool:
        char, after = self._line[self._pos], self._line[self._pos + 1 : self._pos + 2]
        if char == "#":
            return self._line[self._pos - 1 : self._pos] in (" ", "\t")
        return char in ",[]{}" or (char == ":" and after in ("", " ", "\t", ",", "]", "}"))

    def _parse_single_quoted(self) -> str:
        parts: list[str] = []
        self._pos += 1
        while True:
            end = self._line.find("'", self._pos)
            while end >= 0 and self._line[end + 1 : end + 2] == "'":
                end = self._line.find("'", end + 2)
            if end >= 0:
                parts.append(self._line[self._pos : end].replace("''", "'"))
                self._pos = end + 1
                return fold_lines(parts)
            parts.append(self._line[self._pos :].replace("''", "'").rstrip(" \t"))
            self._line, self._pos = self._next_line(), 0

    def _parse_double_quoted(self) -> str:
        parts: list[str] = []
        piece: list[str] = []
        self._pos += 1
        while True:
            if self._pos >= len(self._line):
                parts.append("".join(piece).rstrip(" \t"))
                piece = []
                self._line, self._pos = self._next_line(), 0
                continue
            char = self._line[self._pos]
            self._pos += 1
            if char == '"':
                return fold_lines([*parts, "".join(piece)])
            piece.append(self._parse_escape() if char == "\\" else char)

    def _parse_escape(self) -> str:
        char = self._line[self._pos : self._pos + 1]
        self._pos += 1
        if char in _HEX:
            digits = self._line[self._pos : self._pos + _HEX[char]]
            self._pos += _HEX[char]
            if len(digits) == _HEX[char] and set(digits) <= _DIGITS and int(digits, 16) <= sys.maxunicode:
                return chr(int(digits, 16))
        elif char in _ESCAPES and char:
            return _ESCAPES[char]
        raise MalformedMessage(f"Its front matter has the unknown escape {char!r}.")


def fold_lines(lines: list[str]) -> str:
    """Return folded lines of a scalar: a line break becomes a space, empty lines become line breaks."""
    out = [lines[0]]
    blank = 0
    for number, line in enumerate(lines[1:], 2):
        if not line and number < len(lines):
            blank += 1
            continue
        out += ["\n" * blank or " ", line]
        blank = 0
    return "".join(out)
