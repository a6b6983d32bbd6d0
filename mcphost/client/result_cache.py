"""Remembers lists and reads of one session as long as their server said that they stay fresh.

Specification 2026-07-28, server/utilities/caching. Nothing here asks a server by itself.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from anyio import current_time as now

from mcphost.client.change_notifications import covers
from mcphost.protocol.base import Cacheable, Call, Notice
from mcphost.protocol.lifecycle import Discover
from mcphost.protocol.notifications import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.resources import ListResources, ListTemplates, ReadResource
from mcphost.protocol.tools import ListTools
from mcphost.serialization import Data, fields_of

ENTRY_LIMIT = 1_000
BYTE_LIMIT = 32 * 1024 * 1024
ENTRY_BYTES = 200
"""What an entry of a page takes besides its own bytes."""
METHODS = frozenset(
    call.METHOD for call in (Discover, ListTools, ListPrompts, ListResources, ListTemplates, ReadResource)
)
_STALE: dict[str, tuple[str, ...]] = {
    ToolsListChanged.METHOD: (ListTools.METHOD,),
    PromptsListChanged.METHOD: (ListPrompts.METHOD,),
    ResourcesListChanged.METHOD: (ListResources.METHOD, ListTemplates.METHOD),
}


class _Kept(Data, frozen=True):
    result: Any
    until: float
    size: int


def _entries(result: Any) -> int:
    """How many entries a page or a resource has."""
    return sum(len(cast("tuple[Any, ...]", value)) for value in fields_of(result) if isinstance(value, tuple))


def no_credential() -> str:
    """Nobody is signed in, for as long as the session lasts."""
    return ""


class Freshness:
    """Bounded in entries and bytes; the oldest entries give way first.

    `credential` names who asks (a digest, never the secret): a private result is given to nobody else.
    """

    def __init__(self, credential: Callable[[], str] = no_credential) -> None:
        self._credential = credential
        self._kept: dict[tuple[Call[Any], str | None], _Kept] = {}
        self._bytes = 0
        self._stale: Counter[str] = Counter()

    @property
    def credential(self) -> str:
        """Who asks now; to be taken before the server is asked."""
        return self._credential()

    def get(self, call: Call[Any]) -> Any:
        """The remembered result while it is fresh; None otherwise."""
        for key in self._keys(call):
            kept = self._kept.get(key)
            if kept is not None and now() < kept.until:
                return kept.result
            self._drop(key)
        return None

    def mark(self, method: str) -> int:
        """How often results of that method became stale so far; to be taken before the server is asked."""
        return self._stale[method]

    def put(self, call: Call[Any], result: Any, size: int, mark: int = 0, asker: str | None = None) -> None:
        """Remember a complete result of `size` bytes, when its server gave it time to live.

        Not one that was on its way while its like became stale: nobody knows whether it is from before or after that.
        Nor a private one that was on its way while `asker` became another: nobody knows whose it is.
        """
        if not isinstance(result, Cacheable) or call.METHOD not in METHODS or mark != self._stale[call.METHOD]:
            return
        # A scope we do not know is as good as private.
        credential = None if result.cache_scope == "public" else self._credential()
        for key in self._keys(call):
            self._drop(key)
        size += ENTRY_BYTES * _entries(result)
        if not (0 < result.ttl_ms < math.inf) or size > BYTE_LIMIT // 4:
            return
        if credential is not None and asker not in (None, credential):
            return
        self._kept[call, credential] = _Kept(result, now() + result.ttl_ms / 1000, size)
        self._bytes += size
        while self._bytes > BYTE_LIMIT or len(self._kept) > ENTRY_LIMIT:
            self._drop(next(iter(self._kept)))

    def forget(self, method: str = "") -> None:
        """Results of that method are stale; all of them without one."""
        self._stale.update([method] if method else METHODS)
        for key in [key for key in self._kept if method in ("", key[0].METHOD)]:
            self._drop(key)

    def heard(self, notice: Notice) -> None:
        """A change that the server announced makes stale what it is about."""
        if isinstance(notice, ResourceUpdated):
            self._stale[ReadResource.METHOD] += 1
            for key in [key for key in self._kept if isinstance(key[0], ReadResource)]:
                if covers((cast("ReadResource", key[0]).uri,), notice.uri):
                    self._drop(key)
        for method in _STALE.get(notice.METHOD, ()):
            self.forget(method)

    def _keys(self, call: Call[Any]) -> tuple[tuple[Call[Any], str | None], ...]:
        """Where a result for whoever asks now may be; None stands for everybody, "" for nobody who signed in."""
        return (call, None), (call, self._credential())

    def _drop(self, key: tuple[Call[Any], str | None]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size
