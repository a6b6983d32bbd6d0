"""F1: the keys from the one table, the commands, and what the marks mean."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from mcphost.tui.keys import ACTIONS, LOCAL_KEYS
from mcphost.tui.widgets.bars import KeyBar
from mcphost.tui.widgets.toolcard import STATES


def help_content() -> Content:
    """The whole page."""
    lines: list[Content] = [Content.styled("Everywhere", "bold $accent")]
    for action in ACTIONS:
        slash = f"/{action.slash}" if action.slash else ""
        lines.append(
            Content.assemble(
                (f"  {action.shown:<6}", "bold"),
                (f"{slash:<12}", "$muted"),
                (action.help, "$text"),
            )
        )
    where = ""
    for place, key, does in LOCAL_KEYS:
        if place != where:
            lines += [Content(""), Content.styled(place, "bold $accent")]
            where = place
        lines.append(Content.assemble((f"  {key:<26}", "bold"), (does, "$text")))
    lines += [Content(""), Content.styled("Marks on tool calls", "bold $accent")]
    for mark, words, style in STATES.values():
        lines.append(Content.assemble((f"  {mark}  ", style), (words, "$text")))
    lines += [
        Content(""),
        Content.styled("Marks like ␛ or ‹U+202E›", "bold $accent"),
        Content("  stand for characters that could command your terminal or hide text. They are never sent to it."),
    ]
    return Content("\n").join(lines)


class Help(Screen[Any]):
    """Keys and commands."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1", "leave", show=False)]
    DEFAULT_CSS = """
    Help #head { height: 1; background: $surface; padding: 0 2; }
    Help VerticalScroll { margin: 1 2 0 2; scrollbar-size-vertical: 1; }
    """

    def compose(self) -> ComposeResult:
        yield Static(Content.styled("Help", "bold $accent"), id="head", markup=False)
        with VerticalScroll():
            yield Static(help_content(), markup=False)
        yield KeyBar((("↑↓", "scroll", ""), ("esc", "back", "screen.leave")))

    def action_leave(self) -> None:
        """Back to the chat."""
        self.dismiss(None)
