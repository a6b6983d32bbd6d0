"""Command `servers input`: asks for the values of a server's `${input:ID}` references and stores them."""

import argparse
import sys
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_text
from mcphost.errors import UsageError
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.schema import ServerConfig, ServerInput

_MAX_TYPED_BYTES = 40_000


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers input` command to *parser*."""
    parser.add_argument("name", metavar="NAME", help="name of the server")
    parser.add_argument("input", nargs="?", default="", metavar="ID", help="one of its inputs (default: ask for all)")
    parser.add_argument("--delete", action="store_true", help="forget the value instead")


def run(command: str, args: argparse.Namespace) -> int:
    """Ask for the values of a server's inputs and store them, or delete stored values with `--delete`."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        return await _set_inputs(options, args.name, args.input, is_delete=args.delete)

    return run_command(options, work)


async def _set_inputs(options: "Options", name: str, input_id: str, *, is_delete: bool) -> int:
    from mcphost.cli.command_runner import require_server
    from mcphost.cli.edit_servers import open_server_editor
    from mcphost.cli.terminal_frontend import TerminalInput, is_interactive

    async with open_server_editor(options) as (editor, config):
        server = require_server(config, name)
        chosen = [one for one in server.inputs if input_id in ("", one.id)]
        if not chosen:
            known = ", ".join(one.id for one in server.inputs)
            raise UsageError(
                f"{name!r} refers to no input {input_id!r}." if input_id else f"{name!r} refers to no input.",
                f"Choose one of: {known}." if known else "An entry refers to one as ${input:ID}.",
            )
        reader = TerminalInput() if is_interactive() else None
        if reader is None and len(chosen) > 1 and not is_delete:
            raise UsageError("Which input?", f"mcphost servers input {quote(name)} {quote(chosen[0].id)}")
        for one in chosen:
            value = None if is_delete else await _ask(server, one, reader)
            sharing = _sharing_servers(config.servers, server, one)
            changes = [await editor.set_input(other, definition, value) for other, definition in sharing]
            print_text(_describe_change(one.id, editor.describe_input_place(one), is_delete, was_stored=any(changes)))
    return 0


def _describe_change(input_id: str, place: str, is_delete: bool, *, was_stored: bool) -> str:
    from mcphost.host.servers.server_data import describe_secret_place

    named = {"keyring": _("the keyring"), "file": _("the secrets file")}
    where = next((name for key, name in named.items() if describe_secret_place(key) == place), place)
    if not is_delete:
        return _("{id} is stored in {where}").format(id=input_id, where=where)
    if was_stored:
        return _("{id} was removed from {where}").format(id=input_id, where=where)
    return _("{id} has no value in {where}; nothing was removed").format(id=input_id, where=where)


def _sharing_servers(
    servers: "tuple[ServerConfig, ...]", server: "ServerConfig", one: "ServerInput"
) -> "list[tuple[ServerConfig, ServerInput]]":
    """Return the servers that share the input *one* of *server*, each with its definition of the input.

    Only servers in the same file share inputs. Servers in a project's file do not share any: the user enters a
    separate value for each server.
    """
    from mcphost.serialization import replace

    if not one.is_shared or server.source == "project":
        return [(server, one)]
    plain = replace(one, keyring_entry="", stored_value=None)
    return [
        (other, definition)
        for other in servers
        for definition in other.inputs
        if (other.file, other.source) == (server.file, server.source)
        and replace(definition, keyring_entry="", stored_value=None) == plain
    ]


async def _ask(server: "ServerConfig", one: "ServerInput", reader: "TerminalInput | None") -> str:
    """Ask for an input's value at the terminal or, if *reader* is None, read it from standard input.

    Raises UsageError if the value is empty.
    """
    from mcphost.cli.terminal_frontend import ask_input_value

    if reader is not None:
        return await ask_input_value(server, one, reader)
    value = sys.stdin.buffer.read(_MAX_TYPED_BYTES).decode(errors="replace").removesuffix("\n").removesuffix("\r")
    if not value:
        raise UsageError(f"{one.id} has no value.", "Write it to standard input, or run the command at a terminal.")
    return value
