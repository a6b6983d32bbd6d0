"""Installation of servers from a registry: install plans for review by the user, installation and updates."""

import os
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from shlex import join
from typing import Any, cast

import anyio.to_thread

from mcphost.config.approval_digest import ShownValues
from mcphost.config.approval_text import describe_server, diff_lines
from mcphost.config.description_lines import translate_line
from mcphost.config.published_values import PUBLISHED_KEY, REGISTRY_KEY, read_published
from mcphost.config.schema import ServerConfig
from mcphost.config.server_files import ServerEdit, ServerFile, find_server_file, plan_set, scope_file
from mcphost.errors import ConfigError, RegistryError, UsageError
from mcphost.host.servers.planned_digest import KnownDigests, PlannedDigest, plan_digest
from mcphost.host.servers.server_approval import server_warnings
from mcphost.host.servers.server_editor import ServerEditor
from mcphost.host.servers.server_file_editor import ServerFileEditor
from mcphost.host.servers.servers import Servers
from mcphost.paths import BUNDLES_FOLDER, SetupPlaces, config_dir, find_program
from mcphost.registry.bundle import OpenedBundle, fetch_bundle
from mcphost.registry.bundle_manifest import plan_bundle
from mcphost.registry.client import RegistryAnswer, open_registry
from mcphost.registry.entries import RegistryEntry, is_newer
from mcphost.registry.install_guide import InstallGuide, fetch_guide, guide_urls
from mcphost.registry.lookalikes import find_warnings
from mcphost.registry.package_grammar import RUNNERS
from mcphost.registry.plan import InstallOption, PlannedEntry, choose_option, list_options, plan_entry, suggest_name
from mcphost.registry.plan_inputs import PlanInput
from mcphost.registry.updates import InstalledServer, merge_update, read_record
from mcphost.registry.updates import input_names as list_asked_names
from mcphost.serialization import Struct, replace
from mcphost.translation import N_, _, join_list

_SEARCH_LIMIT = 100


class PlanSource:
    """Maker of the configuration entries for one way to run a server from a registry, such as an npm package.

    If *bundle*, an unpacked bundle, is given, the entries are made from the manifest in it.
    """

    def __init__(self, option: InstallOption, bundle: OpenedBundle | None = None) -> None:
        self.option = option if bundle is None else replace(option, inputs=bundle.manifest.inputs())
        self._bundle = bundle

    def plan(self, values: Mapping[str, Sequence[str]], *, show_missing: bool) -> PlannedEntry:
        """Return the entry for `mcp.json` with these input values. Raises UsageError or RegistryError.

        If *show_missing* is true, required inputs without a value are shown as placeholders.
        """
        if self._bundle is None:
            return plan_entry(self.option, values, show_missing=show_missing)
        return plan_bundle(self._bundle.manifest, self._bundle.folder, values, show_missing=show_missing)

    def input_names(self) -> dict[str, dict[str, set[str]]]:
        """Return the names of the inputs whose values each environment variable and HTTP header contains.

        The result is keyed by section ("env" or "headers"), then by the name of the variable or header.
        """
        if self._bundle is None:
            return list_asked_names(self.option)
        return {"env": self._bundle.manifest.input_names()}

    def discard(self) -> None:
        """Delete the unpacked bundle, if there is one."""
        if self._bundle is not None:
            self._bundle.discard()


def describe_download(option: InstallOption) -> dict[str, Any]:
    """Return the URL and SHA-256 of the bundle that must be downloaded, or {} if there is no bundle."""
    package = option.package
    if option.kind != "mcpb" or package is None:
        return {}
    return {"url": package.identifier, "sha256": package.file_sha256}


def check_programs(option: InstallOption, entry: Mapping[str, Any]) -> None:
    """Raise RegistryError if the program that runs the package or bundle is not installed."""
    command = str(entry.get("command", ""))
    if command and not os.path.isabs(command) and find_program(command) is None:
        runner = RUNNERS.get(option.kind)
        hint = runner.install_hint if runner is not None else f"Install it so that {command} is in PATH."
        raise RegistryError(f"{command} is not installed; nothing was changed.", hint)


