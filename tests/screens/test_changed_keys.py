"""Tests for changed shortcuts in the running app: new keys work, old ones do not, and all hints are updated."""

import asyncio
import re
from typing import Any

import pytest
from textual.events import Key
from textual.widgets import Input

from mcphost.config.schema import KeyConfig
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.store.conversations import ConversationStore
from mcphost.translation import translate_sentence
from mcphost.tui.actions import ACTIONS
from mcphost.tui.key_table import DEFAULT_KEYS, QUESTION_KEYS, build_key_table
from mcphost.tui.local_keys import LOCAL_ACTIONS
from mcphost.tui.screens.help import HelpScreen, render_help
from mcphost.tui.screens.history import HistoryScreen
from mcphost.tui.screens.theme_picker import ThemePicker
from mcphost.tui.widgets.composer import Composer
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import (
    PendingQuestion,
    each_example_question,
    open_guarded_dialog,
    tool_question,
)
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio

KEYS, PROBLEMS = build_key_table({
    "help": ("ctrl+k",),
    "theme": ("alt+t",),
    "history": ("ctrl+e",),
    "answer": ("f6",),
    "quit": ("ctrl+x",),
    "auto_approval": ("ctrl+pageup",),
    "palette": ("alt+p",),
})  # fmt: skip


async def test_a_changed_key_works_while_typing_and_the_old_one_does_nothing(run: Run) -> None:
    (problem,) = PROBLEMS
    assert problem.text.startswith('"history": ctrl+e does not work on pages that use it for "models-settings".')
    async with run(keys=KEYS) as driver:
        await driver.type("text")
        await driver.pilot.press("f1", "ctrl+p")
        assert driver.app.screen is driver.app.chat
        await driver.pilot.press("ctrl+k")
        await driver.until(lambda: isinstance(driver.app.screen, HelpScreen), "help")
        await driver.pilot.press("ctrl+k")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: isinstance(driver.app.screen, HistoryScreen), "the history")
        await driver.pilot.press("escape")
        # As a terminal sends it: Textual mistakes a letter with Alt for text.
        driver.app.post_message(Key("alt+t", "t"))
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker), "the themes")
        await driver.pilot.press("escape")
        assert driver.app.query_one(Composer).composer_input.text == "text"


async def test_footer_help_and_palette_show_the_changed_keys(run: Run) -> None:
    async with run(keys=KEYS, size=(120, 60)) as driver:
        assert "ctrl+k help" in driver.text()
        assert "ctrl+x quit" in driver.text()
        assert "Ctrl+K shows all keys, Ctrl+X quits" in driver.transcript()
        await driver.pilot.press("ctrl+k")
        await driver.until(lambda: "alt+t /theme" in " ".join(driver.text().split()), "help")
        await driver.pilot.press("escape")
        driver.app.post_message(Key("alt+p", "p"))
        history = r"History +Open an earlier conversation +Ctrl\+E"
        await driver.until(lambda: re.search(history, driver.text()), "the palette")
        await driver.pilot.press("escape")


async def test_a_question_is_entered_with_the_changed_key_and_answered_by_no_other_before(
    run: Run, clock: ManualClock
) -> None:
    async with run(keys=KEYS) as driver:
        await driver.type("thank")
        clock.now += 60
        pending = PendingQuestion(driver, tool_question())
        for text in ("Press F6 or click to open", "1 waiting for you: F6"):
            await driver.until(lambda text=text: text in driver.text(), text)
        await driver.pilot.press("f8", "f9", "ctrl+pagedown", "a")
        assert driver.app.screen is driver.app.chat
        await driver.pilot.press("f6")
        await driver.until(lambda: driver.app.screen.query("#keys"), "the dialog")
        clock.now += 60
        await driver.until(lambda: driver.dialog is not None, "the dialog")
        clock.now += 60
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert driver.app.query_one(Composer).composer_input.text == "thanka"


async def test_letters_do_not_answer_a_question_that_was_not_entered(run: Run, clock: ManualClock) -> None:
    async with run(keys=KEYS) as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        await driver.until(lambda: "press F6 or tab to answer" in driver.text(), "how to enter it")
        for key in ("a", "s", "A", "f8", "ctrl+e"):
            await driver.pilot.press(key)
            clock.now += 60
        await driver.pilot.pause()
        assert pending.answer is None


OTHER_KEYS = [f"{modifier}+{letter}" for modifier in ("alt", "ctrl") for letter in "abdefgknoprtuwx0123456789"]
OTHER_KEYS += ["alt+y", "alt+z"]
MANY_KEYS, MANY_PROBLEMS = build_key_table(
    {
        one.name: (key,)
        for one, key in zip(
            [one for one in ACTIONS if one.name not in {"quit", "stop", "answer"}],
            [key for key in OTHER_KEYS if key not in QUESTION_KEYS],
            strict=False,
        )
    },
    kitty=True,
)


@each_example_question
@pytest.mark.parametrize("entered", [False, True])
async def test_no_changed_key_answers_or_covers_a_question(
    run: Run, clock: ManualClock, question: Any, *, entered: bool
) -> None:
    """The test needs keys with Alt: they come before the screen's own keys, and Textual takes Alt+letter for text."""
    assert MANY_PROBLEMS == ()
    assert all(MANY_KEYS.keys_of(one.name) for one in ACTIONS)
    async with run(keys=MANY_KEYS) as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        clock.now += 60
        if entered:
            await driver.pilot.press("f8")
            clock.now += 60
        for key in dict(MANY_KEYS.items()):
            if key not in {"escape", "ctrl+q"}:
                driver.app.post_message(Key(key, key[-1] if key.startswith("alt+") else None))
                await driver.pilot.pause()
                clock.now += 60
        assert pending.answer is None
        assert driver.app.screen is dialog
        assert driver.app.query_one(Composer).composer_input.text == ""
        pending.worker.cancel()


