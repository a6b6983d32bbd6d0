"""Text to type into: keys that edit act in the order in which they were pressed, however busy the screen is."""

from textual import events
from textual.geometry import Offset
from textual.widgets import Input, TextArea


async def run_key_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Act on a key of the widget's own when it hears of it.

    Textual inserts a letter at once, and acts on backspace and its like only when the key has travelled up to the app:
    on a busy screen backspace took away what was typed after it.
    """
    for binding in () if event.is_printable else widget._bindings.key_to_bindings.get(event.key, ()):  # pyright: ignore[reportPrivateUsage]
        if not binding.priority and await widget.app.run_action(binding.action, widget):  # pyright: ignore[reportUnknownMemberType]
            event.stop()
            event.prevent_default()
            return


class OrderedInput(Input):
    """One line."""

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class OrderedTextArea(TextArea):
    """Several lines."""

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll the cursor into view, unless it stands on a line that an undo has just removed.

        Textual 8.2.8 moves the cursor after it has changed the text: when a scrollbar comes or goes in between, it
        looks for a line that is gone (ValueError). It scrolls once more when the cursor has moved.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center=center, animate=animate)

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)
