"""Text to type into: keys that edit act in the order in which they were pressed, however busy the screen is."""

from textual import events
from textual.widgets import Input, TextArea


async def act(widget: Input | TextArea, event: events.Key) -> None:
    """Act on a key of the widget's own when it hears of it.

    Textual inserts a letter at once, and acts on backspace and its like only when the key has travelled up to the app:
    on a busy screen backspace took away what was typed after it.
    """
    for binding in () if event.is_printable else widget._bindings.key_to_bindings.get(event.key, ()):  # pyright: ignore[reportPrivateUsage]
        if not binding.priority and await widget.app.run_action(binding.action, widget):  # pyright: ignore[reportUnknownMemberType]
            event.stop()
            event.prevent_default()
            return


class TextLine(Input):
    """One line."""

    async def _on_key(self, event: events.Key) -> None:
        await act(self, event)


class TextBlock(TextArea):
    """Several lines."""

    async def _on_key(self, event: events.Key) -> None:
        await act(self, event)