LOCAL_KEYS, LOCAL_PROBLEMS = build_key_table({
    "conversation-copy": ["k"],
    "conversation-next": ["ctrl+k"],
    "conversation-edit": [],
    "message-steer": ["ctrl+e"],
    "queue-remove": ["K"],
    "history-runs": ["s"],
    "history-delete": ["d"],
    "list-search": ["alt+s"],
    "viewer-copy": ["Y"],
})  # fmt: skip


async def test_the_changed_keys_of_the_conversation_work_and_are_shown_and_the_old_ones_type(run: Run) -> None:
    assert LOCAL_PROBLEMS == ()
    async with run(keys=LOCAL_KEYS, size=(120, 60)) as driver:
        driver.host.put(events.NoticeEvent("info", "something to copy"))
        await driver.until(lambda: "something to copy" in driver.transcript(), "a block")
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "[ ctrl+k step" in driver.text(), "the keys")
        assert "k copy" in driver.text()
        assert "edit" not in driver.text()
        await driver.pilot.press("ctrl+k", "k")
        await driver.until(lambda: "something to copy" in driver.app.clipboard, "the copy")
        await driver.pilot.press("c", "e")
        assert driver.app.query_one(Composer).composer_input.text == "ce"


def test_help_shows_the_changed_keys_of_a_screen() -> None:
    rows = [" ".join(line.split()) for line in render_help(keys=LOCAL_KEYS).plain.splitlines()]
    assert {"k copy the message", "ctrl+e during an answer send it after the next tool result"} <= set(rows)
    assert "[ ctrl+k previous and next message or tool" in rows
    assert not any("go back to your message" in row or row.startswith("–") for row in rows), "its key was removed"


def test_help_names_the_keys_that_are_left_in_a_row_whose_first_key_was_removed() -> None:
    keys, _ = build_key_table({"servers-restart": [], "accounts-add": []})
    text = render_help(keys=keys).plain
    assert "p stops it for now" in text
    assert "o twice signs out" in text


async def test_hints_of_the_host_name_the_keys_that_were_changed_in_the_running_program(run: Run) -> None:
    async with run() as driver:
        try:
            driver.app.use_keys((KeyConfig("servers", ("ctrl+k",)),))
            assert translate_sentence("Enable it: F3, then d.") == "Enable it: Ctrl+K, then d."
        finally:
            DEFAULT_KEYS.use_in_hints()


async def test_the_changed_keys_of_the_queue_work_and_are_shown(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(keys=LOCAL_KEYS, turn=forever) as driver:
        for text in ("one", "two"):
            await driver.type(text)
            await driver.pilot.press("enter")
        await driver.until(lambda: "» two" in driver.text() and "ctrl+e after next tool" in driver.text(), "the queue")
        await driver.pilot.press("shift+tab")
        await driver.until(lambda: "enter edits · K removes" in driver.text(), "the keys")
        await driver.pilot.press("x")
        assert "two" in driver.text()
        await driver.pilot.press("K")
        await driver.until(lambda: "» two" not in driver.text() and "› two" not in driver.text(), "no message")
        await driver.pilot.press("escape")


async def test_the_changed_keys_of_a_list_work_and_are_shown_and_the_old_letters_search(run: Run) -> None:
    async with run(keys=LOCAL_KEYS, size=(140, 40)) as driver:
        store = ConversationStore(driver.host.database)  # type: ignore[arg-type]
        for name in ("run: pears", "extra"):
            await store.append(name, Message(role="user", parts=(TextPart(name),), at=1.0), title=name, model="m")
        await driver.pilot.press("f6")
        await driver.until(lambda: "1 run not shown · s shows them" in driver.text(), "the line")
        assert all(shown in driver.text() for shown in ("s show runs", "d delete", "alt+s search"))
        await driver.pilot.press("s")
        await driver.until(lambda: "2 conversations" in driver.text(), "the runs")
        await driver.pilot.press("d")
        await driver.until(lambda: "Press d again to delete it" in driver.text(), "the question")
        await driver.pilot.press("x", "down")
        await driver.until(lambda: driver.app.screen.query_one("#search", Input).value[-1:] == "x", "the search")
        await driver.pilot.press("escape")


async def test_a_brace_as_the_key_that_shows_runs_is_in_the_line_about_them(run: Run) -> None:
    table, _problems = build_key_table({"history-runs": ["{"]})
    async with run(keys=table, size=(120, 40)) as driver:
        store = ConversationStore(driver.host.database)  # type: ignore[arg-type]
        message = Message(role="user", parts=(TextPart("pears"),), at=1.0)
        await store.append("run: pears", message, title="run: pears", model="m")
        await driver.pilot.press("f6")
        await driver.until(lambda: "1 run not shown · { shows them" in driver.text(), "the line")


async def test_no_changed_key_of_a_screen_answers_a_question(run: Run, clock: ManualClock) -> None:
    table, _problems = build_key_table({name: [key] for name, key in zip(LOCAL_ACTIONS, "asAdervl" * 20, strict=False)})
    async with run(keys=table) as driver:
        pending, _ = await open_guarded_dialog(driver, tool_question())
        for key in "asAervl":
            await driver.pilot.press(key)
            clock.now += 60
        assert pending.answer is None
        pending.worker.cancel()
