"""The part that answers a server's `roots/list`, alone: what it writes is kept in a list."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from mcphost.client.incoming_requests import Answering
from mcphost.client.session import AskContext
from mcphost.client.timeouts import Pauses
from mcphost.protocol.jsonrpc import Message, Request
from mcphost.serialization import Raw
from tests.unit.client.people import Answers, Notes

EMPTY = Raw(b"{}")


class RootsRequests:
    """Requests that a server sends, and what was written to it; writing waits while `held` is not set."""

    def __init__(self, held: anyio.Event | None = None) -> None:
        self.sent: list[Message] = []
        self._held = held
        self.answering: Answering

    async def send(self, message: Message) -> None:
        """Keep one message."""
        self.sent.append(message)
        if self._held is not None:
            await self._held.wait()

    def ask(self, ident: int | str, params: Raw = EMPTY) -> None:
        """Take one request of the server."""
        self.answering.take(Request(ident, "roots/list", params), _no_context)

    async def until(self, done: Callable[[], bool]) -> None:
        """Let the other tasks run until this is true."""
        while not done():
            await anyio.lowlevel.checkpoint()


async def _no_context() -> AskContext:
    return AskContext()


@asynccontextmanager
async def answered_by(answers: Answers, held: anyio.Event | None = None) -> AsyncIterator[RootsRequests]:
    """Answer for twenty seconds at most; the block ends when every answer was written."""
    requests = RootsRequests(held)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            requests.answering = Answering(
                answers, requests.send, tasks, declared={"roots": {}}, observer=Notes(), server="s",
                flooded=lambda: None, pauses=Pauses({}, hard=False),
            )  # fmt: skip
            yield requests
