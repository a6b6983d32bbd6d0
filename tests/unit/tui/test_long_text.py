"""Tests for the index of rows into which long texts are wrapped."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._cells import cell_len
from textual.selection import Selection

from mcphost.tui.screen_text import clean, measure_character
from mcphost.tui.widget_messages import Section
from mcphost.tui.widgets.key_values import layout_pairs
from mcphost.tui.widgets.long_text import MAX_CLEANED_WHOLE, LongText, RowIndex, prepare_row, prepare_text
from tests.fakes.long_text_app import LongTextApp

PIECES = [
    "word ", "  ", "x", "rm -rf /", "\t", "\n", "\r\n", "\r", "漢", "語字", "\x1b[2J", "\x00", "\u202e", "\u200b",
    "\U000e0041", "\u0301", "\u0301" * 7, "e\u0301", "\u0e49" * 9, "ที่", "\u05b0" * 5, "שָׁ", "\u0650", "مُ", "\u1161",
    "\u11a8" * 8, "한", "\u1112\u1161\u11ab", "क्\u200dष", "क\u093e", "\u093e" * 8, "می\u200cخو", "م\u200c", "\u200d",
    "\ufe0f", "❤\ufe0f", "👨\u200d👩\u200d👧", "👍🏽", "🏽", "🏽" * 9, "🇩🇪", "🇩", "1\ufe0f\u20e3", "\u20dd", "\ud800",
    "\ufeff", "ﷺ", "လျှော့",
]  # fmt: skip
"""What is hostile to a grid of cells: marks, wide and joined characters, controls, what reorders, halves."""
hostile = st.lists(st.sampled_from(PIECES) | st.characters(), max_size=60).map("".join)


def wrapped_spans(text: str, width: int, *, is_cleaned: bool) -> list[tuple[int, int]]:
    index = RowIndex(text, width, is_cleaned=is_cleaned)
    while not index.advance():
        pass
    found = [index.span(row) for row in range(index.rows)]
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert found[0][0] == 0
    assert found[-1][1] == len(text)
    assert all(index.find_row(start) == row for row, (start, end) in enumerate(found) if start < end)
    return found


def wrapped_rows(text: str, width: int) -> list[str]:
    drawn, is_cleaned = prepare_text(text)
    return [
        prepare_row(drawn[a:b], is_cleaned=is_cleaned) for a, b in wrapped_spans(drawn, width, is_cleaned=is_cleaned)
    ]


def cell_count(text: str) -> int:
    """Return the sum of the widths of all characters in terminal cells, that is, without combining any of them."""
    return sum(measure_character(character)[0] for character in text)


def test_lines_are_rows_and_long_lines_wrap() -> None:
    assert wrapped_rows("ab\n\ncdefg", 3) == ["ab", "", "cde", "fg"]


def test_wide_characters_never_overflow_a_row() -> None:
    assert wrapped_rows("中文字符中文", 6) == ["中文字", "符中文"]


def test_one_unbroken_line_wraps_as_often_as_needed() -> None:
    assert len(wrapped_rows("x" * 1_000_000, 100)) == 10_000


def test_an_empty_text_has_one_row() -> None:
    assert wrapped_rows("", 10) == [""]


def test_nothing_is_lost_between_rows() -> None:
    text = "abc\r\n" * 50 + "中" * 40 + "\n\n" + "x" * 33
    found = wrapped_spans(text, 10, is_cleaned=False)
    assert "".join(text[a:b] for a, b in found) == text
    assert all(a < b for a, b in found)


def test_marks_and_wide_characters_fill_a_row_and_never_overflow_it() -> None:
    text = "ab\x1b[2J\u202e漢字 plain"
    assert wrapped_rows(text, 12) == ["ab␛[2J‹U+202", "E›漢字 plain"]


@given(hostile, st.integers(4, 60))
def test_the_rows_together_show_every_character_and_none_is_wider_than_the_page(text: str, width: int) -> None:
    shown = wrapped_rows(text, width)
    assert max(map(cell_count, shown)) <= width
    assert max(map(cell_len, shown)) <= width
    assert "".join(shown) == clean(text).replace("\t", "    ").replace("\n", "")


@given(hostile, st.integers(20, 60))
def test_no_row_of_a_long_text_is_wider_than_the_page_and_none_leaves_anything_out(text: str, width: int) -> None:
    pieces = [text[a:b] for a, b in wrapped_spans(text, width, is_cleaned=False)]
    assert "".join(pieces) == text
    for piece in pieces:
        row = prepare_row(piece, is_cleaned=False)
        assert cell_count(row) <= width
        assert row == clean(piece).removesuffix("\n").replace("\t", "    ")


@given(hostile, st.integers(24, 60))
def test_a_value_in_a_question_is_shown_in_full_in_rows_that_fit(text: str, width: int) -> None:
    cleaned = clean(text)
    shown = layout_pairs([("name", cleaned)], width).plain.split("\n")
    assert max(map(cell_count, shown)) <= width
    assert "".join("".join(shown).split()) == "name" + "".join(cleaned.split())


@pytest.mark.anyio
async def test_the_page_draws_the_whole_cleaned_text() -> None:
    chance = random.Random(7)
    app = LongTextApp()
    async with app.run_test(size=(44, 12)) as pilot:
        view = app.query_one(LongText)
        for _ in range(150):
            text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(300)))
            view.show(text)
            await pilot.pause()
            drawn: list[Any] = []
            for top in range(0, view.rows, view.size.height):
                view.scroll_to(y=top, animate=False, force=True, immediate=True)
                shown_here = range(top, min(top + view.size.height, view.rows))
                drawn.extend(view.render_line(y - view.scroll_offset.y) for y in shown_here)
            assert all(strip.cell_length <= view.size.width for strip in drawn)
            assert all(cell_count(strip.text.rstrip()) < view.size.width for strip in drawn)
            shown = "".join("".join(strip.text.split()) for strip in drawn)
            assert shown == "".join(clean(text).split())


@pytest.mark.anyio
async def test_a_section_that_is_copied_has_neither_bars_nor_marks_of_wrapping() -> None:
    app = LongTextApp()
    async with app.run_test(size=(22, 12)) as pilot:
        view = app.query_one(LongText)
        view.show("", [Section("── one", "x" * 40), Section("── two", "y")])
        await pilot.pause()
        assert [view.render_line(y).text.rstrip() for y in range(6)] == [
            "── one", f"│ {'x' * 17}", f"┆ {'x' * 17}", f"┆ {'x' * 6}", "", "── two",
        ]  # fmt: skip
        result = view.get_selection(Selection(None, None))
        assert result is not None
        assert result[0] == view.text == f"── one\n{'x' * 40}\n\n── two\ny"


def test_a_character_and_its_marks_are_never_parted() -> None:
    line = "กำ" * 3 + "ที่" * 30
    for text in (line, line * (MAX_CLEANED_WHOLE // len(line) + 1)):
        assert not any(measure_character(row[0])[1] for row in wrapped_rows(text, 20))


@pytest.mark.parametrize("wide", ["", "字"])
def test_a_line_wraps_between_words_and_an_unbroken_run_within(wide: str) -> None:
    assert wrapped_rows(f"the quick brown fox{wide}", 12) == ["the quick ", f"brown fox{wide}"]
    assert wrapped_rows(f'    "{"k" * 20}{wide}"', 12)[:2] == ['    "kkkkkkk', "k" * 12]  # no blank row before it
    assert wrapped_rows(f"{'k' * 15} and {wide}", 12) == ["k" * 12, f"kkk and {wide}"]
    assert "".join(wrapped_rows(f"a bc  def ghij   k{wide}" * 9, 7)) == f"a bc  def ghij   k{wide}" * 9


def test_a_hidden_character_after_a_word_never_overflows_its_row() -> None:
    for width in range(10, 30):
        for text in ("one two th字ree\u202efour five\x1b six " * 5, "ab cd\u202e\u202e字 ef" * 9):
            assert max(map(cell_count, wrapped_rows(text, width))) <= width


@pytest.mark.parametrize("line", ["", "x", "é", "word " * 40, "語" * 90, "\t", "x" * 100, "a\u202e" * 30])
@pytest.mark.parametrize("other", ["", "y" * 101, "z" * 20_000])
def test_a_text_of_many_pieces_has_the_rows_of_its_lines(line: str, other: str) -> None:
    lines = [line] * (40_000 // (len(line) + 1)) + [other] + [line] * 3
    text = "\n".join(lines) + "\n"
    of_lines = {item: len(wrapped_spans(item, 100, is_cleaned=False)) for item in (line, other)}
    assert len(wrapped_spans(text, 100, is_cleaned=False)) == sum(of_lines[line] for line in lines) + 1


@pytest.mark.anyio
async def test_a_very_long_text_is_counted_in_turns() -> None:
    app = LongTextApp()
    async with app.run_test(size=(44, 12)) as pilot:
        view = app.query_one(LongText)
        view.show("語" * 3_000_000 + "needle")
        assert not view.is_counted
        assert view.rows < await view.find_row(3_000_003) + 1 == view.rows
        await pilot.pause()
        view.scroll_to(y=view.rows, animate=False, force=True, immediate=True)
        assert "needle" in "".join(view.render_line(y).text for y in range(12))
