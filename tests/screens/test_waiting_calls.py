"""Several calls that wait: one list, refuse-all first; each is opened and read before anything of it runs."""

from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.serialization import replace
from tests.screens.ask_question import LONG_ARGUMENTS, PendingQuestion, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def open_call_list(it: Any, *arguments: dict[str, Any]) -> list[PendingQuestion]:
    asked = [
        PendingQuestion(it, tool_question(call=f"c{number}", arguments=given)) for number, given in enumerate(arguments)
    ]
    await it.until(lambda: f"{len(arguments)} calls wait" in it.text() and it.dialog is not None, "the list")
    await it.enter()
    return asked


async def on_list(it: Any) -> Any:
    await it.until(lambda: type(it.dialog).__name__ == "WaitingCallsDialog", "the list")
    await it.enter()
    return it.dialog


async def on_call(it: Any) -> Any:
    await it.until(lambda: type(it.dialog).__name__ == "ToolConsentDialog", "a call")
    await it.enter()
    return it.dialog


@pytest.mark.req("ui.dialog-queue")
async def test_calls_that_come_together_are_a_list_and_each_is_opened_to_decide(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_call_list(it, {"n": 1}, {"n": 2}, {"n": 3})
        assert it.app.focused.id == "refuse"
        assert "files · write_file" in it.text()
        assert "○ not read" in it.text()
        await it.pilot.press("down", "o")
        dialog = await on_call(it)
        assert dialog.details.arguments == {"n": 2}
        await it.until(lambda: "1 of 3 waiting" in it.text(), "that it is the first that is looked at")
        await it.pilot.press("a")
        await it.until(lambda: asked[1].answer == AllowOnce())
        await on_list(it)
        await it.pilot.press("d")
        await it.until(lambda: asked[2].answer == Deny(), "the cursor went on to the third")
        dialog = await on_call(it)
        assert dialog.details.arguments == {"n": 1}
        await it.pilot.press("escape")
        await it.until(lambda: asked[0].answer == Deny())


async def test_calls_of_one_tool_with_a_long_name_are_told_apart_by_their_arguments(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        for number in (1, 2):
            asked = tool_question(call=f"c{number}", arguments={"path": f"a/{number}"})
            PendingQuestion(it, replace(asked, server="s" * 60, tool="t" * 60))
        await on_list(it)
        for number in (1, 2):
            await it.until(lambda number=number: f"… · {'t' * 25}…  path a/{number}" in it.text(), "both")


async def test_all_are_allowed_together_only_when_each_was_read_to_its_end(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_call_list(it, {"n": 1}, LONG_ARGUMENTS)
        await it.pilot.press("o")
        await on_call(it)
        await it.pilot.press("l")
        dialog = await on_list(it)
        await it.pilot.press("o")
        await on_call(it)
        await it.pilot.press("l")
        dialog = await on_list(it)
        assert "1 not read yet" in it.text()
        assert not dialog.query_one("#allow_all").display
        await it.pilot.press("A")
        assert [one.answer for one in asked] == [None, None]
        await it.pilot.press("down", "o")
        await on_call(it)
        await it.pilot.press("end")
        await it.until(lambda: it.dialog.is_read)
        await it.pilot.press("l")
        dialog = await on_list(it)
        assert "all were read to the end" in it.text()
        await it.pilot.press("A")
        await it.until(lambda: [one.answer for one in asked] == [AllowOnce(), AllowOnce()], "both")


async def test_what_was_edited_is_kept_while_another_call_is_looked_at(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_call_list(it, {"path": "a"}, {"path": "b"})
        await it.pilot.press("o")
        dialog = await on_call(it)
        await it.pilot.press("e", "backspace", "c", "ctrl+s")
        await it.until(lambda: "edited by you" in it.text())
        await on_call(it)
        await it.pilot.press("l")
        await on_list(it)
        assert "path c" in it.text()
        await it.pilot.press("up", "o")
        dialog = await on_call(it)
        assert dialog.review.arguments == {"path": "c"}
        await it.pilot.press("a")
        await it.until(lambda: asked[0].answer == AllowOnce({"path": "c"}))


@pytest.mark.req("ui.dialog-queue")
async def test_a_call_that_comes_later_moves_neither_the_focus_nor_the_row_under_the_cursor(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        asked = await open_call_list(it, {"n": 1}, {"n": 2}, {"n": 3})
        dialog = await on_list(it)
        await it.pilot.press("down", "down", "up")
        before = dialog.cursor
        PendingQuestion(it, tool_question(call="late", arguments={"n": 4}))
        await it.until(lambda: "4 calls wait" in it.text(), "the fourth")
        assert it.app.screen is dialog
        assert it.app.focused.id == "refuse"
        assert dialog.cursor == before
        asked[0].worker.cancel()
        await it.until(lambda: "3 calls wait" in it.text(), "one less")
        assert dialog.cursor == before
        await it.pilot.press("o")
        assert (await on_call(it)).details.arguments == {"n": 2}


async def test_a_call_that_is_being_read_is_not_taken_away_by_another(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        first = PendingQuestion(it, tool_question(arguments={"n": 1}))
        dialog = await it.enter_question()
        PendingQuestion(it, tool_question(arguments={"n": 2}))
        await it.until(lambda: "1 of 2 waiting" in it.text() and "l list" in it.text(), "that another waits")
        assert it.app.screen is dialog
        await it.pilot.press("l")
        await on_list(it)
        assert first.answer is None
        await it.pilot.press("o")
        await on_call(it)
        await it.until(lambda: "1 of 2 waiting" in it.text(), "that nothing was answered meanwhile")


async def test_a_hundred_calls_are_one_list_and_refused_together(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_call_list(it, *({"n": n} for n in range(100)))
        await it.pilot.press("end")
        await it.until(lambda: "n 99" in it.text(), "the last one")
        await it.pilot.press("enter")
        await it.until(lambda: all(one.answer == Deny() for one in asked), "the refusals")
        await it.until(lambda: it.app.screen is it.app.chat)
