"""Prompts screen: browse the prompts of all servers, enter arguments, and insert the result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import anyio.to_thread
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.host.conversation.prompt_messages import find_links, make_prompt_messages
from mcphost.host.results.presentation import render_block
from mcphost.llm.messages import Message
from mcphost.llm.model import ModelFacts
from mcphost.protocol.content import EmbeddedResource
from mcphost.protocol.prompts import Completion, GetPromptResult, Prompt, PromptReference
from mcphost.translation import N_, _
from mcphost.tui.forms.suggestion_input import SuggestionInput
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.host.host import Host


def render_prompt_result(result: GetPromptResult) -> str:
    """Return the messages of a prompt as a single sanitized string, which the user can review in the composer.

    If there are several messages, each begins with its role. An embedded resource begins with its URI.
    """
    out: list[str] = []
    for message in result.messages:
        block = message.parse_content()
        text = render_block(block)[0]
        if isinstance(block, EmbeddedResource) and block.resource.text is not None:
            text = f"── {block.resource.uri}\n{text}"
        out.append(text if len(result.messages) == 1 else f"{message.role}: {text}")
    return clean("\n\n".join(out))


class FilledPrompt(NamedTuple):
    """A prompt with its arguments filled in, as sanitized text for the composer and as messages.

    `links` are the URIs of linked resources, keyed by the index of their message.
    """

    server: str
    name: str
    text: str
    messages: tuple[Message, ...]
    links: dict[int, str]


class PromptArgumentsForm(FormScreen[FilledPrompt]):
    """Form for the arguments of a prompt; its result is the filled prompt, or None if the user leaves."""

    DEFAULT_CSS = """
    PromptArgumentsForm #box { border-title-style: none; padding: 1 2; }
    PromptArgumentsForm #fields { height: auto; max-height: 1fr; }
    PromptArgumentsForm #buttons { margin: 0; }
    PromptArgumentsForm #keys { text-align: left; }
    """

    def __init__(self, host: "Host", server: str, prompt: Prompt) -> None:
        super().__init__()
        self.host, self.server, self.prompt = host, server, prompt

    def headline(self) -> str:
        """Return the title, which names the server and the prompt."""
        return f"{self.server} · {self.prompt.name}"

    def body(self) -> ComposeResult:
        """Yield the prompt's description and a labeled input for each argument."""
        if self.prompt.description:
            yield Static(Content.styled(f"{clean(self.prompt.description)}\n", "$muted"), markup=False)
        with VerticalScroll(id="fields", can_focus=False):
            for number, argument in enumerate(self.prompt.arguments):
                need = _("required") if argument.required else _("optional")
                yield Static(
                    Content.assemble(
                        (clean_line(argument.title or argument.name, 80), "bold"),
                        (f"  {need}  ", "$faint"),
                        (clean_line(argument.description or "", 300), "$muted"),
                    ),
                    markup=False,
                )
                yield SuggestionInput(
                    f"argument-{number}", lambda value, name=argument.name: self._suggest(name, value)
                )

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of the Insert button."""
        return (("insert", _("Insert")),)

    def key_hints(self) -> str:
        """Return the line that explains the keys, with those for suggestions if the server completes."""
        completes = bool(self.prompt.arguments) and self.host.features.can_complete(self.server)
        return _("{hint}enter next · enter on Insert inserts · esc back").format(
            hint=_(SuggestionInput.HINT) if completes else ""
        )

    def on_mount(self) -> None:
        """Focus the first input, or the Insert button if the prompt has no arguments."""
        self.query(Input).first().focus() if self.prompt.arguments else self.query_one("#insert").focus()

    def on_input_submitted(self) -> None:
        """Focus the next input, or the Insert button after the last one."""
        self.focus_next("SuggestionLine, Button")

    def action_insert(self) -> None:
        """Request the prompt's text from the server, or show an error if a required argument is missing."""
        self.run_worker(self._get_prompt, exclusive=True)

    def values(self) -> dict[str, str]:
        """Return the values that the user entered, keyed by argument name, without empty ones."""
        given = {
            argument.name: self.query_one(f"#argument-{number}", Input).value
            for number, argument in enumerate(self.prompt.arguments)
        }
        return {name: value for name, value in given.items() if value}

    async def _suggest(self, name: str, value: str) -> Completion:
        others = {key: given for key, given in self.values().items() if key != name}
        return await self.host.features.complete(self.server, PromptReference(self.prompt.name), name, value, others)

    async def _get_prompt(self) -> None:
        values = self.values()
        for number, argument in enumerate(self.prompt.arguments):
            if argument.required and argument.name not in values:
                self.show_fault(_("{name} is required.").format(name=clean_line(argument.name, 60)))
                self.query_one(f"#argument-{number}").focus()
                return
        self.show_fault(_("asking the server…"))
        try:
            result = await self.host.features.get_prompt(self.server, self.prompt.name, values)
            model = self.host.model_selection.model
            facts = model.facts if model is not None else ModelFacts()
            messages = await make_prompt_messages(self.server, self.prompt.name, result, facts, self.host.attachments)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        text, links = await anyio.to_thread.run_sync(lambda: (render_prompt_result(result), find_links(result)))
        self.dismiss(FilledPrompt(self.server, self.prompt.name, text, messages, links))


class PromptsScreen(ListScreen):
    """List of the prompts of all servers; its result is a (server name, Prompt) pair, or None."""

    TITLE_TEXT: ClassVar[str] = N_("Prompts")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No server offers prompts. They appear here as soon as one does ({servers} shows the servers)."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", N_("fill in and insert"), "screen.choose"),)

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self.add_class("bare")  # entries have no text besides their details

    def load(self) -> Sequence[ListRow]:
        """Return a row for each prompt of each server."""
        return [
            ListRow((view.name, item), item.title or item.name, f"{view.name} · {item.name}  {item.description or ''}")
            for view in self.host.servers.views()
            for item in view.catalog.prompts
        ]

    def show_details(self, row: ListRow) -> None:
        """Show the icon, description and arguments of a prompt."""
        server, prompt = row.value
        given = [
            (argument.name, f"{(_('required') if argument.required else _('optional'))}  {argument.description or ''}")
            for argument in prompt.arguments
        ]
        self.show_icon(prompt.icons)
        self.show_about(
            clean_pairs(
                [(_("server"), server), (_("prompt"), prompt.name), (_("about"), prompt.description or ""), *given]
            )
        )

    def action_choose(self) -> None:
        """Close the screen with the selected prompt."""
        if row := self.current_row():
            self.open_row(row)

    def open_row(self, row: ListRow) -> None:
        """Close the screen with this row's prompt."""
        self.dismiss(row.value)
