"""Commands `servers lock` and `servers verify`, which write and check the lock file of a project."""

import argparse
import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from mcphost.cli.parser import build_options
from mcphost.cli.printing import format_error, print_json, print_note, print_text, show_status
from mcphost.errors import ConfigError, ConsentDenied, LockMismatch, McpHostError, RegistryError, UsageError
from mcphost.pluralize import pluralize, translate_count
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.translation import N_, _, ngettext, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.config.file_edits import FileSnapshot
    from mcphost.config.lock_file import LockDocument, LockedServer
    from mcphost.config.schema import HostConfig, ServerConfig
    from mcphost.host.host import Host
    from mcphost.host.servers.lock_drift import Drift
    from mcphost.registry.package_digests import PackageDigest

_MAX_PRINTED = 1_000
"""Maximum number of lines printed about the differences of one server."""
DRIFT_LABELS = {
    "address": N_("address changed"),
    "certificates": N_("certificates changed"),
    "command": N_("command changed"),
    "environment": N_("environment changed"),
    "headers": N_("headers changed"),
    "identity": N_("identity changed"),
    "inputs": N_("inputs changed"),
    "package": N_("package changed"),
    "registry": N_("registry changed"),
    "restrictions": N_("restrictions changed"),
    "server_added": N_("server added"),
    "server_removed": N_("server removed"),
    "sign_in": N_("sign-in changed"),
    "tool_added": N_("tool added"),
    "tool_changed": N_("tool changed"),
    "tool_removed": N_("tool removed"),
}
"""Labels of differences, keyed by their kind."""


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers lock` or `servers verify` command to *parser*."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="the servers (default: all of the project)")
    if action == "verify":
        parser.add_argument(
            "--offline",
            action="store_true",
            help="compare only the entries, without starting servers or asking for the digests of packages",
        )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers lock` or `servers verify` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        project = LockableProject(options)
        if args.action == "lock":
            return await _lock(options, project, args.names, as_json=args.json)
        return await _verify(options, project, args.names, offline=args.offline, as_json=args.json)

    return run_command(options, work)


