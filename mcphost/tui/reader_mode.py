"""The mode for screen readers: who draws for one, and which characters are not read aloud."""

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
    """Return whether the app of a widget or screen draws for a screen reader."""
    try:
        return bool(getattr(node.app, "is_reader", False))
    except RuntimeError:  # there is no app
        return False


def update_seconds(node: Any, seconds: float) -> float:
    """Return how often to update a text that shows the time: every *seconds*, for a screen reader once a minute."""
    return _QUIET_SECONDS if is_reader(node) else seconds


def replace_drawing(text: str) -> str:
    """Replace characters for drawing boxes and bars with ASCII characters, each with one of the same width."""
    return text.translate(_DRAWING)


def is_drawing(text: str) -> bool:
    """Return whether a text consists of nothing but spaces and characters for drawing boxes and bars."""
    return all(ord(one) in _DRAWING or one == " " for one in text)


def remove_drawing(text: str) -> str:
    """Remove characters for drawing boxes and bars."""
    return "".join(one for one in text if ord(one) not in _DRAWING)
