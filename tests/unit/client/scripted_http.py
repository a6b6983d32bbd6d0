"""HTTP sessions with a scripted server of either era on loopback."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import Session
from mcphost.config.schema import Limits, ServerConfig
from mcphost.protocol.revisions import HANDSHAKE_REVISIONS, Revision
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.transport.raw_http import RawServer, ReceivedRequest, serve

RequestHandler = Callable[[ReceivedRequest], Awaitable[object]]


DISCOVERY = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


REVISIONS_WITH_SESSIONS = [revision for revision in HANDSHAKE_REVISIONS if revision >= Revision.V2025_03_26]
"""The revisions of Streamable HTTP with a handshake."""


def text_answer(text: str = "ok") -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def stateless_server(on_call: RequestHandler) -> RequestHandler:
    """Return the handler of a 2026-07-28 server whose tool calls are answered by *on_call*."""

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "POST" and request.message["method"] == "server/discover":
            return await request.result(DISCOVERY)
        return await on_call(request)

    return handler


def handshake_server(
    on_call: RequestHandler | None = None,
    *,
    revision: str = "2025-11-25",
    session: str = "s-1",
    refusal: int = 400,
    on_get: RequestHandler | None = None,
) -> RequestHandler:
    """Return the handler of a server of the handshake era."""

    async def handler(request: ReceivedRequest) -> object:
        if request.method == "GET":
            return await (on_get(request) if on_get else request.reply(405))
        if request.method == "DELETE":
            return await request.reply(200)
        method = request.message.get("method")
        if method == "server/discover":
            return await request.error(refusal, -32000)
        if method == "initialize":
            extra = {"mcp_session_id": session} if session else {}
            return await request.result(
                {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "old"}}, **extra
            )
        if "id" not in request.message or "method" not in request.message:
            return await request.reply(202, kind="")
        if on_call is None:
            return await request.result({"content": [{"type": "text", "text": "ok"}]})
        return await on_call(request)

    return handler


@asynccontextmanager
async def open_http_session(
    handler: RequestHandler,
    observer: RecordingObserver | None = None,
    answers: FakeRequestHandler | None = None,
    limits: Limits | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Session, RawServer]]:
    async with serve(handler) as server:
        opener = ClientSessionOpener(limits=limits)
        config = ServerConfig(name="peer", url=server.url, **more)
        async with opener.open(config, answers or FakeRequestHandler(), observer or RecordingObserver()) as session:
            yield session, server


def close_stream_after(data: bytes) -> RequestHandler:
    """Return a handler that answers a tool call with an event stream of only *data*, which then closes."""

    async def call(request: ReceivedRequest) -> object:
        await request.stream()
        await request.send(data)
        return False

    return call


class SessionForgettingServer:
    """A server of the handshake era that can forget its session, and reports a different name in each session."""

    def __init__(self, *, lasting: bool = True, revision: str = "2025-11-25") -> None:
        self.revision = revision
        self.opened = 0
        self.known = ""
        self.lasting = lasting
        self.ran: list[str] = []
        self.kept: list[tuple[str, str]] = []
        self.streams: list[ReceivedRequest] = []
        self.streamed = anyio.Event()
        self.refusal = 404
        self.reason = b"Bad Request: No valid session ID provided"

    def forget(self) -> None:
        self.known = ""

    async def __call__(self, request: ReceivedRequest) -> object:
        method = request.message.get("method") if request.body else request.method
        session = request.headers.get("mcp-session-id", "")
        if method == "server/discover":
            return await request.error(400, -32000)
        if method == "initialize":
            assert session == ""
            self.opened += 1
            self.known = f"session-{self.opened}"
            capabilities: dict[str, Any] = {"tools": {}, "resources": {"subscribe": True}}
            result = {
                "protocolVersion": self.revision,
                "capabilities": capabilities,
                "serverInfo": {"name": f"server {self.opened}"},
            }
            return await request.result(result, mcp_session_id=self.known)
        if session != self.known:
            return await request.reply(self.refusal, self.reason, "text/plain")
        if method == "GET":
            self.streams.append(request)
            await request.stream()
            self.streamed.set()
            await request.wait_closed()
            return False
        if method == "notifications/initialized":
            if not self.lasting and self.opened > 1:
                self.forget()
            return await request.reply(202, kind="")
        if method == "DELETE" or "id" not in request.message:
            return await request.reply(202, kind="")
        if method == "resources/subscribe":
            self.kept.append((session, request.message["params"]["uri"]))
            return await request.result({})
        self.ran.append(request.message["params"]["name"])
        return await request.result({"content": [{"type": "text", "text": self.known}]})
