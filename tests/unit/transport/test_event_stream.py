"""Tests for the event decoder, with streams split in every possible way."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.errors import MalformedMessage
from mcphost.transport.event_stream import EventDecoder, ServerSentEvent

STREAM = (
    b'\xef\xbb\xbf: hello\r\n\r\nid: 1\nevent: message\ndata: {"a":\r\ndata: 1}\n\n'
    b"data\n\nretry: 1500\rdata:x\r\rid: 2\ndata: y\nfoo: bar\n\n\nevent: only\n\ndata: \xc3\xa9\r\n\r\ndata: cut"
)
EVENTS = [
    ServerSentEvent("message", b'{"a":\n1}', "1"),
    ServerSentEvent("message", b"", "1"),
    ServerSentEvent("message", b"x", "1"),
    ServerSentEvent("message", b"y", "2"),
    ServerSentEvent("message", b"\xc3\xa9", "2"),
]


def decode_chunks(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@pytest.mark.req("http.sse.parse")
def test_a_stream_split_at_every_byte_gives_the_same_events() -> None:
    assert decode_chunks(STREAM) == EVENTS
    assert decode_chunks(*(STREAM[at : at + 1] for at in range(len(STREAM)))) == EVENTS
    for at in range(len(STREAM)):
        assert decode_chunks(STREAM[:at], STREAM[at:]) == EVENTS, at


@pytest.mark.req("http.sse.parse")
def test_a_byte_order_mark_is_removed_at_the_start_of_the_stream_alone() -> None:
    mark = b"\xef\xbb\xbf"
    assert decode_chunks(mark + b"data: x\n\n" + mark + b"data: y\n\n") == [ServerSentEvent("message", b"x", "")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6))
def test_a_stream_split_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert decode_chunks(*(STREAM[a:b] for a, b in pairwise(edges))) == EVENTS


@given(st.binary(max_size=300), st.integers(0, 300))
def test_any_bytes_split_anywhere_mean_the_same(data: bytes, at: int) -> None:
    assert decode_chunks(data) == decode_chunks(data[:at], data[at:])


@pytest.mark.req("http.sse.retry-field")
@pytest.mark.parametrize(("text", "seconds"), [(b"500", 0.5), (b"-1", None), (b"1.5", None), (b"9" * 20, None)])
def test_retry_is_whole_milliseconds(text: bytes, seconds: float | None) -> None:
    decoder = EventDecoder()
    decoder.feed(b"retry: " + text + b"\n\n")
    assert decoder.retry == seconds


def test_an_id_with_a_null_is_ignored_and_an_empty_one_clears() -> None:
    decoder = EventDecoder()
    decoder.feed(b"id: a\n\nid: b\0\n\n")
    assert decoder.last_id == "a"
    decoder.feed(b"id\n\n")
    assert decoder.last_id == ""


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100 + b"\n", b"x" * 100, b"data:\n" * 50])
def test_an_event_over_the_limit_is_refused_however_it_comes(piece: bytes) -> None:
    decoder = EventDecoder(limit=1000)
    with pytest.raises(MalformedMessage):
        [decoder.feed(piece) for _ in range(100)]


def test_an_event_below_the_limit_passes_in_small_chunks() -> None:
    decoder = EventDecoder(limit=1000)
    events = [event for _ in range(90) for event in decoder.feed(b"data: 0123")]
    events += decoder.feed(b"\n\n")
    assert len(events) == 1
    assert len(events[0].data) == 894


@pytest.mark.req("http.sse.keepalive-comments")
def test_endless_comments_cost_no_memory() -> None:
    decoder = EventDecoder(limit=1000)
    for _ in range(1000):
        assert decoder.feed(b": keep-alive\n\n") == []
