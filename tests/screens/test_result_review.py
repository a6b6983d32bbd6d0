"""Tests for reviewing a tool result by keyboard: read to its end, then released, edited, shortened or withheld."""

from typing import Any

import pytest

from mcphost.host import events
from mcphost.host.questions.questions import (
    PassEditedResult,
    PassResult,
    ResultPart,
    ReviewResult,
    WithholdResult,
)
from mcphost.serialization import replace
from mcphost.tui.widgets.key_values import KeyValueList
from tests.screens.ask_question import PendingQuestion, ask_and_press, tool_question
from tests.screens.conftest import Run
from tests.screens.example_fields import result_question
from tests.screens.fake_host import FakeHost
from tests.screens.screenshots import RESULT

pytestmark = pytest.mark.anyio
TEXTS = tuple(part.text for part in RESULT.parts)


async def open_review(driver: Any, question: ReviewResult) -> tuple[PendingQuestion, Any]:
    return PendingQuestion(driver, question), await driver.enter_question()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), WithholdResult()),
        (("d",), WithholdResult()),
        (("enter",), WithholdResult()),
        (("a",), PassResult()),
        (("r", "n", "o", "enter"), WithholdResult("no")),
        (("r", "n", "escape", "escape"), WithholdResult()),
        (("e", "escape", "a"), PassResult()),
        (("t", "escape", "a"), PassResult()),
    ],
)
async def test_each_answer_has_its_keys(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(120, 40)) as driver:
        question, _ = await open_review(driver, RESULT)
        for key in keys:
            await driver.pilot.press(key)
            await driver.until(lambda: question.answer is not None or driver.dialog is not None)
        await driver.until(lambda: question.answer is not None)
        assert question.answer == answer


async def test_all_of_it_is_on_the_question(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_review(driver, replace(RESULT, is_error=True))
        for words in (
            "github · list_keys", "org acme", "status", "error", "key 7  ghp_7aB37xQ", "image/png, 84,000 bytes",
            "640 × 480", '"next": null', "JSON",
        ):  # fmt: skip
            assert words in driver.text(), words


@pytest.mark.req("ui.confirm")
async def test_nothing_is_given_before_its_end_was_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        question, dialog = await open_review(driver, result_question("\n".join(f"line {n}" for n in range(60))))
        await driver.pilot.press("a")
        assert "read to the end first" in driver.text()
        assert question.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read)
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer == PassResult())


async def test_a_text_too_long_for_the_question_is_shown_on_its_own_page(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        question, dialog = await open_review(driver, result_question("x" * 30_000 + "the end"))
        await driver.pilot.press("end", "a")
        assert "10,007 characters are not shown here" in driver.text()
        assert question.answer is None
        await driver.pilot.press("v")
        await driver.until(lambda: driver.app.screen is not dialog and "x" * 50 in driver.text(), "the page")
        await driver.pilot.press("G")
        await driver.until(lambda: "the end" in driver.text(), "its end")
        await driver.until(lambda: dialog.is_fully_shown)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("end", "a")
        await driver.until(lambda: question.answer == PassResult())


async def test_a_selected_part_is_removed_anywhere_in_the_text_and_shown_before(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        parts = ("key abcd1234", ResultPart(kind="structured", text='{"key": "abcd1234"}', size=19))
        question, dialog = await open_review(driver, result_question(*parts))
        await driver.pilot.press("e")
        await driver.until(lambda: dialog.editor is not None and dialog.editor.query("TextArea"))
        await driver.until(lambda: "part 1 of 2" in driver.text())
        await driver.pilot.press("ctrl+r")
        assert "Select text with shift" in driver.text()
        await driver.pilot.press(*["right"] * 4, *["shift+right"] * 8, "ctrl+r")
        await driver.until(lambda: "Redacted in 2 places." in driver.text())
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text(), "the question again")
        assert "abcd1234" not in driver.text()
        assert dialog.is_guarded or driver.app.focused.id == "refuse"
        assert question.answer is None
        await driver.enter_question()
        assert driver.app.focused.id == "refuse"
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer is not None)
        assert question.answer == PassEditedResult(("key [redacted]", '{"key": "[redacted]"}'))


