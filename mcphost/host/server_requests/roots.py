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
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.events import FolderShown, HostEvent, RootsChanged
from mcphost.host.server_requests.path_completion import suggestions
from mcphost.host.server_requests.root_list import KEEPS, Folder, Folders, Keep, Layers, look, started_in
from mcphost.protocol.completion import Completion
from mcphost.protocol.server_requests import Root, RootsReply
from mcphost.sanitize import visible, whole
from mcphost.serialization import replace
from mcphost.store.roots import FolderEdit, StoredFolders


class _SharedLook:
    """A look at the list for all who wait for it, and what it found."""

    def __init__(self) -> None:
        self.found: Folders | None = None
        """None when it failed, or was cancelled."""
        self.over = anyio.Event()


class Roots:
    """The user's roots of this run. Edits of another mcphost that are kept show at the next look."""

    def __init__(
        self,
        named: tuple[RootConfig, ...],
        stored: StoredFolders | None = None,
        journal: Journal | None = None,
        *,
        put: Callable[[HostEvent], None] = lambda event: None,
    ) -> None:
        """`named` is what the configuration names; without `stored` every edit ends with the run."""
        self.version = 0
        """Grows with every change of what servers may be told."""

        self.project = next((one.path for one in started_in()), "")
        """The folder that "project" means in `keep`; empty when there is none."""

        self._named = named
        self._stored = stored
        self._journal = journal
        self.put = put
        self._run: dict[str, FolderEdit] = {}
        self._last: Folders | None = None
        self._looks = itertools.count()
        self._newest = 0
        self._leaving: set[Root] = set()
        self._moved = anyio.Event()
        self._one_at_a_time = anyio.Lock()
        self._next: _SharedLook | None = None

    # -- looking
    async def now(self) -> Folders:
        """The list, each folder looked at, on a thread: a file system may hang. Raises StoreError."""
        number = next(self._looks)
        found = await self._look()
        if self._last is not None and number < self._newest:
            return self._last  # whoever began later saw what was changed since
        before, self._last, self._newest = self._last, found, number
        if before is not None and before != found:
            if before.there != found.there:
                self.version += 1
                self.poke()
            self.put(RootsChanged(tuple(shown(one) for one in found.all)))
        return found

    async def _look(self) -> Folders:
        """Look once for all who come in one turn of the event loop, as servers that start together do.

        Raises StoreError.
        """
        joined = self._next
        if joined is not None:
            await joined.over.wait()
            return await self._look_alone() if joined.found is None else joined.found
        shared = self._next = _SharedLook()
        try:
            await anyio.lowlevel.checkpoint()
            self._next = None  # who comes from now on may know of a change that this look misses
            shared.found = await self._look_alone()
            return shared.found
        finally:
            if self._next is shared:
                self._next = None
            shared.over.set()

    async def _look_alone(self) -> Folders:
        layers = await self._layers()
        return await anyio.to_thread.run_sync(look, self._named, layers, abandon_on_cancel=True)

    async def seen(self, path: str) -> Folder:
        """That folder as it would be added. Raises UsageError for what is none that can be read."""
        _check(path, "")
        return await anyio.to_thread.run_sync(_real, path, abandon_on_cancel=True)

    async def suggest(self, typed: str) -> Completion:
        """Folders whose path begins so."""
        return await anyio.to_thread.run_sync(suggestions, typed, abandon_on_cancel=True)

    def still(self, reply: RootsReply) -> RootsReply:
        """What of it a server may be told at this very moment; returns at once."""
        known = set(self._last.there if self._last else ()) - self._leaving
        return RootsReply(tuple(root for root in reply.roots if root in known))

    def poke(self) -> None:
        """Wake whoever waits in `moved`."""
        self._moved.set()
        self._moved = anyio.Event()

    async def moved(self) -> None:
        """Wait for the next change of the list, or of what a server was told of it."""
        await self._moved.wait()

    # -- editing, by the user only
    async def add(self, path: str, name: str | None = None, keep: Keep = "run") -> Folder:
        """Let servers be told of it from now on; a folder of the list gets that name, or is put back. None is
        the name it has.

        `~` and paths relative to where mcphost was started are understood; what is kept is the real folder. Raises
        UsageError for what is no readable folder, StoreError, Declined.
        """
        _check(path, name or "")
        async with self._one_at_a_time:
            seen = await self.seen(path)
            before = await self.now()
            old = before.find(path) or before.find(seen.path)
            if len(before.told) >= ROOTS_LIMIT and (old is None or old.state != "there"):
                raise UsageError(f"At most {ROOTS_LIMIT} folders are told.", "Take one out first.")
            event = "added" if old is None or old.state == "out" else "named"
            name = name if name is not None else old.name if old else ""
            if old is not None and (old.state, old.name, old.keep) == ("there", name, keep):
                raise UsageError(f"{visible(old.path, keep_newlines=False)} is in the list already.")
            await self._noted(event, seen.path, name, keep)
            if old is not None:
                await self._forget(keep, old)
            await self._keep(keep, FolderEdit(seen.path, name))
            return (await self.now()).find(seen.path) or seen

    async def remove(self, path: str, keep: Keep = "run") -> Folder:
        """Servers are not told of it any more, from this moment on; what was taken out may be so for longer.

        Raises UsageError when it is not in the list, StoreError when it could not be kept: then it holds for this run.
        """
        _check(path, "")
        # Before anything is waited for: an answer that is on its way must not hold it any more.
        known = self._last.find(path) if self._last else None
        leaving = {known.root} if known is not None and known.state == "there" else set[Root]()
        self._leaving |= leaving
        try:
            async with self._one_at_a_time:
                old = (await self.now()).find(path)
                if old is None or (old.state, old.keep) == ("out", keep):
                    raise UsageError(
                        f"{visible(path, keep_newlines=False)} is not among the folders.", "See the list for what is."
                    )
                if self._journal is not None:
                    # Soon is enough: nobody can be kept from telling less, whatever becomes of the ledger.
                    act = Act(kind="roots", subject=whole(old.path))
                    self._journal.later(self._journal.record(act, "removed", decision=keep, who="person"))
                await self._take_out(keep, old)
                return (await self.now()).find(path) or replace(old, state="out", keep="")
        finally:
            self._leaving -= leaving

    async def _take_out(self, keep: Keep, old: Folder) -> None:
        edit = FolderEdit(old.written or old.path, old.name, told=False)
        try:
            await self._forget(keep, old)
            rest = await self._look_alone()
            left = rest.find(old.path)
            if left is not None and left.state != "out":
                await self._keep(keep, edit)
        except StoreError:
            self._run[edit.path] = edit
            await self.now()
            raise

    async def _noted(self, event: str, path: str, name: str, keep: Keep) -> None:
        if self._journal is not None:
            detail = {"name": name} if name else None
            act = Act(kind="roots", subject=whole(path))
            await self._journal.noted(act, event, decision=keep, who="person", detail=detail)

    # -- what holds
    async def _layers(self) -> Layers:
        layers: Layers = (("run", tuple(self._run.values())),)
        if self._stored is None:
            return layers
        project: Layers = (("project", await self._stored.of(self.project)),) if self.project else ()
        return (("user", await self._stored.of("")), *project, *layers)

    async def _keep(self, keep: Keep, edit: FolderEdit) -> None:
        """Write it, and let nothing narrower say otherwise."""
        if keep == "run" or self._stored is None:
            self._run[edit.path] = edit
            return
        await self._stored.keep(self._place(keep), edit)
        await self._narrower(keep, edit.path)

    async def _forget(self, keep: Keep, folder: Folder) -> None:
        for path in {folder.path, folder.written} - {""}:
            if keep == "run" or self._stored is None:
                self._run.pop(path, None)
            else:
                await self._stored.forget(self._place(keep), path)
                await self._narrower(keep, path)

    async def _narrower(self, keep: Keep, path: str) -> None:
        self._run.pop(path, None)
        if keep == "user" and self.project and self._stored is not None:
            await self._stored.forget(self.project, path)

    def _place(self, keep: Keep) -> str:
        if keep == "project" and not self.project:
            raise UsageError("The folder that mcphost was started in is gone.", "Keep it for this run, or everywhere.")
        return self.project if keep == "project" else ""


