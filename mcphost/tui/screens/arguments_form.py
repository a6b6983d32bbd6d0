"""Base class for forms that ask for the arguments of a prompt or the variables of a resource template."""

from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcphost.translation import _
from mcphost.tui.screen_text import clean_description
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.key_hints import wrap_key_hints
from mcphost.tui.widgets.key_values import quote_statement
from mcphost.tui.widgets.stepped_column import SteppedColumn

A = TypeVar("A")
_FRAME_ROWS, _MIN_FIELD_ROWS = 4, 4
_MAX_FAULT_ROWS = 6
"""Maximum rows of the error line; the style sheet of ArgumentsForm sets the same number."""


class ArgumentsForm(FormScreen[A]):
    """Form that shows a server's description above a column of inputs.

    A subclass can also show, below the inputs, the value that is built from them, such as an expanded URI. The
    description, the inputs and this value share the height that remains after the error line, the buttons and the key
    hints. Each of the three scrolls if necessary: Page Up and Page Down scroll them one after another, regardless of
    the focus.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "read(-1)", show=False, priority=True),
        Binding("pagedown", "read(1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    ArgumentsForm #box { border-title-style: none; padding: 1 2; }
    ArgumentsForm #fields { height: auto; }
    ArgumentsForm #description { height: auto; max-height: 30vh; margin-bottom: 1; }
    ArgumentsForm #made { height: auto; margin-bottom: 1; }
    ArgumentsForm #fault { max-height: 6; }
    ArgumentsForm #buttons { margin: 0; }
    ArgumentsForm #keys { text-align: left; }
    """

    def input_hints(self) -> str:
        """Return the key hints for the inputs and buttons."""
        raise NotImplementedError

    def describe(self, description: str | None) -> Iterator[Widget]:
        """Yield a scrolling widget with the server's *description*, unless it is empty."""
        if about := clean_description(description or ""):
            quoted = quote_statement(_("The server's description:"), about, "$muted")
            yield VerticalScroll(quoted, id="description", can_focus=False)

    def compose_made(self) -> ComposeResult:
        """Yield the scrolling widget for the value that is built from the inputs; `show_made` fills it."""
        with VerticalScroll(id="made", can_focus=False):
            yield Static("", markup=False)

    def show_made(self, value: Content) -> None:
        """Show the complete value that is built from the inputs, below the inputs."""
        self.query_one("#made Static", Static).update(value)
        self.fit()

    def show_fault(self, text: str) -> None:
        """Show an error message below the inputs; "" clears it.

        A long message leaves less height for the inputs, so `fit` divides the height again.
        """
        super().show_fault(text)
        self.fit()

    def key_hints(self) -> str:
        """Return the line that explains the keys.

        It includes the scrolling keys if the description, the inputs or the value do not fit on the screen.
        """
        return self._hints_with_scrolling() if self._overflowing() else self.input_hints()

    def _hints_with_scrolling(self) -> str:
        return _("{hints} · page up/down scroll").format(hints=self.input_hints())

    def on_resize(self) -> None:
        """Limit the height of the scrolling parts, so that the error line, buttons and key hints stay visible."""
        self.fit()

    def fit(self) -> None:
        """Divide the height between the description, the inputs and the value below them."""
        width = max(20, min(90, self.size.width * 9 // 10) - 6)
        free = self.size.height * 95 // 100 - _FRAME_ROWS
        free -= len(wrap_key_hints(self._hints_with_scrolling(), width)) + len(self.query("#buttons"))
        free -= min(_MAX_FAULT_ROWS, _count_rows(self.query_one("#fault", Static), width))
        for made in self.query("#made"):
            limit = max(1, free // 5)
            made.styles.max_height = limit
            free -= min(limit, _count_rows(made.query_one(Static), width)) + 1
        for description in self.query("#description"):
            limit = max(1, min(self.size.height * 3 // 10, free - _MIN_FIELD_ROWS - 1))
            description.styles.max_height = limit
            rows = sum(one.get_content_height(self.size, self.size, width) for one in description.children)
            free -= min(limit, rows) + 1
        for column in self.query(SteppedColumn):
            column.styles.max_height = max(_MIN_FIELD_ROWS, free)
        self.call_after_refresh(self._update_key_hints, width)

    def _update_key_hints(self, width: int) -> None:
        lines = wrap_key_hints(self.key_hints(), width)
        keys = self.query_one("#keys", Static)
        keys.styles.height = len(lines)
        keys.update("\n".join(lines))

    def _overflowing(self) -> list[Widget]:
        parts: Any = self.query("#description, #fields, #made")
        return [one for one in parts if one.max_scroll_y > 0]

    def action_read(self, by: int) -> None:
        """Scroll down by *by* pages, or up if *by* is negative.

        Each call scrolls one of three parts: the description, the inputs or the value built from them. When scrolling
        down, this is the first part that is not yet at its end; when scrolling up, the last that is not yet at its top.
        """
        parts = self._overflowing()
        if by > 0:
            below = [one for one in parts if one.scroll_target_y < one.max_scroll_y]
        else:
            below = [one for one in reversed(parts) if one.scroll_target_y > 0]
        for part in below[:1]:
            part.scroll_relative(y=by * max(1, part.size.height - 1), animate=False, immediate=True)


def _count_rows(text: Static, width: int) -> int:
    content = text.content
    return max(1, len(content.wrap(width))) if isinstance(content, Content) else 1
