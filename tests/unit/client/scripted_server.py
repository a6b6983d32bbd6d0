"""A scripted server on an in-process pipe, which is opened and negotiated by the code that mcphost itself uses."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import EraStore, Session
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcErrorResponse, JsonRpcRequest, JsonRpcResponse
from mcphost.serialization import Raw, encode
from mcphost.transport.channel import CancellingTaskGroup, Connector
from tests.fakes.in_memory_channel import InMemoryChannel
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

ALL_CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}
NO_REPLY = object()
Script = Callable[["ScriptedServer", str, dict[str, Any]], Any]


def empty_result(peer: "ScriptedServer", method: str, params: dict[str, Any]) -> Any:
    """Answer every request with an empty object."""
    return {}


class RecordingPipe(InMemoryChannel):
    """A pipe that records the lines sent by the client; while `is_full` is set, each write has to wait."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(warn, wait_writable=lambda: anyio.sleep_forever() if self.is_full else None)
        self.lines: list[bytes] = []
        self.is_full = False

    def _receive(self, line: bytes) -> None:
        self.lines.append(bytes(line))
        super()._receive(line)


class ScriptedServer:
    """A server whose `script(peer, method, params)` returns a result, an ErrorData, or NO_REPLY.

    `seen` contains all decoded messages from the client. `initialize` and `server/discover` are answered as the
    revision requires, unless the function `opening` returns an answer.
    """

    def __init__(
        self,
        script: Script = empty_result,
        revision: str = "2025-11-25",
        capabilities: dict[str, Any] | None = None,
        opening: Script | None = None,
    ) -> None:
        self.observer = RecordingObserver()
        self.seen: list[dict[str, Any]] = []
        self.revision = revision
        self.capabilities = ALL_CAPABILITIES if capabilities is None else capabilities
        self.pipe = RecordingPipe(self.observer.warn)
        self.script = script
        self._opening_script = opening
        self._arrived = anyio.Event()
        self.ident: Any = None

    def methods(self) -> list[str]:
        """Return the methods of the messages from the client, with "answer" for each response."""
        return [message.get("method", "answer") for message in self.seen]

    def answers(self) -> list[dict[str, Any]]:
        """Return the client's responses to the server's requests."""
        return [message for message in self.seen if "method" not in message]

    def say(self, **message: Any) -> None:
        """Send one message to the client."""
        self.pipe.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def wait_until(self, done: Callable[[], bool]) -> None:
        """Wait until *done* returns True, checking it after each message received; fail after twenty seconds."""
        with anyio.fail_after(20):
            while not done():
                self._arrived = anyio.Event()
                await self._arrived.wait()

    async def serve(self) -> None:
        try:
            async for message in self.pipe.requests:
                self.seen.append(json.loads(self.pipe.lines[len(self.seen)]))
                if isinstance(message, JsonRpcRequest):
                    self._answer(message)
                self._arrived.set()
        except ConnectionLost:
            return

    def _answer(self, request: JsonRpcRequest) -> None:
        params = json.loads(bytes(request.params) or b"{}")
        self.ident = request.id
        if request.method in ("initialize", "server/discover"):
            result = self._opening_script(self, request.method, params) if self._opening_script else None
            result = self._opening_result(request.method) if result is None else result
        else:
            result = self.script(self, request.method, params)
        if result is NO_REPLY:
            return
        if isinstance(result, ErrorData):
            self.pipe.send(JsonRpcErrorResponse(request.id, result))
        elif result is not None:
            self.pipe.send(JsonRpcResponse(request.id, Raw(encode(result))))

    def _opening_result(self, method: str) -> Any:
        modern = self.revision >= "2026"
        if method == "initialize" and not modern:
            return {
                "protocolVersion": self.revision,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "peer", "version": "1"},
            }
        if method == "server/discover" and modern:
            return {
                "resultType": "complete",
                "supportedVersions": [self.revision],
                "capabilities": self.capabilities,
                "ttlMs": 0,
                "cacheScope": "private",
            }
        return ErrorData(-32601, "no such method")


class PipeOpener(ClientSessionOpener):
    """mcphost's session opener, with an in-process pipe instead of a process."""

    peer: ScriptedServer

    def _create_connector(self, server: ServerConfig, observer: Any, oauth: Any) -> Connector:
        return self.peer.pipe


@asynccontextmanager
async def connect_to(
    peer: ScriptedServer,
    answers: FakeRequestHandler | None = None,
    limits: Limits | None = None,
    eras: EraStore | None = None,
    **more: Any,
) -> AsyncIterator[Session]:
    """Open a session with a scripted server, negotiated by mcphost's own session opener."""
    opener = PipeOpener(limits=limits or Limits(request_timeout=5, connect_timeout=5), eras=eras)
    opener.peer = peer
    config = ServerConfig(name="peer", command="peer", **more)
    async with CancellingTaskGroup() as tasks:
        tasks.start_soon(peer.serve)
        async with opener.open(config, answers or FakeRequestHandler(), peer.observer) as session:
            with anyio.fail_after(10):
                yield session
