"""Text area for lines such as `NAME=VALUE`, in which values that look like secrets are hidden."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from mcphost.redact import is_probable_secret, is_secret_name
from mcphost.tui.widgets.text_inputs import OrderedTextArea

_MASK = "•"


class PairTextArea(OrderedTextArea):
    """Text area for a name and a value in each line; it masks values that look like secrets.

    Most secrets are recognized by their names, and are therefore masked from the first character on. References such as
    `${env:NAME}` are shown.
    """

    def __init__(self, separator: str, widget_id: str, placeholder: str) -> None:
        super().__init__(id=widget_id, tab_behavior="focus", compact=True, placeholder=placeholder)
        self._separator = separator

    def get_line(self, line_index: int) -> Text:
        """Return a line for display, with a secret replaced by as many dots as it has characters."""
        line = super().get_line(line_index)
        name, separator, value = line.plain.partition(self._separator)
        shown = value.strip()
        if "${" in shown or not (is_secret_name(name.strip()) or is_probable_secret(name.strip(), shown)):
            return line
        line.plain = f"{name}{separator}{''.join(_MASK if char.strip() else char for char in value)}"
        return line


class LabeledPairs(Horizontal):
    """Text area for pairs of names and values, with a label to its left; see `PairTextArea`."""

    DEFAULT_CSS: ClassVar[str] = """
    LabeledPairs { height: auto; }
    LabeledPairs Static { width: 16; color: $muted; }
    LabeledPairs TextArea { width: 1fr; height: 3; border: none; background: $surface; padding: 0 1; }
    LabeledPairs .text-area--placeholder { color: $muted; }
    """

    def __init__(self, label: str, separator: str, widget_id: str, *, placeholder: str) -> None:
        super().__init__()
        self._label = Content(label)
        self._area = PairTextArea(separator, widget_id, placeholder)

    def compose(self) -> ComposeResult:
        """Create the label and the text area."""
        yield Static(self._label, markup=False)
        yield self._area
