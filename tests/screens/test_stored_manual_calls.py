"""Tests that manual calls stay with their conversation, are exported, and can be attached later, with their images."""

import asyncio
import sys
from typing import Any

import pytest

from mcphost.host.content_rendering import USER_ONLY_TEXT
from mcphost.llm.messages import ImagePart, ResourcePart
from mcphost.llm.model import ModelFacts
from mcphost.store.manual_calls import ManualCallStore, StoredManualCall
from mcphost.store.page_results import StoredPageCall
from mcphost.tui.transcript.tool_card import ToolCard
from tests.flows.inline_servers import HANDSHAKE_SERVER
from tests.screens.conftest import Run
from tests.screens.real_program import DEMO_SERVER, Files, run_command
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio
IMAGE = sunset_image(10, 10)
PICTURE = f'answer({{"content": [{{"type": "image", "mimeType": "image/png", "data": "{IMAGE.data}"}}]}})'


def list_cards(driver: Any) -> list[ToolCard]:
    return [block for block in driver.app.chat.presenter.transcript.blocks if isinstance(block, ToolCard)]


async def call_add(driver: Any, a: int, b: int) -> None:
    await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the server")
    await run_command(driver, f"!demo/add a={a} b={b}")
    await driver.until(lambda: any(str(a + b) in card.result for card in list_cards(driver)), "the result")
    await driver.until(lambda: not driver.app.chat.manual_calls.is_running, "the end")


