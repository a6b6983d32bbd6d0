"""Driver of a chat that a browser shows (`mcphost serve`): frames go to a pipe instead of a terminal."""

import os
from typing import Any, cast

from textual import messages
from textual.drivers.web_driver import WebDriver


class ServedDriver(WebDriver):
    """Textual's driver for browsers that also quits the app when the serving process is gone.

    Textual's own driver goes on without input then, as a process that nobody can reach.
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