class LockableProject:
    """The servers in a project's `.mcp.json` (or in the `--mcp-config` file), and the lock file next to that file."""

    def __init__(self, options: "Options") -> None:
        """Read the project's server file, even if it is not approved; no server is started.

        Raises ConfigError if the file cannot be read, and UsageError if `--mcp-config` was given more than once.
        """
        from mcphost.config.json_files import decode_text, parse_json, read_bytes
        from mcphost.config.loader import PROJECT_FILE
        from mcphost.config.lock_file import LOCK_FILE
        from mcphost.config.mcp_json import parse_servers

        if len(options.mcp_config) > 1:
            raise UsageError("A lock file belongs to one file of servers.", "Pass --mcp-config once.")
        named = options.mcp_config[0] if options.mcp_config else ""
        self.file = Path(os.path.abspath(os.path.expanduser(named))) if named else Path.cwd() / PROJECT_FILE
        self.lock_path = self.file.parent / LOCK_FILE
        try:
            text = decode_text(read_bytes(self.file), str(self.file))
        except FileNotFoundError as error:
            raise ConfigError(f"{self.file} does not exist.", "Go to the folder of the project.") from error
        document: Any = parse_json(text, str(self.file)) if text.strip() else {}
        problems: list[str] = []
        servers = parse_servers(document, str(self.file), "flag" if named else "project", problems.append)
        self.problems = tuple(problems)
        self.servers = {server.name: server for server in servers}
        entries = _server_entries(document)
        self.invalid = sorted(entries.keys() - self.servers.keys())
        self.unreadable: dict[str, ConfigError] = {}
        """Errors of environment files that could not be read, keyed by server name."""
        self._bind_env_files(options)
        self.entries = {name: self._lock_entry(server, entries[name]) for name, server in self.servers.items()}

    def _bind_env_files(self, options: "Options") -> None:
        """Read the environment file of each server, and record its digest in `servers`.

        A server cannot start if its environment file has changed since it was read. Errors for files that cannot be
        read are added to `unreadable`.
        """
        from mcphost import paths
        from mcphost.config.env_file import with_env_file
        from mcphost.config.server_inputs import with_input_values

        using = [server for server in self.servers.values() if server.env_file]
        for server in with_input_values(using, paths.config_dir(options.config_dir), list[str]().append):
            try:
                bound = with_env_file(server)
            except ConfigError as error:
                self.unreadable[server.name] = error
            else:
                self.servers[server.name] = bound

    def _lock_entry(self, server: "ServerConfig", entry: dict[str, Any]) -> "LockedServer":
        from mcphost.host.servers.locked_entries import lock_entry

        locked = lock_entry(server, entry)
        if server.env_file and locked.env_file_variables is None and server.name not in self.unreadable:
            self.unreadable[server.name] = ConfigError(
                f'The "envFile" of {server.name!r} was changed by another program.', "Try again."
            )
        return locked

    def bind(self, config: "HostConfig") -> "HostConfig":
        """Return *config* with the digests of the environment files of this project's servers.

        A server cannot start if its environment file has changed since this object read the file.
        """
        from mcphost.serialization import replace

        return replace(config, servers=tuple(self._bind(server) for server in config.servers))

    def _bind(self, server: "ServerConfig") -> "ServerConfig":
        own = self.servers.get(server.name)
        if own is None or not own.env_file_digest or Path(server.file).absolute() != self.file:
            return server
        from mcphost.serialization import replace

        return replace(server, env_file_digest=own.env_file_digest, env_file_names=own.env_file_names)

    def select(self, names: list[str], locked: "LockDocument | None" = None) -> list[str]:
        """Return the sorted names of the servers to lock or verify.

        If *names* is empty, the result contains every server in the project's file or in the lock file *locked*. Raises
        ConfigError if one of *names* has an invalid entry, and UsageError if it is in neither file.
        """
        from mcphost.config.schema import find_config_error

        known = {*self.servers, *(locked.servers if locked else ())}
        for name in names:
            if name not in known:
                if problem := find_config_error(self.problems, f'server "{name}"'):
                    raise ConfigError(problem)
                listed = ", ".join(sorted(known))
                raise UsageError(
                    f"{self.file} has no server named {name!r}.", f"It has: {listed}." if listed else "It has none."
                )
        return sorted(set(names) or known)


def _server_entries(document: Any) -> dict[str, Any]:
    """Return the raw server entries in the JSON of a configuration file, keyed by server name."""
    members = cast("dict[str, Any]", document)
    key = next((key for key in ("mcpServers", "servers") if key in members), "")
    return cast("dict[str, Any]", members.get(key, {}))


async def _lock(options: "Options", project: LockableProject, names: list[str], *, as_json: bool) -> int:
    from mcphost.config.lock_file import LockDocument, encode_lock, write_lock
    from mcphost.host.servers.lock_drift import compare_servers

    if project.invalid and not names:
        from mcphost.config.schema import find_config_error

        raise ConfigError(
            find_config_error(project.problems) or f"{project.file} has an invalid entry.", "Nothing was locked."
        )
    document, before = _read_lock_or_none(project.lock_path)
    chosen = project.select(names)
    if not chosen and before is None:
        raise ConfigError(
            f"{project.file} has no servers.",
            "Add one: mcphost servers add --scope project NAME -- COMMAND, or NAME URL",
        )
    locked = await _read_servers(options, project, chosen, document)
    locked, unknown = _add_digests(locked, await _ask_digests(options, project, list(locked)), document)
    after = LockDocument(servers={**(document.servers if names else {}), **locked})
    drifts = [
        drift
        for name in sorted({*document.servers, *after.servers})
        for drift in compare_servers(name, document.servers.get(name), after.servers.get(name))
    ]
    raw = encode_lock(after)
    is_changed = before is None or raw != before.content
    if is_changed:
        write_lock(project.lock_path, before, raw)
    if as_json:
        print_json({"lock": str(project.lock_path), "written": is_changed, "servers": sorted(locked),
                    "drift": [_drift_json(drift) for drift in drifts], "digest_problems": unknown})  # fmt: skip
        return 0
    _report_lock(project.lock_path, locked, drifts if before is not None else [], unknown, is_changed=is_changed)
    return 0


