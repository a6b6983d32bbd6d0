"""Tools that changed, on the screen: each is looked at before all are kept, and escape holds all of them back."""

import pytest

from mcphost.host.questions.questions import AcceptToolChanges, ReviewToolChanges, ToolChange
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def changed(*names: str) -> ReviewToolChanges:
    changes = (
        ToolChange(tool=name, digest=name, difference=(f"- description: old {name}", f"+ description: new {name}"))
        for name in names
    )
    return ReviewToolChanges(
        server="files", why="some of its tools are not what you saw before", changes=tuple(changes)
    )


async def test_one_changed_tool_is_shown_and_kept_by_one_key(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = PendingQuestion(it, changed("read"))
        await it.enter_question()
        assert "- description: old read" in it.text()
        assert "+ description: new read" in it.text()
        assert "Keep all" not in it.text()
        await it.pilot.press("k")
        await it.until(lambda: asked.answer == AcceptToolChanges(("read",)))


async def test_all_are_kept_only_after_each_was_looked_at(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        asked = PendingQuestion(it, changed("read", "write", "list"))
        await it.enter_question()
        await it.pilot.press("K")
        await it.until(lambda: "2 of them not read yet" in it.text())
        await it.pilot.press("n")
        await it.until(lambda: "new write" in it.text())
        await it.pilot.press("n")
        await it.until(lambda: "new list" in it.text())
        assert asked.answer is None
        await it.pilot.press("K")
        await it.until(lambda: asked.answer == AcceptToolChanges(("read", "write", "list")))


@pytest.mark.parametrize("key", ["k", "K"])
async def test_none_is_kept_before_the_end_of_its_difference_was_shown(run: Run, key: str) -> None:
    changes = tuple(
        ToolChange(tool=name, digest=name, difference=tuple(f"+ line {n} of {name}" for n in range(60)))
        for name in ("read", "write")
    )
    async with run(size=(80, 24)) as it:
        asked = PendingQuestion(
            it, ReviewToolChanges(server="files", why="2 of its tools are not what you saw", changes=changes)
        )
        await it.enter_question()
        for tool in ("read", "write"):
            await it.until(lambda tool=tool: f"line 0 of {tool}" in it.text(), "its beginning")
            await it.until(lambda: "more lines" in it.text(), "what is left to read")
            await it.pilot.press(key)
            await it.until(lambda: "insists" in it.app.screen.query_one("#more").classes, "why not")
            await it.pilot.press("end")
            await it.until(lambda tool=tool: f"line 59 of {tool}" in it.text(), "its end")
            if key == "k" or tool == "read":
                await it.pilot.press("k" if key == "k" else "n")
        assert asked.answer is None or key == "k"
        await it.pilot.press(key)
        await it.until(lambda: asked.answer == AcceptToolChanges(("read", "write")))


async def test_a_difference_too_long_for_the_question_is_kept_once_it_was_read_on_its_page(run: Run) -> None:
    endless = ToolChange(
        tool="read", digest="d", difference=("+ " + "x" * 9_000, *("+ y" for _ in range(600)), "+ end")
    )
    async with run(size=(80, 24)) as it:
        asked = PendingQuestion(
            it, ReviewToolChanges(server="files", why="one of its tools is not what you saw", changes=(endless,))
        )
        dialog = await it.enter_question()
        await it.pilot.press("end")
        await it.until(lambda: "201 more lines: v shows all" in it.text() or "202 more lines" in it.text(), "the cut")
        await it.pilot.press("k")
        await it.until(lambda: "read it with v, to the end" in it.text(), "why not")
        assert asked.answer is None
        await it.pilot.press("v", "end")
        await it.until(lambda: "+ end" in it.text(), "the end of it")
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is dialog)
        await it.pilot.press("k")
        await it.until(lambda: asked.answer == AcceptToolChanges(("read",)))


async def test_some_tools_are_kept_and_the_rest_is_quarantined(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        asked = PendingQuestion(it, changed("read", "write"))
        await it.enter_question()
        await it.pilot.press("n")
        await it.until(lambda: "new write" in it.text())
        await it.pilot.press("k")
        await it.until(lambda: "new read" in it.text(), "the next one")
        await it.pilot.press("f")
        await it.until(lambda: asked.answer == AcceptToolChanges(("write",)))


async def test_escape_holds_back_also_what_was_marked_to_be_kept(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        asked = PendingQuestion(it, changed("read", "write"))
        await it.enter_question()
        await it.pilot.press("k", "escape")
        await it.until(lambda: asked.answer == AcceptToolChanges())
