"""A question takes no key that was meant for something else: it is entered first, and seen before that."""

from typing import Any

import pytest
from textual import events

from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.serialization import replace
from mcphost.tui.dialogs.dialog import ENTER_HINT
from mcphost.tui.frontend import create_dialog
from mcphost.tui.input_guard import KEEP_TYPING_HINT, NOT_ENTERED_HINT, TOO_SOON_HINT
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import (
    PendingQuestion,
    each_example_question,
    open_guarded_dialog,
    tool_question,
    trust_question,
)
from tests.screens.conftest import Run
from tests.screens.example_questions import CALL
from tests.screens.screenshots import FORM

pytestmark = pytest.mark.anyio


def prompt(it: Any) -> Any:
    return it.app.chat.composer_input


def clicks(it: Any, selector: str) -> None:
    """A click as the terminal brings it; that of the pilot goes past the app."""
    x, y = it.app.screen.query_one(selector).region.offset
    for kind in (events.MouseDown, events.MouseUp):
        it.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))


async def card(it: Any, *texts: str) -> Any:
    """Wait for the question that waits beside the message."""
    await it.until(lambda: it.app.chat.query("QuestionCard") and all(text in it.text() for text in texts), "the card")
    return it.app.chat.query_one("QuestionCard")


@pytest.mark.req("ui.dialog-queue")
@each_example_question
async def test_a_question_that_comes_while_a_message_is_written_is_seen_and_takes_no_key(
    run: Run, clock: ManualClock, question: Any
) -> None:
    async with run(size=(80, 24)) as it:
        await it.type("thank")
        clock.now += 60
        asked = PendingQuestion(it, question)
        await card(it, "Press F8 or click to open", "1 waiting for you: F8")
        assert question.server in it.text()
        assert it.app.screen is it.app.chat
        assert it.app.focused is prompt(it)
        await it.type(" you asod")
        clock.now += 60
        await it.pilot.press("A", "e", "r")
        assert prompt(it).text == "thank you asodAer"
        assert asked.answer is None
        await it.pilot.press("f8")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.guard.is_shown, "the dialog")
        assert it.app.focused.id == it.app.screen.BUTTONS[0][0]
        assert not it.app.chat.query("QuestionCard")
        clock.now += 60
        await it.pilot.press("escape")
        await it.until(lambda: asked.answer is not None, "the refusal")
        assert asked.answer == question.refusal()
        await it.until(lambda: it.app.focused is prompt(it), "the message")
        assert prompt(it).text == "thank you asodAer"


async def test_a_click_on_what_waits_enters_it_and_a_second_one_presses_no_button(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.type("x")
        asked = PendingQuestion(it, tool_question())
        await card(it, "files wants to run write_file", "path /tmp/x")
        clicks(it, "QuestionCard")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.guard.is_shown, "the dialog")
        clicks(it, "#once")
        await it.pilot.pause()
        assert asked.answer is None
        clock.now += 1
        clicks(it, "#once")
        await it.until(lambda: asked.answer == AllowOnce(), "the answer")


