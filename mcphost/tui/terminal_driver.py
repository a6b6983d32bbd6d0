"""Terminal driver that quits the app when its terminal is lost, and a filter for control characters.

The driver also recognizes the terminal's replies about its colors and capabilities, which would otherwise be
mistaken for key presses.
"""

import asyncio
import fcntl
import os
import re
import select
import signal
import struct
import termios
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from rich.segment import Segment
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.filter import LineFilter
from textual.message import Message

from mcphost.sanitize import sanitize
from mcphost.translation import _

if TYPE_CHECKING:
    from textual.color import Color

QUERY_BACKGROUND = "\x1b]11;?\x1b\\"
"""Request for the terminal's background color (OSC 11 of xterm)."""
ANSWER_SECONDS = 2.0
"""Seconds after the request during which the terminal's reply can still change the theme."""
QUERY_ATTRIBUTES = "\x1b[c"
"""Request for the terminal's primary device attributes (DA1 of the VT100 and its successors)."""
ATTRIBUTES_SECONDS = 1.0
"""Seconds to wait for the terminal's device attributes."""
_TERMINALS_WITHOUT_OSC = {"linux", "dumb"}
_REPLY = re.compile(r"\x1b\]1[01];(?:rgba?:)?([0-9a-fA-F/#]{3,40})(?:\x07|\x1b\\)")
_ATTRIBUTES = re.compile(r"\x1b\[\?([0-9;]{1,60})c")
_PARTIAL_REPLY = re.compile(r"\x1b(?:\](?:1(?:[01](?:;[rgba:0-9a-fA-F/#]{0,45}\x1b?)?)?)?|\[\?[0-9;]{0,60})\Z")
_PARTIAL_SECONDS = 1.0
"""Seconds for which an incomplete reply is held back; then it is treated as typed."""
_ESCAPE_SECONDS = 0.05
"""Seconds to hold back the beginning of an expected reply, which could also be a key press."""
_KEYS_OR_REPLIES = ("\x1b", "\x1b[")
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
"""What a terminal in bracketed paste mode sends before and after pasted text (xterm)."""
_SHOWN_ESCAPE = "\u241b"
_ALT_ENTER = "\x1b\r"


