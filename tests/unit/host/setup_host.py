"""A host that can set up models and servers, with a home of its own."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mcphost.auth.keyring_backend import MemoryBackend
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import HostConfig, Limits
from mcphost.host.bootstrap import SetupParts, build_host
from mcphost.host.host import Host
from mcphost.host.setup import Setup
from mcphost.paths import SetupPlaces
from mcphost.store.database import Database
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel

DEMO_ENTRY = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}


@asynccontextmanager
async def open_setup(
    home: Path,
    environ: dict[str, str] | None = None,
    backend: MemoryBackend | None = None,
    frontend: ScriptedFrontend | None = None,
) -> AsyncIterator[tuple[Host, Setup]]:
    """Open a host without models and servers; model servers and Anthropic are looked for at closed ports only."""
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    config_dir, state_dir = home / "config", home / "state"
    closed = {"OLLAMA_HOST": "127.0.0.1:9", "ANTHROPIC_API_BASE": "http://127.0.0.1:9"}
    places = SetupPlaces(config_dir, state_dir, home, folder, {**closed, **(environ or {})})
    database = Database(home / "store.db")
    limits = Limits()
    host = build_host(
        HostConfig(limits=limits),
        store=database,
        opener=ClientSessionOpener(expand=str, limits=limits),
        model_factory=lambda _: ScriptedModel(),
        frontend=frontend or ScriptedFrontend(),
        setup=SetupParts(places, backend or MemoryBackend()),
    )
    async with host:
        assert host.setup is not None
        yield host, host.setup
    await database.close()
