"""Dispatch of the host's events to handlers by their type."""

from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any

import anyio.lowlevel

from mcphost.host.events import AnyEvent


class EventDispatcher:
    """Registry that calls handlers by event type; handlers of the same type run in order of registration."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def add(self, handler: Callable[[Any], None], *types: type[AnyEvent]) -> None:
        """Register a handler for events of *types*."""
        for event_type in types:
            self._handlers.setdefault(event_type, []).append(handler)

    def add_all(self, handlers: Mapping[type[AnyEvent], Callable[[Any], None]]) -> None:
        """Register one handler for each event type in the mapping."""
        for event_type, handler in handlers.items():
            self.add(handler, event_type)

    async def run(self, feed: AsyncIterable[AnyEvent]) -> None:
        """Dispatch events until *feed* ends.

        Other tasks may run after every 64 events, so that a burst of events does not delay key presses. May be
        cancelled.
        """
        count = 0
        async for event in feed:
            for handler in self._handlers.get(type(event), ()):
                handler(event)
            count += 1
            if count % 64 == 0:
                await anyio.lowlevel.checkpoint()
