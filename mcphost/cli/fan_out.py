"""Connects to several servers side by side and collects what came of it."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from mcphost.errors import McpHostError
from mcphost.host.host import Host
from mcphost.host.views import ServerView

ROUND_TRIP_TIMEOUT = 10


class ServerConnectResult:
    """One server, when it was ready; or why it was not."""

    def __init__(self, view: ServerView, error: McpHostError | None, seconds: float) -> None:
        self.view, self.error, self.seconds = view, error, seconds
        self.latency: float | None = None
        """Seconds of one round trip, once measured."""

    def error_data(self) -> dict[str, Any]:
        """The error as JSON data."""
        error = self.error
        if error is None:
            return {}
        return {"server": self.view.name, "kind": error.kind, "message": error.message, "hint": error.hint,
                "exit": error.exit_code}  # fmt: skip


async def connect_servers(
    host: Host,
    names: list[str] | None = None,
    on_result: Callable[[ServerConnectResult], Awaitable[None]] | None = None,
) -> list[ServerConnectResult]:
    """Connect those, or every enabled one, in the order of the configuration; nothing else is started.

    `known` is awaited with each answer as soon as there is one.
    """
    wanted = names or [view.name for view in host.servers.views() if not view.config.disabled]
    answers: dict[str, ServerConnectResult] = {}

    async def connect(name: str) -> None:
        began = time.monotonic()
        try:
            view, error = await host.servers.ensure_ready(name), None
        except McpHostError as caught:
            view, error = host.servers.view(name), caught
        answer = answers[name] = ServerConnectResult(view, error, time.monotonic() - began)
        if on_result is not None:
            await on_result(answer)

    async with anyio.create_task_group() as tasks:
        for name in wanted:
            tasks.start_soon(connect, name)
    return [answers[name] for name in wanted]


async def measure_latency(host: Host, result: ServerConnectResult) -> None:
    """Measure what one round trip takes to a server that is ready; one that failed has none."""
    if result.error is None:
        with suppress(McpHostError), anyio.move_on_after(ROUND_TRIP_TIMEOUT):
            result.latency = await host.features.measure_round_trip(result.view.name)
