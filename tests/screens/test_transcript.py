"""Tests for the text of the transcript: selecting, copying, links, widths and long conversations."""

from time import process_time
from typing import Any

import pytest
from textual._cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection
from textual.strip import Strip

from mcphost.tui import themes
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, ThinkingBlock, TranscriptBlock, UserMessage
from mcphost.tui.transcript.layout import LINES_PER_BLOCK
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widget_messages import CopyRequested, LinkClicked, Section, TextViewRequested
from mcphost.tui.widgets.long_text import LongText
from tests.fakes.long_text_app import LongTextApp
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


class TranscriptApp(App[None]):
    """An app that contains only a transcript."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(themes.load("dark")[0])
        self.theme = "dark"
        self.animation_level = "none"
        self.links: list[str] = []
        self.opened: list[str] = []
        self.copied: list[tuple[str, str]] = []
        self.sections: list[list[Section]] = []

    def compose(self) -> ComposeResult:
        yield Transcript(id="t")

    def on_link_clicked(self, message: LinkClicked) -> None:
        self.links.append(message.url)

    def on_text_view_requested(self, message: TextViewRequested) -> None:
        self.opened.append(message.text)
        self.sections.append(list(message.sections))

    def on_copy_requested(self, message: CopyRequested) -> None:
        self.copied.append((message.confirmation, message.text))

    @property
    def view(self) -> Transcript:
        return self.query_one(Transcript)

    def rows(self) -> list[str]:
        return [self.view.render_line(y).text for y in range(self.view.size.height)]


async def test_a_drag_selects_text_across_blocks_and_copies_it_unwrapped() -> None:
    app = TranscriptApp()
    long = "one two three four five six seven eight nine ten eleven twelve"
    async with app.run_test(size=(40, 20)) as pilot:
        app.view.load([MarkdownBlock(long), MarkdownBlock("second **block**")])
        await pilot.pause()
        rows = app.rows()
        first = next(y for y, row in enumerate(rows) if "one two" in row)
        last = next(y for y, row in enumerate(rows) if "second block" in row)
        assert last - first > 2
        await pilot.mouse_down("#t", offset=(1 + rows[first].index("two"), first))
        await pilot.hover("#t", offset=(1 + rows[last].index("block") + 5, last))
        await pilot.mouse_up("#t", offset=(1 + rows[last].index("block") + 5, last))
        await pilot.pause()
        assert app.screen.get_selected_text() == long[4:] + "\n\nsecond block"


async def test_selecting_everything_gives_everything_even_what_was_never_drawn() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.load([MarkdownBlock(f"block {n}") for n in range(200)])
        await pilot.pause()
        result = app.view.get_selection(Selection(None, None))
        assert result is not None
        assert result[0].split() == [word for n in range(200) for word in ("block", str(n))]


async def test_part_of_one_line_is_selected_by_its_characters() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(40, 10)):
        app.view.load([UserMessage("first\nsecond 中文 line")])
        result = app.view.get_selection(Selection(Offset(7, 2), Offset(9, 2)))
        assert result is not None
        assert result[0] == "中文"
        assert LINES_PER_BLOCK > 100_000


async def test_clicking_a_link_shows_its_url_and_opens_nothing() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 10)) as pilot:
        app.view.load([MarkdownBlock("go [here](https://example.com/x?a=1) now")])
        await pilot.pause()
        row = next(y for y, text in enumerate(app.rows()) if "here" in text)
        await pilot.click("#t", offset=(2 + app.rows()[row].index("here") + 1, row))
        await pilot.pause()
        assert app.links == ["https://example.com/x?a=1"]


@pytest.mark.parametrize(
    "text",
    [
        "中文字符" * 30,
        "👍🏽 🎉 " * 30,
        "a👨\u200d👩\u200d👧b " * 20,
        "ｗｉｄｅ" * 20,
        "e\u0301" * 100,
    ],
)
@pytest.mark.parametrize("width", [20, 41, 80])
async def test_every_row_is_exactly_as_wide_as_the_view(text: str, width: int) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(width, 30)) as pilot:
        card = ToolCard("c", text, text, {"k": text, "other": text})
        card.finish("ok", text, 1)
        app.view.load(
            [
                UserMessage(text),
                MarkdownBlock(text),
                MarkdownBlock(f"|{text}|b|\n|-|-|\n|1|{text}|"),
                card,
                NoticeBlock("error", text),
            ]
        )
        await pilot.pause()
        for y in range(app.view.virtual_size.height):
            app.view.scroll_to(y=y, animate=False, force=True)
            strip = app.view.render_line(0)
            assert strip.cell_length == 1 + app.view.text_width == cell_len(strip.text)


async def test_a_stream_follows_its_end_and_the_kinds_of_text_stay_apart() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)) as pilot:
        view = app.view
        view.stream("first I think", thinking=True)
        for n in range(100):
            view.stream(f"word{n} ")
            if n % 10 == 9:
                view.stream("\n\n")
        view.close_tail()
        await pilot.pause()
        assert isinstance(view.blocks[0], ThinkingBlock)
        assert "thought, 3 words" in view.blocks[0].render(40)[0].content.plain
        assert any("word99" in row for row in app.rows())
        text = "".join(block.text for block in view.blocks[1:] if isinstance(block, MarkdownBlock))
        assert text.split() == [f"word{n}" for n in range(100)]


async def test_a_long_history_opens_without_measuring_all_of_it_and_scrolls_through_all_of_it() -> None:
    app = TranscriptApp()
    blocks: list[TranscriptBlock] = [
        UserMessage(f"question {n}") if n % 2 else MarkdownBlock(f"answer *{n}*\n\n" * 5) for n in range(5000)
    ]
    async with app.run_test(size=(100, 40)) as pilot:
        started_at = process_time()
        app.view.load(blocks)
        await pilot.pause()
        assert process_time() - started_at < 2  # measuring all of them takes 20 s
        assert sum(block.is_measured for block in blocks) < 60
        assert any("question 4999" in row for row in app.rows())
        app.view.focus()
        await pilot.press("home")
        await pilot.pause()
        assert any("answer 0" in row for row in app.rows())
        await pilot.press("end")
        await pilot.pause()
        assert any("question 4999" in row for row in app.rows())


async def test_scrolling_up_through_unmeasured_blocks_never_skips_a_line() -> None:
    app = TranscriptApp()
    blocks: list[TranscriptBlock] = [MarkdownBlock(f"# head {n}\n\ntext {n}\n\n- a {n}\n- b {n}\n") for n in range(24)]
    async with app.run_test(size=(60, 10)) as pilot:
        app.view.load(blocks)
        await pilot.pause()
        recorded: list[str] = []
        while app.view.scroll_offset.y > 0:
            before = app.rows()
            app.view.scroll_up(animate=False, force=True)
            await pilot.pause()
            after = app.rows()
            assert after[1:] == before[:-1]
            recorded.append(after[0])
        assert sum("head" in row for row in recorded) >= 21


async def test_thinking_unfolds_and_a_card_opens_by_key() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "s", "t", {})
        card.finish("ok", "\n".join(map(str, range(100))), 1)
        app.view.load([ThinkingBlock("deep thought"), card])
        app.view.focus()
        await pilot.press("enter")
        assert app.opened == [card.result]
        await pilot.press("left_square_bracket", "enter")
        await pilot.pause()
        assert any("deep thought" in row for row in app.rows())


async def test_a_result_can_imitate_no_heading_of_its_page() -> None:
    app = TranscriptApp()
    lie = "done\n\ncalled with path\n/etc/passwd\n" + "more\n" * 50
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "s", "t", {"path": "/home\ncalled with mode\nread"})
        card.finish("ok", lie, 1)
        app.view.load([card])
        app.view.focus()
        await pilot.press("enter")
        assert app.sections == [[Section("result", lie), Section("called with path", "/home\ncalled with mode\nread")]]


@pytest.mark.parametrize("text", ["a line of text\n" * 700_000, "x" * 10_000_000], ids=["lines", "one line"])
async def test_ten_megabytes_open_without_measuring_them_all_and_can_be_read_at_both_ends(text: str) -> None:
    app = LongTextApp()
    async with app.run_test(size=(80, 24)) as pilot:
        view = app.query_one(LongText)
        started_at = process_time()
        view.show(text + "the end")
        await pilot.pause()
        assert process_time() - started_at < 4
        view.focus()
        await pilot.press("end")
        await pilot.pause()
        rows: Any = [view.render_line(y).text for y in range(view.size.height)]
        assert any("the end" in row for row in rows)


async def test_long_text_is_cleaned_row_by_row_and_copied_as_it_was_broken() -> None:
    app = LongTextApp()
    async with app.run_test(size=(22, 10)) as pilot:
        view = app.query_one(LongText)
        view.show("\x1b[31mred\nabcdefghijklmnopqrstuvwxyz\nend")
        await pilot.pause()
        rows = [view.render_line(y).text for y in range(5)]
        assert rows[0].startswith("␛[31mred")
        result = view.get_selection(Selection(None, None))
        assert result is not None
        assert result[0] == "␛[31mred\nabcdefghijklmnopqrstuvwxyz\nend"


@pytest.fixture
def drawn_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the numbers of the transcript's rows as they are drawn."""
    rows: list[int] = []
    render = Transcript.render_line

    def noted(self: Transcript, y: int) -> Strip:
        rows.append(y)
        return render(self, y)

    monkeypatch.setattr(Transcript, "render_line", noted)
    return rows


