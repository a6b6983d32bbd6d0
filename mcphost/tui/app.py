"""McpHostApp: the chat, the theme, the pump from the host's feed to them, and the stage for dialogs."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast, runtime_checkable

from textual.actions import parse as parse_action
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.notifications import SeverityLevel
from textual.screen import Screen

from mcphost.errors import McpHostError
from mcphost.tui import themes
from mcphost.tui.keymap import ACTIONS
from mcphost.tui.messages import ActionWanted, CheckWanted, CopyWanted, EditorWanted, RuleWanted
from mcphost.tui.question_stage import QuestionStage
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.chat import Chat
from mcphost.tui.terminal_driver import SteadyDriver
from mcphost.tui.widgets.output_filter import Net

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.command import Provider

    from mcphost.host.event_queue import Feed
    from mcphost.host.events import SigningIn
    from mcphost.host.host import Host
    from mcphost.tui.file_diff import FileWanted
    from mcphost.tui.frontend import TuiFront


@runtime_checkable
class Live(Protocol):
    """A page that follows what the servers do."""

    def server_changed(self) -> None:
        """A server's state or offers are new."""

    def resource_changed(self, server: str, uri: str) -> None:
        """A watched resource is not what it was."""


@runtime_checkable
class Waiting(Protocol):
    """A question that shows what is waited for while it is open."""

    def signing_in(self, event: "SigningIn") -> None:
        """Where the sign-in is."""


_TWICE = 2.0
_BURST = 64
_NEED_NO_HOST = {"quit", "toggle_servers", "theme", "focus_transcript", "help"}
"""The actions of the table that work before there is a host."""


def _commands() -> "type[Provider]":
    from mcphost.tui.command_palette import Commands

    return Commands


