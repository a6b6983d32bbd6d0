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


EXIT_KEYS = {"enter": 1, "down": 1, "up": -1}
"""Keys that leave a field of one line, and where to."""


def request_focus_move(widget: Widget, direction: int) -> bool:
    """Post FocusMoveRequested unless the direction is 0; return whether it was posted."""
    return bool(direction) and widget.post_message(FocusMoveRequested(direction))
