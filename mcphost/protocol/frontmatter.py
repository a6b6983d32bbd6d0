"""Parser for the front matter of a SKILL.md, and its comparison with the JSON of a server.

Front matter is untrusted YAML. The parser covers the common part of YAML: block and flow collections, plain, quoted and
block scalars, comments. Anchors, aliases, tags, directives and complex keys are refused, so that no input can expand; a
refused document invalidates only its skill.
"""

import re
import string
import sys
from collections.abc import Callable
from typing import Any, cast

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


MAX_SIZE = 64 * 1024
MAX_DEPTH = 16
MAX_NODES = 2_000
MAX_LINES = 5_000
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_BLOCK_SCALAR_HEADER = re.compile(r"[|>](?:([1-9])([+-])?|([+-])([1-9])?)?[ \t]*(?:[ \t]#.*)?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NUMBER = re.compile(
    r"[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|(?:\d[\d_]*+(?:(?<=\d)|\.\d+)|\.\d+)(?:[eE][-+]?\d+)?|\d[\d_]*+\.)"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MIDNIGHT = re.compile(r"T00:00:00(?:\.0+)?Z?")
_QUOTED_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*:(?:[ \t]+|$)""")


def parse_frontmatter(document: str) -> dict[str, Any]:
    """Return the front matter at the start of a text. Raises MalformedMessage for any invalid text.

    Values are dicts, lists, str for quoted scalars, and PlainScalar for unquoted ones.
    """
    lines = re.split(r"\r\n|\r|\n", document.removeprefix("\ufeff")[: MAX_SIZE + 8])
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise MalformedMessage("It does not begin with front matter.")
    end = next((number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line)), 0)
    if not end:
        raise MalformedMessage(f"Its front matter does not end within {MAX_SIZE // 1024} kB.")
    if end > MAX_LINES:
        raise MalformedMessage(f"Its front matter has more than {MAX_LINES:,} lines.")
    return _BlockParser(lines[1:end]).parse_document()


def find_difference(parsed: Any, expected: Any, where: str = "") -> str:
    """Return the path of the first field where *parsed* differs from *expected*, or "".

    A plain scalar equals every value that some version of YAML reads it as.
    """
    if isinstance(parsed, dict) and isinstance(expected, dict):
        parsed_value, expected_value = cast("dict[str, Any]", parsed), cast("dict[str, Any]", expected)
        for key in (*parsed_value, *expected_value):
            name = f"{where}.{key}" if where else key
            if key not in parsed_value or key not in expected_value:
                return name
            if deeper := find_difference(parsed_value[key], expected_value[key], name):
                return deeper
        return ""
    if isinstance(parsed, list) and isinstance(expected, list):
        items, claimed = cast("list[Any]", parsed), cast("list[Any]", expected)
        if len(items) != len(claimed):
            return where
        pairs = enumerate(zip(items, claimed, strict=True))
        return next((deeper for n, (a, b) in pairs if (deeper := find_difference(a, b, f"{where}[{n}]"))), "")
    same = (
        _is_scalar_equal(parsed.text, expected)
        if isinstance(parsed, PlainScalar)
        else isinstance(parsed, str) and parsed == expected
    )
    return "" if same else where or "the front matter"


def _is_scalar_equal(text: str, expected: Any) -> bool:
    if isinstance(expected, str):
        # Some versions of YAML read a date and serialize it as a time.
        return expected == text or bool(
            _DATE.fullmatch(text) and expected.startswith(text) and _MIDNIGHT.fullmatch(expected[10:])
        )
    if expected is None or isinstance(expected, bool):
        return text in _CONSTANTS and _CONSTANTS[text] is expected
    if not isinstance(expected, int | float) or not _NUMBER.fullmatch(text):
        return False
    plain = text.replace("_", "").lower()
    try:
        return expected == (int(plain, 0) if "x" in plain or "o" in plain else float(plain))
    except (ValueError, OverflowError):
        return False


class _BlockParser:
    """A cursor over lines; every method moves it past what it read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._position = 0
        self._node_count = 0

    def parse_document(self) -> dict[str, Any]:
        value = self._parse_block(0, 0)
        if self._peek_line() is not None:
            raise self._error("cannot be understood here")
        if not isinstance(value, dict):
            raise MalformedMessage("Its front matter is no list of fields.")
        return cast("dict[str, Any]", value)

    # -- blocks
    def _peek_line(self) -> tuple[int, str] | None:
        """Return the indentation and the text of the next non-empty line."""
        while self._position < len(self._lines):
            line = self._lines[self._position]
            text = line.lstrip(" ")
            if text and not text.startswith("#") and text.strip():
                if text.startswith("\t"):
                    raise self._error("is indented by tabs")
                return len(line) - len(text), text.rstrip()
            self._position += 1
        return None

    def _parse_block(self, min_indent: int, depth: int) -> Any:
        """Parse a block with at least *min_indent*; return an empty PlainScalar if there is none."""
        self._count_node(depth)
        line = self._peek_line()
        if line is None or line[0] < min_indent:
            return PlainScalar("")
        indent, text = line
        if text == "-" or text.startswith("- "):
            return self._parse_sequence(indent, depth)
        if _split_key(text) is not None:
            return self._parse_mapping(indent, depth)
        return self._parse_scalar(text, min_indent, depth)

    def _parse_mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._peek_line()) is not None and line[0] == indent:
            split = _split_key(line[1])
            if split is None:
                raise self._error("is no field")
            name, rest = split
            if name in found or name in ("<<", "~"):
                raise self._error(f"has the field {name[:60]!r} twice, or one that is no name")
            found[name] = self._parse_value(rest, indent, depth, sequences=indent)
        if (line := self._peek_line()) is not None and line[0] > indent:
            raise self._error("is indented too far")
        return found

    def _parse_sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (
            (line := self._peek_line()) is not None
            and line[0] == indent
            and (line[1] == "-" or line[1].startswith("- "))
        ):
            rest = line[1][1:].lstrip(" ")
            inner = indent + len(line[1]) - len(rest)
            if (
                rest
                and not rest.startswith("#")
                and (_split_key(rest) is not None or rest == "-" or rest.startswith("- "))
            ):
                # The text after the dash is a block of its own that begins on this line.
                self._lines[self._position] = " " * inner + rest
                found.append(self._parse_block(inner, depth + 1))
            else:
                found.append(self._parse_value(rest, indent, depth, sequences=indent + 1))
        return found

    def _parse_value(self, rest: str, indent: int, depth: int, *, sequences: int) -> Any:
        """Parse the value after a key or a dash; *sequences* is the minimum indentation of a list below it."""
        if rest and not rest.startswith("#"):
            return self._parse_scalar(rest, indent + 1, depth + 1)
        self._position += 1
        line = self._peek_line()
        if line is not None and line[0] == sequences and (line[1] == "-" or line[1].startswith("- ")):
            return self._parse_block(sequences, depth + 1)
        return self._parse_block(indent + 1, depth + 1)

    # -- scalars and flow collections
    def _parse_scalar(self, text: str, min_indent: int, depth: int) -> Any:
        """Parse a scalar that begins on this line and may continue below, with at least *min_indent*."""
        self._count_node(depth)
        if text[0] in UNSUPPORTED_INDICATORS:
            raise self._error(f"uses {text[0]!r}, which mcphost does not support")
        self._position += 1
        if text[0] in "|>":
            return self._parse_block_scalar(text, min_indent)
        if text[0] in "\"'[{":
            return self._parse_flow(text, min_indent, depth)
        parts = [_strip_comment(text)]
        # A plain scalar continues while lines are indented more than its key; a comment ends it.
        while parts[-1] == text and self._position < len(self._lines):
            line = self._lines[self._position]
            text = line.strip()
            if text and (text.startswith("#") or len(line) - len(line.lstrip(" ")) < min_indent):
                break
            if text and _split_key(text) is not None:
                raise self._error("has a colon in unquoted text")
            parts.append(_strip_comment(text))
            self._position += 1
        while not parts[-1]:
            parts.pop()
        return PlainScalar(fold_lines(parts))

    def _parse_block_scalar(self, head: str, min_indent: int) -> str:
        match = _BLOCK_SCALAR_HEADER.fullmatch(head)
        if match is None:
            raise self._error("has an unknown type of text block", back=1)
        given = match[1] or match[4]
        chomp = match[2] or match[3] or ""
        body: list[str] = []
        begin = self._position
        indent = min_indent - 1 + int(given) if given else 0
        while self._position < len(self._lines):
            line = self._lines[self._position]
            stands = len(line) - len(line.lstrip(" "))
            if line.strip(" "):
                if not indent and any(len(blank) > stands for blank in self._lines[begin : self._position]):
                    raise self._error("is indented less than the empty lines before it")
                indent = indent or stands
                if stands < max(indent, min_indent):
                    break
            body.append(line[indent:] if indent else "")
            self._position += 1
        text = "\n".join(body) if head[0] == "|" else _fold_block(body)
        whole = text.rstrip("\n")
        if chomp == "+":
            return text + "\n" if body else ""
        return whole + "\n" if not chomp and whole else whole

    def _parse_flow(self, text: str, min_indent: int, depth: int) -> Any:
        """Parse a quoted scalar or a flow collection, which may span several lines."""
        flow = FlowParser(text, lambda: self._next_flow_line(min_indent), self._count_node)
        value = flow.parse_value(depth)
        if not re.fullmatch(r"[ \t]*(?:[ \t]#.*)?", flow.rest):
            raise self._error("continues after its end", back=1)
        return value

    def _next_flow_line(self, min_indent: int) -> str:
        """Return the next line of a flow value, which is empty or has at least *min_indent*."""
        if self._position >= len(self._lines):
            raise self._error("does not end", back=1)
        line = self._lines[self._position]
        if line.strip() and len(line) - len(line.lstrip(" ")) < min_indent:
            raise self._error("does not end", back=1)
        self._position += 1
        return line.strip(" \t")

    # -- limits and errors
    def _count_node(self, depth: int) -> None:
        self._node_count += 1
        if self._node_count > MAX_NODES or depth > MAX_DEPTH:
            raise MalformedMessage(
                f"Its front matter is deeper than {MAX_DEPTH} levels or has over {MAX_NODES:,} values."
            )

    def _error(self, what: str, back: int = 0) -> MalformedMessage:
        return MalformedMessage(f"Line {self._position - back + 2} of its front matter {what}.")


