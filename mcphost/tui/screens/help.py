"""Help screen (F1), which lists all keys and commands, and explains the marks on tool calls."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from mcphost.translation import _
from mcphost.tui.actions import ACTIONS
from mcphost.tui.key_table import DEFAULT_KEYS, KeyTable, format_key, keys_in_use
from mcphost.tui.screen_text import pad_cells
from mcphost.tui.screens.help_keys import LOCAL_KEYS
from mcphost.tui.transcript.tool_card import STATES
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.status_bars import KeyBar


def render_help(width: int = 100, keys: KeyTable = DEFAULT_KEYS) -> Content:
    """Return the full help text, wrapped to *width* columns."""
    lines: list[Content] = [Content.styled(_("Everywhere"), "bold $accent")]
    shown = {one.name: " ".join(map(format_key, keys.keys_of(one.name))) for one in ACTIONS}
    column = max(6, *(len(text) + 1 for text in shown.values()))
    for action in ACTIONS:
        slash = f"/{action.slash}" if action.slash else ""
        lead = Content.assemble((f"  {pad_cells(shown[action.name], column)}", "bold"), (f"{slash:<15}", "$muted"))
        lines += _layout_help_row(lead, _(action.help), width)
    where = ""
    for place, key, does in LOCAL_KEYS:
        if place != where:
            lines += [Content(""), Content.styled(_(place), "bold $accent")]
            where = place
        names = keys.fill(_(key), in_sentence=False)
        if not names and not keys.names_any(does):
            continue  # the user removed its key
        lead = Content.styled(f"  {pad_cells(names or '–', 26)}", "bold")
        lines += _layout_help_row(lead, keys.fill(_(does)), width)
    lines += [Content(""), Content.styled(_("Marks on tool calls"), "bold $accent")]
    for mark, words, style in STATES.values():
        lines.append(Content.assemble((f"  {mark}  ", style), (_(words), "$text")))
    lines += [
        Content(""),
        Content.styled(_("Marks like ␛ or ‹U+202E›"), "bold $accent"),
        Content(_("  stand for characters that could control your terminal or hide text. They are never sent to it.")),
    ]
    return Content("\n").join(lines)


def _layout_help_row(lead: Content, words: str, width: int) -> list[Content]:
    blank = Content(" " * lead.cell_length)
    rows = Content.styled(words, "$text").wrap(max(10, width - lead.cell_length))
    return [Content.assemble(blank if number else lead, row) for number, row in enumerate(rows)]


class HelpScreen(ScreenLifecycle, Screen[Any]):
    """Screen that lists the keys, the commands and the marks on tool calls."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "leave", show=False)]
    DEFAULT_CSS = """
    HelpScreen #head { height: 1; background: $surface; padding: 0 2; }
    HelpScreen VerticalScroll { margin: 1 2 0 2; scrollbar-size-vertical: 1; }
    """

    def compose(self) -> ComposeResult:
        """Create the title, the scrollable help text and the key bar."""
        yield Static(Content.styled(_("Help"), "bold $accent"), id="head", markup=False)
        with VerticalScroll():
            width = self.app.size.width - 5  # pyright: ignore[reportUnknownMemberType]
            yield Static(render_help(width, keys_in_use(self)), id="page", markup=False)
        yield KeyBar((("↑↓", _("scroll"), ""), ("esc", _("back"), "screen.leave")))

    def on_resize(self) -> None:
        """Wrap the help text to the new width."""
        self.query_one("#page", Static).update(render_help(self.size.width - 5, keys_in_use(self)))

    def action_leave(self) -> None:
        """Return to the chat."""
        self.dismiss(None)