async def _ask_digests(options: "Options", project: LockableProject, names: list[str]) -> "dict[str, PackageDigest]":
    """Request the digests of these servers' packages from npm and uv; see `ask_digests`."""
    from mcphost.registry.package_digests import ask_digests

    with show_status(_("Fetching package digests…"), quiet=options.quiet):
        return await ask_digests({name: project.servers[name] for name in names})


def _add_digests(
    locked: "dict[str, LockedServer]", found: "dict[str, PackageDigest]", document: "LockDocument"
) -> "tuple[dict[str, LockedServer], dict[str, str]]":
    """Add the package digests in *found* to the lock file records in *locked*.

    Returns the changed records, and the reasons why digests are unknown, both keyed by server name. *document* is
    the current lock file. If a package's digest is unknown, the digest in *document* is kept, provided that it is
    for the same version.
    """
    from mcphost.serialization import replace

    result, unknown = dict(locked), dict[str, str]()
    for name, answer in found.items():
        package, old = locked[name].package, document.servers.get(name)
        if package is None:
            continue
        digest = answer.digest
        if not digest:
            unknown[name] = answer.problem
            if old is not None and old.package is not None:
                is_same = replace(old.package, digest="") == replace(package, digest="")
                digest = old.package.digest if is_same else ""
        result[name] = replace(locked[name], package=replace(package, digest=digest))
    return result, unknown


async def _read_servers(
    options: "Options", project: LockableProject, names: list[str], document: "LockDocument"
) -> "dict[str, LockedServer]":
    """Connect to the servers and return their records for the lock file, keyed by server name.

    *document* is the current lock file. Raises McpHostError if any of the servers cannot be locked.
    """
    from mcphost.host.servers.lock_drift import compare_entries

    reading = ServerReading(options, project)
    locked = await reading.connect(names)
    if reading.errors:
        raise next(iter(reading.errors.values()))
    for name, tools in reading.quarantined.items():
        raise ConsentDenied(
            f"{name} has {pluralize(len(tools), 'changed tool')} in quarantine; nothing was locked.",
            f"Review the changes: mcphost servers changes {quote(name)}",
        )
    for name, server in locked.items():
        old = document.servers.get(name)
        if server.identity is None and old is not None and not compare_entries(name, old, server):
            locked[name] = old  # the server is disabled, so it could not be started
    return locked


def _report_lock(
    path: Path, locked: "dict[str, LockedServer]", drifts: "list[Drift]", unknown: dict[str, str], *, is_changed: bool
) -> None:
    """Print the locked servers and their differences from the previous lock file.

    *drifts* are the differences, and *is_changed* means that the lock file at *path* was rewritten. *unknown*
    maps names of servers to the reason why the digest of their package is unknown; the reasons are printed as
    well.
    """
    for name in sorted({drift.server for drift in drifts}):
        _print_drifts(name, [drift for drift in drifts if drift.server == name])
    for name, server in locked.items():
        if name in unknown and server.package is not None and (server.package.version or server.package.digest):
            text = (
                _("{name}: the digest of {package} could not be asked for, so the one in the lock file stays. {reason}")
                if server.package.digest
                else _("{name}: locked without a digest of {package}. {reason}")
            )
            package, reason = server.package.name, translate_sentence(unknown[name])
            print_note(text.format(name=name, package=package, reason=reason))
        if server.package is not None and not (server.package.version or server.package.digest):
            print_note(
                _("{name}: the command does not pin a version of {package}, so another one may run next time.").format(
                    name=name, package=server.package.name
                )
            )
    tools = sum(len(server.tools) for server in locked.values())
    text = _("Locked: {servers}, {tools} in {file}") if is_changed else _("Unchanged: {servers}, {tools} in {file}")
    print_text(
        text.format(servers=translate_count(len(locked), "server"), tools=translate_count(tools, "tool"), file=path)
    )


