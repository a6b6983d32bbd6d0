"""McpHostApp: the screens, the theme, the pump from the host's feed to them, and the stage for dialogs."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual import events as ui
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

from mcphost.host.events import CatalogChanged, ResourceChanged, ServerState
from mcphost.host.questions import Question
from mcphost.tui import themes
from mcphost.tui.front import TuiFront
from mcphost.tui.keys import ACTIONS
from mcphost.tui.messages import ActionWanted, CopyWanted, ServerChosen, TextWanted
from mcphost.tui.screens.chat import Chat
from mcphost.tui.terminal import SteadyDriver
from mcphost.tui.widgets.net import Net

if TYPE_CHECKING:
    from textual.command import Provider

    from mcphost.host.feed import Feed
    from mcphost.host.host import Host
    from mcphost.tui.dialogs.dialog import AnyDialog


@runtime_checkable
class Live(Protocol):
    """A page that follows what the servers do."""

    def server_changed(self) -> None:
        """A server's state or offers are new."""

    def resource_changed(self, server: str, uri: str) -> None:
        """A watched resource is not what it was."""


_TWICE = 2.0
_BURST = 64
_QUIT_KEYS = {"ctrl+q", "ctrl+c"}


def _commands() -> "type[Provider]":
    from mcphost.tui.commands import Commands

    return Commands


