"""Textual driver for chats shown in a browser (`mcphost serve`); it writes the frames to a pipe."""

import os
from typing import Any, cast

from textual import messages
from textual.drivers.web_driver import WebDriver


class ServedDriver(WebDriver):
    """Textual's web driver, extended to quit the app when the serving process has ended.

    Textual's own driver would keep the app running without input, in a process that can no longer be reached.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        cast("Any", super()).__init__(*args, **options)
        self._write = self._write_while_served

    def _write_while_served(self, data: bytes) -> int:
        try:
            return os.write(self.fileno, data)
        except OSError:  # the serving process is gone; the input thread tells the app
            return len(data)

    def run_input_thread(self) -> None:
        """Read input until the serving process closes the pipe, then quit the app."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._app.post_message(messages.ExitApp())
