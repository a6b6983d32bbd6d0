"""List of the next message's attachments, which the user can preview, refresh and remove."""

from typing import ClassVar, NamedTuple

from textual import events
from textual._cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset, Size
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from mcphost.pluralize import translate_count
from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line, pad_cells
from mcphost.tui.widget_messages import AttachmentAction, CursorMoved

MAX_SHOWN = 5
"""Maximum number of attachments shown at a time; the list scrolls to the one at the cursor."""
_WIDEST_KIND = 9
_ROW_HINT = N_("shift+tab selects one · backspace removes the last")
_FOCUSED_HINT = N_("{attachments-open} views · {attachments-remove} removes · esc back")
_CHANGED_HINT = N_(
    "{attachments-open} views · {attachments-refresh} reads it again · {attachments-remove} removes · esc back"
)
_SENT_HINT = N_(
    "{attachments-open} views · {attachments-refresh} attaches what changed · {attachments-remove} ignores it"
    " · esc back"
)
_REFRESH_HINT = N_("shift+tab selects one; {attachments-refresh} reads it again")


class AttachmentRow(NamedTuple):
    """One attachment in the list: its kind, name, size as text, and estimated number of tokens.

    `is_changed` is True if the server has reported a newer version of the resource. If `is_sent` is True, the row
    is not an attachment of the next message; it is a resource that was sent earlier and has changed since then.
    """

    kind: str
    name: str
    size: str
    tokens: int
    is_changed: bool = False
    is_sent: bool = False


class AttachmentList(Widget, can_focus=True):
    """List with a row for each attachment, and a cursor while it has the focus.

    The list is hidden if there are no attachments.
    """

    FOCUS_ON_CLICK = False  # so that text typed after a click goes to the message
    DEFAULT_CSS = """
    AttachmentList { height: auto; color: $muted; padding: 0 1; display: none; }
    AttachmentList.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter,space", "act('open')", show=False, id="attachments-open"),
        Binding("x,delete,backspace", "act('remove')", show=False, id="attachments-remove"),
        Binding("r", "act('refresh')", show=False, id="attachments-refresh"),
        Binding("escape", "leave", show=False),
    ]

    class Requested(Message):
        """Posted when the user opens, removes or refreshes the attachment in row `index`."""

        def __init__(self, action: AttachmentAction, index: int) -> None:
            super().__init__()
            self.action: AttachmentAction = action
            self.index = index

    class Left(Message):
        """Posted when the user leaves the list or removes the last attachment."""

    def __init__(self) -> None:
        super().__init__(id="attached")
        self.rows: tuple[AttachmentRow, ...] = ()
        self.index = 0

    def show(self, rows: tuple[AttachmentRow, ...]) -> None:
        """Show *rows*, replacing the current ones; hide the list if there are none."""
        if rows == self.rows:
            return
        self.rows, self.index = rows, max(0, min(self.index, len(rows) - 1))
        self.set_class(bool(rows), "shown")
        self.refresh(layout=True)
        if not rows and self.has_focus:
            self.post_message(self.Left())

    @property
    def _first(self) -> int:
        """The index of the first visible row.

        While the list has the focus, the row at the cursor is visible; otherwise, the newest row is visible.
        """
        at = self.index if self.has_focus else len(self.rows) - 1
        return max(0, min(at - MAX_SHOWN // 2, len(self.rows) - MAX_SHOWN))

    @property
    def cursor_screen_offset(self) -> Offset:
        """The position on the screen of the row at the cursor."""
        return self.content_region.offset + Offset(0, self.index - self._first)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height: one row for each attachment that is shown, and one row for the key hint."""
        del container, viewport, width
        return min(len(self.rows), MAX_SHOWN) + 1

    def render(self) -> Content:
        """Return one row for each attachment that is shown, and a row with the key hint."""
        width, first = max(20, self.content_size.width), self._first
        shown = list(enumerate(self.rows))[first : first + MAX_SHOWN]
        lines = [self._render_row(number, row, width) for number, row in shown]
        return Content("\n").join([*lines, Content.styled(self._hint(), "$faint").truncate(width, ellipsis=True)])

    def _hint(self) -> str:
        hidden = len(self.rows) - MAX_SHOWN
        count = _("{hidden} more").format(hidden=hidden) if hidden > 0 else ""
        if self.has_focus:
            row = self.rows[self.index]
            hint = _(_SENT_HINT if row.is_sent else _CHANGED_HINT if row.is_changed else _FOCUSED_HINT)
            hint = keys_in_use(self).fill(hint, in_sentence=False)
            return " · ".join(filter(None, (count, hint)))  # each row has its tokens
        new = [row for row in self.rows if not row.is_sent]
        total = f"{translate_count(len(new), 'attachment')}, " if len(new) > 1 else ""
        size = sum(row.tokens for row in new)
        tokens = _("{total}about {count:,} tokens").format(total=total, count=size) if new else ""
        hint = _(_REFRESH_HINT if any(row.is_changed for row in self.rows) else _ROW_HINT)
        hint = keys_in_use(self).fill(hint, in_sentence=False)
        return " · ".join(filter(None, (count, tokens, hint)))

    def _render_row(self, number: int, row: AttachmentRow, width: int) -> Content:
        is_chosen = self.has_focus and number == self.index
        kind = pad_cells(_(row.kind), _WIDEST_KIND)
        size = (
            _("  {tokens:,} tokens").format(tokens=row.tokens)
            if width < (90 if row.is_changed else 60)
            else _("  {size} · {tokens:,} tokens").format(size=row.size, tokens=row.tokens)
        )
        changed = _("  changed since it was sent") if row.is_sent else _("  changed") if row.is_changed else ""
        room = width - 2 - cell_len(kind) - 1 - cell_len(size) - cell_len(changed) - 4
        name = Content(clean_line(row.name, 200)).truncate(max(4, room), ellipsis=True)
        gap = " " * max(0, room - name.cell_length)
        left = Content.assemble(
            ("› " if is_chosen else "▲ " if row.is_changed else "@ ", "$warning" if row.is_changed else "$accent"),
            (f"{kind} ", "$faint"),
            name.stylize("bold $text" if is_chosen else "$text"),
            (changed, "$warning"),
            gap,
            (size, "$muted"),
        )
        left = left.stylize(Style.from_meta({"attachment": number, "action": "open"}))
        close = Content.styled(" × ", "bold $text" if is_chosen else "$muted")
        return Content.assemble(left, " ", close.stylize(Style.from_meta({"attachment": number, "action": "remove"})))

    def on_focus(self) -> None:
        """Move the cursor to the newest attachment and show it."""
        self.index = max(0, len(self.rows) - 1)
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Remove the attachment if its × was clicked; otherwise, preview the clicked attachment."""
        event.stop()
        number = event.style.meta.get("attachment")
        if isinstance(number, int) and number < len(self.rows):
            self.index = number
            self.refresh()
            self.post_message(
                self.Requested("remove" if event.style.meta.get("action") == "remove" else "open", number)
            )

    def action_move(self, by: int) -> None:
        """Move the cursor by *by* rows; post `Left` if it would move below the last attachment."""
        if self.index + by >= len(self.rows):
            self.post_message(self.Left())
            return
        self.index = max(0, self.index + by)
        self.refresh()
        self.post_message(CursorMoved(self))

    def action_act(self, action: AttachmentAction) -> None:
        """Post a request to perform *action* (open, remove or refresh) on the attachment at the cursor."""
        if self.rows:
            self.post_message(self.Requested(action, self.index))

    def action_leave(self) -> None:
        """Leave the list and return the focus to the message input."""
        self.post_message(self.Left())
