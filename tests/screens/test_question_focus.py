"""Tests that a question never takes a key meant for something else: it appears first and gets the focus later."""

from string import ascii_letters, digits, punctuation
from typing import Any

import pytest
from textual import events

from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.serialization import replace
from mcphost.tui import input_guard
from mcphost.tui.dialogs.dialog import ENTER_HINT
from mcphost.tui.frontend import create_dialog
from mcphost.tui.input_guard import (
    HELD_HINT,
    IGNORED_HINT,
    JUST_SHOWN_HINT,
    KEEP_TYPING_HINT,
    NOT_ENTERED_HINT,
    TOO_SOON_HINT,
)
from mcphost.tui.key_table import DEFAULT_KEYS
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
ENTER_TEXT, NOT_ENTERED_TEXT = DEFAULT_KEYS.fill(ENTER_HINT), DEFAULT_KEYS.fill(NOT_ENTERED_HINT)
OPTIONAL_FORM = replace(FORM, fields=FORM.fields[1:])


def composer_input(driver: Any) -> Any:
    return driver.app.chat.composer_input


def click(driver: Any, selector: str) -> None:
    """Post a mouse click to the app, as the terminal does; the pilot's click would bypass the app."""
    x, y = driver.app.screen.query_one(selector).region.offset
    for kind in (events.MouseDown, events.MouseUp):
        driver.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))


async def wait_for_card(driver: Any, *texts: str) -> Any:
    """Wait for a question that appears as a card above the composer without the focus; return the card."""
    await driver.until(
        lambda: driver.app.chat.query("QuestionCard") and all(text in driver.text() for text in texts), "the card"
    )
    return driver.app.chat.query_one("QuestionCard")


@pytest.mark.req("ui.dialog-queue")
@each_example_question
async def test_a_question_during_typing_is_shown_and_takes_no_key(run: Run, clock: ManualClock, question: Any) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.type("thank")
        clock.now += 60
        pending = PendingQuestion(driver, question)
        await wait_for_card(driver, "Press F8 or click to open", "1 waiting for you: F8")
        assert question.server in driver.text()
        assert driver.app.screen is driver.app.chat
        assert driver.app.focused is composer_input(driver)
        await driver.type(" you asod")
        clock.now += 60
        await driver.pilot.press("A", "e", "r")
        assert composer_input(driver).text == "thank you asodAer"
        assert pending.answer is None
        await driver.pilot.press("f8")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the dialog"
        )
        # The input of a question that corrects an entry is open: what is typed next is meant for it.
        first = "phrase" if question.is_retry else driver.app.screen.BUTTONS[0][0]
        assert driver.app.focused.id == first
        assert not driver.app.chat.query("QuestionCard")
        clock.now += 60
        await driver.pilot.press(*["escape"] * (2 if question.is_retry else 1))
        await driver.until(lambda: pending.answer is not None, "the refusal")
        assert pending.answer == question.refusal()
        await driver.until(lambda: driver.app.focused is composer_input(driver), "the message")
        assert composer_input(driver).text == "thank you asodAer"


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
async def test_no_notice_covers_a_waiting_question_or_denies_that_there_is_one(
    run: Run, clock: ManualClock, size: tuple[int, int]
) -> None:
    async with run(size=size, notifications=True) as driver:
        await driver.pilot.press("f8")
        await driver.until(lambda: driver.has_notified("No question is waiting."), "the notice")
        await driver.type("x")
        PendingQuestion(driver, tool_question())
        card = await wait_for_card(driver, "Press F8 or click to open")
        driver.app.notify("A notice with enough words for two rows in a narrow notice at the edge.", timeout=600)
        await driver.until(lambda: any(one.region for one in driver.app.screen.query("Toast")), "another notice")
        (notice,) = driver.app.screen.query("Toast")
        assert not notice.region.overlaps(card.region)
        assert not driver.has_notified("No question is waiting.")


