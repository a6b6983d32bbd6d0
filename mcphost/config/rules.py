"""Rules about tool calls as a person writes them: `server/tool?path=under:/home/me/proj&n=<10`, to values and back.

What the signs of the form mean literally is written with percent codes, as in an address: `%2A` is a star in a tool's
name, `%2E` a dot in an argument's, `%26` an ampersand in a value. Matching is in
`host/consent/rule_matching.py`.
"""

import json
import math
import re
from typing import Any, Literal

from mcphost.errors import UsageError
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct

TEXT_LIMIT = 8_000
CONDITIONS_LIMIT = 20
VALUES_LIMIT = 100
PATTERN_LIMIT = 500
_DIGITS_LIMIT = 300
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CODE = re.compile(r"%([0-9A-Fa-f]{2})?")

Test = Literal["is", "in", "<", "<=", ">", ">=", "under", "re"]
Scope = Literal["conversation", "project", "everywhere"]
Value = bool | int | float | str
_SIGNS: tuple[tuple[str, Test], ...] = (
    ("under:", "under"), ("in:", "in"), ("re:", "re"), ("<=", "<="), (">=", ">="), ("<", "<"), (">", ">"),
)  # fmt: skip
FORMS = (
    "A rule is SERVER, SERVER/TOOL or SERVER/PREFIX*, and then conditions: ?path=under:/a/folder&n=<10&kind=in:a,b"
    "&name=re:PATTERN&force=false"
)


class Condition(Struct, frozen=True):
    """What must hold for one argument. `argument` is the way to it, a name for each level of nested objects.

    `values` holds one value, several for "in". A number is compared with numbers only, true and false with themselves
    only, and text with text: `1`, `true` and `"1"` are three values. "under" names a folder, absolute or below `~`;
    "re" is a pattern for the whole text.
    """

    argument: tuple[str, ...]
    test: Test
    values: tuple[Value, ...]


class Rule(Struct, frozen=True, kw_only=True):
    """Which calls are meant: all conditions must hold.

    `tool` is a pattern: empty for the whole server, `*` stands for any text, `exact(name)` is one name and nothing
    else. `account` None means any; `expires` is seconds since 1970, None for never. The text form holds neither these
    nor the scope.
    """

    server: str
    tool: str = ""
    conditions: tuple[Condition, ...] = ()
    account: str | None = None
    scope: Scope = "everywhere"
    expires: float | None = None

    def names(self, server: str, tool: str) -> bool:
        """Whether it is about that tool of that server. Names are compared exactly: case and look-alikes differ."""
        return self.server == server and covers_name(self.tool, tool)

    @property
    def exactly(self) -> str | None:
        """The one tool it is about; None for a pattern or a whole server."""
        return None if not self.tool or "*" in self.tool else decoded(self.tool)


def covers_name(pattern: str, name: str) -> bool:
    """Whether the pattern of a rule covers that name of a tool."""
    if not pattern:
        return True
    first, *parts = [decoded(part) for part in pattern.split("*")]
    if not parts:
        return name == first
    if not name.startswith(first):
        return False
    # By hand: a regular expression with many stars takes exponential time.
    at = len(first)
    for part in parts[:-1]:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(name) - at >= len(parts[-1]) and name.endswith(parts[-1])


def exact(name: str) -> str:
    """The pattern that covers this name and no other, whatever is in it. Raises ValueError for an empty one."""
    if not name:
        raise ValueError("no tool is without a name")
    return _encoded(name, "%?*")


def parse(text: str) -> Rule:
    """The rule that the text stands for; its server ends at the first slash. Raises UsageError saying what is wrong."""
    return readings(text)[0]


def readings(text: str) -> tuple[Rule, ...]:
    """Every rule a text can stand for: as a server's name may hold a slash itself, one for each place to split it.

    Raises UsageError saying what is wrong.
    """
    if len(text) > TEXT_LIMIT:
        raise UsageError(f"The rule is over {TEXT_LIMIT:,} characters.", FORMS)
    head, asks, tail = text.partition("?")
    server, slash, tool = head.partition("/")
    if not server.strip() or (slash and not tool):
        raise _wrong(text, f"names no {'tool' if server.strip() else 'server'}")
    if "*" in server:
        raise _wrong(text, "has a * in the server's name: name each server")
    conditions = _conditions(text, tail) if asks else ()
    _decoded_or_raise(text, head)
    ends = [at for at, char in enumerate(head) if char == "/" and "*" not in head[:at]]
    split = [(head[:at], head[at + 1 :]) for at in ends] + ([] if "*" in head else [(head, "")])
    return tuple(
        Rule(server=decoded(name), tool=exact_or_pattern, conditions=conditions)
        for name, exact_or_pattern in split
        if exact_or_pattern or name == head
    )


