"""Tests for messages that the user sends during a turn, which join it after the results of its tools."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.host.events import UserMessageAdded
from mcphost.host.questions.questions import AllowOnce
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
