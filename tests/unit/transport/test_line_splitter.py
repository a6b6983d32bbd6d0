"""Tests for splitting chunks of bytes into lines."""

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.errors import MalformedMessage
from mcphost.transport.line_reader import LineSplitter


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_lines_do_not_depend_on_how_the_bytes_come(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 200]
    reader = LineSplitter()
    lines = [line for a, b in pairwise(edges) for line in reader.feed(data[a:b])]
    # Of many empty lines in a row one is kept.
    assert [line for line in (*lines, reader.flush()) if line] == [line for line in data.split(b"\n") if line]


def test_many_empty_lines_in_a_row_are_one_and_no_line_is_lost() -> None:
    reader = LineSplitter()
    assert reader.feed(b"a" + b"\n" * 1_000_000 + b"b\nc") == [b"a", b"", b"b"]
    assert reader.feed(b"\n" * 1_000_000 + b"d\n\n\n") == [b"c", b"", b"d", b"", b""]


def test_a_line_over_the_limit_is_refused_finished_or_not() -> None:
    for feeds in ([b"x" * 60, b"x" * 60], [b"x" * 60, b"x" * 60 + b"\n"]):
        reader = LineSplitter(limit=100)
        with pytest.raises(MalformedMessage):
            [reader.feed(feed) for feed in feeds]


def test_fifty_megabytes_in_pieces_cost_little_more_than_to_join_them() -> None:
    size, chunk = 50_000_000, b"x" * 65_536

    def split() -> None:
        reader = LineSplitter(limit=size * 2)
        for _ in range(size // len(chunk)):
            reader.feed(chunk)
        assert len(reader.feed(b"\n")) == 1

    def join() -> None:
        assert len(b"".join(bytes(bytearray(chunk)) for _ in range(size // len(chunk)))) < size

    def cost(work: Callable[[], None]) -> float:
        started_at = time.process_time()
        work()
        return time.process_time() - started_at

    # Copying the beginning with each piece would cost several hundred times as much.
    assert min(cost(split) for _ in range(3)) < 30 * min(cost(join) for _ in range(3))
