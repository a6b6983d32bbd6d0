"""Widgets that show the targets of servers, and record which targets were drawn completely.

A target is a server's command line or URL.
"""

from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option


class TargetOption(Option):
    """Row of a TargetList; the text of the row ends with a server's target.

    *width* is the width of the text in terminal cells. If the list is narrower, the end of the target is cut off.
    """

    def __init__(self, content: Content, width: int) -> None:
        super().__init__(content)
        self.width = width


class TargetList(OptionList):
    """List with one row for each server.

    Once the row of a server has been drawn completely, the index of the server is added to the set *seen*.
    """

    def __init__(self, *options: TargetOption, seen: set[int], id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(*options, id=id, markup=False, compact=True)
        self._seen = seen

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the rows in *crop*, the part of the list on the screen, and record the targets drawn completely."""
        strips = super().render_lines(crop)
        visible = self.scrollable_content_region.reset_offset.intersection(crop)
        top = self.scroll_offset.y
        for index in range(top + visible.y, min(top + visible.bottom, self.option_count)):
            option = self.options[index]
            # The last cell of a row that is cut off is an ellipsis.
            if visible.x == 0 and isinstance(option, TargetOption) and option.width < visible.width:
                self._seen.add(index)
        return strips


class TargetDetails(Static):
    """Details of one server.

    Once the details have been drawn completely, the index of the server is added to the set *seen*.
    """

    def __init__(self, *, seen: set[int], id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__("", id=id, markup=False)
        self._seen = seen
        self._index: int | None = None
        self._shown = Content("")

    def show(self, content: Content, index: int | None) -> None:
        """Show *content*.

        *index* is the position of the server, or None if *content* does not contain its complete target.
        """
        self._shown, self._index = content, index
        self.update(content)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the rows in *crop*, the part on the screen; record the server if all rows are drawn completely."""
        strips = super().render_lines(crop)
        visible = self.content_region.reset_offset.intersection(crop)
        has_whole_rows = visible.offset == (0, 0) and 0 < visible.width == self.content_size.width
        if self._index is not None and has_whole_rows:
            rows = self._shown.get_height({}, visible.width)
            self._seen.update({self._index} if rows <= visible.height else ())
        return strips
