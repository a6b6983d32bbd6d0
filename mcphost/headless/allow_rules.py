"""`--allow` rules: which calls may run when nobody can be asked."""

import shlex
from collections.abc import Iterable

from mcphost.config.rules import Rule, exact_pattern, format_rule, parse_alternatives, parse_rule
from mcphost.errors import UsageError
from mcphost.sanitize import sanitize


def parse_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Return the one rule that each text stands for; its server ends at the first slash.

    Raises UsageError naming the text that is no rule.
    """
    return tuple(parse_rule(text) for text in texts)


def check_servers(texts: Iterable[str], names: Iterable[str]) -> None:
    """Raise UsageError for a text that means a server with a slash in its name, written without a percent code.

    Taking it for a tool's name would cover nothing, taking it for both would cover more than was written.
    """
    known = frozenset(names)
    for text in texts:
        rule, *others = parse_alternatives(text)
        meant = next((other.server for other in others if other.server in known), "")
        if meant and rule.server not in known:
            raise UsageError(
                f"The rule {sanitize(text[:200], keep_newlines=False)!r} is about a server {rule.server!r}, which is "
                "not configured. A server's name ends at the first slash.",
                f"For the server {meant!r} write {format_rule(Rule(server=meant))}",
            )


def quote_rule(server: str, tool: str = "") -> str:
    """Return the rule for exactly this server or tool, quoted for a shell: a name may hold signs of rules or shells."""
    return shlex.quote(format_rule(Rule(server=server, tool=exact_pattern(tool) if tool else "")))
