"""Command `servers install`: shows the plan, asks for confirmation, writes the entry and tries out the server."""

import argparse
import sys
from shlex import quote
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import (
    print_error,
    print_json,
    print_note,
    print_text,
    show_status,
    translate_counts,
)
from mcphost.config.description_lines import translate_line
from mcphost.errors import ConsentDenied, McpHostError, RegistryError, SignInRequired, UsageError
from mcphost.sanitize import sanitize
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.cli.terminal_frontend import Confirmation, TerminalInput
    from mcphost.config.schema import HostConfig
    from mcphost.config.server_files import Scope, ServerEdit
    from mcphost.host.servers.planned_digest import PlannedDigest
    from mcphost.host.servers.registry_installer import PlanDescription, PlanSource
    from mcphost.host.servers.server_file_editor import SavedServer, ServerFileEditor
    from mcphost.registry.entries import RegistryEntry
    from mcphost.registry.plan import InstallOption, PlannedEntry
    from mcphost.registry.plan_inputs import PlanInput

_MAX_DESCRIPTION = 300
"""Maximum characters of a description that are shown; more could imitate a prompt of mcphost."""


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers install` command to *parser*."""
    from mcphost.cli.search_servers import add_registry_flag
    from mcphost.cli.server_arguments import add_scope_flag
    from mcphost.registry.plan import KINDS

    parser.add_argument(
        "server", metavar="NAME[@VERSION]", help="the server's name in the registry (default: its latest version)"
    )
    parser.add_argument("--name", default="", metavar="NAME", help="its name here (default: the last part of its name)")
    parser.add_argument("--from", dest="kind", default="", choices=KINDS, help="the kind of package or address to use")
    add_scope_flag(parser)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="values",
        help="the value of an input; NAME alone asks for it without showing it; repeatable",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    add_digest_flag(parser)
    add_registry_flag(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_digest_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--accept-digest` to *parser*."""
    parser.add_argument(
        "--accept-digest", action="store_true",
        help="use the package even if its digest differs from the registry or lock file, or its version was not found",
    )  # fmt: skip


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers install` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)
    if options.mcp_config:
        raise UsageError("--mcp-config names files that mcphost only reads.", "Leave it out.")

    async def work() -> int:
        return await _Installation(options, args).run()

    return run_command(options, work)


class _Installation:
    """Installation of one server, from finding it in the registry to trying it out."""

    def __init__(self, options: "Options", args: argparse.Namespace) -> None:
        from mcphost.cli.terminal_frontend import Confirmation, TerminalInput

        self._options, self._args = options, args
        self._terminal = TerminalInput()
        self._review = Confirmation(yes=args.yes or args.dry_run, as_json=args.json)

    async def run(self) -> int:
        """Show the plan, ask for confirmation, write the entry and try out the server; return the exit code."""
        from mcphost.cli.edit_servers import open_server_editor, print_saved
        from mcphost.host.servers.registry_installer import describe_download, installed_programs
        from mcphost.registry.plan import choose_option, suggest_name

        args = self._args
        server, place = await self._find()
        option = choose_option(server, args.kind, installed_programs())
        name = args.name or suggest_name(server)
        async with open_server_editor(self._options) as (editor, config):
            self._check_name(name, config)
            warnings = show_server(self._review, server, option, name, [one.name for one in config.servers])
            if args.dry_run and option.kind == "mcpb":
                show_download(self._review, option)
                self._review.show(_("  Its command is known once the bundle has been downloaded and opened."))
                if args.json:
                    about = {"server": server.name, "version": server.version, "name": name, "from": option.kind}
                    print_json({**about, "download": describe_download(option), "warnings": warnings})
                return 0
            source = await open_source(editor, option, name, self._review, self._terminal)
            try:
                report, saved = await self._write(editor, source, server, place, name, warnings)
            except BaseException:
                source.discard()
                raise
        if saved is None:
            return 0
        if not args.json:
            print_saved(saved, "installed")
        error = await try_server(self._options, name, as_json=args.json) if saved.is_approved else None
        if args.json:
            print_json({**report, "installed": True, "ok": error is None, "error": error.message if error else ""})
        terminal = None if args.yes else self._terminal
        code, is_undone = await offer_undo(self._options, self._review, saved, error, terminal, is_update=False)
        if is_undone:
            source.discard()
        return code

    async def _write(
        self,
        editor: "ServerFileEditor",
        source: "PlanSource",
        server: "RegistryEntry",
        place: str,
        name: str,
        warnings: tuple[str, ...],
    ) -> "tuple[dict[str, Any], SavedServer | None]":
        """Show the install plan, ask for confirmation, and write the server's entry.

        *source* creates the plan, *server* is the server's registry entry, *place* is the URL or file of the
        registry, and *name* is the server's name in mcp.json. *warnings* are shown with the plan. Returns the plan
        as JSON data and the saved server; the latter is None if nothing was written.
        """
        from mcphost.cli.servers import summarize_command
        from mcphost.config.server_files import plan_set, scope_file
        from mcphost.host.servers.registry_installer import (
            check_programs,
            describe_plan,
            translate_plan_line,
            with_registry,
        )
        from mcphost.registry.entries import describe_publisher

        args, option = self._args, source.option
        scope: Scope = args.scope
        values = await read_values(args.values, self._terminal)
        if not (args.yes or args.dry_run):
            await ask_missing(option.inputs, values, self._terminal)
        planned = source.plan(values, show_missing=args.dry_run)
        entry = with_registry(planned, option, server, place, values)
        edit = plan_set(scope_file(scope, editor.config_dir, editor.folder), name, entry)
        digest = await ask_digest(self._options, edit, option)
        plan = describe_plan(edit.server, planned, option, warnings, digest)
        risks = [translate_sentence(one) for one in plan.warnings[len(warnings) :]]
        lines = [f"  {translate_plan_line(line, option.inputs)}" for line in plan.details]
        lines += [_("  Warning: {warning}").format(warning=risk) for risk in risks]
        file = _("  file: {file}, as {name}").format(file=edit.file.path, name=name)
        self._review.show(*lines, file)
        report = plan_json(server, option, planned, name, str(edit.file.path), plan) | digest_json(digest)
        if args.dry_run:
            if args.json:
                print_json(report)
            return report, None
        check_programs(option, entry)
        if digest is not None and not args.accept_digest:
            digest.check(server=quote(f"{server.name}@{server.version}"))
        if edit.server is not None:
            publisher = describe_publisher(server, _)
            self._review.show(summarize_command(edit.server), _("publisher: {publisher}").format(publisher=publisher))
        await self._review.confirm_with(self._terminal, f"Install and approve {name}?", "Nothing was installed.")
        return report, await editor.add(name, entry, scope, secrets=planned.secrets)

    async def _find(self) -> "tuple[RegistryEntry, str]":
        """Find the server in the registry; return its registry entry and the URL or file of the registry.

        Raises UsageError if the user has not given the full name of a server, and RegistryError if the registry does
        not provide the server.
        """
        from mcphost.cli.search_servers import open_configured_registry, report_answer
        from mcphost.host.servers.registry_installer import absolute_place

        name, _at, version = self._args.server.partition("@")
        async with open_configured_registry(self._options, self._args, refresh=True) as (registry, place):
            if "/" not in name:
                found = [entry.name for entry in (await registry.search(name, 5)).entries]
                raise UsageError(
                    f"{name!r} is not the full name of a server.",
                    f"Did you mean: {', '.join(found)}" if found else "Search for it: mcphost servers search WORD",
                )
            answer = await registry.find(name, version)
        if not self._options.quiet:
            report_answer(answer)
        server = answer.entries[0]
        if server.status == "deleted":
            raise RegistryError(f"{server.name} {server.version} was deleted from the registry.", "Choose another one.")
        return server, absolute_place(place)

    def _check_name(self, name: str, config: "HostConfig") -> None:
        known = config.find_server(name)
        if known is not None:
            raise UsageError(
                f"There is already a server named {name!r} in {known.file}.",
                f"Choose another name with --name, or update it: mcphost servers update {quote(name)}",
            )


async def offer_undo(
    options: "Options",
    review: "Confirmation",
    saved: "SavedServer",
    error: McpHostError | None,
    terminal: "TerminalInput | None",
    *,
    is_update: bool,
) -> tuple[int, bool]:
    """Print the *error* that a newly installed or updated server caused, and offer to undo the change.

    The user is not asked if signing in to the server would solve the problem, or if there is no way to ask: *terminal*
    is None, or standard input is not a terminal. If *error* is None, nothing is done. *is_update* is true if the server
    was updated instead of installed. Returns the exit code and whether the change was undone.
    """
    from mcphost.cli.edit_servers import open_server_editor

    if error is None:
        return 0, False
    name = saved.edit.name
    print_error(error)
    if isinstance(error, SignInRequired):
        return error.exit_code, False
    if terminal is None or not sys.stdin.isatty():
        text = (
            _("The update stays. To remove the server: mcphost servers remove {name}")
            if is_update
            else _("The installation stays. To remove the server: mcphost servers remove {name}")
        )
        print_note(text.format(name=quote(name)))
        return error.exit_code, False
    try:
        await review.confirm_with(
            terminal,
            f"Undo the update of {name}?" if is_update else f"Undo the installation of {name}?",
            "The update stays." if is_update else "The installation stays.",
        )
    except ConsentDenied as declined:
        print_note(declined.message)
        return error.exit_code, False
    async with open_server_editor(options) as (editor, _config):
        await editor.undo(saved)
    text = _("Undone: the update of {name}.") if is_update else _("Undone: the installation of {name}.")
    print_note(text.format(name=name))
    return error.exit_code, True


async def ask_digest(options: "Options", edit: "ServerEdit", option: "InstallOption") -> "PlannedDigest | None":
    """Return the digest of the package that a planned server runs, as reported by npm or uv.

    *edit* is the planned change to the server's entry, and *option* is the package to install. Returns None if the
    server does not run a package from npm, PyPI or NuGet.
    """
    from mcphost.host.servers.planned_digest import plan_digest

    with show_status(_("Checking the digest of the package…"), quiet=options.quiet):
        return await plan_digest(edit.server, option.package, edit.file.path)


def digest_json(digest: "PlannedDigest | None") -> dict[str, Any]:
    """Return the JSON members that describe a package's digest in an install plan; {} if there is no package."""
    if digest is None:
        return {}
    return {"digest": digest.digest, "digest_files": list(digest.files), "digest_problem": digest.problem}


