"""Connects to several servers side by side and collects what came of it."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from mcphost.errors import McpHostError
from mcphost.host.host import Host
from mcphost.host.views import ServerView

ROUND_TRIP_SECONDS = 10


class Answer:
    """One server, when it was ready; or why it was not."""

    def __init__(self, view: ServerView, error: McpHostError | None, seconds: float) -> None:
        self.view, self.error, self.seconds = view, error, seconds
        self.latency: float | None = None
        """Seconds of one round trip, once measured."""

    def problem(self) -> dict[str, Any]:
        """The error as JSON data."""
        error = self.error
        if error is None:
            return {}
        return {"server": self.view.name, "kind": error.kind, "message": error.message, "hint": error.hint,
                "exit": error.exit_code}  # fmt: skip


async def ask_servers(
    host: Host, names: list[str] | None = None, known: Callable[[Answer], Awaitable[None]] | None = None
) -> list[Answer]:
    """Connect those, or every enabled one, in the order of the configuration; nothing else is started.

    `known` is awaited with each answer as soon as there is one.
    """
    wanted = names or [view.name for view in host.servers() if not view.config.disabled]
    answers: dict[str, Answer] = {}

    async def one(name: str) -> None:
        began = time.monotonic()
        try:
            view, error = await host.ensure_ready(name), None
        except McpHostError as caught:
            view, error = host.server(name), caught
        answer = answers[name] = Answer(view, error, time.monotonic() - began)
        if known is not None:
            await known(answer)

    async with anyio.create_task_group() as tasks:
        for name in wanted:
            tasks.start_soon(one, name)
    return [answers[name] for name in wanted]


async def measure(host: Host, answer: Answer) -> None:
    """Measure what one round trip takes to a server that is ready; one that failed has none."""
    if answer.error is None:
        with suppress(McpHostError), anyio.move_on_after(ROUND_TRIP_SECONDS):
            answer.latency = await host.features.measure_round_trip(answer.view.name)
