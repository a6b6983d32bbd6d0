"""Tests for tool calls whose real server is restarted before or while they run."""

from pathlib import Path

import anyio
import pytest

from mcphost.errors import ConnectionLost
from mcphost.host.events import ToolFinished, ToolProgress, ToolStarted
from mcphost.host.questions.questions import AllowOnce
from mcphost.serialization import replace
from tests.event_loop import wait_until
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost
from tests.unit.client.stdio_sessions import faulty_server_config

pytestmark = pytest.mark.anyio


async def test_a_call_ended_by_a_save_of_a_watched_file_names_the_file(open_host: OpenHost, tmp_path: Path) -> None:
    source = tmp_path / "dev.py"
    source.write_text("one")
    server = replace(
        faulty_server_config("lists silent", source="flag"), watched_files=("*.py",), watched_folder=str(tmp_path)
    )
    async with open_host(servers=(server,)) as host, anyio.create_task_group() as tasks:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()

        async def save_during_the_call() -> None:
            await wait_until(lambda: any(isinstance(event, ToolStarted) for event in feed.drain()))
            source.write_text("changed")

        tasks.start_soon(save_during_the_call)
        with anyio.fail_after(20), pytest.raises(ConnectionLost) as exc_info:
            await host.tools.call("peer", "silent", {})
        assert exc_info.value.message == "mcphost restarted the server 'peer', because dev.py changed."


async def test_a_call_allowed_while_its_server_restarts_says_that_it_waits_for_it(open_host: OpenHost) -> None:
    model = ScriptedModel(tool_round(("peer__echo", {"text": "a"})), text_round("ok"))

    def restart_and_allow(question: object) -> AllowOnce:
        host.servers.find("peer").restart()
        return AllowOnce()

    servers = (faulty_server_config(source="flag"),)
    async with open_host(model, ScriptedFrontend(restart_and_allow), servers=servers) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        with anyio.fail_after(20):
            await host.conversation.send("go")
        seen = [event for event in feed.drain() if isinstance(event, ToolProgress | ToolStarted | ToolFinished)]
        assert isinstance(seen[0], ToolProgress)
        assert seen[0].message == "Waiting until the server is ready."
        assert [type(event) for event in seen[-2:]] == [ToolStarted, ToolFinished]
