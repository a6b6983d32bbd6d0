"""Tests for sanitizing text from outside: deceptive characters become visible marks, and all others stay."""

import json
import sys
import tracemalloc
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost import sanitize as sanitize_module
from mcphost.config.mcp_json import parse_servers
from mcphost.sanitize import (
    BLANK_CHARACTERS,
    DEFAULT_IGNORABLE,
    FORMAT_CHARACTERS,
    IMAGE_PLACEHOLDERS,
    PIECE_LENGTH,
    PREPENDED_MARKS,
    escape_unsafe_json,
    mark_unusual_spaces,
    replace_surrogates,
    sanitize,
    strip_hidden_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb", "a\nb"),
        ("over\rwrite", "over␍write"),
        ("\x1b[31mred\x1b]52;c;eA==\x07", "␛[31mred␛]52;c;eA==␇"),
        ("\x7f\x9b31m", "␡‹U+009B›31m"),
        ("user\u202etxt", "user‹U+202E›txt"),
        ("a\u200bb\ufeff", "a‹U+200B›b‹U+FEFF›"),
        ("hi\U000e0041\U000e0042", "hi‹U+E0041›‹U+E0042›"),
        ("soft\xadhyphen", "soft‹U+00AD›hyphen"),
        ("\u2028\u2029", "‹U+2028›‹U+2029›"),
        ("\ud800", "\ufffd"),
        ("a\u200db", "a‹U+200D›b"),
        ("❤\ufe0f\ufe0f\ufe0f", "❤\ufe0f‹U+FE0F›‹U+FE0F›"),
        ("\ufe0fx", "‹U+FE0F›x"),
        ("a\U0010eeee\u0305\u0305", "a‹U+10EEEE›\u0305\u0305"),
    ],
)
def test_deceptive_characters_are_marked(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "Grüße, 你好, こんにちは, שלום, سلام",
        "می\u200cخواهم",
        "👨\u200d👩\u200d👧",
        "❤\ufe0f 1\ufe0f\u20e3 ©\ufe0f",
        "क्\u200dष",
        "é e\u0301",
    ],
)
def test_scripts_and_emoji_stay_unchanged(text: str) -> None:
    assert sanitize(text) == text


def codes_of(*tables: tuple[tuple[int, int], ...]) -> set[int]:
    return {code for ranges in tables for first, last in ranges for code in range(first, last + 1)}


def test_every_code_point_is_visible_or_marked_by_its_unicode_category() -> None:
    wrong: list[str] = []
    formats, prepended, blank = (
        codes_of(FORMAT_CHARACTERS),
        codes_of(PREPENDED_MARKS),
        codes_of(DEFAULT_IGNORABLE, BLANK_CHARACTERS, IMAGE_PLACEHOLDERS),
    )
    for code in range(0x110000):
        char, kind = chr(code), unicodedata.category(chr(code))
        if char in "\t\n" or (kind == "Cn" and code in formats):  # this Python's data may be older than the table
            continue
        hidden = (kind == "Cf" and code not in prepended) or kind in ("Cc", "Cs", "Zl", "Zp") or code in blank
        if (sanitize(f"a{char}b") == f"a{char}b") is hidden:
            wrong.append(f"U+{code:04X} {kind}")
    assert wrong == []


def test_the_table_of_ignorable_code_points_is_that_of_unicode() -> None:
    codes = [code for first, last in DEFAULT_IGNORABLE for code in range(first, last + 1)]
    assert len(codes) == len(set(codes)) == 4174
    assert {unicodedata.category(chr(code)) for code in codes} == {"Cf", "Mn", "Lo", "Cn"}
    assert all(
        unicodedata.category(chr(code)) == "Cf" for first, last in PREPENDED_MARKS for code in range(first, last + 1)
    )


