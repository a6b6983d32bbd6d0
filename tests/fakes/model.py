"""A model that says what the test wrote: one list of events per round, over the product's own ChatModel protocol."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcphost.llm.messages import ToolUsePart
from mcphost.llm.model import (
    Finished,
    ModelEvent,
    ModelFacts,
    ModelRequest,
    TextDelta,
    ToolUseReady,
    Usage,
)


class Hangs:
    """In a round: nothing comes any more, until the stream is closed."""


HANGS = Hangs()
Event = ModelEvent | Exception | Hangs
Round = Sequence[Event] | Callable[[ModelRequest], Sequence[Event]]


def says(text: str) -> list[ModelEvent]:
    """A round of text."""
    return [TextDelta(text), Finished("stop", Usage(input_tokens=10, output_tokens=5, cost=0.001))]


def calls(*uses: tuple[str, dict[str, Any] | None], text: str = "") -> Callable[[ModelRequest], list[ModelEvent]]:
    """A round that calls tools by model-facing name."""

    def round_(request: ModelRequest) -> list[ModelEvent]:
        count = sum(len(message.tool_uses) for message in request.messages)
        events: list[ModelEvent] = [TextDelta(text)] if text else []
        for number, (name, arguments) in enumerate(uses, count + 1):
            raw = "" if arguments is not None else '{"broken'
            events.append(ToolUseReady(ToolUsePart(f"use-{number}", name, arguments, raw)))
        return [*events, Finished("tool_calls", Usage(input_tokens=20, output_tokens=7, cost=0.002))]

    return round_


class ScriptedModel:
    """Plays its rounds in order."""

    name = "scripted"
    label = "scripted"
    facts = ModelFacts()

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self.hanging = anyio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.requests.append(request)
        self.open_streams += 1
        try:
            yield self._play(request)
        finally:
            self.open_streams -= 1

    async def _play(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        current = self.rounds.pop(0)
        for event in current(request) if callable(current) else current:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, Hangs):
                self.hanging.set()
                await anyio.sleep_forever()
                return
            yield event
            await anyio.lowlevel.checkpoint()

    async def learn(self) -> None:
        """Nothing more is known."""

    async def prepare(self) -> None:
        """Always ready."""

    async def close(self) -> None:
        """Nothing to close."""
