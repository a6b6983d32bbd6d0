"""Notifications for a user who is not looking at the terminal, and the window title.

Notifications are shown by the desktop or by the terminal while the terminal does not have the focus.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mcphost.paths import find_program
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.terminal_driver import TitledTerminal

if TYPE_CHECKING:
    from mcphost.config.schema import NotificationMode, NotificationsConfig
    from mcphost.host.events import AnyEvent, BackgroundCallEnded, TurnFinished
    from mcphost.host.questions.frontend import Question

Channel = Literal["bell", "osc9", "osc777"]
MIN_GAP_SECONDS = 5.0
"""Minimum seconds between two notifications. Servers decide when questions open, and could flood the user."""

_NAME_LENGTH = 40
_COMMAND_SECONDS = 5.0
_BELL = "\x07"
_OSC9_PROGRAMS = ("iTerm.app", "ghostty", "WezTerm", "kitty")
_OSC9_TERMINALS = ("xterm-kitty", "xterm-ghostty")
_OSC777_TERMINALS = ("foot", "rxvt")
_MACOS_SCRIPT = ("on run argv", 'display notification (item 1 of argv) with title "mcphost"', "end run")


class NotifyingApp(Protocol):
    """The part of the app's interface that TerminalNotifier uses."""

    @property
    def has_terminal_focus(self) -> bool:
        """Whether the terminal has the focus; True if the terminal does not report its focus."""
        ...

    @property
    def terminal(self) -> Any:
        """The app's terminal driver, or None before the app runs."""
        ...

    def set_timer(self, delay: float, callback: Callable[[], None]) -> Any:
        """Call *callback* once, after *delay* seconds."""
        ...

    def run_worker(self, work: Any, /, *, group: str) -> Any:
        """Run *work* as a worker of the app."""
        ...


def choose_channel(mode: "NotificationMode", environ: Mapping[str, str]) -> Channel:
    """Return how to notify the user through the terminal: with a bell, or with a supported escape sequence.

    If *mode* is "auto", the result is a bell unless the terminal is known to show notifications. iTerm2, Ghostty,
    WezTerm and kitty understand OSC 9; foot, urxvt and terminals based on VTE understand OSC 777.
    """
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if mode == "bell" or environ.get("STY") or term in ("", "dumb", "linux"):
        return "bell"
    is_in_tmux = is_tmux(environ)
    if not is_in_tmux and term.startswith(_OSC777_TERMINALS):
        return "osc777"
    if not is_in_tmux and (program in _OSC9_PROGRAMS or term in _OSC9_TERMINALS):
        return "osc9"
    if mode in ("osc", "desktop"):
        return "osc777" if environ.get("VTE_VERSION") and not is_in_tmux else "osc9"
    return "bell"


def is_tmux(environ: Mapping[str, str]) -> bool:
    """Return whether the app runs in tmux.

    This includes tmux on the machine from which the user has connected with SSH.
    """
    return bool(environ.get("TMUX")) or environ.get("TERM", "").startswith("tmux")


def notification_bytes(channel: Channel, text: str, environ: Mapping[str, str]) -> str:
    """Return the characters that make the terminal show *text* as a notification, or ring its bell.

    *text* must not contain control characters. In tmux, the escape sequence is wrapped, so that tmux passes it on to
    its terminal, and a bell is added in case `allow-passthrough` is off.
    """
    if channel == "bell":
        return _BELL
    text = text.replace(";", ",")  # ";" separates the fields of OSC 777
    sequence = f"\x1b]9;{text}\x1b\\" if channel == "osc9" else f"\x1b]777;notify;mcphost;{text}\x1b\\"
    if is_tmux(environ):
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\{_BELL}"
    return sequence


def desktop_command(text: str) -> tuple[str, ...] | None:
    """Return the command that shows *text* as a desktop notification, or None if no program for this is installed."""
    if sys.platform == "darwin":
        program, options = "osascript", tuple(word for line in _MACOS_SCRIPT for word in ("-e", line))
    else:
        program, options = "notify-send", ("--app-name=mcphost",)
    path = find_program(program)
    return (path, *options, "--", text) if path else None


def describe_question(question: "Question[Any]") -> str:
    """Return a sentence that announces a question; it contains no details except the server and the tool."""
    tool: object = getattr(question, "tool", "")
    name = describe_call(question.server, tool if isinstance(tool, str) else "")
    return _("mcphost asks: {name}").format(name=name) if name else _("mcphost asks you something")


