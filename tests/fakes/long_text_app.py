"""An app that shows one long text."""

from textual.app import App, ComposeResult

from mcphost.tui.widgets.long_text import LongText


class LongTextApp(App[None]):
    """An app with the long text of the viewer and nothing else."""

    def compose(self) -> ComposeResult:
        yield LongText(id="t")
