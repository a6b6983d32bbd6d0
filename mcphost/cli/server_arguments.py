"""Arguments that several actions of the `servers` command share."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcphost.errors import UsageError
from mcphost.translation import N_, _

if TYPE_CHECKING:
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.typed_pairs import PairSeparator


def add_scope_flag(parser: argparse.ArgumentParser, *short: str) -> None:
    """Add `--scope` to *parser*; *short* are further names of the flag, such as `-s`."""
    parser.add_argument(
        *short, "--scope", choices=("user", "project", "local"), default="user",
        help="user: everywhere (default); project: in .mcp.json here; local: only you, only in this folder",
    )  # fmt: skip


_ENTRY_SCOPES: dict[str, str] = {
    "remove": N_("which entry to remove; needed if several files have one of this name"),
    "restart": N_("which entry to restart if several files have one of this name (default: the one in use)"),
}
"""Help for `--scope` of the actions that do not change an entry."""


def add_entry_scope_flag(parser: argparse.ArgumentParser, action: str) -> None:
    """Add `--scope` to *parser*; the flag selects one of several entries with the same name.

    *action* determines the help text. See `choose_entry`.
    """
    changes = N_("which entry to change if several files have one of this name (default: the one in use)")
    parser.add_argument(
        "-s", "--scope", choices=("user", "project", "local"), default=None, help=_ENTRY_SCOPES.get(action, changes)
    )


async def read_pairs(
    texts: Sequence[str], flag: str, separator: "PairSeparator", terminal: "TerminalInput"
) -> dict[str, str]:
    """Parse the values of a repeated flag, such as `NAME=VALUE`, by the rules of `parse_pair_lines`.

    *separator* is "=" for variables or ":" for headers. A missing value is read at the terminal, without echo.
    Quotes are part of a value, because the shell has already removed its own quotes. Raises UsageError if a
    value is invalid; the error gives the position of the value, but not its text, which may be a secret.
    """
    from mcphost.config.typed_pairs import PAIR_FORMS, is_pair_name, pair_key

    pairs: dict[str, str] = {}
    numbers: dict[str, int] = {}
    form = PAIR_FORMS[separator]
    for number, text in enumerate(texts, 1):
        name, value = await split_pair(text, flag, number, separator, terminal, is_name=is_pair_name)
        if separator == ":" and not value:
            raise UsageError(f"{flag} number {number} has no value.", form)
        first = numbers.setdefault(pair_key(name, separator), number)
        if first != number:
            raise UsageError(f"{flag} number {number} has the same name as number {first}.", "Leave one of them out.")
        pairs[name] = value
    return pairs


async def split_pair(
    text: str,
    flag: str,
    number: int,
    separator: "PairSeparator",
    terminal: "TerminalInput",
    *,
    is_name: "Callable[[str, PairSeparator], bool] | None" = None,
) -> tuple[str, str]:
    """Split a flag's value, such as `NAME=VALUE`, into the name and the value.

    *separator* is "=" or ":", and *is_name* checks the name. *number* says which occurrence of the flag this is, from
    1, for error messages. If the value is missing, it is read at the terminal, without echo.

    Raises UsageError if the name is missing or rejected by *is_name*. Also raises UsageError if the value is missing
    and the user cannot be asked or types nothing.
    """
    from mcphost.cli.terminal_frontend import is_interactive
    from mcphost.config.typed_pairs import PAIR_FORMS

    form = PAIR_FORMS[separator]
    name, found, value = text.partition(separator)
    name = name.strip()
    if not name:
        raise UsageError(f"{flag} number {number} has no name.", form)
    if not found and not is_interactive():
        raise UsageError(
            f"{flag} number {number} has no value.", f"{form} At a terminal, NAME alone asks for the value."
        )
    if is_name is not None and not is_name(name, separator):
        raise UsageError(f"The name in {flag} number {number} has a space or an unusual character.", form)
    if found:
        return name, value.strip() if separator == ":" else value
    typed = await terminal.read_secret(_("Value of {name} (not shown): ").format(name=name))
    if not typed:
        raise UsageError(f"{name} has no value.", "Nothing was added.")
    return name, typed