async def test_a_running_call_redraws_one_row_at_each_spinner_step(drawn_rows: list[int]) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "files", "read", {"path": "notes.txt"})
        app.view.load([MarkdownBlock("above\n\n" * 3)])
        app.view.add(card)
        card.start({"path": "notes.txt"}, "once")
        app.view.update_block(card)
        await pilot.pause()
        head = next(y for y, row in enumerate(app.rows()) if "running" in row)
        drawn_rows.clear()
        app.view.spinner.advance()
        await pilot.pause()
        assert drawn_rows.count(head) == 1
        assert set(drawn_rows) == {head}


async def test_a_call_that_is_out_of_view_draws_nothing(drawn_rows: list[int]) -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "files", "read", {"path": "notes.txt"})
        app.view.load([MarkdownBlock(f"line {number}") for number in range(200)])
        app.view.add(card)
        card.start({"path": "notes.txt"}, "once")
        app.view.update_block(card)
        app.view.action_jump(False)
        await pilot.pause()
        drawn_rows.clear()
        app.view.spinner.advance()
        await pilot.pause()
        assert drawn_rows == []


async def test_the_spinner_of_a_long_call_turns_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TranscriptApp()
    waits: list[float] = []
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "files", "read", {})
        card.start({}, "once")
        monkeypatch.setattr(app.view, "set_timer", lambda seconds, _: waits.append(seconds))
        app.view.add(card)
        for _ in range(45):
            app.view.spinner.advance()
        await pilot.pause()
        assert waits[:30] == [0.25] * 30
        assert waits[-5:] == [1.0] * 5
        card.finish("ok", "done", 3600)
        app.view.spinner.advance()
        assert len(waits) == 46


