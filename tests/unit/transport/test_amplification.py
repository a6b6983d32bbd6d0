"""Tests that input which is cheap to send and expensive to parse is limited before any objects are built."""

import gzip
import tracemalloc
from collections.abc import Generator

import anyio
import pytest

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.json_limits import (
    MAX_DEPTH,
    MAX_MESSAGE_VALUES,
    MAX_PLAIN_VALUES,
    JsonLimitExceeded,
    check_message,
    find_item_end,
    run_steps,
)
from mcphost.protocol.jsonrpc import (
    BATCH_LIMIT,
    MAX_LONE_SURROGATES,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    parse_message,
    parse_message_in_steps,
    split_batch,
)
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw, encode, loads
from mcphost.transport.event_stream import SHORT_LINE_ALLOWANCE, EventDecoder
from mcphost.transport.multiplexer import MAX_MALFORMED_LINES, Multiplexer
from tests.unit.client.scripted_http import RequestHandler, open_http_session, stateless_server
from tests.unit.transport.raw_http import MEGABYTE, ReceivedRequest

pytestmark = pytest.mark.anyio


def response_line(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"


def peak_memory_of_line(line: bytes) -> int:
    """Return the peak memory in bytes while a line is read."""
    tracemalloc.start()
    try:
        parse_message(line)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("member", [b"{}", b'{"a":[1,{"b":2}]}', b'"],[\\"],["', b"1", b"[[],[]]"])
def test_a_batch_over_its_limit_is_refused_before_its_members_are_decoded(member: bytes) -> None:
    assert len(split_batch(b"[" + b",".join([member] * BATCH_LIMIT) + b"]")) == BATCH_LIMIT
    line = b"[" + b",".join([member] * 200_000) + b"]"
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage, match=f"more than {BATCH_LIMIT:,} messages"):
            split_batch(line)
        assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("revision", [Revision.V2025_03_26, Revision.V2025_11_25])
def test_a_batch_over_its_limit_costs_a_pipe_little_memory(revision: Revision) -> None:
    warnings: list[str] = []
    mux = Multiplexer(lambda line: None, None, warnings.append, "peer")
    mux.set_revision(revision)
    line = b"[" + b",".join([b"1"] * 200_000) + b"]"
    tracemalloc.start()
    try:
        mux.receive_line(line)
        assert tracemalloc.get_traced_memory()[1] < 2 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert [f"more than {BATCH_LIMIT:,} messages" in warning for warning in warnings] == [True]


def test_the_scan_for_the_end_of_an_item_yields_and_reads_strings_over_the_edges_of_its_chunks() -> None:
    for filling in range(8):
        text = b'["' + b"a" * (256 * 1024 - 6 + filling) + b'],[\\\\\\"],[",2,[' + b"1," * 50_000 + b'1],"end",5]'
        ends = find_item_end(text, 3)
        assert run_steps(ends) == text.index(b',"end"')
        assert run_steps(find_item_end(text, 5)) == -1
        assert sum(1 for _step in find_item_end(text, 5)) > 10


async def response_to_line(line: bytes, warnings: list[str]) -> object:
    """Send a request, let the server answer with *line*, and return the result of the request."""
    mux = Multiplexer(lambda line: None, None, warnings.append, "peer")
    async with mux.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        mux.receive_line(line)
        mux.connection_lost(ConnectionLost("That was all."))
        return await anext(aiter(messages))


@pytest.mark.parametrize("item", [b"[]", b"{}", b'""', b"1", b'{"a":1}', b'",,,"'])
async def test_a_message_of_too_many_values_ends_its_call_with_the_servers_name_and_the_bound(item: bytes) -> None:
    line = response_line(b"[" + b",".join([item] * 2 * MAX_MESSAGE_VALUES) + b"]")
    with pytest.raises(
        MalformedMessage, match=r"The server 'peer' sent an invalid response. It has more than \d{3},\d{3} "
    ):
        await response_to_line(line, [])


