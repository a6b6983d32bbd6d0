"""Tests for the messages of a server's prompt in a conversation: roles, content, limits and removal."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.host.conversation.attachment_fitting import AttachmentFitter
from mcphost.host.conversation.export import export_conversation
from mcphost.host.conversation.prompt_messages import (
    MAX_LINKS,
    MAX_PROMPT_MESSAGES,
    MAX_PROMPT_SIZE,
    find_links,
    is_plain_text,
    make_prompt_messages,
    read_links,
)
from mcphost.host.events import MessagesInserted
from mcphost.host.host import Host
from mcphost.host.origins.outside_texts import OutsideTexts, index_messages, outside_texts
from mcphost.llm.messages import FilePart, ImagePart, Message, PromptSource, ResourcePart, TextPart
from mcphost.llm.model import ModelFacts
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.prompts import GetPromptResult
from mcphost.protocol.resources import ReadResourceResult
from mcphost.serialization import decode, encode
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import EMPTY_LISTS, InProcessServer, open_host_with

pytestmark = pytest.mark.anyio

PNG = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
).decode()
WAV = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(24)).decode()
ALL_KINDS: tuple[dict[str, Any], ...] = (
    {"type": "text", "text": "Look at this, every\U000e0041one"},
    {"type": "text", "text": "I will."},
    {"type": "image", "data": PNG, "mimeType": "image/jpeg"},
    {"type": "audio", "data": WAV, "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///a.md", "text": "# A", "mimeType": "text/markdown"}},
    {"type": "resource", "resource": {"uri": "file:///b.png", "blob": PNG}},
    {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAE="}},
    {"type": "resource_link", "uri": "file:///d", "name": "see"},
    {"type": "hologram"},
)
FULL = ModelFacts(supports_images=True, supports_audio=True, supports_pdf=True)


def prompt_result(*contents: dict[str, Any], roles: tuple[str, ...] = ("user", "assistant")) -> GetPromptResult:
    messages = [{"role": roles[at % len(roles)], "content": content} for at, content in enumerate(contents)]
    return decode(encode({"messages": messages}), GetPromptResult)


async def convert(*contents: dict[str, Any], facts: ModelFacts = FULL, **roles: Any) -> tuple[Message, ...]:
    return await make_prompt_messages("peer", "plan", prompt_result(*contents, **roles), facts, AttachmentFitter())


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.req("prompts.get.messages")
@pytest.mark.req("prompts.content.types")
async def test_each_message_keeps_its_role_and_its_kind_of_content() -> None:
    messages = await convert(*ALL_KINDS)
    assert [message.role for message in messages] == ["user", "assistant"] * 4 + ["user"]
    assert all(message.prompt == PromptSource("peer", "plan") for message in messages)
    text, answer, image, audio, resource, picture, binary, link, unknown = (message.parts[0] for message in messages)
    assert (text, answer) == (TextPart("Look at this, everyone"), TextPart("I will."))
    assert isinstance(image, ImagePart)
    assert (image.mime_type, image.server, image.name) == ("image/png", "peer", "image of plan")
    assert isinstance(audio, FilePart)
    assert audio.mime_type == "audio/wav"
    assert resource == ResourcePart("peer", "file:///a.md", "# A", "text/markdown")
    assert isinstance(picture, ImagePart)
    assert picture.name == "file:///b.png"
    assert isinstance(binary, ResourcePart)
    assert "not attached: it has 2 bytes" in binary.text
    assert link == TextPart("[resource: see file:///d]")
    assert isinstance(unknown, TextPart)
    assert "hologram" in unknown.text


async def test_media_that_the_model_does_not_take_become_a_note() -> None:
    blind = ModelFacts(supports_images=False, supports_audio=False)
    image, audio = await convert(*ALL_KINDS[2:4], facts=blind)
    for message in (image, audio):
        (part,) = message.parts
        assert isinstance(part, ResourcePart)
        assert "this model does not accept" in part.text


async def test_linked_resources_are_read_from_the_prompts_server_within_bounds() -> None:
    result = prompt_result(say("see"), *[ALL_KINDS[7]] * (MAX_LINKS + 5), roles=("user",))
    links = find_links(result)
    assert list(links) == list(range(1, MAX_LINKS + 1))
    messages = await make_prompt_messages("peer", "plan", result, FULL, AttachmentFitter())
    asked: list[tuple[str, str]] = []

    async def read(server: str, uri: str) -> ReadResourceResult:
        asked.append((server, uri))
        return ReadResourceResult(contents=(ResourceContents(uri=uri, text=content),))

    content = "every\U000e0041one"
    done = await read_links(messages, links, read, FULL, AttachmentFitter())
    assert asked == [("peer", "file:///d")] * MAX_LINKS
    assert done[1].parts == (TextPart("[resource: see file:///d]"), ResourcePart("peer", "file:///d", "everyone"))
    assert done[0] == messages[0]
    assert done[-1] == messages[-1]
    content = "x" * (MAX_PROMPT_SIZE // 2 + 1)
    with pytest.raises(UsageError, match="The linked resources have more than"):
        await read_links(messages, links, read, FULL, AttachmentFitter())


async def test_a_role_that_the_specification_does_not_know_counts_as_the_users() -> None:
    messages = await convert(say("Obey"), say("Fine"), roles=("system", "assistant"))
    assert [message.role for message in messages] == ["user", "assistant"]


async def test_a_prompt_of_one_text_of_the_user_is_plain() -> None:
    assert is_plain_text(await convert(say("Review")))
    assert not is_plain_text(await convert(say("I am here"), roles=("assistant",)))
    assert not is_plain_text(await convert(say("one"), say("two")))
    assert not is_plain_text(await convert(ALL_KINDS[4]))


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ((), "is empty"),
        ((say("x"),) * (MAX_PROMPT_MESSAGES + 1), "has 101 messages"),
        ((say("x" * (MAX_PROMPT_SIZE // 2)),) * 2, "bytes; at most"),
    ],
)
async def test_a_prompt_with_nothing_or_too_much_is_refused(contents: tuple[dict[str, Any], ...], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        await convert(*contents)


async def test_a_prompts_text_counts_as_the_servers_and_not_as_typed() -> None:
    messages = await convert(say("The key is 4711-0815-2342-9999"), say("Noted"))
    assert [(one.server, one.source) for message in messages for one in outside_texts(message)] == [
        ("peer", "prompt plan")
    ] * 2
    index = OutsideTexts()
    assert index_messages(index, messages)
    assert not index.is_typed("4711-0815-2342-9999")
    assert not any(message.is_typed for message in messages)


@asynccontextmanager
async def open_prompt_host(folder: Path, *rounds: Any) -> AsyncGenerator[tuple[Host, ScriptedModel]]:
    model = ScriptedModel(*(rounds or (text_round("an answer"), text_round("another"))))
    server = InProcessServer(EMPTY_LISTS, "2025-11-25", {"prompts": {}}, {"name": "peer"})
    async with open_host_with(folder, server, model, ScriptedFrontend()) as host:
        yield host, model


async def test_inserted_messages_are_stored_and_the_model_is_asked_only_on_request(tmp_path: Path) -> None:
    async with open_prompt_host(tmp_path) as (host, model):
        feed = host.events.subscribe()
        await host.conversation.insert(await convert(say("Plan it"), say("I will."), say("Now")))
        assert [message.role for message in (await wait_for_event(feed, MessagesInserted)).messages] == [
            "user",
            "assistant",
            "user",
        ]
        assert not model.requests
        assert not host.conversation.is_busy
        conversation = host.conversation.id
        result = await host.conversation.continue_turn()
        assert result.text == "an answer"
        assert [message.text for message in model.requests[0].messages] == ["Plan it", "I will.", "Now"]
        host.conversation.open_new()
        await host.conversation.open(conversation)
        assert host.conversation.messages[1].prompt == PromptSource("peer", "plan")
        info = (await host.history.list_recent())[0]
        assert "Assistant, from the prompt plan of peer" in export_conversation(
            info, host.conversation.messages, "markdown"
        )


async def test_what_was_inserted_last_is_taken_back_at_once_and_stays_as_a_branch(tmp_path: Path) -> None:
    async with open_prompt_host(tmp_path) as (host, _):
        await host.conversation.send("hello")
        await host.conversation.insert(await convert(say("Plan it"), say("I will.")))
        assert host.conversation.can_undo_insert
        assert await host.conversation.undo_insert() == 2
        assert [message.text for message in host.conversation.messages] == ["hello", "an answer"]
        assert [branch.messages for branch in await host.conversation.branches.list_others()] == [4]
        with pytest.raises(UsageError, match="There is no inserted prompt to undo"):
            await host.conversation.undo_insert()


async def test_what_something_followed_or_another_conversation_has_is_not_taken_back(tmp_path: Path) -> None:
    async with open_prompt_host(tmp_path) as (host, _):
        await host.conversation.insert(await convert(say("Plan it")))
        await host.conversation.continue_turn()
        assert not host.conversation.can_undo_insert
        await host.conversation.insert(await convert(say("Again")))
        host.conversation.open_new()
        with pytest.raises(UsageError, match="There is no inserted prompt to undo"):
            await host.conversation.undo_insert()
