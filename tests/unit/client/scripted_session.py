"""A session over an in-process pipe; a function that the test supplies acts as the server."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio

from mcphost.client.handshake_session import HandshakeSession
from mcphost.client.requests import RequestSender
from mcphost.client.session import ServerFacts, Session
from mcphost.client.stateless_session import StatelessSession
from mcphost.client.timeouts import Timeouts
from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import (
    ErrorData,
    JsonRpcErrorResponse,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
)
from mcphost.protocol.lifecycle import Implementation, ListCapability, ServerCapabilities
from mcphost.protocol.revisions import Revision
from mcphost.serialization import Raw, encode
from mcphost.transport.channel import CancellingTaskGroup
from tests.fakes.in_memory_channel import InMemoryChannel
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

ALL_CAPABILITIES = ServerCapabilities(
    tools=ListCapability(list_changed=True),
    resources=ListCapability(list_changed=True, subscribe=True),
    prompts=ListCapability(list_changed=True),
    completions=Raw(b"{}"),
    logging=Raw(b"{}"),
)
ServerFn = Callable[[str, dict[str, Any]], Any]


@asynccontextmanager
async def open_scripted_session(
    server: ServerFn,
    revision: Revision = Revision.V2026_07_28,
    answers: FakeRequestHandler | None = None,
    capabilities: ServerCapabilities = ALL_CAPABILITIES,
    *,
    patience: float = 5,
) -> AsyncIterator[tuple[Session, list[dict[str, Any]], InMemoryChannel]]:
    """Open a session whose requests are answered by `server(method, params)` with a result, an error, or None."""
    pipe = InMemoryChannel()
    if isinstance(server, SubscriptionServer):
        server.pipe = pipe
    pipe.channel.set_revision(revision)
    recorded: list[dict[str, Any]] = []
    facts = ServerFacts(revision, Implementation(), capabilities)
    caller = RequestSender(pipe.channel, "peer", Timeouts(patience, patience))

    async def serve() -> None:
        try:
            async for message in pipe.requests:
                if not isinstance(message, JsonRpcRequest):
                    if isinstance(message, JsonRpcNotification):
                        told = json.loads(bytes(message.params) or b"{}")
                        recorded.append({"method": message.method, "params": told})
                    continue
                params = json.loads(bytes(message.params) or b"{}")
                recorded.append({"id": message.id, "method": message.method, "params": params})
                if isinstance(server, SubscriptionServer) and message.method == "subscriptions/listen":
                    server.listen(cast("int", message.id), params)
                    continue
                result = server(message.method, params)
                if isinstance(result, ErrorData):
                    pipe.send(JsonRpcErrorResponse(message.id, result))
                elif result is not None:
                    pipe.send(JsonRpcResponse(message.id, Raw(encode(result))))
        except ConnectionLost:
            return

    async with CancellingTaskGroup() as tasks:
        responder = answers or FakeRequestHandler()
        session: HandshakeSession | StatelessSession
        if revision.era == "handshake":
            session = HandshakeSession(pipe.channel, caller, facts, responder, RecordingObserver(), tasks)
        else:
            session = StatelessSession(pipe.channel, caller, facts, responder, RecordingObserver())
        caller.on_unsolicited = session.handle_unsolicited
        tasks.start_soon(session.serve)
        tasks.start_soon(serve)
        with anyio.fail_after(20):
            yield session, recorded, pipe


class SubscriptionServer:
    """A server of the stateless era that records open subscriptions."""

    def __init__(self, other: ServerFn = lambda *_: {}) -> None:
        self.handle_other = other
        self.pipe: InMemoryChannel
        self.opened: list[dict[str, Any]] = []
        self.accept_filter: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda expected: expected
        self._changed = anyio.Event()

    def __call__(self, method: str, params: dict[str, Any]) -> Any:
        """Answer a request by calling `handle_other`; subclasses may override this."""
        return self.handle_other(method, params)

    def listen(self, ident: int, params: dict[str, Any]) -> None:
        """Record a new subscription, and acknowledge it unless `accept_filter` returns None."""
        self.opened.append({"id": ident, **params["notifications"]})
        honoured = self.accept_filter(params["notifications"])
        if honoured is not None:
            self.say(ident, "notifications/subscriptions/acknowledged", notifications=honoured)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, count: int) -> None:
        """Wait until *count* subscriptions have been opened in total."""
        while len(self.opened) < count:
            await self._changed.wait()

    def say(self, ident: Any, method: str, **params: Any) -> None:
        """Send a notification on the subscription opened by request *ident*."""
        meta = {"io.modelcontextprotocol/subscriptionId": ident}
        self.pipe.send(JsonRpcNotification(method, Raw(encode({**params, "_meta": meta}))))

    def end(self, ident: int) -> None:
        """End the subscription opened by request *ident* with a result."""
        meta = {"io.modelcontextprotocol/subscriptionId": ident}
        self.pipe.send(JsonRpcResponse(ident, Raw(encode({"resultType": "complete", "_meta": meta}))))
