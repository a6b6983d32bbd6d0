"""Tests for sharing one pipe among requests: matching answers to requests, races and hostile messages."""

import asyncio
from collections.abc import AsyncIterable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.protocol.jsonrpc import (
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
)
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, loads
from mcphost.transport.flow_control import MAX_QUEUED
from tests.fakes.in_memory_channel import InMemoryChannel

pytestmark = pytest.mark.anyio


async def received_messages(
    pipe: InMemoryChannel, count: int
) -> list[JsonRpcRequest | JsonRpcNotification | JsonRpcResponse | JsonRpcErrorResponse]:
    with anyio.fail_after(20):
        return [await anext(pipe.requests) for _ in range(count)]


@pytest.mark.req("prog.unknown-token")
@pytest.mark.req("base.id.unknown-response")
async def test_an_exchange_yields_its_progress_and_ends_with_its_answer() -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send(JsonRpcResponse(2, Raw(b"{}")))
        pipe.send_raw(b'{"jsonrpc":"2.0","id":"1","result":{}}')
        pipe.send_raw(b'{"jsonrpc":"2.0","id":1.0,"result":{}}')
        pipe.send_raw(
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}'
        )
        pipe.send_raw(
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress":0.5}}'
        )
        pipe.send(JsonRpcResponse(1, Raw(b'{"a":1}')))
        pipe.send(JsonRpcResponse(1, Raw(b'{"a":2}')))
        received = [message async for message in messages]
    assert [type(message) for message in received] == [JsonRpcNotification, JsonRpcResponse]
    assert isinstance(received[1], JsonRpcResponse)
    assert bytes(received[1].result) == b'{"a":1}'
    assert [message.method for message in await received_messages(pipe, 1) if isinstance(message, JsonRpcRequest)] == [
        "tools/call"
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{"text":"a\0b"}}',
        b'{"result":{"text":"\\x"},"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":{"text":"cut off',
    ],
)
async def test_an_answer_that_is_no_json_ends_its_call_before_its_deadline(line: bytes) -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(line)
        with anyio.fail_after(20), pytest.raises(MalformedMessage, match="invalid response"):
            await anext(aiter(messages))


async def read_result(messages: AsyncIterable[object]) -> object:
    """Return the values of the next response; since Python 3.12 the decoder of messages skips any nesting."""
    message = await anext(aiter(messages))
    assert isinstance(message, JsonRpcResponse)
    return loads(message.result)


@pytest.mark.parametrize("levels", [5_000, 100_000])
async def test_a_result_nested_too_deep_is_refused_at_the_latest_when_its_values_are_needed(levels: int) -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(b'{"jsonrpc": "2.0", "id": 1, "result": ' + b"[" * levels + b"]" * levels + b"}")
        reason = r"invalid response|nested deeper than 128|more than 100,000 JSON values"
        with anyio.fail_after(20), pytest.raises(MalformedMessage, match=reason):
            await read_result(messages)


@pytest.mark.req("cancel.late-response")
@pytest.mark.req("cancel.only-own-active")
@pytest.mark.req("cancel.send.stdio")
async def test_leaving_early_notifies_the_server_once_and_drops_a_late_response() -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(7, "tools/call")):
        pass
    pipe.send(JsonRpcResponse(7, Raw(b"{}")))
    _, told = await received_messages(pipe, 2)
    assert isinstance(told, JsonRpcNotification)
    assert (told.method, bytes(told.params)) == ("notifications/cancelled", b'{"requestId":7}')
    assert pipe.multiplexer.unmatched_count == 1


@pytest.mark.req("life.init.not-cancellable")
@pytest.mark.parametrize("method", ["initialize", "server/discover"])
async def test_the_opening_requests_are_never_cancelled(method: str) -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(1, method)):
        pass
    await pipe.channel.send(JsonRpcNotification("notifications/initialized"))
    assert [type(message).__name__ for message in await received_messages(pipe, 2)] == [
        "JsonRpcRequest",
        "JsonRpcNotification",
    ]


@pytest.mark.req("cancel.race")
async def test_an_answer_and_a_cancellation_at_the_same_moment_give_one_of_the_two_outcomes() -> None:
    pipe = InMemoryChannel()
    results: list[str] = []

    async def call(scope: anyio.CancelScope) -> None:
        with scope:
            async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
                results.extend([type(message).__name__ async for message in messages])

    for order in ("answer first", "cancel first"):
        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(call, scope)
            await received_messages(pipe, 1)
            if order == "answer first":
                pipe.send(JsonRpcResponse(1, Raw(b"{}")))
                scope.cancel()
            else:
                scope.cancel()
                pipe.send(JsonRpcResponse(1, Raw(b"{}")))
        # An answered request must not be cancelled.
        pipe.multiplexer.receive_line(b"")
    assert len(results) <= 2
    await pipe.channel.send(JsonRpcNotification("end"))
    left = []
    with anyio.fail_after(20):
        async for message in pipe.requests:
            left.append(message.method if isinstance(message, JsonRpcNotification) else "?")
            if left[-1] == "end":
                break
    assert left == ["end"]


