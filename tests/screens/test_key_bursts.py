"""Tests for keys that arrive together, as over a slow connection: later keys go to the input opened by the first."""

from pathlib import Path
from typing import Any

import pytest
from textual.events import Event, Key, MouseDown, MouseMove, Paste

from mcphost.config.schema import RootConfig
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import AllowOnce, Deny, WithholdResult
from mcphost.host.questions.sign_in import EnteredClient, PastedRedirect, SignInQuestion
from mcphost.host.server_requests.roots import Roots
from mcphost.serialization import replace
from mcphost.tui.transcript.blocks import UserMessage
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.composer import Composer
from tests.screens.ask_question import PendingQuestion, open_argument_editor, tool_question
from tests.screens.conftest import Run
from tests.screens.example_fields import (
    AGE_FIELD,
    CLIENT_ID_QUESTION,
    NAME_FIELD,
    WATCH_FIELD,
    form_question,
    result_question,
)
from tests.screens.example_questions import CALL
from tests.screens.screenshots import FORM, REPLY

pytestmark = pytest.mark.anyio
SIGN_IN = SignInQuestion(
    server="tracker",
    why="the server tracker wants to know who you are",
    url="https://login.example/authorize?state=1",
    host="login.example",
    issuer="https://login.example",
    other_method="code",
)


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("question", "keys", "answer"),
    [
        # Each text has the letters that would close the input, agree, or answer otherwise.
        (tool_question(), ("r", *"drasA", "enter"), Deny(reason="drasA")),
        (result_question("x"), ("r", *"drat", "enter"), WithholdResult("drat")),
        (SIGN_IN, ("p", *"dopcq", "enter"), PastedRedirect("dopcq")),
        (CLIENT_ID_QUESTION, ("e", *"deed", "enter", *"edd", "enter"), EnteredClient("deed", "edd")),
    ],
)
async def test_keys_after_the_key_that_opens_an_input_go_into_it(
    run: Run, question: Any, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, question)
        await driver.enter_question()
        driver.press_together(*keys)
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == answer


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("question", "button", "keys", "answer"),
    [
        (tool_question(), "reason", (*"a drasA", "enter"), Deny(reason="a drasA")),
        (result_question("x"), "reason", (*"a drat", "enter"), WithholdResult("a drat")),
        (SIGN_IN, "paste", (*"dopcq", "enter"), PastedRedirect("dopcq")),
        (CLIENT_ID_QUESTION, "enter", (*"deed", "enter", *"edd", "enter"), EnteredClient("deed", "edd")),
    ],
)
async def test_keys_after_enter_on_the_button_that_opens_an_input_go_into_it(
    run: Run, question: Any, button: str, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, question)
        dialog = await driver.enter_question()
        driver.press_together(*keys_to_button(dialog, button), "enter", *keys)
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == answer


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("question", "opens"),
    [
        (result_question("x"), ("right", "right", "enter")),
        (result_question("x"), ("e",)),
        (REPLY, ("right", "enter")),
        (REPLY, ("e",)),
        (FORM, ("ctrl+e",)),
        (CALL, ("e",)),
    ],
)
async def test_keys_after_the_key_or_button_that_opens_an_editor_go_into_it(
    run: Run, question: Any, opens: tuple[str, ...]
) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, question)
        await driver.enter_question()
        driver.press_together(*opens, *"a drasA")
        await driver.until(lambda: "a drasA" in field_text(driver.app.focused), "the text in the editor")
        assert pending.answer is None


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("right", "right", "enter", "left", "d"), AllowOnce()),
        (("tab", "tab", "shift+tab", "tab", "enter", "enter"), AllowOnce()),
        (("a", "enter"), AllowOnce()),
        (("enter", "a"), Deny()),
        (("end", "right", "left", "enter", "s"), Deny()),
    ],
)
async def test_keys_that_arrive_together_act_in_the_order_of_pressing(
    run: Run, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        driver.press_together(*keys)
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == answer


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize("end", [("tab", "enter"), ("tab", "ctrl+s"), ("ctrl+s",)])
@pytest.mark.parametrize(
    ("field", "keys", "value"),
    [
        (replace(WATCH_FIELD, required=True, default=True), "n", False),
        (NAME_FIELD, "Ada", "Ada"),
        (AGE_FIELD, ("backspace", "backspace", "7"), 7),
    ],
)
async def test_a_form_is_sent_with_the_last_that_was_typed_into_it(
    run: Run, field: Field, keys: tuple[str, ...], value: Any, end: tuple[str, ...]
) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, form_question(field))
        await driver.enter_question()
        await driver.pilot.press("tab")
        driver.press_together(*keys, *end)
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer.content == {field.name: value}


@pytest.mark.parametrize("end", [("ctrl+s",), ("tab",) * 6 + ("enter",)])
async def test_arguments_are_applied_with_the_last_that_was_typed_into_them(run: Run, end: tuple[str, ...]) -> None:
    async with run(size=(80, 24)) as driver:
        await open_argument_editor(driver)
        driver.press_together("end", *"/yz", "backspace", *end)
        await driver.until(lambda: "edited by you: 1 changed" in driver.text(), "the edited call")
        assert ("path", "/tmp/x/y") in driver.app.screen.query_one("#sent").pairs


@pytest.mark.parametrize("page", ["f1", "f4", "f5", "f6", "f7", "f12", "ctrl+o"])
@pytest.mark.parametrize("keys", [("escape", "escape"), ("enter", "enter", "enter"), ("enter", "escape", "escape")])
async def test_a_page_left_twice_at_once_closes_only_itself(run: Run, page: str, keys: tuple[str, ...]) -> None:
    async with run() as driver:
        await driver.pilot.press(page)
        await driver.until(
            lambda: driver.app.screen is not driver.app.chat and driver.app.screen.is_mounted, "the page"
        )
        driver.press_together(*keys)
        await driver.pilot.pause(0.1)
        assert driver.app.crash_error is None
        assert driver.app.screen_stack[0] is driver.app.chat
        assert driver.host.sent == []


