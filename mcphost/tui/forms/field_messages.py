"""Messages that the input widgets of a form post to the form."""

from textual.message import Message
from textual.widget import Widget


class FieldChanged(Message):
    """Posted when the value of a field has changed."""


class FocusMoveRequested(Message):
    """Posted when a key moves the focus out of a field; `direction` is 1 (next) or -1 (previous)."""

    def __init__(self, direction: int) -> None:
        super().__init__()
        self.direction = direction


EXIT_KEYS = {"enter": 1, "down": 1, "up": -1}
"""Keys that leave a single-line field, with their direction: 1 to the next field, -1 to the previous one."""


def request_focus_move(widget: Widget, direction: int) -> bool:
    """Post FocusMoveRequested from *widget*; do nothing and return False if *direction* is 0."""
    return bool(direction) and widget.post_message(FocusMoveRequested(direction))
