"""A minimal Textual app, used as the baseline for the startup benchmark."""

# pyright: basic

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Footer, Header, Input


class Minimal(App[None]):
    """An app with a Header, an Input and a Footer."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        """Yield the three widgets of the app."""
        yield Header()
        yield Input(placeholder="Type a message")
        yield Footer()


if __name__ == "__main__":
    Minimal().run()
