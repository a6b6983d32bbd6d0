"""mcphost tools, resources, templates, prompts, skills: what servers offer."""

import argparse
from typing import Any

_NAME = {"tools": "name", "resources": "uri", "templates": "uriTemplate", "prompts": "name", "skills": "name"}


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of the listings."""
    parser.add_argument("server", nargs="?", metavar="SERVER", help="only this server; all of them without it")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(command: str, given: argparse.Namespace) -> int:
    """Connect, list, print; the exit code of the first server that could not be used."""
    from mcphost.cli.command_runner import run
    from mcphost.cli.options import options_of

    options = options_of(given)

    async def work() -> int:
        from mcphost.cli.bootstrap import open_host
        from mcphost.cli.command_runner import known, warn, without_model
        from mcphost.cli.fan_out import ask_servers
        from mcphost.cli.output import complain, document, first_line, note, table
        from mcphost.headless.json_output import offers
        from mcphost.host.questions.frontend import RefusingFrontend

        async with open_host(options, RefusingFrontend(), only=without_model) as host:
            if given.server:
                known(host.config, given.server)
            else:
                warn(host.config, options)
            answers = await ask_servers(host, [given.server] if given.server else None)
        entries: list[dict[str, Any]] = []
        for answer in answers:
            if answer.error is not None:
                complain(answer.error)
                continue
            entries += offers(answer.view, command)
            for text in answer.view.catalog.left_out:
                if not options.quiet:
                    note(f"{answer.view.name}: {text}")
        if given.json:
            errors = [answer.problem() for answer in answers if answer.error is not None]
            document({command: entries, "errors": errors})
        else:
            any_off = any(entry.get("off") for entry in entries)
            table((
                entry["server"], entry[_NAME[command]], *(["off" if entry.get("off") else ""] if any_off else []),
                first_line(entry.get("description") or entry.get("title"))
            ) for entry in entries)  # fmt: skip
            if not entries and not options.quiet and all(answer.error is None for answer in answers):
                who = f"The server {given.server!r} offers" if given.server else "The configured servers offer"
                note(f"{who} no {command}." if answers else "No servers are configured. See: mcphost servers")
        return next((answer.error.exit_code for answer in answers if answer.error is not None), 0)

    return run(options, work)