CODE_AND_TABLE = "Look:\n\n```py\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


async def test_a_click_on_copy_copies_that_code_block() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)) as pilot:
        app.view.load([MarkdownBlock("first"), MarkdownBlock(CODE_AND_TABLE)])
        await pilot.pause()
        places = [(y, row.index("copy")) for y, row in enumerate(app.rows()) if "copy" in row]
        assert len(places) == 2
        for y, x in places:
            await pilot.click("#t", offset=(1 + x, y))
        await pilot.pause()
        assert app.copied == [
            ("Copied the py code (1 of 2).", "print(1)\n"),
            ("Copied the table (2 of 2).", "| a | b |\n| --- | --- |\n| 1 | 2 |\n"),
        ]


async def test_a_key_copies_one_part_after_the_other_and_a_table_as_values() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)) as pilot:
        card = ToolCard("c", "s", "t", {})
        card.finish("ok", "the result", 1)
        app.view.load([MarkdownBlock(CODE_AND_TABLE), card])
        app.view.focus()
        await pilot.pause()
        await pilot.press("y", "left_square_bracket", "y", "y", "y", "Y", "Y")
        await pilot.pause()
        texts = [text for _, text in app.copied]
        assert texts[0] == "the result"
        assert texts[1:4] == ["print(1)\n", "| a | b |\n| --- | --- |\n| 1 | 2 |\n", "print(1)\n"]
        assert texts[4:] == ["a\tb\n1\t2\n", "print(1)\n"]


