"""Tests that long text never takes more than a bounded amount of work in one turn of the event loop."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult

from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.tui import themes
from mcphost.tui.transcript import opened_conversation, streaming
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, TranscriptBlock
from mcphost.tui.transcript.layout import BlockRenderer
from mcphost.tui.transcript.presenter import TranscriptPresenter
from mcphost.tui.transcript.streaming import StreamingText
from mcphost.tui.transcript.transcript import Transcript
from tests.screens.rendering import wait_settled

pytestmark = pytest.mark.anyio

TEXT = "".join(f"{number}\n" for number in range(4_000))
SLICE_LINES = 200
MAX_DRAWN_BLOCKS = 40


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


class Turns:
    """The number of lines split, and of blocks drawn, in each turn of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self.lines: Counter[int] = Counter()
        self.drawn: Counter[int] = Counter()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Let a step be a single slice, and count the work of each turn."""
    counted = Turns()
    run, flush, render = vars(asyncio.Handle)["_run"], StreamingText.flush, BlockRenderer.render

    def count_turn(handle: asyncio.Handle) -> None:
        counted.number += 1
        run(handle)

    def count_lines(stream: StreamingText, end: float | None = None) -> list[TranscriptBlock]:
        before = "".join(stream.pending).count("\n")
        blocks = flush(stream, end)
        counted.lines[counted.number] += before - "".join(stream.pending).count("\n")
        return blocks

    def count_drawn(renderer: BlockRenderer, block: TranscriptBlock, first_line: int, selection: object) -> object:
        counted.drawn[counted.number] += 1
        return render(renderer, block, first_line, selection)  # type: ignore[arg-type]

    monkeypatch.setattr(streaming, "STEP_SECONDS", 0)
    monkeypatch.setattr(opened_conversation, "SLICE_SECONDS", 0)
    monkeypatch.setattr(asyncio.Handle, "_run", count_turn)
    monkeypatch.setattr(StreamingText, "flush", count_lines)
    monkeypatch.setattr(BlockRenderer, "render", count_drawn)
    return counted


def message(role: str, text: str) -> Message:
    return Message(role=role, parts=(TextPart(text),), at=1.0)  # type: ignore[arg-type]


def open_with_last(presenter: TranscriptPresenter) -> None:
    presenter.load([message("user", "question"), message("assistant", TEXT)])


def open_with_earlier(presenter: TranscriptPresenter) -> None:
    newer = [message(role, "short") for _number in range(200) for role in ("user", "assistant")]
    presenter.load([message("user", "question"), message("assistant", TEXT), *newer])


def insert_answer(presenter: TranscriptPresenter) -> None:
    inserted = events.MessagesInserted(messages=(message("assistant", TEXT),))
    presenter.event_handlers[events.MessagesInserted](inserted)


def stream_at_once(presenter: TranscriptPresenter) -> None:
    presenter.transcript.stream(TEXT)


def stream_and_end(presenter: TranscriptPresenter) -> None:
    presenter.transcript.stream(TEXT)
    presenter.transcript.close_tail()


def shown_text(view: Transcript) -> str:
    return "".join(block.text for block in view.blocks if isinstance(block, MarkdownBlock) and block.text != "short")


@pytest.mark.parametrize("show", [open_with_last, open_with_earlier, insert_answer, stream_at_once, stream_and_end])
async def test_long_text_is_split_and_drawn_in_many_turns(
    turns: Turns, show: Callable[[TranscriptPresenter], None]
) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        turns.lines.clear()
        show(TranscriptPresenter(app.view))
        turns.number += 1  # what follows belongs to other turns than the call above
        await app.view.wait_loaded()
        while len(shown_text(app.view)) < len(TEXT):
            await wait_settled()
        assert shown_text(app.view) == TEXT
        assert max(turns.lines.values()) <= SLICE_LINES
        assert max(turns.drawn.values()) <= MAX_DRAWN_BLOCKS


async def test_another_conversation_gets_nothing_of_a_message_that_is_still_being_split(turns: Turns) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        presenter = TranscriptPresenter(app.view)
        for show in (open_with_last, open_with_earlier):
            show(presenter)
            presenter.load([message("user", "question"), message("assistant", "stored")])
            turns.lines.clear()
            await app.view.wait_loaded()
            await wait_settled()
            assert (shown_text(app.view), turns.lines.total()) == ("stored", 0)


async def test_a_jump_to_the_beginning_shows_a_message_that_is_still_being_split() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)):
        open_with_earlier(TranscriptPresenter(app.view))
        app.view.action_jump(False)
        assert shown_text(app.view) == TEXT


async def test_blocks_inserted_below_do_not_redraw_what_is_above(turns: Turns) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 30)):
        notices = [NoticeBlock("info", f"notice {number}") for number in range(6)]
        app.view.load(notices)
        await wait_settled()
        turns.drawn.clear()
        app.view.insert(notices[-2], [NoticeBlock("info", "inserted")])
        assert turns.drawn.total() == 2, "the inserted block and the one below it"
