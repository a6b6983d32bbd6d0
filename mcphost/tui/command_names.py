"""Names of slash commands: the actions that they and their aliases run, and parsing of a typed command."""

from collections.abc import Mapping
from typing import NamedTuple

from mcphost.translation import N_
from mcphost.tui.actions import ACTIONS, Action


class Alias(NamedTuple):
    """Another name for a command, often the name that similar programs use.

    - `action`: the name of the action that the alias runs, or "" if it only shows `hint`.
    - `hint`: a sentence that says what to use instead. An action's name in braces stands for the action's key, and
      {settings_file} stands for config.toml.
    """

    action: str = ""
    hint: str = ""


_SETTINGS_HINT = N_(
    "Settings are in {settings_file}; {reload} applies changes. /model, /profile and /theme choose one at once."
)


_LANGUAGE_HINT = N_(
    'To change the language, write language = "en", "zh-CN" or "auto" under [screen] in {settings_file}. It takes '
    "effect at the next start."
)


ALIASES: Mapping[str, Alias] = {
    "allowed-tools": Alias("grants"),
    "branches": Alias("rewind"),
    "budget": Alias("costs"),
    "clear": Alias("new"),
    "commands": Alias("help"),
    "config": Alias(hint=_SETTINGS_HINT),
    "continue": Alias("continue_turn"),
    "conversations": Alias("history"),
    "costs": Alias("costs"),
    "doctor": Alias(
        hint=N_(
            "To diagnose a server, press {servers}, then {servers-diagnose}. For the whole setup, run: mcphost doctor"
        )
    ),
    "edit": Alias("rewind"),
    "exit": Alias("quit"),
    "jobs": Alias("tasks"),
    "keys": Alias("help"),
    "lang": Alias(hint=_LANGUAGE_HINT),
    "language": Alias(hint=_LANGUAGE_HINT),
    "login": Alias("accounts"),
    "logout": Alias("accounts"),
    "mcp": Alias("servers"),
    "memory": Alias("instructions"),
    "models": Alias("model"),
    "permissions": Alias("grants"),
    "profiles": Alias("profile"),
    "prompt-history": Alias("recall"),
    "q": Alias("quit"),
    "reset": Alias("new"),
    "resume": Alias("history"),
    "save": Alias("export"),
    "search": Alias("find"),
    "sessions": Alias("history"),
    "settings": Alias(hint=_SETTINGS_HINT),
    "summarize": Alias("summarize"),
    "themes": Alias("theme"),
    "tools": Alias(
        hint=N_(
            "To list a server's tools, press {servers}, then {servers-tools}; {context} shows which ones the model "
            "gets."
        )
    ),
    "unasked": Alias("auto_approval"),
    "usage": Alias("costs"),
}
"""All other names of commands. A custom command with the same name takes precedence."""


def find_slash_command(word: str) -> Action | None:
    """Return the action whose slash command is *word*, given without the slash; None if there is none."""
    return next((action for action in ACTIONS if action.slash and word == action.slash), None)


def find_alias(word: str) -> Action | None:
    """Return the action that the alias *word* runs, or None if *word* is not an alias or has only a hint."""
    alias = ALIASES.get(word)
    return next((one for one in ACTIONS if one.name == alias.action), None) if alias is not None else None


def aliases_of(action: Action) -> tuple[str, ...]:
    """Return the aliases of an action, without slashes."""
    return tuple(name for name, alias in ALIASES.items() if alias.action == action.name)


class ParsedCommand(NamedTuple):
    """A parsed slash command.

    - `word`: the word after the slash.
    - `action`: the action that the word runs, or None if it is an alias that has only a hint.
    - `value`: the text after the word, or "" if there is none.
    """

    word: str
    action: Action | None
    value: str

    @property
    def takes_value(self) -> bool:
        """Whether a name or path can follow the command."""
        return self.action is not None and self.action.takes_value

    @property
    def is_complete(self) -> bool:
        """Whether the command can run as typed: it has no value, or it accepts the value that it has."""
        return not self.value or self.takes_value


def parse_slash_command(text: str) -> ParsedCommand | None:
    """Parse a line such as `/theme fjord`; return None if it does not begin with a known command or alias."""
    if not text.startswith("/"):
        return None
    word, *rest = text[1:].split(None, 1) if text[1:2].strip() else ("",)
    action = find_slash_command(word) or find_alias(word)
    if action is None and word not in ALIASES:
        return None
    return ParsedCommand(word, action, rest[0].rstrip() if rest else "")
