"""An app that shows a single long text."""

from textual.app import App, ComposeResult

from mcphost.tui.widgets.long_text import LongText


class LongTextApp(App[None]):
    """An app that contains only the viewer for long texts."""

    def compose(self) -> ComposeResult:
        yield LongText(id="t")
