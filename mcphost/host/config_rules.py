"""Rules of the configuration and the command line, which apply without a question."""

from dataclasses import dataclass

from mcphost.config.rules import Rule


@dataclass(eq=False)
class ConfigRules:
    """Rules given in advance; `never` takes precedence over `allow`, grants, answers and modes.

    `never` may be replaced while the program runs; calls that are decided afterwards follow the new rules.
    """

    allow: tuple[Rule, ...] = ()
    never: tuple[Rule, ...] = ()
    file: str = "config.toml"
    """Path of the file that contains the never-rules."""