async def test_removed_text_is_also_removed_from_parts_too_long_to_edit(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        _, dialog = await open_review(driver, result_question("abcd1234", "x" * 60_000 + "abcd1234"))
        await driver.pilot.press("e")
        await driver.until(lambda: "part 1 of 2" in driver.text())
        await driver.pilot.press("shift+end", "ctrl+r")
        await driver.until(lambda: "Redacted in 2 places." in driver.text())
        assert dialog.editor.texts == ["[redacted]", "x" * 60_000 + "[redacted]"]


async def test_parts_are_removed_and_restored(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        question, dialog = await open_review(driver, RESULT)
        await driver.pilot.press("e")
        await driver.until(lambda: "part 1 of 3" in driver.text())
        await driver.pilot.press("ctrl+n", "ctrl+o")
        await driver.until(lambda: "Not sent; Ctrl+O restores it." in driver.text())
        await driver.pilot.press("ctrl+n", "ctrl+o", "ctrl+o", "ctrl+b", "ctrl+b", "ctrl+s")
        await driver.until(lambda: "(not sent: image/png" in driver.text())
        assert "the model sees" not in driver.text()
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer == PassEditedResult((TEXTS[0], None, TEXTS[2])))
        assert dialog.editor is None


async def test_invalid_json_is_not_applied(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        question, dialog = await open_review(
            driver, result_question(ResultPart(kind="structured", text='{"n": 1}', size=8))
        )
        await driver.pilot.press("e")
        await driver.until(lambda: "JSON, 8 bytes" in driver.text())
        await driver.pilot.press("x", "ctrl+s")
        await driver.until(lambda: "structured content" in driver.text(), "the fault")
        assert dialog.editor is not None
        await driver.pilot.press("escape")
        await driver.until(lambda: dialog.editor is None)
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer == PassResult())


async def test_an_empty_result_is_nothing_to_pass(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        question, _ = await open_review(driver, result_question("secret"))
        await driver.pilot.press("e")
        await driver.until(lambda: "text, 6 bytes" in driver.text())
        await driver.pilot.press("ctrl+o", "ctrl+s")
        await driver.until(lambda: "(not sent" in driver.text())
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: "nothing is left to send" in driver.text())
        assert question.answer is None


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ("4", "0123\n[… 6 characters left out by the user …]"),
        ("4 2", "0123\n[… 4 characters left out by the user …]\n89"),
        ("0 3", "[… 7 characters left out by the user …]\n789"),
        ("6 4", None),
    ],
)
async def test_a_long_text_is_trimmed_to_its_first_and_last_characters(run: Run, typed: str, given: str | None) -> None:
    async with run(size=(100, 30)) as driver:
        question, _ = await open_review(driver, result_question("0123456789"))
        await driver.pilot.press("t")
        await driver.type(typed)
        await driver.pilot.press("enter")
        await driver.until(lambda: given is None or "left out by the user" in driver.text())
        await driver.until(lambda: not driver.app.screen.query("#extra.shown"))
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer is not None)
        assert question.answer == (PassEditedResult((given,)) if given else PassResult())


