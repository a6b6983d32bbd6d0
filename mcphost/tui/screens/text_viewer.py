"""Full-screen viewer for long text, such as a tool result, a log or a message."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from mcphost.errors import StoreError
from mcphost.pluralize import translate_count
from mcphost.translation import _, translate_sentence
from mcphost.tui.key_table import KeyRow
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import CopyRequested, Section, join_sections
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.status_bars import KeyBar
from mcphost.tui.widgets.text_inputs import OrderedInput

MAX_COPIED = 1_000_000
"""Maximum number of characters that are copied if nothing is selected."""


class TextViewerScreen(ScreenLifecycle, Screen[Any]):
    """Full-screen text viewer with scrolling, searching and copying; Escape closes the viewer."""

    AUTO_FOCUS = "LongText"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", show=False),
        Binding("slash,ctrl+f", "search", show=False, id="viewer-find"),
        Binding("n", "find_next", show=False, id="viewer-next"),
        Binding("c", "copy", show=False, id="viewer-copy"),
    ]
    DEFAULT_CSS = """
    TextViewerScreen #head { height: 1; background: $surface; padding: 0 2; }
    TextViewerScreen LongText { height: 1fr; margin: 1 1 0 1; }
    TextViewerScreen Input { height: 1; border: none; background: $panel; margin: 0 2; display: none; }
    TextViewerScreen Input.shown { display: block; }
    """

    def __init__(
        self,
        title: str,
        text: str,
        on_end_shown: Callable[[], None] | None = None,
        load_full_text: Callable[[], Awaitable[str]] | None = None,
        sections: Sequence[Section] = (),
        language: str = "",
    ) -> None:
        """Create a viewer for *text*, or for *sections* if there are any.

        *language* is the programming language for syntax highlighting, or "" for none. The callback *on_end_shown* is
        called once, when the last row becomes visible. If *text* is truncated, pass *load_full_text*, which must return
        the full text or raise StoreError.
        """
        super().__init__()
        self._full_text_loader = load_full_text
        self._end_shown_callback = on_end_shown
        self._sections, self._language = sections, language
        self.heading, self.text = clean_line(title, 120), join_sections(sections) if sections else text
        self._match_offset = -1
        self._search_text = ""

    def compose(self) -> ComposeResult:
        """Create the title, the text, the hidden search line and the key bar."""
        yield Static(self._headline(), id="head", markup=False)
        yield self.compose_text()
        yield OrderedInput(placeholder=_("Find"), compact=True)
        yield KeyBar(self.key_rows())

    def compose_text(self) -> LongText:
        """Create the widget that shows the text."""
        return LongText("" if self._sections or self._language else self.text)

    def key_rows(self) -> tuple[KeyRow, ...]:
        """Return a (key, label, action) tuple for each key in the key bar."""
        return (
            ("/", _("find"), "screen.search"),
            ("n", _("next match"), "screen.find_next"),
            ("c", _("copy all"), "screen.copy"),
            ("esc", _("back"), "screen.leave"),
        )

    def _headline(self) -> Content:
        lines = self.text.count("\n") + 1
        size = _("{lines} · {text_count:,} characters").format(
            lines=translate_count(lines, "line"), text_count=len(self.text)
        )
        return Content.assemble((self.heading, "bold $accent"), (f"  {size}", "$faint"))

    async def _load_full_text(self, load_full_text: Callable[[], Awaitable[str]]) -> None:
        try:
            self.text = await load_full_text()
        except StoreError as error:
            self.notify(
                _("{message} This is its beginning.").format(message=translate_sentence(error.message)),
                markup=False,
                severity="warning",
            )
            return
        self.query_one("#head", Static).update(self._headline())
        self.query_one(LongText).show(self.text)

    def on_mount(self) -> None:
        """Load the full text if necessary, focus the text, and watch for its last row to become visible."""
        if self._sections or self._language:
            self.query_one(LongText).show(self.text, self._sections, language=self._language)
        if self._full_text_loader is not None:
            self.run_worker(partial(self._load_full_text, self._full_text_loader))
        text = self.query_one(LongText)
        text.focus()
        self.watch(text, "scroll_y", self.check_end_shown, init=False)
        self.watch(text, "virtual_size", self.check_end_shown, init=False)
        self.call_after_refresh(self.check_end_shown)

    def check_end_shown(self) -> None:
        """Call the `on_end_shown` callback the first time that the last row is visible."""
        if not self.is_open:
            return
        text = self.query_one(LongText)
        if (
            self._end_shown_callback
            and text.size.height
            and text.is_counted
            and text.scroll_y + text.size.height >= text.rows
        ):
            seen, self._end_shown_callback = self._end_shown_callback, None
            self.call_after_refresh(seen)

    def action_search(self) -> None:
        """Show the search line and focus it."""
        line = self.query_one(Input)
        line.add_class("shown")
        line.focus()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hide the search line and scroll to the first match."""
        self._search_text, self._match_offset = event.value, -1
        self.query_one(Input).remove_class("shown")
        self.query_one(LongText).focus()
        await self.action_find_next()

    async def action_find_next(self) -> None:
        """Scroll to the next match, wrapping around at the end; show a notification if there is no match."""
        if not self._search_text:
            return
        text = self.query_one(LongText)
        self._match_offset = text.find(self._search_text, self._match_offset)
        if self._match_offset < 0:
            self.notify(_("Not found."), markup=False, timeout=2)
        else:
            row = await text.find_row(self._match_offset)
            text.scroll_to(y=max(0, row - 2), animate=False, force=True)

    def action_copy(self) -> None:
        """Copy the selected text or, if nothing is selected, the first 1,000,000 characters of the text."""
        chosen = self.get_selected_text()
        self.post_message(CopyRequested(chosen or self.text[:MAX_COPIED]))

    def action_leave(self) -> None:
        """Hide the search line if it has the focus; otherwise close the viewer."""
        if self.query_one(Input).has_focus:
            self.query_one(Input).remove_class("shown")
            self.query_one(LongText).focus()
            return
        self.dismiss(None)
