"""Tests for messages that the user sends during a turn, which join it after the results of its tools."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.host.events import UserMessageAdded
from mcphost.host.questions.questions import AllowOnce, PassEditedResult, PassResult, ReviewResult, WithholdResult
from mcphost.host.tools.result_review import ATTACHMENT_WITHHELD
from mcphost.llm.messages import Part, ResourcePart, TextPart
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with, text_result, tool_definition, tools_result

pytestmark = pytest.mark.anyio


async def test_a_message_joins_after_the_results_of_the_tools_and_before_the_next_request(tmp_path: Path) -> None:
    peer = create_peer(tools__list=tools_result(tool_definition("it")), tools__call=text_result("done"))
    model = ScriptedModel(tool_round(("peer__it", {})), text_round("ok"), text_round("again"))

    async def steer_then_allow(_: Any) -> AllowOnce:
        assert host.conversation.steer("and be brief")
        return AllowOnce()

    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(steer_then_allow)) as host:
        feed = host.events.subscribe()
        await host.conversation.send("go")
        added = [event.message.text for event in feed.drain() if isinstance(event, UserMessageAdded)]
        assert added == ["and be brief"]
        assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool", "user"]
        assert not host.conversation.steer("too late")
        await host.conversation.send("next")
        assert [message.text for message in host.conversation.messages if message.role == "user"] == [
            "go",
            "and be brief",
            "next",
        ]


FILE = ResourcePart("", "notes.txt", "milk and bread")
RESOURCE = ResourcePart("peer", "x://1", "the secret")


async def send_and_steer(tmp_path: Path, attached: tuple[Part, ...], answer: Any, *, read: tuple[str, ...] = ()) -> Any:
    """Run a turn to which a message with attachments is added; return the model and the front end after it."""
    peer = create_peer(tools__list=tools_result(tool_definition("it")), tools__call=text_result("done"))
    model = ScriptedModel(tool_round(("peer__it", {})), text_round("ok"))

    async def steer_then_allow(_: Any) -> AllowOnce:
        assert host.conversation.steer("look", attached)
        return AllowOnce()

    def answer_review(question: Any) -> Any:
        assert isinstance(question, ReviewResult)
        return answer(host) if callable(answer) else answer

    frontend = ScriptedFrontend(steer_then_allow, PassResult(), answer_review)
    async with open_host_with(tmp_path, peer, model, frontend, reviewed=read) as host:
        await host.conversation.send("go")
        return model, frontend, tuple(host.conversation.messages)


async def test_attachments_join_the_turn_with_their_message(tmp_path: Path) -> None:
    model, _, _ = await send_and_steer(tmp_path, (FILE, RESOURCE), None)
    added = model.requests[1].messages[-1]
    assert (added.role, added.parts) == ("user", (FILE, RESOURCE, TextPart("look")))


@pytest.mark.parametrize(("answer", "text"), [
    (PassResult(), "the secret"), (WithholdResult(), ATTACHMENT_WITHHELD), (PassEditedResult(("the key",)), "the key"),
])  # fmt: skip
async def test_attachments_that_join_the_turn_are_reviewed_first(tmp_path: Path, answer: Any, text: str) -> None:
    model, frontend, _ = await send_and_steer(tmp_path, (RESOURCE,), answer, read=("peer",))
    assert frontend.asked[-1].arguments == {"uri": "x://1"}
    assert [part.text for part in model.requests[1].messages[-1].parts] == [text, "look"]


async def test_stopping_during_the_review_of_attachments_adds_no_message(tmp_path: Path) -> None:
    async def stop(host: Any) -> None:
        host.conversation.stop()
        await anyio.sleep_forever()

    model, _, messages = await send_and_steer(tmp_path, (RESOURCE,), stop, read=("peer",))
    assert len(model.requests) == 1
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
