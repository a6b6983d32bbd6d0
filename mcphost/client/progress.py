"""Throttled progress of a call: never decreasing, at most ten updates a second, the last one always sent."""

import asyncio

from mcphost.client.session import NotificationFn
from mcphost.protocol.notifications import ProgressNotification
from mcphost.serialization import replace

MIN_INTERVAL = 0.1


class ProgressThrottle:
    """Passes progress on at a limited rate; `close` sends the pending value.

    The specification requires increasing values (basic/utilities/progress). For any other value the highest one so far
    is kept, so that a progress bar never moves backwards; it is sent only with a new message or total.
    """

    __slots__ = ("_closed", "_last", "_on_notification", "_pending", "_sent_at", "_timer", "dropped_count")

    def __init__(self, on_notification: NotificationFn) -> None:
        self._on_notification = on_notification
        self._last: ProgressNotification | None = None
        self._pending: ProgressNotification | None = None
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.dropped_count = 0

    def put(self, progress: ProgressNotification) -> None:
        """Add a progress notification of the server; return immediately."""
        last = self._last
        if last is not None and progress.progress <= last.progress:
            if (progress.message or last.message) == last.message and progress.total in (None, last.total):
                self.dropped_count += 1
                return
            progress = replace(progress, progress=last.progress, message=progress.message or last.message)
        self._last = progress
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is None and now - self._sent_at >= MIN_INTERVAL:
            self._sent_at = now
            self._on_notification(progress)
            return
        self.dropped_count += self._pending is not None
        self._pending = progress
        if self._timer is None:
            self._timer = loop.call_at(self._sent_at + MIN_INTERVAL, self._flush)

    def close(self) -> None:
        """Send the pending value and ignore all later ones."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pending is not None and not self._closed:
            self._on_notification(self._pending)
            self._pending = None
        self._closed = True

    def _flush(self) -> None:
        self._timer = None
        progress, self._pending = self._pending, None
        if progress is not None and not self._closed:
            self._sent_at = asyncio.get_running_loop().time()
            self._on_notification(progress)
