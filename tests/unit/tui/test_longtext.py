"""The index of rows behind long texts."""

from itertools import pairwise

import pytest

from mcphost.tui.widgets.longtext import _cells, _row_starts


def rows(text: str, width: int) -> list[str]:
    starts = [*_row_starts(text, width), len(text)]
    return [text[a:b].rstrip("\n") for a, b in pairwise(starts)]


def test_lines_are_rows_and_long_lines_wrap() -> None:
    assert rows("ab\n\ncdefg", 3) == ["ab", "", "cde", "fg"]


def test_wide_characters_never_overflow_a_row() -> None:
    assert rows("中文字符中文", 6) == ["中文字", "符中文"]


def test_one_unbroken_line_wraps_as_often_as_needed() -> None:
    assert len(rows("x" * 1_000_000, 100)) == 10_000


def test_an_empty_text_has_one_row() -> None:
    assert rows("", 10) == [""]


def test_nothing_is_lost_between_rows() -> None:
    text = "abc\r\n" * 50 + "中" * 40 + "\n\n" + "x" * 33
    starts = [*_row_starts(text, 10), len(text)]
    assert "".join(text[a:b] for a, b in pairwise(starts)) == text
    assert starts == sorted(set(starts))


def test_marks_and_wide_characters_fill_a_row_and_never_overflow_it() -> None:
    hostile = "ab\x1b[2J\u202e漢字 plain"
    assert rows(hostile, 12) == ["ab\x1b[2J", "\u202e漢字", " plain"]


@pytest.mark.parametrize("wide", ["", "字"])
def test_a_line_wraps_between_words_and_an_unbroken_run_within(wide: str) -> None:
    assert rows(f"the quick brown fox{wide}", 12) == ["the quick ", f"brown fox{wide}"]
    assert rows(f'    "{"k" * 20}{wide}"', 12)[:2] == ['    "kkkkkkk', "k" * 12]  # no row of blanks before it
    assert rows(f"{'k' * 15} and {wide}", 12) == ["k" * 12, f"kkk and {wide}"]
    assert "".join(rows(f"a bc  def ghij   k{wide}" * 9, 7)) == f"a bc  def ghij   k{wide}" * 9


def test_a_hidden_character_after_a_word_never_overflows_its_row() -> None:
    for width in range(10, 30):
        for text in ("one two th字ree\u202efour five\x1b six " * 5, "ab cd\u202e\u202e字 ef" * 9):
            assert max(sum(map(_cells, row)) for row in rows(text, width)) <= width
