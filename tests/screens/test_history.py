"""Tests for the history screen with a real store: search, preview, rename, pin, fork, export and delete."""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from textual.widgets import Input

from mcphost.llm.messages import Message, ResourcePart, TextPart
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationStore
from mcphost.store.search_index import STILL_INDEXING
from mcphost.tui.screens.history import HistoryScreen
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio
Fill = Callable[..., Awaitable[None]]
DAY_SECONDS = 86_400


async def fill(database: object, **texts: str) -> None:
    """Store a conversation of two messages for each text, each one day older than the one before."""
    store = ConversationStore(database)  # type: ignore[arg-type]
    now = time.time()
    for age, (name, text) in enumerate(texts.items()):
        for role, words in (("user", text), ("assistant", f"You said {text}")):
            message = Message(role=role, parts=(TextPart(words),), at=now - age * DAY_SECONDS)  # type: ignore[arg-type]
            await store.append(name, message, title=text, model="m")


async def test_a_search_finds_messages_while_it_is_typed_and_shows_them(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="apples and pears", b="修复数据库", c="pears only")
        await driver.pilot.press("f6")
        await driver.until(lambda: "Yesterday" in driver.text() and "3 conversations" in driver.text())
        await driver.pilot.press("ctrl+f", *"pea")
        await driver.until(lambda: "2 conversations" in driver.text() and "You said" in driver.text())
        driver.app.screen.query_one("#search", Input).value = "数据"
        await driver.until(lambda: "1 conversation " in driver.text() and "修复数据库" in driver.text())
        driver.app.screen.query_one("#search", Input).value = "nowhere"
        await driver.until(lambda: "Nothing found." in driver.text())
        driver.app.screen.query_one("#search", Input).value = ""
        await driver.until(lambda: "3 conversations" in driver.text())


async def test_conversations_dated_after_today_have_a_heading_that_says_so(run: Run) -> None:
    """The clock was set back, so a weekday and a date would seem to be earlier ones."""
    async with run() as driver:
        store = ConversationStore(driver.host.database)
        now = datetime.now().astimezone()
        noon = now.replace(hour=12, minute=0)
        for name, at in (("today", now), ("later", noon + timedelta(days=3)), ("years", noon + timedelta(days=700))):
            await store.append(
                name, Message(role="user", parts=(TextPart(name),), at=at.timestamp()), title=name, model="m"
            )
        await driver.pilot.press("f6")
        await driver.until(lambda: "3 conversations" in driver.text())
        lines = [line.strip(" │▌>") for line in driver.text().splitlines()]
        headings = [line for line in lines if line.startswith(("Today", "A date in the future", "Yesterday"))]
        assert [heading.split("  ")[0] for heading in headings] == ["Today", "A date in the future"]


@pytest.mark.parametrize(
    "note", [STILL_INDEXING, "before:yesterday is not a date such as 2026-01-31, or an age such as 7d."]
)
async def test_a_note_about_a_search_is_shown_whole_on_a_narrow_screen(
    run: Run, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    async with run(size=(80, 24)) as driver:
        await fill(driver.host.database, Harbour="the tide rises")
        await driver.pilot.press("f6")
        await driver.until(lambda: "1 conversation" in driver.text(), "the history")
        search = driver.host.history.search

        async def search_with_note(text: str, **more: Any) -> Any:
            return replace(await search(text, **more), notes=(note,))

        monkeypatch.setattr(driver.host.history, "search", search_with_note)
        await driver.pilot.press("ctrl+f", *"tide")
        await driver.until(lambda: note in " ".join(driver.text().split()), "the whole note")


async def test_the_history_does_not_say_that_it_is_empty_before_it_was_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="apples and pears")
        count_runs, is_read = driver.host.history.count_runs, anyio.Event()

        async def wait_and_count() -> int:
            await is_read.wait()
            return await count_runs()

        monkeypatch.setattr(driver.host.history, "count_runs", wait_and_count)
        await driver.pilot.press("f6")
        await driver.until(lambda: "Reading…" in driver.text(), "the screen")
        assert "No conversations yet" not in driver.text()
        is_read.set()
        shown = ("You said apples and pears", "1 conversation ")
        await driver.until(lambda: all(text in driver.text() for text in shown), "the list")
        assert "Reading…" not in driver.text()


async def test_a_hit_in_the_result_of_a_background_call_is_previewed_with_the_result(run: Run) -> None:
    late = ResourcePart("files", "tool:count", "Counted forty plums", use_id="c1", tool="count")
    async with run() as driver:
        await fill(driver.host.database, a="apples")
        store = ConversationStore(driver.host.database)  # type: ignore[arg-type]
        await store.append("a", Message(role="user", parts=(late,), at=time.time()), title="apples", model="m")
        await driver.pilot.press("f6", "ctrl+f", *"plums")
        await driver.until(lambda: "Background result" in driver.text(), "the preview")
        assert "count: Counted forty plums" in driver.text()
        assert "[attached" not in driver.text()


