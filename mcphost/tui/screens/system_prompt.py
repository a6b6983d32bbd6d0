"""Form to view and edit the system prompt of the open conversation."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from mcphost.errors import McpHostError
from mcphost.host.conversation.model_request import DEFAULT_PROMPT
from mcphost.translation import N_, _
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.text_inputs import OrderedTextArea, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.host.host import Host

_FOLLOWS = N_("Instructions of AGENTS.md files, and of servers and skills, follow it.")
_OWN = N_("This conversation has its own system prompt.")
_CONFIGURED = N_("This is the system prompt of the configuration or profile.")
_DEFAULT = N_("This is the default system prompt.")


class SystemPromptForm(FormScreen[str]):
    """Form for the system prompt; its result is a sentence about the change, or None if nothing changed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", show=False, priority=True)]
    CONFIRMS_LEAVING = True
    DEFAULT_CSS = """
    SystemPromptForm #box { width: 95%; max-width: 110; height: 95%; }
    SystemPromptForm #about { color: $muted; margin: 0 0 1 0; }
    SystemPromptForm TextArea { height: 1fr; border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self._conversation = host.conversation
        self._configured = host.model_selection.system_prompt or DEFAULT_PROMPT
        self._has_configured = bool(host.model_selection.system_prompt)
        self._shown = self._conversation.system_prompt or self._configured

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False: a key is handled even if it was pressed just before the form appeared.

        Such a key does no harm, because each change to the system prompt can be undone.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("System prompt of this conversation")

    def body(self) -> ComposeResult:
        """Yield a note that explains where the system prompt comes from, and a text area that contains it."""
        source = _OWN if self._conversation.system_prompt else _CONFIGURED if self._has_configured else _DEFAULT
        yield Static(Content(f"{_(source)} {_(_FOLLOWS)}"), id="about", markup=False)
        yield OrderedTextArea(self._shown, id="text", tab_behavior="focus", compact=True, soft_wrap=True)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button.

        The buttons for undo and reset are omitted if they would have no effect.
        """
        undo = (("undo_change", _("Undo the last change")),) if self._conversation.can_undo_system_prompt else ()
        label = _("Use the configured one") if self._has_configured else _("Use the default")
        reset = (("reset", label),) if self._conversation.system_prompt else ()
        return (("leave", _("Back")), ("save", _("Save")), *undo, *reset)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("ctrl+s save · tab next · esc back")

    def on_mount(self) -> None:
        """Focus the text area."""
        super().on_mount()
        self.query_one("#text").focus()

    def action_save(self) -> None:
        """Save the text as this conversation's system prompt.

        If the text equals the configured or default system prompt, nothing is stored, and the conversation uses that
        prompt again.
        """
        self.run_worker(self._save, group="save", exclusive=True)

    def action_reset(self) -> None:
        """Discard this conversation's system prompt, so that the configured or default one is used again."""
        self.run_worker(partial(self._change, ""), group="save", exclusive=True)

    def action_undo_change(self) -> None:
        """Undo the last change to the system prompt."""
        self.run_worker(self._undo, group="save", exclusive=True)

    async def _save(self) -> None:
        area = self.query_one("#text", OrderedTextArea)
        await wait_for_typed_text(area)
        text = area.text.strip()
        if text == self._shown.strip():
            self.dismiss(None)
        elif not text:
            self.show_fault(_("A system prompt needs at least one character."))
        else:
            await self._change("" if text == self._configured.strip() else text)

    async def _change(self, text: str) -> None:
        try:
            await self._conversation.set_system_prompt(text)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.dismiss(_("The model gets it with your next message. /system can undo it."))

    async def _undo(self) -> None:
        try:
            await self._conversation.undo_system_prompt()
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.dismiss(_("The last change of the system prompt was undone."))
