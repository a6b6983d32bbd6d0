"""Tests for limits on the bytes of a provider's response, which apply before the response is parsed."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from mcphost.llm import response_limits
from mcphost.llm.answer_limits import AnswerTooLong, CompressionRefused
from mcphost.llm.response_limits import (
    DECOMPRESSION_ALLOWANCE,
    MAX_DECOMPRESSION_RATIO,
    MAX_EVENT_BYTES,
    MAX_LINE_OBJECTS,
    Decompressor,
    EventLineBuffer,
    LineMeter,
    disable_compression,
    limit_responses,
    split_lines,
)

CALLS = b'data: {"tool_calls":[' + b",".join([b'{"function":{}}'] * MAX_LINE_OBJECTS) + b"]}\n\n"


class CustomResponse(httpx.Response):
    """A subclass to patch, so that other tests keep the original httpx.Response."""


limit_responses(CustomResponse)


def answer_of(body: bytes, encoding: str) -> httpx.Response:
    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1_000):
            yield body[start : start + 1_000]

    headers = {"content-type": "text/event-stream", "content-encoding": encoding}
    request = httpx.Request("POST", "http://provider.example/")
    return CustomResponse(200, headers=headers, content=stream(), request=request)


def feed_meter(data: bytes, step: int) -> None:
    meter = LineMeter()
    for start in range(0, len(data), step):
        meter.feed(data[start : start + step])


@pytest.mark.parametrize("step", [1_000, 64 * 1024, len(CALLS)])
def test_an_event_of_very_many_objects_is_refused_before_it_is_whole(step: int) -> None:
    with pytest.raises(AnswerTooLong, match="more than 4,000 objects"):
        feed_meter(CALLS, step)


@pytest.mark.parametrize("step", [1_000, 64 * 1024, 10**7])
def test_braces_in_texts_and_many_small_events_are_fine(step: int) -> None:
    text = json.dumps({"delta": {"content": '{"a": {}}, ' * 20_000}}).encode()
    feed_meter(b"data: " + text + b"\n\n", step)
    feed_meter(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n' * 5_000, step)


def test_an_event_without_end_is_refused() -> None:
    with pytest.raises(AnswerTooLong, match="exceeded 16 MB"):
        feed_meter(b"data: " + b"a" * (MAX_EVENT_BYTES + 1), 64 * 1024)


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limits, "MAX_RESPONSE_BYTES", 1_000_000)
    with pytest.raises(AnswerTooLong, match="exceeded 1 MB"):
        feed_meter(b": nothing\n" * 200_000, 64 * 1024)


@pytest.mark.parametrize("line", [b"\n", b":\n", b"\r\n", b":\r", b"\x0c", "\u2028".encode()])
@pytest.mark.parametrize("step", [1_000, 64 * 1024])
def test_an_answer_of_almost_empty_lines_is_refused_early(line: bytes, step: int) -> None:
    with pytest.raises(AnswerTooLong, match="almost empty lines"):
        feed_meter(line * (400_000 // len(line)), step)


def test_some_empty_lines_and_short_lines_are_fine() -> None:
    feed_meter(b"\n" * 10_000, 1_000)
    feed_meter(b'{\n  "a": {\n    "text": "some more words"\n  }\n},\n' * 50_000, 1_000)
    feed_meter(b'event: a\ndata: {"delta":"the"}\n\n: ping\n\n' * 50_000, 64 * 1024)


def test_an_answer_of_very_many_lines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limits, "MAX_LINES", 100_000)
    with pytest.raises(AnswerTooLong, match="more than 100,000 lines"):
        feed_meter(b'data: {"choices":[]}\n\n' * 60_000, 64 * 1024)


@pytest.mark.anyio
async def test_an_answer_of_empty_events_that_nobody_waits_for_can_be_cancelled() -> None:
    """litellm skips an event without content and reads on; only a pause of the reader lets its task end."""
    events = b'data: {"choices":[]}\n\n' * 20_000

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield events

    request = httpx.Request("POST", "http://provider.example/")
    headers = {"content-type": "text/event-stream"}
    response = CustomResponse(200, headers=headers, content=stream(), request=request)
    size = 0
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        async for piece in response.aiter_bytes():
            size += len(piece)
    assert scope.cancelled_caught
    assert size < len(events)


@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_pieces_of_an_answer_end_after_a_line(ending: bytes) -> None:
    data = b"\n".join([b"a" * 3_000, b"b" * 3_000, b"c" * 50_000, b"", b"d" * 10]) + ending
    pieces = list(split_lines(data))
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert len(pieces) == 3
    assert list(split_lines(b"")) == []


def relayed_pieces(data: bytes, step: int) -> list[bytes]:
    lines = EventLineBuffer()
    return [*(lines.feed(data[at : at + step]) for at in range(0, len(data), step)), lines.flush()]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("step", [3, 1_000, 10**6])
def test_an_event_of_very_many_lines_is_refused(end: bytes, step: int) -> None:
    with pytest.raises(AnswerTooLong, match="more than 500 lines"):
        relayed_pieces((b"data: something" + end) * 600 + b"\n", step)


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_lines_of_an_event_stream_are_passed_on_whole(step: int) -> None:
    data = b"data: " + b"a" * 3_000 + b"\n\n" + b"data: b\r\n\r\n" * 400 + b"data: the end"
    pieces = relayed_pieces(data, step)
    assert b"".join(pieces) == data
    assert all(not piece or piece.endswith(b"\n") for piece in pieces[:-1])


def test_a_compressed_answer_that_grows_too_much_is_refused_early() -> None:
    bomb = gzip.compress(b"data: {}\n\n" * 10_000_000)
    steps: list[int] = []
    with pytest.raises(AnswerTooLong, match="decompresses to over"):
        steps.extend(len(step) for step in Decompressor().feed(bomb))
    assert max(steps) <= 64 * 1024
    assert sum(steps) <= DECOMPRESSION_ALLOWANCE + MAX_DECOMPRESSION_RATIO * len(bomb)


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_an_answer_is_read_in_the_common_encodings(encoding: str) -> None:
    text = b"".join(b'data: {"n":%d}\n\n' % number for number in range(2_000))
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}[encoding](text)
    response = answer_of(packed, encoding)
    assert b"".join([piece async for piece in response.aiter_bytes()]) == text
    assert await answer_of(packed, encoding).aread() == text


@pytest.mark.anyio
async def test_an_encoding_that_was_not_asked_for_is_refused() -> None:
    with pytest.raises(CompressionRefused, match="'br', which was not requested"):
        await answer_of(b"anything", "br").aread()


@pytest.mark.anyio
async def test_every_request_asks_for_an_answer_that_is_not_compressed() -> None:
    class CustomClient(httpx.AsyncClient):
        """A subclass to patch, so that other tests keep the original httpx.AsyncClient."""

    disable_compression(CustomClient)
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers["accept-encoding"])
        return httpx.Response(200)

    async with CustomClient(transport=httpx.MockTransport(handle), headers={"accept-encoding": "br"}) as client:
        await client.post("http://provider.example/", json={})
    assert asked == ["identity"]
