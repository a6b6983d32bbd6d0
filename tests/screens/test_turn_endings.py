"""However a turn ends, the screen says so, and the keys go where the user expects them."""

import asyncio
from typing import Any

import pytest

from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.llm.model import Usage
from mcphost.tui.transcript.blocks import NoticeBlock
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost, sample_server

pytestmark = pytest.mark.anyio


async def send(it: Any, text: str = "go") -> None:
    await it.type(text)
    await it.pilot.press("enter")
    await it.until(lambda: it.host.sent, "the message")


async def test_a_turn_that_is_stopped_before_anything_came_says_so(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(turn=forever) as it:
        await send(it)
        await it.until(lambda: it.host.conversation.is_busy)
        await it.pilot.press("escape")
        await it.until(lambda: "Stopped." in it.transcript(), "the end")


async def test_an_empty_answer_is_shown_as_empty(run: Run) -> None:
    async def nothing(host: FakeHost, turn: int, text: str) -> str:
        return ""

    async with run(turn=nothing) as it:
        await send(it)
        await it.until(lambda: "answer is empty" in it.transcript(), "the end")


async def test_repeated_tries_are_one_notice_with_the_newest_count(run: Run) -> None:
    async def trying(host: FakeHost, turn: int, text: str) -> str:
        for attempt in (1, 2, 3):
            host.put(events.ModelRetrying(turn, 0.0, "It has trouble.", attempt))
            await asyncio.sleep(0.02)
        return ""

    async with run(turn=trying) as it:
        await send(it)
        await it.until(lambda: "attempt 3" in it.transcript(), "the third")
        notices = [block for block in it.app.chat.presenter.transcript.blocks if isinstance(block, NoticeBlock)]
        assert len([block for block in notices if "trouble" in block.text]) == 1


async def test_a_failed_turn_offers_the_message_again(run: Run) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    async with run(turn=quiet) as it:
        await send(it, "my words")
        await it.until(lambda: not it.host.conversation.is_busy)
        it.host.put(events.TurnFinished(2, "failed", error="The model is down.", hint="Wait."))
        await it.until(lambda: "Wait. Press Ctrl+R to retry" in it.transcript(), "the hint")
        await it.pilot.press("up")
        assert it.app.query_one(Composer).composer_input.text == "my words"


@pytest.mark.parametrize(("said", "hint"), [("half an", "Press Ctrl+R to continue."), ("", "Press Ctrl+R to retry")])
async def test_one_key_continues_with_an_answer_that_was_cut_off_or_asks_again(run: Run, said: str, hint: str) -> None:
    async def quiet(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "x")
        return "x"

    async with run(turn=quiet) as it:
        await send(it, "my words")
        await it.until(lambda: not it.host.conversation.is_busy)
        if said:
            message = Message(role="assistant", parts=(TextPart(said),), cut=True)
            it.host.put(events.MessageFinished(2, message, Usage()))
        it.host.put(events.TurnFinished(2, "failed", error="It was cut off.", hint="Ask it to go on."))
        await it.until(lambda: hint in it.transcript(), "the key")
        await it.pilot.press("ctrl+r")
        await it.until(lambda: it.host.gone_on == 1, "the next try")
        await it.pilot.pause()
        assert it.transcript().count("my words") == 1


async def test_typing_continues_after_a_click_into_the_conversation(run: Run) -> None:
    async with run() as it:
        await it.type("be")
        await it.pilot.click("#transcript", offset=(5, 5))
        await it.type("fore")
        assert it.app.query_one(Composer).composer_input.text == "before"


async def test_a_selection_is_drawn_in_the_colours_of_a_new_theme(run: Run) -> None:
    async with run() as it:
        view = it.app.chat.presenter.transcript
        await it.pilot.mouse_down("#transcript", offset=(4, 1))
        await it.pilot.hover("#transcript", offset=(20, 1))
        await it.pilot.mouse_up("#transcript", offset=(20, 1))
        await it.until(it.app.screen.get_selected_text, "a selection")
        it.text()
        await it.pilot.press("ctrl+l")
        await it.pilot.pause()
        background = it.app.chat.styles.background.rich_color.triplet
        grounds = {segment.style.bgcolor.triplet for segment in view.render_line(1) if segment.style.bgcolor}
        assert background in grounds


async def test_the_page_of_an_unapproved_server_says_how_to_be_asked_again(run: Run) -> None:
    async with run(
        views=(sample_server("files", "untrusted", hint="mcphost servers trust files"),), size=(80, 24)
    ) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "r asks you again" in it.text(), "the next step")
        await it.pilot.press("r")
        await it.until(lambda: it.host.restarted == ["files"])


@pytest.mark.parametrize("detail", ["The server 'files' ended.", "It ended."])
async def test_a_server_that_failed_is_named_once(run: Run, detail: str) -> None:
    async with run() as it:
        it.host.put(events.ServerState("files", "failed", detail=detail))
        await it.until(lambda: detail in it.transcript(), "the notice")
        notice = next(block for block in it.app.chat.presenter.transcript.blocks if detail in block.copy_text())
        assert notice.copy_text().count("files") == 1
