"""Events that `mcphost pipe` holds back while the other program reads its output too slowly."""

from mcphost.host.events import AnyEvent, CatalogChanged, ResourceChanged, ServerLog, ToolProgress

MAX_HELD_BACK = 1_000


class HeldBackEvents:
    """Events of servers that are counted or merged instead of written, because servers can send any number of them."""

    def __init__(self) -> None:
        self._dropped = 0
        self._catalogs: dict[str, CatalogChanged] = {}
        self._resources: dict[tuple[str, str], ResourceChanged] = {}

    def __bool__(self) -> bool:
        """Return whether `take` would return anything."""
        return bool(self._dropped or self._catalogs or self._resources)

    def add(self, event: AnyEvent) -> bool:
        """Hold the event back; return False if it must be written.

        Log and progress events are only counted. One event is kept for each server whose tools change, without the
        names of tools, and for each resource that changes, up to `MAX_HELD_BACK`; further ones are counted.
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
        """Return the number of events that were only counted, and the kept events, and forget both."""
        dropped, kept = self._dropped, (*self._catalogs.values(), *self._resources.values())
        self._dropped = 0
        self._catalogs.clear()
        self._resources.clear()
        return dropped, kept
