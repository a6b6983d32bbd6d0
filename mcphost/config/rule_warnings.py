"""Warnings about rules in `consent.never` that match no call, for example because of a misspelt name."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from mcphost.config.rule_syntax import format_rule, quote_rule
from mcphost.config.rules import Rule
from mcphost.config.toml_files import find_similar
from mcphost.sanitize import quote_text, sanitize_line

_PREFIX = re.compile(r"([a-z-]{2,12}):")
_PATTERN_WORDS = frozenset({"regex", "regexp"})
_MAX_RULES = 200
_MAX_SHOWN = 200


def find_rule_warnings(rules: Iterable[Rule], servers: Collection[str], *, with_unlike: bool) -> tuple[str, ...]:
    """Return warnings about misspelt operators in rules, and about rules for servers that do not exist.

    *servers* are the names of the configured servers. A rule for any other server is reported if its server's name is
    similar to the name of a configured server. A rule whose server has no similar name is reported only if
    *with_unlike* is set, because this server may be configured in another project.
    """
    warnings: list[str] = []
    for group in _group_alternatives(rules):
        shown, name = _show(group[0]), group[0].server
        for value, prefix in _misspelt_prefixes(group[0]):
            shown_value = sanitize_line(value, _MAX_SHOWN)
            warnings.append(
                f'In "consent.never", the rule {shown} compares with the text "{shown_value}": did you mean "{prefix}"?'
            )
        if any(rule.server in servers for rule in group):
            continue
        near = find_similar(name, servers)
        server = sanitize_line(name, _MAX_SHOWN)
        if near:
            warnings.append(
                f'In "consent.never", the rule {shown} matches no call: there is no server {server!r}; '
                f'did you mean "{near}"?'
            )
        elif with_unlike:
            warnings.append(f'In "consent.never", the rule {shown} matches no call: there is no server {server!r}.')
    return tuple(warnings)


def find_rules_without_tool(
    rules: Iterable[Rule], tools: Mapping[str, Sequence[str]], undecided: Collection[str] = ()
) -> tuple[str, ...]:
    """Return warnings about rules for tools that do not exist on their server.

    *tools* maps the name of each connected server to the names of its tools. *undecided* are the names of servers
    whose tools are not known yet. Rules for any other server are not checked.

    The text of a rule can be ambiguous, because a server's name may contain slashes. A rule is reported only if no
    way of reading it names an existing tool or a server in *undecided*.
    """
    warnings: list[str] = []
    for group in _group_alternatives(rules):
        if any(rule.server in undecided for rule in group):
            continue
        for rule in group:
            names = tools.get(rule.server)
            if names is None or any(
                one.covers(one.server, name) for one in group for name in tools.get(one.server, ())
            ):
                continue
            near = find_similar(rule.exact_tool or "", names)
            server = sanitize_line(rule.server, _MAX_SHOWN)
            text = f'In "consent.never", the rule {_show(rule)} matches no call: "{server}" has no such tool.'
            if near:
                text += f" Did you mean {quote_text(near, _MAX_SHOWN)}?"
            warnings.append(text)
    return tuple(warnings)


def _group_alternatives(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Return the rules in groups, each of which contains all rules that were parsed from the same ambiguous text."""
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        groups.setdefault(format_rule(rule).replace("%2F", "/"), []).append(rule)
    return list(groups.values())[:_MAX_RULES]


def _misspelt_prefixes(rule: Rule) -> Iterable[tuple[str, str]]:
    """Yield each value in a rule that begins with a misspelt operator, and the correct operator.

    For example, `undr:/home` is yielded together with `under:`. Such a value is compared as plain text, because
    only `under:` is an operator.
    """
    for condition in rule.conditions:
        value = condition.values[0] if condition.operator == "is" else None
        match = _PREFIX.match(value) if isinstance(value, str) else None
        if match is not None:
            meant = "re" if match[1] in _PATTERN_WORDS else find_similar(match[1], ("under",))
            if meant:
                yield str(value), f"{meant}:"


def _show(rule: Rule) -> str:
    return quote_text(quote_rule(rule), _MAX_SHOWN)
