"""Tests that text that arrives in one piece is split into blocks in steps, and that nothing of it is lost."""

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection

from mcphost.tui import themes
from mcphost.tui.transcript import streaming
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, TranscriptBlock
from mcphost.tui.transcript.find import FindQuery, FindResult
from mcphost.tui.transcript.last_answer import find_last_answer
from mcphost.tui.transcript.layout import LINES_PER_BLOCK
from mcphost.tui.transcript.streaming import StreamingText
from mcphost.tui.transcript.transcript import Transcript
from tests.screens.conftest import Run
from tests.screens.rendering import wait_settled

pytestmark = pytest.mark.anyio

LINES = 20_000
TEXT = "".join(f"{number}\n" for number in range(LINES))
STEPS = 50
"""Turns of the event loop that the text takes at least if each shows one slice."""


class TranscriptApp(App[None]):
    """An app that contains only a transcript."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(themes.load("dark")[0])
        self.theme = "dark"
        self.animation_level = "none"
        self.view = Transcript()

    def compose(self) -> ComposeResult:
        yield self.view

    def visible_block(self) -> tuple[TranscriptBlock, int]:
        """Return the topmost visible block, and how many of its rows are above the view."""
        layout, y = self.view._block_layout, self.view.scroll_offset.y
        index = layout.find_index(y)
        return self.view.blocks[index], y - layout.top(index)


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a step be a single slice; return a list to which the length of the text left after each step is appended."""
    left: list[int] = []
    flush = StreamingText.flush

    def count(stream: StreamingText) -> list[object]:
        blocks = flush(stream)
        left.append(sum(map(len, stream.pending)))
        return blocks  # type: ignore[return-value]

    monkeypatch.setattr(streaming, "STEP_SECONDS", 0)
    monkeypatch.setattr(StreamingText, "flush", count)
    return left


def shown_text(view: Transcript) -> str:
    return "".join(block.text for block in view.blocks if isinstance(block, MarkdownBlock))


async def until_shown(view: Transcript, text: str) -> None:
    while len(shown_text(view)) < len(text):
        await wait_settled()


async def test_text_in_one_piece_is_shown_in_steps(steps: list[int]) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream(TEXT)
        await until_shown(app.view, TEXT)
        assert len(steps) >= STEPS
        assert steps == sorted(steps, reverse=True)
        assert shown_text(app.view) == TEXT


async def test_text_that_is_not_yet_shown_when_its_stream_ends_stays_above_what_follows(steps: list[int]) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        view = app.view
        view.stream(TEXT)
        notice = NoticeBlock("info", "the turn has ended")
        view.add(notice)
        assert len(steps) == 1
        view.stream("another answer")
        await until_shown(view, TEXT + "another answer")
        at = view.blocks.index(notice)
        assert "".join(block.text for block in view.blocks[:at] if isinstance(block, MarkdownBlock)) == TEXT
        assert [block.text for block in view.blocks[at + 1 :] if isinstance(block, MarkdownBlock)] == ["another answer"]


async def test_the_last_answer_is_copied_whole_although_its_end_is_not_yet_shown() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream(TEXT)
        app.view.close_tail()
        assert find_last_answer(app.view).split() == TEXT.split()


async def test_another_conversation_gets_nothing_of_an_unfinished_stream(steps: list[int]) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream(TEXT)
        app.view.close_tail()
        app.view.load([MarkdownBlock("stored")])
        before = len(steps)
        await wait_settled()
        assert (shown_text(app.view), len(steps)) == ("stored", before)


async def test_a_long_answer_in_one_piece_leaves_the_screen_responsive(run: Run, steps: list[int]) -> None:
    async with run() as driver:
        view = driver.app.chat.query_one(Transcript)
        view.stream(TEXT)
        view.close_tail()
        await driver.pilot.press(*"hello")
        assert driver.app.chat.composer_input.text == "hello"
        assert 0 < steps[-1] < len(TEXT)


def add_notices(view: Transcript, count: int = 60) -> None:
    for number in range(count):
        view.add(NoticeBlock("info", f"notice {number}"))


async def until_ended(view: Transcript) -> None:
    while view._unfinished._streams:
        await wait_settled()


