"""Tests for the scheduler of the model's tool calls: the end of one call never affects another."""

from contextlib import nullcontext
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.schema import HostConfig, Limits
from mcphost.host.active_conversation import CallContext
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy, Lifetime
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.call_scheduler import CallRound, CallScheduler, mark_result_received
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

        calls = CallRound((USE, USE))

        async def run(text: str) -> None:
            place = ("first", "second").index(text)
            await scheduler.run(calls, place, make_context(), lambda: call(text))
            texts.append(calls.list_outcomes()[place].part.text)
            has_ended.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, "second")
                tasks.start_soon(run, "first")
    assert texts == ["first", "second"]
    assert [outcome.part.text for outcome in calls.list_outcomes()] == ["first", "second"]


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
            for place in range(4):
                tasks.start_soon(scheduler.run, CallRound((USE,) * 4), place, make_context(), call)
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

        calls = CallRound((USE,))
        with pytest.raises(ZeroDivisionError):
            await scheduler.run(calls, 0, make_context(), call)
        result = calls.list_outcomes()[0].part
    assert (result.outcome, result.is_unsent) == ("failed", not has_slot)
    assert text in result.text


async def stop_all(*, by_error: bool) -> list[str]:
    """Stop calls in each state, by the end of their turn or an error of the first; return what the model is told."""
    waiting = 0
    async with Lifetime() as lifetime:
        settings = RuntimeSettings(HostConfig(limits=Limits(parallel_calls=2)))
        scheduler = CallScheduler(lifetime, EventBus(), RunningCalls(), settings)
        everyone_waits, end = anyio.Event(), anyio.Event()

        async def call(name: str) -> ToolCallOutcome:
            nonlocal waiting
            scheduler.describe_call("s", name)
            if name == "failing":
                await end.wait()
                raise ZeroDivisionError
            async with scheduler.slot():
                if name == "reviewed":
                    mark_result_received()
                waiting += 1
                if waiting == 2:
                    everyone_waits.set()
                await anyio.sleep_forever()
            raise AssertionError("the call ended")

        names = ("failing", "running", "reviewed", "queued", "never begun")
        calls = CallRound([ToolUsePart(name, name, {}) for name in names])
        with pytest.RaisesGroup(ZeroDivisionError) if by_error else nullcontext():
            async with anyio.create_task_group() as tasks:
                for place, name in enumerate(names[:4]):
                    tasks.start_soon(scheduler.run, calls, place, make_context(), partial(call, name))
                with anyio.fail_after(10):
                    await everyone_waits.wait()
                end.set() if by_error else tasks.cancel_scope.cancel()
        return [outcome.part.text for outcome in calls.list_outcomes()]


async def test_calls_stopped_by_an_error_of_another_call_are_not_said_to_be_stopped_by_the_user() -> None:
    assert await stop_all(by_error=True) == [
        "The call failed in mcphost. The tool did not run.",
        "An error ended the turn before the result of this call arrived. The tool may have run.",
        "The call ran, but an error ended the turn before you received its result.",
        "An error ended the turn before this call started; the tool did not run.",
        "An error ended the turn before this call started; the tool did not run.",
    ]


async def test_calls_that_the_user_stops_tell_the_model_so_and_whether_they_ran() -> None:
    assert await stop_all(by_error=False) == [
        "The user stopped this call before it started; the tool did not run.",
        "The user stopped this call before its result arrived.",
        "The call ran, but the user stopped before you received its result.",
        "The user stopped this call before it started; the tool did not run.",
        "The user stopped this call before it started; the tool did not run.",
    ]