async def test_a_manual_call_is_shown_again_at_its_place_after_a_restart(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await driver.host.conversation.send("first question")
        await call_add(driver, 40, 2)
        await driver.host.conversation.send("second question")
        ident = driver.host.conversation.id
    async with files.open() as driver:
        await driver.host.conversation.open(ident)
        await driver.until(lambda: list_cards(driver), "the card")
        (card,) = list_cards(driver)
        assert (card.server, card.tool, card.arguments, card.state) == ("demo", "add", {"a": 40, "b": 2}, "ok")
        assert "42" in card.result
        shown = [block.search_text() for block in driver.app.chat.presenter.transcript.blocks]
        places = [next(at for at, text in enumerate(shown) if said in text) for said in ("first", "40", "second")]
        assert places == sorted(places)
        assert not any("40 + 2" in message.text for message in driver.host.conversation.messages)


async def test_a_manual_call_before_any_message_is_stored_and_exported(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await call_add(driver, 40, 2)
        conversation: Any = driver.host.conversation
        await driver.until(lambda: conversation.can_be_resumed, "the stored call")
        (info,) = await driver.host.history.list_recent()
        assert (info.title, info.messages) == ("demo/add", 0)
    async with files.open() as driver:
        await driver.host.conversation.open(info.id)
        await driver.until(lambda: list_cards(driver), "the card")
        await run_command(driver, "/export calls.md")
        await driver.until(lambda: driver.has_notified("Wrote"), "the file")
        text = (files.folder.parent / "calls.md").read_text()
        assert text.index("By hand, not sent to the model") < text.index("`demo/add`") < text.index("42")
        conversation = driver.host.conversation
        await conversation.send("And now?")
        assert conversation.title == "And now?"


async def test_stored_results_can_be_attached_newest_first(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await call_add(driver, 40, 2)
        await call_add(driver, 50, 3)
        ident = driver.host.conversation.id
    async with files.open() as driver:
        await driver.host.conversation.open(ident)
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the server")
        for count, said in enumerate(("53", "42"), 1):
            await driver.app.run_action("attach_result")
            await driver.until(lambda count=count: len(driver.app.chat.attachments.parts) == count, "the result")
            part = driver.app.chat.attachments.parts[-1]
            assert isinstance(part, ResourcePart)
            assert said in part.text
        await driver.app.run_action("attach_result")
        await driver.until(lambda: driver.has_notified("There is no other result to attach"), "the reason")


async def test_a_result_is_offered_only_to_the_conversation_in_which_the_call_was_made(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await call_add(driver, 40, 2)
        ident = driver.host.conversation.id
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: not list_cards(driver), "an empty conversation")
        await driver.app.run_action("attach_result")
        await driver.until(lambda: driver.has_notified("There is no result to attach"), "the reason")
        assert not driver.app.chat.attachments.parts
        await driver.host.conversation.open(ident)
        await driver.app.run_action("attach_result")
        await driver.until(lambda: len(driver.app.chat.attachments.parts) == 1, "the result")


async def test_escape_after_the_end_of_a_call_keeps_its_result_once(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_servers(demo=DEMO_SERVER)
    is_stored, may_continue, add = asyncio.Event(), asyncio.Event(), ManualCallStore.add

    async def add_slowly(
        store: ManualCallStore,
        ident: str,
        call: StoredManualCall,
        page: StoredPageCall | None = None,
        *,
        title: str = "",
    ) -> None:
        await add(store, ident, call, page, title=title)
        is_stored.set()
        await may_continue.wait()

    monkeypatch.setattr(ManualCallStore, "add", add_slowly)
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the server")
        await run_command(driver, "!demo/add a=40 b=2")
        await is_stored.wait()
        await driver.pilot.press("escape")
        driver.app.chat.manual_calls.stop()
        await driver.until(lambda: not driver.app.chat.manual_calls.is_running, "the end")
        may_continue.set()
        assert [call.outcome for call in driver.host.conversation.manual_calls] == ["ok"]
        assert [card.state for card in list_cards(driver)] == ["ok"]
        ident = driver.host.conversation.id
    async with files.open() as driver:
        await driver.host.conversation.open(ident)
        assert [call.outcome for call in driver.host.conversation.manual_calls] == ["ok"]


async def test_a_stopped_or_failed_call_is_kept_with_its_reason(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the server")
        await run_command(driver, "!nosuch/add a=1")
        await driver.until(lambda: driver.host.conversation.manual_calls, "the call")
        (call,) = driver.host.conversation.manual_calls
        assert call.outcome == "failed"
        assert "There is no server named 'nosuch'" in call.text


async def test_the_images_of_a_result_are_stored_with_it(files: Files) -> None:
    code = HANDSHAKE_SERVER.format(start="", call=PICTURE)
    files.write_servers(art={"command": sys.executable, "args": ["-c", code]})
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("art").state == "ready", "the server")
        await run_command(driver, "!art/t")
        await driver.until(lambda: driver.host.conversation.manual_calls, "the call")
        (call,) = driver.host.conversation.manual_calls
        assert [(image.mime_type, image.data) for image in call.images] == [("image/png", IMAGE.data)]


async def test_only_what_the_model_may_receive_is_attached_also_after_a_restart(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_user = {"annotations": {"audience": ["user"]}}
    image = {"type": "image", "mimeType": "image/png"}
    content = [
        {"type": "text", "text": "for all"},
        {"type": "text", "text": "the secret", **for_user},
        {**image, "data": sunset_image(20, 10).data, **for_user},
        {**image, "data": IMAGE.data},
    ]
    code = HANDSHAKE_SERVER.format(start="", call=f"answer({{'content': {content!r}}})")
    code = code.replace('"inputSchema"', '"outputSchema": {"type": "object", "required": ["n"]}, "inputSchema"')
    files.write_servers(art={"command": sys.executable, "args": ["-c", code]})
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("art").state == "ready", "the server")
        await run_command(driver, "!art/t")
        await driver.until(lambda: driver.host.conversation.manual_calls, "the call")
        (call,) = driver.host.conversation.manual_calls
        assert "the secret" in call.text
        assert call.text.startswith("[mcphost: ")
        assert len(call.images) == 2
        await check_attachments(driver, monkeypatch)
        await driver.until(lambda: driver.host.conversation.can_be_resumed, "the stored call")
        ident = driver.host.conversation.id
    async with files.open() as driver:
        await driver.host.conversation.open(ident)
        await driver.until(lambda: driver.host.servers.view("art").state == "ready", "the server")
        await check_attachments(driver, monkeypatch)


async def check_attachments(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attach the latest result, and check that it contains nothing that is meant only for the user."""
    monkeypatch.setattr(type(driver.host.model_selection.model), "facts", ModelFacts(supports_images=True))
    parts = driver.app.chat.attachments.parts
    await driver.app.run_action("attach_result")
    await driver.until(lambda: any(isinstance(part, ImagePart) for part in parts), "the attachments")
    text, *images = parts
    assert "for all" in text.text
    assert USER_ONLY_TEXT in text.text
    assert "the secret" not in text.text
    assert "[mcphost: " not in text.text
    assert [image.data for image in images] == [IMAGE.data]


@pytest.mark.parametrize("accepts_images", [True, False, None])
async def test_an_attached_result_brings_its_images_if_the_model_takes_them(
    run: Run, monkeypatch: pytest.MonkeyPatch, accepts_images: bool | None
) -> None:
    async with run() as driver:
        call = StoredManualCall("files", "draw", {}, "ok", "[image]", at=1.0, images=(IMAGE,))
        driver.host.conversation.manual_calls.append(call)
        facts = ModelFacts(supports_images=accepts_images)
        monkeypatch.setattr(driver.host.model_selection.model, "facts", facts)
        await driver.app.run_action("attach_result")
        parts = driver.app.chat.attachments.parts
        if accepts_images is False:
            await driver.until(lambda: "does not accept images" in driver.transcript(), "the note")
            assert [type(part) for part in parts] == [ResourcePart]
        else:
            await driver.until(lambda: len(parts) == 2, "the attachments")
            text, image = parts
            assert isinstance(text, ResourcePart)
            assert isinstance(image, ImagePart)
            assert (image.mime_type, image.data, image.server) == ("image/png", IMAGE.data, "files")
