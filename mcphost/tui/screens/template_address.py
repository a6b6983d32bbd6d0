"""Asks for the values of a resource template, shows the address they make, and gives it back."""

from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import UsageError
from mcphost.protocol.completion import Completion, ResourceTemplateReference
from mcphost.protocol.resources import ResourceTemplate
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.ordered_input import OrderedInput
from mcphost.tui.widgets.suggestion_input import SuggestionInput

if TYPE_CHECKING:
    from mcphost.host.host import Host


class ResourceTemplateForm(FormScreen[str]):
    """One field for each variable; ends with the address, or None. What is no template is edited as it is."""

    DEFAULT_CSS = """
    ResourceTemplateForm #box { border-title-style: none; padding: 1 2; }
    ResourceTemplateForm #keys { text-align: left; }
    ResourceTemplateForm #fields { height: auto; max-height: 1fr; }
    ResourceTemplateForm #about { margin-bottom: 1; }
    ResourceTemplateForm #address { border: none; height: 1; background: $surface; padding: 0 1; margin: 1 0; }
    ResourceTemplateForm #made { margin-bottom: 1; }
    """

    def __init__(self, host: "Host", server: str, template: ResourceTemplate) -> None:
        super().__init__()
        self.host, self.server, self.template = host, server, template
        try:
            self.variables = host.features.template_variables(template.uri_template)
        except UsageError:
            self.variables = ()

    @property
    def _has_completion(self) -> bool:
        return bool(self.variables) and self.host.features.can_complete(self.server)

    def headline(self) -> str:
        return f"{self.server} · {self.template.title or self.template.name or self.template.uri_template}"

    def body(self) -> ComposeResult:
        about = clean(self.template.description or "")
        if about:
            yield Static(Content.styled(about[:2000], "$muted"), id="about", markup=False)
        if self.variables:
            with VerticalScroll(id="fields", can_focus=False):
                for number, name in enumerate(self.variables):
                    yield Static(Content.styled(clean_line(name, 80), "bold"), markup=False)
                    yield SuggestionInput(
                        f"value-{number}", partial(self._suggest, name) if self._has_completion else None
                    )
            yield Static("", id="made", markup=False)
        else:
            # An address is one line of visible characters; what is shown here is what is asked for.
            yield OrderedInput(clean_line(self.template.uri_template, 2000), id="address", compact=True)

    def key_hints(self) -> str:
        keys = "enter next, and attaches at the end · esc back" if self.variables else "enter attaches · esc back"
        return SuggestionInput.HINT + keys if self._has_completion else keys

    def on_mount(self) -> None:
        """To the first field."""
        self.query(Input).first().focus()
        self._show_address()

    async def _suggest(self, name: str, value: str) -> Completion:
        others = {key: given for key, given in self.values().items() if key != name}
        ref = ResourceTemplateReference(self.template.uri_template)
        return await self.host.features.complete(self.server, ref, name, value, others)

    def values(self) -> dict[str, str]:
        """What is filled in; an empty field is a variable without a value."""
        given = {name: self.query_one(f"#value-{number}", Input).value for number, name in enumerate(self.variables)}
        return {name: value for name, value in given.items() if value}

    def on_input_changed(self) -> None:
        """Show what it makes."""
        if self.variables:
            self._show_address()

    def _show_address(self) -> None:
        if not self.variables:
            return
        made = self._expand_template()
        # Never cut: what is asked for is what was seen.
        text = Content.styled(clean(made), "$accent") if isinstance(made, str) else Content.styled(str(made), "$error")
        self.query_one("#made", Static).update(text)

    def _expand_template(self) -> "str | UsageError":
        try:
            return self.host.features.expand_template(self.template.uri_template, self.values())
        except UsageError as error:
            return error

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to the next field; at the end the address, once nothing is left to fill in."""
        event.stop()
        if not self.variables:
            if event.value.strip():
                self.dismiss(event.value.strip())
            return
        lines = list(self.query(Input))
        if event.input is not lines[-1]:
            lines[lines.index(event.input) + 1].focus()
            return
        needed = [
            name
            for name in self.host.features.required_variables(self.template.uri_template)
            if name not in self.values()
        ]
        if needed:
            self.show_fault(f"{clean_line(needed[0], 60)} is needed.")
            lines[self.variables.index(needed[0])].focus()
            return
        made = self._expand_template()
        if isinstance(made, str):
            self.dismiss(made)
