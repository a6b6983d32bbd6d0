"""Single-row text that changes often."""

from textual.content import Content
from textual.visual import VisualType

from mcphost.tui.widgets.laid_out_once import StaticText


class OneLineText(StaticText):
    """Single-row text that fills the available width, so that a change does not require a new layout."""

    DEFAULT_CSS = "OneLineText { height: 1; }"

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """Show *content*, a string or Content; do nothing if the text and its styles are unchanged."""
        super().update(content if isinstance(content, Content) else Content(str(content)), layout=layout)
