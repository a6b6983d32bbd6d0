"""Probable mistakes in a server that a user types: shell syntax in a command line, and misspelt keys of an entry."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcphost.config.entry_keys import OWN_KEYS, describe_entry_keys, describe_unknown_keys
from mcphost.config.typed_servers import is_command_line, parse_entry, parse_server_text
from mcphost.errors import McpHostError

_SHELL_WORDS = frozenset({"|", "|&", ">", ">>", "<", "<<", "&&", "||", ";", "&", "&>", "2>", "2>&1"})
_SUBSTITUTIONS = ("$(", "`")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "pwsh", "powershell", "cmd"})
_MAX_MISTAKES = 5
_MAX_WORDS = 1_000


def find_new_server_mistakes(text: str, name: str = "") -> tuple[str, ...]:
    """Return a sentence for each probable mistake in text that `parse_server_text` accepts.

    Returns () if `parse_server_text` does not accept the text.
    """
    try:
        entries = parse_server_text(text, name)
    except McpHostError:
        return ()
    mistakes: list[str] = []
    for entry in entries.values():
        mistakes += _describe_keys(entry)
        if is_command_line(text):
            mistakes += _describe_shell_syntax([str(entry.get("command", "")), *entry.get("args", ())])
    return tuple(mistakes[:_MAX_MISTAKES])


def find_entry_mistakes(text: str, name: str) -> tuple[str, ...]:
    """Return a sentence for each probable mistake in text that `parse_entry` accepts.

    Returns () if `parse_entry` does not accept the text.
    """
    try:
        return tuple(_describe_keys(parse_entry(text, name)))[:_MAX_MISTAKES]
    except McpHostError:
        return ()


def _describe_keys(entry: Mapping[str, Any]) -> Iterator[str]:
    yield from describe_entry_keys(entry)
    own = entry.get("mcphost")
    if isinstance(own, dict):
        yield from describe_unknown_keys(cast("dict[str, Any]", own), OWN_KEYS)


def _describe_shell_syntax(words: list[str]) -> Iterator[str]:
    """Yield a sentence about the first shell syntax in a command line, such as a pipe.

    The sentence quotes only the operator, because a word may contain a secret.
    """
    words = words[:_MAX_WORDS]
    sign = next((word for word in words if word in _SHELL_WORDS), "")
    if not sign and not any(word.rpartition("/")[2] in _SHELLS for word in words):
        sign = next((one for one in _SUBSTITUTIONS if any(one in word for word in words)), "")
    if sign:
        yield f"The command runs without a shell, so the program gets {sign} as part of its arguments."
