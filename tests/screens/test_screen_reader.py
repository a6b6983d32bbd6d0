"""Tests for screen reader mode: one column, plain text, no animation, and a line for each change and question."""

import re
from itertools import pairwise
from typing import Any

import pytest
from textual.widget import Widget
from textual.widgets import Button

from mcphost.host import events
from mcphost.host.questions.form_fields import Field, Option
from mcphost.llm.messages import Message
from mcphost.tui.forms.choice_list import ChoiceList
from mcphost.tui.screen_reader_announcer import AnnouncementLine
from mcphost.tui.transcript.tool_card import SPINNER
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widget_messages import QueueRow
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.queue_list import QueueList
from mcphost.tui.widgets.status_bars import TopBar
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion, each_example_question, open_guarded_dialog, tool_question
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_fields import form_question
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio

DRAWN = re.compile("[\u2500-\u259f\u2800-\u28ff]")
CALL = ("c1", "files", "write_file", {"path": "/tmp/x"})
TABLE = "| name | size |\n|---|---|\n| a.txt | 12 |\n| b.txt | 40 |\n\n"


def first_row(driver: AppDriver) -> str:
    return driver.text().split("\n", maxsplit=1)[0].strip()


def drawn(driver: AppDriver) -> list[str]:
    return [row for row in driver.text().split("\n") if DRAWN.search(row)]


@each_example_question
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_questions_are_announced_and_nothing_in_them_is_drawn(
    run: Run, question: Any, size: tuple[int, int]
) -> None:
    async with run(reader=True, size=size) as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        await driver.until(lambda: first_row(driver).startswith("Question: "), "the announcement")
        title = dialog.card_texts()[0]
        end = "" if title.endswith("?") else "."
        assert first_row(driver)[10:50] in f"{title}{end} F8 answers, Escape refuses."
        assert drawn(driver) == []
        assert "Ask anything" not in driver.text(), "no text of the screen behind the question"
        assert title[:30] in "\n".join(driver.text().split("\n")[1:]), "the title is also in the question"
        buttons = [one for one in dialog.query("#buttons Button").results(Button) if one.display]
        assert all(0 < one.region.y < size[1] for one in buttons)
        pending.worker.cancel()


def words_of(driver: AppDriver, widget: Widget) -> list[str]:
    region = widget.region
    rows = [row[region.x : region.right] for row in driver.text().split("\n")[region.y : region.bottom]]
    text = re.sub(r"waiting for \d+ s", "waiting", " ".join(rows))  # told from the first second on
    return re.sub(r"[^\w.:?*/()-]+|[\d_|]+", " ", text).split()


@each_example_question
async def test_a_question_shows_the_same_words_as_without_the_mode(run: Run, question: Any) -> None:
    shown: list[list[str]] = []
    for reader in (False, True):
        async with run(reader=reader, size=(110, 70)) as driver:
            pending, dialog = await open_guarded_dialog(driver, question)
            await driver.pilot.pause()
            shown.append(words_of(driver, dialog.query_one("#body")))
            pending.worker.cancel()
    assert shown[0]
    assert shown[1] == shown[0]


@pytest.mark.parametrize("key", ["f3", "f4", "f5"])
async def test_a_page_shows_the_same_details_as_without_the_mode(run: Run, key: str) -> None:
    shown: list[list[str]] = []
    for reader in (False, True):
        async with run(reader=reader, size=(90, 60)) as driver:
            await driver.pilot.press(key)
            await driver.until(lambda: driver.app.screen is not driver.app.chat, "the page")
            await driver.pilot.pause()
            shown.append(words_of(driver, driver.app.screen.query_one("#facts")))
    assert shown[0]
    assert shown[1] == shown[0]


@pytest.mark.parametrize("key", ["f1", "f3", "f4", "f5", "f6", "f7", "f10", "f12", "ctrl+o", "ctrl+l"])
async def test_pages_have_one_column_and_nothing_in_them_is_drawn(run: Run, key: str) -> None:
    async with run(reader=True, size=(120, 40)) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: driver.app.screen is not driver.app.chat, "the page")
        await driver.until(lambda: "Escape goes back." in first_row(driver), "the announcement")
        assert drawn(driver) == []
        shown = [one for one in driver.app.screen.query("#entries, #side") if one.display]
        assert all(a.region.bottom <= b.region.y for a, b in pairwise(shown))


