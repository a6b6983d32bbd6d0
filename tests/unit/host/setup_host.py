"""A host that can set up models and servers, with its own home folder."""

import json
import sys
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphost.auth.session_secrets import SessionSecrets
from mcphost.client.connect import ClientSessionOpener
from mcphost.config.loader import LOCAL_FILE, SERVERS_FILE, SETTINGS_FILE, ConfigSources, load_config
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.config.settings import Overrides
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.bootstrap import SetupParts, build_host
from mcphost.host.config_change_detector import ConfigChangeDetector
from mcphost.host.config_changes import ConfigChanges
from mcphost.host.host import Host
from mcphost.host.setup import Setup
from mcphost.llm import local_servers
from mcphost.paths import SetupPlaces
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.memory_backend import MemoryBackend
from tests.fakes.model import ScriptedModel

DEMO_ENTRY = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}


def write_servers(home: Path, **entries: dict[str, Any]) -> None:
    """Write the user's mcp.json of the program whose home is *home*."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / SERVERS_FILE).write_text(json.dumps({"mcpServers": entries}))


def write_settings(home: Path, text: str) -> None:
    """Write the user's config.toml of the program whose home is *home*."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / SETTINGS_FILE).write_text(text)


def config_change_detector(host: Host) -> ConfigChangeDetector:
    """Return the detector of a host that has configuration files."""
    assert host.config_change_detector is not None
    return host.config_change_detector


async def apply_settings(home: Path, host: Host, text: str) -> ConfigChanges:
    """Write the user's config.toml, and apply and return the changes, as after their review."""
    write_settings(home, text)
    changes = await config_change_detector(host).check()
    config_change_detector(host).apply(changes)
    return changes


@asynccontextmanager
async def open_setup(
    home: Path,
    environ: dict[str, str] | None = None,
    backend: MemoryBackend | None = None,
    frontend: ScriptedFrontend | None = None,
    model_factory: Callable[[ModelConfig], ScriptedModel] = lambda _: ScriptedModel(),
    audit_log: AuditLog | None = None,
    results: ResultStore | None = None,
    named_files: Sequence[str] = (),
    probe_seconds: float = 30,
) -> AsyncIterator[tuple[Host, Setup]]:
    """Open a host with the configuration in *home*; the default addresses of Ollama and Anthropic are closed ports.

    A model server that a test starts may take up to *probe_seconds* to answer the first search; patched by the test
    itself, the limit would be restored to the patch of this function. *named_files* are those of `--mcp-config`.
    """
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    config_dir, state_dir = home / "config", home / "state"
    closed = {"OLLAMA_HOST": "127.0.0.1:9", "ANTHROPIC_API_BASE": "http://127.0.0.1:9"}
    variables = ChainMap({} if environ is None else environ, closed)
    places = SetupPlaces(config_dir, state_dir, home, folder, variables, home / "data", home / "cache")
    database = Database(home / "store.db")

    async def load(profile: str | None) -> HostConfig:
        return load_config(config_dir, files=named_files, overrides=Overrides(profile=profile))

    files = tuple(map(Path, named_files)) or (config_dir / SERVERS_FILE, config_dir / LOCAL_FILE)
    config = await load(None)
    limits = config.limits
    host = build_host(
        config,
        store=database,
        opener=ClientSessionOpener(limits=limits),
        model_factory=model_factory,
        frontend=frontend or ScriptedFrontend(),
        audit=audit_log,
        results=results,
        setup=SetupParts(
            places,
            SessionSecrets(lambda: backend or MemoryBackend()),
            ConfigSources(load, (config_dir / SETTINGS_FILE, *files)),
        ),
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local_servers, "PROBE_SECONDS", probe_seconds)
            async with host:
                assert host.setup is not None
                yield host, host.setup
    finally:
        await database.close()
