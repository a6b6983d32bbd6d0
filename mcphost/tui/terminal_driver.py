"""The terminal driver: Textual's own, made to survive the loss of its terminal."""

import asyncio
import select
import termios
from typing import Any, cast

from textual.drivers.linux_driver import LinuxDriver

WATCH_SECONDS = 1.0


class ResilientStream:
    """A stream whose writing never fails.

    Textual writes on a thread with a short queue. When the terminal is gone the write fails, the thread ends, the queue
    fills, and the next frame waits for ever, so that the program neither saves nor leaves.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or drop what nobody can see."""
        try:
            return cast("int", self._stream.write(text))
        except (OSError, ValueError):  # hung up, or closed
            return 0

    def flush(self) -> None:
        """Flush, or drop what nobody can see."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ResilientDriver(LinuxDriver):
    """LinuxDriver on a steady stream."""

    _watch_timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        cast("Any", super()).__init__(*args, **options)
        self._file = cast("Any", ResilientStream(self._file))

    def start_application_mode(self) -> None:
        """Take the terminal, and look now and then whether it is still there."""
        super().start_application_mode()
        if self._watch_timer is None:
            self._watch_timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._check_terminal)

    def _check_terminal(self) -> None:
        # Without a controlling terminal no SIGHUP comes, and Textual reads the end of its input for ever.
        poll = select.poll()
        poll.register(self.fileno, 0)
        if any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0)):
            self._watch_timer = None
            self._app.call_later(self._app.action_quit)
        else:
            self._watch_timer = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._check_terminal)

    def write(self, data: str) -> None:
        """Write it; while somebody else has the terminal, drop it: all of the screen is drawn again afterwards."""
        if self._writer_thread is not None:
            super().write(data)

    def suspend_application_mode(self) -> None:
        """Give the terminal away for a while."""
        super().suspend_application_mode()
        self._writer_thread = None
        self._auto_restart = True

    def close(self) -> None:
        """The end of the app: from here on nothing starts the screen again."""
        self._auto_restart = False
        if self._watch_timer is not None:
            self._watch_timer.cancel()
            self._watch_timer = None
        super().close()

    def _sigcont_application(self, *_: Any) -> None:
        # A terminal that is lost sends SIGHUP and SIGCONT; Textual would start its threads anew, for ever.
        if not self._auto_restart:
            return
        try:
            termios.tcgetattr(self.fileno)
        except termios.error:
            return
        cast("Any", super())._sigcont_application()
