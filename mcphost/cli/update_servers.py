"""Command `servers update`: finds new versions of installed servers, shows the changes, and installs them."""

import argparse
from shlex import quote
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import format_error, print_error, print_json, print_note, print_text
from mcphost.config.description_lines import translate_line
from mcphost.errors import ConsentDenied, McpHostError, RegistryError, UsageError
from mcphost.translation import _, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.servers.registry_installer import PlanSource
    from mcphost.host.servers.server_file_editor import SavedServer, ServerFileEditor
    from mcphost.registry.entries import RegistryEntry
    from mcphost.registry.plan import PlannedEntry
    from mcphost.registry.updates import InstalledServer


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers update` command to *parser*."""
    from mcphost.cli.install_servers import add_digest_flag
    from mcphost.registry.plan import KINDS

    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="the server (default: all from a registry)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="values",
        help="the value of an input; NAME alone asks for it without showing it; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--registry", default="", metavar="URL|FILE", help="use another registry than the one it was installed from"
    )
    parser.add_argument(
        "--from", dest="kind", default="", choices=KINDS, help="use another kind of package than before"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    add_digest_flag(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers update` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)
    if options.mcp_config:
        raise UsageError("--mcp-config names files that mcphost only reads.", "Leave it out.")
    if (args.values or args.kind) and not args.name:
        raise UsageError("--set and --from belong to one server.", "Name it: mcphost servers update NAME …")

    async def work() -> int:
        return await _update_all(options, args)

    return run_command(options, work)


async def _update_all(options: "Options", args: argparse.Namespace) -> int:
    from mcphost.cli.edit_servers import open_server_editor
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.registry.updates import read_record

    async with open_server_editor(options) as (editor, config):
        installed = [
            record
            for server in _choose(config, args.name)
            if (record := read_record(editor.read_entry(server), server.name)) is not None
        ]
        servers = {server.name: server for server in config.servers}
    if args.name and not installed:
        raise UsageError(f"{args.name!r} was not installed from a registry.", "Change it with: mcphost servers edit")
    terminal = TerminalInput()
    reports: list[dict[str, Any]] = []
    code: int = 0
    for record in installed:
        try:
            server = servers[record.name]
            place: str = args.registry or _find_registry(record, server, config.registry.url)
            report = await _Update(options, args, record, server, place, terminal).run()
        except RegistryError as error:
            if args.name:
                raise
            print_error(error)
            report = {"name": record.name, "server": record.server, "error": error.message}
            code = error.exit_code
        reports.append(report)
        code = int(report.get("exit", 0)) or code
    if args.json:
        print_json({"servers": reports})
    elif not installed:
        print_note(_("No server was installed from a registry. Find one: mcphost servers search WORD"))
    return code


def _choose(config: "HostConfig", name: str) -> "list[ServerConfig]":
    from mcphost.cli.command_runner import require_server

    if name:
        require_server(config, name)
    return [server for server in config.servers if name in ("", server.name) and server.file]


def _find_registry(record: "InstalledServer", server: "ServerConfig", configured: str) -> str:
    """Return the registry that a server was installed from.

    Raises RegistryError if a project's file names a registry other than *configured*, the registry that the
    user configured. Without this check, the author of a project's file could decide where new versions come from.
    """
    from mcphost.host.servers.registry_installer import absolute_place

    if server.source == "project" and record.url != absolute_place(configured):
        raise RegistryError(
            f"{record.name} is from the registry {record.url}, according to {server.file}; yours is another one.",
            f"If you trust that one: mcphost servers update {quote(record.name)} --registry {quote(record.url)}",
        )
    return record.url