async def test_conversations_of_run_are_hidden_until_r_shows_them_and_always_searched(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="apples", b="run: pears", c="run: plums", d="run: mine", e="run: pinned")
        await driver.host.history.rename("d", "run: mine too")
        await driver.host.history.set_pinned("e", is_pinned=True)
        await ConversationStore(driver.host.database).fork("c", (1, 2), new_id="f", at=time.time())
        await driver.pilot.press("f6")
        await driver.until(lambda: "2 runs not shown · r shows them" in driver.text(), "the line")
        text = driver.text()
        assert "4 conversations" in text
        assert all(name in text for name in ("apples", "run: mine too", "run: pinned", "plums (copy)"))
        assert "pears" not in text
        await driver.pilot.press("r")
        await driver.until(lambda: "6 conversations" in driver.text(), "the runs")
        assert "r hides runs" in driver.text()
        await driver.pilot.press("r")
        await driver.until(lambda: "4 conversations" in driver.text(), "the list")
        driver.app.screen.query_one("#search", Input).value = "pears"
        await driver.until(lambda: "run: pears" in driver.text(), "the hit")


async def test_a_history_of_runs_only_says_how_to_show_them(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, b="run: pears")
        await driver.pilot.press("f6")
        await driver.until(lambda: "1 run not shown · r shows them" in driver.text(), "the line")
        assert "No conversations yet" not in driver.text()
        await driver.pilot.press("r")
        await driver.until(lambda: "run: pears" in driver.text(), "the run")


