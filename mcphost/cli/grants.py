"""Command `grants`: list, search and revoke stored permissions."""

import argparse
import datetime as dt
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.cli.colors import StateWord
from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_json, print_note, print_table, print_text
from mcphost.errors import UsageError
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import Options
    from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `grants` command to *parser*."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "search", "revoke"), default="list", help="what to do (default: list)"
    )
    parser.add_argument(
        "what", nargs="?", metavar="TEXT|ID", help="search: the text to find; revoke: the beginning of the id"
    )
    parser.add_argument("--server", metavar="SERVER", default="", help="only permissions of this server")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `grants` action `list`, `search` or `revoke` and return the exit code."""
    from mcphost.cli.command_runner import run_command

    if args.action != "list" and not args.what:
        if args.action == "search":
            raise UsageError("What for?", "mcphost grants search TEXT; ids: mcphost grants list")
        raise UsageError("Which one?", "mcphost grants revoke ID; ids: mcphost grants list")
    if args.action == "list" and args.what:
        raise UsageError("grants list takes no text.", f"mcphost grants search {quote(args.what)}")
    if args.action == "revoke" and args.server:
        raise UsageError("grants revoke takes no --server.", "An id already names one grant.")
    options = build_options(args, one_shot=False)

    async def work() -> int:
        return await _run_action(options, args.action, args.what or "", args.server, as_json=args.json)

    return run_command(options, work)


async def _run_action(options: "Options", action: str, query: str, server: str, *, as_json: bool) -> int:
    from mcphost.cli.build_host import open_host
    from mcphost.cli.command_runner import remove_model
    from mcphost.headless.json_output import folder_answer_json, grant_json
    from mcphost.host.questions.frontend import RefusingFrontend

    async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
        if action == "revoke":
            grant = await host.grants.revoke(query)
            if as_json:
                print_json({"revoked": grant.id, "rule": grant.text})
            else:
                print_text(_("Revoked: {rule}. You will be asked again.").format(rule=grant.text))
            return 0
        grants = await host.grants.list_grants(server=server, text=query)
        folders = await host.grants.list_folder_answers(server=server, text=query)
    if as_json:
        print_json(
            {"grants": [grant_json(one) for one in grants], "folders": [folder_answer_json(one) for one in folders]}
        )
        return 0
    print_table(
        [*map(_grant_cells, grants), *map(_folder_answer_cells, folders)],
        (_("ID"), _("Rule"), _("Where"), _("Use"), _("State")),
    )
    if not grants and not folders and not options.quiet:
        print_note(_("No permission is stored.") if not query and not server else _("No permission matches that."))
    return 0


def _grant_cells(status: "GrantStatus") -> tuple[str, ...]:

    grant = status.grant
    where = {
        "everywhere": "",
        "project": _("in {folder}").format(folder=grant.place),
        "conversation": _("in conversation {id}").format(id=grant.place),
    }
    expires = grant.rule.expires
    until = _("until {time}").format(time=_format_time(expires)) if expires is not None else ""
    account = _("as {account}").format(account=grant.account) if grant.account else ""
    used = _("used once") if grant.uses == 1 else _("used {count} times").format(count=grant.uses)
    last = _(", last {time}").format(time=_format_time(grant.last_used)) if grant.last_used else ""
    bounds = join_list(part for part in (where[grant.rule.scope], until, account) if part)
    state = translate_sentence(status.why) if status.why else StateWord("counts")
    return grant.id, grant.text, bounds or _("everywhere"), f"{used}{last}", state


def _folder_answer_cells(status: "FolderAnswerStatus") -> tuple[str, ...]:

    return (
        status.answer.id,
        status.answer.text,
        _("everywhere"),
        _("since {time}").format(time=_format_time(status.answer.created)),
        translate_sentence(status.why) if status.why else StateWord("counts"),
    )


def _format_time(timestamp: float) -> str:
    try:
        return dt.datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return _("a time out of range")
