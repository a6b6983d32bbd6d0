"""Auto-approval by keyboard: tools picked one by one, a banner while it is on, a key that stops it anywhere."""

import pytest

from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.questions.questions import ContinueTurn
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def test_tools_are_picked_and_started_and_the_banner_stays_until_the_kill_key(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        await it.pilot.press("f9")
        await it.until(lambda: "Auto-approve" in it.text())
        await it.pilot.press("down", "down", "space", "ctrl+s")
        await it.until(lambda: "AUTO-APPROVE ON" in it.text())
        ((tools, budget),) = it.host.auto_approval.started
        assert tools == [("files", "list_files")]
        assert (budget.calls, budget.seconds) == (50, 1800)
        assert "F9 to stop" in it.text()
        await it.pilot.press("f9")
        await it.until(lambda: "AUTO-APPROVE ON" not in it.text())
        assert it.host.halted == 1


async def test_the_kill_key_works_over_a_question(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.host.auto_approval.start([("files", "read_file")], AutoApprovalBudget())
        PendingQuestion(it, ContinueTurn(server="", why="w", rounds=25))
        await it.enter_question()
        await it.pilot.press("f9")
        await it.until(lambda: it.host.halted == 1)


async def test_nothing_starts_when_nothing_is_picked_or_a_limit_is_missing(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        await it.pilot.press("f9")
        await it.until(lambda: "Auto-approve" in it.text())
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "No tool is selected" in it.text())
        await it.pilot.press("down", "space", "tab", "ctrl+u", "ctrl+s")
        await it.until(lambda: "The number of calls is missing" in it.text())
        await it.pilot.press("escape")
        await it.until(lambda: "Auto-approve" not in it.text())
        assert it.host.auto_approval.started == []