class McpHostApp(QuestionStage):
    """The terminal UI of one Host, which may be attached after the first frame.

    Until then text goes into the composer; messages and actions that need the host are carried out once it is there.
    """

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
    Input.-textual-compact { padding: 0 1; }
    Input.-textual-compact:focus { background-tint: transparent; }
    #box Input.-textual-compact:focus { background: $background; }
    """

    def __init__(
        self,
        host: "Host | None" = None,
        front: "TuiFront | None" = None,
        *,
        theme: str = "",
        greeting: str = "",
        demo: bool = False,
    ) -> None:
        super().__init__()
        self._host = host
        self._front = front
        self.painted = asyncio.Event()
        """Set after the first frame."""
        self._quits = False
        self.chat = Chat(greeting=greeting, demo=demo)
        # Motion says nothing here, and every frame of it costs.
        self.animation_level = "none"
        self._filters.append(Net())
        self._use_theme(theme or themes.DEFAULT)
        self._feed: Feed | None = None
        self._begun = False
        self._deferred: list[Callable[[], None]] = []
        self._noticed: dict[tuple[str, str, str], float] = {}
        self._interrupted = 0.0
        self.is_away = False
        """Whether the user's editor has the terminal, and with it ctrl+c."""

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
        cast("Any", self).screen_change_signal.subscribe(self, self._screen_changed)
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        self.painted.set()
        if self._quits:
            self.exit()
        elif self._host is not None:
            self._begin()

    @property
    def is_attached(self) -> bool:
        """Whether there is a host."""
        return self._host is not None

    def attach(self, host: "Host", front: "TuiFront") -> None:
        """Show this host from now on. `front` must be the front that it asks. Call it once, after the first frame."""
        self._host, self._front = host, front
        if host.config.theme:
            self._use_theme(host.config.theme)
        front.bind(self)
        self.call_later(self._begin)  # in the app's own task

    def _screen_changed(self, _: object) -> None:
        self.show_cards()

    def _begin(self) -> None:
        self._feed = self.host.events()
        self.run_worker(partial(self._pump, self._feed), name="pump", group="pump")
        self.host.start()
        self._begun = True
        self.chat.begin(self.host)
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call()

    async def _pump(self, feed: "Feed") -> None:
        """Every event to the chat; a burst never keeps keys from being handled."""
        from mcphost.host import events

        of_servers = (
            events.ServerState,
            events.CatalogChanged,
            events.RootsChanged,
            events.RootsTold,
            events.SigningIn,
            events.ToolSwitched,
        )
        count = 0
        async for event in feed:
            self.chat.handle(event)
            if isinstance(event, events.CallOver):
                self.front.call_over(event.server, event.number)
            elif isinstance(event, events.SigningIn):
                for dialog in self.open_questions:
                    if isinstance(dialog, Waiting):
                        dialog.signing_in(event)
            if isinstance(event, of_servers) and (page := self._live):
                page.server_changed()
            elif isinstance(event, events.ResourceChanged) and (page := self._live):
                page.resource_changed(event.server, event.uri)
            count += 1
            if count % _BURST == 0:
                await asyncio.sleep(0)

    @property
    def _live(self) -> Live | None:
        """The page on top, if it follows the servers and has all of its parts; while it gets them, it reads anyway."""
        page = self.screen
        is_whole = page.is_mounted and page.display  # not displayed: it is being taken away
        return page if is_whole and isinstance(page, Live) else None

    @property
    def crashed(self) -> Exception | None:
        """The mistake of ours that ended the app."""
        return self._exception

    def _fatal_error(self) -> None:
        # Textual would print the values of all variables, such as a pass phrase that is being typed. Whoever runs the
        # app asks `crashed`.
        self._close_front()
        self._close_messages_no_wait()

    def _close_front(self) -> None:
        if self._front is not None:
            self._front.close()

    def request_quit(self) -> None:
        """End the app like the quit key; on the event loop, a signal handler of it included; more than once is fine."""
        self._quits = True
        self._close_front()
        if self.is_running and self.painted.is_set():  # in the middle of mounting, leaving would be an error
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

    def _when_begun(self, call: Callable[[], None]) -> None:
        if self._begun:
            # The host's tasks call this; Textual's work belongs into Textual's own task.
            self.call_later(self._unless_leaving, call)
        else:
            self._deferred.append(call)

    def _unless_leaving(self, call: Callable[[], None]) -> None:
        """Textual mounts nothing any more once the app leaves, and raises MountError."""
        if not self._exit:
            call()

    # -- actions of the table in keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Under a dialog nothing but quitting works."""
        del parameters
        names = {item.name for item in ACTIONS} - {"quit", "stop"} | {"command_palette"}
        if action == "answer":
            return True  # also over a form in which the person is typing
        if action == "autonomy" and self._host is not None and self._host.running_unasked is not None:
            return True  # the kill key works over everything
        return not (action in names and self._screen_stack and self.screen.is_modal)

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Carry it out; before there is a host, what needs it waits."""
        if not self._begun:
            namespace, name, _ = parse_action(action) if isinstance(action, str) else action
            is_ours = namespace == "app" or (not namespace and default_namespace in (None, self))
            if is_ours and name in {item.name for item in ACTIONS} - _NEED_NO_HOST | {"command_palette"}:
                self._deferred.append(lambda: self._run_later(name))
                return True
        return await super().run_action(action, default_namespace, namespaces)

    def on_action_wanted(self, message: ActionWanted) -> None:
        """A click or a slash command: the same as the key."""
        message.stop()
        if message.action:
            self._run_later(message.action)

    def _run_later(self, action: str) -> None:
        self.call_later(self._run, action)

    async def _run(self, action: str) -> None:
        await self.run_action(action)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notice, unless the same one is on the screen: a key that is held down would stack up hundreds."""
        now, wanted = monotonic(), (message, title, severity)
        self._noticed = {one: until for one, until in self._noticed.items() if until > now}
        if wanted not in self._noticed:
            self._noticed[wanted] = now + (self.NOTIFICATION_TIMEOUT if timeout is None else timeout)
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def action_palette(self) -> None:
        """Open the palette."""
        self.action_command_palette()

    def action_pass(self) -> None:
        """A key that does nothing."""

    def action_toggle_servers(self) -> None:
        """F2."""
        self.chat.toggle_sidebar()

    def on_copy_wanted(self, message: CopyWanted) -> None:
        """Put it into the clipboard."""
        message.stop()
        self.copy_to_clipboard(message.text)
        self.notify("Copied.", markup=False, timeout=2)

    def on_check_wanted(self, message: CheckWanted) -> None:
        """Edited arguments: does the tool's schema take them?"""
        message.stop()
        from mcphost.tui.screens.manual_call import check

        self.run_worker(partial(check, self.host, message), group="check")

    @property
    def editor(self) -> str:
        """The name of the user's own editor; empty where there is none, or the terminal cannot be given to it."""
        from mcphost.tui import editor

        if self._driver is None or not self._driver.can_suspend or not editor.command():
            return ""
        return clean_line(editor.command()[0].rpartition("/")[2], 20)

    def on_editor_wanted(self, message: EditorWanted) -> None:
        """One at a time has the terminal."""
        message.stop()
        if not self.is_away:
            self.is_away = True
            self.run_worker(partial(self._edit, message), group="editor")

    async def _edit(self, message: EditorWanted) -> None:
        from mcphost.tui import editor

        try:
            text = await editor.edited(message.text, editor.command(), partial(editor.away, self))
        except McpHostError as error:
            message.edited(None, str(error))
        else:
            message.edited(text, "")
        finally:
            self.is_away = False

    def on_file_wanted(self, message: "FileWanted") -> None:
        """A file that a call names: how does it differ from what the call carries?"""
        from mcphost.tui.file_diff import compare

        self.run_worker(partial(compare, message), group="file")

    def on_rule_wanted(self, message: RuleWanted) -> None:
        """A rule that is being written: which calls does it cover? The newest one only."""
        from mcphost.tui.dialogs.rule_builder import compare

        self.run_worker(partial(compare, self.host.permissions, message), group="rule", exclusive=True)

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

    def action_autonomy(self) -> None:
        """F9: while tools run unasked, the kill key."""
        if self.host.running_unasked is not None:
            self.host.halt()
            self.notify("Tools ask again before they run, and what was running is stopped.", markup=False)
            return
        from mcphost.tui.screens.auto_approve import StartAutonomy

        self.push_screen(StartAutonomy(self.host.autonomy), lambda _: self.chat.refresh_status())

    def action_stop(self) -> None:
        """Stop the turn; outside a turn, back to the composer."""
        if self.host.stop() or self.chat.stop_by_hand():
            self.notify("Stopping…", markup=False, timeout=2)
        elif self.screen is self.chat:
            self.chat.query_one("#prompt").focus()

    def action_go_on(self) -> None:
        """Go on with an answer that was cut off, or ask the model again."""
        if self.screen is self.chat:
            self.chat.go_on()

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
