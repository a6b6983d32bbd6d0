"""Cache for the lists and resources of one session, and a queue for change notifications.

Results are cached for the time that the server declares (specification 2026-07-28, server/utilities/caching), or until
a notification reports a change. The cache itself sends no requests.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from anyio import current_time as now

from mcphost.client.session import WatchedChanges
from mcphost.protocol.apps import ReadPage
from mcphost.protocol.base import CacheableResult, ClientRequest, Notification
from mcphost.protocol.lifecycle import Discover
from mcphost.protocol.notifications import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.resources import ListResources, ListResourceTemplates, ReadResource, UriIndex
from mcphost.protocol.tools import ListTools
from mcphost.serialization import Struct, field_values
from mcphost.transport.flow_control import WakeupFuture

MAX_UNREAD = 10_000


class ChangeNotifications(WakeupFuture):
    """Queue for change notifications to one consumer, without duplicates.

    Iteration ends when the queue is closed and empty. *on_change* is called with every notification, including those
    that are not queued.
    """

    def __init__(self, on_change: Callable[[Notification], None] | None = None) -> None:
        super().__init__()
        self._on_change = on_change
        self._unread: dict[str, Notification] = {}
        self._closed = False
        self.wanted = WatchedChanges(tools=True, prompts=True, resources=True)

    @property
    def wanted(self) -> WatchedChanges:
        """The kinds of changes whose notifications are queued."""
        return self._wanted

    @wanted.setter
    def wanted(self, wanted: WatchedChanges) -> None:
        self._wanted = wanted
        self._uris = UriIndex(wanted.uris)

    def put(self, notice: Notification, *, is_forced: bool = False) -> bool:
        """Queue *notice* if it reports a wanted change; return whether it reports one.

        If *is_forced* is true, every change counts as wanted. Notifications that report no change, such as log
        messages, are never queued.
        """
        if self._on_change is not None:
            self._on_change(notice)
        match notice:
            case ToolListChangedNotification():
                wanted = self.wanted.tools
            case PromptListChangedNotification():
                wanted = self.wanted.prompts
            case ResourceListChangedNotification():
                wanted = self.wanted.resources
            case ResourceUpdatedNotification():
                wanted = bool(self._uris.find(notice.uri))
            case _:
                return False
        wanted = wanted or is_forced
        if wanted and len(self._unread) < MAX_UNREAD:
            key = notice.METHOD + (notice.uri if isinstance(notice, ResourceUpdatedNotification) else "")
            self._unread[key] = notice
            self._wake()
        return wanted

    def close(self) -> None:
        """Close the queue; the iteration ends after the notifications that are already queued."""
        self._closed = True
        self._wake()

    def __aiter__(self) -> "ChangeNotifications":
        return self

    async def __anext__(self) -> Notification:
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            await self._wait_for_wakeup()
        return self._unread.pop(next(iter(self._unread)))


MAX_ENTRIES = 1_000
MAX_BYTES = 32 * 1024 * 1024
ENTRY_BYTES = 200
"""Estimated memory overhead, in bytes, of each entry on a page."""
CACHEABLE_METHODS = frozenset(
    call.METHOD for call in (Discover, ListTools, ListPrompts, ListResources, ListResourceTemplates, ReadResource)
)
_READS = (ReadResource, ReadPage)
_INVALIDATED_METHODS: dict[str, tuple[str, ...]] = {
    ToolListChangedNotification.METHOD: (ListTools.METHOD,),
    PromptListChangedNotification.METHOD: (ListPrompts.METHOD,),
    ResourceListChangedNotification.METHOD: (ListResources.METHOD, ListResourceTemplates.METHOD),
}


_CacheKey = tuple[ClientRequest[Any], str | None]


class _CacheEntry(Struct, frozen=True):
    result: Any
    expires_at: float
    size: int


def _count_entries(result: Any) -> int:
    """Return the number of entries on a page of a list, or of content items in a resources/read result."""
    return sum(len(cast("tuple[Any, ...]", value)) for value in field_values(result) if isinstance(value, tuple))


def no_credential() -> str:
    """Return "", the credential digest of a session without an access token."""
    return ""


class ResultCache:
    """Cache for at most 1,000 results and 32 MiB; the oldest results are evicted first.

    *credential* returns a digest of the current account's token. A private result is returned only if this digest has
    not changed since the result was stored.
    """

    def __init__(self, credential: Callable[[], str] = no_credential) -> None:
        self._credential = credential
        self._entries: dict[_CacheKey, _CacheEntry] = {}
        self._bytes = 0
        self._generations: Counter[str] = Counter()
        self._reads: dict[str, set[_CacheKey]] = {}
        """The keys of the cached resources, by URI."""
        self._read_uris = UriIndex()

    @property
    def credential(self) -> str:
        """Digest of the current account's token.

        Read it before sending a request, and pass it to `put` afterwards.
        """
        return self._credential()

    def get(self, call: ClientRequest[Any]) -> Any:
        """Return the cached result of *call*, or None if no result is cached or the cached one has expired."""
        for key in self._keys(call):
            entry = self._entries.get(key)
            if entry is not None and now() < entry.expires_at:
                return entry.result
            self._drop(key)
        return None

    def generation(self, method: str) -> int:
        """Return how many times the cached results of *method* have been invalidated.

        Call this before sending a request, and pass the number to `put` afterwards.
        """
        return self._generations[method]

    def put(
        self, call: ClientRequest[Any], result: Any, size: int, generation: int = 0, requester: str | None = None
    ) -> None:
        """Store the *result* of *call*, which takes *size* bytes, if the server declared how long it is valid.

        Before sending the request, the caller must get *generation* from the method `generation` and *requester* from
        the property `credential`. The result is not stored if the cached results of this method have been invalidated
        since then, or if the result is private and the account or its token has changed.
        """
        if (
            not isinstance(result, CacheableResult)
            or call.METHOD not in CACHEABLE_METHODS
            or generation != self._generations[call.METHOD]
        ):
            return
        # An unknown scope is treated as private.
        credential = None if result.cache_scope == "public" else self._credential()
        for key in self._keys(call):
            self._drop(key)
        size += ENTRY_BYTES * _count_entries(result)
        if not (0 < result.ttl_ms < math.inf) or size > MAX_BYTES // 4:
            return
        if credential is not None and requester not in (None, credential):
            return
        self._entries[call, credential] = _CacheEntry(result, now() + result.ttl_ms / 1000, size)
        self._bytes += size
        if isinstance(call, _READS):
            self._reads.setdefault(call.uri, set()).add((call, credential))
            self._read_uris.add(call.uri)
        while self._bytes > MAX_BYTES or len(self._entries) > MAX_ENTRIES:
            self._drop(next(iter(self._entries)))

    def invalidate(self, method: str = "") -> None:
        """Drop the results of *method*, or of all methods if it is ""."""
        self._generations.update([method] if method else CACHEABLE_METHODS)
        for key in [key for key in self._entries if method in ("", key[0].METHOD)]:
            self._drop(key)

    def handle_notification(self, notice: Notification) -> None:
        """Drop the results that a change notification makes stale."""
        if isinstance(notice, ResourceUpdatedNotification):
            self._generations[ReadResource.METHOD] += 1
            for uri in self._read_uris.find(notice.uri):
                for key in tuple(self._reads[uri]):
                    self._drop(key)
        for method in _INVALIDATED_METHODS.get(notice.METHOD, ()):
            self.invalidate(method)

    def _keys(self, call: ClientRequest[Any]) -> tuple[_CacheKey, ...]:
        """Return the cache keys of a request: one for a public result, one for the account's private result."""
        return (call, None), (call, self._credential())

    def _drop(self, key: _CacheKey) -> None:
        kept = self._entries.pop(key, None)
        if kept is None:
            return
        self._bytes -= kept.size
        if isinstance(call := key[0], _READS):
            self._reads[call.uri].discard(key)
            if not self._reads[call.uri]:
                del self._reads[call.uri]
                self._read_uris.discard(call.uri)