@pytest.mark.parametrize(
    "name",
    ["BRAILLE PATTERN BLANK", "HANGUL FILLER", "HALFWIDTH HANGUL FILLER", "MUSICAL SYMBOL BEGIN BEAM",
     "EGYPTIAN HIEROGLYPH VERTICAL JOINER", "VARIATION SELECTOR-1", "VARIATION SELECTOR-256",
     "TAG LATIN SMALL LETTER A",
     "KHITAN SMALL SCRIPT FILLER", "MUSICAL SYMBOL NULL NOTEHEAD", "MONGOLIAN FREE VARIATION SELECTOR FOUR"],
)  # fmt: skip
def test_an_invisible_character_is_marked_and_not_allowed_in_a_server_name(name: str) -> None:
    char = unicodedata.lookup(name)
    assert sanitize(f"a{char}b") == f"a‹U+{ord(char):04X}›b"
    problems: list[str] = []
    assert parse_servers({"mcpServers": {f"a{char}b": {"command": "x"}}}, "f", "user", problems.append) == ()
    assert "invisible" in problems[0]


@pytest.mark.parametrize(
    "text", ["a\u200cb", "ж\u200dж", "中\u200d文", "9\u200d9", "─\u200d─", "م\u200c", "م\u200c١", "م\u200c\u200cم"]
)
def test_a_joiner_where_no_script_needs_it_is_marked(text: str) -> None:
    assert "\u200c" not in sanitize(text)
    assert "\u200d" not in sanitize(text)


def test_a_payload_of_variation_selectors_is_removed_and_selectors_with_a_meaning_are_kept() -> None:
    pairs = "".join(chr(0xFE00 + (byte >> 4)) + chr(0xFE00 + (byte & 15)) for byte in b"obey me")
    for base in ("a", "😀", "城", "1", "☃", "\n", ""):
        left = strip_hidden_text(f"{base}{pairs}.")
        assert len(left.removeprefix(base)) <= 2, (base, left)  # a selector with a meaning for its base, and the dot
        assert left[0] == (base or ".")
    assert strip_hidden_text("a\ufe0f b\ufe00 ≨\ufe0e") == "a b ≨"
    for kept in (
        "❤\ufe0f",
        "☎\ufe0e",
        "1\ufe0f\u20e3",
        "👁\ufe0f\u200d🗨\ufe0f",
        "神\ufe00",
        "葛\U000e0100",
        "1\ufe0f\u20e3#\ufe0f\u20e3",
    ):
        assert strip_hidden_text(kept) == kept
        padded = "x" * (PIECE_LENGTH - 2) + kept * 3
        assert strip_hidden_text(padded) == padded
        assert strip_hidden_text(f"x{padded}") == f"x{padded}"
        assert strip_hidden_text(padded[1:]) == padded[1:]


def test_text_for_a_model_has_no_tag_characters_and_only_ideographic_variation_selectors() -> None:
    hidden = "".join(chr(0xE0100 + byte) for byte in b"obey") + "\U000e0041"
    assert strip_hidden_text(f"葛\U000e0100城😀{hidden}") == "葛\U000e0100城😀"


@given(
    st.text(
        alphabet="a1❤\ufe00\ufe0f\u20e3\n\x1b\x7f葛\U00020001\ufeff\U000e0041\U000e0100\U000e01ef\ud83d\ude00",
        max_size=30,
    )
)
def test_a_long_text_is_cleaned_in_pieces_with_the_same_result(text: str) -> None:
    whole = strip_hidden_text(text), replace_surrogates(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sanitize_module, "PIECE_LENGTH", 4)
        assert (strip_hidden_text(text), replace_surrogates(text)) == whole


def test_one_line_when_asked() -> None:
    assert sanitize("a\nb\tc\r\nd", keep_newlines=False) == "a⏎b c⏎d"


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_nothing_that_moves_a_terminal_is_left(text: str) -> None:
    shown = sanitize(text)
    assert not any((char < " " and char not in "\t\n") or "\x7f" <= char < "\xa0" for char in shown)
    assert not any(char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff" for char in shown)
    shown.encode()
    assert sanitize(shown) == shown


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_escaped_json_is_the_same_json(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    shown = escape_unsafe_json(text)
    assert json.loads(shown) == value
    assert sanitize(shown) == shown


def test_the_marks_of_a_million_spaces_share_their_memory() -> None:
    text = "\xa0" * 200_000
    tracemalloc.start()
    try:
        marked = mark_unusual_spaces(text)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert marked == "‹U+00A0›" * 200_000
    assert most < 3 * sys.getsizeof(marked)
