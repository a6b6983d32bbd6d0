"""Monitor that reports when an HTTP server becomes unreachable, and when it is reachable again."""

from collections.abc import Awaitable, Callable

import anyio

from mcphost.errors import RequestNotSent, ServerError

ReachabilityFn = Callable[[ServerError | None], None]
"""Receives the reason why the server cannot be reached, or None when it can be reached again; must not block."""
FIRST_DELAY = 2.0
MAX_DELAY = 60.0
"""Seconds between two attempts to connect; each attempt doubles the delay up to this limit."""


def ignore_reachability(_error: ServerError | None) -> None:
    """Do nothing; the default callback for a ReachabilityMonitor."""


class ReachabilityMonitor:
    """Monitor of one server, which is initially considered reachable; each change is reported once.

    *connect* opens and closes a connection without sending a request, and raises RequestNotSent if that fails.
    """

    def __init__(self, connect: Callable[[], Awaitable[None]], report: ReachabilityFn = ignore_reachability) -> None:
        self._connect = connect
        self._report = report
        self._error: ServerError | None = None
        self._changed = anyio.Event()

    def on_failure(self, error: ServerError) -> None:
        """Record that no connection could be opened for a request; *error* names the server and the reason."""
        if self._error is None:
            self._set(error)

    def on_success(self) -> None:
        """Record that the server responded to a request, with any status."""
        if self._error is not None:
            self._set(None)

    def _set(self, error: ServerError | None) -> None:
        self._error = error
        self._changed.set()
        self._changed = anyio.Event()
        self._report(error)

    async def run(self) -> None:
        """Try to connect with increasing delays while the server is unreachable; run until cancelled."""
        while True:
            delay = FIRST_DELAY
            while self._error is not None:
                with anyio.move_on_after(delay):
                    await self._changed.wait()
                    continue
                delay = min(delay * 2, MAX_DELAY)
                try:
                    await self._connect()
                except RequestNotSent:
                    continue
                self.on_success()
            await self._changed.wait()
