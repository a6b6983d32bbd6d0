"""Asks for the address of a resource that a server only describes by a template."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mcphost.protocol.resources import ResourceTemplate
from mcphost.tui.sanitize import clean, clean_line


class AddressForm(ModalScreen[str | None]):
    """The template to fill in; ends with the address, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    DEFAULT_CSS = """
    AddressForm { align: center middle; background: $background 60%; }
    AddressForm #box { width: 90%; max-width: 90; height: auto; background: $panel; border: round $accent;
                       border-title-color: $accent; padding: 1 2; }
    AddressForm Static { height: auto; }
    AddressForm Input { border: none; height: 1; background: $surface; padding: 0 1; margin: 1 0; }
    """

    def __init__(self, server: str, template: ResourceTemplate) -> None:
        super().__init__()
        self.server, self.template = server, template

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            about = clean(self.template.description or "Replace what is in braces.")
            yield Static(Content.styled(about[:2000], "$muted"), markup=False)
            # An address is one line of visible characters; what is shown here is what is asked for.
            yield Input(clean_line(self.template.uri_template, 2000), id="address", compact=True)
            yield Static("", id="fault", markup=False)
            yield Static(Content.styled("enter attaches · esc back", "$faint"), markup=False)

    def on_mount(self) -> None:
        """To the first place to fill in."""
        box = self.query_one("#box")
        name = self.template.title or self.template.name or self.template.uri_template
        box.border_title = Content(clean_line(f"{self.server} · {name}", 80))
        line = self.query_one(Input)
        line.focus()
        self._choose(line)

    def _choose(self, line: Input) -> bool:
        start, end = line.value.find("{"), line.value.find("}")
        if 0 <= start < end:
            line.selection = type(line.selection)(start, end + 1)
        return 0 <= start < end

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The address, once nothing is left to fill in."""
        event.stop()
        if self._choose(event.input):
            self.query_one("#fault", Static).update(Content.styled("Replace what is in braces.", "$error"))
        elif event.value.strip():
            self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Attach nothing."""
        self.dismiss(None)