def show_server(
    review: "Confirmation", server: "RegistryEntry", option: "InstallOption", name: str, others: list[str]
) -> tuple[str, ...]:
    """Show the details of a server in a registry, such as its publisher; return warnings about the server.

    Call this before the user is asked for the server's settings. *option* is the package or remote endpoint to install,
    *name* is the name that the server will have in mcp.json, and *others* are the names of the configured
    servers.
    """
    from mcphost.registry.entries import describe_publisher
    from mcphost.registry.lookalikes import find_warnings

    lines = [
        _("publisher: {publisher}").format(publisher=translate_sentence(describe_publisher(server))),
        _("repository: {address}").format(address=server.repository.url or _("none is given")),
        _("from: {package}").format(package=option.label),
    ]
    if server.description:
        lines.insert(0, _("description: {text}").format(text=" ".join(server.description.split())[:_MAX_DESCRIPTION]))
    warnings = find_warnings(server, option, name, others)
    if server.status != "active":
        warnings = (f"It is {server.status}. {server.status_message}".rstrip(), *warnings)
    lines += [_("Warning: {warning}").format(warning=translate_sentence(warning)) for warning in warnings]
    review.show(f"{server.name} {server.version}")
    review.show(*(f"  {line}" for line in lines))
    return warnings


async def read_values(texts: list[str], terminal: "TerminalInput") -> dict[str, list[str]]:
    """Parse the NAME=VALUE *texts* of `--set` into values keyed by input name.

    A missing value is read from the terminal, without echo. Raises UsageError if the name or value is still missing.
    """
    from mcphost.cli.server_arguments import split_pair

    values: dict[str, list[str]] = {}
    for number, text in enumerate(texts, 1):
        name, value = await split_pair(text, "--set", number, "=", terminal)
        values.setdefault(name, []).append(value)
    return values


