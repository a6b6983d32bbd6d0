"""Tests for auto-approval by keyboard: selecting tools, the banner, and the key that stops it on every screen."""

import pytest

from mcphost.host import events
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.questions.questions import ContinueTurn
from mcphost.serialization import replace
from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def test_tools_are_picked_and_started_and_the_banner_stays_until_the_kill_key(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f9")
        await driver.until(lambda: "Auto-approve" in driver.text())
        await driver.pilot.press("down", "down", "space", "ctrl+s")
        await driver.until(lambda: "AUTO-APPROVE ON" in driver.text())
        ((tools, budget),) = driver.host.auto_approval.started
        assert tools == [("files", "list_files")]
        assert (budget.calls, budget.seconds) == (50, 1800)
        assert "50 calls left" in driver.text()
        assert "F9 turns it off and stops running tools" in driver.text()
        await driver.pilot.press("f9")
        await driver.until(lambda: "AUTO-APPROVE ON" not in driver.text())
        assert driver.host.halted == 1


async def test_the_kill_key_works_over_a_question(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.auto_approval.start([("files", "read_file")], AutoApprovalBudget())
        PendingQuestion(driver, ContinueTurn(server="", why="w", rounds=25))
        await driver.enter_question()
        await driver.pilot.press("f9")
        await driver.until(lambda: driver.host.halted == 1)


async def test_the_banner_shows_the_limit_that_ends_first(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        auto = driver.host.auto_approval
        status = auto.start([("files", "read_file")], AutoApprovalBudget(calls=50, seconds=1800, tokens=200_000))
        auto.status = replace(status, remaining=AutoApprovalBudget(calls=40, seconds=300, tokens=190_000))
        driver.app.chat.refresh_status()
        await driver.until(lambda: "5 min left" in driver.text(), "the time")
        assert "calls left" not in driver.text()
        assert "You approve each" not in driver.text()


async def test_nothing_starts_when_nothing_is_picked_or_a_limit_is_missing(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f9")
        await driver.until(lambda: "Auto-approve" in driver.text())
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "No tool is selected" in driver.text())
        await driver.pilot.press("down", "space", "tab", "ctrl+u", "ctrl+s")
        await driver.until(lambda: "Enter a number for calls" in driver.text())
        await driver.pilot.press("escape")
        await driver.until(lambda: "Auto-approve" not in driver.text())
        assert driver.host.auto_approval.started == []


@pytest.mark.parametrize(
    ("is_starting", "said"), [(True, "The servers are still starting."), (False, "No tool of a ready server")]
)
async def test_the_form_does_not_deny_tools_of_servers_that_are_still_starting(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_starting: bool, said: str
) -> None:
    async with run(size=(80, 24)) as driver:
        monkeypatch.setattr(driver.host.auto_approval, "candidates", tuple)
        driver.host.auto_approval.is_waiting_for_servers = is_starting
        await driver.pilot.press("f9")
        await driver.until(lambda: said in driver.text(), "the form")
        assert ("No tool of" in driver.text()) != is_starting


async def test_a_waiting_question_hides_nothing_of_the_form_in_a_small_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(size=(80, 24)) as driver:
        listed = driver.host.auto_approval.candidates() * 5
        monkeypatch.setattr(driver.host.auto_approval, "candidates", lambda: listed)
        await driver.type("hi")
        pending = PendingQuestion(driver, tool_question())
        await driver.until(lambda: driver.app.chat.query("QuestionCard"), "the card")
        await driver.pilot.press("f9")
        await driver.until(lambda: "Auto-approve" in driver.text() and "◆ Run files · write_file?" in driver.text())
        text = driver.text()
        assert "ctrl+s start · esc back" in text
        assert "Back     Start" in text
        assert "Press F8 or click to open" in text
        await driver.pilot.press("f8")
        await driver.until(
            lambda: "Run files · write_file?" in driver.text() and "deny" in driver.text(), "the question"
        )
        assert pending.answer is None


async def test_the_tools_of_servers_that_become_ready_appear_in_the_open_form(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        auto = driver.host.auto_approval
        auto.tool_names, auto.is_waiting_for_servers = (), True
        await driver.pilot.press("f9")
        await driver.until(lambda: "The servers are still starting." in driver.text(), "the form without tools")
        auto.tool_names = ("read_file", "list_files")
        driver.host.put(events.ServerState("files", "ready"))
        await driver.until(lambda: "list_files" in driver.text(), "the tools")
        await driver.pilot.press("down", "down", "space")
        auto.tool_names, auto.is_waiting_for_servers = ("a_tool", "read_file", "list_files"), False
        driver.host.put(events.ServerState("other", "ready"))
        await driver.until(lambda: "a_tool" in driver.text(), "the later tool")
        assert driver.text().index("list_files") < driver.text().index("a_tool")
        await driver.pilot.press("down", "space", "ctrl+s")
        await driver.until(lambda: auto.started, "the start")
        assert auto.started[0][0] == [("files", "list_files"), ("files", "a_tool")]


async def test_the_open_form_says_so_when_the_servers_are_ready_without_such_tools(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        auto = driver.host.auto_approval
        auto.tool_names, auto.is_waiting_for_servers = (), True
        await driver.pilot.press("f9")
        await driver.until(lambda: "The servers are still starting." in driver.text(), "the form without tools")
        auto.is_waiting_for_servers = False
        driver.host.put(events.ServerState("files", "ready"))
        await driver.until(lambda: "No tool of a ready server" in driver.text(), "the reason")
        assert driver.app.focused.id == "leave"