async def test_a_click_on_a_waiting_question_enters_it_and_a_second_click_presses_no_button(
    run: Run, clock: ManualClock
) -> None:
    async with run() as driver:
        await driver.type("x")
        pending = PendingQuestion(driver, tool_question())
        await wait_for_card(driver, "Run files · write_file?", "path /tmp/x")
        click(driver, "QuestionCard")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the dialog"
        )
        click(driver, "#once")
        await driver.pilot.pause()
        assert pending.answer is None
        clock.now += 1
        click(driver, "#once")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_a_key_that_went_to_the_message_a_moment_ago_keeps_the_focus_there(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        await driver.pilot.press("x", "backspace")
        clock.now += 1.9
        first = PendingQuestion(driver, tool_question())
        await wait_for_card(driver)
        clock.now += 60
        await driver.pilot.pause()
        assert driver.app.screen is driver.app.chat, "nothing takes the focus later by itself"
        first.worker.cancel()
        await driver.until(lambda: not driver.app.chat.query("QuestionCard"), "no question")
        _, dialog = await open_guarded_dialog(driver, tool_question())
        assert driver.app.screen is dialog


@pytest.mark.req("ui.confirm")
@each_example_question
async def test_no_letter_answers_a_question_that_was_not_entered(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as driver:
        known = create_dialog(question)
        keys = [key for key in (*ascii_letters, *digits, *punctuation, "ctrl+s") if known.has_binding(key)]
        assert keys, "a question without a key of its own"
        for key in keys:
            pending, dialog = await open_guarded_dialog(driver, question)
            clock.now += 60
            await driver.until(lambda: ENTER_TEXT in driver.text(), "how to enter it")
            await driver.pilot.press(key)
            await driver.until(lambda: NOT_ENTERED_TEXT in driver.text(), f"why {key} does nothing")
            assert pending.answer is None
            assert driver.app.screen is dialog
            pending.worker.cancel()
            await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
            await driver.until(
                lambda key=key: composer_input(driver).text == (key if len(key) == 1 else ""), "the letter"
            )
            composer_input(driver).text = ""
            clock.now += 60


async def test_a_letter_typed_before_a_question_is_entered_is_dropped(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        await driver.pilot.press("a")
        clock.now += 60
        await driver.pilot.press("tab")
        clock.now += 60
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")
        assert composer_input(driver).text == "", "the first one was meant for the question, too"


@each_example_question
async def test_typing_on_during_a_question_writes_a_message(run: Run, clock: ManualClock, question: Any) -> None:
    async with run() as driver:
        pending, _ = await open_guarded_dialog(driver, question)
        clock.now += 60
        await driver.pilot.press("a")
        assert NOT_ENTERED_TEXT + KEEP_TYPING_HINT in driver.text()
        clock.now += 0.7
        await driver.pilot.press("s")
        await wait_for_card(driver, "Press F8 or click to open")
        await driver.until(lambda: composer_input(driver).text == "as", "both letters")
        await driver.type("k")
        await driver.pilot.press("enter")
        await driver.until(lambda: [text for text, _ in driver.host.sent] == ["ask"], "the message")
        assert pending.answer is None


async def test_a_sentence_sent_in_one_piece_becomes_a_message_even_while_a_question_opens(
    run: Run, clock: ManualClock
) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        driver.press_together(*"asA a", "enter", *"dr")
        await driver.until(
            lambda: "".join([text for text, _ in driver.host.sent]) + composer_input(driver).text == "asA adr",
            "the text",
        )
        assert pending.answer is None
        pending.worker.cancel()


async def test_a_question_that_opens_during_exit_is_no_error(run: Run) -> None:
    async with run() as driver:
        driver.app.open_dialog(create_dialog(tool_question()), lambda _: None, "minimized")
        driver.app.exit()
    assert driver.app._exception is None


async def test_pasted_text_goes_to_the_composer(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        driver.app.post_message(events.Paste("a\ns"))
        await wait_for_card(driver)
        await driver.until(lambda: composer_input(driver).text == "a\ns", "the text")
        assert pending.answer is None


async def test_a_letter_typed_at_a_withdrawn_question_goes_to_the_composer(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        await driver.pilot.press("t")
        pending.worker.cancel()
        await driver.until(lambda: composer_input(driver).text == "t", "the letter")


@pytest.mark.req("ui.confirm")
async def test_letters_right_after_the_entering_key_answer_nothing(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        await driver.type("x")
        pending = PendingQuestion(driver, tool_question())
        await wait_for_card(driver)
        driver.press_together("f8", *"asA", "enter")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the dialog"
        )
        for _ in range(5):  # a burst never gets through: each key restarts the delay
            clock.now += 0.29
            await driver.pilot.press("a", "enter")
        assert pending.answer is None
        assert TOO_SOON_HINT in driver.text()
        assert composer_input(driver).text == "x"
        clock.now += 0.9
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


@pytest.mark.parametrize("key", ["tab", "shift+tab", "left", "right", "up", "down", "f8"])
async def test_each_of_these_keys_enters_a_question(run: Run, clock: ManualClock, key: str) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        await driver.until(lambda: "F8 or tab to answer" in driver.text(), "how to enter it")
        await driver.pilot.press(key)
        await driver.until(lambda: dialog.guard.is_entered, "the question is entered")
        await driver.until(lambda: "F8 or tab to answer" not in driver.text(), "the way to enter is gone")
        clock.now += 0.9
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_enter_acts_on_the_button_that_was_chosen_however_fast(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        driver.press_together("tab", "tab", "enter")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


@pytest.mark.req("ui.dialog-queue")
async def test_a_question_right_after_another_starts_again_on_refusing(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        await driver.type("draft")
        pending = [PendingQuestion(driver, trust_question(url=f"https://{number}.example/mcp")) for number in range(2)]
        await wait_for_card(driver, "question 1 of 2")
        await driver.pilot.press("f8")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the dialog"
        )
        first = driver.app.screen
        clock.now += 60
        driver.press_together("s", "s")
        await driver.until(
            lambda: driver.app.screen not in (driver.app.chat, first) and driver.app.screen.guard.is_shown, "the next"
        )
        assert driver.app.focused.id == "refuse"
        assert not driver.app.screen.guard.is_entered
        await driver.pilot.press("s", "A", "enter")
        await driver.until(lambda: driver.host.sent, "what was typed at it, as a message")
        assert driver.host.sent[0][0] == "draftssA"
        assert pending[1].answer is None


async def test_several_waiting_calls_are_shown_as_one_beside_the_message(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        await driver.type("x")
        pending = [PendingQuestion(driver, replace(CALL, call=f"c{number}")) for number in range(3)]
        await wait_for_card(driver, "3 calls are waiting", "github · create_issue")
        await driver.pilot.press("f8")
        await driver.until(lambda: type(driver.dialog).__name__ == "WaitingCallsDialog" or clock.now, "the list")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the list"
        )
        clock.now += 60
        await driver.pilot.press("escape")
        clock.now += 60
        await driver.pilot.press("escape")
        await driver.until(lambda: all(question.answer == Deny() for question in pending), "all refused")


async def test_text_typed_into_the_form_of_a_page_stays_there(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        await driver.pilot.press("f5")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.is_mounted, "the page"
        )
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.find_text_input(driver.app.screen) is not None, "the form")
        page, field = driver.app.screen, driver.app.focused
        await driver.pilot.press("a")
        pending = PendingQuestion(driver, tool_question())
        await driver.until(lambda: page.query("QuestionCard") and "Run files ·" in driver.text(), "the card")
        await driver.pilot.press("s")
        assert field.value == "as"
        await driver.pilot.press("f8")
        await driver.until(lambda: driver.app.screen is not page and driver.app.screen.guard.is_shown, "the dialog")
        clock.now += 60
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny(), "the refusal")
        await driver.until(lambda: driver.app.focused is field, "the form")


async def test_on_a_page_without_a_field_letters_do_nothing_until_the_question_is_entered(
    run: Run, clock: ManualClock
) -> None:
    async with run() as driver:
        await driver.pilot.press("f1")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.is_mounted, "the page"
        )
        pending, dialog = await open_guarded_dialog(driver, FORM)
        clock.now += 60
        await driver.pilot.press("a", "s", "enter")
        assert (pending.answer, driver.app.screen, composer_input(driver).text) == (None, dialog, "")


async def test_f8_says_so_when_no_question_waits_and_opens_nothing(run: Run) -> None:
    async with run() as driver:
        await driver.pilot.press("f8")
        await driver.until(lambda: driver.has_notified("No question is waiting."), "the notice")
        assert driver.app.screen is driver.app.chat


async def test_enter_does_not_cancel_a_form_whose_keys_before_were_ignored(run: Run, clock: ManualClock) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.type("thank")
        clock.now += 60
        pending = PendingQuestion(driver, FORM)
        await wait_for_card(driver)
        await driver.pilot.press("f8")
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.guard.is_shown, "the form"
        )
        clock.now += 0.2
        await driver.pilot.press("tab")
        await driver.until(lambda: JUST_SHOWN_HINT in driver.text(), "why Tab does nothing")
        clock.now += 0.2
        await driver.pilot.press(*"Bob")
        clock.now += 0.8
        await driver.pilot.press("enter")
        await driver.until(lambda: IGNORED_HINT[:30] in driver.text(), "why Enter does nothing")
        assert pending.answer is None
        clock.now += 0.4
        await driver.pilot.press("tab")
        clock.now += 0.4
        await driver.pilot.press(*"Bob")
        assert driver.app.screen.form.rows[0].field_widget.text == "Bob"
        assert pending.answer is None


async def test_the_hint_that_a_question_has_just_appeared_ends_by_itself(
    run: Run, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_guard, "BRIEF_HINT_SECONDS", 0.2)
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question(folder="/tmp"))
        await driver.pilot.press("f8", "a")
        await driver.until(lambda: JUST_SHOWN_HINT in driver.text(), "why the key does nothing")
        await driver.until(lambda: JUST_SHOWN_HINT not in driver.text(), "the end of the hint")
        assert not dialog.query("#more.insists")
        assert pending.answer is None


async def test_a_hint_that_is_given_again_stays_as_long_as_the_first_one(
    run: Run, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(size=(100, 40)) as driver:
        await open_guarded_dialog(driver, tool_question(folder="/tmp"))
        timers: list[Any] = []
        stopped: list[Any] = []
        set_timer = driver.app.set_timer

        def record_timer(delay: float, *arguments: Any, **more: Any) -> Any:
            timer = set_timer(delay, *arguments, **more)
            if delay == input_guard.BRIEF_HINT_SECONDS:
                timers.append(timer)
                stop = timer.stop
                monkeypatch.setattr(timer, "stop", lambda: (stopped.append(timer), stop()))
            return timer

        monkeypatch.setattr(driver.app, "set_timer", record_timer)
        await driver.pilot.press("f8", "a", "a")
        await driver.until(lambda: len(timers) >= 2 and JUST_SHOWN_HINT in driver.text(), "the hint again")
        assert stopped == timers[:-1]


@pytest.mark.parametrize("question", [OPTIONAL_FORM, tool_question(folder="/tmp")], ids=["form", "rule"])
async def test_enter_held_down_runs_through_a_form_but_does_not_answer_with_it(
    run: Run, clock: ManualClock, question: Any
) -> None:
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        clock.now += 60
        await driver.pilot.press("f8")
        clock.now += 60
        if question is not OPTIONAL_FORM:
            await driver.pilot.press("A")
            await driver.until(lambda: driver.app.screen is not dialog, "the rule builder")
            await driver.until(lambda: "Applies from this call on" in driver.text(), "what the rule covers")
            clock.now += 60
        dialog = driver.app.screen
        await driver.pilot.press("tab")
        for _ in range(30):
            clock.now += 0.033
            await driver.pilot.press("enter")
        await driver.until(lambda: HELD_HINT in driver.text(), "why Enter does nothing")
        assert driver.app.screen is dialog
        assert driver.app.focused.id in {"send", "save"}
        assert pending.answer is None
        clock.now += 0.8
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer is not None, "the answer")


@pytest.mark.parametrize("delay", [0.25, 0.5, 0.66])
async def test_enter_held_down_in_the_last_field_does_not_press_the_button_when_it_starts_to_repeat(
    run: Run, clock: ManualClock, delay: float
) -> None:
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, OPTIONAL_FORM)
        clock.now += 60
        await driver.pilot.press("f8")
        clock.now += 60
        await driver.pilot.press("tab", "shift+tab", "tab")
        while driver.app.focused.id != "send":
            clock.now += 60
            await driver.pilot.press("enter")
        clock.now += delay
        for _ in range(3):
            await driver.pilot.press("enter")
            clock.now += 0.033
        await driver.until(lambda: HELD_HINT in driver.text(), "why Enter does nothing")
        assert (driver.app.screen, pending.answer) == (dialog, None)
        clock.now += 0.8
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer is not None, "the answer")


