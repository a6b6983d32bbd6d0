"""Tests for the monitor that notices when an HTTP server can no longer be reached, and when it can be again."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from mcphost.errors import RequestNotSent, ServerError
from mcphost.transport import reachability
from mcphost.transport.reachability import ReachabilityMonitor
from tests.event_loop import wait_until

pytestmark = pytest.mark.anyio


async def connect_never() -> None:
    raise RequestNotSent("refused")


async def test_each_change_is_reported_once() -> None:
    reported: list[ServerError | None] = []
    monitor = ReachabilityMonitor(connect_never, reported.append)
    first = RequestNotSent("refused")
    monitor.on_success()
    monitor.on_failure(first)
    monitor.on_failure(RequestNotSent("refused again"))
    monitor.on_success()
    monitor.on_success()
    assert reported == [first, None]


async def test_the_delays_between_attempts_to_connect_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    @contextmanager
    def skip_delay(seconds: float) -> Iterator[None]:
        delays.append(seconds)
        with anyio.CancelScope() as scope:
            scope.cancel()
            yield

    monkeypatch.setattr(reachability.anyio, "move_on_after", skip_delay)
    tries = 0

    async def connect() -> None:
        nonlocal tries
        tries += 1
        if tries < 8:
            await connect_never()

    reported: list[ServerError | None] = []
    monitor = ReachabilityMonitor(connect, reported.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(monitor.run)
        monitor.on_failure(RequestNotSent("refused"))
        await wait_until(lambda: reported[-1:] == [None])
        tasks.cancel_scope.cancel()
    assert delays == [2, 4, 8, 16, 32, 60, 60, 60]
