"""One task that sleeps until there is something for it: a future for each wait, the cheapest that asyncio has."""

import asyncio


class WakeupFuture:
    """What one task at a time waits for. Waking nobody is remembered by nobody: look first, then wait."""

    __slots__ = ("_waiter",)

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait_for_wakeup(self) -> None:
        """Until it is woken. Cancelling is safe."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
