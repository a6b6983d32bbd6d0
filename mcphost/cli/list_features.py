"""Commands `tools`, `resources`, `templates`, `prompts` and `skills`: each lists features of servers."""

import argparse
from typing import Any

from mcphost.cli.colors import StateWord
from mcphost.cli.parser import build_options
from mcphost.cli.printing import first_line, print_error, print_json, print_note, print_table, show_status
from mcphost.translation import N_, _

_KEY_FIELDS = {"tools": "name", "resources": "uri", "templates": "uriTemplate", "prompts": "name", "skills": "name"}
_KEY_LABELS = {
    "tools": N_("Tool"),
    "resources": N_("URI"),
    "templates": N_("Template"),
    "prompts": N_("Prompt"),
    "skills": N_("Skill"),
}
_EMPTY = {
    "tools": (N_("The server {server!r} offers no tools."), N_("The configured servers offer no tools.")),
    "resources": (N_("The server {server!r} offers no resources."), N_("The configured servers offer no resources.")),
    "templates": (N_("The server {server!r} offers no templates."), N_("The configured servers offer no templates.")),
    "prompts": (N_("The server {server!r} offers no prompts."), N_("The configured servers offer no prompts.")),
    "skills": (N_("The server {server!r} offers no skills."), N_("The configured servers offer no skills.")),
}
"""Messages to print if one server, or all servers, offer nothing that the command lists."""


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a listing command to *parser*; all listing commands have the same arguments."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="only this server (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Connect to the servers and print their tools, resources, templates, prompts or skills.

    Return the exit code of the first server that failed, or 0.
    """
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        from mcphost.cli.build_host import open_host
        from mcphost.cli.command_runner import (
            connect_servers,
            print_config_problems,
            remove_model,
            require_server,
            unread_file_code,
        )
        from mcphost.headless.json_output import catalog_json
        from mcphost.host.questions.frontend import RefusingFrontend

        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            if args.server:
                require_server(host.config, args.server)
            else:
                print_config_problems(host.config, options)
            with show_status(_connecting_text(args.server), quiet=options.quiet):
                answers = await connect_servers(host, [args.server] if args.server else None)
        unread = 0 if args.server else unread_file_code(host.config)
        entries: list[dict[str, Any]] = []
        for answer in answers:
            if answer.error is not None:
                print_error(answer.error)
                continue
            entries += catalog_json(answer.view, command)
            for text in answer.view.catalog.left_out:
                if not options.quiet:
                    print_note(f"{answer.view.name}: {text}")
        if args.json:
            errors = [answer.error_data() for answer in answers if answer.error is not None]
            print_json({command: entries, "errors": errors})
        else:
            _print_entries(command, entries)
            if not entries and not unread and not options.quiet and all(answer.error is None for answer in answers):
                print_note(_nothing_text(command, args.server, has_servers=bool(answers)))
        return next((answer.error.exit_code for answer in answers if answer.error is not None), unread)

    return run_command(options, work)


def _print_entries(command: str, entries: list[dict[str, Any]]) -> None:
    """Print a table of *entries*, the tools, resources or other features that *command* lists."""
    any_off = any(entry.get("off") for entry in entries)
    state = [_("State")] if any_off else []
    headers = (_("Server"), _(_KEY_LABELS[command]), *state, _("Description"))
    rows = [(
        entry["server"], entry[_KEY_FIELDS[command]],
        *([StateWord("off" if entry.get("off") else "")] if any_off else []),
        first_line(entry.get("description") or entry.get("title"))
    ) for entry in entries]  # fmt: skip
    print_table(rows, headers)


def _connecting_text(server: str | None) -> str:
    return _("Connecting to {server}…").format(server=server) if server else _("Connecting to servers…")


def _nothing_text(command: str, server: str | None, *, has_servers: bool) -> str:
    """Return the message to print if *command* finds nothing to list for *server* (None means all servers).

    *has_servers* is false if no servers are configured.
    """
    if not has_servers:
        return _("No servers are configured. See: mcphost servers")
    of_one, of_all = _EMPTY[command]
    return _(of_one).format(server=server) if server else _(of_all)
