"""Events that `mcphost pipe` holds back while the other program reads its output too slowly."""

from mcphost.host.events import AnyEvent, CatalogChanged, ResourceChanged, ServerLog, ToolProgress

MAX_HELD_BACK = 1_000


class HeldBackEvents:
    """Buffer that counts or merges events, so that its size is limited however many events the servers cause."""

    def __init__(self) -> None:
        self._dropped = 0
        self._catalogs: dict[str, CatalogChanged] = {}
        self._resources: dict[tuple[str, str], ResourceChanged] = {}

    def __bool__(self) -> bool:
        """Return whether `take` would return anything."""
        return bool(self._dropped or self._catalogs or self._resources)

    def add(self, event: AnyEvent) -> bool:
        """Count or buffer the event; return False for any event not listed here, which must be written immediately.

        - Log messages and progress: only counted.
        - CatalogChanged: one event is kept for each server, without the names of the tools.
        - ResourceChanged: one event is kept for each of up to MAX_HELD_BACK resources; events for further resources are
          only counted.
        """
        match event:
            case CatalogChanged():
                self._catalogs[event.server] = CatalogChanged(event.server)
            case ResourceChanged() if len(self._resources) < MAX_HELD_BACK:
                self._resources[event.server, event.uri] = event
            case ServerLog() | ToolProgress() | ResourceChanged():
                self._dropped += 1
            case _:
                return False
        return True

    def take(self) -> tuple[int, tuple[AnyEvent, ...]]:
        """Return the number of events that were dropped, and the events that are buffered; then clear both."""
        dropped, kept = self._dropped, (*self._catalogs.values(), *self._resources.values())
        self._dropped = 0
        self._catalogs.clear()
        self._resources.clear()
        return dropped, kept
