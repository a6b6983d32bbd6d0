"""Tests for the number of thread switches that starting a server needs, because each one delays all other servers."""

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.cli.server_session_opener import LazySessionOpener
from mcphost.config.schema import HostConfig, ServerConfig
from mcphost.host.bootstrap import build_host
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.unit.client.stdio_sessions import FAULTY_SERVER

pytestmark = pytest.mark.anyio


async def test_a_server_is_ready_before_its_tools_are_written_down_and_left_tasks_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ServerConfig(name="peer", command=sys.executable, args=(FAULTY_SERVER, "", ""), source="flag")
    database = Database(tmp_path / "store.db")
    opener = LazySessionOpener(HostConfig().limits, GrantStore(database))
    works: Counter[str] = Counter()
    run = Database.run

    async def counted(self: Database, work: Any, *more: Any) -> Any:
        works[work.__qualname__.partition(".<locals>")[0]] += 1
        return await run(self, work, *more)

    host = build_host(
        HostConfig(servers=(entry,)),
        store=database,
        opener=opener,
        model_factory=lambda _: ScriptedModel(),
        frontend=ScriptedFrontend(),
    )
    with anyio.fail_after(60):
        async with host:
            monkeypatch.setattr(Database, "run", counted)
            assert (await host.servers.ensure_ready(entry.name)).catalog.tools
            before = Counter(works)
        await opener.close()
        await database.close()
    assert before["ToolFingerprintStore.load_all"] == 1
    assert before["ToolFingerprintStore.save"] == 0
    assert before["TaskStore.claim"] == 0
    assert works["ToolFingerprintStore.save"] == 1, "when the connection ends at the latest"
    assert before.total() <= 6, before
