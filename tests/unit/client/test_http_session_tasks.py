"""Tests for what a server asked for in an HTTP session that has expired: tasks, and requests that are still queued."""

from typing import Any, cast

import anyio
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.message_log import MessageLog
from mcphost.protocol.jsonrpc import JsonRpcNotification, JsonRpcRequest
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ElicitResult, ServerRequest
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw, encode
from mcphost.transport.channel import SessionExpired
from mcphost.transport.streamable_http import HttpChannel, HttpConnector
from tests.event_loop import wait_until
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import SessionForgettingServer, open_http_session
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio
FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}, "task": {}}


class TaskServer(SessionForgettingServer):
    """A server that sends requests on its newest stream and records the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[dict[str, Any]] = []

    async def ask(self, ident: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        await self.put(ident, method, params)
        await wait_until(lambda: any(answer["id"] == ident for answer in self.answers))
        return next(answer for answer in self.answers if answer["id"] == ident)

    async def put(self, ident: int, method: str, params: dict[str, Any]) -> None:
        await self.streamed.wait()
        await self.streams[-1].event({"id": ident, "method": method, "params": params})

    def forget(self) -> None:
        super().forget()
        self.streamed = anyio.Event()

    async def __call__(self, request: ReceivedRequest) -> object:
        if request.body and "method" not in request.message:
            self.answers.append(request.message)
            return await request.reply(202, kind="")
        return await super().__call__(request)


class LateRefusingServer(TaskServer):
    """A server that answers calls of the tool "late" only when it is released; `reached` is set when one arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.released = anyio.Event(), anyio.Event()

    async def __call__(self, request: ReceivedRequest) -> object:
        if b'"late"' in request.body:
            self.reached.set()
            await self.released.wait()
        return await super().__call__(request)


class TaskHandler(FakeRequestHandler):
    """A user who answers a question when it is released; `withdrawn` counts the questions that were closed."""

    def __init__(self) -> None:
        super().__init__({"elicitation/create": ElicitResult("accept", {"name": "Ann"})})
        self.released = anyio.Event()
        self.withdrawn = 0

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ElicitResult:
        self.asked.append((request, context))
        try:
            await self.released.wait()
        except anyio.get_cancelled_exc_class():
            self.withdrawn += 1
            raise
        return ElicitResult("accept", {"name": "Ann"})


@pytest.mark.parametrize("is_answered", [True, False])
async def test_tasks_of_an_expired_session_end_and_cannot_be_read_in_the_next_one(is_answered: bool) -> None:
    server, handler = TaskServer(), TaskHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _):
            created = (await server.ask(1, "elicitation/create", FORM))["result"]["task"]
            await wait_until(lambda: bool(handler.asked))
            if is_answered:
                handler.released.set()
                assert (await server.ask(2, "tasks/result", {"taskId": created["taskId"]}))["result"]
            server.forget()
            assert single_text(await session.request(CallTool("a"))) == "session-2"
            assert (await server.ask(3, "tasks/list", {}))["result"]["tasks"] == []
            for ident, method in enumerate(("tasks/get", "tasks/result"), 4):
                assert (await server.ask(ident, method, {"taskId": created["taskId"]}))["error"]["code"] == -32602
            assert handler.withdrawn == (0 if is_answered else 1)


async def test_a_request_that_is_queued_when_its_session_expires_is_never_read() -> None:
    server, log = TaskServer(), MessageLog()
    warnings: list[str] = []

    async def use(channel: HttpChannel) -> None:
        await start_session(channel)
        await server.put(7, "elicitation/create", {"message": "Old?"})
        await server.put(8, "elicitation/create", {"message": "Also old?"})
        # Messages are queued in order, so the first one is queued when the second one is received.
        await wait_until(lambda: any(b"Also old?" in message.data for message in log.messages()))
        server.forget()
        with pytest.raises(SessionExpired):
            await call(channel, 1, "tools/call", b'{"name":"a"}')
        await start_session(channel)
        await server.put(7, "elicitation/create", {"message": "New?"})
        message = await anext(channel.unsolicited())
        assert isinstance(message, JsonRpcRequest)
        assert b"New?" in bytes(message.params)

    with anyio.fail_after(20):
        async with serve(server) as raw:
            connector = HttpConnector("peer", raw.url, {}, warn=warnings.append)
            connector.message_log = log
            async with connector.connect() as channel:
                await use(cast("HttpChannel", channel))
    assert warnings == []


async def test_a_late_refusal_of_an_earlier_session_keeps_the_queued_requests_of_the_next_one() -> None:
    server, log = LateRefusingServer(), MessageLog()

    async def call_late(channel: HttpChannel) -> None:
        with pytest.raises(SessionExpired):
            await call(channel, 1, "tools/call", b'{"name":"late"}')

    async def use(channel: HttpChannel) -> None:
        await start_session(channel)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_late, channel)
            await server.reached.wait()
            server.forget()
            with pytest.raises(SessionExpired):
                await call(channel, 2, "tools/call", b'{"name":"a"}')
            await start_session(channel)
            await server.put(7, "elicitation/create", {"message": "New?"})
            await server.put(8, "elicitation/create", {"message": "Also new?"})
            await wait_until(lambda: any(b"Also new?" in message.data for message in log.messages()))
            server.released.set()
        message = await anext(channel.unsolicited())
        assert isinstance(message, JsonRpcRequest)
        assert b"New?" in bytes(message.params)

    with anyio.fail_after(20):
        async with serve(server) as raw:
            connector = HttpConnector("peer", raw.url, {}, warn=print)
            connector.message_log = log
            async with connector.connect() as channel:
                await use(cast("HttpChannel", channel))


async def start_session(channel: HttpChannel) -> None:
    """Perform the handshake on the channel; return when the GET stream is open."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    await call(channel, 0, "initialize", encode(params))
    channel.set_revision(Revision.V2025_11_25)
    await channel.send(JsonRpcNotification("notifications/initialized"))


async def call(channel: HttpChannel, ident: int, method: str, params: bytes) -> None:
    async with channel.exchange(JsonRpcRequest(ident, method, Raw(params))) as exchange:
        async for _ in exchange:
            pass
