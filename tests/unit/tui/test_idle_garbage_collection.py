"""Tests that all garbage is collected while the user does nothing, and no old objects while the user types."""

import asyncio
import gc
import weakref
from collections.abc import Generator
from time import monotonic
from typing import Any

import pytest

from mcphost.tui import idle_garbage_collection
from mcphost.tui.idle_garbage_collection import MAX_COLLECTIONS, MIN_COLLECTIONS, collect_garbage_in_pauses
from tests.garbage import leave_out_existing_objects

pytestmark = pytest.mark.anyio

LOOKS = 5
SOME_OBJECTS = 20_000


class Cycle:
    """An object that refers to itself, which only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


class User:
    """A user whose last input is now, until it pauses."""

    def __init__(self) -> None:
        self.is_typing = True
        self.asked = 0
        self._was_asked = asyncio.Event()

    def last_input(self) -> float:
        self.asked += 1
        self._was_asked.set()
        return monotonic() if self.is_typing else float("-inf")

    async def until_asked(self) -> None:
        self._was_asked.clear()
        await self._was_asked.wait()


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setattr(idle_garbage_collection, "CHECK_SECONDS", 0)
    before = gc.get_threshold()
    with leave_out_existing_objects():
        yield
    assert gc.get_threshold() == before


def make_old_garbage(collections: int) -> "weakref.ref[Cycle]":
    """Return a reference to garbage that survived *collections* of the middle generation."""
    one = Cycle()
    for _ in range(collections):
        gc.collect(1)
    return weakref.ref(one)


async def test_old_garbage_is_collected_once_the_user_pauses_and_not_before() -> None:
    user = User()
    async with asyncio.TaskGroup() as tasks:
        collecting = tasks.create_task(collect_garbage_in_pauses(user.last_input))
        garbage = make_old_garbage(MIN_COLLECTIONS)
        for _ in range(LOOKS):
            await user.until_asked()
            assert garbage() is not None
        user.is_typing = False
        await user.until_asked()
        await asyncio.sleep(0)
        assert garbage() is None
        collecting.cancel()


async def test_a_pause_with_few_new_objects_has_no_full_collection() -> None:
    user = User()
    user.is_typing = False
    async with asyncio.TaskGroup() as tasks:
        collecting = tasks.create_task(collect_garbage_in_pauses(user.last_input))
        garbage = make_old_garbage(MIN_COLLECTIONS - 1)
        for _ in range(LOOKS):
            await asyncio.sleep(0)
        assert (garbage() is not None, user.asked) == (True, 0)
        collecting.cancel()


async def test_garbage_is_collected_without_a_pause_when_it_has_grown_too_much() -> None:
    user = User()
    kept: list[Any] = []
    async with asyncio.TaskGroup() as tasks:
        collecting = tasks.create_task(collect_garbage_in_pauses(user.last_input))
        await asyncio.sleep(0)
        garbage = make_old_garbage(MAX_COLLECTIONS + 1)
        count = len(gc.get_objects()) + SOME_OBJECTS  # Python also waits until a quarter of the old objects is new
        kept.extend([] for _ in range(count))
        assert garbage() is None
        assert user.is_typing
        collecting.cancel()
