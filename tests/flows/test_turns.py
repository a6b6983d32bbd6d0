"""Tests for a whole turn, from the user's message to the model's final text, with a real server process."""

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import anyio
import pytest

from mcphost.config.schema import Limits
from mcphost.errors import ConsentDenied, ModelError, UsageError
from mcphost.headless.exit_codes import turn_exit_code
from mcphost.host.conversation.controller import CONTINUE_PROMPT
from mcphost.host.events import (
    MessageFinished,
    NoticeEvent,
    TextDeltaEvent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowSession,
    ApproveTool,
    ContinueTurn,
    Deny,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
from mcphost.llm.messages import ToolReturnPart, ToolUsePart
from mcphost.llm.model import StreamFinished, ToolQuarantined, ToolsRefused, ToolUseReady
from mcphost.llm.model import TextDelta as Text
from mcphost.tui.chat.status import ChatStatus
from mcphost.tui.transcript.message_blocks import build_blocks
from mcphost.tui.transcript.tool_card import ToolCard
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import HANG, ScriptedModel, text_round, tool_returns, tool_round
from tests.flows.conftest import OpenHost, inline_server, read_events
from tests.flows.inline_servers import CHANGING_TOOL_SERVER

pytestmark = pytest.mark.anyio


@pytest.mark.req("sec.consent.tools")
@pytest.mark.req("tools.confirm")
async def test_an_approved_call_runs_and_its_result_reaches_the_model(open_host: OpenHost) -> None:
    model = ScriptedModel(tool_round(("demo__add", {"a": 2, "b": 40})), text_round("It is 42."))
    frontend = ScriptedFrontend(AllowOnce())
    async with open_host(model, frontend) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        result = await host.conversation.send("what is 2 + 40?")
        events = feed.drain()
    assert (result.outcome, result.text, turn_exit_code(result)) == ("done", "It is 42.", 0)
    question = frontend.asked[0]
    assert isinstance(question, ApproveTool)
    assert (question.server, question.tool, question.arguments) == ("demo", "add", {"a": 2, "b": 40})
    assert question.first_use
    assert "42" in tool_returns(model)[0].text
    kinds = [type(event).__name__ for event in events if not isinstance(event, TextDeltaEvent)]
    assert [kind for kind in kinds if kind.startswith("Tool")] == ["ToolProposed", "ToolStarted", "ToolFinished"]
    finished = next(event for event in events if isinstance(event, TurnFinished))
    assert finished.usage.input_tokens == 30
    assert finished.usage.cost == pytest.approx(0.003)


@pytest.mark.req("sec.consent.tools")
@pytest.mark.req("tools.cancelled-result")
async def test_a_declined_call_never_runs_and_the_model_reads_the_reason(open_host: OpenHost) -> None:
    model = ScriptedModel(
        tool_round(("demo__add_note", {"text": "secret"})),
        tool_round(("demo__list_notes", {})),
        text_round("All right."),
    )
    frontend = ScriptedFrontend(Deny("not that one"), AllowOnce())
    async with open_host(model, frontend) as host:
        await host.servers.ensure_ready("demo")
        result = await host.conversation.send("note it")
    assert result.declined == 1
    assert turn_exit_code(result) == 5
    told = tool_returns(model, 1)[0]
    assert told.is_error
    assert "declined" in told.text
    assert "not that one" in told.text
    assert "secret" not in tool_returns(model, 2)[0].text


async def test_an_opened_conversation_shows_how_its_calls_ended_and_its_usage(open_host: OpenHost) -> None:
    model = ScriptedModel(
        tool_round(("demo__add_note", {"text": "secret"}), ("demo__add", {"a": 1, "b": 2}), ("no_such_tool", {})),
        text_round("Done."),
    )
    async with open_host(model, ScriptedFrontend(Deny("no"), AllowOnce())) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("note it")
    async with open_host(model, ScriptedFrontend()) as host:
        (row,) = await host.conversation.list_stored()
        await host.conversation.open(row.id)
        cards = [block for block in build_blocks(host.conversation.messages) if isinstance(block, ToolCard)]
        assert [card.state for card in cards] == ["declined", "ok", "failed"]
        assert cards[0].result == "no"
        assert cards[1].seconds > 0
        figures = ChatStatus()
        figures.add_earlier(host.conversation.messages)
        status = figures.build_status(host, (), phase="", pending_questions=0, demo=False)
    assert status.tokens == 20 + 7 + 10 + 5
    assert status.cost == pytest.approx(0.003)


@pytest.mark.req("tools.parallel")
async def test_parallel_calls_run_side_by_side_and_their_results_keep_the_order(open_host: OpenHost) -> None:
    model = ScriptedModel(
        tool_round(
            ("demo__count_slowly", {"to": 2, "seconds": 1.0}),
            ("demo__add", {"a": 1, "b": 1}),
            ("demo__multiply", {"a": 3, "b": 3}),
        ),
        text_round("done"),
    )
    async with open_host(model, ScriptedFrontend(AllowOnce(), AllowOnce(), AllowOnce())) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        await host.conversation.send("all three")
        events = feed.drain()
    names = [part.name for part in tool_returns(model)]
    assert names == ["demo__count_slowly", "demo__add", "demo__multiply"]
    order = [event.tool for event in events if isinstance(event, ToolFinished)]
    assert order[-1] == "count_slowly"
    assert any(isinstance(event, ToolProgress) and event.total == 2 for event in events)


async def test_no_more_calls_run_side_by_side_than_the_user_allows(open_host: OpenHost) -> None:
    uses = [("demo__count_slowly", {"to": 1, "seconds": 0.01}) for _ in range(3)]
    model = ScriptedModel(tool_round(*uses), text_round("done"))
    async with open_host(model, ScriptedFrontend(*[AllowOnce()] * 3), limits=Limits(parallel_calls=1)) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        await host.conversation.send("all three")
        events = feed.drain()
    order = [type(event).__name__ for event in events if isinstance(event, ToolStarted | ToolFinished)]
    assert order == ["ToolStarted", "ToolFinished"] * 3


class SecondQuestionFrontend(ScriptedFrontend):
    """A front end that answers "Allow for this session" to all questions except the first, which it never answers."""

    async def ask(self, question: Question[Any]) -> Any:
        if not self.asked:
            return await super().ask(question)
        self.asked.append(question)
        return AllowSession()


async def test_for_the_session_settles_the_question_about_the_same_tool_that_already_waits(open_host: OpenHost) -> None:
    add = ("demo__add", {"a": 1, "b": 1})
    frontend = SecondQuestionFrontend()
    async with open_host(ScriptedModel(tool_round(add, add), tool_round(add), text_round("done")), frontend) as host:
        await host.servers.ensure_ready("demo")
        with anyio.fail_after(10):
            assert (await host.conversation.send("twice, then again")).outcome == "done"
    assert len(frontend.asked) == 2
    assert frontend.waiting == 0


async def test_always_is_remembered_by_the_next_host_until_the_definition_changes(open_host: OpenHost) -> None:
    add = ("demo__add", {"a": 1, "b": 1})
    async with open_host(ScriptedModel(tool_round(add), text_round("a")), ScriptedFrontend(AllowAlways())) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("one")
    frontend = ScriptedFrontend()
    async with open_host(ScriptedModel(tool_round(add), text_round("b")), frontend) as host:
        await host.servers.ensure_ready("demo")
        assert (await host.conversation.send("two")).outcome == "done"
        assert frontend.asked == []


@pytest.mark.req("tools.list-changed.review")
async def test_a_tool_that_changed_since_it_was_allowed_is_quarantined_until_it_is_kept(
    open_host: OpenHost, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    server = inline_server("shape", CHANGING_TOOL_SERVER, env={"WORDS": str(words)})

    async def turn(text: str, *answers: Any) -> tuple[list[Any], list[str], str]:
        """Run one turn; return the questions, the tools offered to the model, and the result of the model's call."""
        words.write_text(text)
        frontend = ScriptedFrontend(*answers)
        model = ScriptedModel(tool_round(("shape__t", {})), text_round("ok"))
        async with open_host(model, frontend, servers=(server,)) as host:
            await host.servers.ensure_ready("shape")
            with anyio.fail_after(10):
                await host.conversation.send("go")
        result = model.requests[-1].messages[-1].parts[0]
        assert isinstance(result, ToolReturnPart)
        return frontend.asked, [tool.name for tool in model.requests[0].tools], result.text

    assert await turn("kind", AllowAlways()) == ([ANY], ["shape__t"], "ran")
    assert await turn("kind") == ([], ["shape__t"], "ran")
    asked, offered, said = await turn("kind, now with a hook", AcceptToolChanges())
    assert ([type(question) for question in asked], offered) == ([ReviewToolChanges], [])
    assert asked[0].changes[0].difference == ("- description: kind", "+ description: kind, now with a hook",
        "  inputSchema.type: object", "  name: t", "- x-odd: kind", "+ x-odd: kind, now with a hook")  # fmt: skip
    assert "quarantined" in said
    async with open_host(None, servers=(server,)) as host:
        with pytest.raises(ConsentDenied, match="is quarantined"):
            await host.tools.call("shape", "t", {})
    # Nothing was asked there, and the tool is still quarantined: keeping it carries "always" over.
    asked, _, said = await turn("kind, now with a hook", AcceptToolChanges(("t",)))
    assert ([type(question) for question in asked], said) == ([ReviewToolChanges], "ran")
    assert await turn("kind, now with a hook") == ([], ["shape__t"], "ran")


@pytest.mark.req("llm.loop-limit")
async def test_the_round_limit_asks_and_a_refusal_ends_the_turn(open_host: OpenHost) -> None:
    add = tool_round(("demo__add", {"a": 1, "b": 1}))
    model = ScriptedModel(add, add, add, add, text_round("never reached"))
    frontend = ScriptedFrontend(AllowSession(), lambda question: True, lambda question: False)
    async with open_host(model, frontend, limits=Limits(max_rounds=2)) as host:
        await host.servers.ensure_ready("demo")
        result = await host.conversation.send("for ever")
    assert result.outcome == "rounds"
    assert [question.rounds for question in frontend.asked if isinstance(question, ContinueTurn)] == [2, 4]
    assert len(model.requests) == 4


async def test_the_question_after_a_single_round_says_one_round(open_host: OpenHost) -> None:
    model = ScriptedModel(tool_round(("demo__add", {"a": 1, "b": 2})))
    frontend = ScriptedFrontend(AllowSession(), lambda question: False)
    async with open_host(model, frontend, limits=Limits(max_rounds=1)) as host:
        await host.servers.ensure_ready("demo")
        await host.conversation.send("add")
    assert frontend.asked[-1].why == "turn 1 used 1 round of tool calls"


async def test_stopping_during_a_stream_closes_it_and_keeps_its_text(open_host: OpenHost) -> None:
    model = ScriptedModel([Text("half an ans"), HANG])
    async with open_host(model, servers=()) as host, anyio.create_task_group() as tasks:
        feed = host.events.subscribe()
        tasks.start_soon(host.conversation.send, "tell me")
        with anyio.fail_after(20):
            await model.hanging.wait()
        assert host.conversation.is_busy
        assert host.conversation.stop()
        with anyio.fail_after(20):
            events = await read_events(feed, lambda event: isinstance(event, TurnFinished))
        assert [event.outcome for event in events if isinstance(event, TurnFinished)] == ["stopped"]
        assert model.open_streams == 0
        assert host.conversation.messages[-1].text == "half an ans"
        assert host.conversation.messages[-1].cut
        ident = host.conversation.id
    async with open_host(ScriptedModel(text_round("again")), servers=()) as host:
        await host.conversation.open(ident)
        assert [message.text for message in host.conversation.messages] == ["tell me", "half an ans"]
        assert (await host.conversation.send("go on")).text == "again"


@pytest.mark.req("tools.cancelled-result")
@pytest.mark.req("llm.loop-limit")
@pytest.mark.req("cancel.ui")
async def test_stopping_during_a_call_notifies_the_server_and_closes_every_open_call(open_host: OpenHost) -> None:
    model = ScriptedModel(
        tool_round(("demo__count_slowly", {"to": 100, "seconds": 60}), ("demo__add", {"a": 1, "b": 1})),
        text_round("later"),
    )
    frontend = ScriptedFrontend(AllowSession(), AllowSession())
    async with open_host(model, frontend) as host, anyio.create_task_group() as tasks:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        tasks.start_soon(host.conversation.send, "count")
        with anyio.fail_after(10):
            await read_events(feed, lambda event: isinstance(event, ToolProgress))
        host.conversation.stop()
        with anyio.fail_after(10):
            events = await read_events(feed, lambda event: isinstance(event, TurnFinished))
        assert isinstance(events[-1], TurnFinished)
        assert events[-1].outcome == "stopped"
        assert any(isinstance(event, ToolFinished) and event.outcome == "stopped" for event in events)
        parts = host.conversation.messages[-1].parts
        assert [part.use_id for part in parts if isinstance(part, ToolReturnPart)] == ["use-1", "use-2"]
        # The session still works.
        assert "5" in (await host.tools.call("demo", "add", {"a": 2, "b": 3})).text


@pytest.mark.req("tools.call.arguments-object")
async def test_arguments_that_do_not_parse_are_returned_and_three_such_rounds_end_the_turn(open_host: OpenHost) -> None:
    broken = tool_round(("demo__add", None))
    model = ScriptedModel(broken, tool_round(("demo__nothing_like_that", {})), broken, text_round("never"))
    frontend = ScriptedFrontend()
    async with open_host(model, frontend) as host:
        await host.servers.ensure_ready("demo")
        result = await host.conversation.send("go")
    assert result.outcome == "failed"
    assert turn_exit_code(result) == 7
    assert frontend.asked == []
    assert "not a JSON object" in tool_returns(model, 1)[0].text
    assert "no tool named" in tool_returns(model, 2)[0].text


async def test_a_failing_model_ends_the_turn_with_a_hint_and_keeps_the_message(open_host: OpenHost) -> None:
    model = ScriptedModel([Text("begin"), ModelError("The key is wrong.", "Set OPENAI_API_KEY.", model_kind="auth")])
    async with open_host(model, servers=()) as host:
        feed = host.events.subscribe()
        result = await host.conversation.send("hi")
        events = feed.drain()
        assert (turn_exit_code(result), result.error, result.hint) == (7, "The key is wrong.", "Set OPENAI_API_KEY.")
        assert [message.text for message in host.conversation.messages] == ["hi", "begin"]
    assert any(isinstance(event, MessageFinished) and event.message.cut for event in events)


@pytest.mark.parametrize("reason", ["length", "content_filter", "unknown", "malformed_call", "lost_call"])
async def test_a_truncated_answer_is_not_presented_as_complete(open_host: OpenHost, reason: str) -> None:
    cut: list[Any] = [
        Text("half an"),
        ToolUseReady(ToolUsePart("use-1", "demo__add", {"a": 1})),
        StreamFinished(reason),
    ]
    model = ScriptedModel(cut, text_round("whole"))
    async with open_host(model, servers=()) as host:
        feed = host.events.subscribe()
        result = await host.conversation.send("hi")
        assert (result.text, result.outcome, turn_exit_code(result)) == ("half an", "failed", 7)
        (finished,) = [event for event in feed.drain() if isinstance(event, TurnFinished)]
        assert (finished.outcome, finished.error) == ("failed", result.error)
        assert [(message.text, message.cut, message.tool_uses) for message in host.conversation.messages] == [
            ("hi", False, ()), ("half an", True, ()),
        ]  # fmt: skip
        assert turn_exit_code(await host.conversation.continue_turn()) == 0
        assert [message.text for message in host.conversation.messages] == ["hi", "half an", CONTINUE_PROMPT, "whole"]
        assert [message.is_typed for message in host.conversation.messages] == [True, False, False, False]
        with pytest.raises(UsageError, match="no answer that was cut off"):
            await host.conversation.continue_turn()


async def test_an_answer_cut_before_any_content_is_requested_again_without_repeating_anything(
    open_host: OpenHost,
) -> None:
    model = ScriptedModel([StreamFinished("unknown")], text_round("whole"))
    async with open_host(model, servers=()) as host:
        result = await host.conversation.send("hi")
        assert (turn_exit_code(result), result.error) == (7, "The model's answer was cut off before any text arrived.")
        assert [message.text for message in host.conversation.messages] == ["hi"]
        assert (await host.conversation.continue_turn()).text == "whole"
        assert [message.text for message in host.conversation.messages] == ["hi", "whole"]
    assert model.requests[0].messages == model.requests[1].messages


async def test_without_a_model_the_message_is_kept_and_the_way_out_is_named(open_host: OpenHost) -> None:
    async with open_host(None, servers=()) as host:
        result = await host.conversation.send("hi")
        assert turn_exit_code(result) == 3
        assert "--model" in result.hint
        assert host.conversation.messages[0].text == "hi"


async def test_a_manual_call_asks_nothing_and_is_reported_as_the_users_own(open_host: OpenHost) -> None:
    frontend = ScriptedFrontend()
    async with open_host(None, frontend) as host:
        feed = host.events.subscribe()
        outcome = await host.tools.call("demo", "multiply", {"a": 6, "b": 7})
        events = feed.drain()
    assert "42" in outcome.text
    assert frontend.asked == []
    assert [event.by for event in events if isinstance(event, ToolStarted)] == ["user"]


async def test_a_tool_that_a_provider_refuses_is_named_in_a_notice(open_host: OpenHost) -> None:
    model = ScriptedModel([ToolQuarantined("demo__add", "bad\x1b schema"), *text_round("Hello.")])
    async with open_host(model, ScriptedFrontend()) as host:
        feed = host.events.subscribe()
        assert (await host.conversation.send("hi")).text == "Hello."
        (notice,) = [event for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert "rejected the definition of the tool demo__add" in notice.text
    assert notice.text.endswith("The provider said: bad␛ schema.")
    assert "\x1b" not in notice.text


async def test_a_model_that_refuses_tools_is_named_in_a_notice_that_shows_control_characters(
    open_host: OpenHost,
) -> None:
    model = ScriptedModel([ToolsRefused("no tools\x1b[2J here"), *text_round("Hello.")])
    async with open_host(model, ScriptedFrontend()) as host:
        feed = host.events.subscribe()
        result = await host.conversation.send("hi")
        notices = [event for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert result.text == "Hello."
    assert [notice.level for notice in notices] == ["warning"]
    assert "scripted does not support tools" in notices[0].text
    assert "\x1b" not in notices[0].text
    assert notices[0].text.endswith("The provider said: no tools␛[2J here.")
    assert "[model]" in notices[0].hint


async def test_a_refusal_of_an_earlier_run_is_reported_with_its_date_and_the_way_to_try_again(
    open_host: OpenHost,
) -> None:
    model = ScriptedModel([ToolsRefused("no tools", refused_at=1_795_000_000.0), *text_round("Hello.")])
    async with open_host(model, ScriptedFrontend()) as host:
        feed = host.events.subscribe()
        await host.conversation.send("hi")
        (notice,) = [event for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert "It refused them on 2026-11-1" in notice.text
    assert "Ctrl+R in /models" in notice.hint
