"""Form for the settings of a model: name, address, variable of the API key, parameters and headers."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from mcphost.config.model_fields import MODEL_FIELDS, format_fields, parse_fields
from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError
from mcphost.serialization import Struct
from mcphost.translation import _
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.inputs import LabeledInput, LabeledInputGroup, OrderedTextArea, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.host.setup import Setup


_ROOMY_HEIGHT = 26


class ModelChoice(Struct, frozen=True):
    """A model that the user chose, and whether to save it as the default."""

    config: ModelConfig
    is_default: bool


class ModelForm(FormScreen[ModelChoice]):
    """Form for the settings of a model; its result is the model to use, or None if the user leaves.

    Secrets in headers are stored in the keyring, and the saved settings only refer to them.
    """

    DEFAULT_CSS = """
    ModelForm LabeledInput { margin: 0; }
    ModelForm TextArea { height: 3; border: none; padding: 0 1; background: $surface; margin: 0 0 0 16; }
    ModelForm #headers-label { margin: 1 0 0 0; color: $muted; }
    ModelForm.small #box { max-height: 100%; padding: 0 2; }
    ModelForm.small TextArea { height: 2; }
    ModelForm.small #headers-label { margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", show=False, priority=True)]

    def __init__(self, setup: "Setup", config: ModelConfig) -> None:
        """Create a form with the settings in *config*.

        If the name in *config* is empty, the form is for a model that is not in the models list.
        """
        super().__init__()
        self._setup = setup
        self._config = config

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that no key is ignored.

        Enter moves to the next line until the last one, and Ctrl+S saves the model, just as it does in the models list.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("Settings of {name}").format(name=self._config.name) if self._config.name else _("Another model")

    def body(self) -> ComposeResult:
        """Yield an input for each setting and a text area for the headers."""
        yield LabeledInputGroup(
            *(LabeledInput(_(label), key, placeholder=_(hint)) for key, label, hint in MODEL_FIELDS)
        )
        yield Static(_("headers, one per line, such as X-Team: ${env:TEAM}"), id="headers-label", markup=False)
        yield OrderedTextArea(id="headers", tab_behavior="focus", compact=True)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return ("use", _("Use now")), ("save", _("Use and save")), ("leave", _("Cancel"))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter next line · tab next field · ^S use and save · esc back")

    def on_mount(self) -> None:
        """Fill in the current settings and focus the first input."""
        for key, text in format_fields(self._config).items():
            if key == "headers":
                self.query_one("#headers", OrderedTextArea).text = text
            else:
                self.query_one(f"#{key}", Input).value = text
        self.query_one(LabeledInputGroup).focus_input()

    def on_resize(self) -> None:
        """Leave out empty lines on a small screen, so that the buttons and the key hints are visible."""
        self.set_class(self.size.height < _ROOMY_HEIGHT, "small")

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Use the model if Enter was pressed in the last input."""
        event.stop()
        if event.index == len(MODEL_FIELDS) - 1:
            self.action_use()

    def action_use(self) -> None:
        """Use the model in this run, without saving it as the default."""
        self._submit(is_default=False)

    def action_save(self) -> None:
        """Use the model and save it as the default."""
        self._submit(is_default=True)

    def _submit(self, *, is_default: bool) -> None:
        self.run_worker(partial(self._finish, is_default=is_default), group="submit", exclusive=True)

    async def _finish(self, *, is_default: bool) -> None:
        inputs = {key: self.query_one(f"#{key}", Input) for key, _label, _hint in MODEL_FIELDS}
        headers = self.query_one("#headers", OrderedTextArea)
        await wait_for_typed_text(*inputs.values(), headers)
        texts = {"headers": headers.text, **{key: field.value for key, field in inputs.items()}}
        try:
            config = await self._setup.protect_headers(parse_fields(texts))
        except McpHostError as error:
            self.show_fault(f"{error.message} {error.hint}".strip())
            return
        self.dismiss(ModelChoice(config, is_default))
