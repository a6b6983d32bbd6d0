"""Delivery of host events: the publisher, a queue for each consumer, and dispatch by event type."""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel

from mcphost.errors import McpHostError
from mcphost.host.events import (
    AnyEvent,
    NoticeEvent,
    NoticeLevel,
    ResourceChanged,
    ServerLog,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolProgress,
)
from mcphost.serialization import replace

MAX_LOGS = 1_000


class _MergedDeltas:
    """Queue entry for consecutive chunks of text; the chunks are joined when the entry is read."""

    __slots__ = ("first", "parts")

    def __init__(self, first: TextDeltaEvent | ThinkingDeltaEvent) -> None:
        self.first = first
        self.parts = [first.text]

    def event(self) -> AnyEvent:
        return self.first if len(self.parts) == 1 else replace(self.first, text="".join(self.parts))


class _Slot:
    """Queue entry whose event can be replaced by a newer one."""

    __slots__ = ("value",)

    def __init__(self, value: AnyEvent) -> None:
        self.value = value

    def event(self) -> AnyEvent:
        return self.value


class EventQueue:
    """Queue of the events published since its creation, for one consumer.

    Iterating over the queue waits for new events, and ends when the queue is closed. If the consumer leaves the
    loop earlier, the events that it has not received stay in the queue.
    """

    def __init__(self, open_queues: "set[EventQueue]") -> None:
        self._open_queues = open_queues
        self._queue: deque[_MergedDeltas | _Slot] = deque()
        self._progress: dict[str, _Slot] = {}
        self._logs: deque[_Slot] = deque()
        self._updated_resources: set[ResourceChanged] = set()
        self._ready = anyio.Event()
        self._closed = False
        open_queues.add(self)

    def put(self, event: AnyEvent) -> None:
        """Add an event without blocking.

        To keep the queue short if the consumer is slow, some events are combined with queued ones:

        - Consecutive chunks of text are merged.
        - Progress replaces the queued progress of the same call.
        - A ResourceChanged event is dropped if an equal one is queued.
        - If more than MAX_LOGS log events are queued, the oldest is dropped.
        """
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
        """Close the queue; iteration ends after the events that are already queued."""
        self._closed = True
        self._open_queues.discard(self)
        self._ready.set()

    def drain(self) -> list[AnyEvent]:
        """Remove and return all queued events without waiting."""
        events: list[AnyEvent] = [slot.event() for slot in self._queue]
        self._queue.clear()
        self._progress.clear()
        self._logs.clear()
        self._updated_resources.clear()
        return events

    def _take_first(self) -> AnyEvent:
        event = self._queue.popleft().event()
        if isinstance(event, ToolProgress):
            del self._progress[event.call]
        elif isinstance(event, ServerLog):
            self._logs.popleft()
        elif isinstance(event, ResourceChanged):
            self._updated_resources.discard(event)
        return event

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while True:
            while self._queue:
                yield self._take_first()
            if self._closed:
                return
            self._ready = anyio.Event()
            await self._ready.wait()


MAX_UNSEEN = 20
"""Maximum number of notices kept for the first queue; see `EventBus.notify_early`."""


class EventBus:
    """Publisher of events, which adds each event to every open queue."""

    def __init__(self) -> None:
        self._queues: set[EventQueue] = set()
        self._unseen: list[NoticeEvent] = []

    def subscribe(self) -> EventQueue:
        """Return a new queue that receives every event published after this call.

        The queue begins with the notices that were published with `notify_early` while there was no queue.
        """
        queue = EventQueue(self._queues)
        for notice in self.take_unseen():
            queue.put(notice)
        return queue

    def publish(self, event: AnyEvent) -> None:
        """Add an event to every queue."""
        for queue in tuple(self._queues):
            queue.put(event)

    def notify(self, level: NoticeLevel, text: str, hint: str = "") -> None:
        """Publish a NoticeEvent, which the frontend shows to the user.

        *text* is the notice, and *hint* suggests what the user can do, "" for none.
        """
        self.publish(NoticeEvent(level, text, hint))

    def report_store_error(self, text: str, hint: str) -> None:
        """Notify the user of an error in a stored file, even if no frontend has subscribed to events yet.

        *text* describes the error, and *hint* suggests what the user can do.
        """
        self.notify_early("error", text, hint)

    def notify_early(self, level: NoticeLevel, text: str, hint: str = "") -> None:
        """Publish a NoticeEvent; if no queue exists yet, keep it for the first one.

        Use it for code that runs before the frontend subscribes, such as opening files and conversations. At most
        MAX_UNSEEN notices are kept.
        """
        if self._queues:
            self.notify(level, text, hint)
        elif len(self._unseen) < MAX_UNSEEN:
            self._unseen.append(NoticeEvent(level, text, hint))

    def take_unseen(self) -> tuple[NoticeEvent, ...]:
        """Remove and return the notices that no queue has received yet."""
        unseen, self._unseen = tuple(self._unseen), []
        return unseen

    def report_error(self, error: McpHostError) -> None:
        """Notify the user of an error that did not interrupt anything, such as a failed save."""
        self.notify("error", error.message, error.hint)

    def close(self) -> None:
        """Close every queue."""
        for queue in tuple(self._queues):
            queue.close()


class EventDispatcher:
    """Registry of event handlers by event type; handlers of the same type run in order of registration."""

    def __init__(self) -> None:
        self._handlers: dict[type[Any], list[Callable[[Any], None]]] = {}

    def add(self, handler: Callable[[Any], None], *types: type[AnyEvent]) -> None:
        """Register *handler* for events of the given types."""
        for event_type in types:
            self._handlers.setdefault(event_type, []).append(handler)

    def add_all(self, handlers: Mapping[type[AnyEvent], Callable[[Any], None]]) -> None:
        """Register one handler for each event type in the mapping."""
        for event_type, handler in handlers.items():
            self.add(handler, event_type)

    async def run(self, feed: AsyncIterable[AnyEvent]) -> None:
        """Dispatch events until *feed* ends; events are handled one at a time, in order.

        Other tasks can run after every 64 events, so that many events at once do not delay the reaction to key
        presses. Cancellation takes effect between two events, never between two handlers of the same event.
        """
        count = 0
        async for event in feed:
            for handler in self._handlers.get(type(event), ()):
                handler(event)
            count += 1
            if count % 64 == 0:
                await anyio.lowlevel.checkpoint()
