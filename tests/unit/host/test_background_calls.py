"""Tests for sending a running call to the background: the turn continues, and the result arrives later."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.hooks import HookOutput
from mcphost.config.schema import HookConfig, HookSettings, Limits
from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.conversation.rewind import list_completed_calls
from mcphost.host.events import BackgroundCallEnded, BackgroundResultAdded, NoticeEvent, ToolBackgrounded
from mcphost.host.host import Host
from mcphost.host.message_text import describe_author, describe_message
from mcphost.host.origins.outside_texts import outside_texts
from mcphost.host.questions.questions import AllowOnce, PassResult
from mcphost.host.tools.call_scheduler import MAX_BACKGROUND_CALLS
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import open_host_with
from tests.unit.host.slow_server import SlowServer

pytestmark = pytest.mark.anyio


class BackgroundScene:
    """A host with a slow server, and a user who sends each call of the tool `slow` to the background."""

    def __init__(self, host: Host, server: SlowServer, model: ScriptedModel) -> None:
        self.host, self.server, self.model = host, server, model
        self.feed = host.events.subscribe()

    async def take_turn(self, text: str = "go") -> None:
        """Run a turn, and send the call of `slow` in it to the background as soon as it runs."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.send_to_background)
            result = await self.host.conversation.send(text)
            assert result.outcome == "done", result

    async def send_to_background(self) -> str:
        with anyio.fail_after(10):
            await self.server.called.wait()
        running = self.host.running_calls.list()
        (call,) = (one.call for one in running if one.tool == "slow" and not one.is_in_background)
        self.host.conversation.send_to_background(call)
        return call

    async def wait_for(self, kind: Any) -> Any:
        with anyio.fail_after(10):
            return await wait_for_event(self.feed, kind)

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.host.conversation.messages


@asynccontextmanager
async def open_scene(
    folder: Path, *rounds: Any, audit_log: AuditLog | None = None, frontend: Any = None, **options: Any
) -> AsyncGenerator[BackgroundScene]:
    server = SlowServer()
    model = ScriptedModel(*(rounds or (tool_round(("peer__slow", {})), text_round("going on"), text_round("thanks"))))
    answers = frontend or ScriptedFrontend(*[AllowOnce()] * 20)
    async with open_host_with(folder, server, model, answers, audit_log=audit_log, **options) as host:
        yield BackgroundScene(host, server, model)


