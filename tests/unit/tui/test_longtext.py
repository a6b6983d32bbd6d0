"""The index of rows behind long texts."""

from itertools import pairwise

from mcphost.tui.widgets.longtext import _row_starts


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
