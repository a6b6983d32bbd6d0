"""Rules that allow or forbid tool calls without asking the user, from the configuration and the command line."""

from collections.abc import Iterable
from dataclasses import dataclass

from mcphost.config.rules import Condition, Rule
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

        An added rule replaces an existing one that is identical or has fewer servers in its "from" conditions.
        """
        added = tuple(rules)
        self.never = (*(rule for rule in self.never if not any(_covers(one, rule) for one in added)), *added)


def _covers(wider: Rule, rule: Rule) -> bool:
    """Return whether *wider* equals *rule*, except that its "from" conditions may list more servers."""
    if replace(wider, conditions=()) != replace(rule, conditions=()) or len(wider.conditions) != len(rule.conditions):
        return False
    pairs = zip(wider.conditions, rule.conditions, strict=True)
    return all(one == other or _has_more_origins(one, other) for one, other in pairs)


def _has_more_origins(wider: Condition, condition: Condition) -> bool:
    is_same_test = replace(wider, values=()) == replace(condition, values=())
    return is_same_test and wider.operator == "from" and {*condition.values} <= {*wider.values}