async def test_a_key_between_two_enters_shows_that_enter_is_not_held_down(run: Run, clock: ManualClock) -> None:
    async with run(size=(100, 40)) as driver:
        pending, _ = await open_guarded_dialog(driver, OPTIONAL_FORM)
        clock.now += 60
        await driver.pilot.press("f8")
        clock.now += 60
        await driver.pilot.press("tab")
        while driver.app.focused.id != "send":
            clock.now += 60
            await driver.pilot.press("enter")
        clock.now += 0.15
        await driver.pilot.press("left")
        clock.now += 0.15
        await driver.pilot.press("right")
        clock.now += 0.15
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer is not None, "the answer")


async def test_keys_that_follow_the_end_of_a_paste_at_once_answer_nothing(run: Run, clock: ManualClock) -> None:
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question(folder="/tmp"))
        clock.now += 60
        await driver.pilot.press("f8")
        clock.now += 60
        await driver.pilot.press("r")
        clock.now += 60
        driver.app.post_message(events.Paste("because"))
        for key in ("escape", "tab", "tab", "enter"):  # the pasted text can contain the code that ends a paste
            driver.press_together(key)
        await driver.until(lambda: TOO_SOON_HINT in driver.text(), "why the keys do nothing")
        assert driver.app.screen is dialog
        assert driver.app.focused.value == "because"
        assert pending.answer is None
        clock.now += 1
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer == Deny(reason="because"), "the answer")


