"""Lines from chunks."""

import time
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


def test_fifty_megabytes_cost_about_fifty_times_one() -> None:
    def cost(size: int) -> float:
        chunk = b"x" * 65_536
        started_at = time.process_time()
        reader = LineSplitter(limit=size * 2)
        for _ in range(size // len(chunk)):
            reader.feed(chunk)
        assert len(reader.feed(b"\n")) == 1
        return time.process_time() - started_at

    cost(1_000_000)
    small = min(cost(5_000_000) for _ in range(5))
    large = min(cost(50_000_000) for _ in range(3))
    assert large < max(small, 0.001) * 10 * 4  # quadratic time would be a hundred times as much
