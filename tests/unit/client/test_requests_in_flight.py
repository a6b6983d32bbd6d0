"""Tests for several requests at the same time: answers in any order, and cancellation by notification."""

from typing import Any

import anyio
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_tools
from mcphost.client.requests import RequestSender
from mcphost.client.timeouts import Timeouts
from mcphost.config.schema import ServerConfig
from mcphost.errors import RequestRefused
from mcphost.protocol.content import TextContent
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcErrorResponse, JsonRpcResponse
from mcphost.protocol.lifecycle import Ping
from mcphost.protocol.notifications import Notification, ProgressNotification
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from mcphost.transport.pipe_exchange import PipeExchange
from tests.fakes.in_memory_channel import InMemoryChannel
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.scripted_http import handshake_server
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio


@pytest.mark.req("stdio.interleaved-responses")
@pytest.mark.parametrize("revision", [item.value for item in Revision])
async def test_answers_in_any_order_with_notices_between_them_reach_their_own_calls(revision: str) -> None:
    asked: dict[str, Any] = {}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        asked[params["name"]] = (peer.ident, params["_meta"]["progressToken"])
        return NO_REPLY

    received: dict[str, str] = {}
    notifications: dict[str, list[Notification]] = {name: [] for name in "abc"}
    peer = ScriptedServer(script, revision=revision)
    async with connect_to(peer) as session:

        async def call(name: str) -> None:
            result = await session.request(CallTool(name), on_notification=notifications[name].append)
            (block,) = result.parse_blocks()
            assert isinstance(block, TextContent)
            received[name] = block.text

        async with anyio.create_task_group() as calls:
            for name in notifications:
                calls.start_soon(call, name)
            await peer.wait_until(lambda: len(asked) == len(notifications))
            for name in ("b", "c", "a"):
                ident, _ = asked[name]
                _, other = asked["a"]
                peer.say(method="notifications/progress", params={"progressToken": other, "progress": ident})
                content = [{"type": "text", "text": name}]
                peer.say(id=ident, result={"resultType": "complete", "content": content})
    assert received == {name: name for name in notifications}
    assert {name: bool(said) for name, said in notifications.items()} == {"a": True, "b": False, "c": False}
    assert all(isinstance(item, ProgressNotification) for item in notifications["a"])


@pytest.mark.parametrize("answer", ["result", "error"])
async def test_an_answer_that_arrives_at_the_moment_of_the_deadline_is_not_lost(answer: str) -> None:
    pipe = InMemoryChannel()
    sender = RequestSender(pipe.channel, "peer", Timeouts())
    answers: list[str] = []

    async def ping() -> None:
        try:
            answers.append(str(await sender.send(Ping())))
        except RequestRefused as error:
            answers.append(error.message)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(ping)
            await anyio.wait_all_tasks_blocked()
            ((ident, request),) = sender.in_flight.items()
            assert isinstance(request.target, PipeExchange)
            request.target.expire()
            if answer == "result":
                pipe.send(JsonRpcResponse(ident, Raw(b"{}")))
            else:
                pipe.send(JsonRpcErrorResponse(ident, ErrorData(-32000, "It is refused.")))
    assert len(answers) == 1
    assert ("It is refused." in answers[0]) == (answer == "error")


@pytest.mark.req("cancel.tasks", revisions=("2025-11-25",))
async def test_leaving_cancels_a_plain_call_by_a_notification_but_not_one_that_creates_a_task() -> None:
    calls: dict[str, Any] = {}
    both = anyio.Event()

    async def on_call(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/list":
            wants = {"name": "dig", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}
            return await request.result({"tools": [wants, {"name": "plain", "inputSchema": {"type": "object"}}]})
        calls[request.message["params"]["name"]] = request.message
        if len(calls) == 2:
            both.set()
        await request.wait_closed()
        return False

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "initialize":
            declared = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
            return await request.result({"protocolVersion": "2025-11-25", "capabilities": declared, "serverInfo": {}})
        return await handshake_server(on_call)(request)

    async with serve(handler) as server:
        config = ServerConfig(name="peer", url=server.url)
        async with anyio.create_task_group() as group:

            async def hold() -> None:
                async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
                    await list_tools(session)
                    async with anyio.create_task_group() as requests:
                        requests.start_soon(session.request, CallTool("dig"))
                        requests.start_soon(session.request, CallTool("plain"))

            group.start_soon(hold)
            with anyio.fail_after(20):
                await both.wait()
            group.cancel_scope.cancel()
    assert "task" in calls["dig"]["params"]
    posted = [message.message for message in server.seen if message.method == "POST"]
    cancelled = {
        message["params"]["requestId"] for message in posted if message.get("method") == "notifications/cancelled"
    }
    assert cancelled == {calls["plain"]["id"]}
