"""A real Host whose only server is scripted, at the other end of a pipe inside this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphost.client.connect import SessionOpener
from mcphost.config.schema import HostConfig, Limits, ModelConfig, ServerConfig
from mcphost.host.host import Host
from mcphost.store.database import Database
from mcphost.transport.channel import Dialer
from mcphost.transport.task_group import Tasks
from tests.fakes.front import ScriptedFront
from tests.fakes.model import ScriptedModel
from tests.unit.client.peer import Peer


class Peered(SessionOpener):
    """The product's opener; each connection gets the next peer."""

    def __init__(self, peers: tuple[Peer, ...], tasks: Tasks) -> None:
        super().__init__(expand=str, limits=Limits(request_timeout=5, connect_timeout=5))
        self._peers = list(peers)
        self._tasks = tasks

    def _dialer(self, server: ServerConfig, observer: Any) -> Dialer:
        peer = self._peers.pop(0)
        self._tasks.start_soon(peer.serve)
        return peer.pipe


@asynccontextmanager
async def hosting(
    folder: Path, *peers: Peer, url: str = "", model: ScriptedModel | None = None, **config: Any
) -> AsyncIterator[Host]:
    """A host that is entered; its server `peer` is not started. `config` is more of its configuration.

    With `url` the server is not one of `peers` but somebody who listens there.
    """
    database = Database(folder / "store.db")
    server = ServerConfig(name="peer", command="" if url else "peer", url=url, source="flag", **config)
    async with Tasks() as tasks:
        host = Host(
            HostConfig(servers=(server,), model=ModelConfig(name="scripted" if model else "")),
            store=database,
            opener=SessionOpener(expand=str) if url else Peered(peers, tasks),
            models=lambda _: model or ScriptedModel(),
            front=ScriptedFront(),
        )
        async with host:
            with anyio.fail_after(20):
                yield host
    await database.close()
