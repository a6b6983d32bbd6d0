"""A real Host whose only server is scripted, at the other end of a pipe inside this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import HostConfig, Limits, ModelConfig, ServerConfig
from mcphost.host.bootstrap import build_host
from mcphost.host.host import Host
from mcphost.store.database import Database
from mcphost.transport.channel import Connector
from mcphost.transport.task_group import CancellingTaskGroup
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.unit.client.scripted_server import ScriptedServer


class PeerSequenceOpener(ClientSessionOpener):
    """The product's opener; each connection gets the next peer."""

    def __init__(self, peers: tuple[ScriptedServer, ...], tasks: CancellingTaskGroup) -> None:
        super().__init__(expand=str, limits=Limits(request_timeout=5, connect_timeout=5))
        self._peers = list(peers)
        self._tasks = tasks

    def _create_connector(self, server: ServerConfig, observer: Any) -> Connector:
        peer = self._peers.pop(0)
        self._tasks.start_soon(peer.serve)
        return peer.pipe


@asynccontextmanager
async def open_peer_host(
    folder: Path, *peers: ScriptedServer, url: str = "", model: ScriptedModel | None = None, **config: Any
) -> AsyncIterator[Host]:
    """A host that is entered; its server `peer` is not started. `config` is more of its configuration.

    With `url` the server is not one of `peers` but somebody who listens there.
    """
    database = Database(folder / "store.db")
    server = ServerConfig(name="peer", command="" if url else "peer", url=url, source="flag", **config)
    async with CancellingTaskGroup() as tasks:
        host = build_host(
            HostConfig(servers=(server,), model=ModelConfig(name="scripted" if model else "")),
            store=database,
            opener=ClientSessionOpener(expand=str) if url else PeerSequenceOpener(peers, tasks),
            model_factory=lambda _: model or ScriptedModel(),
            frontend=ScriptedFrontend(),
        )
        async with host:
            with anyio.fail_after(20):
                yield host
    await database.close()
