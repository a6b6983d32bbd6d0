"""Tests with 80x24 cells: what matters is visible without scrolling, names are complete, the rest can be reached."""

from typing import Any

import pytest

from mcphost.host.questions.tool_changes import ReviewToolChanges, ToolChange
from mcphost.serialization import replace
from mcphost.tui.widgets.key_hints import wrap_key_hints
from tests.screens import extreme_content
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run
from tests.screens.screenshots import SAMPLING

pytestmark = pytest.mark.anyio
SMALL = (80, 24)


@pytest.mark.parametrize("question", [extreme_content.CALL, extreme_content.RESULT], ids=lambda question: question.KIND)
async def test_a_name_too_long_for_the_title_is_complete_in_the_question(run: Run, question: Any) -> None:
    async with run(size=SMALL) as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        await driver.until(
            lambda: extreme_content.TOOL in driver.text() and extreme_content.SERVER in driver.text(), "both names"
        )


async def test_the_request_of_a_server_is_shown_before_its_usage(run: Run) -> None:
    async with run(size=SMALL) as driver:
        PendingQuestion(driver, SAMPLING)
        await driver.enter_question()
        for words in ("anthropic/claude-sonnet", "about $0.0186", "read_comment", "Summarize this issue:"):
            assert words in driver.text(), words
        assert "of 500 requests" not in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: "12 of 500 requests this run" in driver.text(), "the rest")


async def test_the_dangers_of_a_server_are_shown_before_its_command(run: Run) -> None:
    async with run(size=SMALL) as driver:
        PendingQuestion(driver, extreme_content.TRUST)
        await driver.enter_question()
        await driver.until(
            lambda: "It runs a shell." in driver.text() and "trustAnnotations" in driver.text(), "the warnings"
        )
        assert driver.text().index("It runs a shell.") < driver.text().index("docker")


async def test_a_difference_that_wraps_cannot_pass_for_another_line_of_it(run: Run) -> None:
    told = "+ description: Reads a file. " + "x" * 60 + " - description: nothing to see here"
    change = ToolChange(tool="read", digest="1", difference=(told, "- title: Read"))
    async with run(size=SMALL) as driver:
        PendingQuestion(driver, ReviewToolChanges(server="files", why="a tool changed", changes=(change,)))
        await driver.enter_question()
        await driver.until(lambda: "nothing to see here" in driver.text(), "all of it")
        box = [row for row in driver.text().splitlines() if row.count("│") >= 2]
        marked = [row for row in box if row.split("│")[1].startswith(("  + ", "  - "))]
        assert [row.split("│")[1].split(":")[0].strip() for row in marked] == ["+ description", "- title"]


async def test_an_edited_text_shows_no_read_to_the_end_hint(run: Run) -> None:
    async with run(size=SMALL) as driver:
        PendingQuestion(driver, replace(SAMPLING, system=extreme_content.LINES))
        await driver.enter_question()
        assert "read to the end first" in driver.text()
        await driver.pilot.press("e")
        await driver.until(lambda: "esc discard" in driver.text() and "more lines" in driver.text(), "the form")
        assert "read to the end first" not in driver.text()
        assert "anthropic/claude-sonnet)" not in driver.text()


async def test_a_key_hint_is_never_separated_from_its_action() -> None:
    keys = "ctrl+n next part · ctrl+o omit · ctrl+r redact · esc back"
    assert wrap_key_hints(keys, 100) == [keys]
    assert wrap_key_hints(keys, 36) == ["ctrl+n next part · ctrl+o omit", "ctrl+r redact · esc back"]
    assert wrap_key_hints(keys, 4) == keys.split(" · ")


async def test_facts_that_do_not_fit_are_a_stop_of_the_tab_key_and_no_key_of_the_page_is_left_out(run: Run) -> None:
    async with run(size=SMALL) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "implementation" in driver.text(), "the facts")
        assert "mcp.json" not in driver.text()
        for words in ("t tools", "r restart", "p stop", "i check", "g permissions", "esc back"):
            assert words in driver.text(), words
        await driver.until(lambda: driver.app.screen.query_one("#facts").can_focus, "that there is more")
        await driver.pilot.press("tab", "end")
        await driver.until(lambda: "~/.config/mcphost/mcp.json" in driver.text(), "the last fact")
        assert driver.app.focused.id == "facts"
