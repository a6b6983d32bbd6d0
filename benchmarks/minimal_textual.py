"""The smallest Textual app worth the name: what any start-up is measured against."""

# pyright: basic

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Footer, Header, Input


class Minimal(App[None]):
    """Header, Input, Footer."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+q", "quit", "Quit")]

    def compose(self) -> ComposeResult:
        """The three widgets."""
        yield Header()
        yield Input(placeholder="Type a message")
        yield Footer()


if __name__ == "__main__":
    Minimal().run()