async def test_letters_that_arrive_together_with_ctrl_f_are_searched_and_delete_nothing(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="xxl shirts", b="second one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "second one" in driver.text())
        driver.press_together("ctrl+f", *"xxl")
        await driver.until(lambda: "1 conversation " in driver.text() and "xxl shirts" in driver.text())
        assert driver.app.screen.query_one("#search", Input).value == "xxl"
        assert len(await driver.host.history.list_recent()) == 2


@pytest.mark.parametrize("word", ["fail", "warehouse", "export", "need", "pears", "xxl", "ff ff", "Nx"])
async def test_a_word_typed_in_the_list_is_searched_for_and_runs_no_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    async with run() as driver:
        opened = record_opened(driver, monkeypatch)
        await fill(driver.host.database, a="fail warehouse export need pears xxl ff ff Nx", b="second one")
        await driver.pilot.press("f6", "down")
        await driver.until(lambda: "second one" in driver.text(), "the list")
        driver.press_together(*word, "enter")
        await driver.until(lambda: opened == ["a"], "the conversation that was found")
        assert not any(info.is_pinned for info in await driver.host.history.list_recent())
        assert [row.id for row in await driver.host.history.list_recent()] == ["a", "b"]


async def test_a_copy_is_opened_only_if_its_key_is_pressed_twice(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run() as driver:
        opened, forked = record_opened(driver, monkeypatch), list[str]()

        async def fork(*, mark: str) -> None:
            forked.append(mark)

        driver.host.conversation.branches = SimpleNamespace(fork=fork)
        await fill(driver.host.database, a="first one", b="fast second one")
        await driver.pilot.press("f6", "f")
        await driver.until(lambda: "Press f again to open a copy of it." in driver.text(), "the question")
        await driver.pilot.press("a")
        await driver.until(lambda: "1 conversation " in driver.text(), "the search")
        assert driver.app.screen.query_one("#search", Input).value == "fa"
        await driver.pilot.press("tab", "f")
        await driver.until(lambda: "Press f again to open a copy of it." in driver.text(), "the question")
        assert opened == []
        await driver.pilot.press("f")
        await driver.until(lambda: opened == ["b"] and forked == ["copy"], "the copy")


async def test_a_key_of_the_list_is_not_taken_for_text_before_a_key_that_types_nothing(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="first one", b="second one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "second one" in driver.text(), "the list")
        driver.press_together("n", "home", *"My ", "enter")
        await driver.until(lambda: "My first one" in driver.text(), "the new title")


async def test_a_typed_letter_taken_back_runs_no_command(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="first one", b="second one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "second one" in driver.text(), "the list")
        driver.press_together("p", "backspace", "down", "n")
        await driver.until(lambda: "Rename the conversation" in driver.text(), "the command of the next letter")
        assert not any(info.is_pinned for info in await driver.host.history.list_recent())


async def test_while_the_search_line_has_the_focus_no_letter_is_offered_as_a_key(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="first one", b="second one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "second one" in driver.text() and "x delete" in driver.text(), "the list")
        await driver.pilot.press("ctrl+f")
        await driver.until(lambda: "x delete" not in driver.text(), "the keys of the search line")
        assert "n rename" not in driver.text()
        assert "enter open" in driver.text()
        assert "esc back" in driver.text()
        driver.app.screen.query_one("#entries").focus()
        await driver.until(lambda: "x delete" in driver.text(), "the keys of the list")


async def test_a_conversation_is_renamed_pinned_and_deleted_with_two_keys(run: Run) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="first one", b="second one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "second one" in driver.text())
        await driver.pilot.press("down", "n", "home", *"Its ", "enter")
        await driver.until(lambda: "Its second one" in driver.text())
        await driver.pilot.press("p")
        await driver.until(lambda: "Pinned" in driver.text())
        await driver.pilot.press("home", "x")
        await driver.until(lambda: "Press x again" in driver.text())
        assert len(await driver.host.history.list_recent()) == 2
        await driver.pilot.press("x")
        await driver.until(lambda: "1 conversation " in driver.text())
        assert [row.id for row in await driver.host.history.list_recent()] == ["a"]


async def test_an_export_is_written_to_a_new_file(run: Run, tmp_path: Path) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="to be exported")
        await driver.pilot.press("f6")
        await driver.until(lambda: "to be exported" in driver.text())
        await driver.pilot.press("e")
        await driver.until(lambda: "to-be-exported-a.md" in driver.text())
        target = tmp_path / "talk.html"
        field = driver.app.screen.query_one("#file", Input)
        field.value = str(tmp_path / "talk.exe")
        await driver.pilot.press("enter")
        await driver.until(lambda: "must end with" in driver.text())
        field.value = str(target)
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, HistoryScreen))
        assert "to be exported" in target.read_text()
        await driver.pilot.press("e")
        await driver.until(lambda: "to-be-exported-a.md" in driver.text())
        driver.app.screen.query_one("#file", Input).value = str(target)
        await driver.pilot.press("enter")
        await driver.until(lambda: "exists" in driver.text())


def record_opened(driver: AppDriver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []

    async def open_conversation(conversation_id: str) -> None:
        opened.append(conversation_id)

    monkeypatch.setattr(driver.host.conversation, "open", open_conversation)
    return opened


@pytest.mark.parametrize(("keys", "expected"), [(("enter",), "a"), (("down", "enter"), "b")])
async def test_enter_in_the_search_opens_the_hit_under_the_cursor_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], expected: str
) -> None:
    async with run() as driver:
        opened = record_opened(driver, monkeypatch)
        await fill(driver.host.database, a="the tide of may", b="the tide of june", c="something else")
        await driver.pilot.press("f6")
        await driver.until(lambda: "something else" in driver.text())
        await driver.pilot.press("ctrl+f", *"tide")
        await driver.until(lambda: "2 conversations" in driver.text())
        await driver.pilot.press(*keys)
        await driver.until(lambda: opened == [expected], "the opened conversation")


async def test_a_cursor_moved_before_the_search_ended_stays_on_its_conversation(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        opened = record_opened(driver, monkeypatch)
        await fill(driver.host.database, a="the tide of may", b="the tide of june", c="something else")
        await driver.pilot.press("f6")
        await driver.until(lambda: "something else" in driver.text())
        search, ended = driver.host.history.search, list[str]()

        async def recorded_search(text: str, **more: Any) -> Any:
            try:
                return await search(text, **more)
            finally:
                ended.append(text)

        monkeypatch.setattr(driver.host.history, "search", recorded_search)
        await driver.pilot.press("ctrl+f", *"tid")
        await driver.until(lambda: "2 conversations" in driver.text())
        driver.press_together("e", "down")  # the search for "tide" ends after the cursor moved
        await driver.until(lambda: ended[-1:] == ["tide"], "the second search")
        await driver.pilot.pause()
        await driver.pilot.press("enter")
        await driver.until(lambda: opened == ["b"], "the opened conversation")


async def test_enter_after_a_moved_cursor_opens_its_conversation_before_the_search_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        opened = record_opened(driver, monkeypatch)
        await fill(driver.host.database, a="the tide of may", b="the tide of june", c="something else")
        await driver.pilot.press("f6")
        await driver.until(lambda: "something else" in driver.text())
        await driver.pilot.press("ctrl+f", *"tid")
        await driver.until(lambda: "2 conversations" in driver.text())
        driver.press_together("e", "down", "enter")
        await driver.until(lambda: opened == ["b"], "the opened conversation")


async def test_enter_typed_together_with_the_search_opens_its_first_hit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        opened = record_opened(driver, monkeypatch)
        await fill(driver.host.database, a="something else", b="the tide of may")
        await driver.pilot.press("f6")
        await driver.until(lambda: "something else" in driver.text())
        driver.press_together("ctrl+f", *"tide", "enter")
        await driver.until(lambda: opened == ["b"], "the opened conversation")


async def test_what_a_cleared_search_still_finds_is_not_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run() as driver:
        await fill(driver.host.database, a="apples and pears", b="plums", c="pears only")
        await driver.pilot.press("f6")
        await driver.until(lambda: "3 conversations" in driver.text(), "the history")
        search, begun, ended = driver.host.history.search, anyio.Event(), anyio.Event()

        async def search_slowly(text: str, **options: Any) -> Any:
            found = await search(text, **options)
            begun.set()
            await ended.wait()
            return found

        monkeypatch.setattr(driver.host.history, "search", search_slowly)
        await driver.pilot.press("slash", *"plums")
        await begun.wait()
        await driver.pilot.press("escape")
        ended.set()
        await driver.pilot.pause()
        await driver.until(lambda: "3 conversations" in driver.text(), "all conversations")
        assert len(driver.app.screen.visible_rows) == 3
        assert driver.app.screen.query_one("#search", Input).value == ""
