"""Tests for preparing text for the screen: no terminal commands, no hidden text, no characters of unknown width."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._cells import cell_len

from mcphost.host.consent.call_readability import has_hidden_characters
from mcphost.tui.combining_marks import ZERO_WIDTH
from mcphost.tui.screen_text import clean, clean_line, clean_notice, first_lines, is_clean

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


def test_joined_emoji_are_shown_separately_so_that_their_width_is_known() -> None:
    assert clean("👨\u200d👩\u200d👧") == "👨👩👧"
    assert clean("❤\ufe0f") == "❤"


def test_a_flood_of_combining_marks_is_counted_instead_of_drawn() -> None:
    assert clean("z" + "\u0301" * 100) == "z" + "\u0301" * 4 + "‹+96 marks›"


@pytest.mark.parametrize(
    "mark",
    ["\u0e49", "\u0650", "\u05b0", "\u0941", "\u093e", "\u1161", "\u11a8", "\ud7b0", "\u0f71", "\u302a", "\u0f39\u0591",
     "\u1039", "\U00011046", "\U0001e94a", "\U0001f3fb", "\u0300\u0e49", "\u20dd\u1161", "\u0651\u200c"],
)  # fmt: skip
def test_a_flood_of_marks_of_any_script_is_counted_instead_of_drawn(mark: str) -> None:
    for base in ("ก", "ب", "한", "x", "😀"):
        shown = clean(f"{base}{mark * 50} end")
        run = max(len(found) for found in re.findall(f"{ZERO_WIDTH}+", shown))
        assert run <= 6
        assert re.search(r"‹\+\d+ marks›|‹U\+", shown)
        assert shown.endswith(" end")
        assert not is_clean(f"{base}{mark * 50}")


ORDINARY = {
    "Thai": "นี่คือข้อความภาษาไทย ที่มีวรรณยุกต์และสระ ผู้ใหญ่หาผ้าใหม่ให้สะใภ้ใช้คล้องคอ น้ำ กำลัง",
    "Lao": "ຂ້ອຍຢາກກິນເຂົ້າ ບໍ່ມີບັນຫາ",
    "Arabic with vowel signs": "بِسْمِ ٱللَّهِ ٱلرَّحْمَٰنِ ٱلرَّحِيمِ ٱلْحَمْدُ لِلَّهِ رَبِّ ٱلْعَٰلَمِينَ",
    "Persian": "می\u200cخواهم کتاب\u200cها را بخوانم",
    "Hebrew with points": "בְּרֵאשִׁ֖ית בָּרָ֣א אֱלֹהִ֑ים אֵ֥ת הַשָּׁמַ֖יִם וְאֵ֥ת הָאָֽרֶץ׃ יְרוּשָׁלִַ֔ם",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। क्\u200dष",
    "Sinhala": "ශ්\u200dරී ලංකාව",
    "Burmese": "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် မွေးဖွားလာသူများ လျှော့ မြွှောက်",
    "Khmer": "មនុស្សទាំងអស់ កើតមកមានសេរីភាព ស្ត្រី",
    "Tibetan": "བསྒྲུབས་ ཨོཾ་མ་ཎི་པདྨེ་ཧཱུྃ",
    "Tamil": "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்",
    "Vietnamese, decomposed": unicodedata.normalize("NFD", "Tất cả mọi người sinh ra đều được tự do và bình đẳng"),
    "Korean, decomposed": unicodedata.normalize("NFD", "모든 인간은 태어날 때부터 자유로우며 값싼 닭"),
    "Greek, decomposed": unicodedata.normalize("NFD", "ἐν ἀρχῇ ἦν ὁ λόγος ᾧ"),
    "emoji": "👍🏽 🧑🏿 🇩🇪 🎉",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY.keys())
def test_sentences_of_scripts_with_many_marks_are_left_alone(text: str) -> None:
    assert clean(text) == text
    assert is_clean(text)
    assert not has_hidden_characters(text)


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧\u200d👦 home", "🏳\ufe0f\u200d🌈", "🤦🏽\u200d♂\ufe0f", "1\ufe0f\u20e3 first"]
)
def test_emoji_sequences_lose_their_joiners_and_nothing_visible(text: str) -> None:
    assert clean(text) == text.replace("\u200d", "").replace("\ufe0f", "")


def test_every_character_that_is_given_no_cell_counts_as_a_mark() -> None:
    everything = "".join(map(chr, (*range(0x300, 0xD800), *range(0xE000, 0x110000))))
    without_cell = [character for character in everything if not cell_len(character)]
    assert [hex(ord(character)) for character in set(without_cell) ^ set(re.findall(ZERO_WIDTH, everything))] == []


def test_whatever_the_screen_does_not_draw_as_it_is_counts_as_hidden() -> None:
    everything = map(chr, (*range(0x300, 0xD800), *range(0xE000, 0x110000)))
    floods = [f"e{character * 7}" for character in everything if not cell_len(character)]
    assert [ascii(text) for text in floods if not is_clean(text) and not has_hidden_characters(text)] == []


@given(st.text(st.characters() | st.sampled_from("\u0301\u0e49\u200d\ufe0f\r\n\u202e❤👩क\u094d"), max_size=60))
def test_a_text_without_hidden_characters_is_drawn_as_it_is(text: str) -> None:
    assert has_hidden_characters(text) or clean(text) == text.replace("\r\n", "\n")


@given(st.text(st.characters() | st.sampled_from("\u0301\u0e49\u200d\ufe0f\r\n\u202e❤👩क\u094d"), max_size=60))
def test_a_text_is_clean_when_cleaning_changes_nothing(text: str) -> None:
    assert is_clean(text) is (clean(text) == text)


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
    for at, char in enumerate(shown := clean(text)):
        kind = unicodedata.category(char)
        joiner = char in "\u200c\u200d" and 0 < at < len(shown) - 1
        assert char in "\n\t" or joiner or kind not in {"Cc", "Cs", "Zl", "Zp"}, ascii(shown)
        assert char not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_notice_is_clean_and_only_the_beginning_of_a_long_text(text: str) -> None:
    assert clean_notice(text) == clean(text)
    for long in (text * 1_000, f"{text}\n" * 1_000):
        shown = clean_notice(long)
        assert is_clean(shown)
        assert shown.endswith("…")
        assert len(shown) <= 801
        assert shown.count("\n") < 12