def installed_programs() -> dict[str, str]:
    """Find the programs that run packages, such as npx and uvx; return their paths, keyed by program name."""
    found = {runner.program: find_program(runner.program) for runner in RUNNERS.values()}
    return {name: path for name, path in found.items() if path}


def absolute_place(place: str) -> str:
    """Return a registry's URL unchanged, or the file path of a registry as an absolute path."""
    return place if "://" in place else os.path.abspath(os.path.expanduser(place))


def with_registry(
    planned: PlannedEntry, option: InstallOption, server: RegistryEntry, place: str, values: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the planned entry with a record of its origin in the registry, which `servers update` needs.

    *place* is the registry's URL or file; *values* contains the input values that the user entered. The record includes
    the values for arguments and the URL, except secrets, but not the values for variables and headers, because the
    entry itself contains these (secrets as references to the keyring). The record also includes those of the
    publisher's values that look like secrets; mcphost shows recorded values in full instead of masking them.
    """
    recorded = {one.name for one in option.inputs if one.place in ("argument", "address") and not one.is_secret}
    record: dict[str, Any] = {
        "url": place, "name": server.name, "version": server.version, "from": option.kind,
    }  # fmt: skip
    if kept := {name: texts for name, texts in values.items() if name in recorded}:
        record["inputs"] = kept
    if published := planned.published:
        record[PUBLISHED_KEY] = published
    return {**planned.entry, "mcphost": {REGISTRY_KEY: record}}


class PlanDescription:
    """Readable description of an install plan: a line for each property of the server and for each risk.

    `warnings` contains the warnings about the publisher, followed by the risks. Of these, `lines` contains only the
    risks, because the user has already seen the warnings about the publisher.
    """

    def __init__(
        self, server: ServerConfig | None, details: Sequence[str], risks: Sequence[str], earlier: Sequence[str]
    ) -> None:
        self.server = server
        self.details = tuple(details)
        self.lines = [f"  {line}" for line in details] + [f"  Warning: {risk}" for risk in risks]
        self.warnings = [*earlier, *risks]


def describe_plan(
    server: ServerConfig | None,
    planned: PlannedEntry,
    option: InstallOption,
    earlier: Sequence[str],
    digest: PlannedDigest | None,
) -> PlanDescription:
    """Describe what would be started or contacted, and the risks; secrets are masked.

    *earlier* contains the warnings about the publisher, which the user has already seen. *digest* is None if the server
    does not run a package that has a digest.
    """
    if server is None:
        return PlanDescription(None, (), (), earlier)
    masked = mask_server(server, planned)
    needs = ()
    if option.program:
        path = installed_programs().get(option.program)
        needs = (f"needs: {option.program} ({path or 'not installed'})",)
    summary = (f"runs: {join(masked.argv)}",) if masked.is_stdio else ()
    if digest is not None:
        summary = (*summary, *digest.lines)
    if option.inputs:
        summary = (*summary, f"inputs: {', '.join(map(_describe_input, option.inputs))}")
    notes = tuple(f"{note[0].upper()}{note[1:]}" for note in planned.notes)
    risks = (*(digest.mismatches if digest is not None else ()), *notes, *server_warnings(masked))
    return PlanDescription(masked, (*needs, *summary, *describe_server(masked, planned.shown)), risks, earlier)


def _describe_input(one: PlanInput, translate: Callable[[str], str] = str) -> str:
    """Describe an input: its name, whether it is required or secret, and its choices."""
    about = [translate(N_("needed"))] * one.is_required + [translate(N_("secret"))] * one.is_secret
    about += [translate(N_(" or ")).join(one.choices)[:200]] if one.choices else []
    return f"{one.name} ({translate(N_(', ')).join(about)})" if about else one.name


def translate_plan_line(line: str, inputs: Sequence[PlanInput]) -> str:
    """Translate a line of an install plan for the user; *inputs* are the plan's inputs."""
    if line.startswith("inputs: "):
        return translate_line(f"inputs: {join_list(_describe_input(one, _) for one in inputs)}")
    return translate_line(line)


def mask_server(server: ServerConfig, planned: PlannedEntry) -> ServerConfig:
    """Return a copy of the server with references to the keyring instead of the secrets that the user entered."""
    changes: dict[str, dict[str, str]] = {"env": dict(server.env), "headers": dict(server.headers)}
    for value in planned.values:
        place, key = value.keys
        if key in changes[place]:
            changes[place][key] = value.with_references
    return replace(server, env=changes["env"], headers=changes["headers"])


def _shown_in_both(old: ServerConfig, new: ServerConfig, planned: PlannedEntry) -> ShownValues:
    """Return the values of variables and headers that an update does not change, to be shown in full."""
    texts = [{"env": server.env, "headers": server.headers} for server in (old, new)]
    return {
        (place, key): text
        for (place, key), text in planned.shown.items()
        if key in texts[0][place] and texts[0][place][key] == texts[1][place].get(key)
    }


def plan_update(
    source: PlanSource,
    latest: RegistryEntry,
    place: str,
    record: InstalledServer,
    old_entry: Mapping[str, Any],
    typed: Mapping[str, list[str]],
    given: Set[str],
) -> tuple[dict[str, Any], PlannedEntry]:
    """Return the entry for a newer version, with the user's settings, and the plan from which it was made.

    *place* is the registry's URL or file. *old_entry* is the current entry, and *record* is the installation record in
    this entry. *typed* contains the input values that the user entered; *given* names the inputs whose values replace
    those in *old_entry*. The plan names the inputs that still need a value. Raises UsageError or RegistryError.
    """
    values = {**record.values_for(source.option), **typed}
    planned = source.plan(values, show_missing=True)
    entry, planned = merge_update(planned, source.option.inputs, source.input_names(), old_entry, given)
    own = with_registry(planned, source.option, latest, absolute_place(place), values)["mcphost"]
    _keep_published(own[REGISTRY_KEY], old_entry, entry)
    return {**entry, "mcphost": {**entry.get("mcphost", {}), **own}}, planned


def _keep_published(record: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Copy the publisher's values recorded in the *old* entry to *record*, if the *new* entry still contains them.

    *record* is the installation record of the *new* entry. The recorded values are shown in full; see `with_registry`.
    """
    published = read_published(old.get("mcphost") or {})
    for section, known in published.texts.items():
        for name, text in cast("dict[str, object]", new.get(section) or {}).items():
            if isinstance(text, str) and published.has(section, name, text):
                record.setdefault(PUBLISHED_KEY, {}).setdefault(section, {}).setdefault(name, known[name])


def describe_update(
    old: ServerConfig | None, new: ServerConfig | None, planned: PlannedEntry, digest: PlannedDigest | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two tuples: the changed lines of the server's description, and the warnings. Secrets are masked.

    Warnings that also applied to *old* are left out. If *old* is None, because the user has not approved the server,
    all lines and warnings are new. *digest* is the digest of the new version's package, or None if it has none; it adds
    a line, and a warning for each mismatch.
    """
    if new is None:
        return (), ()
    masked = mask_server(new, planned)
    before = describe_server(old, _shown_in_both(old, new, planned)) if old is not None else ()
    lines = diff_lines(before, describe_server(masked, planned.shown))
    changed = tuple(line for line in lines if not line.startswith("  "))
    known = server_warnings(old) if old is not None else ()
    stated, mismatches = (digest.lines, digest.mismatches) if digest is not None else ((), ())
    new_warnings = tuple(warning for warning in server_warnings(masked) if warning not in known)
    return (*changed, *stated), (*mismatches, *planned.notes, *new_warnings)


class InstallReview(Struct, frozen=True):
    """Description of an installation, which the user reads before confirming it.

    - `missing`: the required inputs without a value.
    - `problem`: why the server cannot be installed, "" if it can be.
    - `is_pending`: whether the package's digest is still unknown, because `RegistryInstaller.ask_digest` has not been
      called yet.
    """

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""
    is_pending: bool = False


class InstallDraft:
    """A prepared installation or update of a server, not yet written or discarded."""

    def __init__(
        self,
        entry: RegistryEntry,
        option: InstallOption,
        name: str,
        warnings: Sequence[str],
        installed: tuple[ServerConfig, InstalledServer] | None,
    ) -> None:
        self.entry, self.option, self.name, self.warnings = entry, option, name, tuple(warnings)
        self.installed = installed
        self.source = None if option.kind == "mcpb" else PlanSource(option)
        """The plan's source; None until the bundle has been downloaded."""

        self.digests: KnownDigests = {}
        """The digests requested while this draft is shown."""

    @property
    def next_kind(self) -> str:
        """The package kind to offer after the current one, such as "pypi"; "" if there is no other kind.

        To let the user cycle through all kinds, prepare a new draft with the kind that this property returns. An update
        keeps its kind, so the result is "".
        """
        usable = (option.kind for option in list_options(self.entry) if not option.problem)
        kinds = list(dict.fromkeys(usable))
        if self.installed is not None or len(kinds) < 2:
            return ""
        return kinds[(kinds.index(self.option.kind) + 1) % len(kinds)]

    @property
    def inputs(self) -> tuple[PlanInput, ...]:
        """The inputs to ask the user for; empty until the bundle, if any, is downloaded."""
        return self.source.option.inputs if self.source is not None else ()

    @property
    def download(self) -> dict[str, str]:
        """The "url" and "sha256" of a bundle that must still be downloaded; {} if there is none."""
        return describe_download(self.option) if self.source is None else {}

    def discard(self) -> None:
        """Delete the downloaded bundle, if any."""
        if self.source is not None:
            self.source.discard()


class RegistryInstaller:
    """Installer that searches the configured registry and installs servers from it.

    A bundle is downloaded only by `download`, and configuration is written only by `install`. If a method raises
    RegistryError, UsageError, ConfigError, StoreError or ConsentDenied, nothing was changed.
    """

    def __init__(
        self, place: str, places: SetupPlaces, servers: Servers, editor: ServerFileEditor, live: ServerEditor
    ) -> None:
        """Create an installer; *place* is the base URL of the registry, or the path of a JSON file.

        *places* contains the folders for cached responses and unpacked bundles.
        """
        self.place = place
        self._places, self._servers, self._editor, self._live = places, servers, editor, live

    async def search(self, text: str, *, refresh: bool = False) -> RegistryAnswer:
        """Return the latest versions of servers with *text* in their name, title or description.

        If *refresh* is true, recent cached responses are ignored. Safe to cancel.
        """
        async with open_registry(self.place, self._cache, refresh=refresh) as registry:
            return await registry.search(text, _SEARCH_LIMIT)

    async def list_versions(self, name: str) -> RegistryAnswer:
        """Return all versions of a server in the registry's order; an HTTP registry lists the newest first.

        Safe to cancel.
        """
        async with open_registry(self.place, self._cache) as registry:
            return await registry.list_versions(name)

    async def list_installed(self) -> dict[str, InstalledServer]:
        """Return the installation record of each server installed from a registry.

        The records are keyed by the server's name in the registry.
        """
        return {record.server: record for _, record in await anyio.to_thread.run_sync(self._read_installed)}

    async def fetch_guide(self, entry: RegistryEntry) -> InstallGuide:
        """Download the installation guide that a server's source repository provides for language models.

        Safe to cancel.
        """
        return await fetch_guide(guide_urls(entry.repository))

    async def prepare(self, name: str, kind: str = "", version: str = "") -> InstallDraft:
        """Fetch a server's entry from the registry and choose how to run it. Safe to cancel.

        *kind* limits the choice, for example to "npm"; an installed server keeps its kind. *version* may be older than
        the installed one; "" means the latest.
        """
        async with open_registry(self.place, self._cache, refresh=True) as registry:
            entry = (await registry.find(name, version)).entries[0]
        if entry.status == "deleted":
            raise RegistryError(f"{entry.name} {entry.version} was deleted from the registry.", "Choose another one.")
        found = await anyio.to_thread.run_sync(self._read_installed)
        installed = next((one for one in found if one[1].server == entry.name), None)
        if installed is not None and entry.version == installed[1].version and version:
            raise UsageError(f"{installed[1].name}: {entry.version} is installed.")
        if installed is not None and not version and not is_newer(entry, installed[1].version):
            raise UsageError(f"{installed[1].name}: {entry.version} is installed, and is the latest version.")
        option = choose_option(entry, installed[1].kind if installed else kind, installed_programs())
        own = installed[1].name if installed else suggest_name(entry)
        others = [connection.config.name for connection in self._servers if connection.config.name != own]
        if installed is None and any(connection.config.name == own for connection in self._servers):
            own = _free_name(own, others)
        warnings = find_warnings(entry, option, own, others)
        if entry.status != "active":
            warnings = (f"It is {entry.status}. {entry.status_message}".rstrip(), *warnings)
        return InstallDraft(entry, option, own, warnings, installed)

    async def download(self, draft: InstallDraft) -> None:
        """Download and unpack the bundle of a draft. Cancellation leaves no files behind."""
        package = draft.option.package
        if draft.source is not None or package is None:
            return
        await self._editor.record_download(draft.name, package.identifier, package.file_sha256)
        bundle = await fetch_bundle(package, self._places.data_dir / BUNDLES_FOLDER, draft.name)
        draft.source = PlanSource(draft.option, bundle)

    async def review(self, draft: InstallDraft, values: Mapping[str, Sequence[str]]) -> InstallReview:
        """Describe an installation with these input values for the user to review; secrets are masked."""
        return await self._review(draft, values, asks=False)

    async def ask_digest(self, draft: InstallDraft, values: Mapping[str, Sequence[str]]) -> InstallReview:
        """Return the review as `review` does, after looking up the digest of the draft's package if it is unknown.

        The lookup runs npm or uv and takes up to half a minute. Safe to cancel.
        """
        return await self._review(draft, values, asks=True)

    async def _review(self, draft: InstallDraft, values: Mapping[str, Sequence[str]], *, asks: bool) -> InstallReview:
        def plan() -> tuple[ServerEdit, PlannedEntry]:
            entry, planned = self._plan(draft, values, show_missing=True)
            return plan_set(self._file(draft), draft.name, entry, replace=draft.installed is not None), planned

        try:
            edit, planned = await anyio.to_thread.run_sync(plan)
        except (UsageError, RegistryError, ConfigError) as error:
            return InstallReview(problem=str(error))
        digest = await plan_digest(edit.server, draft.option.package, edit.file.path, draft.digests, asks=asks)
        command = self._describe_command(draft, values)
        return await anyio.to_thread.run_sync(_describe_draft, draft, edit, planned, digest, command)

    def _describe_command(self, draft: InstallDraft, values: Mapping[str, Sequence[str]]) -> str:
        """Return a command line that installs or updates the draft's server.

        For each input in *values*, the command line contains an option with the input's name only; when run, the
        command asks for the value.
        """
        arguments = ["mcphost", "servers"]
        if draft.installed is not None:
            arguments += ["update", draft.name]
        else:
            arguments += ["install", f"{draft.entry.name}@{draft.entry.version}", "--from", draft.option.kind]
            arguments += ["--name", draft.name, "--scope", "user"]
        arguments += ["--registry", absolute_place(self.place)]
        if self._editor.config_dir != config_dir():
            arguments += ["--config-dir", str(self._editor.config_dir)]
        return join([*arguments, *(f"--set={name}" for name in values)])

    async def install(self, draft: InstallDraft, values: Mapping[str, Sequence[str]], review: InstallReview) -> str:
        """Write the entry, start the server, and return a confirmation for the user.

        *review* is what the user has read; UsageError is raised if it no longer matches *values*. If the review has no
        warnings, the server is approved; otherwise the user is asked to approve it.
        """
        if review.is_pending:
            raise UsageError("The digest of the package is still being requested.", "Try again in a moment.")
        if review.problem:
            raise UsageError(review.problem)
        if review != await self.review(draft, values):
            raise UsageError("The plan has changed.", "Review it again.")
        if review.missing:
            raise UsageError(f"{review.missing[0]} needs a value.")
        entry, planned = await anyio.to_thread.run_sync(lambda: self._plan(draft, values, show_missing=False))
        check_programs(draft.option, entry)
        if draft.installed is None:
            saved = await self._live.install(
                draft.name,
                entry,
                is_approved=not review.warnings,
                secrets=planned.secrets,
                shown=planned.shown,
            )
            return f"Installed {draft.name} in {saved.edit.file.path}. Press u to undo."
        saved = await self._live.change(
            draft.name, entry, is_approved=not review.warnings, secrets=planned.secrets, shown=planned.shown
        )
        return f"Updated {draft.name} to {draft.entry.version}. Press u to undo."

    def _plan(
        self, draft: InstallDraft, values: Mapping[str, Sequence[str]], *, show_missing: bool
    ) -> tuple[dict[str, object], PlannedEntry]:
        if draft.source is None:
            raise RegistryError("The bundle was not downloaded yet.")
        given = {name: list(texts) for name, texts in values.items()}
        if draft.installed is None:
            planned = draft.source.plan(given, show_missing=show_missing)
            place = absolute_place(self.place)
            return with_registry(planned, draft.source.option, draft.entry, place, given), planned
        config, record = draft.installed
        old = self._editor.read_entry(config)
        return plan_update(draft.source, draft.entry, self.place, record, old, given, set(given))

    def _file(self, draft: InstallDraft) -> ServerFile:
        if draft.installed is None:
            return scope_file("user", self._editor.config_dir, self._editor.folder)
        return find_server_file(draft.installed[0], self._editor.config_dir, self._editor.folder)

    def _read_installed(self) -> list[tuple[ServerConfig, InstalledServer]]:
        found: list[tuple[ServerConfig, InstalledServer]] = []
        for connection in list(self._servers):
            config = connection.config
            if not config.file:
                continue
            try:
                record = read_record(self._editor.read_entry(config), config.name)
            except (ConfigError, UsageError, OSError):
                continue
            if record is not None:
                found.append((config, record))
        return found

    @property
    def _cache(self) -> Path:
        return self._places.cache_dir / "registry"


def _describe_draft(
    draft: InstallDraft, edit: ServerEdit, planned: PlannedEntry, digest: PlannedDigest | None, command: str
) -> InstallReview:
    problem = ""
    if digest is not None:
        try:
            digest.check(command=command)
        except RegistryError as error:
            problem = str(error)
    is_pending = digest is not None and digest.is_pending
    file = f"file: {edit.file.path}, as {draft.name}"
    if draft.installed is not None:
        old, record = draft.installed
        changes, risks = describe_update(old, edit.server, planned, digest)
        lines = (f"version: {record.version} -> {draft.entry.version}", *changes, file)
        return InstallReview(lines, (*draft.warnings, *risks), planned.missing, problem, is_pending)
    plan = describe_plan(edit.server, planned, draft.option, draft.warnings, digest)
    lines = (line for line in plan.details if not line.startswith("inputs: "))  # the form shows them
    return InstallReview((*lines, file), tuple(plan.warnings), planned.missing, problem, is_pending)


def _free_name(name: str, taken: Sequence[str]) -> str:
    """Return `name-2`, or the name with the next higher number that is not taken."""
    return next(new for number in range(2, 10_000) if (new := f"{name}-{number}") not in taken)