def shown(folder: Folder) -> FolderShown:
    """As an event tells it; text that cannot be sent as such is marked."""
    return FolderShown(
        path=whole(folder.path), name=whole(folder.name), uri=folder.root.uri if folder.state == "there" else "",
        source=folder.source, file=whole(folder.file), keep=folder.keep, state=folder.state, why=folder.why,
        warning=folder.warning,
    )  # fmt: skip


def _check(path: str, name: str) -> None:
    if not path or "\0" in path or len(path) > PATH_LIMIT:
        raise UsageError(f"A path has from 1 to {PATH_LIMIT} characters.")
    if len(name) > NAME_LIMIT or visible(name, keep_newlines=False) != name:
        raise UsageError(f"A name has at most {NAME_LIMIT} characters, all of them visible.")


def _real(path: str) -> Folder:
    """The folder as it really is. Raises UsageError."""
    try:
        at_home = os.path.expanduser(path)
        absolute = at_home if os.path.isabs(at_home) else str(Path.cwd() / at_home)
    except (OSError, RuntimeError) as error:
        raise UsageError("The folder that mcphost was started in is gone.", "Write the whole path.") from error
    seen = look([RootConfig(absolute, source="added")]).all[0]
    if seen.state != "there":
        raise UsageError(f"{visible(path, keep_newlines=False)} cannot be told to servers: {seen.why}.")
    return seen


def keep_of(text: object) -> Keep:
    """One of KEEPS. Raises UsageError."""
    for keep in KEEPS:
        if keep == text:
            return keep
    raise UsageError(f'"keep" is one of {", ".join(KEEPS)}.')