def _read_lock_or_none(path: Path) -> "tuple[LockDocument, FileSnapshot | None]":
    from mcphost.config.lock_file import LockDocument, read_lock

    try:
        return read_lock(path)
    except FileNotFoundError:
        return LockDocument(), None


async def _verify(
    options: "Options", project: LockableProject, names: list[str], *, offline: bool, as_json: bool
) -> int:
    from mcphost.config.lock_file import read_lock

    try:
        document, _snapshot = read_lock(project.lock_path)
    except FileNotFoundError as error:
        raise ConfigError(f"{project.lock_path} does not exist.", "Write it: mcphost servers lock") from error
    for problem in () if options.quiet else project.problems:
        print_note(problem)
    verification = Verification(project, document, project.select(names, document))
    if not offline:
        await verification.compare_digests(options)
        await verification.connect(options)
    if as_json:
        print_json(verification.as_json())
    else:
        verification.show(offline=offline)
    changed = sum(1 for found in verification.drifts.values() if found)
    if changed and as_json:
        return LockMismatch.exit_code
    if changed:
        first = min(verification.quarantined, default="")
        raise LockMismatch(
            f"1 server differs from {project.lock_path}." if changed == 1 else
            f"{changed} servers differ from {project.lock_path}.",
            f"If this is intended, run: mcphost servers changes {quote(first)}, then: mcphost servers lock"
            if verification.quarantined else
            "If this is intended, run: mcphost servers lock",
        )  # fmt: skip
    codes = {error.exit_code for error in verification.errors.values()}
    if project.invalid:
        codes.add(ConfigError.exit_code)
    return 0 if not codes else codes.pop() if len(codes) == 1 else 4


