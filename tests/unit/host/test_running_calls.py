"""Tests that running calls are listed with their progress, and that each can be cancelled separately."""

from pathlib import Path

import anyio
import pytest

from mcphost.config.schema import Limits
from mcphost.host.events import ToolFinished, ToolProgress, ToolProposed, ToolStarted
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowOnce, ApproveTool
from mcphost.host.servers.running_calls import CANCELLED_TEXT, RunningCallCancelled
from mcphost.host.tools.tool_outcome import UNSENT_TEXT
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_returns, tool_round
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import open_host_with
from tests.unit.host.slow_server import SlowServer

pytestmark = pytest.mark.anyio


async def cancel_slow_call(host: Host, server: SlowServer) -> None:
    with anyio.fail_after(10):
        await server.called.wait()
    (call,) = (running.call for running in host.running_calls.list() if running.tool == "slow")
    assert host.running_calls.cancel(call)


async def test_a_running_call_is_listed_with_its_latest_progress_until_it_ends(tmp_path: Path) -> None:
    server = SlowServer()
    async with open_host_with(tmp_path, server) as host, anyio.create_task_group() as tasks:
        feed = host.events.subscribe()
        tasks.start_soon(host.tools.call, "peer", "slow", {})
        with anyio.fail_after(10):
            await server.called.wait()
        (call,) = host.running_calls.list()
        assert (call.server, call.tool, call.by, call.progress) == ("peer", "slow", "user", None)
        server.report(3, 14, "issue 3")
        await wait_for_event(feed, ToolProgress)
        progress = host.running_calls.list()[0].progress
        assert progress is not None
        assert (progress.progress, progress.total, progress.message) == (3, 14, "issue 3")
        server.finish("done")
        await wait_for_event(feed, ToolFinished)
        assert not host.running_calls.list()


async def test_a_cancelled_call_of_the_model_stops_alone_and_the_turn_continues(tmp_path: Path) -> None:
    server = SlowServer()
    model = ScriptedModel(tool_round(("peer__slow", {}), ("peer__quick", {})), text_round("ok"))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    log = create_audit_log(tmp_path)
    async with open_host_with(tmp_path, server, model, frontend, audit_log=log) as host:
        feed = host.events.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_slow_call, host, server)
            result = await host.conversation.send("go")
        assert (result.outcome, result.text) == ("done", "ok")
        slow, quick = tool_returns(model)
        assert (slow.text, slow.outcome) == (CANCELLED_TEXT, "stopped")
        assert quick.text == "quick"
        ended = {event.tool: event.outcome for event in feed.drain() if isinstance(event, ToolFinished)}
        assert ended == {"slow": "stopped", "quick": "ok"}
        rows = await read_rows(log, "tool")
        assert [row.decision for row in rows if row.event == "ended" and row.subject == "slow"] == ["stopped"]
    assert "notifications/cancelled" in dict(server.seen)


async def test_a_call_that_waits_for_its_turn_ends_if_the_user_stops_the_answer(tmp_path: Path) -> None:
    server = SlowServer()
    model = ScriptedModel(tool_round(("peer__slow", {}), ("peer__quick", {})))
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with open_host_with(tmp_path, server, model, frontend, limits=Limits(parallel_calls=1)) as host:
        feed = host.events.subscribe()

        async def stop() -> None:
            await server.called.wait()
            await anyio.wait_all_tasks_blocked()
            assert host.conversation.stop()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
                await host.conversation.send("go")
        events = feed.drain()
    assert [event.tool for event in events if isinstance(event, ToolStarted)] == ["slow"]
    ended = sorted((event.tool, event.outcome, event.text) for event in events if isinstance(event, ToolFinished))
    assert ended == [("quick", "stopped", UNSENT_TEXT), ("slow", "stopped", "Stopped; the server was notified.")]


async def test_a_cancelled_call_by_hand_tells_that_the_user_cancelled_it(tmp_path: Path) -> None:
    server = SlowServer()
    async with open_host_with(tmp_path, server) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_slow_call, host, server)
        with pytest.raises(RunningCallCancelled, match="You cancelled the call"):
            await host.tools.call("peer", "slow", {})
        assert not host.running_calls.list()


async def test_a_call_that_has_ended_cannot_be_cancelled(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, SlowServer()) as host:
        await host.tools.call("peer", "quick", {})
        assert not host.running_calls.cancel("hand-1")


async def test_calls_of_one_answer_are_listed_in_its_order_whichever_is_allowed_first(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__slow", {"n": 1}), ("peer__slow", {"n": 2})))

    async def allow_second_first(question: ApproveTool) -> AllowOnce:
        if question.arguments == {"n": 1}:
            await wait_for_event(feed, ToolStarted)
        return AllowOnce()

    frontend = ScriptedFrontend(allow_second_first, allow_second_first)
    async with open_host_with(tmp_path, SlowServer(), model, frontend) as host, anyio.create_task_group() as tasks:
        feed, calls = host.events.subscribe(), host.events.subscribe()
        tasks.start_soon(host.conversation.send, "go")
        seen: list[str] = []
        with anyio.fail_after(10):
            async for event in calls:  # one loop, because a second one would miss events that the first has taken
                if isinstance(event, ToolProposed | ToolStarted):
                    seen.append(event.call)
                if len(seen) == 4:
                    break
        first, second, *started = seen
        assert started == [second, first]
        assert [one.call for one in host.running_calls.list()] == [first, second]
        tasks.cancel_scope.cancel()