class _Update:
    """The update of one server.

    This class finds the newest version, plans the new entry in mcp.json, and asks the user before writing the entry.
    """

    def __init__(
        self,
        options: "Options",
        args: argparse.Namespace,
        record: "InstalledServer",
        server: "ServerConfig",
        place: str,
        terminal: "TerminalInput",
    ) -> None:
        from mcphost.cli.terminal_frontend import Confirmation

        self._options, self._args, self._record, self._server = options, args, record, server
        self._terminal = terminal
        self._place = place
        self._review = Confirmation(yes=args.yes or args.dry_run, as_json=args.json)

    async def run(self) -> dict[str, Any]:
        """Show and apply the update; return a report as JSON data. Raises McpHostError if the update fails."""
        from mcphost.registry.entries import is_newer

        latest = await self._find()
        record = self._record
        report = {"name": record.name, "server": record.server, "version": record.version, "latest": latest.version,
                  "status": latest.status}  # fmt: skip
        if not is_newer(latest, record.version):
            if not self._args.json:
                print_text(
                    _("{name}: {version} is the latest version.").format(name=record.name, version=record.version)
                )
            return {**report, "changes": []}
        if latest.status == "deleted":
            raise RegistryError(f"{latest.name} {latest.version} was deleted from the registry.", "It stays as it is.")
        return {**report, **await self._change(latest)}

    async def _find(self) -> "RegistryEntry":
        from mcphost import paths
        from mcphost.cli.search_servers import report_answer
        from mcphost.registry.client import open_registry

        async with open_registry(self._place, paths.cache_dir() / "registry", refresh=True) as registry:
            answer = await registry.find(self._record.server)
        if answer.offline_reason and not self._options.quiet:
            report_answer(answer)
        return answer.entries[0]

    async def _change(self, latest: "RegistryEntry") -> dict[str, Any]:
        """Show the changes, ask for confirmation, write the new entry and try out the server.

        Return a report as JSON data.
        """
        from mcphost.cli.edit_servers import forget_unused_secrets, open_server_editor, print_saved
        from mcphost.cli.install_servers import offer_undo, open_source, show_download, show_server, try_server
        from mcphost.host.servers.registry_installer import describe_download, installed_programs
        from mcphost.registry.plan import choose_option

        args, name = self._args, self._record.name
        was_approved = await self._is_approved()
        if not was_approved and (refusal := self._refuse_unasked()):
            if args.name:
                raise refusal
            print_note(format_error(refusal))
            return {"changes": [], "error": refusal.message}
        option = choose_option(latest, args.kind or self._record.kind, installed_programs())
        async with open_server_editor(self._options) as (editor, config):
            show_server(self._review, latest, option, name, [one.name for one in config.servers if one.name != name])
            if self._place != config.registry.url:
                self._review.show(_("  registry: {address}").format(address=self._place))
            if args.dry_run and option.kind == "mcpb":
                show_download(self._review, option)
                return {"changes": [], "download": describe_download(option)}
            source = await open_source(editor, option, name, self._review, self._terminal)
            try:
                report, saved = await self._write(editor, source, latest, was_approved=was_approved)
            except BaseException:
                source.discard()
                raise
        if saved is None:
            return report
        if not args.json:
            print_saved(saved, "updated")
        error: McpHostError | None = None
        if saved.is_approved and not self._server.disabled:
            error = await try_server(self._options, name, as_json=args.json)
        terminal = None if args.yes else self._terminal
        code, is_undone = await offer_undo(self._options, self._review, saved, error, terminal, is_update=True)
        if is_undone:
            source.discard()
        else:
            async with open_server_editor(self._options) as (editor, _config):
                await forget_unused_secrets(editor, self._server, is_quiet=args.json)
        return {**report, "updated": True, "ok": error is None, "error": error.message if error else "", "exit": code}

    async def _is_approved(self) -> bool:
        from mcphost.cli.edit_servers import open_server_editor

        async with open_server_editor(self._options) as (editor, _config):
            return await editor.is_approved(self._server)

    def _refuse_unasked(self) -> ConsentDenied | None:
        """Return an error if `--yes` was given for a server that is not approved, and the user cannot be asked.

        The update would also approve the server, so the user must be asked in spite of `--yes`. The error is also
        returned if the command updates all servers. Returns None if the update can continue, which is always the case
        without `--yes` and in a dry run.
        """
        from mcphost.cli.terminal_frontend import Confirmation

        args, name = self._args, self._record.name
        if not args.yes or args.dry_run:
            return None
        self._review = Confirmation(yes=False, as_json=args.json)
        if args.name and self._review.can_ask:
            return None
        return ConsentDenied(
            f"{name} was not updated, because it is not approved.",
            f"Read its settings, and approve it: mcphost servers trust {quote(name)}",
        )

    async def _write(
        self, editor: "ServerFileEditor", source: "PlanSource", latest: "RegistryEntry", *, was_approved: bool
    ) -> "tuple[dict[str, Any], SavedServer | None]":
        """Show the changes, ask for confirmation, and write the new entry.

        *source* creates the plan for the version *latest*. If *was_approved* is False, the update also approves the
        server, so all of its settings are shown. Returns a report as JSON data and the saved server; the latter is
        None if nothing was written.
        """
        from mcphost.cli.install_servers import ask_digest, digest_json
        from mcphost.cli.servers import summarize_command
        from mcphost.config.approval_digest import with_file_digests
        from mcphost.config.server_files import find_server_file, plan_set
        from mcphost.host.servers.registry_installer import check_programs, describe_update
        from mcphost.registry.entries import describe_publisher

        entry, planned = await self._plan(source, latest, editor.read_entry(self._server))
        edit = plan_set(
            find_server_file(self._server, editor.config_dir, editor.folder), self._record.name, entry, replace=True
        )
        before, after = self._server, edit.server
        if not was_approved:  # the update also approves, so everything is shown, as it is approved
            before, after = None, with_file_digests(after) if after is not None and not self._args.dry_run else after
        digest = await ask_digest(self._options, edit, source.option)
        changes, warnings = describe_update(before, after, planned, digest)
        self._review.show(
            _("  version: {before} -> {after}").format(before=self._record.version, after=latest.version),
            *(f"  {translate_line(line)}" for line in changes),
            *(_("  Warning: {warning}").format(warning=translate_sentence(warning)) for warning in warnings),
        )
        report = {"changes": list(changes), "warnings": list(warnings), "missing": list(planned.missing)}
        report |= digest_json(digest)
        if self._args.dry_run:
            return report, None
        check_programs(source.option, entry)
        if digest is not None and not self._args.accept_digest:
            digest.check(server=quote(self._record.name))
        if edit.server is not None:
            publisher = _("publisher: {publisher}").format(publisher=describe_publisher(latest, _))
            self._review.show(summarize_command(edit.server), publisher)
        await self._review.confirm_with(
            self._terminal, f"Update and approve {self._record.name}?", "Nothing was changed."
        )
        return report, await editor.change(
            self._server, entry, seen=None if was_approved else after, secrets=planned.secrets
        )

    async def _plan(
        self, source: "PlanSource", latest: "RegistryEntry", old_entry: dict[str, Any]
    ) -> "tuple[dict[str, Any], PlannedEntry]":
        """Ask for values that only the new version requires; return the new mcp.json entry and its plan.

        *source* creates the plan for the version *latest*, and *old_entry* is the entry to be replaced. Raises
        UsageError if a value is missing and cannot be asked for.
        """
        from mcphost.cli.install_servers import ask_missing, read_values
        from mcphost.host.servers.registry_installer import plan_update

        args, option = self._args, source.option
        values = await read_values(args.values, self._terminal)
        given = set(values)
        entry, planned = plan_update(source, latest, self._place, self._record, old_entry, values, given)
        if planned.missing and not args.dry_run:
            wanted = tuple(one for one in option.inputs if one.name in planned.missing)
            values = {**self._record.values_for(option), **values}
            if not args.yes:
                await ask_missing(wanted, values, self._terminal)
            if absent := next((one.name for one in wanted if one.name not in values), ""):
                raise UsageError(f"{absent} needs a value in {latest.version}.", f"Set it: --set {absent}=VALUE")
            given |= set(planned.missing)
            entry, planned = plan_update(source, latest, self._place, self._record, old_entry, values, given)
        return entry, planned
