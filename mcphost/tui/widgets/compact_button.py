"""Button that takes up a single row."""

from textual.content import ContentText
from textual.widgets import Button

from mcphost.tui.widgets.laid_out_once import LaidOutOnce
from mcphost.tui.widgets.styled_on_mount import StyledOnMount


class CompactButton(StyledOnMount, LaidOutOnce, Button):
    """Single-row button without a border; *locked* makes it look disabled at first."""

    def __init__(self, label: ContentText, *, id: str, classes: str = "", locked: bool = False) -> None:  # noqa: A002
        super().__init__(label, id=id, classes=f"{classes} locked" if locked else classes, compact=True)
