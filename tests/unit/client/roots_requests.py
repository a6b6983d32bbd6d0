"""Run mcphost's handler of `roots/list` requests without a session, and record the messages it sends."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from mcphost.client.incoming_requests import ServerRequestDispatcher
from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import UserPauses
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

EMPTY = Raw(b"{}")


class IncomingRootsRequests:
    """A server's `roots/list` requests and mcphost's recorded replies; `held`, if given, delays every reply."""

    def __init__(self, held: anyio.Event | None = None) -> None:
        self.sent: list[JsonRpcMessage] = []
        self._unblocked = held
        self.answering: ServerRequestDispatcher

    async def send(self, message: JsonRpcMessage) -> None:
        """Record one message, and wait until `held` is set if it was given."""
        self.sent.append(message)
        if self._unblocked is not None:
            await self._unblocked.wait()

    def ask(self, ident: int | str, params: Raw = EMPTY) -> None:
        """Pass one `roots/list` request from the server to the handler."""
        self.answering.dispatch(JsonRpcRequest(ident, "roots/list", params), _no_context)

    async def until(self, done: Callable[[], bool]) -> None:
        """Let other tasks run until *done* returns True."""
        while not done():
            await anyio.lowlevel.checkpoint()


async def _no_context() -> ServerRequestContext:
    return ServerRequestContext()


@asynccontextmanager
async def answer_requests(
    answers: FakeRequestHandler, held: anyio.Event | None = None
) -> AsyncIterator[IncomingRootsRequests]:
    """Answer requests until the block ends and all answers are written; fail after twenty seconds."""
    requests = IncomingRootsRequests(held)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            requests.answering = ServerRequestDispatcher(
                answers, requests.send, tasks, declared={"roots": {}}, observer=RecordingObserver(), server="s",
                on_flood=lambda: None, pauses=UserPauses({}, includes_user_time=False),
            )  # fmt: skip
            yield requests
