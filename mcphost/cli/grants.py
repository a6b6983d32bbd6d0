"""mcphost grants: list, search and revoke what was allowed for longer than one call."""

import argparse
import datetime as dt
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.errors import UsageError

if TYPE_CHECKING:
    from mcphost.cli.options import Options
    from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `grants`."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "search", "revoke"), default="list", help="list by default"
    )
    parser.add_argument(
        "what", nargs="?", metavar="TEXT|ID", help="what to search for; or what to revoke: the beginning of its id"
    )
    parser.add_argument("--server", metavar="SERVER", default="", help="only those of this server")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(command: str, given: argparse.Namespace) -> int:
    """Do it."""
    from mcphost.cli.command_runner import run
    from mcphost.cli.options import options_of

    if given.action != "list" and not given.what:
        asked, usage = ("What for", "search TEXT") if given.action == "search" else ("Which one", "revoke ID")
        raise UsageError(f"{asked}?", f"mcphost grants {usage}; ids: mcphost grants list")
    if given.action == "list" and given.what:
        raise UsageError("grants list takes no text.", f"mcphost grants search {quote(given.what)}")
    if given.action == "revoke" and given.server:
        raise UsageError("grants revoke takes no --server.", "An id names one grant by itself.")
    options = options_of(given, one_shot=False)

    async def work() -> int:
        return await _work(options, given.action, given.what or "", given.server, as_json=given.json)

    return run(options, work)


async def _work(options: "Options", action: str, what: str, server: str, *, as_json: bool) -> int:
    from mcphost.cli.bootstrap import open_host
    from mcphost.cli.command_runner import without_model
    from mcphost.cli.output import document, note, say, table
    from mcphost.headless.json_output import folder_permission, permission
    from mcphost.host.questions.frontend import RefusingFrontend

    async with open_host(options, RefusingFrontend(), only=without_model) as host:
        if action == "revoke":
            grant = await host.grants.revoke(what)
            if as_json:
                document({"revoked": grant.id, "rule": grant.text})
            else:
                say(f"Revoked: {grant.text}. It is asked about again.")
            return 0
        found = await host.grants.list_grants(server=server, text=what)
        folders = await host.grants.list_folder_answers(server=server, text=what)
    if as_json:
        document({"grants": [permission(one) for one in found], "folders": [folder_permission(one) for one in folders]})
        return 0
    table([*(_row(one) for one in found), *(_folder_row(one) for one in folders)])
    if not found and not folders and not options.quiet:
        note("Nothing is allowed for longer than a call." if not what and not server else "No grant matches that.")
    return 0


def _row(one: "GrantStatus") -> tuple[str, ...]:
    grant = one.grant
    where = {"everywhere": "", "project": f"in {grant.place}", "conversation": f"in conversation {grant.place}"}
    until = f"until {_when(grant.rule.expires)}" if grant.rule.expires is not None else ""
    account = f"as {grant.account}" if grant.account else ""
    used = f"used {grant.uses} times" if grant.uses != 1 else "used once"
    last = f", last {_when(grant.last_used)}" if grant.last_used else ""
    bounds = ", ".join(part for part in (where[grant.rule.scope], until, account) if part)
    return grant.id, grant.text, bounds or "everywhere", f"{used}{last}", one.why or "counts"


def _folder_row(one: "FolderAnswerStatus") -> tuple[str, ...]:
    return one.answer.id, one.answer.text, "everywhere", f"since {_when(one.answer.created)}", one.why or "counts"


def _when(at: float) -> str:
    try:
        return dt.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "a time out of range"
