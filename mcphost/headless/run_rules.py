"""Parsing of the rules of `mcphost run`, and checks of which servers and tools they cover."""

import shlex
from collections.abc import Callable, Iterable

from mcphost.config.rule_syntax import exact_pattern, format_rule, parse_alternatives, parse_rule
from mcphost.config.rules import Rule
from mcphost.errors import UsageError
from mcphost.host.builtin_tool_names import LOAD_SKILL
from mcphost.host.host import Host
from mcphost.host.server_views import ServerView
from mcphost.pluralize import translate_count
from mcphost.sanitize import quote_text
from mcphost.translation import _

MAX_NAMED_TOOLS = 5
"""Maximum number of a server's quarantined tools that `mcphost run` names; further ones are only counted."""


def parse_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Parse each string as a rule; the first slash in a string separates the server from the tool.

    Raises UsageError if a string is not a rule; the message quotes the string.
    """
    return tuple(parse_rule(text) for text in texts)


def check_servers(texts: Iterable[str], names: Iterable[str]) -> None:
    """Raise UsageError if a rule has an unescaped slash in the name of a configured server.

    A rule for a server called "team/files" must be written "team%2Ffiles", because the name in a rule ends at the first
    slash. With an unescaped slash, the rule would apply to a server called "team". *texts* are the rules, and *names*
    the names of the configured servers.
    """
    known = frozenset(names)
    for text in texts:
        rule, *others = parse_alternatives(text)
        meant = next((other.server for other in others if other.server in known), "")
        if meant and rule.server not in known:
            raise UsageError(
                f"The rule {quote_text(text)} is about a server {rule.server!r}, which is "
                "not configured. A server's name ends at the first slash.",
                f"For the server {meant!r} write {format_rule(Rule(server=meant))}",
            )


def quote_rule(server: str, tool: str = "") -> str:
    """Return a rule that covers only this server and, if *tool* is given, only this tool.

    The rule is escaped, and quoted for a shell.
    """
    return shlex.quote(format_rule(Rule(server=server, tool=exact_pattern(tool) if tool else "")))


async def can_run_any_tool(host: Host, view: ServerView) -> bool:
    """Return whether calls to at least one of this server's tools may be allowed without a question.

    A call may be allowed by a rule, by a granted permission, or by `trustAnnotations`. Raises StoreError if the granted
    permissions cannot be read.
    """
    config = host.config
    if view.config.trust_annotations or any(
        rule.server == view.name for rule in (*config.allow_rules, *config.pass_rules)
    ):
        return True
    return any(one.state == "counts" for one in await host.grants.list_grants(server=view.name))


def print_rules_without_tool(host: Host, print_message: Callable[..., None]) -> None:
    """Print the `--allow` and `--pass-results` rules that match no tool of the server that they name.

    Each rule is printed with its flag. Rules for servers that are not ready are left out.
    """
    flagged = [("--allow", rule) for rule in host.config.allow_rules]
    flagged += [("--pass-results", rule) for rule in host.config.pass_rules]
    for flag, rule in flagged:
        view = host.servers.view(rule.server)
        names = (*(tool.name for tool in view.catalog.tools), LOAD_SKILL)
        if view.state == "ready" and not any(rule.covers(rule.server, name) for name in names):
            text = _("{flag} {rule}: the server has no such tool")
            print_message(text.format(flag=flag, rule=shlex.quote(format_rule(rule))), always=True)


def print_quarantined_tools(host: Host, print_message: Callable[..., None], *, yes: bool) -> bool:
    """Print the quarantined tools that the rules would allow or, if *yes* is set, all quarantined tools.

    The message explains that the model cannot use these tools until the user reviews them. Returns whether an `--allow`
    rule names at least one of these tools in full, instead of covering it with a pattern.
    """
    allowed = host.config.allow_rules
    rules = (*allowed, *host.config.pass_rules)
    exact = {(rule.server, rule.exact_tool) for rule in allowed}
    is_named = False
    for view in host.servers.views():
        tools = [tool for tool in view.quarantined if yes or any(rule.covers(view.name, tool) for rule in rules)]
        is_named = is_named or any((view.name, tool) in exact for tool in tools)
        for tool in tools[:MAX_NAMED_TOOLS]:
            text = _(
                "{name} changed and is quarantined, so the model cannot use it. "
                "Review the change with: mcphost servers changes {server}"
            )
            print_message(text.format(name=f"{view.name}/{tool}", server=shlex.quote(view.name)), always=True)
        if more := len(tools[MAX_NAMED_TOOLS:]):
            text = _("{server}: {tools} more changed and are quarantined")
            print_message(text.format(server=view.name, tools=translate_count(more, "tool")), always=True)
    return is_named