@pytest.mark.parametrize("text", [b"1,2,3\\n", b"[{},[", b'{\\"a\\":[1,2]},', b"\\\\,", "ä,".encode()])
async def test_commas_and_brackets_inside_of_texts_are_no_values(text: bytes) -> None:
    line = response_line(b'{"content":[{"type":"text","text":"' + text * (8 * MEGABYTE // len(text)) + b'"}]}')
    assert isinstance(await response_to_line(line, []), JsonRpcResponse)


async def test_a_text_may_be_cut_into_steps_anywhere() -> None:
    for size in range(256 * 1024 - 12, 256 * 1024 + 12):
        line = b'"' + b"a" * size + b'\\\\\\",[' + b"[" * MAX_MESSAGE_VALUES * 3 + b'",1]'
        run_steps(check_message(line))


def test_plain_values_are_bounded_in_number_and_depth() -> None:
    with pytest.raises(MalformedMessage, match="The schema is not valid: It has more than 100,000 JSON values"):
        loads(b"[" + b"1," * MAX_PLAIN_VALUES + b"1]", "schema")
    with pytest.raises(MalformedMessage, match="The schema is not valid: It is nested deeper than 128 levels"):
        loads(Raw(b'{"a":' * 900 + b"1" + b"}" * 900), "schema")
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert encode(loads(b"[" + deepest[1:-1] + b"]")) == deepest
    assert loads(b'["' + b"[" * 900 + b'"]') == ["[" * 900]


def test_half_a_character_in_a_long_text_costs_no_more_than_a_few_copies_of_it() -> None:
    line = response_line(b'{"t":"\\ud800' + b"\\n\\\\" * MEGABYTE + b'\\udfff"}')
    assert peak_memory_of_line(line) < 6 * len(line)
    message = parse_message(line)
    assert isinstance(message, JsonRpcResponse)
    assert loads(message.result) == {"t": "�" + "\n\\" * MEGABYTE + "�"}


def test_surrogate_halves_are_distinguished_from_pairs_at_any_chunk_boundary() -> None:
    for shift in range(14):
        text = b"a" * (256 * 1024 - 50 + shift) + b"\\ud83d\\ude00" * 8
        text += b"\\\\ud83d\\ud83d\\ude00\\ude00\\ud83d\\ud83d"
        message = parse_message(response_line(b'{"t":"' + text + b'"}'))
        assert isinstance(message, JsonRpcResponse)
        assert loads(message.result)["t"].lstrip("a") == "😀" * 8 + "\\ud83d😀���"


def test_many_halves_of_characters_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="more than 10,000 lone surrogates"):
        parse_message(response_line(b'"' + b"\\ud800" * (MAX_LONE_SURROGATES + 1) + b'"'))


def test_a_long_message_is_read_in_many_steps() -> None:
    def count(steps: Generator[None, None, object]) -> int:
        return sum(1 for _ in steps)

    assert count(parse_message_in_steps(response_line(b'"' + b"1,\\n" * 4 * MEGABYTE + b'"'))) > 50
    assert count(parse_message_in_steps(response_line(b'"\\ud800' + b"\\\\" * 4 * MEGABYTE + b'"'))) > 50


async def test_an_array_of_messages_that_is_too_long_is_left_out_without_being_split() -> None:
    warnings: list[str] = []
    mux = Multiplexer(lambda line: None, None, warnings.append, "peer")
    line = b"[" + b",".join([b'{"jsonrpc":"2.0","method":"x"}'] * 400_000) + b"]"
    tracemalloc.start()
    try:
        mux.receive_line(line)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * len(line)
    assert len(warnings) == 1
    assert "It has more than" in warnings[0]


async def test_much_text_that_is_not_utf8_is_refused_and_a_little_replaced() -> None:
    with pytest.raises(MalformedMessage, match="The message is not UTF-8"):
        await response_to_line(response_line(b'"' + b"\xff" * MEGABYTE + b'"'), [])
    found = await response_to_line(response_line(b'"' + b"\xc3\xa4" * MEGABYTE + b'\xff"'), [])
    assert isinstance(found, JsonRpcResponse)
    assert loads(found.result) == "ä" * MEGABYTE + "�"


async def test_noise_on_standard_output_is_left_out_and_the_answer_is_read() -> None:
    mux = Multiplexer(lambda line: None, None, lambda text: None, "peer")
    async with mux.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        lines = [b"INFO: something happened"] * 50_000 + [response_line(b"{}")]
        for line in mux.filter_flood(lines):
            mux.receive_line(line)
        assert [type(message) async for message in messages] == [JsonRpcResponse]
    assert mux.malformed_count == 50_000
    assert len(mux.filter_flood(lines)) == 1_001  # an answer: the next broken line is reported again


async def test_in_a_flood_of_notifications_only_known_methods_are_read() -> None:
    mux = Multiplexer(lambda line: None, None, lambda text: None, "peer")
    known = [
        b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","\\u0069d":1,"result":{}}',
        response_line(b"{}"),
    ]
    flood = [b'{"jsonrpc":"2.0","method":"x"}'] * 50_000
    assert mux.filter_flood([*flood, *known])[1_000:] == known
    assert mux.filter_flood(known) == known


async def test_broken_messages_without_end_end_the_connection() -> None:
    mux = Multiplexer(lambda line: None, None, lambda text: None, "peer")
    for _ in range(MAX_MALFORMED_LINES + 1):
        mux.receive_line(b'{"jsonrpc":"2.0"}')
    assert mux.is_closed
    with pytest.raises(ConnectionLost, match="'peer' sent 10,000 invalid messages and no response"):
        await mux.send(JsonRpcRequest(1, "ping"))


def reply_with_body(data: bytes, coding: str) -> RequestHandler:
    async def call(request: ReceivedRequest) -> object:
        whole = data.replace(b"%ID%", b"%d" % request.message["id"])
        packed = whole if not coding else gzip.compress(whole)
        tail = {"": b"", "whole": b"", "tail": b"\0" * 100, "second": gzip.compress(b"{}")}
        if coding == "cut":
            packed = packed[:-8]
        return await request.reply(
            200, packed + tail.get(coding, b""), **({"content_encoding": "gzip"} if coding else {})
        )

    return call


@pytest.mark.parametrize(
    ("coding", "reason"),
    [
        ("cut", "The compressed response of the server 'peer' is incomplete"),
        ("tail", "The server 'peer' sent data after the end of its compressed response"),
        ("second", "The server 'peer' sent data after the end of its compressed response"),
    ],
)
async def test_a_compressed_answer_has_exactly_one_complete_stream(coding: str, reason: str) -> None:
    data = b'{"jsonrpc":"2.0","id":%ID%,"result":{"resultType":"complete","content":[]}}'
    with anyio.fail_after(20):
        async with open_http_session(stateless_server(reply_with_body(data, "whole"))) as (session, _):
            assert (await session.request(CallTool("x"))).content == ()
        async with open_http_session(stateless_server(reply_with_body(data, coding))) as (session, _):
            with pytest.raises(MalformedMessage, match=reason):
                await session.request(CallTool("x"))


async def test_a_body_of_too_many_values_is_refused_with_the_servers_name_and_the_bound() -> None:
    data = b'{"jsonrpc":"2.0","id":%ID%,"result":[' + b"[]," * MAX_MESSAGE_VALUES * 2 + b"1]}"
    async with open_http_session(stateless_server(reply_with_body(data, ""))) as (session, _):
        with (
            anyio.fail_after(20),
            pytest.raises(JsonLimitExceeded, match="'peer' sent a message that is too large"),
        ):
            await session.request(CallTool("x"))


def test_an_event_of_short_lines_takes_no_more_memory_than_its_bytes() -> None:
    decoder = EventDecoder()
    stream = b"data: abcdefgh\n" * 200_000
    tracemalloc.start()
    try:
        for at in range(0, len(stream), 32 * 1024):
            assert decoder.feed(stream[at : at + 32 * 1024]) == []
        assert tracemalloc.get_traced_memory()[1] < len(stream)
    finally:
        tracemalloc.stop()
    (event,) = decoder.feed(b"\n")
    assert event.data == b"\n".join([b"abcdefgh"] * 200_000)


@pytest.mark.parametrize("line", [b"\n", b"\r", b"\r\n", b":\n", b"data\n", b"id:1\n", b"retry:\n"])
def test_a_stream_of_almost_empty_lines_is_abandoned(line: bytes) -> None:
    decoder = EventDecoder()
    with pytest.raises(MalformedMessage, match="almost empty lines"):
        decoder.feed(line * SHORT_LINE_ALLOWANCE * 20)


def test_comments_that_keep_a_stream_alive_for_weeks_are_no_flood() -> None:
    decoder = EventDecoder()
    for _ in range(SHORT_LINE_ALLOWANCE):
        assert decoder.feed(b":\n\n") == []


async def test_an_answer_with_thousands_of_header_lines_is_refused() -> None:
    async def call(request: ReceivedRequest) -> object:
        await request.send(b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 5_000 + b"content-length: 0\r\n\r\n")
        return False

    async with open_http_session(stateless_server(call)) as (session, _):
        with (
            anyio.fail_after(20),
            pytest.raises(MalformedMessage, match="invalid HTTP response: over 256 header lines"),
        ):
            await session.request(CallTool("x"))


async def test_unread_messages_are_bounded_in_bytes() -> None:
    warnings: list[str] = []
    mux = Multiplexer(lambda line: None, None, warnings.append, "peer")
    notice = b'{"jsonrpc":"2.0","method":"x","params":{"a":"' + b"a" * MEGABYTE + b'"}}'
    async with mux.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        for _ in range(40):
            mux.receive_line(notice)
            mux.receive_line(
                notice.replace(b'"x","params":{', b'"notifications/progress","params":{"progressToken":1,')
            )
        mux.receive_line(response_line(b"{}"))
        found = [message async for message in messages]
    assert [type(message) for message in found] == [*[JsonRpcNotification] * 16, JsonRpcResponse]
    assert mux.anomaly_counts["messages left out in a flood"] == 24
    assert "faster than they can be handled" in warnings[0]
