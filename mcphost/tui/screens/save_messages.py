"""Form that saves entries of a server's message log to a new file, as JSON Lines."""

import re
from collections.abc import Sequence

import anyio.to_thread

from mcphost.host.message_export import export_json_lines
from mcphost.http_log import LoggedExchange
from mcphost.message_log import LoggedMessage
from mcphost.pluralize import translate_count
from mcphost.translation import _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file

_MAX_NAME = 60


class SaveMessagesForm(SaveFileForm):
    """Form that writes log entries without secrets to a new file that only the user can read."""

    def __init__(self, server: str, entries: Sequence[LoggedMessage | LoggedExchange]) -> None:
        """Create a form for *entries*, which are written in the given order."""
        super().__init__()
        self._server, self._entries = server, tuple(entries)

    def headline(self) -> str:
        """Return the title."""
        return _("Save the messages")

    def description(self) -> str:
        """Return a line with the number of entries and the format."""
        count = translate_count(len(self._entries), "row")
        return clean_line(
            _("{count} of {server}, as JSON Lines without secrets").format(count=count, server=self._server)
        )

    def suggest_name(self) -> str:
        """Return a file name derived from the server's name."""
        name = re.sub(r"[^\w.-]+", "-", self._server).strip("-.")[:_MAX_NAME]
        return f"{name or 'server'}-messages.jsonl"

    async def write(self, name: str) -> str:
        """Write the entries to the file *name* and return a message to show. Raises UsageError if that fails."""
        text = await anyio.to_thread.run_sync(export_json_lines, self._entries)
        content = text.encode("utf-8", "replace")
        return await anyio.to_thread.run_sync(write_new_file, resolve_file_name(name), content)
