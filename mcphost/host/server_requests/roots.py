"""Roots: the folders that mcphost may send to servers; the user can edit the list at any time.

Specification: client/roots. A root tells a server where the user works; it does not restrict the server.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread

from mcphost.config.schema import RootConfig
from mcphost.config.settings import MAX_NAME_LENGTH, MAX_PATH_LENGTH, MAX_ROOTS
from mcphost.errors import StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import AnyEvent, FolderInfo, RootsChanged
from mcphost.host.lifetime import Lifetime
from mcphost.host.server_requests.root_folders import (
    ROOT_SCOPES,
    EditLayers,
    RootFolder,
    RootFolders,
    RootScope,
    inspect_roots,
    startup_roots,
)
from mcphost.protocol.prompts import Completion
from mcphost.protocol.server_requests import ListRootsResult, Root
from mcphost.sanitize import replace_surrogates, sanitize
from mcphost.serialization import replace
from mcphost.store.roots import FolderEdit, FolderEditStore

MAX_SUGGESTIONS = 50
MAX_ENTRIES = 5_000
"""Maximum number of entries of a folder to examine, because a folder may have millions."""


def complete_path(typed: str) -> Completion:
    """Suggest folders whose path begins with *typed*; include hidden ones only if the leading dot was typed.

    Reads the file system, so it may block; never raises.
    """
    if typed == "~":
        return Completion(("~/",))
    head, _, start = typed.rpartition("/")
    base = f"{head}/" if "/" in typed else ""
    try:
        folder = os.path.expanduser(base) or "."
        names = sorted(_matching_folders(folder, start), key=str.casefold)
    except (OSError, ValueError):
        return Completion()
    return Completion(
        tuple(f"{base}{name}/" for name in names[:MAX_SUGGESTIONS]), None, has_more=len(names) > MAX_SUGGESTIONS
    )


def _matching_folders(folder: str, start: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                return
            matches = entry.name.casefold().startswith(start.casefold())
            if matches and (start.startswith(".") or not entry.name.startswith(".")) and _is_folder(entry):
                yield entry.name


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


class _SharedInspection:
    """A running inspection of the folders, whose result is shared by concurrent callers."""

    def __init__(self) -> None:
        self.result: RootFolders | None = None
        """The inspected folders; None if the inspection failed or was cancelled."""
        self.done = anyio.Event()


class Roots:
    """The folders that the user shares with servers in this run.

    If another mcphost process stores an edit of this list, the edit takes effect in this process when the folders are
    next inspected.
    """

    def __init__(
        self,
        configured: tuple[RootConfig, ...],
        stored_folders: FolderEditStore | None = None,
        audit: AuditLog | None = None,
        *,
        publish: Callable[[AnyEvent], None] = lambda event: None,
        lifetime: Lifetime | None = None,
    ) -> None:
        """Create the list from the folders in *configured*.

        - *stored_folders* stores the user's edits for later runs; if it is None, edits apply only to this run.
        - *publish* is called with each event about the list or about shared folders.
        - *lifetime* runs an inspection in the background after a change of the configuration. If it is None, the
          folders are inspected by the next `refresh`.
        """
        self.version = 0
        """Increases whenever the roots that servers may receive change."""

        self.project = next((one.path for one in startup_roots()), "")
        """The folder that edits of scope "project" apply to, "" for none."""

        self._configured = configured
        self._configured_paths = _spell_paths(configured)
        self._lifetime = lifetime
        self._stored_folders = stored_folders
        self._audit = audit
        self.publish = publish
        self._run_edits: dict[str, FolderEdit] = {}
        self._last_folders: RootFolders | None = None
        self._inspection_numbers = itertools.count()
        self._newest_inspection = 0
        self._leaving_roots: set[Root] = set()
        self._changed = anyio.Event()
        self._lock = anyio.Lock()
        self._pending_inspection: _SharedInspection | None = None

    # -- inspecting
    async def refresh(self) -> RootFolders:
        """Inspect all folders and return them; publish an event if they changed. Raises StoreError.

        The inspection runs in a thread, because it may block for a long time on a network file system.
        """
        number = next(self._inspection_numbers)
        folders = await self._inspect_shared()
        if self._last_folders is not None and number < self._newest_inspection:
            return self._last_folders  # a later inspection has seen newer edits
        before, self._last_folders, self._newest_inspection = self._last_folders, folders, number
        if before is not None and before != folders:
            if before.roots != folders.roots:
                self.version += 1
                self.notify_change()
            self.publish(RootsChanged(tuple(folder_info(folder) for folder in folders.folders)))
        return folders

    async def _inspect_shared(self) -> RootFolders:
        """Inspect the folders; concurrent callers, such as servers that start at the same time, share one inspection.

        Raises StoreError.
        """
        joined = self._pending_inspection
        if joined is not None:
            await joined.done.wait()
            return await self._inspect() if joined.result is None else joined.result
        shared = self._pending_inspection = _SharedInspection()
        try:
            await anyio.lowlevel.checkpoint()
            self._pending_inspection = None  # later callers need an inspection that includes newer edits
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
        """Return the current state of the folder at *path*, without adding it to the list.

        See `add` for what *path* may contain. Raises UsageError if the folder cannot be read.
        """
        _check_input(path, "")
        return await anyio.to_thread.run_sync(_inspect_path, path, abandon_on_cancel=True)

    async def suggest(self, typed: str) -> Completion:
        """Suggest folders whose path begins with *typed*, as `complete_path` does, without blocking."""
        return await anyio.to_thread.run_sync(complete_path, typed, abandon_on_cancel=True)

    def filter_reply(self, reply: ListRootsResult) -> ListRootsResult:
        """Return a copy of the reply with only the roots that may be sent now.

        This is not a coroutine: if the caller sends the reply without awaiting anything else first, the user cannot
        remove a folder in between.
        """
        folders = self._last_folders.available if self._last_folders else ()
        known = {folder.root for folder in folders if self._is_listed(folder)} - self._leaving_roots
        return ListRootsResult(tuple(root for root in reply.roots if root in known))

    def use_configured(self, configured: tuple[RootConfig, ...]) -> None:
        """Replace the configured folders; the user's edits to the list are kept.

        Folders that are no longer listed are not sent from now on. The new folders are inspected in the background;
        then, the servers are notified of the change.
        """
        if configured == self._configured:
            return
        self._configured, self._configured_paths = configured, _spell_paths(configured)
        if self._lifetime is not None:
            self._lifetime.start_soon(self._refresh_if_possible, name="configured folders")

    async def _refresh_if_possible(self) -> None:
        with suppress(StoreError):  # raised again when a server requests the folders
            await self.refresh()

    def _is_listed(self, folder: RootFolder) -> bool:
        """Return whether an inspected folder is still in the list: configured, or added or changed by the user."""
        if folder.scope or folder.source == "added":
            return True
        return bool({folder.path, folder.configured_path} & self._configured_paths)

    def notify_change(self) -> None:
        """Wake all callers of `wait_for_change`."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_change(self) -> None:
        """Wait until the list of roots changes, or a server must be notified again that it has changed."""
        await self._changed.wait()

    # -- editing, by the user only
    async def add(
        self, path: str, name: str | None = None, scope: RootScope = "run", *, who: str = "person"
    ) -> RootFolder:
        """Add a folder to the list, rename a listed folder, or restore a removed one.

        *path* may start with `~`, or be relative to the folder in which mcphost was started; it is stored with
        symbolic links resolved. If *name* is None, the name is not changed. *scope* is the scope of the edit (see
        RootScope). *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`).

        Raises UsageError if the folder cannot be read or is already in the list, or if there are too many folders.
        Raises StoreError if the edit cannot be stored, and ConsentDenied if the audit log cannot record it.
        """
        _check_input(path, name or "")
        async with self._lock:
            inspected = await self.inspect_folder(path)
            before = await self.refresh()
            existing = before.find(path) or before.find(inspected.path)
            if len(before.available) >= MAX_ROOTS and (existing is None or existing.state != "there"):
                raise UsageError(f"At most {MAX_ROOTS} folders can be shared.", "Remove one first.")
            event = "added" if existing is None or existing.state == "out" else "named"
            name = name if name is not None else existing.name if existing else ""
            if existing is not None and (existing.state, existing.name, existing.scope) == ("there", name, scope):
                raise UsageError(f"{sanitize(existing.path, keep_newlines=False)} is already in the list.")
            await self._record_edit(event, inspected.path, name, scope, who)
            if existing is not None:
                await self._delete_edit(scope, existing)
            await self._save_edit(scope, FolderEdit(inspected.path, name))
            return (await self.refresh()).find(inspected.path) or inspected

    async def remove(self, path: str, scope: RootScope = "run", *, who: str = "person") -> RootFolder:
        """Remove a folder from the list; from now on, it is not sent, not even in a reply that is being prepared.

        A folder that was removed for this run can be removed again with a wider *scope*. *who* is the source that
        the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError if the folder is not listed.
        Raises StoreError if the removal cannot be stored; it then applies only to this run.
        """
        _check_input(path, "")
        # Before any await, so that a reply that is being prepared does not contain the folder.
        known = self._last_folders.find(path) if self._last_folders else None
        leaving = {known.root} if known is not None and known.state == "there" else set[Root]()
        self._leaving_roots |= leaving
        try:
            async with self._lock:
                existing = (await self.refresh()).find(path)
                if existing is None or (existing.state, existing.scope) == ("out", scope):
                    raise UsageError(
                        f"{sanitize(path, keep_newlines=False)} is not in the list.", "Choose a listed folder."
                    )
                if self._audit is not None:
                    # Queued, because a failing audit log must not prevent the removal.
                    subject = AuditSubject(kind="roots", name=replace_surrogates(existing.path))
                    self._audit.queue_record(self._audit.make_record(subject, "removed", decision=scope, who=who))
                await self._remove_folder(scope, existing)
                return (await self.refresh()).find(path) or replace(existing, state="out", scope="")
        finally:
            self._leaving_roots -= leaving

    async def _remove_folder(self, scope: RootScope, folder: RootFolder) -> None:
        edit = FolderEdit(folder.configured_path or folder.path, folder.name, is_included=False)
        try:
            await self._delete_edit(scope, folder)
            folders = await self._inspect()
            remaining = folders.find(folder.path)
            if remaining is not None and remaining.state != "out":
                await self._save_edit(scope, edit)
        except StoreError:
            self._run_edits[edit.path] = edit
            await self.refresh()
            raise

    async def _record_edit(self, event: str, path: str, name: str, scope: RootScope, who: str) -> None:
        if self._audit is not None:
            detail = {"name": name} if name else None
            subject = AuditSubject(kind="roots", name=replace_surrogates(path))
            await self._audit.record_event(subject, event, decision=scope, who=who, detail=detail)

    # -- stored edits
    async def _layers(self) -> EditLayers:
        layers: EditLayers = (("run", tuple(self._run_edits.values())),)
        if self._stored_folders is None:
            return layers
        project: EditLayers = (
            (("project", await self._stored_folders.list_for_place(self.project)),) if self.project else ()
        )
        return (("user", await self._stored_folders.list_for_place("")), *project, *layers)

    async def _save_edit(self, scope: RootScope, edit: FolderEdit) -> None:
        """Store an edit in its scope and delete edits of the same folder from narrower scopes."""
        if scope == "run" or self._stored_folders is None:
            self._run_edits[edit.path] = edit
            return
        await self._stored_folders.save(self._scope_folder(scope), edit)
        await self._drop_narrower_edits(scope, edit.path)

    async def _delete_edit(self, scope: RootScope, folder: RootFolder) -> None:
        for path in {folder.path, folder.configured_path} - {""}:
            if scope == "run" or self._stored_folders is None:
                self._run_edits.pop(path, None)
            else:
                await self._stored_folders.delete(self._scope_folder(scope), path)
                await self._drop_narrower_edits(scope, path)

    async def _drop_narrower_edits(self, scope: RootScope, path: str) -> None:
        self._run_edits.pop(path, None)
        if scope == "user" and self.project and self._stored_folders is not None:
            await self._stored_folders.delete(self.project, path)

    def _scope_folder(self, scope: RootScope) -> str:
        if scope == "project" and not self.project:
            raise UsageError(
                "The folder that mcphost was started in no longer exists.", 'Use the scope "run" or "user".'
            )
        return self.project if scope == "project" else ""


