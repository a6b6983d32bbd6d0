"""Terminal prompts for the values that a server's entry refers to as `${input:ID}`."""

import sys
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError, UsageError
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.schema import ServerConfig, ServerInput
    from mcphost.host.servers.server_editor import ServerEditor


async def ask_value(server: "ServerConfig", one: "ServerInput", reader: "TerminalInput") -> str:
    """Ask for the value of one of a server's inputs; a password is typed without echo.

    Raises UsageError if nothing is typed and the input has no default.
    """
    from mcphost.sanitize import sanitize

    what = _("{input} (for {server})").format(input=one.description or one.id, server=server.name)
    if one.password:
        value = await reader.read_secret(_("{what}, not shown: ").format(what=what))
    else:
        for number, option in enumerate(one.options, 1):
            sys.stderr.write(f"  {number}. {sanitize(option, keep_newlines=False)}\n")
        proposed = f" [{sanitize(one.default, keep_newlines=False)}]" if one.default else ""
        value = await reader.read_answer(f"{what}{proposed}: ") or one.default
        if one.options and value not in one.options and value.isdecimal() and 0 < int(value[:6]) <= len(one.options):
            value = one.options[int(value) - 1]
    if not value:
        raise UsageError(
            f"{one.id} has no value.", f"Set it later: mcphost servers input {quote(server.name)} {quote(one.id)}"
        )
    return value


async def ask_missing_inputs(
    editor: "ServerEditor",
    server: "ServerConfig",
    reader: "TerminalInput | None",
    answers: "dict[tuple[str, ServerInput], str]",
    origin: str,
) -> None:
    """Ask for a new server's missing inputs; without *reader*, print the commands that set them.

    Each typed value is added to *answers* and reused for the same input of another server with the same *origin*, such
    as a configuration file of another host. If a value is not typed or cannot be stored, the error is printed and the
    next input is asked for.
    """
    from mcphost.cli.output import format_error, print_note
    from mcphost.host.servers.server_editor import describe_missing_input
    from mcphost.serialization import replace

    for one in server.inputs:
        if await editor.has_input(one):
            continue
        if reader is None:
            print_note(describe_missing_input(server, one))
            continue
        key = origin, replace(one, keyring_entry="")
        try:
            if key not in answers:
                answers[key] = await ask_value(server, one, reader)
            await editor.set_input(server, one, answers[key])
        except McpHostError as error:
            print_note(format_error(error))
