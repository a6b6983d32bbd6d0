"""Wakeups for a single waiting task: one future for each wait, the cheapest way in asyncio."""

import asyncio


class WakeupFuture:
    """A wakeup for one task at a time. Without a waiter it has no effect: check the state, then wait."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait_for_wakeup(self) -> None:
        """Wait until woken. May be cancelled."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