def write(rule: Rule) -> str:
    """The text form; `parse` gives the same rule again, apart from account, scope and expiry."""
    head = _encoded(rule.server, "%/?*") + (f"/{rule.tool}" if rule.tool else "")
    if not rule.conditions:
        return head
    return f"{head}?{'&'.join(map(condition_text, rule.conditions))}"


def condition_text(condition: Condition) -> str:
    """One condition in the text form."""
    name = ".".join(_encoded(part, "%.=&") for part in condition.argument)
    sign = next((sign for sign, test in _SIGNS if test == condition.test), "")
    match condition.test:
        case "is":
            value = _encoded(_literal_text(condition.values[0]), "%&")
        case "in":
            value = ",".join(_encoded(_literal_text(one), "%&,") for one in condition.values)
        case _:
            value = _encoded(_plain_text(condition.values[0]), "%&")
    return f"{name}={sign}{value}"


def decoded(text: str) -> str:
    """`text` with its percent codes resolved; it was checked before."""
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "surrogatepass")


def _encoded(text: str, special: str) -> str:
    def code(char: str) -> str:
        if char not in special and sanitize(char, keep_newlines=False) == char:
            return char
        return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))

    return "".join(map(code, text))


def _decoded_or_raise(rule: str, text: str) -> str:
    if any(match[1] is None for match in _CODE.finditer(text)):
        raise _wrong(rule, "has a % without two hexadecimal digits: a percent sign itself is %25")
    try:
        return decoded(text)
    except UnicodeDecodeError as error:
        raise _wrong(rule, "has percent codes that are no UTF-8") from error


def _conditions(rule: str, text: str) -> tuple[Condition, ...]:
    parts = text.split("&")
    if len(parts) > CONDITIONS_LIMIT:
        raise _wrong(rule, f"has over {CONDITIONS_LIMIT} conditions")
    return tuple(_condition(rule, part) for part in parts)


def _condition(rule: str, text: str) -> Condition:
    name, equals, value = text.partition("=")
    argument = tuple(_decoded_or_raise(rule, part) for part in name.split("."))
    if not equals or not all(argument):
        raise _wrong(rule, f"has a condition that is not ARGUMENT=…: {_short(text)}")
    if value.startswith("="):
        raise _wrong(rule, f"has two equals signs: write {_short(f'{name}={value[1:]}')}")
    usual: tuple[str, Test] = ("", "is")
    sign, test = next((one for one in _SIGNS if value.startswith(one[0])), usual)
    rest = value[len(sign) :]
    listed = rest.split(",") if test == "in" else [rest]
    if len(listed) > VALUES_LIMIT:
        raise _wrong(rule, f"lists over {VALUES_LIMIT} values")
    return Condition(argument, test, tuple(_value(rule, test, _decoded_or_raise(rule, one)) for one in listed))


def _value(rule: str, test: Test, plain: str) -> Value:
    """What an argument is compared with; a folder and a pattern are text, whatever they look like."""
    match test:
        case "is" | "in":
            return _literal(rule, plain)
        case "under":
            if (not plain.startswith(("/", "~/")) and plain != "~") or "\0" in plain:
                raise _wrong(rule, f"has a folder that is not absolute: {_short(plain)}")
            return plain
        case "re":
            if not plain or len(plain) > PATTERN_LIMIT:
                raise _wrong(rule, f"has a pattern that is empty or over {PATTERN_LIMIT} characters")
            return plain
        case _:
            number = _literal(rule, plain)
            if isinstance(number, bool | str):
                raise _wrong(rule, f"compares with something that is not a number: {_short(plain)}")
            return number


def _literal(rule: str, text: str) -> Value:
    """`true`, `false`, a number, text in quotes as in JSON, or any other text as it is."""
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        number = float(text) if any(char in ".eE" for char in text) else None
        if len(text) > _DIGITS_LIMIT or (number is not None and not math.isfinite(number)):
            raise _wrong(rule, "has a number that is too large")
        return int(text) if number is None else number
    if text.startswith('"'):
        try:
            value: Any = json.loads(text)
        except ValueError as error:
            raise _wrong(rule, f"has a quotation mark without its end: {_short(text)}") from error
        return str(value)
    return text


def _literal_text(value: Value) -> str:
    if not isinstance(value, str):
        return _plain_text(value)
    special = value in ("true", "false") or _NUMBER.fullmatch(value) or value.startswith(('"', "="))
    if special or any(value.startswith(sign) for sign, _ in _SIGNS):
        return json.dumps(value, ensure_ascii=False)
    return value


def _plain_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _short(text: str) -> str:
    return repr(sanitize(text[:80], keep_newlines=False))


def _wrong(rule: str, what: str) -> UsageError:
    return UsageError(f"The rule {_short(rule)} {what}.", FORMS)