async def ask_missing(inputs: "tuple[PlanInput, ...]", values: dict[str, list[str]], terminal: "TerminalInput") -> None:
    """Ask for the values of required inputs that are not in *values*, and add them to *values*.

    An input with a default is skipped, unless it is secret. Does nothing without a terminal. Raises UsageError if
    the user types nothing or an invalid value.
    """
    from mcphost.cli.terminal_frontend import is_interactive
    from mcphost.registry.plan_inputs import check_value, split_values

    if not is_interactive():
        return
    for one in inputs:
        if one.name in values or not one.is_required or (one.defaults and not one.is_secret):
            continue
        about = one.description or one.placeholder
        choices = f" ({join_list(one.choices)})" if one.choices else ""
        if about:
            print_note(f"{one.name}: {about[:300]}")
        if one.is_repeated and not one.is_secret:
            print_note(_("{name}: separate several values with commas").format(name=one.name))
        if one.is_secret:
            text = await terminal.read_secret(_("Value of {name} (not shown): ").format(name=one.name))
        else:
            prompt = _("Value of {name}{choices}: ").format(name=one.name, choices=choices[:300])
            text = await terminal.read_answer(sanitize(prompt, keep_newlines=False))
        if not text:
            raise UsageError(f"{one.name} has no value.", "Nothing was installed.")
        values[one.name] = split_values(one, text)
        for value in values[one.name]:
            check_value(one, value)


