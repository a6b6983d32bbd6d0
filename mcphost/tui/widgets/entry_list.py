"""List of entries for list screens, with group headings and a count of the entries out of view."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from mcphost.translation import _
from mcphost.tui.widgets.laid_out_once import FlexColumn
from mcphost.tui.widgets.one_line_text import OneLineText
from mcphost.tui.widgets.styled_on_mount import StyledOnMount


class EntryGroup(NamedTuple):
    """A group of entries: its heading, which is one line long, and the number of its entries."""

    heading: Content
    size: int


class EntryOption(Option):
    """Row of an entry; `index` is the entry's position among all entries, not counting headings."""

    def __init__(self, content: Content, index: int) -> None:
        super().__init__(content)
        self.index = index

    @property
    def line_count(self) -> int:
        """Number of lines of the entry; its lines are never wrapped."""
        return str(self.prompt).count("\n") + 1


class HeadingOption(Option):
    """Row that the cursor skips: the heading of a group, or a message shown instead of entries."""

    def __init__(self, content: Content) -> None:
        super().__init__(content, disabled=True)

    @property
    def line_count(self) -> int:
        """Number of lines of the row, which are never wrapped."""
        return str(self.prompt).count("\n") + 1


class Entries(StyledOnMount, OptionList):
    """Option list whose rows are entries and headings; only entries have an index.

    The heading of the first group is not a row, because EntryList shows the heading of the topmost group above the
    list. The list notifies its parent when the visible entries may have changed.
    """

    def __init__(self) -> None:
        super().__init__(id="entries", markup=False, compact=True)
        self._rows: list[EntryOption] = []
        self._positions: list[int] = []  # of each entry among all rows
        self._tops: list[int] = []  # the first line of each entry
        self._ends: list[int] = []  # the line after each entry
        self._heading_lines: list[int] = []
        self._headings: list[Content] = []

    def show_entries(self, contents: Sequence[Content], groups: Sequence[EntryGroup] = ()) -> None:
        """Replace all rows with an entry for each of *contents*, and put each group's heading above its entries.

        No entry is highlighted afterwards. *groups* divides the entries into consecutive groups; without groups, there
        are no headings.
        """
        headings: dict[int, Content] = {}
        begin = 0
        for group in groups:
            headings[begin] = group.heading
            begin += group.size
        self._rows = [EntryOption(content, index) for index, content in enumerate(contents)]
        self._headings = list(headings.values())
        self._positions = []
        options: list[Option] = []
        for row in self._rows:
            if row.index and row.index in headings:
                options.append(HeadingOption(headings[row.index]))
            self._positions.append(len(options))
            options.append(row)
        self._measure()
        self.clear_options().add_options(options)

    def _update_lines(self) -> None:
        # The lines of a row are known; Textual would style and wrap the texts of all 500 rows.
        cache = self._line_cache
        for index in range(cache.lines[-1][0] + 1 if cache.lines else 0, len(self.options)):
            option = self.options[index]
            count = option.line_count if isinstance(option, EntryOption | HeadingOption) else 1
            cache.index_to_line[index], cache.heights[index] = len(cache.lines), count
            cache.lines.extend((index, line) for line in range(count))
        super()._update_lines()

    def show_message(self, content: Content) -> None:
        """Replace all rows with a message, for example that nothing was found."""
        self.show_entries(())
        self.add_option(HeadingOption(content))

    def replace_entry(self, index: int, content: Content) -> None:
        """Replace the text of the entry at *index* with *content*."""
        row = self._rows[index]
        before = row.line_count
        self.replace_option_prompt_at_index(self._positions[index], content)
        if row.line_count != before:
            self._measure()

    def _measure(self) -> None:
        """Compute the positions of all entries and headings, in lines, so that scrolling is fast."""
        self._tops, self._ends, self._heading_lines = [], [], [-1] if self._headings else []
        line = row_count = 0
        for row, position in zip(self._rows, self._positions, strict=True):
            if position != row_count:
                self._heading_lines.append(line)
                line += 1
            self._tops.append(line)
            line += row.line_count
            self._ends.append(line)
            row_count = position + 1

    @property
    def cursor(self) -> int | None:
        """Index of the entry under the cursor, or None if there is none; setting it moves the cursor."""
        row = self.highlighted_option
        return row.index if isinstance(row, EntryOption) else None

    @cursor.setter
    def cursor(self, index: int) -> None:
        if self._positions:
            self.highlighted = self._positions[index]

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return len(self._rows)

    @property
    def cursor_line(self) -> int:
        """First line of the entry under the cursor, counted from the top of the list."""
        return 0 if self.cursor is None else self._tops[self.cursor]

    @property
    def has_pairs_of_lines(self) -> bool:
        """Whether every entry takes up at least two lines."""
        return all(end > top + 1 for top, end in zip(self._tops, self._ends, strict=True))

    def count_hidden(self) -> tuple[int, int]:
        """Return how many entries above, and how many below, are partly or completely scrolled out of view."""
        top = round(self.scroll_y)
        above = bisect_left(self._tops, top)
        shown = max(above, bisect_right(self._ends, top + self.size.height))
        return above, self.entry_count - shown

    def top_heading(self) -> Content | None:
        """Return the heading to show above the list, or None if there are no headings.

        This is the heading of the group to which the topmost visible line belongs. If this line is a heading, it is the
        heading of the previous group.
        """
        number = bisect_left(self._heading_lines, max(0, round(self.scroll_y))) - 1
        return self._headings[number] if self._headings else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Notify the parent that the visible entries may have changed."""
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self._report_visible)

    def watch_virtual_size(self) -> None:
        """Notify the parent that the visible entries may have changed."""
        self.call_after_refresh(self._report_visible)

    def on_resize(self) -> None:
        """Notify the parent that the visible entries may have changed."""
        self.call_after_refresh(self._report_visible)

    def _report_visible(self) -> None:
        if self.is_attached and isinstance(self.parent, EntryList):
            self.parent.show_hidden()


class EntryList(FlexColumn):
    """List of entries, with the heading of the topmost group above it and a count of the hidden entries below it."""

    class Shown(Message):
        """Posted when the visible entries may have changed.

        The entries from index `first` up to, but not including, `end` are completely visible.
        """

        def __init__(self, first: int, end: int) -> None:
            super().__init__()
            self.first = first
            self.end = end

    _limit: int | None = None
    _max_height: int | None = None
    _is_fitted = False

    def compose(self) -> ComposeResult:
        """Create the heading above the list, the list and the line below it."""
        heading = OneLineText("", id="top-heading", markup=False)
        heading.display = False
        yield heading
        yield Entries()
        yield OneLineText("", id="hidden-entries", markup=False)

    @property
    def is_whole(self) -> bool:
        """Whether all child widgets are mounted; false if the screen is closed before it has opened completely."""
        return len(self.query("#top-heading, #entries, #hidden-entries")) == 3

    def fit(self, rows: int | None) -> None:
        """Limit the list and the heading above it to *rows* rows; None removes the limit."""
        self._limit, self._is_fitted = rows, True
        if self.is_whole:
            self._apply_limit()
            self.call_after_refresh(self.show_hidden)

    def _apply_limit(self) -> bool:
        """Apply the limit on the number of rows; return whether this changes the height of the list."""
        entries, rows = self.query_one("#entries", Entries), self._limit
        if rows is not None:
            if self.query_one("#top-heading").display:
                rows = max(2, rows - 1)
            elif entries.has_pairs_of_lines:
                rows = max(2, rows // 2 * 2)  # an even height, so that no two-line entry is cut in half
        if rows == self._max_height:
            return False
        self._max_height = entries.styles.max_height = rows
        entries.call_after_refresh(entries.scroll_to_highlight)
        return True

    def show_heading(self) -> None:
        """Show the heading of the topmost group above the list, or nothing if there are no groups."""
        if not self.is_whole:
            return
        heading, line = self.query_one("#entries", Entries).top_heading(), self.query_one("#top-heading", OneLineText)
        line.display = heading is not None
        line.update(heading or "")

    def show_hidden(self) -> None:
        """Show how many entries are hidden above and below the visible ones, or nothing if all are visible."""
        if not self.is_whole:
            return
        self.show_heading()
        entries = self.query_one("#entries", Entries)
        if (
            not self._is_fitted
            or self._apply_limit()
            or entries.size.height > (self._max_height or entries.size.height)
        ):
            return  # the list gets another height first
        above, below = entries.count_hidden() if entries.size.height else (0, 0)
        parts = [
            _("↑ {count} more").format(count=above) if above else "",
            _("↓ {count} more").format(count=below) if below else "",
        ]
        self.query_one("#hidden-entries", OneLineText).update(
            Content.styled("   ".join(filter(None, parts)), "$accent")
        )
        if entries.size.height:
            self.post_message(self.Shown(above, entries.entry_count - below))