class McpHostApp(App[None]):
    """The terminal UI of one Host. `front` must be the front that the Host asks."""

    TITLE = "mcphost"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {_commands}  # noqa: RUF012 - Textual's own declaration
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(action.keys, action.name, action.label, show=False, priority=action.priority)
            for action in ACTIONS
            if action.name != "palette"
        ),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]
    CSS = """
    Toast { background: $panel; padding: 0 1; }
    CommandPalette SearchIcon { display: none; }
    """

    def __init__(
        self, host: "Host", front: TuiFront, *, theme: str = "", greeting: str = "", demo: bool = False
    ) -> None:
        super().__init__()
        self.host = host
        self.front = front
        self.chat = Chat(host, greeting=greeting, demo=demo)
        # Motion says nothing here, and every frame of it costs.
        self.animation_level = "none"
        self._filters.append(Net())
        self._use_theme(theme or themes.DEFAULT)
        self._feed: Feed | None = None
        self._begun = False
        self._deferred: list[Callable[[], None]] = []
        self._interrupted = 0.0

    def get_driver_class(self) -> type[Driver]:
        """Textual's choice; where that is a plain terminal, one that may get lost."""
        chosen = super().get_driver_class()
        return SteadyDriver if chosen is LinuxDriver else chosen

    def get_default_screen(self) -> Screen[Any]:
        """The chat."""
        return self.chat

    def _use_theme(self, name: str) -> None:
        if name not in self.available_themes:
            self.register_theme(themes.load(name if name in themes.names() else themes.DEFAULT))
        self.theme = name if name in self.available_themes else themes.DEFAULT

    # -- life

    def on_mount(self) -> None:
        """Paint first, start servers and model afterwards."""
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._feed = self.host.events()
        self.run_worker(self._pump(self._feed), name="pump", group="pump")
        self.host.start()
        self._begun = True
        self.chat.begin()
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call()
        self.run_worker(_warm_up, thread=True, group="warm-up")

    async def _pump(self, feed: "Feed") -> None:
        """Every event to the chat; a burst never keeps keys from being handled."""
        count = 0
        async for event in feed:
            self.chat.handle(event)
            if isinstance(event, ServerState | CatalogChanged) and isinstance(self.screen, Live):
                self.screen.server_changed()
            elif isinstance(event, ResourceChanged) and isinstance(self.screen, Live):
                self.screen.resource_changed(event.server, event.uri)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    def request_quit(self) -> None:
        """End the app like the quit key; on the event loop, a signal handler of it included; more than once is fine."""
        self.front.close()
        if self.is_running:
            self.exit()

    async def action_quit(self) -> None:
        """Quit."""
        self.request_quit()

    def action_interrupt(self) -> None:
        """Copy what is selected; otherwise quit when pressed twice."""
        text = getattr(self.focused, "selected_text", "") or self.screen.get_selected_text()
        if text:
            self.copy_to_clipboard(text)
            return
        now = monotonic()
        if now - self._interrupted < _TWICE:
            self.request_quit()
            return
        self._interrupted = now
        self.notify("Press ctrl+c again to quit.", markup=False, timeout=_TWICE)

    # -- the stage of TuiFront

    def open_dialog(self, dialog: "AnyDialog", answered: Callable[[Any], None]) -> None:
        """Show a dialog over everything; before the first paint it waits."""

        def show() -> None:
            self.push_screen(dialog, answered)

        self._when_begun(show)

    def close_dialog(self, dialog: "AnyDialog") -> None:
        """Take a dialog away, wherever it is in the stack."""
        self._when_begun(lambda: self._remove(dialog))

    def _remove(self, dialog: "AnyDialog") -> None:
        if dialog.is_current:
            dialog.dismiss(None)
        elif dialog in self.screen_stack:
            self.run_worker(self._dig_out(dialog), group="dig")

    async def _dig_out(self, dialog: "AnyDialog") -> None:
        while dialog in self.screen_stack and not dialog.is_current:
            await self.pop_screen()
        if dialog.is_current:
            dialog.dismiss(None)

    def questions_changed(self, waiting: tuple[Question[Any], ...]) -> None:
        """Tell the chat who waits."""
        self._when_begun(lambda: self.chat.show_waiting(waiting))

    def _when_begun(self, call: Callable[[], None]) -> None:
        if self._begun:
            # The host's tasks call this; Textual's work belongs into Textual's own task.
            self.call_later(call)
        else:
            self._deferred.append(call)

    async def on_event(self, event: ui.Event) -> None:
        """Keys and clicks do not reach a question before it was on the screen for a moment."""
        if (
            isinstance(event, ui.Key | ui.Paste | ui.MouseDown | ui.MouseUp)
            and not event.is_forwarded
            and len(self._screen_stack) > 0
            and getattr(self.screen, "is_deaf", False)
            and not (isinstance(event, ui.Key) and event.key in _QUIT_KEYS)
        ):
            return
        await super().on_event(event)

    # -- actions of the table in keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Under a dialog nothing but quitting works."""
        del parameters
        names = {item.name for item in ACTIONS} - {"quit", "stop"} | {"command_palette"}
        return not (action in names and self._screen_stack and self.screen.is_modal)

    def on_action_wanted(self, message: ActionWanted) -> None:
        """A click or a slash command: the same as the key."""
        message.stop()
        if message.action:
            self.call_later(self._run, message.action)

    async def _run(self, action: str) -> None:
        await self.run_action(action)

    def _open(self, screen: Screen[Any], done: Callable[[Any], None] | None = None) -> None:
        # One page at a time over the chat: F3 in F4 replaces it.
        while len(self.screen_stack) > 1 and not self.screen.is_modal:
            self.pop_screen()
        self.push_screen(screen, done)

    def action_palette(self) -> None:
        """Open the palette."""
        self.action_command_palette()

    def action_pass(self) -> None:
        """A key that does nothing."""

    def action_help(self) -> None:
        """F1."""
        from mcphost.tui.screens.help import Help

        self._open(Help())

    def action_toggle_servers(self) -> None:
        """F2."""
        self.chat.toggle_sidebar()

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

    def on_copy_wanted(self, message: CopyWanted) -> None:
        """Put it into the clipboard."""
        message.stop()
        self.copy_to_clipboard(message.text)
        self.notify("Copied.", markup=False, timeout=2)

    def on_text_wanted(self, message: TextWanted) -> None:
        """Open a whole text."""
        message.stop()
        from mcphost.tui.screens.viewer import Viewer

        self.push_screen(Viewer(message.title, message.text))

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
                self.run_worker(self._open_conversation(ident), group="history")

        self._open(History(self.host), open_)

    async def _open_conversation(self, ident: str) -> None:
        from mcphost.errors import McpHostError

        try:
            await self.host.open_conversation(ident)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_new(self) -> None:
        """A fresh conversation."""
        from mcphost.errors import McpHostError

        try:
            self.host.new_conversation()
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self.chat.load()
        self.chat.refresh_status()

    def action_stop(self) -> None:
        """Stop the turn; outside a turn, back to the composer."""
        if self.host.stop() or self.chat.stop_by_hand():
            self.notify("Stopping…", markup=False, timeout=2)
        elif self.screen is self.chat:
            self.chat.query_one("#prompt").focus()

    def action_focus_transcript(self) -> None:
        """Keys go to the conversation."""
        self.chat.query_one("#transcript").focus()

    def action_copy_last(self) -> None:
        """The last answer to the clipboard."""
        text = self.chat.talk.last_answer()
        if text:
            self.copy_to_clipboard(text)
        self.notify("Copied." if text else "There is no answer yet.", markup=False, timeout=2)

    def action_theme(self) -> None:
        """The next theme."""
        names = themes.names()
        place = names.index(self.theme) if self.theme in names else -1
        self._use_theme(names[(place + 1) % len(names)])


def _warm_up() -> None:
    """Load what the first answer needs, off the path of keys."""
    from mcphost.tui.widgets.markdown import warm_up

    warm_up()
