"""Tests for the rows of long values in forms: wrapped as Textual wraps them, and drawn one at a time."""

import pytest
from rich.style import Style
from textual.content import Content

from mcphost.tui.forms.wrapped_text import WrappedText


def drawn_rows(text: str, width: int) -> list[str]:
    wrapped = WrappedText(text)
    return [wrapped.render_row(number, width, Style()).text for number in range(wrapped.count_rows(width))]


@pytest.mark.parametrize(
    "text",
    [
        "one two three four five six seven",
        "short\n\nlines\n",
        "a-word-that-is-far-too-long-for-one-row and more",
        "‹U+202E›" * 12,
        "naïve café déjà vu à la carte",
        "語" * 23,
    ],
)
def test_rows_are_broken_where_textual_breaks_them(text: str) -> None:
    rows = drawn_rows(text, 12)
    assert all(len(Content(row)) and Content(row).cell_length == 12 for row in rows)
    expected = [line.plain.rstrip() for line in Content(text).wrap(12)]
    assert [row.rstrip() for row in rows] == expected


@pytest.mark.parametrize("text", ["e\u0301" * 30, "語\u0301a " * 20, "\tx\ty" * 9, "🗼" * 9])
@pytest.mark.parametrize("width", [1, 2, 7])
def test_no_character_of_an_unusual_text_is_lost(text: str, width: int) -> None:
    shown = "".join(drawn_rows(text, width)).replace(" ", "")
    expected = text.replace("\t", "").replace(" ", "")
    assert shown == expected or width == 1, "a character of two cells does not fit in one"


def test_a_row_beyond_the_end_is_blank() -> None:
    assert WrappedText("x").render_row(5, 4, Style()).text == "    "
