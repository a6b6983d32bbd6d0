"""Queue that keeps the commands of `mcphost pipe` in the order in which they were received.

It contains the commands that start turns, or that change the conversation or model of the next turn.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio


class TurnOrder:
    """Queue of commands that start turns (`join`) or change settings of the next turn (`change`).

    The commands are in the order in which they were received.
    """

    def __init__(self) -> None:
        self._waiting: dict[TurnPlace, None] = {}

    @contextmanager
    def join(self) -> "Generator[TurnPlace]":
        """Return a context manager that takes the next place in the queue, and leaves it at the end of the block.

        If `stop` is called before the command has started its turn, the block ends early, without an error.
        """
        place = TurnPlace(self)
        self._waiting[place] = None
        try:
            with place.scope:
                yield place
        finally:
            self.leave(place)

    @contextmanager
    def hold(self) -> "Generator[TurnPlace]":
        """Return a context manager that takes the next place; later commands wait until the end of the block.

        The block must call `wait` before it changes anything. `stop` does not end it.
        """
        place = TurnPlace(self, is_stoppable=False)
        self._waiting[place] = None
        try:
            yield place
        finally:
            self.leave(place)

    @asynccontextmanager
    async def change(self) -> "AsyncGenerator[None]":
        """Return a context manager that waits for all earlier commands; later ones wait until the end of the block.

        `stop` does not end the block.
        """
        with self.hold() as place:
            await place.wait()
            yield

    def stop(self) -> bool:
        """End the blocks of all `join` commands that have not started a turn; return False if there are none."""
        stopped = tuple(place for place in self._waiting if place.is_stoppable)
        for place in stopped:
            place.scope.cancel()
        return bool(stopped)

    def is_first(self, place: "TurnPlace") -> bool:
        """Return whether *place* is the first in the queue, so that no earlier command is waiting."""
        return next(iter(self._waiting), None) is place

    def leave(self, place: "TurnPlace") -> None:
        """Remove a place from the queue, and allow the command that is then first in the queue to start.

        Does nothing if the place was already removed.
        """
        self._waiting.pop(place, None)
        first = next(iter(self._waiting), None)
        if first is not None:
            first.may_start.set()


class TurnPlace:
    """Place of one command in a `TurnOrder`."""

    def __init__(self, order: TurnOrder, *, is_stoppable: bool = True) -> None:
        self.is_stoppable = is_stoppable
        self.scope = anyio.CancelScope()
        self.may_start = anyio.Event()
        self._order = order

    async def start(self) -> None:
        """Wait until all earlier commands have started their turns or have ended, then leave the queue.

        The caller must start its turn before it awaits anything else. `TurnOrder.stop` no longer affects this command.
        """
        await self.wait()
        self._order.leave(self)

    async def wait(self) -> None:
        """Wait until all earlier commands have started their turns or have ended."""
        if not self._order.is_first(self):
            await self.may_start.wait()
