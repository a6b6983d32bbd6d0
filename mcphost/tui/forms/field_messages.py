"""Messages of field widgets to their form."""

from textual.message import Message
from textual.widget import Widget


class FieldChanged(Message):
    """Posted when the user changed the value."""


class FocusMoveRequested(Message):
    """Posted when the user moves to the next field (1) or the previous one (-1)."""

    def __init__(self, direction: int) -> None:
        super().__init__()
        self.direction = direction


def request_focus_move(widget: Widget, key: str) -> bool:
    """Post FocusMoveRequested if the key leaves a one-line field; return whether it did."""
    direction = {"enter": 1, "down": 1, "up": -1}.get(key, 0)
    if direction:
        widget.post_message(FocusMoveRequested(direction))
    return bool(direction)
