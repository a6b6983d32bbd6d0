"""Tool calls in the form that permission rules are matched with."""

from typing import Any

from mcphost.host.consent.rule_matching import RuleInput


def rule_input(folder: str | None = "/", **arguments: Any) -> RuleInput:
    return RuleInput(server="fs", tool="t", arguments=arguments, folder=folder)
