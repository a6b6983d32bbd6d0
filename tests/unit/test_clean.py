"""Text from outside: what could deceive a reader or a terminal becomes a visible mark, everything else stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.clean import escaped, visible


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
    ],
)
def test_what_deceives_is_marked(text: str, shown: str) -> None:
    assert visible(text) == shown


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
def test_scripts_and_emoji_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


def test_one_line_when_asked() -> None:
    assert visible("a\nb\tc\r\nd", keep_newlines=False) == "a⏎b c⏎d"


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_nothing_that_moves_a_terminal_is_left(text: str) -> None:
    shown = visible(text)
    assert not any((char < " " and char not in "\t\n") or "\x7f" <= char < "\xa0" for char in shown)
    assert not any(char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff" for char in shown)
    shown.encode()
    assert visible(shown) == shown


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
def test_escaped_json_is_the_same_json(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    shown = escaped(text)
    assert json.loads(shown) == value
    assert visible(shown) == shown
