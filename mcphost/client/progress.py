"""Progress of one call as its caller hears it: never backwards, at most ten times a second, the last value wins."""

import asyncio

from mcphost.client.session import NoticeFn
from mcphost.protocol.notifications import Progress
from mcphost.serialization import replace

INTERVAL = 0.1


class ProgressMeter:
    """Takes what the server says and tells it on; `close` tells what is still held back and ends it.

    The specification wants every value above the one before (basic/utilities/progress). A value that is not keeps
    the highest one, so that no bar moves backwards; it is told on only when its message or its total is new.
    """

    __slots__ = ("_closed", "_held", "_last", "_tell", "_timer", "_told_at", "dropped")

    def __init__(self, tell: NoticeFn) -> None:
        self._tell = tell
        self._last: Progress | None = None
        self._held: Progress | None = None
        self._told_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.dropped = 0

    def put(self, said: Progress) -> None:
        """One notice of the server; returns at once."""
        last = self._last
        if last is not None and said.progress <= last.progress:
            if (said.message or last.message) == last.message and said.total in (None, last.total):
                self.dropped += 1
                return
            said = replace(said, progress=last.progress, message=said.message or last.message)
        self._last = said
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None and now - self._told_at >= INTERVAL:
            self._told_at = now
            self._tell(said)
            return
        self.dropped += self._held is not None
        self._held = said
        if self._timer is None:
            self._timer = loop.call_at(self._told_at + INTERVAL, self._ring)

    def close(self) -> None:
        """The call is over: nothing is told after this."""
        if self._timer is not None:
            self._timer.cancel()
        if self._held is not None and not self._closed:
            self._tell(self._held)
            self._held = None
        self._closed = True

    def _ring(self) -> None:
        self._timer = None
        held, self._held = self._held, None
        if held is not None and not self._closed:
            self._told_at = asyncio.get_running_loop().time()
            self._tell(held)
