"""Changes a server announced, folded: a flood of the same notice is one notice until somebody reads it."""

from collections.abc import Callable

from mcphost.client.session import Watch
from mcphost.protocol.notifications import (
    Notice,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcphost.transport.wakeup import Waited

URI_LIMIT = 10_000


def covers(uris: tuple[str, ...], uri: str) -> bool:
    """Whether `uri` is one of them, or something below one: a server may tell which part of it changed."""
    return uri in uris or any(uri.startswith(one) and (one[-1:] in "/#?" or uri[len(one)] in "/#?") for one in uris)


class Changes(Waited):
    """A set of unread changes with one reader; iterating ends when it is closed and read.

    `hear` gets every change at once, wanted or not.
    """

    def __init__(self, hear: Callable[[Notice], None] | None = None) -> None:
        super().__init__()
        self._hear = hear
        self._unread: dict[str, Notice] = {}
        self._closed = False
        self.want = Watch(tools=True, prompts=True, resources=True)

    def put(self, notice: Notice, *, always: bool = False) -> bool:
        """Take a change; False when it is none, or nobody wants to hear of it. `always` asks nobody."""
        if self._hear is not None:
            self._hear(notice)
        match notice:
            case ToolsListChanged():
                wanted = self.want.tools
            case PromptsListChanged():
                wanted = self.want.prompts
            case ResourcesListChanged():
                wanted = self.want.resources
            case ResourceUpdated():
                wanted = covers(self.want.uris, notice.uri)
            case _:
                return False
        wanted = wanted or always
        if wanted and len(self._unread) < URI_LIMIT:
            key = notice.METHOD + (notice.uri if isinstance(notice, ResourceUpdated) else "")
            self._unread[key] = notice
            self._wake()
        return wanted

    def close(self) -> None:
        """Nothing more will come."""
        self._closed = True
        self._wake()

    def __aiter__(self) -> "Changes":
        return self

    async def __anext__(self) -> Notice:
        while not self._unread:
            if self._closed:
                raise StopAsyncIteration
            await self._woken()
        return self._unread.pop(next(iter(self._unread)))
