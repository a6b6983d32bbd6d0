"""Command `servers`: lists, approves and checks servers, and shows changed tools for review."""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any

from mcphost.cli.colors import StateWord
from mcphost.cli.parser import EDIT_ACTIONS, build_options
from mcphost.cli.printing import (
    GrowingTable,
    count_cells,
    format_error,
    print_json,
    print_note,
    print_table,
    print_text,
    show_status,
    translate_counts,
)
from mcphost.config.description_lines import translate_line
from mcphost.errors import ConsentDenied, UsageError
from mcphost.sanitize import sanitize
from mcphost.translation import N_, _, join_list, ngettext, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.command_runner import ServerConnectResult
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.config.loader import ProjectFile
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.audit.audit_log import AuditLog
    from mcphost.host.questions.tool_changes import ToolChange
    from mcphost.store.grants import GrantStore


_MAX_SHOWN_PROBLEMS = 3
_MAX_PROBLEM_CHARS = 300
_MAX_COMMAND_CHARS = 400
"""Maximum length of the command that is repeated above the approval prompt."""
ACTIONS: dict[str, str] = {
    "list": N_("list the servers, with their approval (the default)"),
    "trust": N_("approve a server, or a project's .mcp.json, before it is used"),
    "check": N_("connect, and show what works or which step fails"),
    "changes": N_("show changed tools, and keep or refuse them"),
    "secure": N_("move secrets from the file to the keyring"),
}
"""Summaries of the actions that share this module's arguments."""


