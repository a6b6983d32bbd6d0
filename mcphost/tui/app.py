"""The Textual application, which owns the chat screen, handles the host's events and runs global actions."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from textual.actions import parse as parse_action
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import DescendantFocus
from textual.screen import Screen

from mcphost.errors import McpHostError
from mcphost.translation import _, join_list, translate_sentence
from mcphost.tui.actions import ACTIONS
from mcphost.tui.key_table import DEFAULT_KEYS, KeyTable, build_key_table, keys_in_use
from mcphost.tui.layout_garbage import free_layouts_at_once
from mcphost.tui.question_display import QuestionApp
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.chat import ChatScreen
from mcphost.tui.strip_caches import create_caches_on_use
from mcphost.tui.terminal_driver import ControlCharacterFilter, ResilientDriver
from mcphost.tui.themes import ThemeChoice, ThemeOptions
from mcphost.tui.transcript.line_breaks import use_own_breaks
from mcphost.tui.widget_messages import (
    ActionRequested,
    ArgumentCheckRequested,
    CopyRequested,
    CursorMoved,
    EditorRequested,
    RulePreviewRequested,
)

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.command import CommandPalette, Provider
    from textual.widgets import OptionList

    from mcphost.config.schema import KeyConfig
    from mcphost.host.event_bus import EventDispatcher, EventQueue
    from mcphost.host.events import BackgroundCallEnded, CallEnded, ResourceChanged
    from mcphost.host.host import Host
    from mcphost.host.questions.frontend import Question
    from mcphost.sign_in_types import SignInProgress
    from mcphost.tui.command_values import CommandValues
    from mcphost.tui.file_diff import FileDiffRequested
    from mcphost.tui.frontend import TuiFrontend
    from mcphost.tui.screen_reader_announcer import Announcer
    from mcphost.tui.terminal_notifications import TerminalNotifier


@runtime_checkable
class ServerObserver(Protocol):
    """Interface for screens that must be refreshed when a server or a subscribed resource changes."""

    def notice_server_change(self) -> None:
        """Refresh the screen, now or when it is shown again, because a server has changed.

        The change may affect the server's state, sign-in progress, shared folders or features.
        """

    def notice_resource_change(self, server: str, uri: str) -> None:
        """Refresh the screen, now or when it is shown again, because *server* has changed the resource at *uri*."""


@runtime_checkable
class SignInProgressDisplay(Protocol):
    """Interface for dialogs that can show the progress of a sign-in."""

    def show_sign_in_progress(self, event: "SignInProgress") -> None:
        """Display the sign-in step that the event reports."""


DOUBLE_PRESS_SECONDS = 2.0
QUIT_AGAIN_SECONDS = 8.0
_ACTIONS_WITHOUT_HOST = {"quit", "toggle_servers", "theme", "focus_transcript", "help"}
"""Actions that work before a host is attached."""


def _load_palette_provider() -> "type[Provider]":
    from mcphost.tui.command_palette import CommandPaletteProvider

    return CommandPaletteProvider


class McpHostApp(QuestionApp):
    """Textual app that displays one Host, which is attached after the first frame has been drawn.

    Until the host is attached, the user can already type a message. An action that needs the host is deferred until
    the host has started.
    """

    TITLE = "mcphost"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {_load_palette_provider}  # noqa: RUF012 - Textual's own declaration
    CSS = """
    Toast { background: $panel; padding: 0 1; }
    ToastRack { margin-bottom: 5; } .has-question-card ToastRack { margin-bottom: 10; }
    CommandPalette SearchIcon, CommandPalette LoadingIndicator { display: none; }
    Input.-textual-compact { padding: 0 1; }
    Input.-textual-compact:focus { background-tint: transparent; }
    #box Input.-textual-compact:focus { background: $background; }
    #box Input, #box TextArea, #box ChoiceList, #box TristateCheckbox, #box ReadOnlyValue {
        outline-left: outer $faint; outline-right: outer $faint;
        &:focus { outline-left: outer $accent; outline-right: outer $accent; }
    }
    TextArea .text-area--cursor { color: $input-cursor-foreground; background: $input-cursor-background; }
    """

    def __init__(
        self,
        host: "Host | None" = None,
        frontend: "TuiFrontend | None" = None,
        *,
        theme: ThemeOptions | None = None,
        keys: KeyTable = DEFAULT_KEYS,
        reader: bool = False,
        greeting: str = "",
        demo: bool = False,
    ) -> None:
        super().__init__()
        use_own_breaks()
        create_caches_on_use()
        free_layouts_at_once()
        self.key_table = keys
        keys.use_in_hints()
        self.is_reader = reader  # whether the screen is drawn for a screen reader
        self._announcer = self._make_announcer() if reader else None
        self._bindings = keys.build_bindings()
        self.set_keymap(keys.build_keymap())
        self._host, self._frontend = host, frontend
        self.first_frame_drawn = asyncio.Event()
        """Set once the first frame has been drawn."""
        self._is_quitting = self._is_started = False
        self.chat = ChatScreen(greeting=greeting, demo=demo)
        self.animation_level = "none"  # animations convey no information, and every frame costs CPU time
        self._filters.append(ControlCharacterFilter())
        self.theme_choice = ThemeChoice(self, theme or ThemeOptions())
        self.theme_choice.show_wanted()
        self._feed: EventQueue | None = None
        self._notifier: TerminalNotifier | None = None  # created when the host starts
        self._deferred_calls: list[Callable[[], object]] = []
        self._interrupted_at = self._warned_of_calls_at = float("-inf")
        self.is_suspended = False
        """Whether the user's editor is using the terminal; Ctrl+C then goes to the editor."""

    def _make_announcer(self) -> "Announcer":
        from mcphost.tui.screen_reader_announcer import READER_CSS, Announcer

        self.stylesheet.add_source(READER_CSS, ("mcphost", "reader"), is_default_css=False)
        return Announcer(self)

    def get_driver_class(self) -> type[Driver]:
        """Return the driver class that Textual chooses, except that ResilientDriver replaces LinuxDriver."""
        chosen = super().get_driver_class()
        return ResilientDriver if chosen is LinuxDriver else chosen

    def get_default_screen(self) -> Screen[Any]:
        """Return the chat screen, which is at the bottom of the screen stack."""
        return self.chat

    def use_theme(self, name: str) -> None:
        """Switch to the theme *name*, or to the default theme if no theme has this name."""
        self.theme_choice.configure(name)

    def use_keys(self, keys: "tuple[KeyConfig, ...]") -> None:
        """Apply the configured *keys*, and update all key hints except those in existing notices."""
        self.key_table, _problems = build_key_table({one.action: one.keys for one in keys})
        self.key_table.use_in_hints()
        self._bindings = self.key_table.build_bindings()
        self.set_keymap(self.key_table.build_keymap())
        self.chat.composer_input.use_keys()
        self.chat.presenter.transcript.notify_style_update()
        for screen in self.screen_stack:
            for widget in screen.query("*"):
                widget.refresh(layout=True)

    # -- startup and shutdown

    def on_mount(self) -> None:
        """If a host is already attached, start it after the first frame has been drawn."""
        cast("Any", self).screen_change_signal.subscribe(self, self._handle_screen_change)
        self.call_after_refresh(self._handle_first_frame)

    def _handle_first_frame(self) -> None:
        self.first_frame_drawn.set()
        self._ask_for_background()
        if self._is_quitting:
            self.exit()
        elif self._host is not None:
            self._start_host()

    def _ask_for_background(self) -> None:
        """Ask the terminal whether its background is dark or light, if the theme depends on that."""
        if self.theme_choice.is_automatic and isinstance(self._driver, ResilientDriver):
            self._driver.ask_for_background(partial(self.call_later, self.theme_choice.use_background))

    @property
    def has_host(self) -> bool:
        """Whether a host is attached."""
        return self._host is not None

    def attach(self, host: "Host", frontend: "TuiFrontend") -> None:
        """Attach the host and its frontend, and start the host. Call this once, after the first frame."""
        self._host, self._frontend = host, frontend
        if host.config.theme != self.theme_choice.configured:
            self.use_theme(host.config.theme)
        frontend.bind(self)
        self.call_later(self._start_host)  # runs in the app's task

    def _handle_screen_change(self, _unused: object) -> None:
        self.update_question_cards()
        for screen in self.screen_stack:
            screen.query("KeyBar").refresh()
        if self._announcer is not None:
            screen = self.screen
            screen.call_after_refresh(self._announcer.announce_screen, screen)

    def update_question_cards(self) -> None:
        """Update the question cards; in screen reader mode, announce a question that is minimized to a card."""
        super().update_question_cards()
        if self._announcer is not None:
            self._announcer.announce_card(self._minimized[0] if self._minimized else None)

    def on_descendant_focus(self, event: CursorMoved | DescendantFocus) -> None:
        """For screen readers, move the terminal's cursor to the focused widget, or to its current item."""
        if self._announcer is not None:
            self._announcer.follow_focus(event.widget)

    on_cursor_moved = on_descendant_focus

    def on_option_list_option_highlighted(self, event: "OptionList.OptionHighlighted") -> None:
        """For screen readers, move the terminal's cursor to the highlighted list entry."""
        if self._announcer is not None:
            self._announcer.follow_highlight(event.option_list, event.option.prompt)

    def _start_host(self) -> None:
        from mcphost.host.event_bus import EventDispatcher
        from mcphost.tui.terminal_notifications import TerminalNotifier

        self._feed = self.host.events.subscribe()
        self.host.start(retry_unreachable=True)
        self._is_started = True
        self.chat.attach_host(self.host, lambda: self.command_values)
        self.connect_composer()
        dispatcher = EventDispatcher()
        self._notifier = TerminalNotifier(self, lambda: self.host.settings.notifications)
        dispatcher.add_all(self._notifier.event_handlers)
        self.chat.add_event_handlers(dispatcher)
        if self._announcer is not None:
            dispatcher.add_all(self._announcer.event_handlers)
        self._add_event_handlers(dispatcher)
        self.run_worker(partial(dispatcher.run, self._feed), name="events", group="events")
        deferred, self._deferred_calls = self._deferred_calls, []
        for call in deferred:
            call()
        self.offer_setup()
        self.run_worker(self.host.instructions.refresh, group="events")
        self.run_worker(self.host.commands.refresh, group="events")
        self.run_worker(self.config_change_notices.watch, name="configuration files", group="events")
        if self.theme_choice.problem:
            self.chat.presenter.add_notice("warning", clean_line(self.theme_choice.problem, 600))
        self.run_worker(partial(self.theme_choice.watch, self._show_theme_problem), name="theme file", group="events")

    def on_command_palette_option_highlighted(self, event: "CommandPalette.OptionHighlighted") -> None:
        """For screen readers, announce the highlighted entry of the command palette."""
        self.on_option_list_option_highlighted(event.highlighted_event)

    def _show_theme_problem(self, problem: str) -> None:
        self.notify(clean_line(problem, 400), severity="warning", markup=False, timeout=8)

    def _add_event_handlers(self, dispatcher: "EventDispatcher") -> None:
        """Register handlers for events that concern dialogs, or screens other than the chat."""
        from mcphost.host import events
        from mcphost.sign_in_types import SignInProgress

        dispatcher.add(self._handle_call_ended, events.CallEnded)
        dispatcher.add(self._handle_background_ended, events.BackgroundCallEnded)
        dispatcher.add(self._handle_sign_in_progress, SignInProgress)
        dispatcher.add(
            self._handle_server_change, events.ServerState, events.CatalogChanged, events.RootsChanged,
            events.RootsShared, SignInProgress, events.ToolToggled,
        )  # fmt: skip
        dispatcher.add(self._handle_resource_change, events.ResourceChanged)

    def show_pending_questions(self, pending: "tuple[Question[Any], ...]") -> None:
        """Show pending questions on screen and in the window title; notify the user if the terminal has no focus."""
        if self._announcer is not None:
            self._announcer.show_waiting(len(pending))
        super().show_pending_questions(pending)
        if self._notifier is not None:
            self._notifier.show_questions(pending)

    def _handle_call_ended(self, event: "CallEnded") -> None:
        self.frontend.mark_call_ended(event.server, event.number)

    def _handle_background_ended(self, event: "BackgroundCallEnded") -> None:
        name = " · ".join(clean_line(one, 40) for one in (event.server, event.tool) if one)
        if not event.in_open_conversation:
            later = _("Its result is stored where it was asked for: in another conversation or branch.")
        elif self.host.conversation.is_busy:
            later = _("Its result is added to the conversation after this answer.")
        else:
            later = keys_in_use(self).fill(
                _("{continue_turn} lets the model read its result now; otherwise it reads it with your next message.")
            )
        said = _("{name} has ended in the background: {outcome}. {later}")
        self.notify(said.format(name=name, outcome=event.outcome, later=later), markup=False, timeout=10)

    def _handle_sign_in_progress(self, event: "SignInProgress") -> None:
        for dialog in self.open_questions:
            if isinstance(dialog, SignInProgressDisplay):
                dialog.show_sign_in_progress(event)

    def _handle_server_change(self, _event: object) -> None:
        for page in self._server_observers:
            page.notice_server_change()

    def _handle_resource_change(self, event: "ResourceChanged") -> None:
        for page in self._server_observers:
            page.notice_resource_change(event.server, event.uri)

    @property
    def _server_observers(self) -> list[ServerObserver]:
        """The mounted ServerObservers on the screen stack, including covered screens, which Esc shows again.

        A screen that is still being mounted needs no notification, because it reads the current state when it loads.
        """
        mounted = [page for page in self.screen_stack if page.is_mounted and page.display]  # display: not being removed
        return [page for page in mounted if isinstance(page, ServerObserver)]

    @property
    def terminal(self) -> Driver | None:
        """The terminal driver; None before the app runs."""
        return self._driver

    @property
    def has_terminal_focus(self) -> bool:
        """Whether the terminal has the focus; True if the terminal does not report its focus."""
        return bool(self.app_focus)

    @property
    def crash_error(self) -> Exception | None:
        """The unexpected exception that ended the app, or None if there was none."""
        return self._exception

    def _fatal_error(self) -> None:
        # Textual's traceback prints the values of all variables, which may include a passphrase. The caller reads
        # `crash_error` instead.
        self._close_frontend()
        self._close_messages_no_wait()

    def _close_frontend(self) -> None:
        if self._frontend is not None:
            self._frontend.close()

    def request_quit(self) -> None:
        """Decline all open questions, and quit the app after its first frame has been drawn.

        Idempotent. Call this in the event loop's thread, for example from a signal handler registered with the event
        loop.
        """
        self._is_quitting = True
        if self.chat.drafts is not None:
            self.chat.drafts.capture()
        self._close_frontend()
        if self.is_running and self.first_frame_drawn.is_set():  # exiting while widgets are being mounted raises
            self.exit()

    async def action_quit(self) -> None:
        """Decline all questions and quit; if calls run in the background, only warn on the first key press."""
        calls = self._host.running_calls.list() if self._host is not None else ()
        tools = [clean_line(call.tool, 60) for call in calls if call.is_in_background]
        if tools and monotonic() - self._warned_of_calls_at >= QUIT_AGAIN_SECONDS:
            self._warned_of_calls_at = monotonic()
            text = _("{tools} still runs in the background; quitting loses its result. Press {quit} again to quit.")
            said = keys_in_use(self).fill(text, tools=join_list(tools))
            self.notify(said, severity="warning", markup=False, timeout=QUIT_AGAIN_SECONDS)
            return
        self.request_quit()

    def action_interrupt(self) -> None:
        """Copy the selected text; if no text is selected, quit when Ctrl+C is pressed twice within 2 seconds."""
        if text := getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            self.copy_to_clipboard(text)
            return
        now = monotonic()
        if now - self._interrupted_at < DOUBLE_PRESS_SECONDS:
            self.request_quit()
            return
        self._interrupted_at = now
        stop = _("Esc stops the answer.") + " " if self._host is not None and self.chat.is_answering else ""
        self.notify_at_once(stop + _("Press Ctrl+C again to quit."), DOUBLE_PRESS_SECONDS)

    def _run_when_started(self, call: Callable[[], object]) -> None:
        if self._is_started:
            # The host's tasks call this, but Textual must be used from its own task.
            self.call_later(self._run_unless_exiting, call)
        else:
            self._deferred_calls.append(call)

    def _run_unless_exiting(self, call: Callable[[], object]) -> None:
        """Invoke *call*, unless the app is exiting and can no longer mount widgets."""
        if not self._exit:
            call()

    def on_app_focus(self) -> None:
        """When the terminal gets the focus, focus the composer if no widget in the chat has the focus.

        Textual restores only a focus that it has removed before; in a browser, no widget has the focus at the start.
        """
        if self.screen is self.chat and self.chat.focused is None:
            self.chat.composer_input.focus()

    # -- global actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether *action* is enabled; while a modal screen is open, most global actions are disabled.

        Only "quit", "stop", "answer" and, if auto-approve is on, the action that turns it off remain enabled.
        """
        del parameters
        names = {item.name for item in ACTIONS} - {"quit", "stop"} | {"command_palette"}
        if action == "answer":
            return True  # even over a form in which the user is typing
        if action == "auto_approval" and self._host is not None and self._host.auto_approval_status is not None:
            return True  # the key that stops auto-approve works over any screen
        return not (action in names and self._screen_stack and self.screen.is_modal)

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action, or defer it if it needs a host that has not started; return whether it was handled."""
        if not self._is_started:
            namespace, name, _unused = parse_action(action) if isinstance(action, str) else action
            is_ours = namespace == "app" or (not namespace and default_namespace in (None, self))
            if is_ours and name in {item.name for item in ACTIONS} - _ACTIONS_WITHOUT_HOST | {"command_palette"}:
                self._deferred_calls.append(lambda: self._schedule_action(name))
                return True
        return await super().run_action(action, default_namespace, namespaces)

    def on_action_requested(self, message: ActionRequested) -> None:
        """Run the action that the user clicked, or entered as a slash command."""
        message.stop()
        if message.action:
            self._schedule_action(message.action)

    def _schedule_action(self, action: str) -> None:
        self.call_later(self._run_scheduled_action, action)

    async def _run_scheduled_action(self, action: str) -> None:
        await self.run_action(action)

    def action_palette(self) -> None:
        """Open the command palette."""
        self.action_command_palette()

    def action_toggle_servers(self) -> None:
        """Show or hide the sidebar with the list of servers."""
        self.chat.toggle_sidebar()

    def on_copy_requested(self, message: CopyRequested) -> None:
        """Copy the text to the clipboard and show a notification."""
        message.stop()
        self.copy_to_clipboard(message.text)
        self.notify_at_once(_(message.confirmation), 2)

    def on_argument_check_requested(self, message: ArgumentCheckRequested) -> None:
        """Start a worker that validates the edited arguments against the tool's input schema."""
        message.stop()
        from mcphost.tui.commands import check_arguments

        self.run_worker(partial(check_arguments, self.host, message), group="check")

    @property
    def editor_name(self) -> str:
        """The program name of the user's editor, such as "vim", or "" if no editor can be used.

        No editor can be used if neither $VISUAL nor $EDITOR is set, or if the app cannot hand over the terminal to
        another program.
        """
        from mcphost.external_editor import editor_command

        if self._driver is None or not self._driver.can_suspend or not editor_command():
            return ""
        return clean_line(editor_command()[0].rpartition("/")[2], 20)

    def on_editor_requested(self, message: EditorRequested) -> None:
        """Open the text in the user's editor; ignore the request if the editor is already open."""
        message.stop()
        if not self.is_suspended:
            self.is_suspended = True
            self.run_worker(partial(self._run_editor, message), group="editor")

    async def _run_editor(self, message: EditorRequested) -> None:
        from mcphost.external_editor import edit_text, editor_command
        from mcphost.tui.suspension import suspend_terminal

        try:
            text = await edit_text(message.text, editor_command(), partial(suspend_terminal, self), name=message.name)
        except McpHostError as error:
            message.on_edited(None, str(error))
        else:
            message.on_edited(text, "")
        finally:
            self.is_suspended = False

    def on_file_diff_requested(self, message: "FileDiffRequested") -> None:
        """Start a worker that compares a file with the text that a tool call would write."""
        from mcphost.tui.file_diff import answer_file_diff

        self.run_worker(partial(answer_file_diff, message), group="file")

    def on_rule_preview_requested(self, message: RulePreviewRequested) -> None:
        """Start a worker that finds the tool calls matched by an edited permission rule.

        A worker that is still running for an earlier version of the rule is cancelled.
        """
        from mcphost.tui.dialogs.rule_builder import answer_rule_preview

        self.run_worker(partial(answer_rule_preview, self.host.grants, message), group="rule", exclusive=True)

    def action_new(self) -> None:
        """Start a new conversation; show a warning if the host refuses, for example while the model is answering."""
        from mcphost.errors import McpHostError

        try:
            self.host.conversation.open_new()
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self.chat.load_conversation()
        self.chat.refresh_status()

    def action_auto_approval(self) -> None:
        """Open the form that turns on auto-approve; if auto-approve is on, turn it off and stop all running tools."""
        if self.host.auto_approval_status is not None:
            self.host.halt()
            self.notify_at_once(_("Auto-approve is off; running tools were stopped."))
            return
        from mcphost.tui.screens.auto_approve import AutoApprovalForm

        self.push_screen(AutoApprovalForm(self.host.auto_approval), lambda _unused: self.chat.refresh_status())

    def action_stop(self) -> None:
        """Stop the model's answer; if there is none, stop the tool calls that the user started manually.

        If nothing is running, focus the composer and cancel the editing of an earlier message.
        """
        if self.host.conversation.stop() or self.chat.manual_calls.stop():
            self.notify(_("Stopping…"), markup=False, timeout=2)
        elif self.screen is self.chat:
            self.chat.query_one("#prompt").focus()
            if self.chat.pending_edit is not None:
                from mcphost.tui.screens.rewind import cancel_edit

                self.run_worker(partial(cancel_edit, self.chat), group="turn")

    @cached_property
    def command_values(self) -> "CommandValues":
        """The values that slash commands accept, such as the name of a theme."""
        from mcphost.tui.command_values import CommandValues, ValueActions

        actions = ValueActions(self._choose_theme, self._open_servers, self._use_model, self._retry_with)
        return CommandValues(self.chat, self.theme_choice, self.config_change_notices, actions)

    def action_attach_result(self) -> None:
        """Attach the result of the user's latest manual tool call to the next message."""
        self.chat.attach_result()

    async def action_theme(self) -> None:
        """Open the list of themes; return once the list has the focus."""
        from mcphost.tui.screens.theme_picker import ThemePicker

        await self.push_screen(picker := ThemePicker(self.theme_choice), self._choose_theme)
        picker.focus_list()

    def _choose_theme(self, name: str | None) -> None:
        if name is not None:
            self.theme_choice.choose(name)
            self._ask_for_background()
            self.run_worker(self._remember_theme, thread=True, group="theme")
            if self.theme_choice.problem:
                self._show_theme_problem(self.theme_choice.problem)

    def _remember_theme(self) -> None:
        try:
            self.theme_choice.remember()
        except (OSError, McpHostError) as error:
            reason = translate_sentence(str(error))
            self.call_from_thread(
                self.notify, _("The theme could not be saved: {error}").format(error=reason), markup=False
            )
