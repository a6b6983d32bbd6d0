"""The pages over the chat: what opens each, one at a time, and what comes back from it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from mcphost.tui.input_guard import Hearing
from mcphost.tui.messages import PictureWanted, QrWanted, ServerChosen, TextWanted
from mcphost.tui.screens.chat import Chat

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.tui.image_cache import Gallery


class Pages(Hearing):
    """An app whose actions open pages over its chat; a page is loaded when it is first needed."""

    chat: Chat
    _host: "Host | None" = None
    _gallery: "Gallery | None" = None

    @property
    def host(self) -> "Host":
        """The host; not before it is attached."""
        if self._host is None:
            raise RuntimeError("No host is attached yet.")
        return self._host

    def _open(self, screen: Screen[Any], done: Callable[[Any], None] | None = None) -> None:
        # One page at a time over the chat: F3 in F4 replaces it.
        while len(self.screen_stack) > 1 and not self.screen.is_modal:
            self.pop_screen()
        self.push_screen(screen, done)

    def action_help(self) -> None:
        """F1."""
        from mcphost.tui.screens.help import Help

        self._open(Help())

    def action_servers(self) -> None:
        """F3."""
        self._open_servers("")

    def _open_servers(self, name: str) -> None:
        from mcphost.tui.screens.servers import Servers

        self._open(Servers(self.host, name))

    def on_server_chosen(self, message: ServerChosen) -> None:
        """A click on a server."""
        message.stop()
        self._open_servers(message.server)

    def on_text_wanted(self, message: TextWanted) -> None:
        """Open a whole text."""
        message.stop()
        from mcphost.tui.screens.viewer import Viewer

        whole = partial(self.host.results.whole, message.kept) if message.kept else None
        self.push_screen(Viewer(message.title, message.text, message.seen, whole, message.sections))

    def on_picture_wanted(self, message: PictureWanted) -> None:
        """Decode a picture, never here."""
        message.stop()
        if self._gallery is None:
            from mcphost.tui.image_cache import Gallery

            self._gallery = Gallery()
        self.run_worker(partial(self._decode, self._gallery, message), group="pictures")

    async def _decode(self, gallery: "Gallery", message: PictureWanted) -> None:
        message.answered(await gallery.draw(message.data, message.width, message.height))

    async def on_unmount(self) -> None:
        """Nothing is left of what decoded pictures."""
        if self._gallery is not None:
            await self._gallery.close()

    def on_qr_wanted(self, message: QrWanted) -> None:
        """Open a QR code."""
        message.stop()
        from mcphost.tui.screens.qr_screen import QrPage

        self.push_screen(QrPage(message.title, message.text))

    def action_resources(self) -> None:
        """F4."""
        from mcphost.tui.screens.resources import Resources

        def attach(chosen: tuple[str, str] | None) -> None:
            if chosen is not None:
                self.chat.attach(*chosen)

        self._open(Resources(self.host), attach)

    def action_prompts(self) -> None:
        """F5."""
        from mcphost.tui.screens.prompts import Prompts

        def fill(chosen: Any) -> None:
            if chosen is not None:
                self.chat.fill_prompt(*chosen)

        self._open(Prompts(self.host), fill)

    def action_history(self) -> None:
        """F6."""
        from mcphost.tui.screens.history import History

        def open_(ident: str | None) -> None:
            if ident is not None:
                self.run_worker(partial(self._open_conversation, ident), group="history")

        self._open(History(self.host), open_)

    def action_grants(self) -> None:
        """F7."""
        from mcphost.tui.screens.grants import Grants

        self._open(Grants(self.host), lambda _: None)

    def action_accounts(self) -> None:
        """F12."""
        from mcphost.tui.screens.accounts import Accounts

        self._open(Accounts(self.host))

    def action_folders(self) -> None:
        """Ctrl+O."""
        from mcphost.tui.screens.folders import FoldersPage

        self._open(FoldersPage(self.host))

    def action_audit(self) -> None:
        """F10."""
        from mcphost.tui.screens.audit import Audit

        self._open(Audit(self.host))

    async def _open_conversation(self, ident: str) -> None:
        from mcphost.errors import McpHostError

        try:
            await self.host.open_conversation(ident)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
