"""Roots: the folders the user lets servers know of, changed by the user while everything runs.

Specification: client/roots. A root says where the user works; it confines nobody.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread

from mcphost.config.roots import NAME_LIMIT, PATH_LIMIT, ROOTS_LIMIT
from mcphost.config.schema import RootConfig
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import FolderInfo, HostEvent, RootsChanged
from mcphost.host.server_requests.path_completion import complete_path
from mcphost.host.server_requests.root_list import (
    ROOT_SCOPES,
    EditLayers,
    RootFolder,
    RootFolders,
    RootScope,
    inspect_roots,
    startup_roots,
)
from mcphost.protocol.completion import Completion
from mcphost.protocol.server_requests import ListRootsResult, Root
from mcphost.sanitize import replace_surrogates, sanitize
from mcphost.serialization import replace
from mcphost.store.roots import FolderEdit, StoredFolders


class _SharedInspection:
    """A look at the list for all who wait for it, and what it found."""

    def __init__(self) -> None:
        self.result: RootFolders | None = None
        """None when it failed, or was cancelled."""
        self.done = anyio.Event()


class Roots:
    """The user's roots of this run. Edits of another mcphost that are kept show at the next look."""

    def __init__(
        self,
        configured: tuple[RootConfig, ...],
        stored_folders: StoredFolders | None = None,
        audit: AuditLog | None = None,
        *,
        put: Callable[[HostEvent], None] = lambda event: None,
    ) -> None:
        """`named` is what the configuration names; without `stored` every edit ends with the run."""
        self.version = 0
        """Grows with every change of what servers may be told."""

        self.project = next((one.path for one in startup_roots()), "")
        """The folder that "project" means in `keep`; empty when there is none."""

        self._configured = configured
        self._stored_folders = stored_folders
        self._audit = audit
        self.publish = put
        self._run_edits: dict[str, FolderEdit] = {}
        self._last_folders: RootFolders | None = None
        self._inspection_numbers = itertools.count()
        self._newest_inspection = 0
        self._leaving_roots: set[Root] = set()
        self._changed = anyio.Event()
        self._lock = anyio.Lock()
        self._pending_inspection: _SharedInspection | None = None

    # -- looking
    async def refresh(self) -> RootFolders:
        """The list, each folder looked at, on a thread: a file system may hang. Raises StoreError."""
        number = next(self._inspection_numbers)
        found = await self._inspect_shared()
        if self._last_folders is not None and number < self._newest_inspection:
            return self._last_folders  # whoever began later saw what was changed since
        before, self._last_folders, self._newest_inspection = self._last_folders, found, number
        if before is not None and before != found:
            if before.roots != found.roots:
                self.version += 1
                self.notify_change()
            self.publish(RootsChanged(tuple(folder_info(one) for one in found.folders)))
        return found

    async def _inspect_shared(self) -> RootFolders:
        """Look once for all who come in one turn of the event loop, as servers that start together do.

        Raises StoreError.
        """
        joined = self._pending_inspection
        if joined is not None:
            await joined.done.wait()
            return await self._inspect() if joined.result is None else joined.result
        shared = self._pending_inspection = _SharedInspection()
        try:
            await anyio.lowlevel.checkpoint()
            self._pending_inspection = None  # who comes from now on may know of a change that this look misses
            shared.result = await self._inspect()
            return shared.result
        finally:
            if self._pending_inspection is shared:
                self._pending_inspection = None
            shared.done.set()

    async def _inspect(self) -> RootFolders:
        layers = await self._layers()
        return await anyio.to_thread.run_sync(inspect_roots, self._configured, layers, abandon_on_cancel=True)

    async def inspect_folder(self, path: str) -> RootFolder:
        """That folder as it would be added. Raises UsageError for what is none that can be read."""
        _check_input(path, "")
        return await anyio.to_thread.run_sync(_inspect_path, path, abandon_on_cancel=True)

    async def suggest(self, typed: str) -> Completion:
        """Folders whose path begins so."""
        return await anyio.to_thread.run_sync(complete_path, typed, abandon_on_cancel=True)

    def filter_reply(self, reply: ListRootsResult) -> ListRootsResult:
        """What of it a server may be told at this very moment; returns at once."""
        known = set(self._last_folders.roots if self._last_folders else ()) - self._leaving_roots
        return ListRootsResult(tuple(root for root in reply.roots if root in known))

    def notify_change(self) -> None:
        """Wake whoever waits in `moved`."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_change(self) -> None:
        """Wait for the next change of the list, or of what a server was told of it."""
        await self._changed.wait()

    # -- editing, by the user only
    async def add(self, path: str, name: str | None = None, scope: RootScope = "run") -> RootFolder:
        """Let servers be told of it from now on; a folder of the list gets that name, or is put back. None is
        the name it has.

        `~` and paths relative to where mcphost was started are understood; what is kept is the real folder. Raises
        UsageError for what is no readable folder, StoreError, Declined.
        """
        _check_input(path, name or "")
        async with self._lock:
            seen = await self.inspect_folder(path)
            before = await self.refresh()
            old = before.find(path) or before.find(seen.path)
            if len(before.available) >= ROOTS_LIMIT and (old is None or old.state != "there"):
                raise UsageError(f"At most {ROOTS_LIMIT} folders are told.", "Take one out first.")
            event = "added" if old is None or old.state == "out" else "named"
            name = name if name is not None else old.name if old else ""
            if old is not None and (old.state, old.name, old.scope) == ("there", name, scope):
                raise UsageError(f"{sanitize(old.path, keep_newlines=False)} is in the list already.")
            await self._record_edit(event, seen.path, name, scope)
            if old is not None:
                await self._delete_edit(scope, old)
            await self._save_edit(scope, FolderEdit(seen.path, name))
            return (await self.refresh()).find(seen.path) or seen

    async def remove(self, path: str, scope: RootScope = "run") -> RootFolder:
        """Servers are not told of it any more, from this moment on; what was taken out may be so for longer.

        Raises UsageError when it is not in the list, StoreError when it could not be kept: then it holds for this run.
        """
        _check_input(path, "")
        # Before anything is waited for: an answer that is on its way must not hold it any more.
        known = self._last_folders.find(path) if self._last_folders else None
        leaving = {known.root} if known is not None and known.state == "there" else set[Root]()
        self._leaving_roots |= leaving
        try:
            async with self._lock:
                old = (await self.refresh()).find(path)
                if old is None or (old.state, old.scope) == ("out", scope):
                    raise UsageError(
                        f"{sanitize(path, keep_newlines=False)} is not among the folders.", "See the list for what is."
                    )
                if self._audit is not None:
                    # Soon is enough: nobody can be kept from telling less, whatever becomes of the ledger.
                    act = AuditSubject(kind="roots", name=replace_surrogates(old.path))
                    self._audit.queue_record(self._audit.make_record(act, "removed", decision=scope, who="person"))
                await self._remove_folder(scope, old)
                return (await self.refresh()).find(path) or replace(old, state="out", scope="")
        finally:
            self._leaving_roots -= leaving

    async def _remove_folder(self, scope: RootScope, old: RootFolder) -> None:
        edit = FolderEdit(old.configured_path or old.path, old.name, told=False)
        try:
            await self._delete_edit(scope, old)
            rest = await self._inspect()
            left = rest.find(old.path)
            if left is not None and left.state != "out":
                await self._save_edit(scope, edit)
        except StoreError:
            self._run_edits[edit.path] = edit
            await self.refresh()
            raise

    async def _record_edit(self, event: str, path: str, name: str, scope: RootScope) -> None:
        if self._audit is not None:
            detail = {"name": name} if name else None
            act = AuditSubject(kind="roots", name=replace_surrogates(path))
            await self._audit.record_event(act, event, decision=scope, who="person", detail=detail)

    # -- what holds
    async def _layers(self) -> EditLayers:
        layers: EditLayers = (("run", tuple(self._run_edits.values())),)
        if self._stored_folders is None:
            return layers
        project: EditLayers = (("project", await self._stored_folders.of(self.project)),) if self.project else ()
        return (("user", await self._stored_folders.of("")), *project, *layers)

    async def _save_edit(self, scope: RootScope, edit: FolderEdit) -> None:
        """Write it, and let nothing narrower say otherwise."""
        if scope == "run" or self._stored_folders is None:
            self._run_edits[edit.path] = edit
            return
        await self._stored_folders.keep(self._scope_folder(scope), edit)
        await self._drop_narrower_edits(scope, edit.path)

    async def _delete_edit(self, scope: RootScope, folder: RootFolder) -> None:
        for path in {folder.path, folder.configured_path} - {""}:
            if scope == "run" or self._stored_folders is None:
                self._run_edits.pop(path, None)
            else:
                await self._stored_folders.forget(self._scope_folder(scope), path)
                await self._drop_narrower_edits(scope, path)

    async def _drop_narrower_edits(self, scope: RootScope, path: str) -> None:
        self._run_edits.pop(path, None)
        if scope == "user" and self.project and self._stored_folders is not None:
            await self._stored_folders.forget(self.project, path)

    def _scope_folder(self, scope: RootScope) -> str:
        if scope == "project" and not self.project:
            raise UsageError("The folder that mcphost was started in is gone.", "Keep it for this run, or everywhere.")
        return self.project if scope == "project" else ""


def folder_info(folder: RootFolder) -> FolderInfo:
    """As an event tells it; text that cannot be sent as such is marked."""
    return FolderInfo(
        path=replace_surrogates(folder.path),
        name=replace_surrogates(folder.name),
        uri=folder.root.uri if folder.state == "there" else "",
        source=folder.source,
        file=replace_surrogates(folder.file),
        keep=folder.scope,
        state=folder.state,
        why=folder.why,
        warning=folder.warning,
    )


def _check_input(path: str, name: str) -> None:
    if not path or "\0" in path or len(path) > PATH_LIMIT:
        raise UsageError(f"A path has from 1 to {PATH_LIMIT} characters.")
    if len(name) > NAME_LIMIT or sanitize(name, keep_newlines=False) != name:
        raise UsageError(f"A name has at most {NAME_LIMIT} characters, all of them visible.")


def _inspect_path(path: str) -> RootFolder:
    """The folder as it really is. Raises UsageError."""
    try:
        at_home = os.path.expanduser(path)
        absolute = at_home if os.path.isabs(at_home) else str(Path.cwd() / at_home)
    except (OSError, RuntimeError) as error:
        raise UsageError("The folder that mcphost was started in is gone.", "Write the whole path.") from error
    seen = inspect_roots([RootConfig(absolute, source="added")]).folders[0]
    if seen.state != "there":
        raise UsageError(f"{sanitize(path, keep_newlines=False)} cannot be told to servers: {seen.why}.")
    return seen


def parse_root_scope(text: object) -> RootScope:
    """One of KEEPS. Raises UsageError."""
    for keep in ROOT_SCOPES:
        if keep == text:
            return keep
    raise UsageError(f'"keep" is one of {", ".join(ROOT_SCOPES)}.')
