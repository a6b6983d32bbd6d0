"""Tests for questions of servers whose HTTP session expires, or seems to have expired."""

from typing import Any

import anyio
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.protocol.server_requests import Elicit, ElicitResult, ServerRequest
from mcphost.protocol.tools import CallTool
from tests.event_loop import wait_until
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import SessionForgettingServer, open_http_session
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


LATE: dict[str, Any] = {"message": "May I go on?", "requestedSchema": {"type": "object", "properties": {}}}


class AskingServer(SessionForgettingServer):
    """A server that asks on its stream, with the same id in each session, and records the answers.

    Its first call ends only when `ended` is set; before that, it asks during the call.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[str, Any]] = []
        self.answered = anyio.Event()
        self.calls: list[ReceivedRequest] = []
        self.ended = anyio.Event()
        self.is_calm = False

    async def ask(self, message: str) -> None:
        await self.streamed.wait()
        params = {"message": message, "requestedSchema": {"type": "object", "properties": {}}}
        await self.streams[-1].event({"id": 7, "method": "elicitation/create", "params": params})

    async def __call__(self, request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "tools/call" and not self.calls and not self.is_calm:
            self.calls.append(request)
            await request.stream()
            await self.ended.wait()
            await request.event({"id": 7, "method": "elicitation/create", "params": LATE})
            await request.event({"id": request.message["id"], "result": {"content": []}})
            return False
        if request.body and "method" not in request.message:
            self.answers.append((request.headers["mcp-session-id"], request.message["result"]["content"]))
            self.answered.set()
            return await request.reply(202, kind="")
        return await super().__call__(request)


class WaitingHandler(FakeRequestHandler):
    """A user who answers each question only when it is released."""

    def __init__(self) -> None:
        super().__init__({"elicitation/create": ElicitResult("accept")})
        self.capabilities = {"elicitation": {"form": {}}}
        self.waiting: dict[str, anyio.Event] = {}
        self.asked_now = anyio.Event()

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ElicitResult:
        assert isinstance(request, Elicit)
        released = self.waiting[request.message] = anyio.Event()
        self.asked_now.set()
        await released.wait()
        return ElicitResult("accept", {"to": request.message})


async def test_an_answer_for_an_expired_session_is_not_taken_for_one_in_the_new_session() -> None:
    server, handler = AskingServer(), WaitingHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _):
            await server.ask("May I list the files?")
            await handler.asked_now.wait()
            server.forget()
            server.streamed, handler.asked_now = anyio.Event(), anyio.Event()
            server.is_calm = True
            assert single_text(await session.request(CallTool("b"))) == "session-2"
            await server.ask("May I delete the files?")
            await handler.asked_now.wait()
            for released in handler.waiting.values():
                released.set()
                await anyio.wait_all_tasks_blocked()
            await server.answered.wait()
    assert server.answers == [("session-2", {"to": "May I delete the files?"})]
    assert handler.cancelled_methods == ["elicitation/create"]


async def test_a_question_on_a_stream_of_an_expired_session_is_not_asked() -> None:
    server, handler = AskingServer(), WaitingHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _), anyio.create_task_group() as calls:
            calls.start_soon(session.request, CallTool("a"))
            await wait_until(lambda: bool(server.calls))
            server.forget()
            assert single_text(await session.request(CallTool("b"))) == "session-2"
            server.ended.set()
    assert handler.waiting == {}
    assert server.answers == []


class SameIdServer(AskingServer):
    """A server that gives each session the same id."""

    async def __call__(self, request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "initialize":
            self.is_calm = True
            self.opened = 0
        return await super().__call__(request)


async def test_a_server_that_reuses_its_session_id_can_still_ask_in_the_new_session() -> None:
    server, handler = SameIdServer(), WaitingHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _):
            await server.streamed.wait()
            server.forget()
            server.streamed = anyio.Event()
            assert single_text(await session.request(CallTool("a"))) == "session-1"
            await server.ask("May I delete the files?")
            await handler.asked_now.wait()
            handler.waiting["May I delete the files?"].set()
            await server.answered.wait()
    assert server.answers == [("session-1", {"to": "May I delete the files?"})]


class PettyServer(AskingServer):
    """A server that sends status 404 for an answer, although it still knows the session."""

    def __init__(self) -> None:
        super().__init__()
        self.is_calm = True
        self.is_petty = True

    async def __call__(self, request: ReceivedRequest) -> object:
        if request.body and "method" not in request.message and self.is_petty:
            self.is_petty = False
            await request.reply(404, b"unknown request", "text/plain")
            return self.answered.set()
        return await super().__call__(request)


async def test_a_server_that_refuses_one_answer_with_404_can_ask_again_in_the_same_session() -> None:
    server, handler = PettyServer(), WaitingHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _):
            await server.ask("May I list the files?")
            await handler.asked_now.wait()
            handler.waiting["May I list the files?"].set()
            await server.answered.wait()
            for name in "ab":  # the status 404 has been read when the first call ends
                assert single_text(await session.request(CallTool(name))) == "session-1"
            server.answered, handler.asked_now = anyio.Event(), anyio.Event()
            await server.ask("May I delete the files?")
            await handler.asked_now.wait()
            handler.waiting["May I delete the files?"].set()
            await server.answered.wait()
    assert server.opened == 1
    assert server.answers == [("session-1", {"to": "May I delete the files?"})]


class CancellingServer(AskingServer):
    """A server whose first call, when it ends, cancels the question that has the id 7."""

    async def __call__(self, request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "tools/call" and not self.calls:
            self.calls.append(request)
            await request.stream()
            await self.ended.wait()
            await request.event({"method": "notifications/cancelled", "params": {"requestId": 7}})
            await request.event({"id": request.message["id"], "result": {"content": []}})
            return False
        return await super().__call__(request)


async def test_a_stream_of_an_expired_session_does_not_cancel_a_question_of_the_new_session() -> None:
    server, handler = CancellingServer(), WaitingHandler()
    with anyio.fail_after(20):
        async with open_http_session(server, answers=handler) as (session, _):
            async with anyio.create_task_group() as calls:
                calls.start_soon(session.request, CallTool("a"))
                await wait_until(lambda: bool(server.calls))
                await server.streamed.wait()
                server.forget()
                server.streamed = anyio.Event()
                assert single_text(await session.request(CallTool("b"))) == "session-2"
                await server.ask("May I delete the files?")
                await handler.asked_now.wait()
                server.ended.set()
            handler.waiting["May I delete the files?"].set()
            await server.answered.wait()
    assert server.answers == [("session-2", {"to": "May I delete the files?"})]
    assert handler.cancelled_methods == []
