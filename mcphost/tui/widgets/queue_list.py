"""List of the messages that the user has queued while the model is answering.

The user can edit or remove a message until it has been passed to the running turn.
"""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset, Size
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import CursorMoved, QueueRecallRequested, QueueRow

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


class QueueList(Widget, can_focus=True):
    """List of the queued messages, one per row, with a cursor while it has the focus.

    The list is hidden when the queue is empty.
    """

    FOCUS_ON_CLICK = False  # so that text typed after a click goes to the message
    DEFAULT_CSS = """
    QueueList { height: auto; color: $muted; padding: 0 1; display: none; }
    QueueList.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter,space", "take(False)", show=False, id="queue-edit"),
        Binding("x,delete,backspace", "take(True)", show=False, id="queue-remove"),
        Binding("escape", "leave", show=False),
    ]

    class QueueLeft(Message):
        """Posted when the user leaves the list or moves a message to the composer, or the list becomes empty."""

    def __init__(self) -> None:
        super().__init__(id="queue")
        self.rows: tuple[QueueRow, ...] = ()
        self.index = 0

    def show(self, rows: Sequence[QueueRow]) -> None:
        """Show a row for each queued message.

        A message that has been passed to the running turn can no longer be edited or removed.
        """
        if (shown := tuple(rows)) == self.rows:
            return
        if self.rows[1:] == shown:  # the oldest was sent; the cursor stays on its message
            self.index -= 1
        self.rows, self.index = shown, max(0, min(self.index, len(shown) - 1))
        self.set_class(bool(shown), "shown")
        self.refresh(layout=True)
        if not shown and self.has_focus:
            self.post_message(self.QueueLeft())

    @property
    def _first(self) -> int:
        """The index of the first visible message; while the list has the focus, the cursor is always visible."""
        return max(0, min(self.index - MAX_SHOWN // 2, len(self.rows) - MAX_SHOWN)) if self.has_focus else 0

    @property
    def cursor_screen_offset(self) -> Offset:
        """The position on the screen of the row at the cursor."""
        return self.content_region.offset + Offset(0, self.index - self._first)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height: one row for each message that is shown, and one row for the key hint."""
        del container, viewport, width
        return min(len(self.rows), MAX_SHOWN) + 1

    def render(self) -> Content:
        """Return one row for each message that is shown, and a row with the key hint."""
        width, hidden = max(20, self.content_size.width), len(self.rows) - MAX_SHOWN
        shown = list(enumerate(self.rows))[self._first : self._first + MAX_SHOWN]
        hint = _(_HINT)
        if self.has_focus and self.rows:
            hint = _(_STEERED_HINT if self.rows[self.index].is_steering else _FOCUSED_HINT)
        hint = keys_in_use(self).fill(hint, in_sentence=False)
        if hidden > 0:
            hint = _("{hidden} more").format(hidden=hidden) + " · " + hint
        lines = [self._render_row(number, row, width) for number, row in shown]
        return Content("\n").join([*lines, Content.styled(hint, "$faint").truncate(width, ellipsis=True)])

    def _render_row(self, number: int, row: QueueRow, width: int) -> Content:
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

    def on_focus(self) -> None:
        """Move the cursor to the newest message and show it."""
        self.index = max(0, len(self.rows) - 1)
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Remove the message whose × was clicked; otherwise, move the clicked message to the composer."""
        event.stop()
        number = event.style.meta.get("waiting")
        if isinstance(number, int) and number < len(self.rows):
            self.index = number
            self.action_take(bool(event.style.meta.get("remove")))

    def action_move(self, by: int) -> None:
        """Move the cursor by *by* rows; post `QueueLeft` if it would move below the last message."""
        if self.index + by >= len(self.rows):
            self.post_message(self.QueueLeft())
            return
        self.index = max(0, self.index + by)
        self.refresh()
        self.post_message(CursorMoved(self))

    def action_take(self, is_removal: bool) -> None:
        """Request that the message at the cursor be moved to the composer, or removed if *is_removal* is true.

        Do nothing if the message has already been passed to the running turn.
        """
        if not self.rows or self.rows[self.index].is_steering:
            return
        self.post_message(QueueRecallRequested((self.index, self.rows[self.index].text), is_removal=is_removal))
        if not is_removal:
            self.post_message(self.QueueLeft())

    def action_leave(self) -> None:
        """Leave the list and return the focus to the message input."""
        self.post_message(self.QueueLeft())