async def test_the_entry_of_a_list_that_has_no_focus_is_announced(run: Run) -> None:
    async with run(reader=True) as driver:
        await driver.type("/")
        await driver.until(lambda: first_row(driver) == "/help Show keys, commands and symbols", "the first entry")
        await driver.pilot.press("down")
        await driver.until(lambda: first_row(driver).startswith("/sidebar "), "the second entry")
        assert drawn(driver) == []
        await driver.pilot.press("escape", "backspace", "ctrl+p")
        await driver.until(
            lambda: first_row(driver) == "History (F6). Open an earlier conversation", "the first action"
        )
        await driver.pilot.press("down")
        await driver.until(
            lambda: first_row(driver).startswith("Find in the conversation (Ctrl+F)."), "the second action"
        )
        assert drawn(driver) == []


async def test_the_chat_has_no_sidebar_until_it_is_wanted(run: Run) -> None:
    async with run(reader=True, size=(140, 40)) as driver:
        assert not driver.app.chat.has_class("sidebar")
        assert drawn(driver) == []
        await driver.pilot.press("f2")
        assert driver.app.chat.has_class("sidebar")


@each_example_question
async def test_the_focus_moves_in_the_order_of_reading(run: Run, question: Any) -> None:
    async with run(reader=True, size=(100, 40)) as driver:
        pending, dialog = await open_guarded_dialog(driver, question)
        chain: list[Widget] = [one for one in dialog.focus_chain if one.region]
        assert chain == sorted(chain, key=lambda one: (one.region.y, one.region.x))
        pending.worker.cancel()


async def test_each_state_of_a_turn_is_announced_as_one_line(run: Run) -> None:
    async with run(reader=True) as driver:
        call, server, tool, arguments = CALL
        for event, said in (
            (events.ServersAwaited(("git",)), "Starting git."),
            (events.ToolProposed(call, server, tool, arguments), "Starting git."),
            (events.ToolStarted(call, server, tool, arguments, "session"), "Running files write_file."),
            (events.ToolFinished(call, server, tool, "error", "no"), "files write_file: error."),
            (events.ToolFinished(call, server, tool, "declined", "no"), "files write_file: denied."),
            (events.TurnFinished(1, "done"), "The answer is complete."),
            (events.TurnFinished(1, "failed", error="No network."), "The answer failed. No network."),
            (events.ServerState("git", "ready"), "Server git: ready."),
            (events.ServerState("git", "failed", "gone"), "Server git: failed."),
            (events.NoticeEvent("warning", "The disk\nis full."), "The disk⏎is full."),
        ):
            driver.host.put(event)
            await driver.until(lambda said=said: first_row(driver) == said, said)


