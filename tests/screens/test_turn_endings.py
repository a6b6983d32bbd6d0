"""Tests that every way a turn can end is shown and leaves the focus where the user expects it."""

import asyncio
from typing import Any

import pytest

from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.llm.model import Usage
from mcphost.serialization import replace
from mcphost.tui.key_table import DEFAULT_KEYS
from mcphost.tui.screens.input_history_search import InputHistoryScreen
from mcphost.tui.transcript.blocks import NoticeBlock
from mcphost.tui.transcript.notices import build_unanswered_notice
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost, sample_server

pytestmark = pytest.mark.anyio


async def send_message(driver: Any, text: str = "go") -> None:
    await driver.type(text)
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.host.sent, "the message")


async def test_a_turn_stopped_before_any_output_is_reported(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(turn=forever) as driver:
        await send_message(driver)
        await driver.until(lambda: driver.host.conversation.is_busy)
        await driver.pilot.press("escape")
        await driver.until(lambda: "Stopped." in driver.transcript(), "the end")


async def test_an_empty_answer_is_shown_as_empty(run: Run) -> None:
    async def nothing(host: FakeHost, turn: int, text: str) -> str:
        return ""

    async with run(turn=nothing) as driver:
        await send_message(driver)
        await driver.until(lambda: "answer is empty" in driver.transcript(), "the end")


async def test_repeated_retries_are_one_notice_with_the_newest_count(run: Run) -> None:
    async def trying(host: FakeHost, turn: int, text: str) -> str:
        for attempt in (1, 2, 3):
            host.put(events.ModelRetrying(turn, 0.0, "It has trouble.", attempt))
            await asyncio.sleep(0.02)
        return ""

    async with run(turn=trying) as driver:
        await send_message(driver)
        await driver.until(lambda: "attempt 3" in driver.transcript(), "the third")
        notices = [block for block in driver.app.chat.presenter.transcript.blocks if isinstance(block, NoticeBlock)]
        assert len([block for block in notices if "trouble" in block.text]) == 1


async def test_a_failed_turn_offers_the_message_again(run: Run) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    async with run(turn=quiet) as driver:
        await send_message(driver, "my words")
        await driver.until(lambda: not driver.host.conversation.is_busy)
        driver.host.put(events.TurnFinished(2, "failed", error="The model is down.", hint="Wait."))
        await driver.until(lambda: "Wait. Press Ctrl+Down to retry" in driver.transcript(), "the hint")
        await driver.pilot.press("up")
        assert driver.app.query_one(Composer).composer_input.text == "my words"


@pytest.mark.parametrize(
    ("text", "hint"), [("half an", "Press Ctrl+Down to continue."), ("", "Press Ctrl+Down to retry")]
)
async def test_one_key_continues_with_an_answer_that_was_cut_off_or_asks_again(run: Run, text: str, hint: str) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    async with run(turn=quiet) as driver:
        await send_message(driver, "my words")
        await driver.until(lambda: not driver.host.conversation.is_busy)
        if text:
            message = Message(role="assistant", parts=(TextPart(text),), cut=True)
            driver.host.put(events.MessageFinished(2, message, Usage()))
        driver.host.put(events.TurnFinished(2, "failed", error="It was cut off.", hint="Ask it to continue."))
        await driver.until(lambda: hint in driver.transcript(), "the key")
        await driver.pilot.press("ctrl+down")
        await driver.until(lambda: driver.host.gone_on == 1, "the next try")
        await driver.pilot.pause()
        assert driver.transcript().count("my words") == 1


async def test_a_stopped_answer_names_the_key_that_continues_it_until_the_next_turn(run: Run) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    hint = "Press Ctrl+Down to continue."
    async with run(turn=quiet) as driver:
        await send_message(driver, "my words")
        await driver.until(lambda: not driver.host.conversation.is_busy)
        message = Message(role="assistant", parts=(TextPart("half an"),), cut=True)
        driver.host.put(events.MessageFinished(2, message, Usage()))
        driver.host.put(events.TurnFinished(2, "stopped"))
        await driver.until(lambda: driver.transcript().rstrip().endswith(hint), "the key")
        await driver.pilot.press("ctrl+down")
        await driver.until(lambda: driver.host.gone_on == 1, "the continued answer")
        driver.host.put(events.TurnStarted(3, Message(role="user", parts=(TextPart("Go on."),), is_automatic=True)))
        await driver.until(lambda: "Go on." in driver.transcript(), "the next turn")
        assert hint not in driver.transcript()


def test_an_opened_conversation_that_ends_with_a_part_of_an_answer_names_the_key_that_continues_it() -> None:
    asked = Message(role="user", parts=(TextPart("hi"),))
    answer = Message(role="assistant", parts=(TextPart("half an"),), cut=True)
    notice = build_unanswered_notice((asked, answer), DEFAULT_KEYS.fill)
    assert notice is not None
    assert notice.text == "Press Ctrl+Down to continue."
    assert build_unanswered_notice((asked, replace(answer, cut=False)), DEFAULT_KEYS.fill) is None


@pytest.mark.parametrize("key", ["ctrl+r", "ctrl+up"])
async def test_after_a_cut_answer_the_search_keys_search_and_send_nothing(run: Run, key: str) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    async with run(turn=quiet) as driver:
        await send_message(driver, "my words")
        await driver.until(lambda: not driver.host.conversation.is_busy)
        driver.host.put(events.TurnFinished(2, "failed", error="It was cut off."))
        await driver.until(lambda: "Press Ctrl+Down to" in driver.transcript(), "the key")
        await driver.pilot.press(key)
        await driver.until(lambda: isinstance(driver.app.screen, InputHistoryScreen), "the search")
        await driver.pilot.press("ctrl+down", "escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert not driver.host.gone_on


async def test_the_words_that_continue_an_answer_are_not_shown_as_those_of_the_user(run: Run) -> None:
    async with run() as driver:
        message = Message(role="user", parts=(TextPart("Continue exactly there."),), is_automatic=True)
        driver.host.put(events.TurnStarted(1, message))
        await driver.until(lambda: "Continue exactly there." in driver.transcript(), "the message")
        assert "mcphost  to continue the answer" in driver.transcript()
        assert not any(line.split()[:1] == ["You"] for line in driver.transcript().splitlines())


async def test_typing_continues_after_a_click_into_the_conversation(run: Run) -> None:
    async with run() as driver:
        await driver.type("be")
        await driver.pilot.click("#transcript", offset=(5, 5))
        await driver.type("fore")
        assert driver.app.query_one(Composer).composer_input.text == "before"


async def test_a_selection_is_drawn_in_the_colours_of_a_new_theme(run: Run) -> None:
    async with run() as driver:
        view = driver.app.chat.presenter.transcript
        await driver.pilot.mouse_down("#transcript", offset=(4, 1))
        await driver.pilot.hover("#transcript", offset=(20, 1))
        await driver.pilot.mouse_up("#transcript", offset=(20, 1))
        await driver.until(driver.app.screen.get_selected_text, "a selection")
        driver.text()
        await driver.pilot.press("ctrl+l")
        await driver.pilot.pause()
        background = driver.app.chat.styles.background.rich_color.triplet
        grounds = {segment.style.bgcolor.triplet for segment in view.render_line(1) if segment.style.bgcolor}
        assert background in grounds


async def test_the_page_of_an_unapproved_server_shows_how_to_be_asked_again(run: Run) -> None:
    async with run(
        views=(sample_server("files", "untrusted", hint="mcphost servers trust files"),), size=(80, 24)
    ) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "r shows the question again" in driver.text(), "the next step")
        await driver.pilot.press("r")
        await driver.until(lambda: driver.host.restarted == ["files"])


@pytest.mark.parametrize("detail", ["The server 'files' ended.", "It ended."])
async def test_a_server_that_failed_is_named_once(run: Run, detail: str) -> None:
    async with run() as driver:
        driver.host.put(events.ServerState("files", "failed", detail=detail))
        await driver.until(lambda: detail in driver.transcript(), "the notice")
        notice = next(block for block in driver.app.chat.presenter.transcript.blocks if detail in block.copy_text())
        assert notice.copy_text().count("files") == 1
