"""Tests for dividing streamed Markdown into blocks."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.cli.markdown_blocks import MarkdownBlocks

PIECES = st.lists(
    st.sampled_from(["a", "\n", "\n\n", " ", "  b", "```", "`", "````", "~~~", "- c", "\t", "\r\n"]), max_size=30
)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("a\n\nb", "a\n\n"),
        ("a\n\n", ""),
        ("a\nb\nc", ""),
        ("- a\n\n  more\n", ""),
        ("- a\n\n  more\n\nb", "- a\n\n  more\n\n"),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("````\n```\n\nb", ""),
        ("a\n\n```\n\nb", "a\n\n"),
        ("a\n \nb\n\nc", "a\n \nb\n\n"),
        ("a\r\n\r\nb", "a\r\n\r\n"),
    ],
)
def test_a_block_is_complete_once_unindented_text_follows_a_blank_line(text: str, complete: str) -> None:
    blocks = MarkdownBlocks(100)
    assert blocks.add(text) == complete
    assert blocks.tail == text[len(complete) :]
    assert blocks.take_rest() == text[len(complete) :]
    assert (blocks.tail, blocks.take_rest()) == ("", "")


@given(PIECES)
def test_pieces_give_the_same_blocks_as_the_whole_text_and_lose_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole, streamed = MarkdownBlocks(7), MarkdownBlocks(7)
    complete = whole.add(text)
    assert "".join(streamed.add(piece) for piece in pieces) == complete
    assert streamed.tail == whole.tail == text[len(complete) :][-7:]
    assert streamed.take_rest() == text[len(complete) :]


@pytest.mark.parametrize("line", ["x\n", "x", "\n", " ", "x\n\n"])
def test_a_long_block_takes_no_longer_for_each_character(line: str) -> None:
    def seconds(count: int) -> float:
        blocks, began = MarkdownBlocks(4_000), time.thread_time()
        blocks.add("```\n")
        for _ in range(count):
            blocks.add(line)
        return time.thread_time() - began

    assert seconds(100_000) < 100 * seconds(10_000)
