"""A whole text on the whole screen: a big result, a log, a message."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from mcphost.tui.messages import CopyWanted
from mcphost.tui.sanitize import clean_line
from mcphost.tui.widgets.bars import KeyBar
from mcphost.tui.widgets.longtext import LongText


class Viewer(Screen[Any]):
    """Scroll, search, copy; escape goes back."""

    AUTO_FOCUS = "LongText"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("slash,ctrl+f", "search", show=False),
        Binding("n", "again", show=False),
        Binding("c", "copy", show=False),
    ]
    DEFAULT_CSS = """
    Viewer #head { height: 1; background: $surface; padding: 0 2; }
    Viewer LongText { height: 1fr; margin: 1 1 0 1; }
    Viewer Input { height: 1; border: none; background: $panel; margin: 0 2; display: none; }
    Viewer Input.shown { display: block; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.head, self.text = clean_line(title, 120), text
        self._found = -1
        self._needle = ""

    def compose(self) -> ComposeResult:
        lines = self.text.count("\n") + 1
        size = f"{lines:,} line{'s' if lines != 1 else ''} · {len(self.text):,} characters"
        yield Static(Content.assemble((self.head, "bold $accent"), (f"  {size}", "$faint")), id="head", markup=False)
        yield LongText(self.text)
        yield Input(placeholder="Find", compact=True)
        yield KeyBar(
            (
                ("/", "find", "screen.search"),
                ("n", "next", "screen.again"),
                ("c", "copy all", "screen.copy"),
                ("esc", "back", "screen.leave"),
            )
        )

    def on_mount(self) -> None:
        """Keys scroll at once."""
        self.query_one(LongText).focus()

    def action_search(self) -> None:
        """Open the search line."""
        line = self.query_one(Input)
        line.add_class("shown")
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Find it."""
        self._needle, self._found = event.value, -1
        self.query_one(Input).remove_class("shown")
        self.query_one(LongText).focus()
        self.action_again()

    def action_again(self) -> None:
        """The next place."""
        if not self._needle:
            return
        text = self.query_one(LongText)
        self._found = text.find(self._needle, self._found)
        if self._found < 0:
            self.notify("Not found.", markup=False, timeout=2)
        else:
            text.scroll_to(y=max(0, text.row_of(self._found) - 2), animate=False, force=True)

    def action_copy(self) -> None:
        """The selection, or everything up to a bound a terminal can take."""
        chosen = self.get_selected_text()
        self.post_message(CopyWanted(chosen or self.text[:1_000_000]))

    def action_leave(self) -> None:
        """Back."""
        if self.query_one(Input).has_focus:
            self.query_one(Input).remove_class("shown")
            self.query_one(LongText).focus()
            return
        self.dismiss(None)
