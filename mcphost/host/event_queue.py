"""Queues of events for readers: text deltas merge, only the latest progress and log lines are kept.

An update of a resource is not repeated before it was read. Every other event reaches every open queue exactly once, in
order.
"""

from collections import deque
from collections.abc import AsyncIterator

import anyio

from mcphost.host.events import HostEvent, ResourceChanged, ServerLog, TextDeltaEvent, ThinkingDeltaEvent, ToolProgress
from mcphost.serialization import replace

MAX_LOGS = 1_000


class _MergedDeltas:
    """Consecutive deltas; the parts are joined once, when read."""

    __slots__ = ("first", "parts")

    def __init__(self, first: TextDeltaEvent | ThinkingDeltaEvent) -> None:
        self.first = first
        self.parts = [first.text]

    def event(self) -> HostEvent:
        return self.first if len(self.parts) == 1 else replace(self.first, text="".join(self.parts))


class _Slot:
    """A slot for an event that a newer one may replace."""

    __slots__ = ("value",)

    def __init__(self, value: HostEvent) -> None:
        self.value = value

    def event(self) -> HostEvent:
        return self.value


class EventQueue:
    """Events from its creation on, for one reader; it ends with the host or when closed."""

    def __init__(self, open_queues: "set[EventQueue]") -> None:
        self._open_queues = open_queues
        self._queue: deque[_MergedDeltas | _Slot] = deque()
        self._progress: dict[str, _Slot] = {}
        self._logs: deque[_Slot] = deque()
        self._updated_resources: set[ResourceChanged] = set()
        self._ready = anyio.Event()
        self._closed = False
        open_queues.add(self)

    def put(self, event: HostEvent) -> None:
        """Add an event; never blocks."""
        if self._closed:
            return
        last = self._queue[-1] if self._queue else None
        if isinstance(event, TextDeltaEvent | ThinkingDeltaEvent):
            if isinstance(last, _MergedDeltas) and type(last.first) is type(event) and last.first.turn == event.turn:
                last.parts.append(event.text)
            else:
                self._queue.append(_MergedDeltas(event))
        elif isinstance(event, ToolProgress) and event.call in self._progress:
            self._progress[event.call].value = event
        elif isinstance(event, ResourceChanged) and event in self._updated_resources:
            return
        else:
            self._queue.append(slot := _Slot(event))
            if isinstance(event, ToolProgress):
                self._progress[event.call] = slot
            elif isinstance(event, ServerLog):
                self._limit_logs(slot)
            elif isinstance(event, ResourceChanged):
                self._updated_resources.add(event)
        self._ready.set()

    def _limit_logs(self, slot: _Slot) -> None:
        self._logs.append(slot)
        if len(self._logs) > MAX_LOGS:
            self._queue.remove(self._logs.popleft())

    def close(self) -> None:
        """End the iteration after what is queued."""
        self._closed = True
        self._open_queues.discard(self)
        self._ready.set()

    def drain(self) -> list[HostEvent]:
        """Return everything queued now, without waiting."""
        events: list[HostEvent] = [slot.event() for slot in self._queue]
        self._queue.clear()
        self._progress.clear()
        self._logs.clear()
        self._updated_resources.clear()
        return events

    async def __aiter__(self) -> AsyncIterator[HostEvent]:
        while True:
            for event in self.drain():
                yield event
            if self._queue:
                continue
            if self._closed:
                return
            self._ready = anyio.Event()
            await self._ready.wait()


class EventBus:
    """All open queues."""

    def __init__(self) -> None:
        self._queues: set[EventQueue] = set()

    def subscribe(self) -> EventQueue:
        """Return a new queue of all events from now on."""
        return EventQueue(self._queues)

    def publish(self, event: HostEvent) -> None:
        """Add an event to every queue."""
        for queue in tuple(self._queues):
            queue.put(event)

    def close(self) -> None:
        """Close every queue."""
        for queue in tuple(self._queues):
            queue.close()
