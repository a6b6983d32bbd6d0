"""A whole text on the whole screen: a big result, a log, a message."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from mcphost.errors import StoreError
from mcphost.pluralize import counted
from mcphost.tui.messages import CopyWanted, Section, joined
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.ordered_input import TextLine
from mcphost.tui.widgets.screen_lifecycle import Presence
from mcphost.tui.widgets.status_bars import KeyBar


class Viewer(Presence, Screen[Any]):
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

    def __init__(
        self,
        title: str,
        text: str,
        seen: Callable[[], None] | None = None,
        whole: Callable[[], Awaitable[str]] | None = None,
        sections: Sequence[Section] = (),
    ) -> None:
        """`seen` is called once, when the last row was on the screen; `whole` gets the text of which this is a part.

        `sections` are shown in place of `text`.
        """
        super().__init__()
        self._whole = whole
        self._seen = seen
        self._sections = sections
        self.head, self.text = clean_line(title, 120), joined(sections) if sections else text
        self._found = -1
        self._needle = ""

    def compose(self) -> ComposeResult:
        yield Static(self._headline(), id="head", markup=False)
        yield LongText("" if self._sections else self.text)
        yield TextLine(placeholder="Find", compact=True)
        yield KeyBar(
            (
                ("/", "find", "screen.search"),
                ("n", "next", "screen.again"),
                ("c", "copy all", "screen.copy"),
                ("esc", "back", "screen.leave"),
            )
        )

    def _headline(self) -> Content:
        lines = self.text.count("\n") + 1
        size = f"{counted(lines, 'line')} · {len(self.text):,} characters"
        return Content.assemble((self.head, "bold $accent"), (f"  {size}", "$faint"))

    async def _load(self, whole: Callable[[], Awaitable[str]]) -> None:
        try:
            self.text = await whole()
        except StoreError as error:
            self.notify(f"{error.message} This is its beginning.", markup=False, severity="warning")
            return
        self.query_one("#head", Static).update(self._headline())
        self.query_one(LongText).show(self.text)

    def on_mount(self) -> None:
        """Keys scroll at once."""
        if self._sections:
            self.query_one(LongText).show("", self._sections)
        if self._whole is not None:
            self.run_worker(partial(self._load, self._whole))
        text = self.query_one(LongText)
        text.focus()
        self.watch(text, "scroll_y", self._look, init=False)
        self.watch(text, "virtual_size", self._look, init=False)
        self.call_after_refresh(self._look)

    def _look(self) -> None:
        if not self.is_there:
            return
        text = self.query_one(LongText)
        if self._seen and text.size.height and text.is_counted and text.scroll_y + text.size.height >= text.rows:
            seen, self._seen = self._seen, None
            self.call_after_refresh(seen)

    def action_search(self) -> None:
        """Open the search line."""
        line = self.query_one(Input)
        line.add_class("shown")
        line.focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Find it."""
        self._needle, self._found = event.value, -1
        self.query_one(Input).remove_class("shown")
        self.query_one(LongText).focus()
        await self.action_again()

    async def action_again(self) -> None:
        """The next place."""
        if not self._needle:
            return
        text = self.query_one(LongText)
        self._found = text.find(self._needle, self._found)
        if self._found < 0:
            self.notify("Not found.", markup=False, timeout=2)
        else:
            row = await text.row_of(self._found)
            text.scroll_to(y=max(0, row - 2), animate=False, force=True)

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
