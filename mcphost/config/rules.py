"""Rules about tool calls; `rule_syntax` defines their text form, and `host/consent/rule_matching` matches them."""

import re
from typing import Literal

from mcphost.serialization import Struct

PERCENT_CODE = re.compile(r"%([0-9A-Fa-f]{2})?")
Operator = Literal["is", "in", "<", "<=", ">", ">=", "under", "re", "from", "never-from", "only"]
Scope = Literal["conversation", "project", "everywhere"]
Value = bool | int | float | str
ORIGIN_OPERATORS: tuple[Operator, ...] = ("never-from", "from")
FILES = "@file"
"""Name that stands for attached local files, in rules and in origins of arguments."""
OTHER_SERVERS = "*"
"""Name that stands for all other servers, in rules and after an incomplete comparison."""
RESERVED_SERVER_NAMES = (FILES, OTHER_SERVERS)
"""No server may have these names, because rules would treat text of files or other servers as its own."""


class Condition(Struct, frozen=True):
    """A condition on an argument of a tool call, or on all of its arguments.

    `argument` is the path of the argument, with one name per nesting level. `values` contains a single value,
    except for the operators "in", "from", "never-from" and "only". Values of different types are never equal: `1`,
    `true` and `"1"` all differ.

    These operators have values of a special kind:

    - "under": a folder, absolute or starting with `~`
    - "re": a pattern that must match the entire text
    - "from" and "never-from": server names, `*` for any server, and `@file` for attached files
    - "only": paths of arguments, as returned by `format_path`. Every argument of the call must be in this list or
      in another condition of the rule.

    "from", "never-from" and "only" apply to all arguments of the call, so `argument` is empty.
    """

    argument: tuple[str, ...]
    operator: Operator
    values: tuple[Value, ...]


class Rule(Struct, frozen=True, kw_only=True):
    """A rule that applies to the tool calls that meet all of its conditions.

    - `tool` is a pattern in which `*` matches any text, or "" for all tools of the server. Use `exact_pattern` to
      get a pattern for a single tool.
    - `account` is None for any account.
    - `expires` is a Unix time in seconds, or None for never.
    - `written` is the text of a rule in the user's configuration, "" for any other rule.

    The text form (see `rule_syntax`) omits account, scope and expiry.
    """

    server: str
    tool: str = ""
    conditions: tuple[Condition, ...] = ()
    account: str | None = None
    scope: Scope = "everywhere"
    expires: float | None = None
    written: str = ""

    def covers(self, server: str, tool: str) -> bool:
        """Return whether the rule applies to a tool, ignoring its conditions; matching is case-sensitive."""
        return self.server == server and pattern_covers(self.tool, tool)

    @property
    def exact_tool(self) -> str | None:
        """The name of the only tool that the rule covers, or None if it may cover several."""
        return None if not self.tool or "*" in self.tool else decode_percent(self.tool)


def pattern_covers(pattern: str, name: str) -> bool:
    """Return whether a tool's name matches the pattern of a rule; an empty pattern matches every name."""
    if not pattern:
        return True
    first, *parts = [decode_percent(part) for part in pattern.split("*")]
    if not parts:
        return name == first
    if not name.startswith(first):
        return False
    # Not a regular expression, because many stars would take exponential time.
    at = len(first)
    for part in parts[:-1]:
        start = name.find(part, at)
        if start < 0:
            return False
        at = start + len(part)
    return len(name) - at >= len(parts[-1]) and name.endswith(parts[-1])


def decode_percent(text: str) -> str:
    """Decode percent-encoded text. Raises UnicodeDecodeError if the result is not UTF-8."""
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogatepass"))
    return raw.decode("utf-8", "surrogatepass")
