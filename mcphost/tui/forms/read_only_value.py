"""Read-only widget for the value of a form field that cannot be edited safely."""

from typing import Any

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field
from mcphost.translation import N_, _
from mcphost.tui.forms.field_widgets import EXIT_KEYS, MAX_EDITABLE_LENGTH, format_value, request_focus_move
from mcphost.tui.forms.wrapped_text import WrappedText
from mcphost.tui.screen_text import clean_beginning


class ReadOnlyValue(Static, can_focus=True):
    """Read-only display of a value that is too long to edit or contains hidden characters.

    Hidden characters are shown as marks. Backspace clears the value, after which the field can be edited.
    """

    key_hints = N_("backspace clears it")
    scrolls_pages = False

    def __init__(self, field: Field, value: Any) -> None:
        self.field_value: Any = value
        shown, rest = clean_beginning(format_value(field, value), MAX_EDITABLE_LENGTH, MAX_EDITABLE_LENGTH)
        shown += _("\n… {text_count:,} more characters").format(text_count=rest) if rest else ""
        self._wrapped = WrappedText(shown)
        super().__init__(Content(shown), markup=False)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows of the wrapped value."""
        return self._wrapped.count_rows(width)

    def render_line(self, y: int) -> Strip:
        """Draw one row of the value; `Static` would style and wrap all of it at once."""
        color = self.visual_style.rich_style
        marked = color + self.screen.get_component_rich_style("screen--selection")
        return self._wrapped.render_row(y, self.content_size.width, color, self.text_selection, marked)

    class Cleared(Message):
        """Posted when the user clears the value; the form then replaces this widget with an empty input."""

    def exit_direction(self, key: str) -> int:
        """Return 1 if *key* moves the focus to the next field, -1 for the previous field, and 0 otherwise."""
        return EXIT_KEYS.get(key, 0)

    def on_key(self, event: events.Key) -> None:
        """Clear the value with Backspace or Delete; move to another field with Enter or an arrow key."""
        if event.key in ("backspace", "delete"):
            event.stop()
            self.post_message(self.Cleared())
        elif request_focus_move(self, self.exit_direction(event.key)):
            event.stop()
