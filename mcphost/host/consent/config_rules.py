"""Rules that allow or forbid tool calls without asking the user, from the configuration and the command line."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcphost.config.rules import Rule, Value
from mcphost.serialization import replace


@dataclass(eq=False)
class ConfigRules:
    """Rules that allow or forbid tool calls without asking the user.

    `never` overrides `allow`, grants, approvals by the user and auto-approve mode. `never` can be replaced while
    the program runs; the new rules apply to the next tool call.
    """

    allow: tuple[Rule, ...] = ()
    never: tuple[Rule, ...] = ()
    file: str = "config.toml"
    """Path of the file that contains the never-rules."""

    def forbid(self, rules: Iterable[Rule]) -> None:
        """Add rules to `never`.

        An existing rule is removed if an added rule is identical, or differs only by naming more servers in its "from"
        conditions.
        """
        added, wider = tuple(rules), dict[tuple[Hashable, Value | None], list[Rule]]()
        for rule in added:
            for place in _places(rule):
                wider.setdefault(place, []).append(rule)
        self.never = (*(rule for rule in self.never if not _is_replaced(rule, wider)), *added)


def _places(rule: Rule) -> list[tuple[Hashable, Value | None]]:
    """Return the keys under which `forbid` indexes a rule.

    If rule A replaces rule B, the keys of A include all keys of B. `forbid` therefore compares only rules that share a
    key; with thousands of rules, comparing every pair would take seconds.
    """
    key = (
        replace(rule, conditions=(), written=""),
        *(
            # The type is compared, too, because 1 and true differ.
            (one.argument, one.operator, one.operator == "from" or tuple((type(value), value) for value in one.values))
            for one in rule.conditions
        ),
    )
    servers = {value for one in rule.conditions if one.operator == "from" for value in one.values}
    return [(key, server) for server in servers] or [(key, None)]


def _is_replaced(rule: Rule, wider: Mapping[tuple[Hashable, Value | None], Sequence[Rule]]) -> bool:
    """Return whether an added rule replaces *rule*; see `ConfigRules.forbid`.

    *wider* contains the added rules, indexed by the keys that `_places` returns.
    """
    candidates = min((wider.get(place, ()) for place in _places(rule)), key=len)
    return any(_has_origins_of(one, rule) for one in candidates)


def _has_origins_of(wider: Rule, rule: Rule) -> bool:
    pairs = zip(wider.conditions, rule.conditions, strict=True)
    return all({*other.values} <= {*one.values} for one, other in pairs if one.operator == "from")
