"""Text form of rules about tool calls, such as `server/tool?path=under:/home/me/proj&n=<10`.

Special characters are percent-encoded to be used literally: `%2A` for a star in a tool's name, `%2E` for a dot in an
argument's name, `%26` for an ampersand in a value. Rules are matched in `host/consent/rule_matching.py`.
"""

import json
import math
import re
from typing import Any

from mcphost.config.rules import ORIGIN_OPERATORS, PERCENT_CODE, Condition, Operator, Rule, Value, decode_percent
from mcphost.errors import UsageError
from mcphost.sanitize import quote_text, sanitize
from mcphost.serialization import replace

MAX_TEXT_LENGTH = 8_000
MAX_CONDITIONS = 20
MAX_VALUES = 100
MAX_PATTERN_LENGTH = 500
_MAX_DIGITS = 300
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ORIGIN_PART = re.compile(r"\s(?=(?:never-)?from:)")
_OUTER_SPACE = re.compile(r"\A\s++|(?<!\s)\s++\Z|\s(?=(?:never-)?from:)")
_OPERATOR_PREFIXES: tuple[tuple[str, Operator], ...] = (
    ("under:", "under"), ("in:", "in"), ("re:", "re"), ("<=", "<="), (">=", ">="), ("<", "<"), (">", ">"),
)  # fmt: skip
SYNTAX_HINT = (
    "A rule is SERVER, SERVER/TOOL or SERVER/PREFIX*, and then conditions: ?path=under:/a/folder&n=<10&kind=in:a,b"
    "&name=re:PATTERN&force=false&never-from:SERVER&only:"
)


def exact_pattern(name: str) -> str:
    """Return a pattern that matches only the given tool name. Raises ValueError for an empty name."""
    if not name:
        raise ValueError("a tool's name cannot be empty")
    return _protect_spaces(_encode_percent(name, "%?*"))


def parse_rule(text: str) -> Rule:
    """Parse a rule, taking the text before the first slash as the server's name.

    Raises UsageError for invalid syntax.
    """
    return parse_alternatives(text)[0]