def describe_call(server: str, tool: str) -> str:
    """Return the shortened names of a server and a tool; an empty name is omitted."""
    return " / ".join(clean_line(name, _NAME_LENGTH) for name in (server, tool) if name)


_TURN_ENDS = {
    "done": N_("mcphost: the answer is ready"),
    "failed": N_("mcphost: the answer failed"),
    "rounds": N_("mcphost: the answer needs you to continue"),
    "budget": N_("mcphost: the answer stopped at its budget"),
}


class TerminalNotifier:
    """Notifier that alerts the user while the terminal does not have the focus.

    The notifier also shows mcphost's state in the window title: "mcphost - asks", "mcphost - answering" or "mcphost -
    ready". If the terminal does not report its focus, no notifications are sent.
    """

    def __init__(
        self, app: NotifyingApp, settings: "Callable[[], NotificationsConfig]", environ: Mapping[str, str] = os.environ
    ) -> None:
        self._app, self._settings, self._environ = app, settings, environ
        self._question_count = 0
        self._is_answering = False
        self._turn_started_at = self._notified_at = float("-inf")
        self._delayed = ""
        self._show_title()

    @property
    def event_handlers(self) -> "Mapping[type[AnyEvent], Callable[[Any], None]]":
        """The handlers for host events, keyed by event type."""
        from mcphost.host import events

        return {
            events.TurnStarted: self._handle_turn_started,
            events.TurnFinished: self._handle_turn_finished,
            events.BackgroundCallEnded: self._handle_background_ended,
        }

    def _handle_turn_started(self, _event: object) -> None:
        self._is_answering, self._turn_started_at = True, monotonic()
        self._show_title()

    def _handle_turn_finished(self, event: "TurnFinished") -> None:
        self._is_answering = False
        self._show_title()
        if monotonic() - self._turn_started_at >= self._settings().after_seconds and event.outcome in _TURN_ENDS:
            self.notify(_(_TURN_ENDS[event.outcome]))

    def _handle_background_ended(self, event: "BackgroundCallEnded") -> None:
        self.notify(_("mcphost: {server} has ended").format(server=describe_call(event.server, event.tool)))

    def show_questions(self, pending: "Sequence[Question[Any]]") -> None:
        """Show in the window title whether questions are waiting; notify the user when the first one arrives."""
        is_first = bool(pending) and not self._question_count
        self._question_count = len(pending)
        self._show_title()
        if is_first:
            self.notify(describe_question(pending[0]))
        elif not pending:
            self._delayed = ""

    def _show_title(self) -> None:
        state = _("asks") if self._question_count else _("answering") if self._is_answering else _("ready")
        if isinstance(terminal := self._app.terminal, TitledTerminal) and self._settings().title:
            terminal.set_title(_("mcphost - {state}").format(state=state))

    def notify(self, text: str) -> None:
        """Notify the user, unless the terminal has the focus or notifications are turned off.

        *text* must contain no details except the names of servers and tools, and no control characters. Notifications
        within MIN_GAP_SECONDS of the previous one are held back until that time has passed; then only the latest is
        shown.
        """
        mode = self._settings().mode
        if mode == "off" or self._app.has_terminal_focus:
            return
        wait = self._notified_at + MIN_GAP_SECONDS - monotonic()
        if wait > 0:
            if not self._delayed:
                self._app.set_timer(wait, self._notify_delayed)
            self._delayed = text
            return
        self._notified_at = monotonic()
        command = desktop_command(text) if mode == "desktop" else None
        if command is None:
            self._write(text)
        else:
            self._app.run_worker(partial(self._run, command, text), group="notification")

    def _notify_delayed(self) -> None:
        text, self._delayed = self._delayed, ""
        if text:
            self.notify(text)

    def _write(self, text: str) -> None:
        if isinstance(terminal := self._app.terminal, TitledTerminal):
            channel = choose_channel(self._settings().mode, self._environ)
            terminal.write(notification_bytes(channel, text, self._environ))

    async def _run(self, command: tuple[str, ...], text: str) -> None:
        """Run a program that shows a desktop notification; if it fails, notify the user through the terminal."""
        import anyio

        is_shown = False
        try:
            with anyio.move_on_after(_COMMAND_SECONDS):
                is_shown = not (await anyio.run_process(command, check=False)).returncode
        except OSError:
            pass
        if not is_shown:
            self._write(text)
