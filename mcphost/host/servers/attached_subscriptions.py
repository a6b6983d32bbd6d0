"""Subscriptions to the attached resources, so that a change on the server marks an attachment as outdated."""

import logging
from collections.abc import Iterable

import anyio

from mcphost.errors import McpHostError
from mcphost.host.servers.servers import Servers

log = logging.getLogger(__name__)

MAX_FOLLOWED = 100
"""Maximum number of attached resources that are subscribed to; of more, the newest are."""


class AttachedSubscriptions:
    """Subscriptions that mcphost makes and ends itself; those that the user made are left alone.

    A subscription that the user ends is not made again while the resource stays attached.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._wanted: dict[tuple[str, str], None] = {}
        self._tried: set[tuple[str, str]] = set()
        self._own: set[tuple[str, str]] = set()
        self._lock = anyio.Lock()

    async def follow(self, resources: Iterable[tuple[str, str]]) -> None:
        """Subscribe to exactly these resources, given by server and URI, oldest first. Never raises an error.

        Servers that cannot notify of changes are skipped; a failed subscription is only logged.
        """
        self._wanted = dict.fromkeys(list(resources)[-MAX_FOLLOWED:])
        async with self._lock:
            self._tried &= self._wanted.keys()
            for key in self._own - self._wanted.keys():
                self._own.discard(key)
                await self._unsubscribe(*key)
            for key in [key for key in self._wanted if key not in self._tried]:
                self._tried.add(key)
                if await self._subscribe(*key):
                    self._own.add(key)

    async def _subscribe(self, server: str, uri: str) -> bool:
        """Subscribe to a resource; return False if it is impossible, or was done by the user."""
        try:
            connection = self._servers.find(server)
            facts = connection.view().facts
            if facts is None or facts.capabilities.resources is None or not facts.capabilities.resources.subscribe:
                return False
            if uri in connection.watched_uris():
                return False
            await (await connection.get_watcher()).watch(uri)
        except McpHostError as error:
            log.info("%s: no subscription to an attached resource: %s", server, error.message)
            return False
        return True

    async def _unsubscribe(self, server: str, uri: str) -> None:
        try:
            await self._servers.find(server).unwatch(uri)
        except McpHostError as error:
            log.info("%s: a subscription to a resource could not be ended: %s", server, error.message)
