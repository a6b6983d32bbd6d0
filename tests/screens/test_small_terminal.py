"""At 80x24: what matters is on the first screen, names are whole somewhere, and everything else can be reached."""

from typing import Any

import pytest

from mcphost.host.questions.questions import ReviewToolChanges, ToolChange
from mcphost.serialization import replace
from mcphost.tui.dialogs.dialog import wrap_key_hints
from tests.screens import extreme_content
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run
from tests.screens.screenshots import SAMPLING

pytestmark = pytest.mark.anyio
SMALL = (80, 24)


@pytest.mark.parametrize("question", [extreme_content.CALL, extreme_content.RESULT], ids=lambda question: question.KIND)
async def test_a_name_that_is_too_long_for_the_title_is_on_the_question_whole(run: Run, question: Any) -> None:
    async with run(size=SMALL) as it:
        PendingQuestion(it, question)
        await it.enter_question()
        await it.until(lambda: extreme_content.TOOL in it.text() and extreme_content.SERVER in it.text(), "both names")


async def test_what_a_server_asks_is_seen_before_what_it_used(run: Run) -> None:
    async with run(size=SMALL) as it:
        PendingQuestion(it, SAMPLING)
        await it.enter_question()
        for words in ("anthropic/claude-sonnet", "about $0.02", "read_comment", "Summarize this issue:"):
            assert words in it.text(), words
        assert "of 500 requests" not in it.text()
        await it.pilot.press("end")
        await it.until(lambda: "12 of 500 requests this run" in it.text(), "the rest")


async def test_what_is_dangerous_about_a_server_stands_before_its_command(run: Run) -> None:
    async with run(size=SMALL) as it:
        PendingQuestion(it, extreme_content.TRUST)
        await it.enter_question()
        await it.until(lambda: "It runs a shell." in it.text() and "trustAnnotations" in it.text(), "the warnings")
        assert it.text().index("It runs a shell.") < it.text().index("docker")


async def test_a_difference_that_wraps_cannot_pass_for_another_line_of_it(run: Run) -> None:
    told = "+ description: Reads a file. " + "x" * 60 + " - description: nothing to see here"
    change = ToolChange(tool="read", digest="1", difference=(told, "- title: Read"))
    async with run(size=SMALL) as it:
        PendingQuestion(it, ReviewToolChanges(server="files", why="a tool changed", changes=(change,)))
        await it.enter_question()
        await it.until(lambda: "nothing to see here" in it.text(), "all of it")
        box = [row for row in it.text().splitlines() if row.count("│") >= 2]
        marked = [row for row in box if row.split("│")[1].startswith(("  + ", "  - "))]
        assert [row.split("│")[1].split(":")[0].strip() for row in marked] == ["+ description", "- title"]


async def test_an_edited_text_shows_no_read_to_the_end_hint(run: Run) -> None:
    async with run(size=SMALL) as it:
        PendingQuestion(it, replace(SAMPLING, system=extreme_content.LINES))
        await it.enter_question()
        assert "read to the end first" in it.text()
        await it.pilot.press("e")
        await it.until(lambda: "esc discard" in it.text() and "more lines" in it.text(), "the form")
        assert "read to the end first" not in it.text()
        assert "anthropic/claude-sonnet)" not in it.text()


async def test_a_key_is_never_apart_from_what_it_does() -> None:
    keys = "ctrl+n next part · ctrl+o omit · ctrl+r redact · esc back"
    assert wrap_key_hints(keys, 100) == [keys]
    assert wrap_key_hints(keys, 36) == ["ctrl+n next part · ctrl+o omit", "ctrl+r redact · esc back"]
    assert wrap_key_hints(keys, 4) == keys.split(" · ")


async def test_facts_that_do_not_fit_are_a_stop_of_the_tab_key_and_no_key_of_the_page_is_left_out(run: Run) -> None:
    async with run(size=SMALL) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "implementation" in it.text(), "the facts")
        assert "mcp.json" not in it.text()
        for words in ("o sign out", "tab read  ^F", "^F search", "esc back"):
            assert words in it.text(), words
        await it.until(lambda: it.app.screen.query_one("#facts").can_focus, "that there is more")
        await it.pilot.press("tab", "end")
        await it.until(lambda: "~/.config/mcphost/mcp.json" in it.text(), "the last fact")
        assert it.app.focused.id == "facts"
