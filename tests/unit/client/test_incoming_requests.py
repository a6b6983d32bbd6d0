"""Tests for requests that a server sends to mcphost, and for cancelling them."""

from typing import cast

import anyio
import pytest

from mcphost.client.incoming_requests import ServerRequestDispatcher
from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import UserPauses
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest, JsonRpcResponse
from mcphost.protocol.server_requests import ListRootsResult
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

pytestmark = pytest.mark.anyio


async def tool_call_context() -> ServerRequestContext:
    return ServerRequestContext("tools/call", "t", 1)


async def test_a_request_cancelled_in_the_same_turn_is_not_answered() -> None:
    sent: list[JsonRpcMessage] = []

    async def send(message: JsonRpcMessage) -> None:
        sent.append(message)

    answers = FakeRequestHandler({"roots/list": ListRootsResult(())})
    async with anyio.create_task_group() as tasks:
        answering = ServerRequestDispatcher(
            answers,
            send,
            tasks,
            declared={"roots": {}},
            observer=RecordingObserver(),
            server="s",
            on_flood=print,
            pauses=UserPauses({}, includes_user_time=False),
        )
        answering.dispatch(JsonRpcRequest(1, "roots/list", Raw()), tool_call_context)
        answering.dispatch(JsonRpcRequest(2, "roots/list", Raw()), tool_call_context)
        assert answering.cancel(1)
    assert [cast("JsonRpcResponse", message).id for message in sent] == [2]
    assert len(answers.asked) == 1
    assert answers.cancelled_methods == ["roots/list"], "whoever answers may want to know what was asked for"
    assert not answering.cancel(1)
    assert not answering.cancel(2)
