"""Page of a form, whose rows are mounted and shown in small groups."""

from itertools import pairwise

from textual.app import ComposeResult

from mcphost.tui.forms.form_row import FormRow
from mcphost.tui.widgets.laid_out_once import Column

PAGE_FIELDS = 10
_EXTRA_FIELDS = 3
"""How many fields more than `PAGE_FIELDS` a page may have, so that no page has only one or two."""
_WHOLE_FIELDS = 5
"""Maximum number of fields with short values on a page that is mounted at once; other pages are mounted in groups."""
_GROUP_FIELDS = 3


class RowGroup(Column):
    """Rows of a page that are mounted and shown in one step.

    Until then, the group is blank and about as high as its rows will be. The other groups therefore do not move, and
    Textual need not draw them again.
    """

    def __init__(self, rows: tuple[FormRow, ...]) -> None:
        super().__init__()
        self.rows = rows
        self.has_rows = False
        """Whether the rows are mounted, or are being mounted."""
        self.is_shown = False
        self._column = Column()

    def compose(self) -> ComposeResult:
        """Mount the rows of this group if `is_shown` is already set."""
        if self.is_shown:
            self.has_rows = True
            with self._column:
                yield from self.rows
        else:
            self.styles.min_height = sum(row.estimated_height for row in self.rows)
            yield self._column

    async def mount_rows(self, *, is_shown: bool) -> None:
        """Mount the rows; they are visible only if *is_shown* is true."""
        self.has_rows = True
        self._column.display = is_shown
        await self._column.mount(*self.rows)
        if is_shown:
            self._end_reservation()  # not before, because the screen may be laid out while the rows are being mounted

    def show_rows(self) -> None:
        """Show the rows, which must be mounted."""
        if not self.is_shown:
            self._end_reservation()
            self._column.display = True

    def _end_reservation(self) -> None:
        self.is_shown = True
        self.styles.min_height = None


class FormPage(Column):
    """Page of a form: consecutive rows that are shown together.

    The page is mounted when the form first needs it. Its rows are mounted and shown in small groups, because
    Textual cannot be interrupted while it styles and lays out new widgets.
    """

    def __init__(self, rows: tuple[FormRow, ...]) -> None:
        super().__init__()
        self.rows = rows
        self._groups = tuple(map(RowGroup, split_into_groups(rows)))

    def compose(self) -> ComposeResult:
        """Create all groups; only the first one mounts its rows immediately."""
        self._groups[0].is_shown = True
        yield from self._groups

    @property
    def is_mounted_whole(self) -> bool:
        """Whether all rows of the page are mounted."""
        return all(group.has_rows for group in self._groups)

    @property
    def is_shown_whole(self) -> bool:
        """Whether the rows of all groups are mounted and shown; the page itself may still be hidden."""
        return all(group.is_shown for group in self._groups)

    async def mount_next_rows(self, *, is_shown: bool = False) -> None:
        """Mount the next group of rows, if there is one; it is visible only if *is_shown* is true."""
        for group in [group for group in self._groups if not group.has_rows][:1]:
            await group.mount_rows(is_shown=is_shown)

    async def show_next_rows(self) -> None:
        """Show the next group of rows; mount it if necessary."""
        hidden = next((group for group in self._groups if not group.is_shown), None)
        if hidden is not None and hidden.has_rows:
            hidden.show_rows()
        else:
            await self.mount_next_rows(is_shown=True)

    def show_rows_to(self, row: FormRow) -> None:
        """Show all mounted groups of rows up to and including the group that contains *row*."""
        for group in self._groups:
            if group.has_rows:
                group.show_rows()
            if row in group.rows:
                break

    @property
    def estimated_height(self) -> int:
        """The approximate height of the page in terminal rows if all descriptions are shown."""
        return sum(1 + (1 if row.field.description else 0) + (1 if row.field.secret else 0) for row in self.rows)


def split_into_pages(rows: tuple[FormRow, ...]) -> tuple[FormPage, ...]:
    """Divide the rows of a form evenly into pages of about ten; a form with at most 13 fields has one page."""
    count = max(1, -(-(len(rows) - _EXTRA_FIELDS) // PAGE_FIELDS))
    bounds = [len(rows) * at // count for at in range(count + 1)]
    return tuple(FormPage(rows[begin:end]) for begin, end in pairwise(bounds))


def split_into_groups(rows: tuple[FormRow, ...]) -> tuple[tuple[FormRow, ...], ...]:
    """Divide the rows of a page into groups that are small enough to be mounted quickly."""
    if sum(row.mounting_cost for row in rows) <= _WHOLE_FIELDS:
        return (rows,)
    groups: list[list[FormRow]] = []
    room = 0.0
    for row in rows:
        if row.mounting_cost > room:
            groups.append([])
            room = _GROUP_FIELDS
        groups[-1].append(row)
        room -= row.mounting_cost
    return tuple(map(tuple, groups))
