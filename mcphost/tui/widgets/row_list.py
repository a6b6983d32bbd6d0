"""List of rows above the message input, with a cursor while it has the focus."""

from typing import ClassVar, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset, Size
from textual.message import Message
from textual.widget import Widget

from mcphost.translation import _
from mcphost.tui.widget_messages import CursorMoved

R = TypeVar("R")


class RowList(Widget, Generic[R], can_focus=True):
    """Base class of lists that show some of their rows at a time, and a row with a key hint below them.

    The list is hidden if it has no rows.
    """

    FOCUS_ON_CLICK = False  # so that text typed after a click goes to the message
    DEFAULT_CSS = """
    RowList { height: auto; color: $muted; padding: 0 1; display: none; }
    RowList.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Left(Message):
        """Posted when the user leaves the list, or the list becomes empty while it has the focus."""

    def __init__(self, id: str, max_shown: int) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self.rows: tuple[R, ...] = ()
        self.index = 0
        self._max_shown = max_shown

    def show_rows(self, rows: tuple[R, ...]) -> None:
        """Show *rows*, replacing the current ones; hide the list if there are none."""
        self.rows, self.index = rows, max(0, min(self.index, len(rows) - 1))
        self.set_class(bool(rows), "shown")
        self.refresh(layout=True)
        if not rows and self.has_focus:
            self.post_message(self.Left())

    @property
    def resting_row(self) -> int:
        """The index of the row to keep visible while the list does not have the focus: by default, the oldest."""
        return 0

    def hint(self) -> str:
        """Return the text of the row with the key hint."""
        raise NotImplementedError

    def render_row(self, number: int, row: R, width: int) -> Content:
        """Return the row with the index *number*, at most *width* cells wide."""
        raise NotImplementedError

    @property
    def _first(self) -> int:
        """The index of the first visible row, chosen so that the row at the cursor or the `resting_row` is visible."""
        at = self.index if self.has_focus else self.resting_row
        return max(0, min(at - self._max_shown // 2, len(self.rows) - self._max_shown))

    @property
    def cursor_screen_offset(self) -> Offset:
        """The position on the screen of the row at the cursor."""
        return self.content_region.offset + Offset(0, self.index - self._first)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height: one line for each row that is shown, and one for the key hint."""
        del container, viewport, width
        return min(len(self.rows), self._max_shown) + 1

    def render(self) -> Content:
        """Return a line for each row that is shown, and one with the number of hidden rows and the key hint."""
        width, first, hidden = max(20, self.content_size.width), self._first, len(self.rows) - self._max_shown
        shown = list(enumerate(self.rows))[first : first + self._max_shown]
        lines = [self.render_row(number, row, width) for number, row in shown]
        count = _("{hidden} more").format(hidden=hidden) if hidden > 0 else ""
        hint = " · ".join(filter(None, (count, self.hint())))
        return Content("\n").join([*lines, Content.styled(hint, "$faint").truncate(width, ellipsis=True)])

    def on_focus(self) -> None:
        """Move the cursor to the newest row and show it."""
        self.index = max(0, len(self.rows) - 1)
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by *by* rows; post `Left` if it would move below the last row."""
        if self.index + by >= len(self.rows):
            self.post_message(self.Left())
            return
        self.index = max(0, self.index + by)
        self.refresh()
        self.post_message(CursorMoved(self))

    def action_leave(self) -> None:
        """Leave the list and return the focus to the message input."""
        self.post_message(self.Left())