def add_arguments(command: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers` command to *parser*."""
    actions = {**ACTIONS, **{name: summary for name, (_module, summary) in EDIT_ACTIONS.items()}}
    parser.title, parser.names = N_("actions:"), actions
    parser.usage = N_("mcphost servers [flags] [ACTION] [NAME]")
    parser.epilog = N_("The actions from add on have their own help, for example: mcphost servers add --help")
    parser.add_argument(
        "action",
        nargs="?",
        choices=actions,
        default="list",
        metavar="ACTION",
        help="one of the actions above (default: list)",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="the name of the server; check takes several, and trust also .mcp.json"
    )
    parser.add_argument("--keep", action="store_true", help="changes: accept the tools as they are now")
    parser.add_argument("--yes", action="store_true", help="trust, secure, changes --keep: do not ask for confirmation")
    parser.add_argument(
        "--store", choices=("file",), help="secure: without a keyring, store secrets in a file that only you can read"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers` action `list`, `trust`, `check`, `changes` or `secure`; return the exit code."""
    from mcphost.cli.command_runner import run_command

    args.name = args.names[0] if args.names else ""
    _check_arguments(args)
    options = build_options(args)

    async def work() -> int:
        match args.action:
            case "list":
                return await _list(options, as_json=args.json)
            case "trust":
                return await _trust(options, args.name, yes=args.yes, as_json=args.json)
            case "changes":
                return await review_changes(options, args.name, keep=args.keep, yes=args.yes, as_json=args.json)
            case "secure" if args.store:
                from mcphost.cli.secret_storage import choose_secret_store

                return await choose_secret_store(options)
            case "secure":
                from mcphost.cli.move_secrets import move_secrets

                return await move_secrets(options, args.name, yes=args.yes, as_json=args.json)
            case _:
                return await _check(options, list(dict.fromkeys(args.names)), as_json=args.json)

    return run_command(options, work)


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError if the arguments are not valid for the action."""
    if args.action in EDIT_ACTIONS:
        raise UsageError(f"Write the action before its flags: mcphost servers {quote(args.action)} …")
    if args.action == "trust" and not args.name:
        raise UsageError("Which server?", "mcphost servers trust NAME; names: mcphost servers list")
    if args.action == "list" and args.name:
        raise UsageError("servers list takes no name.", f"Does it answer? mcphost servers check {quote(args.name)}")
    if len(args.names) > 1 and args.action != "check":
        raise UsageError(f"servers {args.action} takes one name.", "Run it once for each server.")
    if args.action == "changes" and not args.name:
        raise UsageError("Of which server?", "mcphost servers changes NAME; names: mcphost servers list")
    if args.store and (args.action != "secure" or args.name):
        raise UsageError("--store applies to all servers.", "Write: mcphost servers secure --store file")
    if args.action == "secure" and not (args.name or args.store):
        raise UsageError("Whose secrets?", "mcphost servers secure NAME; names: mcphost servers list")
    if args.keep and args.action != "changes":
        raise UsageError("--keep belongs to: mcphost servers changes NAME")
    if args.yes and not (args.action in ("trust", "secure") or args.keep):
        raise UsageError("--yes belongs to: mcphost servers trust, secure, changes --keep")


async def _list(options: "Options", *, as_json: bool) -> int:
    from mcphost import paths
    from mcphost.cli.build_host import load_configuration, open_grants
    from mcphost.cli.command_runner import print_config_problems, unread_file_code
    from mcphost.config.loader import SERVERS_FILE
    from mcphost.config.target_secrets import masked_argv, masked_url

    async with open_grants() as grants:
        config = await load_configuration(options, grants)
        states = [(server, await _approval_state(server, grants)) for server in config.servers]
    code = unread_file_code(config)
    if as_json:
        print_json({"servers": [_server_entry(*one) for one in states], "problems": list(config.problems)})
        return code
    print_config_problems(config, options)
    rows = [
        (server.name, StateWord(state), join(masked_argv(server)) if server.is_stdio else masked_url(server))
        for server, state in states
    ]
    print_table(rows, (_("Server"), _("State"), _("Command or URL")))
    if not states and not code and not options.quiet:
        own = paths.config_dir(options.config_dir) / SERVERS_FILE
        read = join_list(options.mcp_config)
        print_note(
            _("There are no servers in {read}.").format(read=read)
            if read
            else _("No servers are configured in {own}. Add one: mcphost servers add NAME -- COMMAND").format(own=own)
        )
    return code


async def _approval_state(server: "ServerConfig", grants: "GrantStore") -> str:
    from mcphost.host.servers.server_approval import approval_source

    if server.disabled:
        return "disabled"
    return "approved" if await approval_source(grants, server) else "not approved"


def _server_entry(server: "ServerConfig", state: str) -> dict[str, Any]:
    from mcphost.config.approval_digest import server_digest
    from mcphost.config.target_secrets import masked_argv, masked_url

    target = {"command": list(masked_argv(server)), "cwd": server.cwd}
    kind = target if server.is_stdio else {"url": masked_url(server)}
    return {
        "name": server.name,
        "state": state,
        "transport": "stdio" if server.is_stdio else "http",
        **kind,
        "env": sorted(server.env),
        "headers": sorted(server.headers),
        "era": server.era,
        "revision": server.revision or "",
        "source": server.source,
        "file": server.file,
        "digest": server_digest(server),
        "trusts_annotations": server.trust_annotations,
        "reviews_results": server.review_results,
    }


async def _trust(options: "Options", name: str, *, yes: bool, as_json: bool) -> int:
    from mcphost.cli.build_host import load_configuration, open_grants_and_audit
    from mcphost.cli.command_runner import require_server
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.config.approval_digest import server_digest, with_file_digests
    from mcphost.config.approval_text import describe_server, diff_lines
    from mcphost.config.loader import PROJECT_FILE, read_project_file
    from mcphost.host.servers.server_approval import approve, find_approval, is_approved_by_flag

    review = Confirmation(yes=yes, as_json=as_json)
    async with open_grants_and_audit() as (grants, audit):
        config = await load_configuration(options, grants)
        project = read_project_file(Path.cwd()) if name == PROJECT_FILE else None
        if project is not None:
            return await _trust_project(project, grants, audit, Confirmation(yes=yes, as_json=as_json), as_json=as_json)
        configured = require_server(config, name)
        server = with_file_digests(configured)
        lines = describe_server(server)
        if is_approved_by_flag(server):
            raise UsageError(f"{name!r} comes from --mcp-config, which approves it for that run.", "Nothing to do.")
        show_settings(review, server)
        earlier = await find_approval(grants, name)
        if earlier and earlier.digest != server_digest(server):
            review.show(_("It differs from what was approved before:"))
            changed = diff_lines(earlier.description.splitlines(), lines)
            review.show(*(f"  {translate_line(line)}" for line in changed))
        digest = server_digest(server)
        review.show(summarize_command(server))
        review.confirm(f"Approve {name}?", "Nothing was approved.")
        if server_digest(configured) != digest or describe_server(configured) != lines:
            raise ConsentDenied("Nothing was approved: a file changed meanwhile.", "Review it again.")
        await approve(grants, audit, server)
    if as_json:
        print_json({"approved": name, "digest": server_digest(server), "covers": list(lines)})
    else:
        print_text(_("Approved for as long as none of this changes."))
    return 0


def show_settings(review: "Confirmation", server: "ServerConfig") -> None:
    """Show every setting that approving the server would cover, and the warnings about the server."""
    from mcphost.config.approval_text import describe_server
    from mcphost.host.servers.server_approval import server_warnings

    review.show(f"{server.name} ({server.file})")
    review.show(*(f"  {translate_line(line)}" for line in (*describe_server(server), *_unbound_expansion(server))))
    for warning in server_warnings(server):
        review.show(_("  Warning: {warning}").format(warning=translate_sentence(warning)))
    if server.trust_annotations:
        review.show(_("  trustAnnotations: tools that it declares read-only run without a question"))
    if server.review_results and server.source != "project":  # for a project, it is one of the lines
        review.show(_("  reviewResults: you review its results before the model gets them"))


def _unbound_expansion(server: "ServerConfig") -> tuple[str, ...]:
    """Return lines with the current values of the `${…}` references in the server's entry.

    Returns () for a project's server: its approval covers these values, so `describe_server` already includes them.
    """
    from mcphost.config.approval_text import describe_expansion

    return describe_expansion(server) if server.source != "project" else ()


def summarize_command(server: "ServerConfig") -> str:
    """Return the server's command or URL as one line, which is shown directly above the approval question.

    The full description above it may be so long that its beginning has scrolled off the screen.
    """
    from mcphost.config.target_secrets import masked_argv, masked_url

    text = sanitize(join(masked_argv(server)) if server.is_stdio else masked_url(server), keep_newlines=False)
    if len(text) > _MAX_COMMAND_CHARS:
        more = len(text) - _MAX_COMMAND_CHARS
        text = _("{start}… ({count} more characters, see above)").format(start=text[:_MAX_COMMAND_CHARS], count=more)
    return (_("Command: {text}") if server.is_stdio else _("Address: {text}")).format(text=text)


async def _trust_project(
    project: "ProjectFile", grants: "GrantStore", audit: "AuditLog", review: "Confirmation", *, as_json: bool
) -> int:
    """Approve the `.mcp.json` in a project folder; each server in it must still be approved separately."""
    from mcphost.config.approval_text import describe_server
    from mcphost.config.json_files import decode_text, parse_json
    from mcphost.config.mcp_json import parse_file_roots, parse_servers
    from mcphost.host.servers.server_approval import approve_project, server_warnings

    problems: list[str] = []
    content = parse_json(decode_text(project.content, project.path), project.path)
    servers = parse_servers(content, project.path, "project", problems.append)
    review.show(project.path)
    for server in servers:
        warnings = [
            _("Warning: {warning}").format(warning=translate_sentence(warning)) for warning in server_warnings(server)
        ]
        lines = [*map(translate_line, describe_server(server)), *warnings]
        review.show(f"  {server.name}", *(f"    {line}" for line in lines))
    roots = parse_file_roots(content, project.path, "project", problems.append)
    if roots:
        review.show(_("  Shared folders, which each server gets only if you agree:"))
        review.show(*(f"    {one.path}" for one in roots))
    for problem in problems:
        review.show(f"  {translate_sentence(problem)}")
    review.confirm("Use this file?", "Nothing was approved.")
    await approve_project(grants, audit, project)
    if as_json:
        print_json({"approved": project.path, "digest": project.digest, "servers": [server.name for server in servers]})
    else:
        print_text(_("This content of the file is used from now on; each server in it needs its own approval."))
    return 0


async def _check(options: "Options", names: list[str], *, as_json: bool) -> int:
    """Connect to the servers, print each result as soon as it is known, and return the exit code.

    If *names* is empty, all enabled servers are checked.
    """
    from mcphost.cli.build_host import open_host
    from mcphost.cli.command_runner import (
        ServerConnectResult,
        connect_servers,
        find_never_rule_warnings,
        measure_latency,
        print_config_problems,
        remove_model,
        require_server,
        unread_file_code,
    )
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.serialization import replace

    async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
        for name in names:
            require_server(host.config, name)
        if as_json and not names:
            print_config_problems(host.config, options)
        broken = {} if names else invalid_entries(host.config)
        table = GrowingTable(
            (_("Server"), _("State"), _("Revision"), _("Era"), _("Details")),
            _column_widths([*broken, *(names or [view.name for view in host.servers.views()])]),
        )
        if not as_json:
            for entry, problem in broken.items():
                table.print_row((entry, StateWord("invalid"), "", "", translate_sentence(problem)))
            print_config_problems(replace(host.config, problems=_other_problems(host.config, broken, names)), options)

        async def report(result: ServerConnectResult) -> None:
            await measure_latency(host, result)
            if not as_json:
                table.print_row(_check_cells(result))

        with show_status(_("Connecting to servers…"), quiet=options.quiet):
            answers = await connect_servers(host, names, report)
        warnings = () if names else find_never_rule_warnings(host)
        print_config_problems(replace(host.config, problems=warnings), options)
    if as_json:
        rows = [*map(_checked_json, answers), *(_invalid_json(entry, problem) for entry, problem in broken.items())]
        print_json({"servers": rows, "problems": [*host.config.problems, *warnings]})
    if not (as_json or options.quiet or answers or host.config.problems):
        print_note(_("No servers are configured. See: mcphost servers"))
    return _check_code(answers, is_broken=bool(broken), unread=0 if names else unread_file_code(host.config))


def _checked_json(result: "ServerConnectResult") -> dict[str, Any]:
    from mcphost.headless.json_output import server_json

    return {
        **server_json(result.view),
        "ok": result.error is None,
        "seconds": round(result.seconds, 3),
        "latency": None if result.latency is None else round(result.latency, 4),
        "error": result.error_data(),
    }


def _invalid_json(name: str, problem: str) -> dict[str, Any]:
    return {"name": name, "state": "invalid", "ok": False, "error": {"kind": "config", "message": problem, "exit": 3}}


def _check_code(answers: "list[ServerConnectResult]", *, is_broken: bool, unread: int) -> int:
    """Return the exit code of `servers check`.

    *answers* are the results of connecting, and *is_broken* is true if a server's entry is invalid. *unread* is the
    exit code for configuration files that could not be read, or 0 if all files were read.
    """
    codes = [one.error.exit_code for one in answers if one.error is not None]
    if len(codes) == len(answers):
        return unread or (codes[0] if codes and set(codes) in ({5}, {6}) and not is_broken else 4)
    return next(iter(codes), 3 if is_broken else unread)


_SERVER_IN_PROBLEM = r'server "([^"]+)"'


def invalid_entries(config: "HostConfig") -> dict[str, str]:
    """Return the problems of the server entries that could not be read, keyed by server name."""
    usable = {server.name for server in config.servers}
    matches = ((re.search(_SERVER_IN_PROBLEM, problem), problem) for problem in config.problems)
    return {match[1]: problem for match, problem in matches if match is not None and match[1] not in usable}


def _other_problems(config: "HostConfig", broken: dict[str, str], names: list[str]) -> tuple[str, ...]:
    """Return the configuration problems that are not among the values of *broken*.

    Unless *names* is empty, only problems of the servers with these names are returned. *broken* is the result of
    `invalid_entries`.
    """
    others = tuple(problem for problem in config.problems if problem not in broken.values())
    matches = ((re.search(_SERVER_IN_PROBLEM, problem), problem) for problem in others)
    return tuple(problem for match, problem in matches if not names or (match is not None and match[1] in names))


def _column_widths(names: list[str]) -> tuple[int, ...]:
    """Return fixed column widths for `servers check`, which prints each row before the later rows are known."""
    return min(40, max(map(len, names), default=0)), count_cells(_("invalid")), len("2026-07-28"), len("handshake")


def _check_cells(result: "ServerConnectResult") -> tuple[str, ...]:
    from mcphost.headless.json_output import to_json
    from mcphost.host.server_views import summarize_catalog

    view, facts = result.view, result.view.facts
    if result.error is not None or facts is None:
        error = result.error
        detail = format_error(error) if error else translate_sentence(view.detail)
        return view.name, StateWord("failed"), "", "", detail
    counts = translate_counts(summarize_catalog(view.catalog))
    who = f"{facts.info.name} {facts.info.version}".strip()
    times = _("ready in {seconds:.2f} s").format(seconds=result.seconds)
    if result.latency is not None:
        times += _(", round trip {milliseconds:.1f} ms").format(milliseconds=result.latency * 1000)
    names = join_list(_(name) for name in to_json(facts.capabilities)) or _("nothing")
    offered = _("offers {capabilities}").format(capabilities=names)
    details = (*_describe_left_out(view.catalog.left_out), f"{counts}; {who}; {times}; {offered}")
    state = StateWord("warning" if view.catalog.left_out else "ok")
    return view.name, state, facts.revision.value, facts.era, " ".join(details)


def _describe_left_out(problems: Sequence[str]) -> Iterator[str]:
    """Yield a line for each of the first *problems*, and a line with the number of the others.

    *problems* are sentences about the tools and other entries that were left out of a server's lists.
    """
    for problem in problems[:_MAX_SHOWN_PROBLEMS]:
        yield sanitize(translate_sentence(problem))[:_MAX_PROBLEM_CHARS]
    if rest := len(problems[_MAX_SHOWN_PROBLEMS:]):
        yield ngettext("{count} more entry was left out.", "{count} more entries were left out.", rest).format(
            count=rest
        )


async def review_changes(options: "Options", name: str, *, keep: bool, yes: bool, as_json: bool) -> int:
    """Show a server's changed tools; with *keep*, accept them after asking for confirmation.

    With *yes*, the user is not asked. Returns 5 if any tools are still quarantined, otherwise 0. Raises ConsentDenied
    if the user declines, and UsageError if the server is unknown or the user cannot be asked.
    """
    from mcphost.cli.build_host import open_host
    from mcphost.cli.command_runner import remove_model, require_server
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.host.questions.frontend import RefusingFrontend

    async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
        require_server(host.config, name)
        changed = await host.quarantine.list_changes(name)
        review = Confirmation(yes=yes or not keep, as_json=as_json)
        _print_changes(name, changed, review)
        accepted: tuple[str, ...] = ()
        if keep and changed:
            review.confirm(
                "Accept all of them as shown?" if len(changed) > 1 else "Accept it as shown?", "Nothing was accepted."
            )
            accepted = await host.quarantine.accept(name, changed)
        quarantined = [change.tool for change in changed if change.tool not in accepted]
    if as_json:
        print_json(
            {"changes": [{"tool": change.tool, "difference": list(change.difference)} for change in changed],
             "kept": list(accepted), "held": quarantined}
        )  # fmt: skip
    elif accepted:
        print_text(_("Accepted: {count}.").format(count=len(accepted)) if len(accepted) > 1 else _("Accepted."))
    elif changed:
        print_text(_("Quarantined. To accept them: mcphost servers changes {name} --keep").format(name=quote(name)))
    return 5 if quarantined else 0


def _print_changes(name: str, changed: "tuple[ToolChange, ...]", review: "Confirmation") -> None:

    if not changed:
        print_note(_("No tool of {name} is quarantined.").format(name=name))
    for change in changed:
        review.show(change.tool, *(f"  {line}" for line in change.difference), "")
