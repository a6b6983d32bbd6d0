"""Tests that text that arrives in one piece is split into blocks in steps, and that nothing of it is lost."""

import pytest
from textual.app import App, ComposeResult

from mcphost.tui import themes
from mcphost.tui.transcript import streaming
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock
from mcphost.tui.transcript.last_answer import find_last_answer
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
        self.view = Transcript()

    def compose(self) -> ComposeResult:
        yield self.view


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
