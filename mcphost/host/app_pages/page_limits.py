"""Limits on concurrent requests from pages to servers: for each page, each server, and all calls together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from mcphost.host.tools.call_scheduler import CallScheduler

MAX_PAGE_REQUESTS = 4
"""Maximum number of requests that are sent at the same time for one page."""
MAX_SERVER_REQUESTS = 6
"""Maximum number of requests that are sent to one server at the same time for all of its pages."""


class PageLimit:
    """The limits of one page, which it shares with other pages of its server and with other calls."""

    def __init__(self, server: anyio.CapacityLimiter, scheduler: CallScheduler) -> None:
        self._page = anyio.CapacityLimiter(MAX_PAGE_REQUESTS)
        self._server = server
        self._scheduler = scheduler

    @asynccontextmanager
    async def read_slot(self) -> AsyncGenerator[None]:
        """Wait until another request may be sent to the server; the request counts as running inside the block."""
        async with self._page, self._server:
            yield

    @asynccontextmanager
    async def call_slot(self) -> AsyncGenerator[None]:
        """Wait until another tool call may run; it counts, like a call by the model, inside the block."""
        async with self.read_slot(), self._scheduler.shared_slot():
            yield


class PageLimits:
    """The limits of all pages."""

    def __init__(self, scheduler: CallScheduler) -> None:
        self._scheduler = scheduler
        self._servers: dict[str, anyio.CapacityLimiter] = {}

    def for_page(self, server: str) -> PageLimit:
        """Return the limits of a new page of *server*."""
        limiter = self._servers.get(server)
        if limiter is None:
            limiter = self._servers[server] = anyio.CapacityLimiter(MAX_SERVER_REQUESTS)
        return PageLimit(limiter, self._scheduler)
