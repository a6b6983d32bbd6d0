"""Form for the missing arguments of a custom slash command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.translation import _
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.config.custom_commands import CustomCommand


class CommandArgumentsForm(FormScreen[dict[str, str]]):
    """Form for a command's arguments; its result maps argument names to values.

    The result is None if the user cancels.
    """

    DEFAULT_CSS = """
    CommandArgumentsForm #box { border-title-style: none; padding: 1 2; }
    CommandArgumentsForm #fields { height: auto; max-height: 1fr; }
    CommandArgumentsForm #buttons { margin: 0; }
    CommandArgumentsForm #keys { text-align: left; }
    CommandArgumentsForm Input { border: none; height: 1; background: $surface; padding: 0 1; margin-bottom: 1; }
    """

    def __init__(self, command: "CustomCommand", given: Mapping[str, str]) -> None:
        super().__init__()
        self.command, self.given = command, given

    def headline(self) -> str:
        """Return the title, which names the command."""
        return f"/{self.command.name}"

    def body(self) -> ComposeResult:
        """Yield the command's description and a labeled input for each argument."""
        if self.command.description:
            yield Static(Content.styled(f"{clean(self.command.description)}\n", "$muted"), markup=False)
        with VerticalScroll(id="fields", can_focus=False):
            for number, one in enumerate(self.command.arguments):
                need = _("required") if one.default is None else _("optional")
                yield Static(
                    Content.assemble(
                        (clean_line(one.name, 80), "bold"),
                        (f"  {need}  ", "$faint"),
                        (clean_line(one.description, 300), "$muted"),
                    ),
                    markup=False,
                )
                value = self.given.get(one.name) or one.default or ""
                yield OrderedInput(value, id=f"argument-{number}", compact=True)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of the button."""
        return (("insert", _("Send") if self.command.is_sent else _("Insert")),)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter next · enter on {buttons} finishes · esc back").format(buttons=self.buttons()[0][1])

    def on_mount(self) -> None:
        """Focus the first required input without a value."""
        super().on_mount()
        missing = (
            number
            for number, one in enumerate(self.command.arguments)
            if one.default is None and not self.given.get(one.name)
        )
        self.query_one(f"#argument-{next(missing, 0)}").focus()

    def moves_on_enter(self, field: Input) -> bool:
        """Return True: Enter focuses the next input or, from the last input, the button."""
        del field
        return True

    def action_insert(self) -> None:
        """Close the form with the values, or show an error if a required argument is missing."""
        values = {
            one.name: self.query_one(f"#argument-{number}", Input).value
            for number, one in enumerate(self.command.arguments)
        }
        for number, one in enumerate(self.command.arguments):
            if one.default is None and not values[one.name].strip():
                self.show_fault(_("{name} is required.").format(name=clean_line(one.name, 60)))
                self.query_one(f"#argument-{number}").focus()
                return
        self.dismiss(values)
