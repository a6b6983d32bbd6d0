"""Tests for the scheduler of the model's tool calls: the end of one call never affects another."""

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.schema import HostConfig, Limits
from mcphost.host.active_conversation import CallContext, Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy, Lifetime
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.call_scheduler import CallScheduler
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import ToolUsePart
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database

pytestmark = pytest.mark.anyio
USE = ToolUsePart("same", "s__t", {}, "{}")


def make_context() -> CallContext:
    conversation = Conversation(Lazy(lambda: ConversationStore(Database(None))), lambda error: None)
    return CallContext(conversation, ())


async def test_the_end_of_a_call_does_not_disturb_another_with_the_same_id() -> None:
    has_ended, texts = anyio.Event(), list[str]()
    async with Lifetime() as lifetime:
        scheduler = CallScheduler(lifetime, EventBus(), RunningCalls(), RuntimeSettings(HostConfig()))

        async def call(text: str) -> ToolCallOutcome:
            if text == "second":
                await has_ended.wait()
            async with scheduler.slot():
                return ToolCallOutcome(make_tool_return(USE, "s", "t", text, outcome="ok"))

        async def run(text: str) -> None:
            await scheduler.run(USE, make_context(), lambda: call(text))
            texts.append(scheduler.pop_outcome(USE).part.text)
            has_ended.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, "second")
                tasks.start_soon(run, "first")
    assert texts == ["first", "second"]


async def test_a_lower_number_of_parallel_calls_holds_from_the_next_call() -> None:
    settings = RuntimeSettings(HostConfig())
    running, most = 0, 0
    async with Lifetime() as lifetime:
        scheduler = CallScheduler(lifetime, EventBus(), RunningCalls(), settings)
        settings.use(HostConfig(limits=Limits(parallel_calls=1)))

        async def call() -> ToolCallOutcome:
            nonlocal running, most
            async with scheduler.slot():
                running += 1
                most = max(most, running)
                await anyio.lowlevel.checkpoint()
                running -= 1
            return ToolCallOutcome(make_tool_return(USE, "s", "t", "", outcome="ok"))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(scheduler.run, USE, make_context(), call)
    assert most == 1


@pytest.mark.parametrize(("has_slot", "text"), [(True, "The tool may have run"), (False, "The tool did not run")])
async def test_the_model_learns_whether_a_tool_may_have_run_if_its_call_fails_in_mcphost(
    has_slot: bool, text: str
) -> None:
    async with Lifetime() as lifetime:
        scheduler = CallScheduler(lifetime, EventBus(), RunningCalls(), RuntimeSettings(HostConfig()))

        async def call() -> ToolCallOutcome:
            scheduler.describe_call("s", "t")
            if has_slot:
                async with scheduler.slot():
                    raise ZeroDivisionError
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await scheduler.run(USE, make_context(), call)
        result = scheduler.pop_outcome(USE).part
    assert (result.outcome, result.is_unsent) == ("failed", not has_slot)
    assert text in result.text
