"""Change notifications of a server, with duplicates merged until they are read."""

from collections.abc import Callable

from mcphost.client.session import WatchedChanges
from mcphost.protocol.notifications import (
    Notification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcphost.transport.bounded_queue import WakeupFuture

MAX_UNREAD = 10_000


def matches_any(uris: tuple[str, ...], uri: str) -> bool:
    """Return whether *uri* equals one of *uris* or lies below one of them."""
    return uri in uris or any(
        uri.startswith(prefix) and (prefix[-1:] in "/#?" or uri[len(prefix)] in "/#?") for prefix in uris
    )


class ChangeNotifications(WakeupFuture):
    """A set of unread changes with one reader; iteration ends once it is closed and empty.

    *on_change* receives every change immediately, wanted or not.
    """

    def __init__(self, on_change: Callable[[Notification], None] | None = None) -> None:
        super().__init__()
        self._on_change = on_change
        self._unread: dict[str, Notification] = {}
        self._closed = False
        self.wanted = WatchedChanges(tools=True, prompts=True, resources=True)

    def put(self, notice: Notification, *, is_forced: bool = False) -> bool:
        """Add a change and return whether it was wanted.

        Return False for other notifications. *is_forced* adds the change even if it is not wanted.
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
                wanted = matches_any(self.wanted.uris, notice.uri)
            case _:
                return False
        wanted = wanted or is_forced
        if wanted and len(self._unread) < MAX_UNREAD:
            key = notice.METHOD + (notice.uri if isinstance(notice, ResourceUpdatedNotification) else "")
            self._unread[key] = notice
            self._wake()
        return wanted

    def close(self) -> None:
        """End the iteration after the unread changes."""
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
