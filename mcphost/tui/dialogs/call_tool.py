"""Dialog for calling a tool manually, with a form generated from the tool's input schema."""

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.forms import has_arguments
from mcphost.protocol.tools import Tool
from mcphost.serialization import Raw
from mcphost.translation import N_, _
from mcphost.tui import input_guard
from mcphost.tui.dialogs.edit_arguments import EditArgumentsDialog
from mcphost.tui.forms.form import Form
from mcphost.tui.screen_text import clean

NO_ARGUMENTS = N_("It takes no arguments.")
_MAX_DESCRIPTION_LENGTH = 600


class CallToolDialog(EditArgumentsDialog):
    """Dialog that returns the arguments for calling a tool, or None if the user goes back.

    Enter in the last field only moves the focus to the Call button, and holding a key down does not call the tool.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Back")),
        ("apply", N_("Call")),
        ("as_json", "JSON"),
        ("editor", N_("Editor")),
    )
    KEYS: ClassVar[str] = N_("esc back · ctrl+s call · ctrl+e JSON")
    FIELD_KEYS: ClassVar[str] = N_("tab/enter next · ctrl+s call · ctrl+e JSON · esc to the buttons")
    JSON_KEYS: ClassVar[str] = N_("ctrl+s call · ctrl+e form · esc to the buttons")

    def __init__(self, server: str, tool: Tool) -> None:
        super().__init__(server, tool.name, Raw(bytes(tool.input_schema)), {})
        self._description = (tool.description or "").strip()[:_MAX_DESCRIPTION_LENGTH]
        self._takes_arguments = has_arguments(tool.input_schema)
        self.is_json = self.is_json and self._takes_arguments
        self._moved_at = input_guard.clock()

    def headline(self) -> str:
        """Return the title, which names the server and the tool."""
        return _("Call {server} · {tool}").format(server=self.server, tool=self.tool)

    def body(self) -> Sequence[Content | Widget]:
        """Return the tool's description and the input for its arguments, which is a form or JSON text."""
        about = [
            clean(self._description) + "\n" if self._description else "",
            "" if self._takes_arguments else _(NO_ARGUMENTS),
        ]
        return [*(Content(text) for text in about if text), *super().body()]

    def focus_first(self) -> None:
        """Focus the first field, or the Call button if the tool takes no arguments."""
        super().focus_first()
        if not self.is_json and not self.form.rows:
            self.set_focus(self.query_one("#apply"))

    def on_form_focus_exited(self, event: Form.FocusExited) -> None:
        """Move the focus from the form to a button, and prevent all keys from calling the tool for a moment."""
        self._moved_at = input_guard.clock()
        super().on_form_focus_exited(event)

    def action_apply(self) -> None:
        """Validate the arguments and call the tool, but ignore a key that is probably being held down."""
        now, before = input_guard.clock(), self._moved_at
        self._moved_at = now
        if now - before >= input_guard.GUARD_SECONDS:
            super().action_apply()
