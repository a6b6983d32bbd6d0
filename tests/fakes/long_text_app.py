"""An app that shows a single long text."""

from textual.app import App, ComposeResult

from mcphost.tui.widgets.long_text import LongText


class LongTextApp(App[None]):
    """A Textual app that contains only mcphost's viewer for long texts."""

    def compose(self) -> ComposeResult:
        yield LongText(id="t")
