"""Tests that the translation catalog is complete and current, with the same fields as the English texts."""

import io
import re
from functools import cache
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo

from mcphost.translation import LANGUAGES, SENTENCE
from tests.translation.catalog import MO_FILE, compile_catalog, extract, read

_FIELD = re.compile(r"\{[a-z_][\w.]*(?:![rs])?(?::[^{}]*)?\}")
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_HALF_WIDTH = re.compile(
    r"[\u4e00-\u9fff”》）][,.:;!?]|[,.:;?] *[\u4e00-\u9fff“《（]|[\u4e00-\u9fff]\(|\)[\u4e00-\u9fff]"
)


@cache
def texts() -> list[Any]:
    """Return the texts of the code, which every test worker would extract if they were a constant."""
    return [message for message in extract() if message.id]


@cache
def known() -> Catalog:
    return read()


def forms(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def translated(message: Any) -> list[tuple[str, str]]:
    """Return pairs of an English form of a text (singular or plural) and one of its translations, "" if missing."""
    found = known().get(message.id, message.context)
    return [(one, other) for one in forms(message.id) for other in forms(found.string if found else "")]


def missing(*, sentences: bool) -> list[str]:
    found = [message for message in texts() if (message.context == SENTENCE) == sentences]
    return [english for message in found for english, chinese in translated(message) if not chinese]


def test_every_marked_text_has_a_translation() -> None:
    """If this fails, run `uv run python -m tests.translation.catalog` and translate as described in CONTRIBUTING.md."""
    assert missing(sentences=False) == []


def test_nearly_all_sentences_of_lower_layers_have_a_translation() -> None:
    """Five percent of the texts may lack a translation, because new error messages are shown in English at first."""
    without = missing(sentences=True)
    assert len(without) <= 0.05 * len(texts()), without


def test_the_catalog_has_no_text_that_the_code_does_not_use() -> None:
    used = {(message.id, message.context) for message in texts()}
    assert [message.id for message in known() if message.id and (message.id, message.context) not in used] == []


def test_a_translation_has_exactly_the_fields_of_the_text() -> None:
    wrong = [
        (english, chinese)
        for message in texts()
        for english, chinese in translated(message)
        if chinese and sorted(set(_FIELD.findall(english))) != sorted(set(_FIELD.findall(chinese)))
    ]
    assert wrong == []


def test_chinese_characters_are_next_to_full_width_punctuation() -> None:
    wrong = [
        chinese
        for message in texts()
        for _english, chinese in translated(message)
        if re.search(
            r"[\u4e00-\u9fff”》）][,.:;!?]|[,.:;?] *[\u4e00-\u9fff“《（]|[\u4e00-\u9fff]\(|\)[\u4e00-\u9fff]", chinese
        )
    ]
    assert wrong == []


def test_a_translation_keeps_line_breaks_and_spaces_at_its_ends() -> None:
    """Texts are joined and laid out in columns, so a translation must have the same line breaks."""
    for message in texts():
        for english, chinese in translated(message):
            if not chinese:
                continue
            assert english.startswith("\n") == chinese.startswith("\n"), english
            assert english.endswith("\n") == chinese.endswith("\n"), english
            assert english.count("\n") == chinese.count("\n"), english


def test_no_translation_has_control_characters_or_is_fuzzy() -> None:
    assert [message.string for message in known() if message.fuzzy] == []
    assert [message.string for message in known() if any(_UNSAFE.search(one) for one in forms(message.string))] == []


def test_names_of_keys_stay_as_they_are_on_the_keyboard() -> None:
    """A hint such as "ctrl+s apply" must name the same keys in each language."""
    keys = re.compile(r"\b(?:ctrl|shift|alt)\+\w+|\^[A-Z]\b|\bF\d+\b", re.IGNORECASE)
    wrong = [
        (english, chinese)
        for message in texts()
        for english, chinese in translated(message)
        if chinese and {one.lower() for one in keys.findall(english)} != {one.lower() for one in keys.findall(chinese)}
    ]
    assert wrong == []


def test_the_compiled_catalog_is_the_one_of_the_texts() -> None:
    """Headers are not compared, because they contain the version of Babel that compiled the file."""
    compiled, expected = (
        {(message.context, forms(message.id)): forms(message.string) for message in read_mo(file) if message.id}
        for file in (io.BytesIO(MO_FILE.read_bytes()), io.BytesIO(compile_catalog(known())))
    )
    assert compiled
    assert compiled == expected, "run: uv run python -m tests.translation.catalog"


@pytest.mark.parametrize("language", [one for one in LANGUAGES if one != "en"])
def test_each_language_has_a_catalog(language: str) -> None:
    assert (MO_FILE.parents[2] / language.replace("-", "_") / "LC_MESSAGES" / MO_FILE.name).is_file()