@pytest.mark.parametrize("key", ["x", "n"])
async def test_no_form_is_confirmed_by_a_key_from_before_it_was_there(run: Run, tmp_path: Path, key: str) -> None:
    async with run(size=(100, 40)) as driver:
        roots = driver.host.roots = Roots((RootConfig(str(tmp_path), "proj", "started"),))
        before = await roots.refresh()
        await driver.pilot.press("ctrl+o")
        await driver.until(lambda: "where mcphost was started" in driver.text(), "the folder")
        driver.press_together(key, " ", "ctrl+s")
        await driver.until(lambda: "ctrl+s" in driver.text(), "the form")
        await driver.pilot.pause(0.1)
        assert await roots.refresh() == before
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "ctrl+s" not in driver.text(), "the end of the form")


def keys_to_button(dialog: Any, button: str) -> list[str]:
    """Return the keys that move the focus from the focused button to *button*."""
    ways = [item for item in dialog.focus_chain if item.parent.id == "buttons"]
    return ["right"] * (ways.index(dialog.query_one(f"#{button}")) - ways.index(dialog.focused))


def field_text(widget: Any) -> str:
    """Return the text in an input field."""
    return str(getattr(widget, "text", getattr(widget, "value", "")))


async def test_enter_that_is_held_down_stacks_up_no_notices_and_queues_once(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.is_sending = True  # an answer is on its way
        await driver.type("and again")
        for _ in range(20):
            await driver.pilot.press("enter")
        said = [notification.message for notification in driver.app._notifications]
        assert said == []
        assert [row.text for row in driver.app.chat.queue.describe()] == ["and again"]


@pytest.mark.parametrize(
    "late",
    [
        Key("a", "a"),
        Paste("late"),
        MouseMove(None, 1, 1, 0, 0, 0, False, False, False),
        MouseDown(None, 1, 1, 0, 0, 1, False, False, False),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_input_after_the_last_screen_closed_is_ignored(run: Run, late: Event) -> None:
    async with run() as driver:
        pass
    assert not driver.app._screen_stack
    with driver.app._context():
        await driver.app.on_event(late)
    assert driver.app._exception is None


async def test_keys_after_the_key_that_opens_the_find_bar_go_into_it(run: Run) -> None:
    async with run() as driver:
        await driver.type("draft")
        driver.press_together("ctrl+f", *"needle")
        await driver.until(lambda: driver.app.chat.query("FindBar Input"), "the find bar")
        await driver.until(lambda: field_text(driver.app.focused) == "needle", "the text in the bar")
        assert field_text(driver.app.chat.query_one(Composer).composer_input) == "draft"


async def test_keys_after_the_key_that_enters_the_conversation_act_there(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.query_one(Transcript).load([UserMessage(f"question {number}") for number in range(3)])
        driver.press_together("ctrl+t", "left_curly_bracket", "c")
        await driver.until(lambda: driver.app.clipboard.startswith("question"), "the copied message")
        assert field_text(driver.app.chat.query_one(Composer).composer_input) == ""


async def test_keys_after_the_key_that_opens_the_themes_choose_one(run: Run) -> None:
    async with run() as driver:
        before = driver.app.theme_choice.wanted
        driver.press_together("ctrl+l", "down", "down", "enter")
        await driver.until(lambda: driver.app.theme_choice.wanted != before, "another theme")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_a_key_of_the_chat_means_what_a_page_over_it_says(run: Run) -> None:
    async with run() as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: driver.app.screen is not driver.app.chat and driver.app.screen.is_mounted, "a page")
        before = driver.app.focused
        driver.press_together("ctrl+t", "ctrl+f")
        await driver.pilot.pause(0.1)
        assert driver.app.screen is not driver.app.chat
        assert not driver.app.chat.query("FindBar")
        assert driver.app.focused is before


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        ((*"ada", "tab", *"tone"), ("ada", "tone")),
        ((*"ada", "enter", *"tone"), ("ada", "tone")),
        (("tab", *"tone", "shift+tab", *"ada"), ("ada", "tone")),
        (("s", "backspace", "tab", *"tone", "left", "shift+tab", "z"), ("z", "tone")),
    ],
)
async def test_text_typed_right_after_the_key_that_leaves_a_field_goes_into_the_next_field(
    run: Run, keys: tuple[str, ...], texts: tuple[str, str]
) -> None:
    async with run() as driver:
        await driver.pilot.press("f5", "enter")
        await driver.until(lambda: driver.app.screen.query("#argument-1"), "the form of the prompt")
        driver.press_together(*keys)
        fields = [driver.app.screen.query_one(f"#argument-{number}") for number in (0, 1)]
        await driver.until(lambda: "".join(map(field_text, fields)) == "".join(texts), "the texts")
        assert tuple(map(field_text, fields)) == texts


async def test_text_typed_right_after_a_suggestion_was_taken_stays_in_its_field(run: Run) -> None:
    async with run() as driver:
        driver.host.features.suggestions = {"path": ["src/a", "src/b"]}
        await driver.pilot.press("f5", "enter")
        await driver.until(lambda: driver.app.screen.query("OptionList"), "the suggestions")
        driver.press_together("down", "down", "tab", *"cd", "tab", *"tone")
        fields = [driver.app.screen.query_one(f"#argument-{number}") for number in (0, 1)]
        await driver.until(lambda: [field_text(field) for field in fields] == ["src/bcd", "tone"], "the texts")