def can_ask_terminal(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal can be asked for its colors; some terminals would show the request as text."""
    return environ.get("TERM", "") not in {"", *_TERMINALS_WITHOUT_OSC}


def is_dark_color(text: str) -> bool | None:
    """Return whether a color reported by the terminal, such as "1c1c/1f1f/2626", is dark.

    Return None if *text* is not a color.
    """
    parts = [part for part in text.strip("#").split("/") if part]
    if len(parts) == 1 and len(parts[0]) in {6, 12}:
        size = len(parts[0]) // 3
        parts = [parts[0][at : at + size] for at in range(0, 3 * size, size)]
    if len(parts) not in {3, 4}:
        return None
    try:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts[:3])
    except ValueError:
        return None
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5


class ReplyParser(XTermParser):
    """Textual's input parser, extended to recognize the terminal's replies to queries.

    The replies report the terminal's colors and capabilities. Pasted text is never treated as a reply. *on_color*
    is called with True if the reported color is dark, otherwise with False. *on_attributes* is called with the
    reported device attributes.
    """

    def __init__(
        self,
        on_color: Callable[[bool], None],
        debug: bool = False,
        on_attributes: Callable[[frozenset[int]], None] | None = None,
    ) -> None:
        super().__init__(debug)
        self._on_color, self._on_attributes = on_color, on_attributes
        self._held, self._held_since = "", 0.0
        self._is_pasting = False
        self._passed = ""  # the last typed characters: the mark that begins a paste may arrive in pieces
        self.is_answer_expected = False
        """Whether an escape character at the end of the input may begin a reply; the Escape key is then delayed by a
        tick."""

    def feed(self, data: str) -> Iterable[Message]:
        """Parse input; if it ends with an incomplete reply, hold that part back until the rest arrives."""
        if not data:
            yield from super().feed(data)
            return
        data, self._held, self._held_since = self._held + data, "", monotonic()
        passed = ""
        while data:
            take = self._take_pasted if self._is_pasting else self._take_typed
            text, data = take(data)
            passed += text
        if passed:
            yield from super().feed(passed)

    def _take_typed(self, data: str) -> tuple[str, str]:
        """Return the typed part of *data*, up to and including the code that begins a paste, and the remaining part.

        The terminal's replies are removed from the typed part. If *data* contains no code that begins a paste, an
        incomplete reply at the end of *data* is held back until more input arrives.
        """
        at = (self._passed + data).find(_PASTE_START)
        end = len(data) if at < 0 else at + len(_PASTE_START) - len(self._passed)
        text = _ATTRIBUTES.sub(self._take_attributes, _REPLY.sub(self._take, data[:end]))
        if at >= 0:
            self._is_pasting, self._passed = True, ""
            return text, data[end:]
        partial = _PARTIAL_REPLY.search(text)
        start = partial.start() if partial else len(text)
        if partial is None and self.is_answer_expected:
            start -= next((len(key) for key in _KEYS_OR_REPLIES if text.endswith(key)), 0)
        text, self._held = text[:start], text[start:]
        self._remember(text)
        return text, ""

    def _take_pasted(self, data: str) -> tuple[str, str]:
        """Return the pasted part of *data*, up to and including the code that ends the paste, and the remaining part.

        If *data* ends with the beginning of that code, this beginning is held back until more input arrives. Each
        escape character in the pasted text is replaced with a visible mark, because Textual would mistake the text
        after the escape character for key presses.
        """
        text, mark, rest = data.partition(_PASTE_END)
        if mark:
            self._is_pasting = False
        else:
            kept = next((size for size in range(len(_PASTE_END) - 1, 0, -1) if text.endswith(_PASTE_END[:size])), 0)
            text, self._held = text[: len(text) - kept], text[len(text) - kept :]
        return text.replace("\x1b", _SHOWN_ESCAPE) + mark, rest

    def _remember(self, passed: str) -> None:
        self._passed = (self._passed + passed)[1 - len(_PASTE_START) :]

    def tick(self) -> Iterable[Message]:
        """Process timeouts; an incomplete reply that has timed out is treated as typed text."""
        limit = _ESCAPE_SECONDS if self._held in _KEYS_OR_REPLIES else _PARTIAL_SECONDS
        if self._held and not self._is_pasting and monotonic() - self._held_since > limit:
            held, self._held = self._held, ""
            self._remember(held)
            yield from super().feed(held)
        yield from super().tick()

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        """Return the key events for an escape sequence, including Alt+Enter.

        Textual itself reports Alt+Enter as plain Enter in most terminals.
        """
        if sequence == _ALT_ENTER or (alt and sequence == "\r"):
            return [Key("alt+enter", None)]
        return super()._sequence_to_key_events(sequence, alt)

    def _take(self, match: re.Match[str]) -> str:
        if (is_dark := is_dark_color(match[1])) is not None:
            self._on_color(is_dark)
        return ""

    def _take_attributes(self, match: re.Match[str]) -> str:
        if self._on_attributes is not None:
            self._on_attributes(frozenset(int(one) for one in match[1].split(";") if one))
        return ""


WATCH_SECONDS = 1.0


class ResilientStream:
    """Wrapper around an output stream that discards output instead of raising when the terminal is gone.

    Textual's writer thread reads from a short queue. A failed write would end the thread; the queue would then fill up
    and the next frame would block forever, so that the program could neither save nor exit.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text and return its length; if the terminal is gone, discard the text and return 0."""
        try:
            return cast("int", self._stream.write(text))
        except (OSError, ValueError):  # the terminal hung up, or the stream is closed
            return 0

    def flush(self) -> None:
        """Flush the stream; do nothing if the terminal is gone."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@runtime_checkable
class TitledTerminal(Protocol):
    """Protocol for terminal drivers that can set the window title."""

    def set_title(self, title: str) -> None:
        """Show *title* as the window title until the app releases the terminal.

        *title* must not contain control characters.
        """
        ...

    def write(self, data: str) -> None:
        """Write the data unchanged."""
        ...


@runtime_checkable
class GuardedApp(Protocol):
    """Protocol for apps whose questions must not be answered by keys typed before the user could read them."""

    def restart_guards(self) -> None:
        """Make each open question ignore input for a moment, because the terminal has just displayed it again."""
        ...


_STOPPED_LINE = "\r\n{}\r\n"
_PUSH_TITLE, _POP_TITLE = "\x1b[22;0t", "\x1b[23;0t"  # XTWINOPS of xterm; others ignore them


def _title_sequence(title: str) -> str:
    return f"\x1b]2;{title}\x1b\\"


class ResilientDriver(LinuxDriver):
    """Textual driver for Linux that quits the app when the terminal is gone, instead of hanging."""

    _watch_timer: asyncio.TimerHandle | None = None
    _title = ""
    _is_title_saved = False
    _on_background: Callable[[bool], object] | None = None
    _asked_at = 0.0
    _attributes: asyncio.Future[frozenset[int]] | None = None
    _attributes_deadline = 0.0
    _expectation: asyncio.TimerHandle | None = None
    _parser: ReplyParser | None = None
    _is_stop_wanted = False
    _own_modes: list[Any] | None = None
    """The terminal's modes while the app uses it, or None before the app has started."""
    transform_output: Callable[[str], str] | None = None
    """Function that is applied to all output, or None."""

    def __init__(self, *args: Any, **options: Any) -> None:
        cast("Any", super()).__init__(*args, **options)
        self._file = cast("Any", ResilientStream(self._file))

    def start_application_mode(self) -> None:
        """Take over the terminal, and begin to check every WATCH_SECONDS whether it still exists."""
        if isinstance(self._app, GuardedApp):
            self._app.restart_guards()
        super().start_application_mode()
        if self._writer_thread is None:  # stopped in the background; SIGCONT tries again
            return
        self._own_modes = self._read_modes()
        if self._title:
            self._save_title()
        if self._watch_timer is None:
            self._watch_timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._check_terminal)

    def run_input_thread(self) -> None:
        """Read input with mcphost's parser, which also handles the terminal's replies to queries."""
        # Textual has no option to use another parser.
        linux_driver.XTermParser = self._make_parser  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
        super().run_input_thread()

    def _make_parser(self, debug: bool) -> ReplyParser:
        self._parser = ReplyParser(self._handle_color, debug, self._handle_attributes)
        return self._parser

    def ask_for_background(self, on_answer: Callable[[bool], object]) -> None:
        """Ask the terminal for its background color.

        *on_answer* is called with True if the color is dark, otherwise with False. If the terminal does not answer
        within two seconds, *on_answer* is not called.
        """
        if can_ask_terminal(os.environ):
            self._on_background, self._asked_at = on_answer, monotonic()
            self._query(QUERY_BACKGROUND)

    async def ask_for_attributes(self) -> frozenset[int]:
        """Return the terminal's device attributes, such as 4 for Sixel graphics, or an empty set if they are unknown.

        Only the first call queries the terminal. All calls wait for the reply, but not longer than one second after the
        query.
        """
        if self._attributes is None:
            self._attributes = asyncio.get_running_loop().create_future()
            if not can_ask_terminal(os.environ):
                self._attributes.set_result(frozenset())
                return frozenset()
            self._attributes_deadline = monotonic() + ATTRIBUTES_SECONDS
            self._query(QUERY_ATTRIBUTES)
        await asyncio.wait([self._attributes], timeout=max(0, self._attributes_deadline - monotonic()))
        return self._attributes.result() if self._attributes.done() else frozenset()

    def _query(self, request: str) -> None:
        if self._parser is not None:
            self._parser.is_answer_expected = True
            if self._expectation is not None:
                self._expectation.cancel()
            self._expectation = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self._stop_expecting)
        self.write(request)
        self.flush()

    def _stop_expecting(self) -> None:
        if self._parser is not None:
            self._parser.is_answer_expected = False

    def _handle_color(self, is_dark: bool) -> None:
        """Tell the event loop's thread whether the background color that the terminal has reported is dark.

        This method is called on the input thread.
        """
        answer, self._on_background = self._on_background, None
        if answer is not None and monotonic() - self._asked_at <= ANSWER_SECONDS:
            self._loop.call_soon_threadsafe(answer, is_dark)

    def _handle_attributes(self, attributes: frozenset[int]) -> None:
        """Pass the terminal's device attributes on to the event loop's thread.

        This method is called on the input thread.
        """
        self._loop.call_soon_threadsafe(self._set_attributes, attributes)

    def _set_attributes(self, attributes: frozenset[int]) -> None:
        if self._attributes is not None and not self._attributes.done():
            self._attributes.set_result(attributes)

    def _check_terminal(self) -> None:
        # Without a controlling terminal no SIGHUP arrives, and Textual would read EOF forever.
        poll = select.poll()
        poll.register(self.fileno, 0)
        if any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _descriptor, event in poll.poll(0)):
            self._watch_timer = None
            self._app.call_later(self._app.action_quit)
        else:
            self._watch_timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._check_terminal)

    def write(self, data: str) -> None:
        """Write the data; discard it while the app is suspended, because the screen is redrawn afterwards."""
        if self._writer_thread is not None:
            super().write(data if self.transform_output is None else self.transform_output(data))

    def cell_size(self) -> tuple[int, int]:
        """Return the width and height of a cell in pixels, or (0, 0) if the terminal does not report them.

        See TIOCGWINSZ in ioctl_tty(2).
        """
        try:
            answer = fcntl.ioctl(self.fileno, termios.TIOCGWINSZ, bytes(8))
        except OSError:
            return 0, 0
        rows, columns, width, height = struct.unpack("HHHH", answer)
        return (width // columns, height // rows) if rows and columns else (0, 0)

    def set_title(self, title: str) -> None:
        """Show *title* as the window title until the terminal is released; the first call saves the old title."""
        if title == self._title or os.environ.get("TERM", "") in ("", "dumb", "linux"):
            return
        self._title = title
        if self._is_title_saved:
            self.write(_title_sequence(title))
        else:
            self._save_title()

    def _save_title(self) -> None:
        self._is_title_saved = True
        self.write(_PUSH_TITLE + _title_sequence(self._title))

    def stop_application_mode(self) -> None:
        """Release the terminal and restore its old title, or clear the title if the old one could not be saved."""
        if self._is_title_saved:
            self._is_title_saved = False
            self.write(_title_sequence("") + _POP_TITLE)
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Release the terminal for another program, such as the user's editor."""
        super().suspend_application_mode()
        self._writer_thread = None
        self._auto_restart = True

    def close(self) -> None:
        """Stop checking the terminal and close the driver; a later SIGCONT does not restart it."""
        self._auto_restart = False
        if self._watch_timer is not None:
            self._watch_timer.cancel()
            self._watch_timer = None
        super().close()

    def _sigtstp_application(self, *_unused: Any) -> None:
        # Not in the signal handler: it may have interrupted a write, whose lock the writer's queue still holds.
        self._is_stop_wanted = True
        try:
            self._loop.call_soon_threadsafe(self._stop_process)
        except RuntimeError:  # the app has ended
            os.kill(os.getpid(), signal.SIGSTOP)

    def _stop_process(self) -> None:
        """Release the terminal and stop the process group, unless SIGCONT has arrived since.

        Changes to the terminal must work even if the shell already owns it. This happens if a parent process such as
        `uv run` has stopped on its own, because it does not handle SIGTSTP. SIGTTOU is therefore ignored during the
        changes. Otherwise, SIGTTOU would stop this process halfway, and again after `fg`, while the parent goes on:
        neither the screen nor the shell would be usable.
        """
        if not self._is_stop_wanted:
            return
        has_terminal = self._auto_restart and self._writer_thread is not None
        if has_terminal:
            is_foreground = self._is_foreground()
            if not is_foreground and self._read_modes() != self._own_modes:
                self.attrs_before = None  # the shell has set its own modes
            self._must_signal_resume = True
            self._release_terminal(_("mcphost is stopped. To continue, type fg.") if not is_foreground else "")
        if self._is_stop_wanted:  # still, although SIGCONT may have arrived meanwhile
            self._is_stop_wanted = False
            if has_terminal:
                os.killpg(os.getpgrp(), signal.SIGSTOP)  # a parent that did not get the signal stops as well
            else:
                os.kill(os.getpid(), signal.SIGSTOP)  # an editor that uses the terminal must restore it first

    def _release_terminal(self, line: str) -> None:
        """Release the terminal, even in the background, and print *line*: the prompt was on the alternate screen."""
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            self.suspend_application_mode()
            if line:
                self._file.write(_STOPPED_LINE.format(line))
                self._file.flush()
        finally:
            signal.signal(signal.SIGTTOU, before)

    def _read_modes(self) -> list[Any]:
        """Return the terminal's modes, or [] if there is no terminal."""
        try:
            return termios.tcgetattr(self.fileno)
        except termios.error:
            return []

    def _is_foreground(self) -> bool:
        """Return whether this process group owns the terminal."""
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            return True

    def _sigcont_application(self, *_unused: Any) -> None:
        self._is_stop_wanted = False
        with suppress(RuntimeError):  # the app has ended
            self._loop.call_soon_threadsafe(self._continue_process)

    def _continue_process(self) -> None:
        # A lost terminal sends SIGHUP and SIGCONT; Textual would restart its threads and never exit.
        if not self._auto_restart:
            return
        try:
            termios.tcgetattr(self.fileno)
        except termios.error:
            return
        if self._writer_thread is not None:  # SIGSTOP left the threads running; they would read input twice
            self._release_terminal("")
        cast("Any", super())._sigcont_application()
        if self._writer_thread is None:  # in the background
            return
        # The alternate screen is empty now, and a resize event with the same size draws nothing.
        self._app.call_later(partial(self._app.refresh, layout=True))


# Characters that move the cursor, end a control string or reorder a line. Text has normally been sanitized already.
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ControlCharacterFilter(LineFilter):
    """Textual filter that replaces control characters in rendered rows.

    A row with replaced characters may become too wide.
    """

    def apply(self, segments: list[Segment], background: "Color") -> list[Segment]:
        """Return the segments with control characters replaced by visible marks."""
        del background
        if not any(_CONTROL_CHARACTERS.search(segment.text) for segment in segments):
            return segments
        return [
            Segment(sanitize(segment.text, keep_newlines=False), segment.style, segment.control) for segment in segments
        ]
