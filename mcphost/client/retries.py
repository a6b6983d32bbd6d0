"""Retry of requests to a busy server, and of lists after transient failures.

Nothing else is retried: a tool call may already have had its effect.
"""

import math
from collections.abc import Callable

import anyio

from mcphost.client.session import NotificationFn
from mcphost.errors import RequestNotSent, ServerError
from mcphost.protocol.notifications import ProgressNotification
from mcphost.transport.channel import HttpStatusError, ResponseInterrupted, SessionExpired

MAX_TRIES = 3
MAX_TOTAL_WAIT = 60.0
MIN_WAIT = 1.0
FIRST_DELAY = 0.5
_LIST_METHODS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_BUSY_STATUSES = frozenset({429, 503})
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class RetryPolicy:
    """The retries of one request; *warn* receives a delay once, *on_notification* its countdown."""

    def __init__(
        self, server: str, method: str, warn: Callable[[str], None], on_notification: NotificationFn | None
    ) -> None:
        self._server = server
        self._method = method
        self._warn = warn
        self._on_notification = on_notification
        self._waited_seconds = 0.0
        self._try_count = 1

    async def wait_before_retry(self, error: ServerError) -> None:
        """Wait until the request may be sent again; raise *error* if it may not. May be cancelled.

        All delays for a busy server together take at most MAX_TOTAL_WAIT seconds.
        """
        if isinstance(error, HttpStatusError) and error.status in _BUSY_STATUSES and error.retry_after is not None:
            wait = max(error.retry_after, MIN_WAIT)
            if self._waited_seconds + wait > MAX_TOTAL_WAIT:
                error.hint = f"Try again in {wait:.0f} s."
                raise error
            self._waited_seconds += wait
            await self._wait_with_progress(wait, error.status)
            return
        is_transient = isinstance(error, HttpStatusError) and error.status in _TRANSIENT_STATUSES
        is_interrupted = isinstance(error, ResponseInterrupted | RequestNotSent) and not isinstance(
            error, SessionExpired
        )
        if self._method not in _LIST_METHODS or not (is_transient or is_interrupted) or self._try_count >= MAX_TRIES:
            raise error
        await anyio.sleep(FIRST_DELAY * 2 ** (self._try_count - 1))
        self._try_count += 1

    async def _wait_with_progress(self, wait: float, status: int) -> None:
        self._warn(
            f"The server {self._server!r} is busy (HTTP {status}); {self._method} is sent again in {wait:.0f} s."
        )
        until = anyio.current_time() + wait
        while (left := until - anyio.current_time()) > 0:
            if self._on_notification is not None:
                text = f"The server is busy (HTTP {status}); asking again in {math.ceil(left)} s."
                self._on_notification(
                    ProgressNotification(progress_token="", progress=wait - left, total=wait, message=text)
                )
            await anyio.sleep(min(1.0, left))
