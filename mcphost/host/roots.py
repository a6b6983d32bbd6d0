"""Roots: the folders the user lets servers know of, checked before each exposure, shared server by server.

Specification: client/roots. A root says where the user works; it confines nobody.
"""

import os
from pathlib import Path
from urllib.parse import quote

import anyio
import anyio.to_thread

from mcphost.config.schema import RootConfig
from mcphost.data import Data
from mcphost.host.front import Front
from mcphost.host.questions import DoNotShare, ShareRoots, ShareSession
from mcphost.protocol.asks import AskDeclined, Root, RootsReply

MAX_ROOTS = 100


def started_in() -> tuple[RootConfig, ...]:
    """The folder the program was started in, by its name; none when it is gone."""
    try:
        here = Path.cwd()
    except OSError:
        return ()
    return (RootConfig(str(here), here.name),)


class Folders(Data, frozen=True):
    """The roots as they are now: those that can be read, and the configured paths of those that cannot."""

    there: tuple[Root, ...]
    gone: tuple[str, ...] = ()


class Roots:
    """The user's roots of this run. Changed only by the user; every change is told to whoever listens."""

    def __init__(self, configured: tuple[RootConfig, ...]) -> None:
        self._configured = configured
        self._changed = anyio.Event()

    @property
    def configured(self) -> tuple[RootConfig, ...]:
        """What was configured or set, whether it is there or not."""
        return self._configured

    def set(self, roots: tuple[RootConfig, ...]) -> None:
        """Use these from now on; servers of the handshake era are told that they changed."""
        if roots != self._configured:
            self._configured = roots[:MAX_ROOTS]
            self._changed.set()
            self._changed = anyio.Event()

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    async def now(self) -> Folders:
        """Look at the folders, on a thread: a file system may hang."""
        return await anyio.to_thread.run_sync(_look, self._configured, abandon_on_cancel=True)


def _look(configured: tuple[RootConfig, ...]) -> Folders:
    there: dict[str, Root] = {}
    gone: list[str] = []
    for one in configured:
        try:
            # Resolved first, so that what is shown and shared is the real folder and not a link to somewhere else.
            path = Path(one.path).expanduser().resolve(strict=True)
            readable = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
        except (OSError, RuntimeError, ValueError):
            readable, path = False, Path()
        if not readable:
            gone.append(one.path)
            continue
        uri = file_uri(path)
        there.setdefault(uri, Root(uri, one.name or None))
    return Folders(tuple(there.values()), tuple(gone))


def file_uri(path: Path) -> str:
    """The absolute path as a file: URI; every byte that is not plain is percent-encoded."""
    return "file://" + quote(os.fsencode(path), safe="/-._~")


class Sharing:
    """Answers roots/list of one server; it hears of a folder only after the user agreed to show it that one."""

    def __init__(self, server: str, roots: Roots, front: Front) -> None:
        self._server = server
        self._roots = roots
        self._front = front
        self._shared: tuple[Root, ...] | None = None
        self._one_at_a_time = anyio.Lock()

    async def answer(self, why: str) -> RootsReply | AskDeclined:
        """The roots, or the refusal of the user."""
        async with self._one_at_a_time:
            folders = await self._roots.now()
            if not folders.there or folders.there == self._shared:
                return RootsReply(folders.there)
            verdict = await self._front.ask(
                ShareRoots(server=self._server, why=why, roots=folders.there, gone=folders.gone)
            )
            if isinstance(verdict, DoNotShare):
                return AskDeclined("The user does not share folders with this server.")
            if isinstance(verdict, ShareSession):
                self._shared = folders.there
            return RootsReply(folders.there)