def _spell_paths(roots: Iterable[RootConfig]) -> frozenset[str]:
    """Return each configured path, both as written and with `~` and `..` resolved."""
    paths = [root.path for root in roots]
    return frozenset((*paths, *(os.path.normpath(os.path.expanduser(path)) for path in paths)))


def folder_info(folder: RootFolder) -> FolderInfo:
    """Convert a folder to the form used in events, with invalid Unicode replaced."""
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
    if not path or "\0" in path or len(path) > MAX_PATH_LENGTH:
        raise UsageError(f"A path has 1 to {MAX_PATH_LENGTH} characters.")
    if len(name) > MAX_NAME_LENGTH or sanitize(name, keep_newlines=False) != name:
        raise UsageError(f"A name has at most {MAX_NAME_LENGTH} visible characters.")


def _inspect_path(path: str) -> RootFolder:
    """Inspect the folder at a path that the user typed. Raises UsageError if it cannot be shared."""
    try:
        expanded = os.path.expanduser(path)
        absolute = expanded if os.path.isabs(expanded) else str(Path.cwd() / expanded)
    except (OSError, RuntimeError) as error:
        raise UsageError("The folder that mcphost was started in no longer exists.", "Use an absolute path.") from error
    folder = inspect_roots([RootConfig(absolute, source="added")]).folders[0]
    if folder.state != "there":
        raise UsageError(f"{sanitize(path, keep_newlines=False)} cannot be shared with servers: {folder.why}.")
    return folder


def parse_root_scope(text: object) -> RootScope:
    """Return *text* as a root scope. Raises UsageError if it is not "run", "project" or "user"."""
    for scope in ROOT_SCOPES:
        if scope == text:
            return scope
    raise UsageError(f'"keep" must be one of {", ".join(ROOT_SCOPES)}.')
