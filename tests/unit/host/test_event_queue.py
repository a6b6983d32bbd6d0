"""Tests for the delivery guarantees of the event queue: what may be merged or dropped, and what may not."""

import anyio
import pytest

from mcphost.host.event_bus import MAX_LOGS, MAX_UNSEEN, EventBus
from mcphost.host.events import (
    HostEvent,
    NoticeEvent,
    ResourceChanged,
    ServerLog,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolProgress,
)
from tests.unit.host.host_events import wait_for_event

pytestmark = pytest.mark.anyio


async def collect_events(event_bus: EventBus, *events: HostEvent) -> list[HostEvent]:
    feed = event_bus.subscribe()
    for event in events:
        event_bus.publish(event)
    event_bus.close()
    return [event async for event in feed]


async def test_unread_text_merges_into_one_event() -> None:
    received = await collect_events(EventBus(), TextDeltaEvent(1, "a"), TextDeltaEvent(1, "b"), TextDeltaEvent(1, "c"))
    assert received == [TextDeltaEvent(1, "abc")]


async def test_text_never_merges_across_something_else_or_another_turn() -> None:
    events = [
        TextDeltaEvent(1, "a"),
        ThinkingDeltaEvent(1, "b"),
        TextDeltaEvent(1, "c"),
        NoticeEvent("info", "x"),
        TextDeltaEvent(1, "d"),
        TextDeltaEvent(2, "e"),
    ]
    assert await collect_events(EventBus(), *events) == events


async def test_the_last_progress_of_a_call_wins_in_its_first_place() -> None:
    received = await collect_events(
        EventBus(),
        ToolProgress("1", "s", 1),
        ToolProgress("2", "s", 5),
        NoticeEvent("info", "x"),
        ToolProgress("1", "s", 9),
    )
    assert received == [ToolProgress("1", "s", 9), ToolProgress("2", "s", 5), NoticeEvent("info", "x")]


async def test_a_flood_of_log_lines_keeps_the_newest_and_everything_else() -> None:
    logs = [ServerLog("s", "info", str(number)) for number in range(MAX_LOGS + 50)]
    received = await collect_events(EventBus(), NoticeEvent("info", "first"), *logs, NoticeEvent("info", "last"))
    assert received[0] == NoticeEvent("info", "first")
    assert received[1:-1] == logs[50:]
    assert received[-1] == NoticeEvent("info", "last")


async def test_a_waiting_reader_gets_each_event_when_it_arrives() -> None:
    event_bus = EventBus()
    feed = event_bus.subscribe()
    received: list[HostEvent] = []

    async def read() -> None:
        async for event in feed:
            received.append(event)
            seen.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        for text in "ab":
            seen = anyio.Event()
            event_bus.publish(TextDeltaEvent(1, text))
            with anyio.fail_after(20):
                await seen.wait()
        event_bus.close()
    assert received == [TextDeltaEvent(1, "a"), TextDeltaEvent(1, "b")]


async def test_events_after_the_one_that_a_reader_waited_for_stay_in_the_queue() -> None:
    event_bus = EventBus()
    feed = event_bus.subscribe()
    for number in range(3):
        event_bus.publish(NoticeEvent("info", str(number)))
        event_bus.publish(ServerLog("s", "info", str(number)))
    event_bus.close()
    assert await wait_for_event(feed, ServerLog) == ServerLog("s", "info", "0")
    assert await wait_for_event(feed, NoticeEvent) == NoticeEvent("info", "1")
    assert feed.drain() == [ServerLog("s", "info", "1"), NoticeEvent("info", "2"), ServerLog("s", "info", "2")]
    with pytest.raises(AssertionError, match="the feed ended"):
        await wait_for_event(feed, NoticeEvent)


@pytest.mark.parametrize(
    ("event", "later"),
    [
        (ToolProgress("1", "s", 1), ToolProgress("1", "s", 2)),
        (ResourceChanged("s", "a://1"), ResourceChanged("s", "a://1")),
        (TextDeltaEvent(1, "a"), TextDeltaEvent(1, "b")),
        (ServerLog("s", "info", "a"), ServerLog("s", "info", "b")),
    ],
    ids=["progress", "resource", "text", "log"],
)
async def test_an_event_that_was_read_neither_takes_up_nor_hides_a_later_one(
    event: HostEvent, later: HostEvent
) -> None:
    event_bus = EventBus()
    feed = event_bus.subscribe()
    received: list[HostEvent] = []
    event_bus.publish(event)
    event_bus.publish(NoticeEvent("info", "x"))
    async for one in feed:
        received.append(one)
        if len(received) == 1:
            event_bus.publish(later)
            event_bus.close()
    assert received == [event, NoticeEvent("info", "x"), later]


async def test_of_log_lines_that_arrive_while_others_are_read_the_newest_stay() -> None:
    event_bus = EventBus()
    feed = event_bus.subscribe()
    logs = [ServerLog("s", "info", str(number)) for number in range(2 * MAX_LOGS)]
    for log in logs[:MAX_LOGS]:
        event_bus.publish(log)
    assert await wait_for_event(feed, ServerLog) == logs[0]
    for log in logs[MAX_LOGS:]:
        event_bus.publish(log)
    assert feed.drain() == logs[MAX_LOGS:]


async def test_every_event_queue_gets_events_after_it_was_opened() -> None:
    event_bus = EventBus()
    first = event_bus.subscribe()
    event_bus.publish(NoticeEvent("info", "one"))
    second = event_bus.subscribe()
    event_bus.publish(NoticeEvent("info", "two"))
    assert first.drain() == [NoticeEvent("info", "one"), NoticeEvent("info", "two")]
    assert second.drain() == [NoticeEvent("info", "two")]


def test_an_error_of_a_file_opened_before_anyone_listens_reaches_the_first_queue() -> None:
    event_bus = EventBus()
    event_bus.report_store_error("The store was damaged.", "The damaged file was moved to aside.")
    first, second = event_bus.subscribe(), event_bus.subscribe()
    assert [event.text for event in first.drain() if isinstance(event, NoticeEvent)] == ["The store was damaged."]
    assert second.drain() == []
    event_bus.report_store_error("It failed again.", "")
    assert len(first.drain()) == len(second.drain()) == 1
    assert event_bus.take_unseen() == ()


def test_few_errors_are_kept_for_the_first_queue() -> None:
    event_bus = EventBus()
    for number in range(MAX_UNSEEN + 5):
        event_bus.report_store_error(f"error {number}", "")
    assert len(event_bus.take_unseen()) == MAX_UNSEEN
