"""Tests for several tool calls that wait in one list: refused by default, and each must be read before any runs."""

from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.serialization import replace
from tests.screens.ask_question import LONG_ARGUMENTS, PendingQuestion, tool_question
from tests.screens.conftest import Run
from tests.screens.screenshots import FORM

pytestmark = pytest.mark.anyio


async def open_call_list(driver: Any, *arguments: dict[str, Any]) -> list[PendingQuestion]:
    pending = [
        PendingQuestion(driver, tool_question(call=f"c{number}", arguments=given))
        for number, given in enumerate(arguments)
    ]
    await driver.until(
        lambda: f"{len(arguments)} calls are waiting" in driver.text() and driver.dialog is not None, "the list"
    )
    await driver.enter()
    return pending


async def wait_for_list(driver: Any) -> Any:
    await driver.until(lambda: type(driver.dialog).__name__ == "WaitingCallsDialog", "the list")
    await driver.enter()
    return driver.dialog


async def wait_for_call(driver: Any) -> Any:
    await driver.until(lambda: type(driver.dialog).__name__ == "ToolConsentDialog", "a call")
    await driver.enter()
    return driver.dialog


@pytest.mark.req("ui.dialog-queue")
async def test_calls_that_come_together_are_a_list_and_each_is_opened_to_decide(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2}, {"n": 3})
        assert driver.app.focused.id == "calls"
        assert "files · write_file" in driver.text()
        assert "○ not read" in driver.text()
        await driver.pilot.press("down", "o")
        dialog = await wait_for_call(driver)
        assert dialog.details.arguments == {"n": 2}
        await driver.until(lambda: "question 1 of 3" in driver.text(), "that it is the first that is looked at")
        await driver.pilot.press("a")
        await driver.until(lambda: pending[1].answer == AllowOnce())
        await wait_for_list(driver)
        await driver.pilot.press("d")
        await driver.until(lambda: pending[2].answer == Deny(), "the cursor went on to the third")
        dialog = await wait_for_call(driver)
        assert dialog.details.arguments == {"n": 1}
        await driver.pilot.press("escape")
        await driver.until(lambda: pending[0].answer == Deny())


async def test_keys_of_a_single_call_are_explained_in_the_list(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2}, {"n": 3})
        for key in ("a", "A", "s"):
            await driver.pilot.press("down", key)
            expected = "read each call to its end" if key == "A" else "open the call with enter first"
            await driver.until(lambda expected=expected: expected in driver.text(), "the explanation")
        assert [question.answer for question in pending] == [None, None, None]


async def test_the_question_after_an_answered_one_says_where_letters_go_until_it_is_entered(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2})
        await driver.pilot.press("d")
        await driver.until(lambda: pending[0].answer == Deny(), "the first answer")
        await driver.until(lambda: "next question · press F8 or tab to answer" in driver.text(), "the next question")
        assert "letters go to your message" in driver.text()
        await driver.enter()
        assert "letters go to your message" not in driver.text()


