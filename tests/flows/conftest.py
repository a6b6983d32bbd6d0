"""Fixtures for tests with a real Host, a store on disk and server processes; only the model and user are scripted."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.server_session_opener import LazySessionOpener
from mcphost.config.schema import HostConfig, Limits, ModelConfig, ServerConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.bootstrap import build_host
from mcphost.host.event_bus import EventQueue
from mcphost.host.events import HostEvent
from mcphost.host.host import Host
from mcphost.host.questions.sign_in import OpenUrl
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel

DEMO = ServerConfig(name="demo", command=sys.executable, args=("-m", "mcphost.demo.server"), source="flag")
OpenHost = Callable[..., AbstractAsyncContextManager[Host]]


def inline_server(name: str, code: str, **more: object) -> ServerConfig:
    """Return a server that runs the Python source *code*; *more* adds to its configuration."""
    return ServerConfig(name=name, command=sys.executable, args=("-c", code), source="flag", **more)  # type: ignore[arg-type]


@pytest.fixture
def open_host(tmp_path: Path) -> OpenHost:
    """Return `open_host(model, frontend, servers=…, limits=…, …)`; hosts opened in one test share the store."""

    @asynccontextmanager
    async def opened(
        model: ScriptedModel | None = None,
        frontend: ScriptedFrontend | None = None,
        *,
        servers: tuple[ServerConfig, ...] = (DEMO,),
        limits: Limits | None = None,
        audit_log: AuditLog | None = None,
        open_url: OpenUrl | None = None,
        **more: Any,
    ) -> AsyncIterator[Host]:
        limits = limits or Limits()
        model_config = ModelConfig(name="scripted" if model else "")
        config = HostConfig(servers=servers, model=model_config, limits=limits, **more)
        database = Database(tmp_path / "store.db")
        opener = LazySessionOpener(limits, GrantStore(database))
        host = build_host(
            config,
            store=database,
            opener=opener,
            model_factory=lambda _: model or ScriptedModel(),
            frontend=frontend or ScriptedFrontend(),
            open_url=open_url,
            audit=audit_log,
        )
        try:
            async with host:
                yield host
        finally:  # also after a failure, or the watchdog that is left fails a later test
            await opener.close()
            await database.close()

    return opened


async def read_events(feed: EventQueue, is_last: Callable[[HostEvent], bool]) -> list[HostEvent]:
    """Return all events up to and including the first one for which *is_last* returns True."""
    events: list[HostEvent] = []
    async for event in feed:
        events.append(event)
        if is_last(event):
            break
    return events
