"""The feed's delivery promise."""

import anyio
import pytest

from mcphost.host.event_queue import MAX_LOGS, Feeds
from mcphost.host.events import HostEvent, ServerLog, TextDelta, ThinkingDelta, Told, ToolProgress

pytestmark = pytest.mark.anyio


async def collect(feeds: Feeds, *events: HostEvent) -> list[HostEvent]:
    feed = feeds.open()
    for event in events:
        feeds.put(event)
    feeds.close()
    return [event async for event in feed]


async def test_text_that_nobody_read_yet_merges_into_one_event() -> None:
    got = await collect(Feeds(), TextDelta(1, "a"), TextDelta(1, "b"), TextDelta(1, "c"))
    assert got == [TextDelta(1, "abc")]


async def test_text_never_merges_across_something_else_or_another_turn() -> None:
    events = [
        TextDelta(1, "a"),
        ThinkingDelta(1, "b"),
        TextDelta(1, "c"),
        Told("info", "x"),
        TextDelta(1, "d"),
        TextDelta(2, "e"),
    ]
    assert await collect(Feeds(), *events) == events


async def test_the_last_progress_of_a_call_wins_in_its_first_place() -> None:
    got = await collect(
        Feeds(), ToolProgress("1", "s", 1), ToolProgress("2", "s", 5), Told("info", "x"), ToolProgress("1", "s", 9)
    )
    assert got == [ToolProgress("1", "s", 9), ToolProgress("2", "s", 5), Told("info", "x")]


async def test_a_flood_of_log_lines_keeps_the_newest_and_everything_else() -> None:
    logs = [ServerLog("s", "info", str(number)) for number in range(MAX_LOGS + 50)]
    got = await collect(Feeds(), Told("info", "first"), *logs, Told("info", "last"))
    assert got[0] == Told("info", "first")
    assert got[1:-1] == logs[50:]
    assert got[-1] == Told("info", "last")


async def test_a_reader_that_waits_gets_each_event_as_it_comes() -> None:
    feeds = Feeds()
    feed = feeds.open()
    got: list[HostEvent] = []

    async def read() -> None:
        async for event in feed:
            got.append(event)
            seen.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        for text in "ab":
            seen = anyio.Event()
            feeds.put(TextDelta(1, text))
            with anyio.fail_after(20):
                await seen.wait()
        feeds.close()
    assert got == [TextDelta(1, "a"), TextDelta(1, "b")]


async def test_every_feed_hears_what_came_after_it_was_opened() -> None:
    feeds = Feeds()
    first = feeds.open()
    feeds.put(Told("info", "one"))
    second = feeds.open()
    feeds.put(Told("info", "two"))
    assert first.take() == [Told("info", "one"), Told("info", "two")]
    assert second.take() == [Told("info", "two")]
