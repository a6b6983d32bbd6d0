"""Calling a tool by hand: one card from beginning to end, stopped like an answer, whatever else happens meanwhile."""

import asyncio
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.host import events
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def cards(it: Any) -> list[ToolCard]:
    return [block for block in it.app.chat.presenter.transcript.blocks if isinstance(block, ToolCard)]


async def forever(call: str) -> None:
    del call
    await asyncio.Event().wait()


async def call(it: Any) -> None:
    await it.type("!files/search_files pattern=x")
    await it.pilot.press("escape", "enter")
    await it.until(lambda: it.host.called, "the call")


@pytest.mark.req("ui.indicate-call")
async def test_a_call_by_hand_is_one_card_with_its_progress_and_its_result(run: Run) -> None:
    done = asyncio.Event()

    async def waits(call: str) -> None:
        del call
        await done.wait()

    async with run(by_hand=waits) as it:
        await call(it)
        it.host.put(events.ToolProgress("hand-1", "files", 3, 14, "reading"))
        await it.until(lambda: "3/14" in it.transcript(), "progress")
        line = next(line for line in it.text().splitlines() if "search_files" in line)
        assert "files · search_files" in line
        assert "running" in line
        done.set()
        await it.until(lambda: "search_files gave" in it.transcript(), "the result")
        assert [card.state for card in cards(it)] == ["ok"]


async def test_a_task_that_an_earlier_run_left_has_a_card_until_it_is_over(run: Run) -> None:
    async def says(host: Any, turn: int, text: str) -> str:
        del host, turn, text
        return "yes"

    async with run(turn=says) as it:
        it.host.put(events.ToolStarted("left-1", "files", "index", {}, "earlier"))
        it.host.put(events.ToolProgress("left-1", "files", 0, None, "half way"))
        await it.until(lambda: "half way" in it.transcript(), "the status")
        assert "0  half way" not in it.transcript()
        await it.type("hello")
        await it.pilot.press("enter")
        await it.until(lambda: it.host.sent and not it.host.conversation.is_busy, "the answer")
        await it.pilot.pause(0.05)
        assert [card.state for card in cards(it)] == ["running"]  # a turn that ends is none of its
        it.host.put(events.ToolFinished("left-1", "files", "index", "ok", "12 files", 3.0))
        await it.until(lambda: "12 files" in it.transcript(), "the result")
        assert [card.state for card in cards(it)] == ["ok"]


async def test_escape_stops_a_call_by_hand(run: Run) -> None:
    async with run(by_hand=forever) as it:
        await call(it)
        await it.until(lambda: "running" in it.transcript())
        await it.pilot.press("escape")
        await it.until(lambda: [card.state for card in cards(it)] == ["stopped"], "the end of the call")


async def test_a_call_by_hand_continues_when_a_turn_ends_or_another_conversation_begins(run: Run) -> None:
    async def says(host: Any, turn: int, text: str) -> str:
        del turn, text
        return "yes"

    async with run(by_hand=forever, turn=says) as it:
        await call(it)
        await it.type("hello")
        await it.pilot.press("enter")
        await it.until(lambda: it.host.sent and not it.host.conversation.is_busy)
        await it.pilot.pause(0.05)
        assert [card.state for card in cards(it)] == ["running"]
        await it.pilot.press("ctrl+n")
        await it.until(lambda: not cards(it), "an empty conversation")
        it.host.put(events.ToolFinished("hand-1", "files", "search_files", "ok", "14 matches", 0.1))
        await it.pilot.pause(0.05)
        assert not cards(it)


async def test_a_call_by_hand_that_fails_says_what_to_do_once(run: Run) -> None:
    async def fails(call: str) -> None:
        del call
        raise UsageError("It is not there.", "Look again.")

    async with run(by_hand=fails) as it:
        await call(it)
        await it.until(lambda: "Look again." in it.transcript(), "the reason")
        await it.pilot.pause(0.05)
        assert [card.state for card in cards(it)] == ["failed"]
        assert "Look again." in it.transcript()


@pytest.mark.parametrize("text", ["!files/search_files pattern=x", "hello"])
async def test_enter_pressed_twice_at_once_sends_once(run: Run, text: str) -> None:
    async with run() as it:
        composer = it.app.chat.query_one(Composer)
        composer.set_text(text, "typed")
        composer.submit()
        composer.submit()
        await it.until(lambda: it.host.sent or it.host.called, "it")
        await it.pilot.pause()
        assert len(it.host.sent) + len(it.host.called) == 1
        assert "A turn is running" not in it.transcript()
