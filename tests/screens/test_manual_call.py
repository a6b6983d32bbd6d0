"""Tests for tool calls by the user: each has one card from start to end, and can always be stopped."""

import asyncio
from typing import Any

import pytest

from mcphost.errors import StoreError, UsageError
from mcphost.host import events
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def tool_cards(driver: Any) -> list[ToolCard]:
    return [block for block in driver.app.chat.presenter.transcript.blocks if isinstance(block, ToolCard)]


async def never_finish(call: str) -> None:
    del call
    await asyncio.Event().wait()


async def start_manual_call(driver: Any) -> None:
    await driver.type("!files/search_files pattern=x")
    await driver.pilot.press("escape", "enter")
    await driver.until(lambda: driver.host.called, "the call")


@pytest.mark.req("ui.indicate-call")
async def test_a_manual_call_is_one_card_with_its_progress_and_its_result(run: Run) -> None:
    done = asyncio.Event()

    async def waits(call: str) -> None:
        del call
        await done.wait()

    async with run(by_hand=waits) as driver:
        await start_manual_call(driver)
        driver.host.put(events.ToolProgress("hand-1", "files", 3, 14, "reading"))
        await driver.until(lambda: "3/14" in driver.transcript(), "progress")
        line = next(line for line in driver.text().splitlines() if "search_files" in line)
        assert "files · search_files" in line
        assert "running" in line
        done.set()
        await driver.until(lambda: "search_files gave" in driver.transcript(), "the result")
        assert [card.state for card in tool_cards(driver)] == ["ok"]


async def test_a_task_that_an_earlier_run_left_has_a_card_until_it_is_over(run: Run) -> None:
    async def says(host: Any, turn: int, text: str) -> str:
        del host, turn, text
        return "yes"

    async with run(turn=says) as driver:
        driver.host.put(events.ToolStarted("left-1", "files", "index", {}, "earlier"))
        driver.host.put(events.ToolProgress("left-1", "files", 0, None, "half way"))
        await driver.until(lambda: "half way" in driver.transcript(), "the status")
        assert "0  half way" not in driver.transcript()
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent and not driver.host.conversation.is_busy, "the answer")
        await driver.pilot.pause(0.05)
        assert [card.state for card in tool_cards(driver)] == ["running"]  # the end of a turn does not concern it
        driver.host.put(events.ToolFinished("left-1", "files", "index", "ok", "12 files", 3.0))
        await driver.until(lambda: "12 files" in driver.transcript(), "the result")
        assert [card.state for card in tool_cards(driver)] == ["ok"]


async def test_escape_stops_a_manual_call(run: Run) -> None:
    async with run(by_hand=never_finish) as driver:
        await start_manual_call(driver)
        await driver.until(lambda: "running" in driver.transcript())
        await driver.pilot.press("escape")
        await driver.until(lambda: [card.state for card in tool_cards(driver)] == ["stopped"], "the end of the call")


async def test_a_manual_call_continues_when_a_turn_ends_or_another_conversation_begins(run: Run) -> None:
    async def says(host: Any, turn: int, text: str) -> str:
        del turn, text
        return "yes"

    async with run(by_hand=never_finish, turn=says) as driver:
        await start_manual_call(driver)
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent and not driver.host.conversation.is_busy)
        await driver.pilot.pause(0.05)
        assert [card.state for card in tool_cards(driver)] == ["running"]
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: not tool_cards(driver), "an empty conversation")
        driver.host.put(events.ToolFinished("hand-1", "files", "search_files", "ok", "14 matches", 0.1))
        await driver.pilot.pause(0.05)
        assert not tool_cards(driver)


async def test_a_failed_manual_call_shows_its_hint_once(run: Run) -> None:
    async def fails(call: str) -> None:
        del call
        raise UsageError("It is not there.", "Look again.")

    async with run(by_hand=fails) as driver:
        await start_manual_call(driver)
        await driver.until(lambda: "Look again." in driver.transcript(), "the reason")
        await driver.pilot.pause(0.05)
        assert [card.state for card in tool_cards(driver)] == ["failed"]
        assert "Look again." in driver.transcript()


