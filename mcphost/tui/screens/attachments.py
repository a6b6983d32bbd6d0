"""Attachments of the next message: read in the background, and listed above the composer."""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.tui.messages import AttachmentAction
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.conversation.local_files import Attachment
    from mcphost.host.host import Host
    from mcphost.llm.messages import Part
    from mcphost.llm.model import ModelFacts
    from mcphost.tui.transcript.presenter import TranscriptPresenter


class Attachments:
    """Attachments of the next message, oldest first; files and resources are read by background workers."""

    _host: "Host"
    _presenter: "TranscriptPresenter"

    def __init__(self, screen: "Screen[None]") -> None:
        self._screen = screen
        self.parts: list[Part] = []

    def connect(self, host: "Host", presenter: "TranscriptPresenter") -> None:
        """Set the host that reads resources, and the presenter that shows errors; required before reading."""
        self._host, self._presenter = host, presenter

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, *parts: "Part") -> None:
        """Attach *parts* to the next message."""
        self.parts.extend(parts)
        self._show()

    def take_all(self) -> "tuple[Part, ...]":
        """Remove and return all attachments."""
        taken, self.parts = tuple(self.parts), []
        self._show()
        return taken

    def act(self, action: AttachmentAction, index: int) -> None:
        """Open or remove the attachment with this index; do nothing if it has been removed."""
        if not 0 <= index < len(self.parts):
            return
        if action == "remove":
            del self.parts[index]
            self._show()
        elif action == "open":
            from mcphost.tui.screens.attachment_preview import open_preview

            open_preview(self._screen.app, self.parts[index])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def remove(self, *parts: "Part") -> None:
        """Remove the given attachments; ignore any that have already been removed."""
        for part in parts:
            if part in self.parts:
                self.parts.remove(part)
        self._show()

    def add_resource(self, server: str, uri: str) -> None:
        """Read a server's resource in the background, and attach its contents."""
        self._screen.run_worker(partial(self._read_resource, server, uri), group="attach")

    def add_file(self, path: str) -> None:
        """Read a file, a line range such as `PATH:10-40`, or a folder in the background, and attach it."""
        self._screen.run_worker(partial(self._read_file, path), group="attach")

    def check_paths(self, paths: tuple[str, ...], on_found: Callable[[tuple[str, ...]], None]) -> None:
        """Check in the background whether all paths exist; if so, call *on_found* with them."""
        self._screen.run_worker(partial(self._check_paths, paths, on_found), group="attach")

    async def _check_paths(self, paths: tuple[str, ...], on_found: Callable[[tuple[str, ...]], None]) -> None:
        import anyio.to_thread

        def exist() -> bool:
            return all(os.path.exists(os.path.expanduser(path)) for path in paths)

        if await anyio.to_thread.run_sync(exist):
            on_found(paths)

    def add_clipboard_image(self, on_none: Callable[[], None]) -> None:
        """Attach the image in the system clipboard in the background; call *on_none* if there is none."""
        self._screen.run_worker(partial(self._read_clipboard, on_none), group="attach")

    async def _read_clipboard(self, on_none: Callable[[], None]) -> None:
        from mcphost.host.conversation.clipboard_image import read_clipboard_image
        from mcphost.host.conversation.local_files import Attachment, make_binary_part
        from mcphost.sandbox.image_formats import identify_image

        body = await read_clipboard_image(os.environ)
        image = identify_image(body)
        if image is None:
            on_none()
            return
        try:
            part = make_binary_part("clipboard image", image.mime_type, body, self._model_facts)
            pasted = Attachment(name="clipboard image", part=part)
            self._add_noted(await self._host.attachments.fit(pasted, self._model_facts))
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)

    async def _read_resource(self, server: str, uri: str) -> None:
        from mcphost.host.conversation.resource_attachments import make_resource_attachments

        try:
            result = await self._host.features.read_resource(server, uri)
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)
            return
        read = make_resource_attachments(server, result.contents, self._model_facts)
        self._add_noted(*await self._host.attachments.fit_resources(read, self._model_facts))

    async def _read_file(self, path: str) -> None:
        import anyio.to_thread

        from mcphost.host.conversation.local_files import parse_reference, read_attachment

        def read() -> "Attachment":
            return read_attachment(parse_reference(path), os.getcwd(), facts)

        facts = self._model_facts
        try:
            self._add_noted(await self._host.attachments.fit(await anyio.to_thread.run_sync(read), facts))
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)

    def _add_noted(self, *attachments: "Attachment") -> None:
        self.add(*(one.part for one in attachments))
        for one in attachments:
            if one.note:
                self._screen.notify(f"{clean_line(one.name)}: {clean_line(one.note)}.", markup=False, timeout=8)

    @property
    def _model_facts(self) -> "ModelFacts":
        from mcphost.llm.model import ModelFacts

        model = self._host.model_selection.model
        return ModelFacts() if model is None else model.facts

    def _show(self) -> None:
        from mcphost.tui.widgets.attachment_rows import build_row

        self._screen.query_one(Composer).show_attachments(tuple(build_row(part) for part in self.parts))
