"""List of the messages that the user has queued while the model is answering.

The user can edit or remove a message until it has been passed to the running turn.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.style import Style

from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import QueueRecallRequested, QueueRow
from mcphost.tui.widgets.row_list import RowList

MAX_SHOWN = 4
"""Maximum number of messages shown at a time; with the focus, the list scrolls to the one at the cursor."""
_HINT = N_("up edits · shift+tab selects · {message-steer} after next tool")
_FOCUSED_HINT = N_("{queue-edit} edits · {queue-remove} removes · esc back")
_STEERED_HINT = N_("already passed on · esc back")
_PREFIXES = {
    (False, False): "",
    (False, True): N_("with its attachments: "),
    (True, False): N_("after the next tool: "),
    (True, True): N_("after the next tool, with its attachments: "),
}
"""The beginning of a row, keyed by whether its message was passed on and whether it has attachments."""


class QueueList(RowList[QueueRow]):
    """List of the queued messages, one per row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "take(False)", show=False, id="queue-edit"),
        Binding("x,delete,backspace", "take(True)", show=False, id="queue-remove"),
    ]

    def __init__(self) -> None:
        super().__init__("queue", MAX_SHOWN)

    def show(self, rows: Sequence[QueueRow]) -> None:
        """Show a row for each queued message.

        A message that has been passed to the running turn can no longer be edited or removed.
        """
        if (shown := tuple(rows)) == self.rows:
            return
        if self.rows[1:] == shown:  # the oldest was sent; the cursor stays on its message
            self.index -= 1
        self.show_rows(shown)

    def hint(self) -> str:
        """Return the key hints for the row at the cursor or, if the list does not have the focus, for the list."""
        hint = _(_HINT)
        if self.has_focus and self.rows:
            hint = _(_STEERED_HINT if self.rows[self.index].is_steering else _FOCUSED_HINT)
        return keys_in_use(self).fill(hint, in_sentence=False)

    def render_row(self, number: int, row: QueueRow, width: int) -> Content:
        """Return the beginning of a message, and a × that removes it unless the running turn already has it."""
        is_chosen = self.has_focus and number == self.index
        said = f"{_(_PREFIXES[row.is_steering, row.has_attachments])}{clean_line(row.text, 200)}"
        content = Content(said).truncate(width - 6, ellipsis=True)
        gap = " " * max(0, width - 6 - content.cell_length)
        style = "bold $text" if is_chosen else "$muted"
        left = Content.assemble(("› " if is_chosen else "» ", "$accent"), content.stylize(style), gap)
        left = left.stylize(Style.from_meta({"waiting": number, "remove": False}))
        if row.is_steering:
            return left
        close = Content.styled(" × ", style).stylize(Style.from_meta({"waiting": number, "remove": True}))
        return Content.assemble(left, " ", close)

    def on_click(self, event: events.Click) -> None:
        """Move the clicked message to the composer, or remove it if its × was clicked."""
        event.stop()
        number = event.style.meta.get("waiting")
        if isinstance(number, int) and number < len(self.rows):
            self.index = number
            self.action_take(bool(event.style.meta.get("remove")))

    def action_take(self, is_removal: bool) -> None:
        """Request that the message at the cursor be moved to the composer, or removed if *is_removal* is true.

        Do nothing if the message has already been passed to the running turn.
        """
        if not self.rows or self.rows[self.index].is_steering:
            return
        self.post_message(QueueRecallRequested((self.index, self.rows[self.index].text), is_removal=is_removal))
        if not is_removal:
            self.post_message(self.Left())
