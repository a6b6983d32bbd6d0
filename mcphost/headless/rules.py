"""`--allow` rules: which calls may run when nobody can be asked."""

import re

from mcphost.data import Data
from mcphost.errors import UsageError


class Rule(Data, frozen=True):
    """`server`, `server/tool` or `server/glob*`; only `*` is special, and only in the tool."""

    text: str

    def covers(self, server: str, tool: str) -> bool:
        """Whether that tool of that server may run. Names are compared exactly, upper and lower case too."""
        if self.text == server:
            return True
        # A name may hold a slash itself, so the rule is measured against the server's name and not split.
        prefix = f"{server}/"
        if not self.text.startswith(prefix):
            return False
        parts = self.text[len(prefix) :].split("*")
        return re.fullmatch(".*".join(re.escape(part) for part in parts), tool, re.DOTALL) is not None


class Rules(Data, frozen=True):
    """All rules of one run; a call is allowed when one of them covers it."""

    rules: tuple[Rule, ...] = ()

    def allow(self, server: str, tool: str) -> bool:
        """Whether any rule covers the call."""
        return any(rule.covers(server, tool) for rule in self.rules)


def parse(texts: tuple[str, ...]) -> Rules:
    """The rules as typed. Raises UsageError naming the one that cannot be meant."""
    return Rules(tuple(_rule(text) for text in texts))


def _rule(text: str) -> Rule:
    server, slash, tool = text.partition("/")
    if not server.strip() or (slash and not tool):
        raise UsageError(f"The rule {text!r} names no {'tool' if server.strip() else 'server'}.", _FORMS)
    if "*" in server:
        raise UsageError(f"The rule {text!r} has a * in the server's name.", f"Name each server. {_FORMS}")
    if "?" in text:
        raise UsageError(f"The rule {text!r} has a condition on arguments, which is not supported yet.", _FORMS)
    return Rule(text)


_FORMS = "A rule is SERVER, SERVER/TOOL or SERVER/PREFIX*."