async def test_a_request_that_fails_when_there_is_room_for_it_again_is_not_sent() -> None:
    room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pipe = InMemoryChannel(wait_writable=lambda: None if room.done() else room)
    exchange = pipe.multiplexer.exchange(JsonRpcRequest(1, "tools/call"))

    async def call() -> None:
        with pytest.raises(ConnectionLost, match="The session ended"):
            async with exchange:
                pass

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            room.set_result(None)
            exchange.fail(ConnectionLost("The session ended."))
    await pipe.channel.send(JsonRpcNotification("next"))
    (sent,) = await received_messages(pipe, 1)
    assert isinstance(sent, JsonRpcNotification)


async def test_the_end_of_the_pipe_ends_every_exchange_and_the_inbox() -> None:
    pipe = InMemoryChannel()
    failures: list[str] = []

    async def call(ident: int) -> None:
        try:
            async with pipe.channel.exchange(JsonRpcRequest(ident, "tools/call")) as messages:
                async for _ in messages:
                    pass
        except ConnectionLost as error:
            failures.append(error.message)

    async with anyio.create_task_group() as group:
        for ident in range(5):
            group.start_soon(call, ident)
        await received_messages(pipe, 5)
        pipe.disconnect("exited with status 3")
    assert failures == ["exited with status 3"] * 5
    with pytest.raises(ConnectionLost, match="status 3"):
        await anext(pipe.channel.unsolicited())
    with pytest.raises(ConnectionLost, match="status 3"):
        await pipe.channel.send(JsonRpcNotification("x"))


@pytest.mark.parametrize("method", ["tools/call", "initialize", "server/discover", "tools/list"])
async def test_only_a_call_after_the_end_of_the_connection_is_said_to_be_unsent(method: str) -> None:
    pipe = InMemoryChannel()
    pipe.disconnect("exited with status 3")
    exchange = pipe.channel.exchange(JsonRpcRequest(1, method))
    with pytest.raises(ConnectionLost, match="status 3") as lost:
        await exchange.__aenter__()
    assert not lost.value.may_have_run
    assert lost.value.hint == ("It was not sent: the connection had ended." if method == "tools/call" else "")


async def test_queued_messages_are_read_before_the_end_is_reported() -> None:
    pipe = InMemoryChannel()
    pipe.send(JsonRpcNotification("notifications/tools/list_changed"))
    pipe.disconnect()
    assert isinstance(await anext(pipe.channel.unsolicited()), JsonRpcNotification)
    with pytest.raises(ConnectionLost):
        await anext(pipe.channel.unsolicited())


@pytest.mark.req("base.batch.receive")
@pytest.mark.req("base.batch.tolerate-elsewhere")
async def test_arrays_are_read_in_2025_03_26_alone() -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    array = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"x"}]'
    pipe.channel.set_revision(Revision.V2025_11_25)
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(array)
        with pytest.raises(MalformedMessage, match="2025-11-25 does not have"):
            await anext(aiter(messages))
    assert ["array" in warning for warning in warnings] == [True]
    pipe.channel.set_revision(Revision.V2025_03_26)
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(array)
        assert [type(message) async for message in messages] == [JsonRpcResponse]
    assert isinstance(await anext(pipe.channel.unsolicited()), JsonRpcNotification)


@pytest.mark.req("base.batch.receive")
@pytest.mark.req("base.batch.reply-to-batch")
async def test_each_member_of_an_array_counts_alone_and_a_broken_one_costs_only_itself() -> None:
    pipe = InMemoryChannel()
    pipe.channel.set_revision(Revision.V2025_03_26)
    members = [
        b'{"jsonrpc":"2.0","id":"a","method":"ping"}',
        b"5",
        b'[{"jsonrpc":"2.0","id":"nested","method":"ping"}]',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}',
        b'{"jsonrpc":"2.0","id":"b","method":"ping"}',
    ]
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(b"[" + b",".join(members) + b"]")
        (answer,) = [message async for message in messages]
    assert isinstance(answer, JsonRpcResponse)
    asked = [await anext(pipe.channel.unsolicited()) for _ in range(2)]
    assert [message.id for message in asked if isinstance(message, JsonRpcRequest)] == ["a", "b"]
    assert pipe.multiplexer.malformed_count == 2


@pytest.mark.parametrize("revision", [Revision.V2025_03_26, Revision.V2025_06_18])
async def test_an_array_over_its_limit_is_refused_and_ends_the_calls_it_answers(revision: Revision) -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    pipe.channel.set_revision(revision)
    array = b'[{"jsonrpc":"2.0","id":1,"result":{}}' + b',{"jsonrpc":"2.0","method":"x"}' * 1_000 + b"]"
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send_raw(array)
        with pytest.raises(MalformedMessage):
            await anext(aiter(messages))
    assert len(warnings) == 1
    pipe.disconnect()
    with pytest.raises(ConnectionLost):
        await anext(pipe.channel.unsolicited())


