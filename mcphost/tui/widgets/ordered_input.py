"""Text inputs whose editing keys act in the order they were pressed, however busy the screen is."""

from textual import events
from textual.geometry import Offset
from textual.widgets import Input, TextArea


async def run_key_binding(widget: Input | TextArea, event: events.Key) -> None:
    """Run the widget's own binding of a key when the key arrives.

    Textual inserts letters at once but runs bindings such as backspace after the key reached the app: on a busy screen
    backspace removed what was typed after it.
    """
    for binding in () if event.is_printable else widget._bindings.key_to_bindings.get(event.key, ()):  # pyright: ignore[reportPrivateUsage]
        if not binding.priority and await widget.app.run_action(binding.action, widget):  # pyright: ignore[reportUnknownMemberType]
            event.stop()
            event.prevent_default()
            return


class OrderedInput(Input):
    """Input with ordered editing keys."""

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)


class OrderedTextArea(TextArea):
    """TextArea with ordered editing keys."""

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll the cursor into view unless its line was just removed by an undo.

        Textual 8.2.8 moves the cursor after it changed the text: if a scrollbar appears in between, it looks for a line
        that is gone (ValueError). It scrolls again when the cursor has moved.
        """
        if self.cursor_location[0] >= self.document.line_count:
            return Offset()
        return super().scroll_cursor_visible(center=center, animate=animate)

    async def _on_key(self, event: events.Key) -> None:
        await run_key_binding(self, event)
