"""Amplification cases for the arguments of a model's call: comparison with the rules for calls."""

# pyright: basic

from collections.abc import Callable
from typing import Any

from benchmarks.amplification import MB, Meter, case

COMPARED: dict[str, Callable[[int], dict[str, Any]]] = {
    "one name that becomes 18 times as long": lambda size: {"\ufdfa" * (size // 3): 1},
    "one value that becomes 18 times as long": lambda size: {"path": "\ufdfa" * (size // 3)},
    "a value of accents": lambda size: {"path": "e\u0301" * (size // 3)},
    "a name of accents": lambda size: {"path" + "\u0301" * (size // 2): 1},
    "a name of list indexes": lambda size: {"[]" * (size // 2) + "path": 1},
    "many names": lambda size: {f"p{number}": 1 for number in range(size // 13)},
    "many names beyond ASCII": lambda size: {f"\u00e9{number}": 1 for number in range(size // 14)},
}


def _rule_case(name: str, make: Callable[[int], dict[str, Any]]) -> None:
    @case(f"rule: {name}", size=1 * MB)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.config.rule_syntax import parse_rule
        from mcphost.host.consent.rule_matching import RuleInput, RuleMatcher

        matcher = RuleMatcher(None)  # type: ignore[arg-type]
        rule = parse_rule("fs/write?path=/etc/passwd")
        call = RuleInput(server="fs", tool="write", arguments=make(size))
        with meter.measuring(size):
            print(await matcher.match(rule, call))


for _name, _make in COMPARED.items():
    _rule_case(_name, _make)
