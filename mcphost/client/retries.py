"""When a request is sent again: after the time a busy server asks for, and lists after a passing failure.

Nothing else is repeated: what a tool did is not undone by asking twice.
"""

import math
from collections.abc import Callable

import anyio

from mcphost.client.session import NoticeFn
from mcphost.errors import NotSent, ServerError
from mcphost.protocol.notifications import Progress
from mcphost.transport.channel import HttpStatus, Interrupted, SessionExpired

TRIES = 3
LONGEST_WAIT = 60.0
SHORTEST_WAIT = 1.0
FIRST_PAUSE = 0.5
_LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
_BUSY = frozenset({429, 503})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Retries:
    """What one request may still try. `tell` hears of a wait once, `on_notice` its countdown as progress."""

    def __init__(self, server: str, method: str, tell: Callable[[str], None], on_notice: NoticeFn | None) -> None:
        self._server = server
        self._method = method
        self._tell = tell
        self._on_notice = on_notice
        self._waited = 0.0
        self._tries = 1

    async def pause(self, error: ServerError) -> None:
        """Wait until the request may be sent again; cancel to give up. Raises `error` when it may not be sent again.

        All waiting for a busy server together takes at most LONGEST_WAIT seconds.
        """
        if isinstance(error, HttpStatus) and error.status in _BUSY and error.retry_after is not None:
            wait = max(error.retry_after, SHORTEST_WAIT)
            if self._waited + wait > LONGEST_WAIT:
                error.hint = f"It asks to wait {wait:.0f} s. Try again then."
                raise error
            self._waited += wait
            await self._count_down(wait, error.status)
            return
        passing = isinstance(error, HttpStatus) and error.status in _PASSING
        broken = isinstance(error, Interrupted | NotSent) and not isinstance(error, SessionExpired)
        if self._method not in _LISTS or not (passing or broken) or self._tries >= TRIES:
            raise error
        await anyio.sleep(FIRST_PAUSE * 2 ** (self._tries - 1))
        self._tries += 1

    async def _count_down(self, wait: float, status: int) -> None:
        self._tell(
            f"The server {self._server!r} is busy (HTTP {status}); {self._method} is sent again in {wait:.0f} s."
        )
        until = anyio.current_time() + wait
        while (left := until - anyio.current_time()) > 0:
            if self._on_notice is not None:
                text = f"The server is busy (HTTP {status}); asking again in {math.ceil(left)} s."
                self._on_notice(Progress(progress_token="", progress=wait - left, total=wait, message=text))
            await anyio.sleep(min(1.0, left))