async def test_calls_of_one_tool_with_a_long_name_are_distinguished_by_their_arguments(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        for number in (1, 2):
            question = tool_question(call=f"c{number}", arguments={"path": f"a/{number}"})
            PendingQuestion(driver, replace(question, server="s" * 60, tool="t" * 60))
        await wait_for_list(driver)
        for number in (1, 2):
            await driver.until(lambda number=number: f"… · {'t' * 25}…  path a/{number}" in driver.text(), "both")


async def test_all_are_allowed_together_only_when_each_was_read_to_its_end(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, LONG_ARGUMENTS)
        await driver.pilot.press("o")
        await wait_for_call(driver)
        await driver.pilot.press("l")
        dialog = await wait_for_list(driver)
        await driver.pilot.press("o")
        await wait_for_call(driver)
        await driver.pilot.press("l")
        dialog = await wait_for_list(driver)
        assert "1 not read yet" in driver.text()
        assert not dialog.query_one("#allow_all").display
        await driver.pilot.press("A")
        assert [question.answer for question in pending] == [None, None]
        await driver.pilot.press("down", "o")
        await wait_for_call(driver)
        await driver.pilot.press("end")
        await driver.until(lambda: driver.dialog.is_read)
        await driver.pilot.press("l")
        dialog = await wait_for_list(driver)
        assert "all were read to the end" in driver.text()
        await driver.pilot.press("A")
        await driver.until(lambda: [question.answer for question in pending] == [AllowOnce(), AllowOnce()], "both")


async def test_edits_are_kept_while_another_call_is_viewed(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_call_list(driver, {"path": "a"}, {"path": "b"})
        await driver.pilot.press("o")
        dialog = await wait_for_call(driver)
        await driver.pilot.press("e", "backspace", "c", "ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text())
        await wait_for_call(driver)
        await driver.pilot.press("l")
        await wait_for_list(driver)
        assert "path c" in driver.text()
        await driver.pilot.press("up", "o")
        dialog = await wait_for_call(driver)
        assert dialog.review.arguments == {"path": "c"}
        await driver.pilot.press("a")
        await driver.until(lambda: pending[0].answer == AllowOnce({"path": "c"}))


@pytest.mark.req("ui.dialog-queue")
async def test_a_new_call_moves_neither_the_focus_nor_the_selected_row(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2}, {"n": 3})
        dialog = await wait_for_list(driver)
        await driver.pilot.press("down", "down", "up")
        before = dialog.cursor
        PendingQuestion(driver, tool_question(call="late", arguments={"n": 4}))
        await driver.until(lambda: "4 calls are waiting" in driver.text(), "the fourth")
        assert driver.app.screen is dialog
        assert driver.app.focused.id == "calls"
        assert dialog.cursor == before
        pending[0].worker.cancel()
        await driver.until(lambda: "3 calls are waiting" in driver.text(), "one less")
        assert dialog.cursor == before
        await driver.pilot.press("o")
        assert (await wait_for_call(driver)).details.arguments == {"n": 2}


async def test_a_call_being_read_is_not_replaced_by_another(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        first = PendingQuestion(driver, tool_question(arguments={"n": 1}))
        dialog = await driver.enter_question()
        PendingQuestion(driver, tool_question(arguments={"n": 2}))
        await driver.until(
            lambda: "question 1 of 2" in driver.text() and "l list" in driver.text(), "that another waits"
        )
        assert driver.app.screen is dialog
        await driver.pilot.press("l")
        await wait_for_list(driver)
        assert first.answer is None
        await driver.pilot.press("o")
        await wait_for_call(driver)
        await driver.until(lambda: "question 1 of 2" in driver.text(), "that nothing was answered meanwhile")


async def test_a_hundred_calls_are_listed_together_and_refused_together(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, *({"n": n} for n in range(100)))
        await driver.pilot.press("end")
        await driver.until(lambda: "n 99" in driver.text(), "the last one")
        await driver.pilot.press("escape")
        await driver.until(lambda: "press esc again to deny all 100 calls" in driver.text(), "the warning")
        assert all(question.answer is None for question in pending)
        await driver.pilot.press("escape")
        await driver.until(lambda: all(question.answer == Deny() for question in pending), "the refusals")
        await driver.until(lambda: driver.app.screen is driver.app.chat)


async def test_enter_opens_the_highlighted_call_and_denies_none(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2}, {"n": 3})
        await driver.pilot.press("down", "enter")
        assert (await wait_for_call(driver)).details.arguments == {"n": 2}
        assert [question.answer for question in pending] == [None, None, None]


async def test_escape_denies_all_calls_only_if_no_other_key_is_pressed_in_between(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2})
        await driver.pilot.press("escape", "down")
        await driver.until(lambda: "press esc again" not in driver.text(), "the end of the warning")
        await driver.pilot.press("escape")
        await driver.until(lambda: "press esc again" in driver.text(), "the warning")
        assert [question.answer for question in pending] == [None, None]


async def test_a_question_behind_the_list_of_calls_is_named_in_it(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        await open_call_list(driver, {"n": 1}, {"n": 2})
        form = PendingQuestion(driver, FORM)
        await driver.until(lambda: "Also waiting: github asks you to fill in a form" in driver.text(), "its name")
        form.worker.cancel()
        await driver.until(lambda: "Also waiting" not in driver.text(), "the list alone")


async def test_the_button_that_denies_all_calls_needs_a_second_press_like_escape(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_call_list(driver, {"n": 1}, {"n": 2})
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.focused.id == "refuse", "the button")
        await driver.pilot.press("enter")
        await driver.until(lambda: "press the button again to deny all 2 calls" in driver.text(), "the warning")
        await driver.pilot.press("tab", "shift+tab", "enter")
        await driver.until(lambda: "press the button again to deny all 2 calls" in driver.text(), "another warning")
        assert [question.answer for question in pending] == [None, None]
        await driver.pilot.press("enter")
        await driver.until(lambda: [question.answer for question in pending] == [Deny(), Deny()], "both")


async def test_up_leads_from_the_buttons_back_to_the_selected_call(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_call_list(driver, {"n": 1}, {"n": 2})
        await driver.pilot.press("down", "tab")
        await driver.until(lambda: driver.app.focused.id == "refuse", "the button")
        await driver.pilot.press("up")
        await driver.until(lambda: driver.app.focused.id == "calls", "the list")
        await driver.pilot.press("enter")
        assert (await wait_for_call(driver)).details.arguments == {"n": 2}