async def click_in_one_burst(driver: Any, widget: Any) -> None:
    """Post the press and the release of a click together, as after a tap on a touchpad."""
    x, y = widget.region.x + 2, widget.region.y
    for kind in (events.MouseDown, events.MouseUp):
        driver.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y))
    await driver.pilot.pause()


async def test_a_tap_answers_a_question_after_a_paste_but_not_at_once(run: Run, clock: ManualClock) -> None:
    async with run(size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question(folder="/tmp"))
        clock.now += 60
        await driver.pilot.press("f8")
        clock.now += 60
        driver.app.post_message(events.Paste("because"))
        await driver.pilot.pause()
        clock.now += 0.1
        button = dialog.query_one("#once")
        await click_in_one_burst(driver, button)
        await driver.until(lambda: TOO_SOON_HINT in driver.text(), "why the tap does nothing")
        assert pending.answer is None
        clock.now += 60
        await click_in_one_burst(driver, button)
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert pending.answer == AllowOnce()


async def test_no_question_is_opened_by_a_key_that_follows_the_end_of_a_paste_at_once(
    run: Run, clock: ManualClock
) -> None:
    async with run() as driver:
        await driver.type("x")
        pending = PendingQuestion(driver, tool_question())
        await wait_for_card(driver)
        driver.app.post_message(events.Paste("y"))
        driver.press_together("f8", "z")
        await driver.until(lambda: composer_input(driver).text == "xyz", "the text")
        assert driver.app.screen is driver.app.chat
        clock.now += 1
        await driver.pilot.press("f8")
        await driver.until(lambda: driver.app.screen is not driver.app.chat, "the question")
        assert pending.answer is None