async def test_an_answer_under_an_id_of_another_type_does_not_count_and_is_not_waited_out() -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    for line in (b'{"jsonrpc":"2.0","id":"1","result":{}}', b'{"jsonrpc":"2.0","id":1.0,"result":{}}'):
        async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
            pipe.send_raw(line)
            with anyio.fail_after(20), pytest.raises(MalformedMessage, match="with an id that is a string"):
                await anext(aiter(messages))
    assert "another type" in warnings[0]


@pytest.mark.req("base.response.error-without-id")
@pytest.mark.parametrize("ident", [b"", b'"id":null,'])
async def test_an_error_without_an_id_is_reported_and_ends_no_call(ident: bytes) -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    pipe.send_raw(b'{"jsonrpc":"2.0",%s"error":{"code":-32700,"message":"what was that?"}}' % ident)
    assert len(warnings) == 1
    assert "-32700: what was that?" in warnings[0]


@pytest.mark.req("base.response.error-without-id")
async def test_an_error_without_a_request_is_reported_once_with_its_text() -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    for _ in range(3):
        pipe.send(JsonRpcErrorResponse(None, ErrorData(-32700, "what was that?")))
    pipe.send_raw(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"no id at all"}}')
    assert len(warnings) == 1
    assert "-32700: what was that?" in warnings[0]
    assert pipe.multiplexer.unmatched_count == 4


async def test_a_flood_fills_a_bounded_queue_and_requests_in_it_are_refused() -> None:
    warnings: list[str] = []
    pipe = InMemoryChannel(warnings.append)
    for number in range(MAX_QUEUED + 50):
        pipe.send(JsonRpcRequest(number, "ping"))
    assert len(warnings) == 1
    refused = await received_messages(pipe, 50)
    assert {message.id for message in refused if isinstance(message, JsonRpcErrorResponse)} == set(
        range(MAX_QUEUED, MAX_QUEUED + 50)
    )


async def test_messages_of_a_call_are_read_while_the_queue_of_others_is_full() -> None:
    pipe = InMemoryChannel()
    other = b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}'
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        for _ in range(MAX_QUEUED + 10):
            pipe.send_raw(other)
        assert pipe.multiplexer.dropped_count == 10
        pipe.send_raw(
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress\\u0054oken":1,"progress":1}}'
        )
        pipe.send_raw(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}')
        pipe.send(JsonRpcResponse(1, Raw(b"{}")))
        received = [message async for message in messages]
    assert len(received) == 3


@pytest.mark.req("prog.flood")
async def test_a_flood_of_progress_does_not_keep_the_answer_out() -> None:
    pipe = InMemoryChannel()
    line = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}'
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        for _ in range(20_000):
            pipe.send_raw(line)
        pipe.send(JsonRpcResponse(1, Raw(b"{}")))
        received = [message async for message in messages]
    assert isinstance(received[-1], JsonRpcResponse)
    assert len(received) <= 10_001


@pytest.mark.req("sub.id-unknown")
@pytest.mark.req("sub.id")
async def test_notices_of_a_subscription_reach_its_exchange() -> None:
    pipe = InMemoryChannel()
    pipe.channel.set_revision(Revision.V2026_07_28)
    tagged = (
        b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":'
        b'{"io.modelcontextprotocol/subscriptionId":%s}}}'
    )
    async with pipe.channel.exchange(JsonRpcRequest(4, "subscriptions/listen")) as messages:
        pipe.send_raw(tagged % b'"4"')  # another JSON type is another id
        pipe.send_raw(tagged % b"5")
        pipe.send_raw(tagged % b"4")
        pipe.send_raw(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}')
        pipe.send(JsonRpcResponse(4, Raw(b"{}")))
        received = [message async for message in messages]
    assert [message.method for message in received if isinstance(message, JsonRpcNotification)] == [
        "notifications/tools/list_changed",
        "notifications/cancelled",
    ]


async def test_an_error_without_an_id_fails_no_call() -> None:
    pipe = InMemoryChannel()
    async with pipe.channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
        pipe.send(JsonRpcErrorResponse(None, ErrorData(-32700, "what?")))
        pipe.send(JsonRpcResponse(1, Raw(b"{}")))
        assert [type(message) async for message in messages] == [JsonRpcResponse]


@given(st.binary(max_size=80))
def test_no_line_raises(line: bytes) -> None:
    pipe = InMemoryChannel()
    pipe.send_raw(line)
    pipe.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + line + b"}")


async def test_only_the_first_twenty_odd_lines_are_kept() -> None:
    pipe = InMemoryChannel()
    for number in range(1000):
        pipe.send_raw(b"noise %d" % number + b"x" * 1000)
    assert pipe.multiplexer.malformed_count == 1000
    assert len(pipe.multiplexer.malformed_lines) == 20
    assert max(map(len, pipe.multiplexer.malformed_lines)) == 500