async def test_what_a_server_calls_itself_cannot_fake_another_line(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.host.put(events.ServerState("a\n\x1b[2Jb", "ready"))
        await driver.until(lambda: first_row(driver).startswith("Server a⏎"), "the announcement")
        assert "\x1b" not in driver.text()
        assert len(driver.app.screen.query(AnnouncementLine)) == 1


async def test_notifications_are_announced_instead_of_shown_in_a_corner(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.app.notify("Copied.", markup=False)
        await driver.until(lambda: first_row(driver) == "Copied.", "the announcement")
        assert len(driver.app.screen.query("Toast")) == 0
        driver.app.notify("Copied.", markup=False)
        assert first_row(driver) == "Copied."


async def test_an_answer_appears_in_whole_paragraphs(run: Run) -> None:
    async with run(reader=True) as driver:
        seen: list[str] = []
        text = "First part,\nstill first.\n\nSecond part.\n\nThe end"
        for at in range(0, len(text), 3):
            driver.host.put(events.TextDeltaEvent(1, text[at : at + 3]))
            await driver.pilot.pause()
            shown = "\n".join(row.strip() for row in driver.transcript().split("\n") if row.strip())
            if not seen or shown != seen[-1]:
                seen.append(shown)
        driver.host.put(events.TurnFinished(1, "done"))
        await driver.until(lambda: "The end" in driver.transcript(), "the rest")
        assert len(seen) == 3, seen
        assert seen[1].endswith("still first.")
        assert seen[2].endswith("Second part.")


async def test_a_long_text_without_paragraphs_appears_in_whole_lines(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.host.put(events.TextDeltaEvent(1, "```\n"))
        for number in range(400):
            driver.host.put(events.TextDeltaEvent(1, f"line {number} of the listing\n"))
        await driver.until(lambda: "line 150 of the listing" in driver.transcript(), "the first lines")


async def test_a_running_call_neither_spins_nor_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(reader=True) as driver:
        call, server, tool, arguments = CALL
        driver.host.put(events.ToolProposed(call, server, tool, arguments))
        driver.host.put(events.ToolStarted(call, server, tool, arguments, "session"))
        await driver.until(lambda: all(text in driver.text() for text in ("running", "Running files")), "the card")
        before = driver.text()
        for part in range(5):
            driver.host.put(events.ToolProgress(call, server, part, 10, f"part {part}"))
        await driver.pilot.pause()
        transcript = driver.app.query_one(Transcript)
        timers: list[object] = []
        monkeypatch.setattr(transcript, "set_timer", lambda *given: timers.append(given))
        transcript.spinner.advance()
        assert timers == []
        assert not any(mark in driver.text() for mark in SPINNER)
        assert driver.text() == before


async def test_the_top_row_tells_no_seconds(run: Run) -> None:
    async with run(reader=True) as driver:
        bar = driver.app.query_one(TopBar)
        bar.status = bar.status._replace(activity="answering · 8 s")
        await driver.until(lambda: "answering" in driver.text(), "the activity")
        assert "8 s" not in driver.text()


async def test_a_table_is_read_cell_by_cell_with_the_names_of_its_columns(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.host.put(events.TextDeltaEvent(1, f"# Files\n\n{TABLE}> quoted\n\n---\n\n├── src\n\n"))
        await driver.until(lambda: "src" in driver.text(), "the answer")
        rows = [row.strip() for row in driver.text().split("\n")]
        for wanted in ("• name a.txt", "size 12", "• name b.txt", "size 40", "quoted", "+-- src"):
            assert wanted in rows
        assert drawn(driver) == []


async def test_notices_begin_with_a_word_instead_of_a_mark(run: Run) -> None:
    async with run(reader=True) as driver:
        for level in ("warning", "error", "info"):
            driver.app.chat.presenter.add_notice(level, f"text {level}")
        await driver.until(lambda: "Note: text info" in driver.text(), "the notices")
        assert "Warning: text warning" in driver.text()
        assert "Error: text error" in driver.text()


async def test_no_cursor_blinks_and_it_begins_in_the_message(run: Run) -> None:
    async with run(reader=True) as driver:
        field = driver.app.query_one(Composer).composer_input
        await driver.until(lambda: driver.app.cursor_position == field.cursor_screen_offset, "the cursor")
        assert field.region.contains(*driver.app.cursor_position)
        assert driver.app.query_one(Composer).composer_input.cursor_blink is False


async def test_the_terminals_cursor_is_shown_and_follows_the_focus(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(reader=True) as driver:
        written: list[str] = []
        monkeypatch.setattr(driver.app.terminal, "write", written.append)
        pending, dialog = await open_guarded_dialog(driver, tool_question())
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.cursor_position == dialog.focused.region.offset, "the cursor")
        assert "\x1b[?25h" in written
        pending.worker.cancel()


async def test_a_question_keeps_its_guards(run: Run, clock: ManualClock) -> None:
    async with run(reader=True) as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question())
        await driver.pilot.press("a", "s", "A")
        clock.now += 60
        for key in ("a", "s", "A"):
            await driver.pilot.press(key)
            clock.now += 60
        assert pending.answer is None
        if driver.app.screen is not dialog:  # the letters are a message
            await driver.until(lambda: "It is waiting: F8 opens it." in first_row(driver), "the announcement")
        await driver.pilot.press("f8")
        clock.now += 60
        await driver.until(lambda: driver.dialog is not None, "the question")
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer is not None, "the answer")


async def test_a_question_that_waits_is_named_with_every_announcement(run: Run, clock: ManualClock) -> None:
    async with run(reader=True) as driver:
        await driver.type("thank")
        clock.now += 1
        pending = PendingQuestion(driver, tool_question())
        await driver.until(lambda: first_row(driver).endswith("It is waiting: F8 opens it."), "the announcement")
        assert first_row(driver).startswith("Question: Run files · write_file?")
        assert drawn(driver) == []
        driver.host.put(events.ServerState("git", "ready"))
        await driver.until(lambda: first_row(driver) == "Server git: ready. 1 question waits: F8.", "both")
        pending.worker.cancel()
        await driver.until(lambda: first_row(driver) == "Server git: ready.", "only the state")


async def test_without_the_mode_there_is_no_line(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.ServerState("git", "ready"))
        await driver.pilot.pause()
        assert len(driver.app.screen.query(AnnouncementLine)) == 0


async def test_pictures_are_named_and_not_drawn(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    async with run(reader=True) as driver:
        call, server, tool, arguments = CALL
        driver.host.put(events.ToolStarted(call, server, tool, arguments, "session"))
        driver.host.put(events.ToolFinished(call, server, tool, "ok", "[image: image/png]", images=(sunset_image(),)))
        await driver.until(lambda: "Images are listed by name, not shown." in driver.text(), "the notice")
        assert "[image: image/png]" in driver.text()
        assert drawn(driver) == []


async def test_the_terminals_cursor_follows_the_selected_entry_of_a_page(run: Run) -> None:
    async with run(reader=True, size=(80, 40)) as driver:
        await driver.pilot.press("f4")
        wanted = (("files", "README.md"), ("files", "data.json"), ("files", "any file"), ("github", "README.md"))
        for server, title in wanted:

            def is_beside(title: str = title, server: str = server) -> bool:
                lines, (x, y) = driver.text().splitlines(), driver.app.cursor_position
                return lines[y][x:].strip(" ◇").startswith(title) and f"{server} ·" in lines[y + 1]

            await driver.until(is_beside, f"the cursor beside {title} of {server}")
            await driver.pilot.press("down")


async def test_the_terminals_cursor_follows_the_selected_item_of_the_conversation(run: Run) -> None:
    async with run(reader=True) as driver:
        for number in range(40):
            driver.app.chat.presenter.add_notice("info", f"notice {number}")
        await driver.pilot.press("ctrl+t")
        for number in range(39, 9, -1):

            def is_at_notice(number: int = number) -> bool:
                x, y = driver.app.cursor_position
                return driver.text().splitlines()[y][x:].strip() == f"Note: notice {number}"

            await driver.until(is_at_notice, f"the cursor at notice {number}")
            assert drawn(driver) == [], "there is no bar"
            await driver.pilot.press("[")


async def test_the_first_line_of_a_selected_item_that_is_out_of_view_is_announced(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.app.chat.presenter.add_notice("info", "\n".join(f"line {number}" for number in range(60)))
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: first_row(driver) == "Note: line 0", "the first line")


async def test_the_terminals_cursor_follows_the_queued_messages(run: Run) -> None:
    async with run(reader=True) as driver:
        driver.app.query_one(Composer).show_queue([QueueRow(f"message {number}") for number in range(6)])
        await driver.until(lambda: driver.app.query(QueueList), "the list")
        driver.app.query_one(QueueList).focus()
        for number in range(5, -1, -1):

            def is_at_message(number: int = number) -> bool:
                x, y = driver.app.cursor_position
                return driver.text().splitlines()[y][x:].startswith(f"› message {number}")

            await driver.until(is_at_message, f"the cursor at message {number}")
            await driver.pilot.press("up")


async def test_the_terminals_cursor_follows_the_options_of_a_form(run: Run) -> None:
    async with run(reader=True) as driver:
        field = Field(name="color", kind="choice", options=(Option("r", "Red"), Option("g", "Green")))
        pending, dialog = await open_guarded_dialog(driver, form_question(field))
        await driver.pilot.press("f8")
        dialog.query_one(ChoiceList).focus()
        await driver.pilot.press("down")
        for title in ("Red", "Green"):

            def is_at_option(title: str = title) -> bool:
                x, y = driver.app.cursor_position
                return driver.text().splitlines()[y][x:].startswith(f"○ {title}")

            await driver.until(is_at_option, f"the cursor at {title}")
            await driver.pilot.press("down")
        pending.worker.cancel()


async def test_the_announcement_of_a_page_ends_with_the_page(run: Run) -> None:
    async with run(reader=True) as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: "Escape goes back." in first_row(driver), "the announcement")
        await driver.pilot.press("escape")
        await driver.until(lambda: first_row(driver) == "Ready.", "the chat")
        driver.host.put(events.TurnStarted(1, Message(role="user", parts=())))
        await driver.pilot.press("f1")
        await driver.until(lambda: "Escape goes back." in first_row(driver), "the announcement")
        await driver.pilot.press("escape")
        await driver.until(lambda: first_row(driver) == "Answering.", "the turn")


async def test_the_errors_of_a_form_are_announced(run: Run) -> None:
    async with run(reader=True) as driver:
        field = Field(name="city", kind="text", title="City", required=True)
        pending, _dialog = await open_guarded_dialog(driver, form_question(field))
        await driver.until(lambda: first_row(driver).startswith("Question: "), "the announcement")
        await driver.pilot.press("f8", "tab")
        await driver.until(lambda: "F8 answers" not in first_row(driver), "the question is entered")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: first_row(driver) == "City is required", "the error")
        pending.worker.cancel()
