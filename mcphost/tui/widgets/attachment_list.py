"""List of the next message's attachments, which the user can preview, refresh and remove."""

from typing import ClassVar, NamedTuple

from textual import events
from textual._cells import cell_len
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.style import Style

from mcphost.pluralize import translate_count
from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line, pad_cells
from mcphost.tui.widget_messages import AttachmentAction
from mcphost.tui.widgets.row_list import RowList

MAX_SHOWN = 5
"""Maximum number of attachments shown at a time; the list scrolls to the one at the cursor."""
_WIDEST_KIND = 9
_ROW_HINT = N_("shift+tab selects · backspace removes")
_FOCUSED_HINT = N_("{attachments-open} views · {attachments-remove} removes · esc back")
_CHANGED_HINT = N_(
    "{attachments-open} views · {attachments-refresh} reads it again · {attachments-remove} removes · esc back"
)
_SENT_HINT = N_(
    "{attachments-open} views · {attachments-refresh} attaches what changed · {attachments-remove} ignores it"
    " · esc back"
)
_REFRESH_HINT = N_("shift+tab, then {attachments-refresh} reads it again")


class AttachmentRow(NamedTuple):
    """One attachment in the list: its kind, name, size as text, and estimated number of tokens.

    - `is_changed`: whether the server has reported a newer version of the resource.
    - `is_sent`: whether this is not an attachment of the next message, but a resource that was sent earlier and has
      changed since.
    """

    kind: str
    name: str
    size: str
    tokens: int
    is_changed: bool = False
    is_sent: bool = False


class AttachmentList(RowList[AttachmentRow]):
    """List with a row for each attachment."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "act('open')", show=False, id="attachments-open"),
        Binding("x,delete,backspace", "act('remove')", show=False, id="attachments-remove"),
        Binding("r", "act('refresh')", show=False, id="attachments-refresh"),
    ]

    class Requested(Message):
        """Posted when the user opens, removes or refreshes the attachment in row `index`."""

        def __init__(self, action: AttachmentAction, index: int) -> None:
            super().__init__()
            self.action: AttachmentAction = action
            self.index = index

    def __init__(self) -> None:
        super().__init__("attached", MAX_SHOWN)

    def show(self, rows: tuple[AttachmentRow, ...]) -> None:
        """Show *rows*, replacing the current ones; hide the list if there are none."""
        if rows != self.rows:
            self.show_rows(rows)

    @property
    def resting_row(self) -> int:
        """The index of the row to keep visible while the list does not have the focus: the newest attachment."""
        return len(self.rows) - 1

    def hint(self) -> str:
        """Return the key hints and, while the list does not have the focus, the estimated tokens of all attachments."""
        if self.has_focus:
            row = self.rows[self.index]
            hint = _(_SENT_HINT if row.is_sent else _CHANGED_HINT if row.is_changed else _FOCUSED_HINT)
            return keys_in_use(self).fill(hint, in_sentence=False)  # each row has its tokens
        new = [row for row in self.rows if not row.is_sent]
        total = f"{translate_count(len(new), 'attachment')}, " if len(new) > 1 else ""
        size = sum(row.tokens for row in new)
        tokens = _("{total}about {count:,} tokens").format(total=total, count=size) if new else ""
        hint = _(_REFRESH_HINT if any(row.is_changed for row in self.rows) else _ROW_HINT)
        hint = keys_in_use(self).fill(hint, in_sentence=False)
        return " · ".join(filter(None, (tokens, hint)))

    def render_row(self, number: int, row: AttachmentRow, width: int) -> Content:
        """Return the kind, name and size of an attachment, and a × that removes it."""
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

    def action_act(self, action: AttachmentAction) -> None:
        """Post a request to perform *action* (open, remove or refresh) on the attachment at the cursor."""
        if self.rows:
            self.post_message(self.Requested(action, self.index))
