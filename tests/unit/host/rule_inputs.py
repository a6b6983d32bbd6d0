"""Tool calls in the form in which permission rules are compared with them."""

from typing import Any

from mcphost.host.consent.rule_matching import RuleInput


def rule_input(folder: str | None = "/", **arguments: Any) -> RuleInput:
    return RuleInput(server="fs", tool="t", arguments=arguments, folder=folder)
