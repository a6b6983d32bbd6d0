"""Rules that allow or forbid tool calls without asking the user, from the configuration and the command line."""

from dataclasses import dataclass

from mcphost.config.rules import Rule


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
