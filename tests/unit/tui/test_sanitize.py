"""What reaches the screen: nothing that commands a terminal, hides text, or has a width nobody knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.tui.sanitize import clean, clean_line, first_lines, is_clean

HOSTILE = {
    "escape": "\x1b[31mred",
    "osc 52": "\x1b]52;c;aGk=\x07",
    "osc 8": "\x1b]8;;https://x\x1b\\click\x1b]8;;\x1b\\",
    "null": "a\x00b",
    "backspace": "a\x08\x08b",
    "bell": "\x07",
    "delete": "a\x7fb",
    "c1 csi": "\x9b31m",
    "next line": "a\x85b",
    "carriage return": "safe\rfake",
    "right-to-left override": "a\u202etxt.exe",
    "isolate": "\u2066a\u2069",
    "arabic letter mark": "a\u061cb",
    "zero width space": "a\u200bb",
    "word joiner": "a\u2060b",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\xadb",
    "hangul filler": "a\u3164b",
    "tag characters": "a\U000e0041\U000e0042",
    "variation flood": "a" + "\U000e0100" * 50,
    "selector flood": "a" + "\ufe00" * 20,
    "line separator": "a\u2028b",
    "lone surrogate": "a\ud800b",
    "invisible times": "a\u2062b",
}


@pytest.mark.req("sec.untrusted-descriptions")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_every_kind_of_hostile_character_leaves_a_visible_mark_only(text: str) -> None:
    shown = clean(text)
    assert shown != text
    assert all(char in "\n\t" or (char.isprintable() and char != "\u2028") for char in shown), ascii(shown)


def test_an_escape_character_is_shown_as_its_picture() -> None:
    assert clean("\x1b[2J") == "␛[2J"


def test_line_ends_and_tabs_stay_and_crlf_is_one_line_end() -> None:
    assert clean("a\tb\r\nc\n") == "a\tb\nc\n"


def test_ordinary_text_of_many_scripts_is_left_alone() -> None:
    for text in ("plain", "Grüße", "中文，日本語", "עברית", "می‌خواهم", "क्‍ष", "ว่าง", "e\u0301", "🎉 👍🏽 🇩🇪"):
        assert clean(text) == text
        assert is_clean(text)


def test_joined_emoji_are_shown_one_beside_the_other_so_that_their_width_is_known() -> None:
    assert clean("👨\u200d👩\u200d👧") == "👨👩👧"
    assert clean("❤\ufe0f") == "❤"


def test_a_flood_of_combining_marks_is_counted_instead_of_drawn() -> None:
    assert clean("z" + "\u0301" * 100) == "z" + "\u0301" * 4 + "‹+96 marks›"


def test_one_line_fields_are_bounded_and_have_no_line_end() -> None:
    assert clean_line("a\nb\tc") == "a⏎b␉c"
    assert len(clean_line("x" * 10_000, 50)) == 50
    assert clean_line("x" * 10_000, 50).endswith("…")


def test_the_first_lines_of_a_text_come_with_the_number_of_the_rest() -> None:
    assert first_lines("a\nb\nc", 2) == (["a", "b"], 1)
    assert first_lines("a\nb\n", 2) == (["a", "b"], 0)
    assert first_lines("x" * 100, 3, 10) == (["x" * 10 + "…"], 0)


@given(st.text(st.characters(), max_size=200))
def test_cleaned_text_never_holds_a_control_or_format_character(text: str) -> None:
    import unicodedata

    for at, char in enumerate(shown := clean(text)):
        kind = unicodedata.category(char)
        joiner = char in "\u200c\u200d" and 0 < at < len(shown) - 1
        assert char in "\n\t" or joiner or kind not in {"Cc", "Cs", "Zl", "Zp"}, ascii(shown)
        assert char not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff"
