"""Tests that ASCII text and repetitive text are searched for copies quickly, with the same result as any other text."""

import random
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from mcphost.host.origins.copy_index import CopyBudget, CopyIndex
from mcphost.host.origins.text_folding import FoldedText

PIECE = 32 * 1024
"""Number of characters that are folded in one step."""
HARD_ASCII = st.text(alphabet=" \0\t\n\x07\x1c\x7faAbZ1'\"-_", max_size=60)


@settings(max_examples=50)
@given(HARD_ASCII, st.integers(0, 60))
def test_ascii_text_is_folded_like_the_same_text_between_accents(text: str, before_boundary: int) -> None:
    text = "x" * (PIECE - before_boundary) + text  # folded in two pieces
    plain, accented = FoldedText(text, 2 * PIECE), FoldedText(f"é{text}é", 2 * PIECE)
    assert f"e{plain.text}e" == accented.text
    assert f"e{plain.letters}e" == accented.letters
    assert [0, *(place + 1 for place in plain.places), len(text) + 1] == list(accented.places)
    assert [0, *(place + 1 for place in plain.letter_places), len(text) + 1] == list(accented.letter_places)


@given(HARD_ASCII, st.integers(0, 60))
def test_ascii_text_is_cut_at_the_limit(text: str, limit: int) -> None:
    whole, cut = FoldedText(text, 1_000), FoldedText(text, limit)
    assert cut.text == whole.text[:limit]
    assert cut.is_cut or cut.text == whole.text


def test_a_repetitive_text_without_copies_is_compared_with_the_index_only_once_a_period() -> None:
    generator = random.Random(1)
    index, budget = CopyIndex(10, 7), CopyBudget(1_000)
    index.add("".join(generator.choices(string.ascii_lowercase, k=200_000)), "mail")
    assert list(index.find("  a, b: c" * 20_000, budget)) == []
    assert not budget.is_used_up
