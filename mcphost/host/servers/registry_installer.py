"""Installation of servers from a registry for a user interface: search, review, install and update."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio.to_thread

from mcphost.config.schema import ServerConfig
from mcphost.config.server_files import ServerFile, file_of, plan_set, scope_file
from mcphost.errors import ConfigError, RegistryError, UsageError
from mcphost.host.servers.install_plan import (
    PlanSource,
    absolute_place,
    check_programs,
    describe_download,
    describe_plan,
    describe_update,
    installed_programs,
    plan_update,
    with_registry,
)
from mcphost.host.servers.live_editor import LiveServerEditor
from mcphost.host.servers.server_editor import ServerEditor
from mcphost.host.servers.servers import Servers
from mcphost.paths import BUNDLES_FOLDER, SetupPlaces
from mcphost.registry.bundle import fetch_bundle
from mcphost.registry.client import RegistryAnswer, open_registry
from mcphost.registry.entries import RegistryEntry, is_newer
from mcphost.registry.install_guide import InstallGuide, fetch_guide, guide_urls
from mcphost.registry.lookalikes import find_warnings
from mcphost.registry.plan import InstallOption, PlannedEntry, choose_option, list_options, suggest_name
from mcphost.registry.plan_inputs import PlanInput
from mcphost.registry.updates import InstalledServer, read_record
from mcphost.serialization import Struct

_SEARCH_LIMIT = 100


class InstallReview(Struct, frozen=True):
    """What an installation would do, for the user to read before confirming it.

    `missing` names the required inputs without a value; `problem` says why there is no plan, "" if there is one.
    """

    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""


class InstallDraft:
    """A prepared installation or update of a server, before it is written or discarded."""

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

    @property
    def next_kind(self) -> str:
        """The next kind in which this server can be installed, such as "pypi"; "" if there is only one.

        Preparing each new draft with the `next_kind` of the last one leads through all kinds. An update keeps its
        kind.
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
        """Delete the downloaded bundle, if there is one."""
        if self.source is not None:
            self.source.discard()


class RegistryInstaller:
    """Installer that searches the configured registry and installs servers from it.

    A bundle is downloaded only by `download`, and configuration is written only by `install`. Methods may raise
    RegistryError, UsageError, ConfigError, StoreError or ConsentDenied; then nothing was changed.
    """

    def __init__(
        self, place: str, places: SetupPlaces, servers: Servers, editor: ServerEditor, live: LiveServerEditor
    ) -> None:
        """Create an installer; *place* is the base URL of the registry, or the path of a JSON file."""
        self.place = place
        self._places, self._servers, self._editor, self._live = places, servers, editor, live

    async def search(self, text: str, *, refresh: bool = False) -> RegistryAnswer:
        """Return the latest versions of servers with *text* in name, title or description. May be cancelled."""
        async with open_registry(self.place, self._cache, refresh=refresh) as registry:
            return await registry.search(text, _SEARCH_LIMIT)

    async def list_versions(self, name: str) -> RegistryAnswer:
        """Return all versions of a server, newest first. May be cancelled."""
        async with open_registry(self.place, self._cache) as registry:
            return await registry.list_versions(name)

    async def list_installed(self) -> dict[str, InstalledServer]:
        """Return the servers installed from a registry, by their registry name, with their origin."""
        return {record.server: record for _, record in await anyio.to_thread.run_sync(self._read_installed)}

    async def fetch_guide(self, entry: RegistryEntry) -> InstallGuide:
        """Download the installation guide for models from the server's source repository. May be cancelled."""
        return await fetch_guide(guide_urls(entry.repository))

    async def prepare(self, name: str, kind: str = "") -> InstallDraft:
        """Fetch a server's current entry from the registry and choose how to run it. May be cancelled.

        *kind* limits the choice, for example to "npm"; an installed server keeps its kind.
        """
        async with open_registry(self.place, self._cache, refresh=True) as registry:
            entry = (await registry.find(name)).entries[0]
        if entry.status == "deleted":
            raise RegistryError(f"{entry.name} {entry.version} was deleted from the registry.", "Choose another one.")
        found = await anyio.to_thread.run_sync(self._read_installed)
        installed = next((one for one in found if one[1].server == entry.name), None)
        if installed is not None and not is_newer(entry, installed[1].version):
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
        """Return what the user must read before an installation with these input values; secrets are masked."""
        return await anyio.to_thread.run_sync(self._review, draft, values)

    def _review(self, draft: InstallDraft, values: Mapping[str, Sequence[str]]) -> InstallReview:
        try:
            entry, planned = self._plan(draft, values, show_missing=True)
            edit = plan_set(self._file(draft), draft.name, entry, replace=draft.installed is not None)
        except (UsageError, RegistryError, ConfigError) as error:
            return InstallReview(problem=f"{error.message} {error.hint}".strip())
        file = f"file: {edit.file.path}, as {draft.name}"
        if draft.installed is not None:
            old, record = draft.installed
            changes, risks = describe_update(old, edit.server, planned)
            lines = (f"version: {record.version} -> {draft.entry.version}", *changes, file)
            return InstallReview(lines, (*draft.warnings, *risks), planned.missing)
        plan = describe_plan(edit.server, planned, draft.option, draft.warnings)
        lines = (line for line in plan.details if not line.startswith("inputs: "))  # the form shows them
        return InstallReview((*lines, file), tuple(plan.warnings), planned.missing)

    async def install(self, draft: InstallDraft, values: Mapping[str, Sequence[str]], review: InstallReview) -> str:
        """Write the entry, start the server, and return a confirmation for the user.

        *review* is what the user has read; UsageError is raised if it no longer matches *values*. If it has no
        warnings, the server is approved; otherwise the user is asked to approve it.
        """
        if review.problem or review != await self.review(draft, values):
            raise UsageError(review.problem or "The plan has changed.", "Review it again.")
        if review.missing:
            raise UsageError(f"{review.missing[0]} needs a value.")
        entry, planned = await anyio.to_thread.run_sync(lambda: self._plan(draft, values, show_missing=False))
        check_programs(draft.option, entry)
        if draft.installed is None:
            saved = await self._live.install(
                draft.name, entry, is_approved=not review.warnings, secret_keys=planned.secret_keys
            )
            return f"Installed {draft.name} in {saved.edit.file.path}. Press u to undo."
        saved = await self._live.change(
            draft.name, entry, is_approved=not review.warnings, secret_keys=planned.secret_keys
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
        return file_of(draft.installed[0], self._editor.config_dir, self._editor.folder)

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


def _free_name(name: str, taken: Sequence[str]) -> str:
    """Return `name-2`, or the name with the next higher number that is not taken."""
    return next(new for number in range(2, 10_000) if (new := f"{name}-{number}") not in taken)
