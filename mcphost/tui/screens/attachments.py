"""Attachments of the next message: read in the background, listed above the composer, and sent with the message."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.host import Host
    from mcphost.llm.messages import ResourcePart
    from mcphost.tui.transcript.presenter import TranscriptPresenter


class Attachments:
    """The attachments of the next message, oldest first; what they are read from is a worker of the chat screen."""

    _host: "Host"
    _presenter: "TranscriptPresenter"

    def __init__(self, screen: "Screen[None]") -> None:
        self._screen = screen
        self.parts: list[ResourcePart] = []

    def connect(self, host: "Host", presenter: "TranscriptPresenter") -> None:
        """Set the host that resources are read from, and where errors are shown. Needed before `add_resource`."""
        self._host, self._presenter = host, presenter

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, *parts: "ResourcePart") -> None:
        """Attach *parts* to the next message."""
        self.parts.extend(parts)
        self._show()

    def take_all(self) -> "tuple[ResourcePart, ...]":
        """Remove and return all attachments."""
        taken, self.parts = tuple(self.parts), []
        self._show()
        return taken

    def remove_last(self) -> None:
        """Remove the most recently added attachment, if there is one."""
        if self.parts:
            self.parts.pop()
            self._show()

    def add_resource(self, server: str, uri: str) -> None:
        """In the background, read a resource from a server, and attach its contents."""
        self._screen.run_worker(partial(self._read_resource, server, uri), group="attach")

    async def _read_resource(self, server: str, uri: str) -> None:
        from mcphost.llm.messages import ResourcePart

        try:
            result = await self._host.features.read_resource(server, uri)
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)
            return
        self.add(*(
            ResourcePart(
                server,
                entry.uri,
                entry.text if entry.text is not None else f"[{entry.mime_type or 'binary'}, not text]",
                entry.mime_type or "",
            )
            for entry in result.contents
        ))  # fmt: skip

    def _show(self) -> None:
        names: Iterable[str] = (f"{part.server} · {part.uri}  ({len(part.text):,} characters)" for part in self.parts)
        self._screen.query_one(Composer).show_attachments(tuple(names))
