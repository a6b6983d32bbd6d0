"""Tests for the question about changed tools: each must be viewed before all are accepted; Escape accepts none."""

import pytest

from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges, ToolChange
from mcphost.serialization import replace
from mcphost.tui.dialogs.tools_changed import MAX_DIFF_CHARACTERS
from mcphost.tui.widgets.key_values import KeyValueList
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def review_question(*names: str) -> ReviewToolChanges:
    changes = (
        ToolChange(tool=name, digest=name, difference=(f"- description: old {name}", f"+ description: new {name}"))
        for name in names
    )
    return ReviewToolChanges(
        server="files", why="some of its tools are not what you saw before", changes=tuple(changes)
    )


async def test_one_changed_tool_is_shown_and_kept_by_one_key(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, review_question("read"))
        await driver.enter_question()
        assert "- description: old read" in driver.text()
        assert "+ description: new read" in driver.text()
        assert "Keep all" not in driver.text()
        await driver.pilot.press("k")
        await driver.until(lambda: pending.answer == AcceptToolChanges(("read",)))


async def test_all_are_kept_only_after_each_was_viewed(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, review_question("read", "write", "list"))
        await driver.enter_question()
        await driver.pilot.press("K")
        await driver.until(lambda: "2 of them not read yet" in driver.text())
        await driver.pilot.press("n")
        await driver.until(lambda: "new write" in driver.text())
        await driver.pilot.press("n")
        await driver.until(lambda: "new list" in driver.text())
        assert pending.answer is None
        await driver.pilot.press("K")
        await driver.until(lambda: pending.answer == AcceptToolChanges(("read", "write", "list")))


async def test_later_changes_are_kept_only_where_the_question_offers_it(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, review_question("read"))
        await driver.enter_question()
        assert "session" not in driver.text()
        await driver.pilot.press("s")
        assert pending.answer is None
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == AcceptToolChanges())
        offered = PendingQuestion(driver, replace(review_question("read"), offers_session=True))
        await driver.enter_question()
        assert "Keep its changes this session" in driver.text()
        await driver.pilot.press("s")
        await driver.until(lambda: offered.answer == AcceptToolChanges(("read",), for_session=True))


@pytest.mark.parametrize("key", ["k", "K"])
async def test_none_is_kept_before_the_end_of_its_difference_was_shown(run: Run, key: str) -> None:
    changes = tuple(
        ToolChange(tool=name, digest=name, difference=tuple(f"+ line {n} of {name}" for n in range(60)))
        for name in ("read", "write")
    )
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(
            driver, ReviewToolChanges(server="files", why="2 of its tools are not what you saw", changes=changes)
        )
        await driver.enter_question()
        for tool in ("read", "write"):
            await driver.until(lambda tool=tool: f"line 0 of {tool}" in driver.text(), "its beginning")
            await driver.until(lambda: "more lines" in driver.text(), "what is left to read")
            await driver.pilot.press(key)
            await driver.until(lambda: "insists" in driver.app.screen.query_one("#more").classes, "why not")
            await driver.pilot.press("end")
            await driver.until(lambda tool=tool: f"line 59 of {tool}" in driver.text(), "its end")
            if key == "k" or tool == "read":
                await driver.pilot.press("k" if key == "k" else "n")
        assert pending.answer is None or key == "k"
        await driver.pilot.press(key)
        await driver.until(lambda: pending.answer == AcceptToolChanges(("read", "write")))


async def test_a_difference_too_long_for_the_question_is_kept_once_it_was_read_on_its_page(run: Run) -> None:
    endless = ToolChange(
        tool="read", digest="d", difference=("+ " + "x" * 9_000, *("+ y" for _ in range(600)), "+ end")
    )
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(
            driver, ReviewToolChanges(server="files", why="one of its tools is not what you saw", changes=(endless,))
        )
        dialog = await driver.enter_question()
        await driver.pilot.press("end")
        await driver.until(
            lambda: "201 more lines: v shows all" in driver.text() or "202 more lines" in driver.text(), "the cut"
        )
        await driver.pilot.press("k")
        await driver.until(lambda: "read it with v, to the end" in driver.text(), "why not")
        assert pending.answer is None
        await driver.pilot.press("v", "end")
        await driver.until(lambda: "+ end" in driver.text(), "the end of it")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("k")
        await driver.until(lambda: pending.answer == AcceptToolChanges(("read",)))


async def test_a_difference_of_long_lines_is_shown_in_part_and_read_to_its_end_with_v(run: Run) -> None:
    long = tuple(f"+ {'kx' * 1_990}.p{number}: x" for number in range(300))
    question = ReviewToolChanges(
        server="files", why="it changed", changes=(ToolChange(tool="read", digest="d", difference=long),)
    )
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, question)
        dialog = await driver.enter_question()
        shown = dialog.query_one("#sent", KeyValueList)
        assert len(shown.plain) < MAX_DIFF_CHARACTERS + 1_000
        assert "295 more lines: v shows all" in shown.plain
        await driver.pilot.press("end", "k")
        await driver.until(lambda: "read it with v, to the end" in driver.text(), "why not")
        assert pending.answer is None
        await driver.pilot.press("v", "end")
        await driver.until(lambda: ".p299: x" in driver.text(), "the end of it")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("k")
        await driver.until(lambda: pending.answer == AcceptToolChanges(("read",)))


async def test_some_tools_are_kept_and_the_rest_is_quarantined(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, review_question("read", "write"))
        await driver.enter_question()
        await driver.pilot.press("n")
        await driver.until(lambda: "new write" in driver.text())
        await driver.pilot.press("k")
        await driver.until(lambda: "new read" in driver.text(), "the next one")
        await driver.pilot.press("f")
        await driver.until(lambda: pending.answer == AcceptToolChanges(("write",)))


async def test_escape_quarantines_also_tools_marked_to_be_kept(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, review_question("read", "write"))
        await driver.enter_question()
        await driver.pilot.press("k", "escape")
        await driver.until(lambda: pending.answer == AcceptToolChanges())
