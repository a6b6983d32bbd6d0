"""Tests for opening a session with two requests at once, when the answer to the first arrives during the second."""

from typing import Any, cast

import anyio
import pytest

from mcphost.client.negotiation import HedgedOpening, Negotiation
from mcphost.errors import RequestTimeout
from mcphost.transport.channel import Channel

pytestmark = pytest.mark.anyio


class ProbeServer:
    """A server that answers `server/discover` on demand and counts the `initialize` requests."""

    is_drained = True

    def __init__(self) -> None:
        self.answers, self.initializes = anyio.Event(), 0

    async def discover(self) -> object:
        await self.answers.wait()
        return self

    async def initialize(self) -> object:
        self.initializes += 1
        raise RequestTimeout("It does not answer.")


@pytest.mark.req("life.era.stdio-modern")
async def test_no_initialize_follows_a_probe_that_is_answered_while_it_waits() -> None:
    server, facts = ProbeServer(), list[Any]()
    race = HedgedOpening(cast("Negotiation", server), cast("Channel", server), "peer")

    async def run() -> None:
        facts.append(await race.run("stateless first"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        server.answers.set()
    assert (facts, server.initializes) == ([server], 0)