def tool_parts(messages: tuple[Message, ...]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_the_turn_continues_with_a_result_that_says_so_and_names_the_call(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        (told,) = tool_parts(scene.messages)
        assert told.outcome == "background"
        assert not told.is_error
        assert told.use_id in told.text
        assert "do not repeat the call" in told.text
        assert [message.role for message in scene.messages] == ["user", "assistant", "tool", "assistant"]
        (running,) = scene.host.running_calls.list()
        assert running.is_in_background
        assert (await scene.wait_for(ToolBackgrounded)).call == told.use_id


async def test_the_result_enters_the_conversation_as_a_message_of_its_own_and_reaches_the_model(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("42 files indexed")
        added = (await scene.wait_for(BackgroundResultAdded)).message
        late = added.late_result
        assert late is not None
        assert (late.server, late.uri, late.use_id) == ("peer", "tool:slow", "use-1")
        assert late.text.endswith("its result follows.\n\n42 files indexed")
        assert added.text == "", "nobody typed it"
        assert scene.messages[-1] == added
        await scene.host.conversation.send("next")
        assert [message.late_result is not None for message in scene.model.requests[-1].messages][-2:] == [True, False]
        (told,) = tool_parts(scene.messages)
        assert told.outcome == "background", "each call has one result"


async def test_the_user_can_let_the_model_go_on_with_the_result_at_once(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("42 files indexed")
        await scene.wait_for(BackgroundResultAdded)
        result = await scene.host.conversation.continue_turn()
        assert result.text == "thanks"
        assert scene.model.requests[-1].messages[-1].late_result is not None


async def test_a_result_that_comes_during_a_turn_waits_for_its_end(tmp_path: Path) -> None:
    rounds = (tool_round(("peer__slow", {})), tool_round(("peer__slow", {})), text_round("going on"))
    async with open_scene(tmp_path, *rounds) as scene:

        async def play() -> None:
            await scene.send_to_background()
            await scene.server.wait_for_calls(2)
            scene.server.finish("first")
            assert (await scene.wait_for(BackgroundCallEnded)).in_open_conversation
            assert scene.host.conversation.is_busy
            assert not any(message.late_result for message in scene.messages)
            scene.server.finish("second")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await scene.host.conversation.send("go")
        await scene.wait_for(BackgroundResultAdded)
        roles = [message.role for message in scene.messages]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]


async def test_it_is_stored_before_it_is_shown_and_survives_the_end_of_the_program(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("42 files indexed")
        await scene.wait_for(BackgroundResultAdded)
        database = Database(tmp_path / "store.db")
        stored = await ConversationStore(database).load(scene.host.conversation.id)
        await database.close()
        assert stored == scene.messages


async def test_a_call_that_is_in_the_background_when_the_program_ends_is_cancelled_and_the_audit_log_tells_it(
    tmp_path: Path,
) -> None:
    log = create_audit_log(tmp_path)
    async with open_scene(tmp_path, audit_log=log) as scene:
        await scene.take_turn()
        conversation = scene.host.conversation.id
    log = create_audit_log(tmp_path)
    rows = [row for row in await read_rows(log, "tool") if row.subject == "slow"]
    assert [(row.event, row.decision) for row in rows][-1] == ("ended", "stopped")
    await log.close()
    async with open_scene(tmp_path, text_round("I see"), text_round("yes")) as scene:
        await scene.host.conversation.open(conversation)
        await scene.host.conversation.send("and?")
        late = scene.model.requests[0].messages[-2].late_result
        assert late is not None
        assert late.use_id == "use-1"
        assert "The tool may have run" in late.text
        await scene.host.conversation.send("again")
        assert sum(message.late_result is not None for message in scene.messages) == 1


async def test_a_result_of_another_conversation_is_stored_there_and_not_added_to_the_open_one(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        first = scene.host.conversation.id
        scene.host.conversation.open_new()
        scene.server.finish("42 files indexed")
        assert not (await scene.wait_for(BackgroundCallEnded)).in_open_conversation
        assert not scene.messages
        await scene.host.conversation.open(first)
        while scene.messages[-1].late_result is None:
            await anyio.lowlevel.checkpoint()
            await scene.host.conversation.open(first)
        assert [message.late_result is not None for message in scene.messages].count(True) == 1


async def test_a_result_that_comes_after_going_back_is_stored_with_the_branch_that_asked_for_it(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        conversation = scene.host.conversation
        await conversation.branches.rewind(0)
        scene.server.finish("42 files indexed")
        assert not (await scene.wait_for(BackgroundCallEnded)).in_open_conversation
        assert not scene.messages
        await conversation.send("something else")
        assert not any(message.late_result for message in scene.model.requests[-1].messages)
        (asking,) = await conversation.branches.list_others()
        assert asking.messages == 5
        assert [message.text for message in scene.messages] == ["something else", "thanks"]
        await conversation.branches.switch(asking.number)
        late = scene.messages[-1].late_result
        assert late is not None
        assert late.text.endswith("its result follows.\n\n42 files indexed")
        assert not [event for event in scene.feed.drain() if isinstance(event, NoticeEvent)]


async def test_a_call_that_is_cancelled_after_going_back_is_reported_in_the_branch_that_asked(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tool_round(("peer__slow", {})), *[text_round("ok")] * 3) as scene:
        await scene.take_turn()
        conversation = scene.host.conversation
        await conversation.branches.rewind(1)
        await conversation.retry()
        open_branch = scene.messages
        (call,) = scene.host.running_calls.list()
        assert scene.host.running_calls.cancel(call.call)
        await scene.wait_for(BackgroundCallEnded)
        with anyio.fail_after(10):
            while (asking := (await conversation.branches.list_others())[0]).messages < 5:
                await anyio.lowlevel.checkpoint()
        assert scene.messages == open_branch
        await conversation.branches.switch(asking.number)
        late = scene.messages[-1].late_result
        assert late is not None
        assert "The user cancelled this call" in late.text


async def test_after_a_fork_the_original_gets_the_result_and_the_copy_is_told_that_it_does_not(tmp_path: Path) -> None:
    async with open_scene(tmp_path, tool_round(("peer__slow", {})), *[text_round("ok")] * 4) as scene:
        await scene.take_turn()
        conversation, original = scene.host.conversation, scene.host.conversation.id
        await conversation.branches.fork()
        await conversation.send("while it runs")
        assert not any(message.late_result for message in scene.messages)
        scene.server.finish("42 files indexed")
        assert not (await scene.wait_for(BackgroundCallEnded)).in_open_conversation
        await conversation.send("and now?")
        (told,) = [message.late_result for message in scene.messages if message.late_result]
        assert "its result is not in this conversation" in told.text
        await conversation.open(original)
        with anyio.fail_after(10):
            while scene.messages[-1].late_result is None:
                await anyio.lowlevel.checkpoint()
                await conversation.open(original)


async def test_a_call_in_the_background_is_listed_as_still_running_until_it_ended(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()

        def outcomes() -> list[str]:
            running = {call.call for call in scene.host.running_calls.list()}
            calls = list_completed_calls(scene.messages, scene.host.servers, running)
            return [call.outcome for call in calls if call.tool == "slow"]

        assert outcomes() == ["running"]
        scene.server.finish("42 files indexed")
        await scene.wait_for(BackgroundResultAdded)
        assert outcomes() == ["background"]


async def test_deleting_a_conversation_cancels_its_calls_in_the_background(tmp_path: Path) -> None:
    log = create_audit_log(tmp_path)
    async with open_scene(tmp_path, audit_log=log) as scene:
        await scene.take_turn()
        await scene.host.history.delete(scene.host.conversation.id)
        assert (await scene.wait_for(BackgroundCallEnded)).outcome == "stopped"
        assert not scene.host.running_calls.list()
        assert not scene.messages
        assert not await scene.host.history.list_recent(), "it stays deleted"
    log = create_audit_log(tmp_path)
    assert [row.decision for row in await read_rows(log, "tool") if row.event == "ended"] == ["stopped"]
    await log.close()


async def test_values_of_a_late_result_are_marked_in_calls_of_other_servers(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("the key is 4711-0815-2342-9999")
        message = (await scene.wait_for(BackgroundResultAdded)).message
        (outside,) = outside_texts(message)
        assert (outside.server, outside.source) == ("peer", "slow")
        assert "4711-0815-2342-9999" in outside.text


async def test_a_hook_after_the_call_changes_the_late_result_as_any_other(tmp_path: Path) -> None:
    async def annotate(command: Any, folder: str, document: bytes, seconds: float) -> HookOutput:
        assert b"42 files indexed" in document
        return HookOutput(output=b'{"note": "Old files were left out."}')

    hook = HookConfig(settings=HookSettings(event="after_call", command=("annotate",)))
    async with open_scene(tmp_path, hooks=(hook,), run_hook=annotate) as scene:
        await scene.take_turn()
        scene.server.finish("42 files indexed")
        late = (await scene.wait_for(BackgroundResultAdded)).message.late_result
        assert late is not None
        assert late.text.endswith("Note from one of the user's hooks: Old files were left out.\n\n42 files indexed")


async def test_a_late_result_that_is_too_big_is_cut_and_kept_as_any_other(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "results")
    async with open_scene(tmp_path, results=store) as scene:
        await scene.take_turn()
        scene.server.finish("x" * 1_000_000)
        late = (await scene.wait_for(BackgroundResultAdded)).message.late_result
        assert late is not None
        assert len(late.text) < 300_000
        assert "To read more, call read_result" in late.text
        assert await store.read_all(late.kept) == "x" * 1_000_000


async def test_a_late_result_is_described_as_a_result_in_texts_for_models_and_people(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("42 files indexed")
        message = (await scene.wait_for(BackgroundResultAdded)).message
        assert describe_author(message) == "Background result"
        assert describe_message(message).startswith("[result of slow of peer] ")


async def test_a_failed_call_in_the_background_tells_its_error(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.server.finish("no such folder", isError=True)
        assert (await scene.wait_for(BackgroundCallEnded)).outcome == "error"
        late = (await scene.wait_for(BackgroundResultAdded)).message.late_result
        assert late is not None
        assert late.text.endswith("error.\n\nno such folder")


async def test_a_call_in_the_background_can_be_cancelled_alone(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        scene.host.running_calls.cancel("use-1")
        assert (await scene.wait_for(BackgroundCallEnded)).outcome == "stopped"
        late = (await scene.wait_for(BackgroundResultAdded)).message.late_result
        assert late is not None
        assert "The user cancelled this call" in late.text


async def test_stopping_a_turn_leaves_calls_in_the_background_alone(tmp_path: Path) -> None:
    rounds = (tool_round(("peer__slow", {}), ("peer__slow", {})), text_round("never"))
    async with open_scene(tmp_path, *rounds) as scene:

        async def play() -> None:
            await scene.server.wait_for_calls(2)
            scene.host.conversation.send_to_background("use-1")
            scene.host.conversation.stop()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await scene.host.conversation.send("go")
        # The turn was stopped before the first call could be handed over, so both were stopped.
        assert {part.outcome for part in tool_parts(scene.messages)} <= {"stopped", "background"}
        running = {call.call for call in scene.host.running_calls.list()}
        awaited = {part.use_id for part in tool_parts(scene.messages) if part.outcome == "background"}
        assert running == awaited


async def test_stopping_everything_cancels_the_background_too(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.take_turn()
        assert scene.host.halt()
        await scene.wait_for(BackgroundCallEnded)
        assert not scene.host.running_calls.list()


async def test_a_call_in_the_background_does_not_hold_up_others_although_one_runs_at_a_time(tmp_path: Path) -> None:
    rounds = (tool_round(("peer__slow", {}), ("peer__quick", {})), text_round("ok"))
    async with open_scene(tmp_path, *rounds, limits=Limits(parallel_calls=1)) as scene:
        await scene.take_turn()
        assert {part.text for part in tool_parts(scene.messages)} >= {"quick"}


async def test_only_so_many_calls_go_on_in_the_background(tmp_path: Path) -> None:
    count = MAX_BACKGROUND_CALLS + 1
    calls: list[tuple[str, dict[str, Any] | None]] = [("peer__slow", {})] * count
    rounds = (tool_round(*calls), text_round("ok"))
    async with open_scene(tmp_path, *rounds, limits=Limits(parallel_calls=count)) as scene:

        async def play() -> None:
            await scene.server.wait_for_calls(count)
            for number in range(1, count):
                scene.host.conversation.send_to_background(f"use-{number}")
            with pytest.raises(UsageError, match="in the background already"):
                scene.host.conversation.send_to_background(f"use-{count}")
            scene.host.running_calls.cancel(f"use-{count}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await scene.host.conversation.send("go")


async def test_a_call_of_the_user_or_one_that_ended_cannot_be_sent_to_the_background(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        await scene.host.tools.call("peer", "quick", {})
        for call in ("hand-1", "use-1"):
            with pytest.raises(UsageError, match="Only a running call of the model"):
                scene.host.conversation.send_to_background(call)


async def test_a_result_that_the_user_reviews_enters_only_after_the_review(tmp_path: Path) -> None:
    reviewed = anyio.Event()

    async def review(_: Any) -> PassResult:
        await reviewed.wait()
        return PassResult()

    async with open_scene(tmp_path, frontend=ScriptedFrontend(AllowOnce(), review), reviewed=("peer",)) as scene:
        await scene.take_turn()
        scene.server.finish("a secret")
        with anyio.move_on_after(0.2):
            await wait_for_event(scene.feed, BackgroundCallEnded)
        assert not any(message.late_result for message in scene.messages)
        reviewed.set()
        late = (await scene.wait_for(BackgroundResultAdded)).message.late_result
        assert late is not None
        assert late.text.endswith("a secret")
