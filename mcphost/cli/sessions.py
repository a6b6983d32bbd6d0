"""Command `sessions`: lists and shows saved conversations."""

import argparse
import datetime as dt
from shlex import quote
from typing import TYPE_CHECKING, Any

from mcphost.errors import UsageError
from mcphost.pluralize import pluralize

if TYPE_CHECKING:
    from mcphost.llm.messages import ToolReturnPart


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `sessions`."""
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list", help="list by default")
    parser.add_argument("id", nargs="?", metavar="ID", help="which one to show; its beginning is enough")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """List saved conversations, or show one."""
    from mcphost.cli.command_runner import remove_model, run_command
    from mcphost.cli.parser import build_options

    if args.action == "show" and not args.id:
        raise UsageError("Which conversation?", "mcphost sessions show ID; ids: mcphost sessions list")
    if args.action == "list" and args.id:
        raise UsageError("sessions list takes no id.", f"To see it: mcphost sessions show {quote(args.id)}")
    options = build_options(args, one_shot=False)

    async def work() -> int:
        from mcphost.cli.bootstrap import open_host
        from mcphost.cli.output import print_dim, print_json, print_note, print_table, print_text
        from mcphost.host.questions.frontend import RefusingFrontend
        from mcphost.serialization import to_builtins

        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            if args.action == "list":
                rows = await host.conversation.list_stored()
                if args.json:
                    print_json({"sessions": [to_builtins(row) for row in rows]})
                else:
                    cells = [
                        (row.id, _format_time(row.updated), pluralize(row.messages, "message"), row.title)
                        for row in rows
                    ]
                    print_table(cells, ("ID", "Updated", "Messages", "Title"))
                    if not rows and not options.quiet:
                        print_note("There are no saved conversations yet.")
                return 0
            matches = await host.conversation.list_stored(prefix=args.id)
            exact = [row for row in matches if row.id == args.id] or list(matches)
            if len(exact) != 1:
                what = "There is no conversation" if not exact else f"{len(exact)} conversations begin with"
                raise UsageError(f"{what} {args.id!r}.", "List them with: mcphost sessions")
            await host.conversation.open(exact[0].id)
            if args.json:
                print_json(
                    {
                        **to_builtins(exact[0]),
                        "messages": [to_builtins(message) for message in host.conversation.messages],
                    }
                )
            else:
                print_text(exact[0].title)
                print_dim(f"{_format_time(exact[0].created)}, {exact[0].model or 'no model'}")
                for message in host.conversation.messages:
                    _print_message(message)
        return 0

    return run_command(options, work)


def _format_time(timestamp: float) -> str:
    return dt.datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")


def _print_message(message: Any) -> None:
    from mcphost.cli.output import print_dim, print_markdown, print_text
    from mcphost.llm.messages import FilePart, ImagePart, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
    from mcphost.serialization import dumps

    print_dim(f"\n[{message.role}{', stopped' if message.cut else ''}]")
    for part in message.parts:
        match part:
            case TextPart():
                print_markdown(part.text)
            case ToolUsePart():
                print_text(f"calls {part.name} {part.raw if part.arguments is None else dumps(part.arguments)}")
            case ToolReturnPart():
                print_text(f"{part.name} {_outcome_verb(part)}: {part.text}")
            case ResourcePart():
                print_text(f"attached {part.uri}{f' of {part.server}' if part.server else ''}")
            case ImagePart():
                print_text(f"attached {part.name}" if part.name else f"an image ({part.mime_type})")
            case FilePart():
                print_text(f"attached {part.name}")
            case _:
                pass


def _outcome_verb(part: "ToolReturnPart") -> str:
    """Return a verb for the outcome of a tool call; older versions stored only whether it failed."""
    return {"ok": "gave", "declined": "was declined", "stopped": "was stopped"}.get(
        part.outcome, "failed" if part.is_error else "gave"
    )