def parse_alternatives(text: str) -> tuple[Rule, ...]:
    """Return every possible interpretation of the text of a rule.

    Server names may contain slashes, so each slash may be the one that separates the server from the tool. The
    first interpretation is the result of `parse_rule`. Raises UsageError for invalid syntax.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise UsageError(f"The rule is over {MAX_TEXT_LENGTH:,} characters.", SYNTAX_HINT)
    head, mark, tail = _join_origin_parts(text).partition("?")
    server, slash, tool = head.partition("/")
    if not server.strip() or (slash and not tool):
        raise _syntax_error(text, f"names no {'tool' if server.strip() else 'server'}")
    if "*" in server:
        raise _syntax_error(text, "has a * in the server's name: name each server")
    conditions = _parse_conditions(text, tail) if mark else ()
    _decode_or_raise(text, head)
    ends = [at for at, char in enumerate(head) if char == "/" and "*" not in head[:at]]
    split = [(head[:at], head[at + 1 :]) for at in ends] + ([] if "*" in head else [(head, "")])
    return tuple(
        Rule(server=decode_percent(name), tool=pattern, conditions=conditions)
        for name, pattern in split
        if pattern or name == head
    )


def format_rule(rule: Rule) -> str:
    """Return a rule in the text form that `parse_rule` accepts; account, scope and expiry are omitted."""
    head = _encode_percent(rule.server, "%/?*") + (f"/{rule.tool}" if rule.tool else "")
    conditions = f"?{'&'.join(map(format_condition, rule.conditions))}" if rule.conditions else ""
    return _protect_spaces(f"{head}{conditions}")


def quote_rule(rule: Rule) -> str:
    """Return a rule as the user wrote it, or in the form of `format_rule` if it was not written as text."""
    return sanitize(rule.written, keep_newlines=False) or format_rule(rule)


def format_condition(condition: Condition) -> str:
    """Return the text form of a condition, such as `path=under:/home/me` or `from:mail`."""
    if condition.operator in ORIGIN_OPERATORS:
        names = ",".join(_encode_percent(str(value), "%&,= ") for value in condition.values)
        return f"{condition.operator}:{names}"
    if condition.operator == "only":
        return f"only:{','.join(map(str, condition.values))}"
    name = ".".join(_encode_percent(part, "%.=&") for part in condition.argument)
    sign = next((sign for sign, test in _OPERATOR_PREFIXES if test == condition.operator), "")
    match condition.operator:
        case "is":
            value = _encode_percent(_format_literal(condition.values[0]), "%&")
        case "in":
            value = ",".join(_encode_percent(_format_literal(item), "%&,") for item in condition.values)
        case _:
            value = _encode_percent(_format_value(condition.values[0]), "%&")
    return f"{name}={sign}{value}"


def format_path(path: tuple[str, ...]) -> str:
    """Return the path of an argument as text, such as `options.depth`.

    This form is used in conditions with the operator "only". Special characters are percent-encoded.
    """
    return ".".join(_encode_percent(part, "%.=&, ") for part in path)


def parse_path(text: str) -> tuple[str, ...]:
    """Convert text returned by `format_path` back to the path of an argument."""
    return tuple(map(decode_percent, text.split(".")))


def _encode_percent(text: str, special: str) -> str:
    def code(char: str) -> str:
        is_plain = char not in special and sanitize(char, keep_newlines=False) == char
        return char if is_plain and (char == " " or not char.isspace()) else _percent_code(char)

    return "".join(map(code, text))


def _percent_code(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _protect_spaces(text: str) -> str:
    """Percent-encode the spaces in a rule's text that the parser would not keep as part of a name or value.

    The parser removes spaces at the beginning and end of the text, and takes a space before `from:` or
    `never-from:` for the start of a condition.
    """
    return _OUTER_SPACE.sub(lambda match: _percent_code(match[0]), text)


def is_formatted(text: str) -> bool:
    """Return whether *text* may be the result of the current `format_rule`, and can be passed to `parse_rule`.

    Earlier versions did not encode spaces in values. In text such as `s/t?title=Report from:web`, `parse_rule` would
    take `from:web` for a second condition, so that the rule would allow other calls.
    """
    return _OUTER_SPACE.search(text) is None


def _decode_or_raise(rule: str, text: str) -> str:
    if any(match[1] is None for match in PERCENT_CODE.finditer(text)):
        raise _syntax_error(rule, "has a % without two hexadecimal digits: a percent sign itself is %25")
    try:
        return decode_percent(text)
    except UnicodeDecodeError as error:
        raise _syntax_error(rule, "has percent codes that are no UTF-8") from error


def _parse_conditions(rule: str, text: str) -> tuple[Condition, ...]:
    parts = text.split("&")
    if len(parts) > MAX_CONDITIONS:
        raise _syntax_error(rule, f"has over {MAX_CONDITIONS} conditions")
    return tuple(_parse_condition(rule, part) for part in parts)


def _join_origin_parts(text: str) -> str:
    """Return a rule such as `web/* never-from:mail` rewritten as `web/*?never-from:mail`.

    Each `from:` or `never-from:` part that is separated by a space becomes a condition.
    """
    head, *parts = (part.strip() for part in _ORIGIN_PART.split(text)) if "from:" in text else (text,)
    return "&".join([head if "?" in head or not parts else f"{head}?{parts.pop(0)}", *parts])


def prohibit_origins(rule: Rule) -> Rule:
    """Return a rule from `consent.never` in which `never-from:` is replaced with `from:`.

    Both operators have the same meaning in `consent.never`, because all rules in it forbid calls.
    """
    conditions = tuple(
        replace(condition, operator="from") if condition.operator == "never-from" else condition
        for condition in rule.conditions
    )
    return replace(rule, conditions=conditions)


def _parse_origins(rule: str, operator: Operator, text: str) -> Condition:
    names = tuple(_decode_or_raise(rule, name).strip() for name in text.split(","))
    if not all(names) or len(names) > MAX_VALUES:
        raise _syntax_error(rule, f"has {operator}: without the name of a server")
    return Condition((), operator, names)


def _parse_only(rule: str, text: str) -> Condition:
    names = text.split(",") if text else []
    paths = [tuple(_decode_or_raise(rule, part) for part in name.strip().split(".")) for name in names]
    if len(paths) > MAX_VALUES or not all(part for path in paths for part in path):
        raise _syntax_error(rule, "has only: with an empty name or too many names")
    return Condition((), "only", tuple(map(format_path, paths)))


def _parse_condition(rule: str, text: str) -> Condition:
    name, equals, value = text.partition("=")
    if not equals and text.startswith("only:"):
        return _parse_only(rule, text.removeprefix("only:"))
    for operator in ORIGIN_OPERATORS:
        if not equals and text.startswith(f"{operator}:"):
            return _parse_origins(rule, operator, text[len(operator) + 1 :])
    argument = tuple(_decode_or_raise(rule, part) for part in name.split("."))
    if not equals or not all(argument):
        raise _syntax_error(rule, f"has a condition that is not ARGUMENT=…: {_quote(text)}")
    if value.startswith("="):
        raise _syntax_error(rule, f"has two equals signs: write {_quote(f'{name}={value[1:]}')}")
    default: tuple[str, Operator] = ("", "is")
    sign, operator = next((pair for pair in _OPERATOR_PREFIXES if value.startswith(pair[0])), default)
    rest = value[len(sign) :]
    items = rest.split(",") if operator == "in" else [rest]
    if len(items) > MAX_VALUES:
        raise _syntax_error(rule, f"lists over {MAX_VALUES} values")
    values = tuple(_parse_value(rule, operator, _decode_or_raise(rule, item)) for item in items)
    return Condition(argument, operator, values)


def _parse_value(rule: str, operator: Operator, plain: str) -> Value:
    """Parse a condition's value as *operator* requires: as a literal, a folder, a pattern or a number.

    Raises UsageError, which quotes *rule*, if the value *plain* is invalid.
    """
    match operator:
        case "is" | "in":
            return _parse_literal(rule, plain)
        case "under":
            if (not plain.startswith(("/", "~/")) and plain != "~") or "\0" in plain:
                raise _syntax_error(rule, f"has a folder that is not absolute: {_quote(plain)}")
            return plain
        case "re":
            if not plain or len(plain) > MAX_PATTERN_LENGTH:
                raise _syntax_error(rule, f"has a pattern that is empty or over {MAX_PATTERN_LENGTH} characters")
            return plain
        case _:
            number = _parse_literal(rule, plain)
            if isinstance(number, bool | str):
                raise _syntax_error(rule, f"compares with something that is not a number: {_quote(plain)}")
            return number


def _parse_literal(rule: str, text: str) -> Value:
    """Parse `true`, `false`, a number or a JSON string; return any other text unchanged.

    Raises UsageError, which quotes *rule*, for a number that is too large or an incomplete string.
    """
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        number = float(text) if any(char in ".eE" for char in text) else None
        if len(text) > _MAX_DIGITS or (number is not None and not math.isfinite(number)):
            raise _syntax_error(rule, "has a number that is too large")
        return int(text) if number is None else number
    if text.startswith('"'):
        try:
            value: Any = json.loads(text)
        except ValueError as error:
            raise _syntax_error(rule, f"has a quotation mark without its end: {_quote(text)}") from error
        return str(value)
    return text


def _format_literal(value: Value) -> str:
    if not isinstance(value, str):
        return _format_value(value)
    special = value in ("true", "false") or _NUMBER.fullmatch(value) or value.startswith(('"', "="))
    if special or any(value.startswith(sign) for sign, _ in _OPERATOR_PREFIXES):
        return json.dumps(value, ensure_ascii=False)
    return value


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _quote(text: str) -> str:
    return quote_text(text, 80)


def _syntax_error(rule: str, what: str) -> UsageError:
    return UsageError(f"The rule {_quote(rule)} {what}.", SYNTAX_HINT)
