"""The entries of a list screen, with a line below them that counts the entries above and below the visible part."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from mcphost.translation import _


class _Entries(OptionList):
    """Option list that tells its parent when other entries may be visible than before."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self._count_hidden)

    def watch_virtual_size(self) -> None:
        self.call_after_refresh(self._count_hidden)

    def on_resize(self) -> None:
        self.call_after_refresh(self._count_hidden)

    def _count_hidden(self) -> None:
        if self.is_attached and isinstance(self.parent, EntryList):
            self.parent.show_hidden()


class EntryList(Vertical):
    """List of entries, and a line that says how many are above and below the visible ones."""

    class Shown(Message):
        """Message posted with the range of entries that are completely visible, without the entry *end*."""

        def __init__(self, first: int, end: int) -> None:
            super().__init__()
            self.first = first
            self.end = end

    _limit: int | None = None
    _max_height: int | None = None
    _is_fitted = False

    def compose(self) -> ComposeResult:
        """Create the list and the line below it."""
        yield _Entries(id="entries", markup=False, compact=True)
        yield Static("", id="hidden-entries", markup=False)

    @property
    def is_whole(self) -> bool:
        """Whether the list and the line are mounted; False if the screen is closed while it opens."""
        return len(self.query("#entries, #hidden-entries")) == 2

    def count_hidden(self) -> tuple[int, int]:
        """Return the numbers of entries that are scrolled out of view, partly or completely, above and below."""
        entries = self.query_one("#entries", OptionList)
        top, height = round(entries.scroll_y), entries.size.height
        above = below = row = 0
        for option in entries.options:
            end = row + str(option.prompt).count("\n") + 1
            above += row < top
            below += row >= top and end > top + height
            row = end
        return above, below

    def fit(self, rows: int | None) -> None:
        """Limit the list to *rows* rows; None removes the limit."""
        self._limit, self._is_fitted = rows, True
        if self.is_whole:
            self._apply_limit()
            self.call_after_refresh(self.show_hidden)

    def _apply_limit(self) -> bool:
        """Return whether the height of the list is going to change."""
        entries, rows = self.query_one("#entries", OptionList), self._limit
        if rows is not None and all("\n" in str(option.prompt) for option in entries.options):
            rows = max(2, rows // 2 * 2)  # no entry is cut after its first row
        if rows == self._max_height:
            return False
        self._max_height = entries.styles.max_height = rows
        entries.call_after_refresh(entries.scroll_to_highlight)
        return True

    def show_hidden(self) -> None:
        """Show how many entries are above and below the visible ones, or nothing if all are visible."""
        if not self.is_whole:
            return
        entries = self.query_one("#entries", OptionList)
        if (
            not self._is_fitted
            or self._apply_limit()
            or entries.size.height > (self._max_height or entries.size.height)
        ):
            return  # the list gets another height first
        above, below = self.count_hidden() if entries.size.height else (0, 0)
        parts = [
            _("↑ {count} more").format(count=above) if above else "",
            _("↓ {count} more").format(count=below) if below else "",
        ]
        self.query_one("#hidden-entries", Static).update(Content.styled("   ".join(filter(None, parts)), "$accent"))
        if entries.size.height:
            self.post_message(self.Shown(above, entries.option_count - below))
