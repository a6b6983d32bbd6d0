"""Dialog beside the chat that lists the themes and previews the theme under the cursor."""

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mcphost.translation import _
from mcphost.tui import themes

if TYPE_CHECKING:
    from mcphost.tui.themes import ThemeChoice


class ThemePicker(ModalScreen[str | None]):
    """List of themes with a preview; its result is the chosen theme's name, or None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    DEFAULT_CSS = """
    ThemePicker { background: $background 0%; align: right top; }
    ThemePicker #box { width: 34; height: auto; max-height: 100%; background: $panel; padding: 1 1; }
    ThemePicker #title { color: $accent; text-style: bold; padding: 0 1; }
    ThemePicker OptionList { height: auto; max-height: 16; border: none; background: $panel; padding: 0; }
    ThemePicker OptionList:focus { background-tint: transparent; }
    ThemePicker #hint { color: $muted; padding: 0 1; margin-top: 1; }
    """

    def __init__(self, choice: "ThemeChoice") -> None:
        super().__init__()
        self._choice = choice
        self._names = (themes.AUTO, *choice.names())

    def compose(self) -> ComposeResult:
        """Create the list with the cursor on the current theme."""
        with Vertical(id="box"):
            yield Static(_("Theme"), id="title", markup=False)
            labels = {themes.AUTO: _("auto (as the terminal)")}
            wanted = self._choice.wanted
            entries = OptionList(
                *(
                    Option(Content(f" {'●' if name == wanted else ' '} {labels.get(name, name)}"))
                    for name in self._names
                ),
                markup=False,
                compact=True,
            )
            entries.highlighted = self._names.index(wanted) if wanted in self._names else 0
            yield entries
            yield Static(_("enter choose · esc back"), id="hint", markup=False)

    def focus_list(self) -> None:
        """Focus the list of themes immediately, so that it receives the next key."""
        self.set_focus(self.query_one(OptionList))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Preview the theme under the cursor."""
        event.stop()
        self._choice.show(self._names[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the dialog with the chosen theme."""
        event.stop()
        self.dismiss(self._names[event.option_index])

    def action_leave(self) -> None:
        """Restore the previous theme and close the dialog."""
        self._choice.show_wanted()
        self.dismiss(None)
