"""Queue that makes the commands of `mcphost pipe` take effect in the order in which they were received.

Only commands that start a turn, or that change the conversation or model of the next turn, wait in it.
"""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio


class TurnOrder:
    """Queue of commands in the order in which they were received.

    A command that starts a turn enters the queue with `join`. A command that changes something for the next turn uses
    `change` or `hold`, so that later commands do not start before it has finished.
    """

    def __init__(self) -> None:
        self._waiting: dict[TurnPlace, None] = {}

    @contextmanager
    def join(self) -> "Generator[TurnPlace]":
        """Return a context manager that adds a command to the queue; the block starts the command's turn.

        The command leaves the queue at the end of the block, or earlier if it calls `TurnPlace.start`. If `stop` is
        called while the command is in the queue, the block is cancelled and ends without an error.
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
        """Return a context manager that adds a command to the queue until the end of the block; later commands wait.

        The block may prepare a change immediately, but must await `TurnPlace.wait` before it makes the change. `stop`
        does not cancel the block.
        """
        place = TurnPlace(self, is_stoppable=False)
        self._waiting[place] = None
        try:
            yield place
        finally:
            self.leave(place)

    @asynccontextmanager
    async def change(self) -> "AsyncGenerator[None]":
        """Return a context manager whose block starts after all earlier commands; later commands wait until it ends.

        An earlier command is waited for only until it has started its turn or has ended. A call of `TurnOrder.stop`
        does not cancel the block.
        """
        with self.hold() as place:
            await place.wait()
            yield

    def stop(self) -> bool:
        """Cancel the `join` blocks of all commands that have not started a turn; return False if there are none."""
        stopped = tuple(place for place in self._waiting if place.is_stoppable)
        for place in stopped:
            place.scope.cancel()
        return bool(stopped)

    def is_first(self, place: "TurnPlace") -> bool:
        """Return whether *place* is the first in the queue, so that no earlier command is waiting."""
        return next(iter(self._waiting), None) is place

    def leave(self, place: "TurnPlace") -> None:
        """Remove a place from the queue, and let the next command in the queue start.

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

        The caller must start its turn before it awaits anything else. After this, `TurnOrder.stop` does not cancel the
        command.
        """
        await self.wait()
        self._order.leave(self)

    async def wait(self) -> None:
        """Wait until all earlier commands have started their turns or have ended."""
        if not self._order.is_first(self):
            await self.may_start.wait()
