"""Screen that shows a URL as a QR code for another device, in black on white in every theme.

Many fonts leave gaps between block characters, and these gaps confuse scanners. The modules (squares) of the code are
therefore drawn as blank characters with a background color. In the small size, where a cell shows two modules, a
half-block character is used only if the two differ. It fills the half in which a gap is less likely to confuse
scanners.
"""

from itertools import groupby
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static

from mcphost.translation import _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle

QUIET_ZONE = 4
"""Width in modules of the white margin around the code, which scanners need (ISO/IEC 18004)."""
_COLOURS = ("#ffffff", "#000000")
_STYLES = {
    (front, behind): Style.parse(f"{_COLOURS[front]} on {_COLOURS[behind]}") for front in (0, 1) for behind in (0, 1)
}
_MAX_LENGTH = 2_000


def build_matrix(text: str) -> list[list[int]]:
    """Return the modules (squares) of a QR code, row by row; 1 is dark and 0 is light.

    The rows include the white margin. Return [] if the text is empty or longer than 2,000 characters.
    """
    import segno

    if not text or len(text) > _MAX_LENGTH:
        return []
    code = segno.make(text, error="l", micro=False)
    return [[int(module) for module in row] for row in code.matrix_iter(border=QUIET_ZONE)]


QrCell = tuple[str, int, int]
"""A character, its color and its background color; 1 is dark, 0 is light."""


def render_large(modules: list[list[int]]) -> list[list[QrCell]]:
    """Return rows of terminal cells in which each module (square) takes up two blank cells."""
    return [[(" ", 1 - module, module) for module in row for _unused in range(2)] for row in modules]


def render_small(modules: list[list[int]]) -> list[list[QrCell]]:
    """Return rows of terminal cells in which each cell shows two modules (squares), one above the other."""
    light = [0] * len(modules[0])
    padded = [light, *modules, *([light] * (1 + len(modules) % 2))]
    return [
        [_render_cell(*column) for column in zip(*padded[row : row + 4], strict=True)]
        for row in range(0, len(modules), 2)
    ]


def _render_cell(above: int, upper: int, lower: int, below: int) -> QrCell:
    if upper == lower:
        return " ", 1 - upper, upper
    # A gap at the edge of a block shows the background, which does not matter next to a cell of that color.
    from_below = lower != below or upper == above
    return ("▄", lower, upper) if from_below else ("▀", upper, lower)


def render_cells(rows: list[list[QrCell]]) -> Content:
    """Convert rows of terminal cells to styled text."""
    lines = [
        Content.assemble(
            *(
                ("".join(cell[0] for cell in run), _STYLES[style])
                for style, run in groupby(row, key=lambda cell: cell[1:])
            )
        )
        for row in rows
    ]
    return Content("\n").join(lines)


class QrCode(Static):
    """Widget that shows text as a QR code.

    It shows a message instead if the widget is too small or the text is too long.
    """

    DEFAULT_CSS = "QrCode { width: 1fr; height: 1fr; content-align: center middle; text-align: center; }"

    def __init__(self, text: str) -> None:
        super().__init__("", markup=False)
        self.modules = build_matrix(text)

    def on_resize(self) -> None:
        """Render the QR code in the largest size that fits, or show a message if no size fits."""
        if not self.modules:
            self.update(Content.styled(_("This is too long for a QR code."), "$warning"))
            return
        for draw in (render_large, render_small):
            rows = draw(self.modules)
            if len(rows[0]) <= self.size.width and len(rows) <= self.size.height:
                self.update(render_cells(rows))
                return
        width, more = len(self.modules[0]), len(render_small(self.modules)) + 2  # title and key bar of the screen
        needs = _("The window is too small for the QR code: it needs {width} columns and {more} rows.").format(
            width=width, more=more
        )
        text = _("{needs}\nEnlarge it, or go back and press y to copy the URL.").format(needs=needs)
        self.update(Content.styled(text, "$warning"))


class QrScreen(ScreenLifecycle, Screen[Any]):
    """Screen with a title and a QR code."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "leave", show=False)]
    DEFAULT_CSS = """
    QrScreen { background: $background; }
    QrScreen #head { height: 1; background: $surface; padding: 0 2; }
    QrScreen QrCode { color: $text; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.heading, self.text = clean_line(title, 120), text

    def compose(self) -> ComposeResult:
        """Create the title line and the QR code."""
        head = Content.assemble((self.heading, "bold $accent"), (_("  esc back"), "$faint"))
        yield Static(head, id="head", markup=False)
        yield QrCode(self.text)

    def action_leave(self) -> None:
        """Return to the previous screen."""
        self.dismiss(None)
