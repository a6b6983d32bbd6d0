"""Tests for prompts with several messages or media: previewed with roles, inserted, and removed again."""

from typing import Any

import pytest

from mcphost.errors import RequestRefused
from mcphost.llm.messages import Message, ResourcePart, TextPart
from mcphost.protocol.prompts import GetPromptResult
from mcphost.serialization import decode, encode
from mcphost.tui.screens.prompts import PromptPreview
from mcphost.tui.widgets.image_view import ImageView
from tests.fakes.clock import ManualClock
from tests.screens.conftest import AppDriver, Run
from tests.screens.real_program import composer_text
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio

PLAN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("user", {"type": "text", "text": "Plan \x1b[31mthe trip"}),
    ("assistant", {"type": "text", "text": "I *will* plan it."}),
    (
        "user",
        {"type": "resource", "resource": {"uri": "file:///map.md", "text": "# The map", "mimeType": "text/plain"}},
    ),
    ("assistant", {"type": "image", "data": sunset_image().data, "mimeType": "image/png"}),
    ("user", {"type": "resource_link", "uri": "file:///more", "name": "more"}),
)


async def open_preview(driver: AppDriver, *messages: tuple[str, dict[str, Any]]) -> None:
    """Open the preview of the prompt `greet` of the server `files`, which returns these messages."""
    body = {"messages": [{"role": role, "content": content} for role, content in messages or PLAN]}

    async def answer(server: str, name: str, arguments: dict[str, str]) -> GetPromptResult:
        return decode(encode(body), GetPromptResult)

    driver.host.features.get_prompt = answer  # type: ignore[method-assign]
    await driver.type("/files:gre")
    await driver.pilot.press("enter")
    await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
    await driver.pilot.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, PromptPreview), "the preview")
    await driver.until(lambda: "User  1 of" in driver.text(), "the messages")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_pictures_are_drawn_beside_each_other_with_the_numbers_of_their_messages(
    run: Run, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    async with run(size=size) as driver:
        await open_preview(driver, *PLAN, PLAN[3])
        await driver.until(lambda: len(driver.app.screen.query(ImageView)) == 2, "the pictures")
        await driver.until(lambda: all(view.drawing for view in driver.app.screen.query(ImageView)), "both drawn")
        shown = driver.text()
        assert any("4 of 6  image of greet" in line and "6 of 6  image of greet" in line for line in shown.splitlines())
        assert "▀" in shown
        assert "Plan" in shown
        assert "Insert" in shown


async def test_pictures_are_only_named_where_the_terminal_cannot_draw_them(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with run(size=(120, 40)) as driver:
        await open_preview(driver)
        assert "[image of greet: image/png, about" in driver.text()
        assert not driver.app.screen.query(ImageView)


@pytest.mark.req("prompts.get.messages")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_each_message_is_shown_with_its_role_and_content_before_anything_is_inserted(
    run: Run, size: tuple[int, int]
) -> None:
    async with run(size=size) as driver:
        await open_preview(driver)
        await driver.pilot.press("pagedown", "pageup")
        shown = driver.text()
        for text in ("files · greet · 5 messages", "Plan [31mthe trip", "Assistant  2 of 5", "I *will* plan it."):
            assert text in shown
        assert "The server wrote all of this" in shown
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert not driver.host.conversation.messages
        assert composer_text(driver) == ""


async def test_inserted_messages_are_in_the_conversation_with_their_source_and_one_key_takes_them_back(
    run: Run,
) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.conversation.messages = (Message(role="user", parts=(TextPart("before"),)),)
        await open_preview(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "User  from the prompt greet of files" in driver.transcript(), "the messages")
        assert driver.has_notified("5 messages of files · greet inserted. Alt+U undoes it.")
        shown = driver.transcript()
        assert "Assistant  from the prompt greet of files" in shown
        assert "@ files · file:///map.md  (9 characters)" in shown
        assert "image of greet" in shown
        roles = [message.role for message in driver.host.conversation.messages]
        assert roles == ["user", "user", "assistant", "user", "assistant", "user"]
        assert not driver.host.gone_on, "the model is not asked"
        await driver.type("draft")
        await driver.pilot.press("alt+u")
        await driver.until(lambda: "from the prompt" not in driver.transcript(), "the rollback")
        assert [message.text for message in driver.host.conversation.messages] == ["before"]
        assert composer_text(driver) == "draft"
        await driver.pilot.press("alt+u")
        await driver.until(lambda: driver.has_notified("There is no inserted prompt to undo."), "the reason")


async def test_enter_held_down_since_the_form_inserts_nothing(run: Run, clock: ManualClock) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver)
        for _ in range(20):
            await driver.pilot.press("enter")
            clock.now += 0.03
        assert not driver.host.conversation.messages
        await driver.until(lambda: not driver.app.screen.query("Button.-active"), "the end of the button's effect")
        clock.now += 0.5
        await driver.pilot.press("enter")
        await driver.until(lambda: len(driver.host.conversation.messages) == 5, "the messages")


async def test_insert_and_send_lets_the_model_answer_and_is_offered_after_a_message_of_the_user_only(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver, *PLAN[:2])
        assert not driver.app.screen.query("#answer")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.pilot.press("ctrl+u")
        await open_preview(driver, *PLAN)
        await driver.pilot.press("tab", "enter")
        await driver.until(lambda: driver.host.gone_on, "the request")
        assert len(driver.host.conversation.messages) == 5
        assert driver.transcript().count("more") == 1 + driver.transcript().count("file:///more"), "shown once"


async def test_linked_resources_are_read_on_request_and_shown_before_they_are_inserted(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver, PLAN[0], PLAN[4])
        assert "It reads files." not in driver.text()
        await driver.pilot.press("tab", "tab", "enter")
        await driver.until(lambda: "It reads files." in driver.text(), "the content")
        await driver.until(lambda: not driver.app.screen.query("#read_links"), "one reading")
        await driver.pilot.press("enter")
        await driver.until(lambda: "@ files · file:///more" in driver.transcript(), "the attachment")
        link, content = driver.host.conversation.messages[-1].parts
        assert link == TextPart("[resource: more file:///more]")
        assert content == ResourcePart("files", "file:///more", "# A project\n\nIt reads files.\n", "text/markdown")


async def test_linked_resources_that_were_read_are_in_the_text_to_edit(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver, PLAN[0], PLAN[4])
        await driver.pilot.press("tab", "tab", "enter")
        await driver.until(lambda: "It reads files." in driver.text(), "the content")
        await driver.until(lambda: not driver.app.screen.query("#read_links"), "one reading")
        driver.app.screen.action_edit()
        await driver.until(lambda: "the trip" in composer_text(driver), "the text of the prompt")
        assert "It reads files." in composer_text(driver)
        assert driver.host.features.noted == [("files", "prompt greet", composer_text(driver))]


async def test_a_link_that_cannot_be_read_is_reported_and_stays_a_link(run: Run) -> None:
    async def refuse(server: str, uri: str) -> Any:
        raise RequestRefused(f"There is no {uri}.", code=-32002)

    async with run(size=(120, 40)) as driver:
        driver.host.features.read_resource = refuse  # type: ignore[method-assign]
        await open_preview(driver, PLAN[0], PLAN[4])
        await driver.pilot.press("tab", "tab", "enter")
        await driver.until(lambda: "There is no file:///more." in driver.text(), "the reason")
        await driver.pilot.press("shift+tab", "shift+tab", "enter")
        await driver.until(lambda: driver.host.conversation.messages, "the messages")
        assert len(driver.host.conversation.messages[-1].parts) == 1


async def test_edit_as_text_puts_everything_into_the_composer(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver, *PLAN[:2])
        await driver.pilot.press("tab", "enter")
        await driver.until(lambda: composer_text(driver).startswith("user: Plan ␛[31mthe trip"), "the text")
        assert "assistant: I *will* plan it." in composer_text(driver)
        assert not driver.host.conversation.messages


async def test_nothing_is_inserted_during_an_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(size=(120, 40)) as driver:
        await open_preview(driver)
        monkeypatch.setattr(type(driver.host.conversation), "is_busy", property(lambda _: True))
        await driver.pilot.press("enter")
        await driver.until(lambda: "Still answering." in driver.text(), "the reason")
        assert isinstance(driver.app.screen, PromptPreview)
        monkeypatch.undo()


async def test_a_prompt_that_is_too_long_is_refused_on_its_form(run: Run) -> None:
    async def answer(server: str, name: str, arguments: dict[str, str]) -> GetPromptResult:
        message = {"role": "user", "content": {"type": "text", "text": "x"}}
        return decode(encode({"messages": [message] * 101}), GetPromptResult)

    async with run(size=(120, 40)) as driver:
        driver.host.features.get_prompt = answer  # type: ignore[method-assign]
        await driver.type("/files:gre")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await driver.pilot.press("enter")
        await driver.until(lambda: "has 101 messages; at most 100 can be inserted" in driver.text(), "the reason")
