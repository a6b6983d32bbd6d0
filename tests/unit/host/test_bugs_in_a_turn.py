"""Tests for bugs during a turn or a change of the conversation: they are reported, and the host continues."""

from pathlib import Path

import pytest

from mcphost.errors import McpHostError
from mcphost.host.conversation.background_results import BackgroundResults
from mcphost.host.conversation_messages import Conversation
from mcphost.llm.messages import Message, TextPart
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.scripted_host import create_peer, open_host_with

pytestmark = pytest.mark.anyio


async def test_a_bug_before_the_model_is_asked_is_reported_and_the_next_message_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(text_round("hello"))
    async with open_host_with(tmp_path, create_peer(), model) as host:
        with monkeypatch.context() as patch:
            patch.setattr(Conversation, "append", _fail)
            with pytest.raises(McpHostError, match="mcphost crashed: ZeroDivisionError"):
                await host.conversation.send("hi")
        assert (await host.conversation.send("hi")).text == "hello"


async def test_a_bug_while_messages_are_inserted_is_reported_and_the_host_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(text_round("hello"))
    async with open_host_with(tmp_path, create_peer(), model) as host:
        with monkeypatch.context() as patch:
            patch.setattr(Conversation, "append", _fail)
            with pytest.raises(McpHostError, match="mcphost crashed"):
                await host.conversation.insert([Message(role="user", parts=(TextPart("x"),))])
        assert (await host.conversation.send("hi")).text == "hello"


async def test_a_bug_in_the_delivery_of_background_results_does_not_end_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    async with open_host_with(tmp_path, create_peer(), model) as host:
        with monkeypatch.context() as patch:
            patch.setattr(BackgroundResults, "deliver", _fail)
            assert (await host.conversation.send("hi")).text == "one"
        assert (await host.conversation.send("hi")).text == "two"


async def _fail(*_: object) -> None:
    raise ZeroDivisionError
