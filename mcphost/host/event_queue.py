"""A reader's queue of events: text deltas merge, the last progress of a call wins, old log lines give way.

An update of a resource is not told twice before it was read. Delivery promise: every other event reaches every open
feed exactly once, in order.
"""

from collections import deque
from collections.abc import AsyncIterator

import anyio

from mcphost.host.events import HostEvent, ResourceChanged, ServerLog, TextDelta, ThinkingDelta, ToolProgress
from mcphost.serialization import replace

MAX_LOGS = 1_000


class _Text:
    """Merging deltas; parts are joined once, when read."""

    __slots__ = ("first", "parts")

    def __init__(self, first: TextDelta | ThinkingDelta) -> None:
        self.first = first
        self.parts = [first.text]

    def event(self) -> HostEvent:
        return self.first if len(self.parts) == 1 else replace(self.first, text="".join(self.parts))


class _Last:
    """A slot whose newest value counts."""

    __slots__ = ("value",)

    def __init__(self, value: HostEvent) -> None:
        self.value = value

    def event(self) -> HostEvent:
        return self.value


class Feed:
    """Events from the moment it was made. One reader; ends when the host ends or the feed is closed."""

    def __init__(self, feeds: "set[Feed]") -> None:
        self._feeds = feeds
        self._queue: deque[_Text | _Last] = deque()
        self._progress: dict[str, _Last] = {}
        self._logs: deque[_Last] = deque()
        self._updated: set[ResourceChanged] = set()
        self._ready = anyio.Event()
        self._closed = False
        feeds.add(self)

    def put(self, event: HostEvent) -> None:
        """Add an event; never blocks."""
        if self._closed:
            return
        last = self._queue[-1] if self._queue else None
        if isinstance(event, TextDelta | ThinkingDelta):
            if isinstance(last, _Text) and type(last.first) is type(event) and last.first.turn == event.turn:
                last.parts.append(event.text)
            else:
                self._queue.append(_Text(event))
        elif isinstance(event, ToolProgress) and event.call in self._progress:
            self._progress[event.call].value = event
        elif isinstance(event, ResourceChanged) and event in self._updated:
            return
        else:
            self._queue.append(slot := _Last(event))
            if isinstance(event, ToolProgress):
                self._progress[event.call] = slot
            elif isinstance(event, ServerLog):
                self._bound_logs(slot)
            elif isinstance(event, ResourceChanged):
                self._updated.add(event)
        self._ready.set()

    def _bound_logs(self, slot: _Last) -> None:
        self._logs.append(slot)
        if len(self._logs) > MAX_LOGS:
            self._queue.remove(self._logs.popleft())

    def close(self) -> None:
        """End the iteration after what is queued."""
        self._closed = True
        self._feeds.discard(self)
        self._ready.set()

    def take(self) -> list[HostEvent]:
        """Everything queued right now; never waits."""
        events: list[HostEvent] = [slot.event() for slot in self._queue]
        self._queue.clear()
        self._progress.clear()
        self._logs.clear()
        self._updated.clear()
        return events

    async def __aiter__(self) -> AsyncIterator[HostEvent]:
        while True:
            for event in self.take():
                yield event
            if self._queue:
                continue
            if self._closed:
                return
            self._ready = anyio.Event()
            await self._ready.wait()


class Feeds:
    """All open feeds."""

    def __init__(self) -> None:
        self._feeds: set[Feed] = set()

    def open(self) -> Feed:
        """A new feed of everything from now on."""
        return Feed(self._feeds)

    def put(self, event: HostEvent) -> None:
        """Tell every feed."""
        for feed in tuple(self._feeds):
            feed.put(event)

    def close(self) -> None:
        """End every feed."""
        for feed in tuple(self._feeds):
            feed.close()
