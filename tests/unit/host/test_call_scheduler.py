"""Tests for the scheduler of the model's tool calls: the end of one call never affects another."""

import anyio
import pytest

from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lifetime
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.call_scheduler import CallScheduler
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import ToolUsePart

pytestmark = pytest.mark.anyio
USE = ToolUsePart("same", "s__t", {}, "{}")


async def test_the_end_of_a_call_does_not_disturb_another_with_the_same_id() -> None:
    has_ended, texts = anyio.Event(), list[str]()
    async with Lifetime() as lifetime:
        scheduler = CallScheduler(lifetime, EventBus(), RunningCalls(), 2)

        async def call(text: str) -> ToolCallOutcome:
            if text == "second":
                await has_ended.wait()
            async with scheduler.slot("s", "t"):
                return ToolCallOutcome(make_tool_return(USE, "s", "t", text, outcome="ok"))

        async def run(text: str) -> None:
            outcome = await scheduler.run(USE, "c", lambda: call(text))
            texts.append(outcome.part.text)
            has_ended.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, "second")
                tasks.start_soon(run, "first")
    assert texts == ["first", "second"]