async def test_a_key_that_went_to_the_message_a_moment_ago_keeps_the_focus_there(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.pilot.press("x", "backspace")
        clock.now += 1.9
        first = PendingQuestion(it, tool_question())
        await card(it)
        clock.now += 60
        await it.pilot.pause()
        assert it.app.screen is it.app.chat, "nothing takes the focus later by itself"
        first.worker.cancel()
        await it.until(lambda: not it.app.chat.query("QuestionCard"), "no question")
        _, dialog = await open_guarded_dialog(it, tool_question())
        assert it.app.screen is dialog


@pytest.mark.req("ui.confirm")
@each_example_question
async def test_no_letter_answers_a_question_that_was_not_entered(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as it:
        known = create_dialog(question)
        for key in (one for one in (*"asogkefArp", "ctrl+s") if known.has_binding(one)):
            asked, dialog = await open_guarded_dialog(it, question)
            clock.now += 60
            await it.until(lambda: ENTER_HINT in it.text(), "how to enter it")
            await it.pilot.press(key)
            await it.until(lambda: NOT_ENTERED_HINT in it.text(), f"why {key} does nothing")
            assert asked.answer is None
            assert it.app.screen is dialog
            asked.worker.cancel()
            await it.until(lambda: it.app.screen is it.app.chat, "the chat")
            await it.until(lambda key=key: prompt(it).text == (key if len(key) == 1 else ""), "the letter")
            prompt(it).text = ""
            clock.now += 60


async def test_a_letter_before_a_question_was_entered_is_forgotten_when_it_is(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        asked, _ = await open_guarded_dialog(it, tool_question())
        clock.now += 60
        await it.pilot.press("a")
        clock.now += 60
        await it.pilot.press("tab")
        clock.now += 60
        await it.pilot.press("a")
        await it.until(lambda: asked.answer == AllowOnce(), "the answer")
        assert prompt(it).text == "", "the first one was meant for the question, too"


@each_example_question
async def test_typing_on_during_a_question_writes_a_message(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as it:
        asked, _ = await open_guarded_dialog(it, question)
        clock.now += 60
        await it.pilot.press("a")
        assert NOT_ENTERED_HINT + KEEP_TYPING_HINT in it.text()
        clock.now += 0.7
        await it.pilot.press("s")
        await card(it, "Press F8 or click to open")
        await it.until(lambda: prompt(it).text == "as", "both letters")
        await it.type("k")
        await it.pilot.press("enter")
        await it.until(lambda: [text for text, _ in it.host.sent] == ["ask"], "the message")
        assert asked.answer is None


async def test_a_sentence_in_one_piece_becomes_a_message_also_while_a_question_opens(
    run: Run, clock: ManualClock
) -> None:
    async with run() as it:
        asked = PendingQuestion(it, tool_question())
        it.press_together(*"asA a", "enter", *"dr")
        await it.until(lambda: "".join([text for text, _ in it.host.sent]) + prompt(it).text == "asA adr", "the text")
        assert asked.answer is None
        asked.worker.cancel()


async def test_a_question_that_opens_while_the_program_ends_is_no_error(run: Run) -> None:
    async with run() as it:
        it.app.open_dialog(create_dialog(tool_question()), lambda _: None, "minimized")
        it.app.exit()
    assert it.app._exception is None


async def test_a_pasted_text_goes_to_the_message(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        asked, _ = await open_guarded_dialog(it, tool_question())
        clock.now += 60
        it.app.post_message(events.Paste("a\ns"))
        await card(it)
        await it.until(lambda: prompt(it).text == "a\ns", "the text")
        assert asked.answer is None


async def test_a_letter_given_to_a_question_that_is_withdrawn_goes_to_the_message(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        asked, _ = await open_guarded_dialog(it, tool_question())
        clock.now += 60
        await it.pilot.press("t")
        asked.worker.cancel()
        await it.until(lambda: prompt(it).text == "t", "the letter")


@pytest.mark.req("ui.confirm")
async def test_letters_right_behind_the_key_that_enters_answer_nothing(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.type("x")
        asked = PendingQuestion(it, tool_question())
        await card(it)
        it.press_together("f8", *"asA", "enter")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.guard.is_shown, "the dialog")
        for _ in range(5):  # a burst never gets through: each key starts the time anew
            clock.now += 0.29
            await it.pilot.press("a", "enter")
        assert asked.answer is None
        assert TOO_SOON_HINT in it.text()
        assert prompt(it).text == "x"
        clock.now += 0.31
        await it.pilot.press("a")
        await it.until(lambda: asked.answer == AllowOnce(), "the answer")


@pytest.mark.parametrize("key", ["tab", "shift+tab", "left", "right", "up", "down", "f8"])
async def test_each_of_these_keys_enters_a_question(run: Run, clock: ManualClock, key: str) -> None:
    async with run() as it:
        asked, dialog = await open_guarded_dialog(it, tool_question())
        clock.now += 60
        await it.until(lambda: "F8 or tab to answer" in it.text(), "how to enter it")
        await it.pilot.press(key)
        await it.until(lambda: dialog.guard.is_entered, "the question is entered")
        await it.until(lambda: "F8 or tab to answer" not in it.text(), "the way to enter is gone")
        clock.now += 0.31
        await it.pilot.press("a")
        await it.until(lambda: asked.answer == AllowOnce(), "the answer")


async def test_enter_acts_on_the_button_that_was_chosen_however_fast(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        asked, _ = await open_guarded_dialog(it, tool_question())
        clock.now += 60
        it.press_together("tab", "tab", "enter")
        await it.until(lambda: asked.answer == AllowOnce(), "the answer")


@pytest.mark.req("ui.dialog-queue")
async def test_a_question_right_after_another_starts_anew_on_refusing(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.type("draft")
        asked = [PendingQuestion(it, trust_question(url=f"https://{number}.example/mcp")) for number in range(2)]
        await card(it, "1 of 2 waiting")
        await it.pilot.press("f8")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.guard.is_shown, "the dialog")
        first = it.app.screen
        clock.now += 60
        it.press_together("o", "o")
        await it.until(lambda: it.app.screen not in (it.app.chat, first) and it.app.screen.guard.is_shown, "the next")
        assert it.app.focused.id == "refuse"
        assert not it.app.screen.guard.is_entered
        await it.pilot.press("o", "A", "enter")
        await it.until(lambda: it.host.sent, "what was typed at it, as a message")
        assert it.host.sent[0][0] == "draftooA"
        assert asked[1].answer is None


async def test_several_calls_wait_beside_the_message_as_one(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.type("x")
        asked = [PendingQuestion(it, replace(CALL, call=f"c{number}")) for number in range(3)]
        await card(it, "3 calls wait", "github · create_issue")
        await it.pilot.press("f8")
        await it.until(lambda: type(it.dialog).__name__ == "WaitingCallsDialog" or clock.now, "the list")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.guard.is_shown, "the list")
        clock.now += 60
        await it.pilot.press("escape")
        await it.until(lambda: all(one.answer == Deny() for one in asked), "all refused")


async def test_what_is_typed_into_the_form_of_a_page_stays_there(run: Run, clock: ManualClock) -> None:
    async with run() as it:
        await it.pilot.press("f5")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.is_mounted, "the page")
        await it.pilot.press("enter")
        await it.until(lambda: it.app.find_text_input(it.app.screen) is not None, "the form")
        page, field = it.app.screen, it.app.focused
        await it.pilot.press("a")
        asked = PendingQuestion(it, tool_question())
        await it.until(lambda: page.query("QuestionCard") and "files wants to run" in it.text(), "the card")
        await it.pilot.press("s")
        assert field.value == "as"
        await it.pilot.press("f8")
        await it.until(lambda: it.app.screen is not page and it.app.screen.guard.is_shown, "the dialog")
        clock.now += 60
        await it.pilot.press("escape")
        await it.until(lambda: asked.answer == Deny(), "the refusal")
        await it.until(lambda: it.app.focused is field, "the form")


async def test_on_a_page_without_a_field_letters_do_nothing_until_the_question_is_entered(
    run: Run, clock: ManualClock
) -> None:
    async with run() as it:
        await it.pilot.press("f1")
        await it.until(lambda: it.app.screen is not it.app.chat and it.app.screen.is_mounted, "the page")
        asked, dialog = await open_guarded_dialog(it, FORM)
        clock.now += 60
        await it.pilot.press("a", "s", "enter")
        assert (asked.answer, it.app.screen, prompt(it).text) == (None, dialog, "")


async def test_f8_says_that_no_question_waits(run: Run) -> None:
    async with run() as it:
        await it.pilot.press("f8")
        await it.until(
            lambda: any("No question is waiting" in one.message for one in it.app._notifications), "the words"
        )
