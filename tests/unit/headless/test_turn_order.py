"""Tests for the order in which commands of `mcphost pipe` start turns and change what the next turn uses."""

import anyio
import pytest

from mcphost.headless.turn_order import TurnOrder

pytestmark = pytest.mark.anyio


async def test_a_change_waits_for_earlier_messages_and_later_messages_wait_for_its_end() -> None:
    order, done, may_end, files_read = TurnOrder(), list[str](), anyio.Event(), anyio.Event()

    async def send(name: str, ready: anyio.Event | None = None) -> None:
        with order.join() as place:
            if ready is not None:
                await ready.wait()
            await place.start()
            done.append(name)

    async def change() -> None:
        async with order.change():
            done.append("change begins")
            await may_end.wait()
            done.append("change ends")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, "first", files_read)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(change)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(send, "second")
        await anyio.wait_all_tasks_blocked()
        assert done == []
        files_read.set()
        await anyio.wait_all_tasks_blocked()
        assert done == ["first", "change begins"]
        may_end.set()
    assert done == ["first", "change begins", "change ends", "second"]


async def test_stop_ends_waiting_messages_but_no_change() -> None:
    order, done = TurnOrder(), list[str]()

    async def send() -> None:
        with order.join() as place:
            await anyio.sleep_forever()
            await place.start()
        done.append("stopped")

    async def change() -> None:
        async with order.change():
            done.append("changed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(change)
        await anyio.wait_all_tasks_blocked()
        assert order.stop() is True
    assert sorted(done) == ["changed", "stopped"]
    assert order.stop() is False


async def test_a_change_that_fails_lets_later_messages_start() -> None:
    order = TurnOrder()
    with pytest.raises(ValueError, match="failed"):
        async with order.change():
            raise ValueError("failed")
    with order.join() as place:
        await place.start()