class Verification:
    """Comparison of a project's servers with its lock file.

    The entries in the project's file are compared first, then the packages, then the connected servers.
    """

    def __init__(self, project: LockableProject, document: "LockDocument", names: list[str]) -> None:
        from mcphost.host.servers.lock_drift import compare_entries

        self._project, self._document, self._names = project, document, names
        self.drifts: dict[str, tuple[Drift, ...]] = {
            name: compare_entries(name, document.servers.get(name), project.entries.get(name)) for name in names
        }
        self.errors: dict[str, McpHostError] = {}
        self.quarantined: dict[str, tuple[str, ...]] = {}
        self._tools: dict[str, int] = {}

    async def compare_digests(self, options: "Options") -> None:
        """Determine the current digests of packages, and compare them with those in the lock file.

        Only servers without other differences are checked. If a digest cannot be determined, an error is added to
        `errors` for the server.
        """
        from mcphost.host.servers.lock_drift import compare_entries
        from mcphost.serialization import replace

        pinned: dict[str, LockedServer] = {}
        for name in self._names:
            locked = self._document.servers.get(name)
            package = locked.package if locked is not None and not self.drifts[name] else None
            if locked is not None and package is not None and package.type != "oci" and package.digest:
                pinned[name] = locked
        found = await _ask_digests(options, self._project, list(pinned))
        for name, locked in pinned.items():
            entry, answer = self._project.entries[name], found[name]
            if answer.digest and entry.package is not None:
                present = replace(entry, package=replace(entry.package, digest=answer.digest))
                self.drifts[name] = compare_entries(name, locked, present)
                continue
            self.errors[name] = RegistryError(
                f"Not started, because the digest of its package could not be compared. {answer.problem}",
                "To compare only the entries: mcphost servers verify --offline",
            )

    async def connect(self, options: "Options") -> None:
        """Connect to the servers whose entries match the lock file, and compare their identity and tools.

        A server is not started if its entry or package differs from the lock file, because nobody has reviewed the
        difference, or if its package could not be compared.
        """
        from mcphost.host.servers.lock_drift import compare_connected

        reading = ServerReading(options, self._project)
        wanted = [name for name in self._names if not self.drifts[name] and name not in self.errors]
        found = await reading.connect(wanted)
        self.errors, self.quarantined = {**self.errors, **reading.errors}, reading.quarantined
        for name, after in found.items():
            if after.identity is not None:
                self.drifts[name] = compare_connected(name, self._document.servers[name], after)
                self._tools[name] = len(after.tools)

    def as_json(self) -> dict[str, Any]:
        """Return the verification result as JSON data."""
        servers = [
            {
                "name": name,
                "ok": not self.drifts[name] and name not in self.errors,
                "connected": name in self._tools,
                "drift": [_drift_json(drift) for drift in self.drifts[name]],
                "error": _error_json(self.errors.get(name)),
            }
            for name in self._names
        ]
        return {"lock": str(self._project.lock_path), "servers": servers, "problems": list(self._project.problems)}

    def show(self, *, offline: bool) -> None:
        """Print the result for each server.

        If *offline* is set, a message says that the servers were not started, as requested.
        """
        if not self._names:
            print_text(_("Unchanged: there is no server in {file}").format(file=self._project.lock_path))
        for name in self._names:
            shown = sanitize(name, keep_newlines=False)
            if self.drifts[name]:
                _print_drifts(name, self.drifts[name])
                if not offline and name not in self._tools and name in self._project.servers:
                    kind = self.drifts[name][0].kind
                    print_text(
                        _("  It was not started, because it is not in the lock file.")
                        if kind == "server_added"
                        else _("  It was not started, because its package differs from the locked one.")
                        if kind == "package"
                        else _("  It was not started, because its entry differs from the locked one.")
                    )
            elif name in self.errors:
                print_note(f"{shown}: {format_error(self.errors[name])}")
            elif name in self._tools:
                print_text(
                    _("{name}: unchanged, {tools}").format(name=shown, tools=translate_count(self._tools[name], "tool"))
                )
            else:
                text = (
                    _("{name}: the entry is unchanged; not started")
                    if offline
                    else _("{name}: the entry is unchanged; it is disabled")
                )
                print_text(text.format(name=shown))