async def test_reasoning_in_one_piece_looks_ended_when_all_of_it_is_shown() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream("word " * 5000, thinking=True)
        app.view.add(NoticeBlock("info", "the turn has ended"))
        await until_ended(app.view)
        rows = app.view._block_layout.get_strips(0)
        assert "thought, 5000 words" in "".join(strip.text for strip in rows)


async def test_selected_text_is_not_replaced_by_text_that_is_shown_above_it_later() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        view, notice = app.view, NoticeBlock("info", "the turn has ended")
        view.stream(TEXT)
        view.add(notice)
        row = view.blocks.index(notice) * LINES_PER_BLOCK
        app.screen.selections = {view: Selection(Offset(0, row), Offset(30, row))}
        assert app.screen.get_selected_text() == "the turn has ended"
        await until_ended(view)
        assert not app.screen.get_selected_text()


async def test_a_search_finds_text_that_is_not_yet_shown() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream(TEXT)
        app.view.add(NoticeBlock("info", "the turn has ended"))
        found = FindResult(FindQuery(str(LINES - 1)))
        await app.view.wait_loaded()
        await found.search(tuple(app.view.blocks))
        assert len(found.matches) == 1


async def test_all_selected_text_contains_what_is_not_yet_shown() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        app.view.stream(TEXT)
        app.view.add(NoticeBlock("info", "the turn has ended"))
        selected = app.view.get_selection(Selection(None, None))
        assert selected is not None
        assert str(LINES - 1) in selected[0]


async def test_a_code_block_is_copied_whole_although_its_end_is_not_yet_shown(run: Run) -> None:
    async with run() as driver:
        view = driver.app.chat.query_one(Transcript)
        view.stream(f"```\n{TEXT}```\n")
        view.close_tail()
        view.current_index = next(at for at, block in enumerate(view.blocks) if isinstance(block, MarkdownBlock))
        view.action_copy_part(False)
        await driver.until(lambda: driver.app.clipboard, "the copied code")
        assert driver.app.clipboard.startswith("0\n1\n")
        assert str(LINES // 4) in driver.app.clipboard.split("\n"), "the part that is shown as code"


async def test_the_visible_text_stays_in_place_while_text_is_shown_above_it() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.view.stream(TEXT)
        add_notices(app.view)
        app.view.focus()
        await pilot.press("pageup")
        before = app.visible_block()
        await until_ended(app.view)
        assert isinstance(before[0], NoticeBlock)
        assert app.visible_block() == before


@pytest.mark.parametrize("key", ["pageup", "up", "wheel"])
async def test_scrolling_up_works_although_text_arrives_before_the_next_frame(key: str) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        view = app.view
        add_notices(view)
        view.stream("text\n\n")
        await wait_settled()
        end = view.scroll_y
        if key == "wheel":
            view._on_mouse_scroll_up(events.MouseScrollUp(view, 1, 1, 0, 0, 0, False, False, False))
        else:
            {"pageup": view.action_page_up, "up": view.action_scroll_up}[key]()
        view.stream("more\n\n")
        view.flush_stream()
        await wait_settled()
        assert view.scroll_y < end
        assert not view.is_following


async def test_scrolling_up_to_blocks_of_unexpected_height_does_not_end_the_app() -> None:
    cell = "x" * 90
    table = "| a | b |\n|---|---|\n" + f"| 1 | **{cell}** [link](https://example.org) |\n" * 6
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.view.load([MarkdownBlock(table) for _ in range(40)])
        app.view.focus()
        await wait_settled()
        for _ in range(10):
            await pilot.press("pageup", "up")
        assert app.view.scroll_y < app.view.max_scroll_y


async def test_a_screen_reader_gets_the_text_after_a_blank_line_only_when_its_paragraph_ends(run: Run) -> None:
    async with run(reader=True) as driver:
        view = driver.app.chat.query_one(Transcript)
        shown = "".join(f"line {number}\n\n" for number in range(500))
        view.stream(f"{shown}unfinished")
        view.stream(" row\nand")
        await until_shown(view, shown)
        assert shown_text(view).split() == shown.split()
        view.stream(" more")
        view.close_tail()
        await until_ended(view)
        assert shown_text(view).split() == f"{shown}unfinished row and more".split()