async def test_only_the_newest_calls_that_were_never_sent_are_remembered(run: Run) -> None:
    async with run() as driver:
        presenter = driver.app.chat.presenter
        running = ToolCard("hand-0", "files", "search_files", {})
        running.start({}, "user")
        presenter.add_manual_call(running)
        for number in range(1, 100):
            card = ToolCard(f"hand-{number}", "files", "search_files", {})
            presenter.add_manual_call(card)
            presenter.fail_manual_call(card, "failed", "It is not there.")
        assert list(presenter.unsent_manual_cards) == ["hand-0", *(f"hand-{number}" for number in range(79, 100))]


@pytest.mark.parametrize("text", ["!files/search_files pattern=x", "hello"])
async def test_enter_pressed_twice_at_once_sends_once(run: Run, text: str) -> None:
    async with run() as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text(text, "typed")
        composer.submit()
        composer.submit()
        await driver.until(lambda: driver.host.sent or driver.host.called, "it")
        await driver.pilot.pause()
        assert len(driver.host.sent) + len(driver.host.called) == 1
        assert "The model is still answering" not in driver.transcript()


async def test_the_card_and_the_attachment_have_the_arguments_that_a_hook_changed(run: Run) -> None:
    async with run() as driver:
        driver.host.tools.changed = {"pattern": "changed"}
        await start_manual_call(driver)
        await driver.until(lambda: "search_files gave" in driver.transcript(), "the result")
        (card,) = tool_cards(driver)
        assert (card.state, card.arguments) == ("ok", {"pattern": "changed"})
        await driver.type("/attach")
        await driver.pilot.press("escape", "enter")
        attachments = driver.app.chat.attachments
        await driver.until(lambda: attachments.parts, "the attachment")
        assert 'with the arguments {"pattern":"changed"}' in attachments.parts[0].text


async def test_two_calls_of_one_tool_keep_their_cards_when_a_hook_changes_one_to_the_other(run: Run) -> None:
    async with run() as driver:
        first, second = (ToolCard(f"mine-{name}", "files", "search_files", {"pattern": name}) for name in ("a", "b"))
        for card in (first, second):
            card.start(card.arguments or {}, "user")
            driver.app.chat.presenter.add_manual_call(card)
        driver.host.put(events.ToolStarted("mine-a", "files", "search_files", {"pattern": "b"}, "user"))
        driver.host.put(events.ToolFinished("mine-a", "files", "search_files", "ok", "found", 0.1))
        await driver.until(lambda: "ok" in {first.state, second.state}, "the result")
        assert (first.state, first.arguments, second.state) == ("ok", {"pattern": "b"}, "running")


async def test_each_call_has_an_id_of_its_own_from_its_card_to_the_host(run: Run) -> None:
    ids = list[str]()

    async def record(call: str) -> None:
        ids.append(call)

    async with run(by_hand=record) as driver:
        for count in (1, 2):
            await start_manual_call(driver)
            await driver.until(lambda count=count: len(ids) == count, "the call")
        await driver.until(lambda: [card.state for card in tool_cards(driver)] == ["ok", "ok"], "the results")
        assert [card.call for card in tool_cards(driver)] == ids
        assert len(set(ids)) == 2


@pytest.mark.parametrize("is_event_first", [True, False])
async def test_a_manual_call_that_fails_before_it_is_sent_shows_the_error_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, is_event_first: bool
) -> None:
    called, may_fail = asyncio.Event(), asyncio.Event()

    async def fail(*args: Any, **more: Any) -> None:
        del args, more
        called.set()
        await may_fail.wait()
        raise StoreError("The action was not taken: the audit log cannot be written.", "Free disk space.")

    async with run() as driver:
        monkeypatch.setattr(driver.host.tools, "call", fail)
        await driver.type("!files/search_files pattern=x")
        await driver.pilot.press("escape", "enter")
        await driver.until(called.is_set, "the call")
        (card,) = tool_cards(driver)
        finished = events.ToolFinished(card.call, "files", "search_files", "failed", "The action was not taken.", 0.2)
        if is_event_first:
            driver.host.put(finished)
            await driver.until(lambda: "The action was not taken" in driver.transcript(), "the event")
        may_fail.set()
        await driver.until(lambda: "Free disk space" in driver.transcript(), "the error with its hint")
        if not is_event_first:
            driver.host.put(finished)
            driver.host.put(events.NoticeEvent("info", "The notice after it."))
            await driver.until(lambda: "The notice after it" in driver.transcript(), "the event")
        assert [card.state for card in tool_cards(driver)] == ["failed"]
        assert driver.transcript().count("The action was not taken") == 1