class ServerReading:
    """Connector to the approved servers of a project, which creates their records for the lock file."""

    def __init__(self, options: "Options", project: LockableProject) -> None:
        self._options, self._project = options, project
        self.errors: dict[str, McpHostError] = {}
        self.quarantined: dict[str, tuple[str, ...]] = {}

    async def connect(self, names: list[str]) -> "dict[str, LockedServer]":
        """Connect to the servers in *names* concurrently; return their lock file records, keyed by server name.

        Disabled servers are not started. If a server cannot be read, the error is added to `errors`. The names of
        changed tools that the user has not accepted are added to `quarantined`.
        """
        from mcphost.cli.build_host import open_host
        from mcphost.cli.command_runner import connect_servers
        from mcphost.host.questions.frontend import RefusingFrontend

        locked = {name: self._project.entries[name] for name in names}
        wanted = [name for name in names if not self._project.servers[name].disabled]
        if not wanted:
            return locked
        async with open_host(self._options, RefusingFrontend(), adjust_config=self._adjust) as host:
            configured = {server.name: server for server in host.config.servers}
            for name in wanted:
                if problem := self._find_problem(host, configured.get(name), name):
                    self.errors[name] = problem
            usable = [name for name in wanted if name not in self.errors]
            with show_status(_("Connecting to servers…"), quiet=self._options.quiet):
                results = await connect_servers(host, usable) if usable else []
            for result in results:
                name = result.view.name
                try:
                    if result.error is not None:
                        raise result.error
                    locked[name] = await self._read(host, name, locked[name])
                except McpHostError as error:
                    self.errors[name] = error
        return {name: server for name, server in locked.items() if name not in self.errors}

    def _adjust(self, config: "HostConfig") -> "HostConfig":
        from mcphost.cli.command_runner import remove_model

        return self._project.bind(remove_model(config))

    def _find_problem(self, host: "Host", configured: "ServerConfig | None", name: str) -> McpHostError | None:
        """Return the error that prevents mcphost from connecting to the server *name*, or None if there is none.

        *configured* is the server in the current configuration, or None if the configuration does not contain it. An
        error is returned if the server is not approved, if another file or the profile prevents its use, if its entry
        differs from the one in the project's file, or if its environment file is unreadable.
        """
        from mcphost.config.schema import find_config_error

        expected = self._project.servers[name]
        if configured is None:
            reason = find_config_error(host.config.problems, str(self._project.file))
            return ConsentDenied(reason or f"{self._project.file} is not approved.", "" if reason else "Approve it.")
        if Path(configured.file).absolute() != self._project.file:
            return ConfigError(f"{name!r} of {self._project.file} is not used: {configured.file} has one of that name.",
                               "Rename one of them.")  # fmt: skip
        if configured.excluded_by:
            return ConfigError(
                f"{name!r} is not in the profile {configured.excluded_by!r}.", "Use another: --profile NAME"
            )
        if _started_parts(configured) != _started_parts(expected):
            return ConfigError(f"{self._project.file} was changed by another program.", "Try again.")
        return self._project.unreadable.get(name)

    async def _read(self, host: "Host", name: str, entry: "LockedServer") -> "LockedServer":
        """Return the lock file record of the connected server *name*, based on *entry*, the record of its entry.

        The names of quarantined tools are added to `quarantined`. Raises ServerError, ConsentDenied or ConfigError if
        the server's tools cannot be read.
        """
        from mcphost.host.servers.locked_entries import lock_connected

        definitions = await host.servers.list_definitions(name)
        view = host.servers.view(name)
        if view.facts is None:
            raise ConfigError(f"{name} ended before it could be read.", "Try again.")
        if view.quarantined:
            self.quarantined[name] = view.quarantined
        return lock_connected(entry, view.facts, definitions)


def _started_parts(server: "ServerConfig") -> tuple[Any, ...]:
    """Return the settings that determine which program is started or which URL is used.

    If these differ between two reads of the server file, the file was changed in between.
    """
    return (
        (server.argv, server.cwd, server.env, server.env_file),
        (server.url, server.transport, server.headers, server.oauth, server.ca_file),
    )


def _print_drifts(name: str, drifts: "tuple[Drift, ...] | list[Drift]") -> None:
    from mcphost.host.servers.lock_drift import NOTES

    differences = translate_count(len(drifts), "difference")
    lines = [f"{sanitize(name, keep_newlines=False)}: {differences}"]
    for drift in drifts:
        label = _(DRIFT_LABELS.get(drift.kind, drift.kind))
        lines.append(f"  {label} {sanitize_line(drift.name, 200)}".rstrip())
        lines += [f"      {_(line[2:])}" if line[2:] in NOTES else f"    {line}" for line in drift.lines]
    if len(lines) > _MAX_PRINTED:
        count = len(lines) - _MAX_PRINTED
        more = ngettext(
            "  … and {count:,} more line; --json has it", "  … and {count:,} more lines; --json has them", count
        )
        lines = [*lines[:_MAX_PRINTED], more.format(count=count)]
    print_text("\n".join(lines))


def _drift_json(drift: "Drift") -> dict[str, Any]:
    return {"server": drift.server, "kind": drift.kind, "name": drift.name, "difference": list(drift.lines)}


def _error_json(error: McpHostError | None) -> dict[str, Any]:
    if error is None:
        return {}
    return {"kind": error.kind, "message": error.message, "hint": error.hint, "exit": error.exit_code}
