"""Log screen for server developers, which shows the log of one server across the whole terminal."""

import re
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from mcphost.errors import UsageError
from mcphost.pluralize import translate_count
from mcphost.translation import _
from mcphost.tui.key_table import KeyRow
from mcphost.tui.screen_reader import update_seconds
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file
from mcphost.tui.screens.text_viewer import MAX_COPIED, TextViewerScreen
from mcphost.tui.widget_messages import CopyRequested
from mcphost.tui.widgets.log_text import LogText
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

UPDATE_SECONDS = 0.5
"""Seconds after which new lines are shown, no matter how many arrive."""


class ServerLogScreen(TextViewerScreen):
    """Log of one server, oldest line first; it follows the newest line until the user scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "save", show=False, id="viewer-save")]
    DEFAULT_CSS = "ServerLogScreen #nothing { margin: 1 2 0 2; }"

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__(_("Log of {server}").format(server=clean_line(server, 60)), "")
        self.host = host
        self._server = server

    def compose_text(self) -> LongText:
        """Create the view of the log."""
        return LogText()

    def key_rows(self) -> tuple[KeyRow, ...]:
        """Return a (key, label, action) tuple for each key, including the key that saves the log."""
        rows = super().key_rows()
        return (*rows[:-1], ("s", _("save"), "screen.save"), rows[-1])

    def compose(self) -> ComposeResult:
        """Create the view, and the line "nothing yet", which is shown while the log is empty."""
        head, *others = super().compose()
        yield head
        yield Static(Content.styled(_("nothing yet"), "$muted"), id="nothing", markup=False)
        yield from others

    def on_mount(self) -> None:
        """Show the lines of the log, and keep them up to date."""
        super().on_mount()
        self.watch(self._log, "scroll_y", self._update_head, init=False)
        self._update()
        self.set_interval(update_seconds(self, UPDATE_SECONDS), self._update)

    @property
    def _log(self) -> LogText:
        return self.query_one(LogText)

    def _update(self) -> None:
        try:
            lines = self.host.servers.view(self._server).log
        except UsageError:  # the server was removed
            return
        if self.is_open and self._log.update_lines(lines):
            self.text = self._log.text
            self._update_head()

    def _update_head(self) -> None:
        if self.is_open:
            self.query_one("#head", Static).update(self._headline())
            self.query_one("#nothing").display = not self.text

    def _headline(self) -> Content:
        lines = self.query(LogText)
        count = lines.first().line_count if lines else 0
        follows = not lines or lines.first().is_following
        state = _("following the newest line") if follows else _("End follows the newest line")
        return Content.assemble(
            (self.heading, "bold $accent"),
            (f"  {translate_count(count, 'line')}", "$faint"),
            (f" · {state}" if count else "", "$faint" if follows else "$warning"),
        )

    def action_copy(self) -> None:
        """Copy the selected text or, if nothing is selected, the last 1,000,000 characters of the log."""
        self.post_message(CopyRequested(self.get_selected_text() or self.text[-MAX_COPIED:]))

    def action_save(self) -> None:
        """Ask for the name of a new file, and write the log to it."""
        self.app.push_screen(SaveLogForm(self._server, self.text))  # pyright: ignore[reportUnknownMemberType]


class SaveLogForm(SaveFileForm):
    """Form that saves a server's log to a new file; *text* is the log at the time when the form is opened."""

    def __init__(self, server: str, text: str) -> None:
        super().__init__()
        self._server, self._text = server, text

    def headline(self) -> str:
        """Return the title."""
        return _("Save the log")

    def description(self) -> str:
        """Return a line that names the server and says how many lines are saved."""
        count = translate_count(self._text.count("\n") + 1, "line")
        return f"{clean_line(self._server, 60)} · {count}"

    def suggest_name(self) -> str:
        """Return a file name derived from the server's name."""
        name = re.sub(r"[^\w.-]+", "-", self._server[:60]).strip("-.")
        return f"{name or 'server'}-log.txt"

    async def write(self, name: str) -> str:
        """Write the log to the file *name*; return a message to show. Raises UsageError if that fails."""
        data = f"{self._text}\n".encode("utf-8", "replace")
        return await anyio.to_thread.run_sync(partial(write_new_file, resolve_file_name(name), data))
