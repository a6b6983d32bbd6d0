"""The common shape of the browsing screens: search, a list, a preview, and the keys at the bottom."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mcphost.errors import McpHostError, SignInNeeded
from mcphost.host.results.icon_policy import drawable
from mcphost.protocol.base import Icon
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import laid_out
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.ordered_input import TextLine
from mcphost.tui.widgets.picture_view import PictureView
from mcphost.tui.widgets.screen_lifecycle import Presence
from mcphost.tui.widgets.status_bars import KeyBar

_SHOWN = 500
ICON_ROWS = 4


class Row(NamedTuple):
    """One entry: what it is for the screen, and how it reads."""

    value: Any
    title: str
    detail: str
    mark: str = ""
    mark_style: str = "$accent"


class Browser(Presence, Screen[Any]):
    """Search at the top, entries at the left, what the chosen one holds at the right (below on a narrow screen)."""

    TITLE_TEXT: ClassVar[str] = ""
    EMPTY: ClassVar[str] = "Nothing here yet."
    AUTO_FOCUS = "#entries"
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    # The actions of KEY_ROWS that do something where there is no entry.
    WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("ctrl+f", "search", show=False),
    ]
    DEFAULT_CSS = """
    Browser { background: $background; color: $text; layout: vertical; }
    Browser #head { height: 1; background: $surface; padding: 0 2; }
    Browser Input { margin: 1 2 0 2; background: $panel; border: none; height: 1; padding: 0 1; }
    Browser #halves { height: 1fr; margin: 1 2 0 2; }
    Browser #entries {
        width: 2fr; max-width: 60; height: 1fr; border: none; background: $surface; padding: 0;
        text-wrap: nowrap; text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
    }
    Browser #entries:focus { background-tint: transparent; }
    Browser #side { width: 3fr; height: 1fr; margin: 0 0 0 2; }
    Browser #icon { margin: 0 1 1 1; }
    Browser.narrow #icon { max-height: 2; }
    Browser #facts { height: auto; max-height: 50%; margin-bottom: 1; scrollbar-size-vertical: 1;
                     scrollbar-gutter: stable; }
    Browser #facts:focus, Browser LongText:focus { background: $surface; }
    Browser #about { height: auto; color: $text; padding: 0 1; }
    Browser LongText { height: 1fr; background: $background; }
    Browser.bare LongText { display: none; }
    Browser.bare #facts { max-height: 100%; }
    Browser.empty #entries { display: none; }
    Browser.narrow #halves { layout: vertical; }
    Browser.narrow #entries { width: 1fr; max-width: 100%; height: auto; }
    Browser.narrow #side { width: 1fr; height: 1fr; margin: 1 0 0 0; }
    Browser.narrow #facts { max-height: 75%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Row] = []
        self.shown: list[Row] = []
        self._about: Content | list[tuple[str, str]] = Content("")

    # -- what a screen fills in

    def load(self) -> Sequence[Row]:
        """All entries now."""
        return ()

    def chosen(self, row: Row) -> None:
        """Enter or a click on an entry."""

    def highlighted(self, row: Row) -> None:
        """The cursor is on an entry."""

    # -- frame

    def compose(self) -> ComposeResult:
        yield Static(Content.assemble((self.TITLE_TEXT, "bold $accent")), id="head", markup=False)
        yield TextLine(placeholder="Search", id="search", compact=True)
        with Horizontal(id="halves"):
            yield OptionList(id="entries", markup=False, compact=True)
            with Vertical(id="side"):
                yield PictureView(rows=ICON_ROWS, columns=2 * ICON_ROWS, id="icon")
                with VerticalScroll(id="facts", can_focus=False):
                    yield Static("", id="about", markup=False)
                yield LongText("", id="text")
        yield KeyBar(self._keys(), rows=2)

    def _keys(self) -> tuple[tuple[str, str, str], ...]:
        """The keys that do something now."""
        back = ("esc", "back", "screen.leave")
        searched = any(line.value for line in self.query("#search").results(Input))
        if not self.entries and not searched:
            return (*(key for key in self.KEY_ROWS if key[2] in self.WITHOUT_ENTRY), back)
        return (*self.KEY_ROWS, ("tab", "read", "app.focus_next"), ("^F", "search", "screen.search"), back)

    def on_mount(self) -> None:
        """Load, and put the cursor on the first entry."""
        self.reload()
        self.query_one("#entries").focus()

    def on_resize(self) -> None:
        """Side by side where there is room."""
        narrow = self.size.width < 100
        self.set_class(narrow, "narrow")
        # An entry has two rows: none is shown by halves.
        self.query_one("#entries").styles.max_height = max(6, self.size.height // 3 // 2 * 2 - 2) if narrow else None
        self.call_after_refresh(lambda: self.about(self._about))

    def reload(self) -> None:
        """Read the entries again."""
        self.entries = list(self.load())
        self.filter(self.query_one("#search", Input).value)

    def server_changed(self) -> None:
        """A server came, went or changed its offers."""
        self.reload()

    def resource_changed(self, server: str, uri: str) -> None:
        """A watched resource is not what it was."""

    def filter(self, text: str) -> None:
        """Show the entries that hold every word."""
        words = text.lower().split()
        found = [row for row in self.entries if all(word in f"{row.title} {row.detail}".lower() for word in words)]
        self.shown = found[:_SHOWN]
        count = f"  {len(found)} of {len(self.entries)}" if self.entries else ""
        self.query_one("#head", Static).update(Content.assemble((self.TITLE_TEXT, "bold $accent"), (count, "$faint")))
        entries = self.query_one("#entries", OptionList)
        keep = entries.highlighted or 0
        self.set_class(not self.entries, "empty")
        self.query_one(KeyBar).show(self._keys())
        entries.clear_options()
        if not self.shown:
            if self.entries:
                entries.add_option(Option(Content.styled(" Nothing matches.", "$muted"), disabled=True))
                self.about(Content(""))
            else:
                self.about(Content.styled(self.EMPTY, "$muted"))
            self.query_one(LongText).show("")
            return
        entries.add_options([Option(self.prompt(row)) for row in self.shown])
        entries.highlighted = min(keep, len(self.shown) - 1)

    def prompt(self, row: Row) -> Content:
        """How an entry looks in the list."""
        first = Content.assemble((f" {row.mark or ' '} ", row.mark_style), clean_line(row.title, 120))
        return Content.assemble(first, ("\n   " + clean_line(row.detail, 160), "$muted")) if row.detail else first

    def icon(self, icons: tuple[Icon, ...]) -> None:
        """The icon of the entry, if it brought one that can be drawn."""
        theme = self.app.current_theme  # pyright: ignore[reportUnknownMemberType]
        self.query_one("#icon", PictureView).take(drawable(icons, dark=theme.dark))

    def about(self, content: Content | list[tuple[str, str]]) -> None:
        """What is known of the entry: words, or `facts`, whose values keep to their own column."""
        self._about = content
        pane = self.query_one("#about", Static)
        wide = pane.content_size.width or self.size.width
        pane.update(laid_out(content, wide) if isinstance(content, list) else content)
        self.query_one("#facts").scroll_home(animate=False)
        self.call_after_refresh(self._reachable)

    def _reachable(self) -> None:
        """Facts that do not fit are a stop of the tab key."""
        for pane in self.query("#facts"):
            pane.can_focus = pane.max_scroll_y > 0

    def current(self) -> Row | None:
        """The entry under the cursor."""
        number = self.query_one("#entries", OptionList).highlighted
        return self.shown[number] if number is not None and 0 <= number < len(self.shown) else None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        if event.input.id == "search":
            self.filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the search goes to the list."""
        if event.input.id == "search":
            self.query_one("#entries").focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Preview as the cursor moves."""
        event.stop()
        if 0 <= event.option_index < len(self.shown):
            self.highlighted(self.shown[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or click."""
        event.stop()
        if 0 <= event.option_index < len(self.shown):
            self.chosen(self.shown[event.option_index])

    def action_search(self) -> None:
        """To the search line."""
        self.query_one("#search").focus()

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)


def fix_here(error: McpHostError) -> str:
    """What went wrong and what to do, with the key first where this page and its like have one for it."""
    key = "s signs in here." if isinstance(error, SignInNeeded) else ""
    return " ".join(filter(None, (error.message, key, error.hint)))


def facts(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names and values for the about pane; both are cleaned here, for a server may have named them."""
    return [(clean_line(name, 40), clean_line(value, 600)) for name, value in pairs if value]
