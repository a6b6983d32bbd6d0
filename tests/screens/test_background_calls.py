"""Tests for sending a running tool call to the background, and for what is shown until it finishes."""

import re
from time import monotonic

import pytest

from mcphost.client import timeouts
from mcphost.host import events
from mcphost.tui.key_table import build_key_table
from mcphost.tui.transcript.blocks import BackgroundResult
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.composer import ComposerInput
from tests.screens.conftest import AppDriver, Run
from tests.screens.real_program import DEMO_SERVER, Files, run_command

pytestmark = pytest.mark.anyio


def find_card(driver: AppDriver) -> ToolCard:
    return next(block for block in driver.app.chat.presenter.transcript.blocks if isinstance(block, ToolCard))


async def start_slow_call(driver: AppDriver, seconds: int) -> None:
    """Ask the demo model for a slow call, allow it, and wait until it is running."""
    await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
    await driver.type(f"count slowly to 40 in {seconds}s")
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.app.chat.pending_question_count, "the question")
    await driver.enter_question()
    await driver.pilot.press("a")
    await driver.until(lambda: find_card(driver).state == "running", "the call")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_b_on_the_card_lets_the_answer_go_on_and_the_result_comes_later(
    files: Files, size: tuple[int, int]
) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await start_slow_call(driver, 3)
        driver.app.query_one(Transcript).focus()
        await driver.pilot.press("b")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the answer")
        assert find_card(driver).state == "background"
        assert find_card(driver).is_running
        assert "in the background" in driver.transcript()
        await driver.until(lambda: driver.host.conversation.messages[-1].late_result, "the result")
        await driver.until(lambda: "Background result" in driver.transcript(), "its block")
        assert find_card(driver).state == "ok"
        await driver.until(lambda: driver.has_notified("has ended in the background: ok."), "the notice")
        late = next(one for one in driver.app.chat.presenter.transcript.blocks if isinstance(one, BackgroundResult))
        opened = late.activate()
        assert opened is not None
        assert "Counted to 40" in opened[1]


async def test_the_card_of_a_running_call_shows_its_time_without_the_open_questions(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    monkeypatch.setattr(timeouts, "monotonic", lambda: monotonic() + passed)
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await start_slow_call(driver, 60)
        passed = 300.0
        await driver.until(lambda: re.search(r"running · 30\d s", driver.transcript()), "the host's time")


async def test_going_back_lists_a_call_that_is_still_running_in_the_background(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await start_slow_call(driver, 60)
        driver.host.conversation.send_to_background(find_card(driver).call)
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the answer")
        await run_command(driver, "/rewind")
        await driver.until(lambda: re.search(r"demo · count_slowly +still running", driver.text()), "the call")


async def test_a_conversation_that_is_opened_again_shows_where_the_late_result_entered(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await start_slow_call(driver, 1)
        driver.host.conversation.send_to_background(find_card(driver).call)
        await driver.until(lambda: "Background result" in driver.transcript(), "its block")
        conversation = driver.host.conversation.id
        driver.host.conversation.open_new()
        await driver.until(lambda: "Background result" not in driver.transcript(), "the new one")
        await driver.host.conversation.open(conversation)
        await driver.until(lambda: "Background result" in driver.transcript(), "its block again")
        assert find_card(driver).state == "background"
        assert not find_card(driver).is_running


async def test_the_notice_offers_to_read_a_result_only_if_it_is_in_the_open_conversation(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.BackgroundCallEnded("c1", "files", "here", "ok"))
        await driver.until(
            lambda: driver.has_notified("here has ended in the background: ok. Ctrl+Down lets the model")
        )
        driver.host.put(events.BackgroundCallEnded("c2", "files", "elsewhere", "ok", in_open_conversation=False))
        await driver.until(
            lambda: driver.has_notified("elsewhere has ended in the background: ok. Its result is stored")
        )


async def test_a_call_that_takes_long_offers_to_go_on_without_it_and_a_click_does(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await start_slow_call(driver, 60)
        assert "run in background" not in driver.transcript()
        find_card(driver).started_at = monotonic() - 4
        driver.app.query_one(Transcript).focus()
        await driver.until(lambda: re.search(r"b run in background · running", driver.text()), "the offer")
        lines = driver.text().splitlines()
        row = next(y for y, line in enumerate(lines) if "b run in background ·" in line)
        await driver.pilot.click(offset=(lines[row].index("b run in background ·") + 3, row))
        await driver.until(lambda: find_card(driver).state == "background", "the background")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the answer")
        assert driver.host.running_calls.list()[0].is_in_background


async def test_the_offer_names_the_key_that_works_where_the_focus_is(run: Run) -> None:
    async with run(size=(100, 24), keys=build_key_table({"conversation-background": ["w"]})[0]) as driver:
        driver.host.put(events.ToolProposed("c1", "files", "read", {}))
        driver.host.put(events.ToolStarted("c1", "files", "read", {}, by="rule"))
        await driver.until(lambda: "running" in driver.transcript(), "the call")
        find_card(driver).started_at = monotonic() - 4
        assert isinstance(driver.app.focused, ComposerInput)
        await driver.until(lambda: "ctrl+t, w run in background · running" in driver.text(), "the way to the key")
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "w run in background · running" in driver.text(), "the key")
        assert "ctrl+t, w" not in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: "ctrl+t, w run in background" in driver.text(), "the way to the key again")


async def test_b_without_a_running_call_says_what_to_select(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.NoticeEvent("info", "something"))
        await driver.until(lambda: "something" in driver.transcript(), "a block")
        driver.app.query_one(Transcript).focus()
        await driver.pilot.press("b")
        await driver.until(lambda: driver.has_notified("Select a running call of the model first"), "the hint")


async def test_quitting_with_a_call_in_the_background_takes_a_second_press(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        quits = list[bool]()
        with monkeypatch.context() as patched, driver.host.running_calls.track("c1", "files", "index_files", "once"):
            patched.setattr(driver.app, "request_quit", lambda: quits.append(True))
            driver.host.running_calls.mark_background("c1")
            await driver.pilot.press("ctrl+q")
            said = "index_files still runs in the background; quitting loses its result. Press Ctrl+Q again to quit."
            await driver.until(lambda: driver.has_notified(said), "the question")
            assert quits == []
            await driver.pilot.press("ctrl+q")
            await driver.until(lambda: quits == [True], "the end")


async def test_the_second_press_to_quit_counts_only_while_its_warning_is_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.tui.app.QUIT_AGAIN_SECONDS", 0)
    async with run() as driver:
        quits = list[bool]()
        with monkeypatch.context() as patched, driver.host.running_calls.track("c1", "files", "index_files", "once"):
            patched.setattr(driver.app, "request_quit", lambda: quits.append(True))
            driver.host.running_calls.mark_background("c1")
            await driver.pilot.press("ctrl+q")
            await driver.pilot.press("ctrl+q")
            await driver.pilot.pause()
            assert quits == []
