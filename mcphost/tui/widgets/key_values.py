"""Widgets for name-value pairs and quoted text.

Their layout prevents a value from being mistaken for another pair or a heading.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from textual.content import Content
from textual.geometry import Size
from textual.selection import Selection
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from mcphost.tui.screen_reader import is_reader, replace_drawing
from mcphost.tui.screen_text import TAB_WIDTH, find_row_breaks, has_stable_width
from mcphost.tui.widgets.laid_out_once import LaidOutOnce, StaticText

_MAX_KEY_WIDTH = 24
_MIN_VALUE_WIDTH = 16
_MAX_LAYOUTS = 4
"""Widths whose layout is kept: while a dialog opens, Textual asks for several widths in turn."""


PairStyles = Mapping[int, tuple[str, str]]
"""Styles of the name and the value of a pair, keyed by the position of the pair."""
_NO_STYLES: PairStyles = {}


def wrap_content(content: Content, width: int) -> list[Content]:
    """Wrap text into rows of at most *width* cells.

    If the width of a character differs between terminals, the largest width is assumed.
    """
    if has_stable_width(content.plain):
        return content.wrap(width)
    lines = (line.expand_tabs(TAB_WIDTH) for line in content.split("\n", allow_blank=True))
    return [row for line in lines for row in line.divide(find_row_breaks(line.plain, width))]


def layout_pairs(
    pairs: Sequence[tuple[str, str | Content]],
    width: int,
    style: str = "$text",
    styles: PairStyles = _NO_STYLES,
    gap: int = 2,
    wrap_mark: str = "",
) -> Content:
    """Lay out name-value pairs within *width* cells, in two columns separated by *gap* cells.

    Names and values must already be sanitized. A name that is too long for its column is shown in rows above its value.

    - *style* applies to values that are plain strings.
    - *styles* maps the index of a pair to a name style and a value style, which replace the default styles.
    - *wrap_mark* precedes each row that continues a line of a value.
    """
    names = [Content(name).cell_length for name, _ in pairs]
    column = min(_MAX_KEY_WIDTH, max(0, width - _MIN_VALUE_WIDTH), max(names, default=0))
    room = max(1, width - column - gap)
    rows: list[Content] = []
    for at, ((name, value), cells) in enumerate(zip(pairs, names, strict=True)):
        of_name, of_value = styles.get(at, ("$muted", style))
        lead = Content.styled(name, of_name)
        if cells > column:
            rows.extend(wrap_content(lead, max(1, width)))
            lead = Content("")
        content = value if isinstance(value, Content) else Content.styled(value, of_value)
        for number, row in enumerate(
            _wrap_value(content, room, wrap_mark) if wrap_mark else wrap_content(content, room)
        ):
            first = lead if not number else Content("")
            rows.append(Content.assemble(first, " " * (column + gap - first.cell_length), row))
    return Content("\n").join(rows)


def _wrap_value(value: Content, width: int, mark: str) -> Iterator[Content]:
    """Wrap each line of a value, with *mark* before each row that continues a line."""
    for line in value.split("\n", allow_blank=True):
        rows = wrap_content(line, width)
        if len(rows) > 1:
            first, *more = wrap_content(line, max(1, width - len(mark)))
            rows = [first, *(Content.assemble((mark, "$faint"), row) for row in more)]
        yield from rows


class KeyValueList(StaticText):
    """Widget that shows name-value pairs in two columns, wrapped to its width.

    If *marks_wrapping* is true, a bar precedes each row that continues a line of a value, so that the row cannot be
    mistaken for a line of its own.
    """

    DEFAULT_CSS = """
    KeyValueList { height: auto; }
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str | Content]],
        *,
        style: str = "$text",
        styles: PairStyles = _NO_STYLES,
        gap: int = 2,
        marks_wrapping: bool = False,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__("", markup=False, id=id)
        self.pairs, self.value_style, self.pair_styles, self.gap = pairs, style, styles, gap
        self._marks_wrapping = marks_wrapping
        self._layouts: dict[int, Content] = {}

    def show(self, pairs: Sequence[tuple[str, str | Content]]) -> None:
        """Replace the displayed pairs with *pairs*."""
        self.pairs = pairs
        self._layouts.clear()
        self.refresh(layout=True)

    @property
    def plain(self) -> str:
        """The pairs as plain text, one pair per line."""
        return "\n".join(f"{name}  {value}" for name, value in self.pairs)

    def _layout_at_width(self, width: int) -> Content:
        if width not in self._layouts:
            if len(self._layouts) == _MAX_LAYOUTS:
                self._layouts.clear()
            mark = CONTINUATION_BAR if self._marks_wrapping else ""
            if mark and is_reader(self):
                mark = replace_drawing(mark)
            self._layouts[width] = layout_pairs(
                self.pairs, width, self.value_style, self.pair_styles, self.gap, wrap_mark=mark
            )
        return self._layouts[width]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows that the pairs take up at *width*."""
        del container, viewport
        return self._layout_at_width(width).plain.count("\n") + 1 if width and self.pairs else 0

    def render(self) -> Content:
        """Return the pairs laid out for the current width."""
        return self._layout_at_width(self.content_size.width)


_DIFF_STYLES = {"+": "$success", "-": "$error"}


def render_diff_lines(lines: Sequence[str], *, id: str | None = None) -> KeyValueList:  # noqa: A002 - Textual's own name
    """Create a widget for the lines of a diff, each of which begins with "+ ", "- " or two spaces.

    The signs have a separate column, so that wrapped text cannot imitate a sign.
    """
    pairs = [(line[:1].strip() or " ", line[2:]) for line in lines]
    looks = [_DIFF_STYLES.get(mark, "$muted") for mark, _ in pairs]
    styles = {at: (look, look) for at, look in enumerate(looks)}
    return KeyValueList(pairs, styles=styles, gap=1, id=id)


BAR, CONTINUATION_BAR = "│ ", "┆ "
_MARGIN = len(BAR)


class QuotedPart(NamedTuple):
    """Text in one style: either quoted text, which is shown with a bar before each row, or a heading.

    The text must be sanitized before it is laid out.
    """

    text: str
    style: str = ""
    is_heading: bool = False


class QuotedRow(NamedTuple):
    """One row on the screen: its prefix (a bar, or "" for a heading), its text and its style."""

    prefix: str
    text: str
    style: str


def layout_parts(parts: Iterable[QuotedPart], width: int) -> Iterator[QuotedRow]:
    """Wrap quoted text and headings into rows of at most *width* cells, including the prefix of each row."""
    room = max(1, width - _MARGIN)
    for text, style, is_heading in parts:
        first, more = ("", CONTINUATION_BAR) if is_heading else (BAR, BAR)
        for line in text.split("\n"):
            if len(line) <= room and line.isascii() and "\t" not in line:
                yield QuotedRow(
                    first, line, style
                )  # short lines, of which there may be hundreds of thousands, need no check of their characters
                continue
            for number, row in enumerate(wrap_content(Content(line), room)):
                yield QuotedRow(more if number else first, row.plain, style)


class QuotedText(LaidOutOnce, Widget):
    """Widget that shows headings and quoted text, wrapped to its width."""

    DEFAULT_CSS = """
    QuotedText { height: auto; }
    """

    def __init__(self, parts: Iterable[QuotedPart]) -> None:
        super().__init__()
        self.parts = tuple(parts)
        self._layouts: dict[int, list[QuotedRow]] = {}

    def update(self, parts: Iterable[QuotedPart]) -> None:
        """Replace the headings and the quoted text."""
        self.parts = tuple(parts)
        self._layouts.clear()
        self.refresh(layout=True)

    @property
    def plain(self) -> str:
        """The headings and the quoted text as plain text."""
        return "\n".join(part.text for part in self.parts)

    def _layout_rows(self, width: int) -> list[QuotedRow]:
        if width not in self._layouts:
            if len(self._layouts) == _MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts[width] = list(layout_parts(self.parts, width))
        return self._layouts[width]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows that the text takes up at *width*."""
        del container, viewport
        return len(self._layout_rows(width)) if width else 0

    def render_line(self, y: int) -> Strip:
        """Render row *y* with its prefix, and highlight the selected text."""
        width = self.size.width
        rows = self._layout_rows(width)
        if not 0 <= y < len(rows):
            return Strip.blank(width, self.visual_style.rich_style)
        lead, text, style = rows[y]
        if is_reader(self):
            lead = replace_drawing(lead)
        content = Content.assemble((lead, "$faint"), (text, style))
        span = self.text_selection.get_span(y) if self.text_selection is not None else None
        if span is not None:
            chosen = self.screen.get_visual_style("screen--selection")
            content = content.stylize(chosen, span[0], None if span[1] == -1 else span[1])
        strips = Visual.to_strips(self, content, width, 1, self.visual_style, apply_selection=False, pad=True)
        return strips[0].apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, including the bars, and the line feed that Textual appends to the text."""
        return selection.extract("\n".join(lead + text for lead, text, _ in self._layout_rows(self.size.width))), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the widget because the selection has changed."""
        del selection
        self.refresh()


def quote_statement(heading: str, text: str, style: str = "") -> QuotedText:
    """Create a widget that shows *heading* and, below it, a server's *text* with a bar before each row.

    The bars prevent the text from looking like a statement by mcphost. *text* must already be sanitized.
    """
    return QuotedText([QuotedPart(heading, "$faint", is_heading=True), QuotedPart(text, style)])
