"""Form for a server: its name and a command line, URL or JSON, to add it or to change its entry."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.serialization import dumps
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.inputs import LabeledInput, LabeledInputGroup, OrderedTextArea, wait_for_typed_text

SaveServerFn = Callable[[str, str], Awaitable[str]]
"""Saves the server with this name and this text, and returns a sentence about it. Raises McpHostError."""


class ServerForm(FormScreen[str]):
    """Form for a server; it ends with a sentence about what was saved, or None."""

    DEFAULT_CSS = """
    ServerForm LabeledInput { margin: 0 0 1 0; }
    ServerForm TextArea { height: 9; border: none; padding: 0 1; background: $surface; }
    ServerForm #what { color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", show=False, priority=True)]

    def __init__(self, save: SaveServerFn, name: str = "", entry: dict[str, Any] | None = None) -> None:
        """Create the form; *entry* is the present entry of the server *name*, None for a new server."""
        super().__init__()
        self._save = save
        self._server = name
        self._entry = entry

    def was_hidden(self, seconds_ago: float) -> bool:
        """Accept every key: an empty form saves nothing, and what is saved is not approved by that."""
        return False

    def headline(self) -> str:
        """Return the title."""
        return "Add a server" if self._entry is None else f"Change {self._server}"

    def body(self) -> ComposeResult:
        """Yield the name of a new server, and the text."""
        if self._entry is None:
            yield LabeledInputGroup(LabeledInput("name", "name", placeholder="optional"))
            yield Static("A command line, a URL, or JSON as a README shows it:", id="what", markup=False)
        else:
            yield Static("Its entry. Secrets that you type go to the keyring.", id="what", markup=False)
        text = "" if self._entry is None else dumps(self._entry, indent=2)
        yield OrderedTextArea(text, id="text", tab_behavior="focus", compact=True)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the buttons."""
        return ("save", "Save and start"), ("leave", "Cancel")

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return "^S save and start · tab next field · esc back"

    def on_mount(self) -> None:
        """Focus the text, which is all that is required."""
        self.query_one("#text").focus()

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Move from the name to the text."""
        event.stop()
        self.query_one("#text").focus()

    def action_save(self) -> None:
        """Save the server; an error is shown and keeps the text."""
        self.run_worker(partial(self._finish), group="save", exclusive=True)

    async def _finish(self) -> None:
        text = self.query_one("#text", OrderedTextArea)
        names = list(self.query(Input))
        await wait_for_typed_text(text, *names)
        try:
            done = await self._save(self._server or "".join(field.value for field in names).strip(), text.text)
        except McpHostError as error:
            self.show_fault(f"{error.message} {error.hint}".strip())
            return
        self.dismiss(done)