async def test_an_invalid_number_trims_nothing(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        question, _ = await open_review(driver, result_question("0123456789"))
        await driver.pilot.press("t", "x", "enter")
        await driver.until(lambda: "enter one or two numbers" in driver.text())
        assert question.answer is None


async def test_hidden_characters_become_marks_and_an_untouched_text_is_sent_unchanged(run: Run) -> None:
    text = "a\u202eb\x1b[31m"
    async with run(size=(100, 30)) as driver:
        question, _ = await open_review(driver, result_question(text, "b"))
        assert "‹U+202E›" in driver.text()
        assert "Hidden or control characters" in driver.text()
        await driver.pilot.press("e")
        await driver.until(lambda: "part 1 of 2" in driver.text())
        assert "\x1b" not in driver.text()
        await driver.pilot.press("ctrl+n", "x", "ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text())
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer == PassEditedResult((text, "xb")))


@pytest.mark.parametrize("hidden", ["\u202e", "\x1b[8m", "ก" + "\u0e49" * 40])
async def test_hidden_characters_far_into_a_long_text_are_reported_too(run: Run, hidden: str) -> None:
    async with run(size=(100, 30)) as driver:
        await open_review(driver, result_question("b", "x" * 30_000 + hidden + "y"))
        await driver.pilot.press("end")
        await driver.until(lambda: "Hidden or control characters" in driver.text(), "the warning")


async def test_a_part_too_long_to_edit_is_labelled_and_can_be_removed(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        question, _ = await open_review(driver, result_question("x" * 60_000, "b"))
        await driver.pilot.press("e")
        await driver.until(lambda: "too many to edit here" in driver.text())
        await driver.pilot.press("y", "ctrl+o", "ctrl+s")
        await driver.until(lambda: "(not sent" in driver.text())
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: question.answer == PassEditedResult((None, "b")))


async def test_a_flood_of_parts_is_shown_cut_and_read_on_its_page(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        question, _ = await open_review(driver, result_question(*["y"] * 5_000))
        await driver.pilot.press("end", "a")
        await driver.until(lambda: "are not shown here" in driver.text())
        assert question.answer is None


@pytest.mark.parametrize("text", ["\n" * 20_000, "é\n" * 10_000, "\u202e" * 20_000], ids=["empty", "short", "marks"])
async def test_few_rows_of_a_result_are_laid_out_and_the_rest_is_read_on_its_page(run: Run, text: str) -> None:
    async with run(size=(100, 30)) as driver:
        question, dialog = await open_review(driver, result_question(text, text, text))
        sent = dialog.query_one("#sent", KeyValueList)
        assert len(sent.plain) <= 40_400
        assert sent.plain.count("\n") <= 510
        await driver.pilot.press("end", "a")
        await driver.until(lambda: "are not shown here" in driver.text())
        assert question.answer is None


async def test_several_results_wait_one_after_the_other(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        questions = [PendingQuestion(driver, result_question(f"number {n}", call=f"c{n}")) for n in range(3)]
        for n, question in enumerate(questions):
            await driver.until(lambda n=n: f"number {n}" in driver.text())
            await driver.enter_question()
            await driver.pilot.press("a" if n == 1 else "d")
            await driver.until(lambda item=question: item.answer is not None)
        assert [question.answer for question in questions] == [WithholdResult(), PassResult(), WithholdResult()]


async def test_a_withdrawn_question_disappears_even_while_it_is_edited(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        question, dialog = await open_review(driver, RESULT)
        await driver.pilot.press("e")
        await driver.until(lambda: "part 1 of 3" in driver.text())
        question.worker.cancel()
        await driver.until(lambda: driver.app.screen is not dialog)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("passed", "reviewed and passed to the model"),
        ("changed", "passed to the model as edited"),
        ("withheld", "withheld from the model"),
    ],
)
async def test_the_conversation_shows_what_the_model_received_of_a_result(run: Run, outcome: Any, words: str) -> None:
    async def turn(host: FakeHost, number: int, text: str) -> str:
        host.put(events.ToolProposed("a", "s", "t", {}))
        host.put(events.ToolStarted("a", "s", "t", {}, "once"))
        host.put(events.ToolFinished("a", "s", "t", "ok", "secret", 0.1))
        host.put(events.ResultReviewed("a", "s", "t", outcome))
        return ""

    async with run(turn=turn) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: words in driver.transcript())


async def test_a_line_with_a_result_never_answers_it(run: Run) -> None:
    async with run() as driver:
        assert await ask_and_press(driver, result_question("x"), "r", "a", "enter") == WithholdResult("a")


async def test_a_turn_that_waits_for_a_result_review_shows_it(run: Run) -> None:
    async def turn(host: FakeHost, number: int, text: str) -> str:
        host.put(events.ToolProposed("c", "github", "list_keys", {}))
        await host.frontend.ask(RESULT)
        return ""

    async with run(turn=turn) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.enter_question()
        assert driver.app.chat.presenter.phase == "waiting for you"
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.chat.presenter.phase != "waiting for you")


async def test_a_running_call_that_is_asked_about_again_waits_for_the_user(run: Run) -> None:
    async def turn(host: FakeHost, number: int, text: str) -> str:
        host.put(events.ToolProposed("c", "files", "write_file", {}))
        host.put(events.ToolStarted("c", "files", "write_file", {}, "once"))
        await driver.until(lambda: "running" in driver.transcript(), "the call")
        await host.frontend.ask(tool_question(call="c"))
        return ""

    async with run(turn=turn) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "waiting for you" in driver.transcript(), "the mark of the call")