async def test_a_selection_leaves_out_the_rows_that_only_decorate() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 20)):
        app.view.load([MarkdownBlock("# Title\n\n" + CODE_AND_TABLE)])
        result = app.view.get_selection(Selection(None, None))
        assert result is not None
        assert result[0].split("\n") == ["Title", "", "Look:", "", "print(1)", "", "a  b", "1  2"]


async def test_part_of_wrapped_chinese_text_is_selected_by_its_characters() -> None:
    app = TranscriptApp()
    text = "今天天气很好，我们去公园。" * 4
    async with app.run_test(size=(40, 20)) as pilot:
        app.view.load([MarkdownBlock(text)])
        await pilot.pause()
        rows = [row for row in app.rows() if row.strip()]
        assert len(rows) > 2
        assert not [row for row in rows if row.strip()[0] in "，。"]
        y = next(y for y, row in enumerate(app.rows()) if row.strip()) + 1
        await pilot.mouse_down("#t", offset=(2, y))
        await pilot.hover("#t", offset=(10, y))
        await pilot.mouse_up("#t", offset=(10, y))
        await pilot.pause()
        first_row = rows[0].strip()
        assert app.screen.get_selected_text() == text[len(first_row) : len(first_row) + 5]
        shown = app.view.render_line(y)
        assert [segment.text for segment in shown if segment.style and segment.style.bgcolor][1:2]


async def test_new_content_below_is_counted_while_the_user_reads_further_up() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.view.load([MarkdownBlock(f"block {n}") for n in range(50)])
        await pilot.pause()
        assert " new " not in app.rows()[-1]
        app.view.scroll_to(y=10, animate=False)
        await pilot.pause()
        assert " new " not in app.rows()[-1]
        for n in range(3):
            app.view.add(MarkdownBlock(f"later {n}"))
        await pilot.pause()
        assert "↓ 3 new · end" in app.rows()[-1]
        await pilot.click("#t", offset=(app.rows()[-1].index("new") + 1, 11))
        await pilot.pause()
        assert app.view.is_following
        assert "later 2" in "".join(app.rows())
        assert "↓" not in app.rows()[-1]


async def test_braces_go_from_one_message_of_the_user_to_the_next() -> None:
    app = TranscriptApp()
    async with app.run_test(size=(60, 12)) as pilot:
        app.view.load([block for n in range(20) for block in (UserMessage(f"question {n}"), MarkdownBlock("a\n\nb"))])
        app.view.focus()
        await pilot.pause()
        await pilot.press("left_curly_bracket", "left_curly_bracket")
        assert app.view.blocks[app.view.current_index].copy_text() == "question 18"
        assert "question 18" in "".join(app.rows())
        await pilot.press("right_curly_bracket")
        assert app.view.blocks[app.view.current_index].copy_text() == "question 19"


async def test_what_is_copied_has_no_control_characters(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.query_one(Transcript).load([MarkdownBlock("```sh\necho hi\x1b[201~\x07\x9b\tx\n```\n")])
        await driver.pilot.press("ctrl+t", "y")
        await driver.until(lambda: bool(driver.app.clipboard), "the copy")
        assert driver.app.clipboard == "echo hi[201~\tx\n"