def _split_key(text: str) -> tuple[str, str] | None:
    """Return a field's name and the text after its colon; None if the line begins no field."""
    if text[0] in "\"'":
        match = _QUOTED_KEY.match(text)
        return None if match is None else (_unquote(match[1]), text[match.end() :])
    if text[0] in "[]{},|>#" + UNSUPPORTED_INDICATORS or text == "-" or text.startswith("- "):
        return None
    colons = [at for end in (": ", ":\t") if (at := text.find(end)) > 0]
    at = min(colons, default=len(text) - 1 if text.endswith(":") else 0)
    if at <= 0 or " #" in text[:at]:
        return None
    return text[:at].rstrip(), text[at + 1 :].strip(" \t")


def _unquote(text: str) -> str:
    def nothing() -> str:
        raise MalformedMessage("Its front matter has a field whose name does not end.")

    return str(FlowParser(text, nothing, lambda depth: None).parse_value(0))


def _strip_comment(text: str) -> str:
    """Return a line of a plain scalar without a trailing comment."""
    at = text.find(" #")
    return text if at < 0 else text[:at].rstrip()


def _fold_block(lines: list[str]) -> str:
    """Return the folded lines of a `>` block; lines with more indentation keep their line breaks."""
    out: list[str] = []
    blank, began, deep = 0, False, False
    for line in lines:
        if not line:
            blank += 1
            continue
        deeper = line[0] in " \t"
        stays = began and (deep or deeper)
        out.append("\n" * (blank + stays) if blank or stays or not began else " ")
        out.append(line)
        blank, began, deep = 0, True, deeper
    return "".join(out) + "\n" * blank
