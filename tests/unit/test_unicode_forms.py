"""Tests that Unicode normalization and URL parsing never fail on any text."""

import re
import unicodedata
from urllib.parse import urlsplit

import pytest

from mcphost.unicode_forms import HOST_LIMIT, MARKS_LIMIT, join_url, normalize, split_url

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
BELOW, ABOVE = "\u0315", "\u0300"  # marks of two classes, which a normal form sorts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    ["", "plain", "\ufb01le", "e\u0301" * 500, "\u00e9" * 500, "\u1112\u1161\u11ab" * 500,
     "x" * 200 + (BELOW + ABOVE) * (MARKS_LIMIT // 2) + "y" * 200],
)  # fmt: skip
def test_common_front_matter_gets_the_form_of_the_standard(form: str, text: str) -> None:
    assert normalize(form, text) == unicodedata.normalize(form, text)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mark", [BELOW + ABOVE, ABOVE, "\u0344\u0327", "\u0f73\u0f71", "\uff9e\u0315"])
def test_no_run_of_marks_that_has_to_be_sorted_is_longer_than_the_limit_allows(form: str, mark: str) -> None:
    found = normalize(form, "a" + mark * 200_000)  # pyright: ignore[reportArgumentType]
    runs = re.split("[a\u034f]", found)
    assert max(map(len, runs)) <= 3 * MARKS_LIMIT, "a mark may become up to three"
    assert unicodedata.normalize(form, found) == found  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "url",
    ["https://example.com/a?b#c", "https://b\u00fccher.example/" + "\u00e9" * 5_000, "//h\u00f6st/x", "x:y",
     "https://example.com:8080/" + "a" * 10_000, "http://" + "a" * 300 + "/"],
)  # fmt: skip
def test_an_address_is_split_like_the_standard_library_splits_it(url: str) -> None:
    assert split_url(url) == urlsplit(url)


@pytest.mark.parametrize("start", ["https://", "//", " https:/\t/", "x://user@"])
@pytest.mark.parametrize("end", ["", "/path", "?query", "#fragment"])
def test_a_host_beyond_ascii_that_is_longer_than_any_name_is_refused(start: str, end: str) -> None:
    with pytest.raises(ValueError, match="has more than 255 characters"):
        split_url(start + "a" + BELOW * HOST_LIMIT + end)
    with pytest.raises(ValueError, match="has more than 255 characters"):
        join_url("https://example.com/", start + "a" + BELOW * HOST_LIMIT + end)
