"""Parsing of the YAML front matter in a SKILL.md, and its comparison with the JSON that the server sent.

Front matter is untrusted. Only PyYAML's parser events are used, so that limits are checked before any value is built,
and no tag is ever resolved. Anchors, aliases, tags, directives, complex keys and duplicate keys are rejected, so that a
short document cannot expand into a large value. A rejected document invalidates only the skill that it belongs to.
"""

import re
from typing import Any, NoReturn, cast

import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from mcphost.errors import MalformedMessage
from mcphost.serialization import Struct

MAX_SIZE = 32 * 1024
"""Maximum number of characters; scanning this number takes at most 25 ms."""
MAX_DEPTH = 16
MAX_NODES = 2_000
MAX_LINES = 5_000
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
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


class PlainScalar(Struct, frozen=True):
    """An unquoted scalar, kept as text because its type can depend on the YAML version (`yes`, `1_0`)."""

    text: str


def parse_frontmatter(document: str) -> dict[str, Any]:
    """Parse the front matter at the start of *document*. Raises MalformedMessage if it is missing or invalid.

    Values are dicts, lists, strings for quoted scalars, and PlainScalar for unquoted ones.
    """
    lines = re.split(r"\r\n|\r|\n", document.removeprefix("\ufeff")[: MAX_SIZE + 8])
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise MalformedMessage("It does not begin with front matter.")
    end = next((number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line)), 0)
    if not end:
        raise MalformedMessage(f"Its front matter does not end within {MAX_SIZE // 1024} kB.")
    if end > MAX_LINES:
        raise MalformedMessage(f"Its front matter has more than {MAX_LINES:,} lines.")
    try:
        return _Builder("\n".join(lines[1:end]) + "\n").build_document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _error(line, f"is not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise MalformedMessage("Its front matter has characters or escapes that YAML does not allow.") from error


def find_difference(parsed: Any, expected: Any, where: str = "") -> str:
    """Return the path of the first field in which *parsed* and *expected* differ, or "" if they are equal.

    *where* is the path of the two values within the front matter, to which the names of nested fields are appended. A
    PlainScalar is equal to every value that its text represents in any version of YAML.
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


class _Events(Reader, Scanner, Parser):
    """PyYAML's event parser, restricted so that it rejects features used only by hostile front matter.

    Anchors, aliases, tags, directives and complex keys are errors.
    """

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def _refuse(self) -> NoReturn:
        line, char = int(self.line), str(self.peek())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        raise _error(line, f"uses {char!r}, which mcphost does not support")

    fetch_alias = fetch_anchor = fetch_tag = fetch_directive = fetch_key = _refuse

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:  # noqa: N803 - the name in PyYAML
        # The scanner reads ahead of the events, in quadratic time for nested collections.
        if self.flow_level > MAX_DEPTH:
            raise _too_large_error()
        super().fetch_flow_collection_start(TokenClass)  # pyright: ignore[reportUnknownMemberType]


class _Builder:
    """Builder that turns parser events into values, with limits on their number and depth."""

    def __init__(self, text: str) -> None:
        self._events = _Events(text)
        self._node_count = 0

    def build_document(self) -> dict[str, Any]:
        """Build the front matter's single YAML document, and return its fields as a dict.

        Raises MalformedMessage if the document is not a mapping, or if another document follows.
        """
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, yaml.DocumentStartEvent) and not start.explicit:
            value = self._build(self._next(), 0)
            self._next()  # the end of the document
            if isinstance(value, dict) and isinstance(self._next(), yaml.StreamEndEvent):
                return cast("dict[str, Any]", value)
        raise MalformedMessage("Its front matter is not a list of fields.")

    def _next(self) -> yaml.Event:
        return cast("yaml.Event", self._events.get_event())  # pyright: ignore[reportUnknownMemberType]

    def _build(self, event: yaml.Event, depth: int) -> Any:
        self._node_count += 1
        if self._node_count > MAX_NODES or depth > MAX_DEPTH:
            raise _too_large_error()
        if isinstance(event, yaml.MappingStartEvent):
            return self._build_mapping(depth)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := self._next(), yaml.SequenceEndEvent):
                items.append(self._build(event, depth + 1))
            return items
        scalar = cast("yaml.ScalarEvent", event)
        return PlainScalar(scalar.value) if scalar.implicit[0] else scalar.value

    def _build_mapping(self, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._build(event, depth + 1)
            name = key.text if isinstance(key, PlainScalar) else key
            is_name = isinstance(key, str) or (isinstance(key, PlainScalar) and key.text not in ("", "<<", "~"))
            if not is_name or name in fields:
                raise _error(event.start_mark.line, "has a field twice, or one that is not a name")
            fields[name] = self._build(self._next(), depth + 1)
        return fields


def _error(line: int, what: str) -> MalformedMessage:
    return MalformedMessage(f"Line {line + 2} of its front matter {what}.")


def _too_large_error() -> MalformedMessage:
    return MalformedMessage(f"Its front matter is deeper than {MAX_DEPTH} levels or has over {MAX_NODES:,} values.")
