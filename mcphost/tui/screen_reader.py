"""Functions for screen reader mode.

They check whether the mode is on, announce text, and replace or remove box-drawing and block characters.
"""

from typing import Any

_QUIET_SECONDS = 60.0
_HORIZONTAL = "─━┄┅┈┉╌╍═╴╶╸╺╼╾"
_VERTICAL = "│┃┆┇┊┋╎╏║╵╷╹╻╽╿"
_DRAWING = {
    **dict.fromkeys(range(9472, 9600), "+"),
    **dict.fromkeys(range(9600, 9632), "#"),
    **{ord(one): "-" for one in _HORIZONTAL},
    **{ord(one): "|" for one in _VERTICAL},
}


def is_reader(node: Any) -> bool:
    """Return whether the app that *node* belongs to is in screen reader mode."""
    try:
        return bool(getattr(node.app, "is_reader", False))
    except RuntimeError:  # there is no app
        return False


def announce(node: Any, text: str) -> None:
    """Show *text* in the first row of the screen if the app is in screen reader mode.

    Do nothing if *text* is empty.
    """
    if text and is_reader(node):
        node.app.notify_at_once(text)


def update_seconds(node: Any, seconds: float) -> float:
    """Return the interval in seconds at which to update a displayed time.

    This is *seconds* or, in screen reader mode, one minute.
    """
    return _QUIET_SECONDS if is_reader(node) else seconds


def replace_drawing(text: str) -> str:
    """Replace box-drawing and block characters with ASCII characters of the same width."""
    return text.translate(_DRAWING)


def is_drawing(text: str) -> bool:
    """Return whether *text* contains only spaces and box-drawing or block characters."""
    return all(ord(one) in _DRAWING or one == " " for one in text)


def remove_drawing(text: str) -> str:
    """Remove box-drawing and block characters."""
    return "".join(one for one in text if ord(one) not in _DRAWING)