def plan_json(
    server: "RegistryEntry",
    option: "InstallOption",
    planned: "PlannedEntry",
    name: str,
    file: str,
    plan: "PlanDescription",
) -> dict[str, Any]:
    """Return an install plan as JSON data, without secrets.

    *option* is the package or remote endpoint to install, *planned* is the new entry, *name* is the server's
    name in the configuration *file*, and *plan* is the description of the plan.
    """
    from mcphost.config.approval_text import masked_environment, masked_headers
    from mcphost.serialization import to_builtins

    masked = plan.server
    target: dict[str, Any] = {}
    if masked is not None:
        shown = planned.shown
        target = {"command": list(masked.argv)} if masked.is_stdio else {"url": masked.url}
        target |= {"environment": masked_environment(masked, shown), "headers": masked_headers(masked, shown)}
    return {
        "server": server.name,
        "version": server.version,
        "status": server.status,
        "name": name,
        "file": file,
        "from": option.kind,
        **target,
        "needs": option.program,
        "secrets": [".".join(keys) for keys in planned.secret_keys],
        "inputs": to_builtins(option.inputs),
        "missing": list(planned.missing),
        "warnings": plan.warnings,
    }


async def try_server(options: "Options", name: str, *, as_json: bool) -> McpHostError | None:
    """Connect to a newly installed server, and return the error, or None if the server works.

    Unless *as_json* is true, print how many tools and other features the server has.
    """
    from mcphost.cli.command_runner import connect_servers, open_host_for_server
    from mcphost.host.server_views import summarize_catalog

    try:
        with show_status(_("Starting {name}…").format(name=name), quiet=options.quiet):
            async with open_host_for_server(options, name) as host:
                result = (await connect_servers(host, [name]))[0]
    except McpHostError as error:
        return error
    if result.error is not None:
        return result.error
    if not as_json:
        print_text(_("It works: {features}").format(features=translate_counts(summarize_catalog(result.view.catalog))))
    return None


async def open_source(
    editor: "ServerFileEditor", option: "InstallOption", name: str, review: "Confirmation", terminal: "TerminalInput"
) -> "PlanSource":
    """Return an object that creates install plans for *option*, which is a package or remote endpoint.

    If *option* is a bundle (.mcpb), it is downloaded and unpacked once the user has agreed. Raises ConsentDenied if the
    user declines, UsageError if the user cannot be asked, and RegistryError if the bundle cannot be installed.
    """
    from mcphost import paths
    from mcphost.host.servers.registry_installer import PlanSource
    from mcphost.registry.bundle import MAX_BUNDLE_BYTES, fetch_bundle

    package = option.package
    if option.kind != "mcpb" or package is None:
        return PlanSource(option)
    folder = paths.data_dir() / paths.BUNDLES_FOLDER
    show_download(review, option)
    size = MAX_BUNDLE_BYTES // 1024**2
    await review.confirm_with(
        terminal,
        f"Download it (at most {size} MB) and open it in {folder}? Nothing is started yet.",
        "Nothing was downloaded.",
    )
    await editor.record_download(name, package.identifier, package.file_sha256)
    with show_status(_("Downloading…")):
        return PlanSource(option, await fetch_bundle(package, folder, name))


def show_download(review: "Confirmation", option: "InstallOption") -> None:
    """Show the URL and the SHA-256 digest of the bundle *option*, which has not been downloaded yet."""
    from mcphost.host.servers.registry_installer import describe_download

    for key, value in describe_download(option).items():
        review.show(f"  {translate_line(f'{key}: {value}')}")
