"""Browse resources by server, look inside, attach one to the message."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from mcphost.errors import McpHostError
from mcphost.host.results.icon_policy import allowed
from mcphost.host.results.presentation import render_contents
from mcphost.llm.messages import ImagePart
from mcphost.protocol.base import Annotations
from mcphost.protocol.resources import ReadResult, Resource, ResourceTemplate
from mcphost.tui.screen_text import clean
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.picture import recognized
from mcphost.tui.widgets.picture_view import PictureView

if TYPE_CHECKING:
    from mcphost.host.host import Host

BIG = 1_000_000
"""Bytes from which a resource is not read only because the cursor is on it."""


def text_of(result: ReadResult) -> str:
    """What a resource holds, as text; binary parts are named with their size."""
    parts: list[str] = []
    for entry in result.contents:
        head = f"── {entry.uri}\n" if len(result.contents) > 1 else ""
        if entry.text is not None:
            parts.append(head + pretty(entry.text, entry.mime_type or ""))
        elif entry.blob is not None:
            parts.append(render_contents(entry))
    return "\n\n".join(parts) or "[empty]"


def pretty(text: str, mime_type: str) -> str:
    """JSON indented when it says it is JSON and is not too big."""
    if "json" in mime_type and len(text) < 200_000:
        from mcphost.serialization import dumps, loads

        try:
            return dumps(loads(text), indent=2)
        except McpHostError:
            return text
    return text


def is_big(item: Resource) -> bool:
    """Whether reading it should be the user's own wish, going by what the server says of its size."""
    return (item.size or 0) > BIG


def kind_of(item: Resource) -> str:
    """Its type; a folder in words."""
    return "a folder (inode/directory)" if item.mime_type == "inode/directory" else item.mime_type or ""


def hints(item: Resource | ResourceTemplate, server_url: str) -> list[tuple[str, str]]:
    """What the server says about whom it is for, how much it matters, and since when; empty texts are not shown."""
    said = item.annotations or Annotations()
    fetched = sum(not icon.src.lower().startswith("data:") for icon in allowed(item.icons, server_url))
    return [
        ("meant for", ", ".join({"user": "you", "assistant": "the model"}[one] for one in said.audience)),
        ("matters", f"{said.priority:.0%}" if said.priority is not None else ""),
        ("changed", said.last_modified or ""),
        ("icon", f"{fetched}, not fetched" if fetched else ""),
    ]


class Resources(Browser):
    """Every resource the servers list."""

    TITLE_TEXT: ClassVar[str] = "Resources"
    EMPTY: ClassVar[str] = "No server offers resources. They appear here as soon as one does (F3 shows the servers)."
    DEFAULT_CSS = "Resources #picture { max-height: 60%; margin: 0 1 1 1; }"
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", "attach to the message", "screen.attach"),
        ("p", "preview", "screen.preview"),
        ("w", "watch", "screen.watch"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "attach", show=False),
        Binding("p", "preview", show=False),
        Binding("w", "watch", show=False),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._picture = PictureView(rows=30, id="picture")

    def on_mount(self) -> None:
        """A picture stands above the text that names it."""
        self.query_one("#side").mount(self._picture, before="LongText")
        super().on_mount()

    def load(self) -> Sequence[Row]:
        out: list[Row] = []
        for view in self.host.servers():
            watched = set(self.host.features.watched(view.name))
            out.extend(
                Row(
                    (view.name, item),
                    item.title or item.name or item.uri,
                    f"{view.name} · {item.uri}",
                    "◉" if item.uri in watched else "",
                )
                for item in view.catalog.resources
            )
            out.extend(
                Row(
                    (view.name, item),
                    f"{item.title or item.name or item.uri_template}",
                    f"{view.name} · {item.uri_template} (a template)",
                    "◇",
                )
                for item in view.catalog.templates
            )
        return out

    def highlighted(self, row: Row) -> None:
        server, item = row.value
        # What was asked for another entry must not appear under this one.
        self.workers.cancel_group(self, "preview")  # pyright: ignore[reportUnknownMemberType]
        self._picture.take(None)
        self.icon(item.icons)
        if not isinstance(item, Resource):
            known = [("server", server), ("template", item.uri_template), ("about", item.description or "")]
            known += hints(item, self.host.server(server).config.url)
            self.about(facts([*known, ("", "enter asks for the address")]))
            self.query_one(LongText).show("")
            return
        self.about(
            facts(
                [
                    ("server", server),
                    ("address", item.uri),
                    ("name", item.name if item.title else ""),
                    ("type", kind_of(item)),
                    ("size", f"{item.size:,.0f} bytes, about {item.size / 4:,.0f} tokens of text" if item.size else ""),
                    ("about", item.description or ""),
                    ("watched", "yes: you are told when it changes" if self._is_watched(server, item) else ""),
                    *hints(item, self.host.server(server).config.url),
                ]
            )
        )
        if is_big(item):
            self.query_one(LongText).show(f"It is big: {item.size:,.0f} bytes. Read it with p.")
            return
        self.query_one(LongText).show("")
        self._read(server, item)

    def _read(self, server: str, item: Resource) -> None:
        self.run_worker(partial(self._preview, server, item), exclusive=True, group="preview")

    async def _preview(self, server: str, item: Resource) -> None:
        text = self.query_one(LongText)
        text.show("reading…")
        try:
            result = await self.host.read_resource(server, item.uri)
        except McpHostError as error:
            text.show(str(error))
            return
        text.show(text_of(result))
        blobs = (entry.blob for entry in result.contents if entry.blob is not None)
        self._picture.take(next((ImagePart("", blob) for blob in blobs if recognized(ImagePart("", blob))), None))

    def action_preview(self) -> None:
        """Into the preview, to scroll and select; what is big is read now."""
        row = self.current()
        if row is not None and isinstance(row.value[1], Resource) and is_big(row.value[1]):
            self._read(*row.value)
        self.query_one(LongText).focus()

    def _is_watched(self, server: str, item: Resource) -> bool:
        return item.uri in self.host.features.watched(server)

    def action_watch(self) -> None:
        """Be told when the entry under the cursor changes, or not any more."""
        row = self.current()
        if row is not None and isinstance(row.value[1], Resource):
            self.run_worker(partial(self._watch, *row.value), exclusive=True, group="watch")

    async def _watch(self, server: str, item: Resource) -> None:
        features = self.host.features
        try:
            if self._is_watched(server, item):
                await features.unsubscribe(server, item.uri)
            else:
                await features.subscribe(server, item.uri)
        except McpHostError as error:
            self.notify(clean(str(error)), severity="warning", markup=False)
        self.reload()

    def resource_changed(self, server: str, uri: str) -> None:
        """What is previewed is read again when it is the one that changed."""
        row = self.current()
        if row is not None and row.value[0] == server and isinstance(row.value[1], Resource):
            item = row.value[1]
            if uri == item.uri or uri.startswith(item.uri):
                self._read(server, item)

    def action_attach(self) -> None:
        """Attach the entry under the cursor."""
        if row := self.current():
            self.chosen(row)

    def chosen(self, row: Row) -> None:
        server, item = row.value
        if isinstance(item, Resource):
            self.dismiss((server, item.uri))
            return
        from mcphost.tui.screens.template_address import AddressForm

        def given(address: str | None) -> None:
            if address is not None:
                self.dismiss((server, address))

        self.app.push_screen(AddressForm(self.host, server, item), given)  # pyright: ignore[reportUnknownMemberType]
