"""A model that follows a script, with a list of events for each round; it implements the protocol ChatModel."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import (
    ModelEvent,
    ModelFacts,
    ModelRequest,
    StreamFinished,
    TextDelta,
    ToolUseReady,
    Usage,
)


class WaitForever:
    """A scripted round in which the model sends nothing until the stream is closed."""


HANG = WaitForever()
Event = ModelEvent | Exception | WaitForever
Round = Sequence[Event] | Callable[[ModelRequest], Sequence[Event]]


def user_message(text: str) -> Message:
    """Return a user message."""
    return Message(role="user", parts=(TextPart(text),))


def text_round(text: str) -> list[ModelEvent]:
    """Return a round in which the model answers with a text."""
    return [TextDelta(text), StreamFinished("stop", Usage(input_tokens=10, output_tokens=5, cost=0.001))]


def tool_round(*uses: tuple[str, dict[str, Any] | None], text: str = "") -> Callable[[ModelRequest], list[ModelEvent]]:
    """Return a round in which the model calls tools, given as pairs of the name offered to it and arguments.

    None as arguments stands for arguments that are not valid JSON.
    """

    def round_(request: ModelRequest) -> list[ModelEvent]:
        count = sum(len(message.tool_uses) for message in request.messages)
        events: list[ModelEvent] = [TextDelta(text)] if text else []
        for number, (name, arguments) in enumerate(uses, count + 1):
            raw = "" if arguments is not None else '{"broken'
            events.append(ToolUseReady(ToolUsePart(f"use-{number}", name, arguments, raw)))
        return [*events, StreamFinished("tool_calls", Usage(input_tokens=20, output_tokens=7, cost=0.002))]

    return round_


class ScriptedModel:
    """A model that plays back prepared rounds in order."""

    name = "scripted"
    label = "scripted"
    facts: ModelFacts = ModelFacts()

    def __init__(self, *rounds: Round, facts: ModelFacts | None = None) -> None:
        self.rounds = list(rounds)
        self.facts = facts or self.facts
        self.requests: list[ModelRequest] = []
        self.open_streams = 0
        self.hanging = anyio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        self.requests.append(request)
        self.open_streams += 1
        try:
            yield self._stream_round(request)
        finally:
            self.open_streams -= 1

    async def _stream_round(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        current = self.rounds.pop(0)
        for event in current(request) if callable(current) else current:
            if isinstance(event, Exception):
                raise event
            if isinstance(event, WaitForever):
                self.hanging.set()
                await anyio.sleep_forever()
                return
            yield event
            await anyio.lowlevel.checkpoint()

    async def load_facts(self) -> None:
        """Do nothing, because no facts are known."""

    async def prepare(self) -> None:
        """Do nothing, because the model is always ready."""

    async def close(self) -> None:
        """Do nothing."""


def tool_return(model: ScriptedModel, request: int = -1) -> ToolReturnPart:
    part = model.requests[request].messages[-1].parts[0]
    assert isinstance(part, ToolReturnPart)
    return part


def tool_returns(model: ScriptedModel, request: int = -1) -> list[ToolReturnPart]:
    return [part for part in model.requests[request].messages[-1].parts if isinstance(part, ToolReturnPart)]
