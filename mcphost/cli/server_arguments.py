"""Arguments that several actions of the `servers` command share."""

import argparse
from typing import TYPE_CHECKING

from mcphost.errors import UsageError
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.cli.terminal_frontend import TerminalInput


def add_scope_flag(parser: argparse.ArgumentParser, *short: str) -> None:
    """Add `--scope` to *parser*, and its *short* forms."""
    parser.add_argument(
        *short, "--scope", choices=("user", "project", "local"), default="user",
        help="user: everywhere (default); project: in .mcp.json here; local: only you, only in this folder",
    )  # fmt: skip


async def split_pair(text: str, separator: str, terminal: "TerminalInput") -> tuple[str, str]:
    """Split text such as `NAME=VALUE` at *separator*; ask for a missing value at the terminal, without echo.

    Raises UsageError if the name is missing, or if the value is missing and there is no terminal.
    """
    from mcphost.cli.terminal_frontend import is_interactive

    name, found, value = text.partition(separator)
    name = name.strip()
    if not name:
        raise UsageError(f"{text!r} has no name.", f"Write NAME{separator}VALUE.")
    if found:
        return name, value.strip() if separator == ":" else value
    if not is_interactive():
        raise UsageError(f"{name} has no value.", f"Write {name}{separator}VALUE, or run it at a terminal to type it.")
    typed = await terminal.read_secret(_("Value of {name} (not shown): ").format(name=name))
    if not typed:
        raise UsageError(f"{name} has no value.", "Nothing was added.")
    return name, typed
