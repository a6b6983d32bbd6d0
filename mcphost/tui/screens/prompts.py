"""Browse the servers' prompts, fill one in, and put its text into the composer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from mcphost.errors import McpHostError
from mcphost.host.results.results import render_block
from mcphost.protocol.completion import Completion, PromptRef
from mcphost.protocol.content import EmbeddedResource
from mcphost.protocol.prompts import Prompt, PromptResult
from mcphost.tui.sanitize import clean, clean_line
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.widgets.suggested import Suggested

if TYPE_CHECKING:
    from mcphost.host.host import Host


def text_of(result: PromptResult) -> str:
    """A filled prompt as text for the composer, where it is read before it is sent.

    Roles are named when it has several messages, and so is where an embedded resource comes from.
    """
    out: list[str] = []
    for message in result.messages:
        block = message.block()
        text = render_block(block)[0]
        if isinstance(block, EmbeddedResource) and block.resource.text is not None:
            text = f"── {block.resource.uri}\n{text}"
        out.append(text if len(result.messages) == 1 else f"{message.role}: {text}")
    return clean("\n\n".join(out))


class PromptForm(ModalScreen[str | None]):
    """The arguments of one prompt; ends with the filled text, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]
    DEFAULT_CSS = """
    PromptForm { align: center middle; background: $background 60%; }
    PromptForm #box { width: 90%; max-width: 90; height: auto; max-height: 90%; background: $panel;
                      border: round $accent; border-title-color: $accent; padding: 1 2; }
    PromptForm #fields { height: auto; max-height: 1fr; }
    PromptForm Static { height: auto; }
    PromptForm #fault { color: $error; }
    PromptForm Button { border: none; height: 1; min-width: 10; background: $surface; color: $text; }
    PromptForm Button:focus { background: $accent; color: $background; }
    """

    def __init__(self, host: "Host", server: str, prompt: Prompt) -> None:
        super().__init__()
        self.host, self.server, self.prompt = host, server, prompt

    def compose(self) -> ComposeResult:
        completes = bool(self.prompt.arguments) and self.host.features.completes(self.server)
        with Vertical(id="box"):
            if self.prompt.description:
                yield Static(Content.styled(f"{clean(self.prompt.description)}\n", "$muted"), markup=False)
            with VerticalScroll(id="fields", can_focus=False):
                for number, argument in enumerate(self.prompt.arguments):
                    need = "required" if argument.required else "optional"
                    yield Static(
                        Content.assemble(
                            (clean_line(argument.title or argument.name, 80), "bold"),
                            (f"  {need}  ", "$faint"),
                            (clean_line(argument.description or "", 300), "$muted"),
                        ),
                        markup=False,
                    )
                    yield Suggested(f"argument-{number}", lambda value, name=argument.name: self._suggest(name, value))
            yield Static("", id="fault", markup=False)
            yield Button("Insert", id="insert", compact=True)
            hint = f"{Suggested.HINT if completes else ''}enter next · enter on Insert inserts · esc back"
            yield Static(Content.styled(hint, "$faint"), markup=False)

    def on_mount(self) -> None:
        """To the first field."""
        box = self.query_one("#box")
        box.border_title = Content(clean_line(f"{self.server} · {self.prompt.name}", 80))
        self.query(Input).first().focus() if self.prompt.arguments else self.query_one("#insert").focus()

    def on_input_submitted(self) -> None:
        """Enter goes on to the next field."""
        self.focus_next("Line, Button")

    def on_button_pressed(self) -> None:
        """Fill it at the server."""
        self.run_worker(self._fill, exclusive=True)

    def values(self) -> dict[str, str]:
        """What is filled in; an empty field is an argument that is not given."""
        given = {
            argument.name: self.query_one(f"#argument-{number}", Input).value
            for number, argument in enumerate(self.prompt.arguments)
        }
        return {name: value for name, value in given.items() if value}

    async def _suggest(self, name: str, value: str) -> Completion:
        others = {key: given for key, given in self.values().items() if key != name}
        return await self.host.features.complete(self.server, PromptRef(self.prompt.name), name, value, others)

    async def _fill(self) -> None:
        values = self.values()
        fault = self.query_one("#fault", Static)
        for number, argument in enumerate(self.prompt.arguments):
            if argument.required and argument.name not in values:
                fault.update(Content(f"{clean_line(argument.name, 60)} is required."))
                self.query_one(f"#argument-{number}").focus()
                return
        fault.update(Content("asking the server…"))
        try:
            result = await self.host.get_prompt(self.server, self.prompt.name, values)
        except McpHostError as error:
            fault.update(Content(clean(str(error))))
            return
        self.dismiss(text_of(result))

    def action_leave(self) -> None:
        """Insert nothing."""
        self.dismiss(None)


class Prompts(Browser):
    """Every prompt the servers list; ends with (server, Prompt)."""

    TITLE_TEXT: ClassVar[str] = "Prompts"
    EMPTY: ClassVar[str] = "No server offers prompts. They appear here as soon as one does (F3 shows the servers)."
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", "fill and insert", "screen.choose"),)

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self.add_class("bare")  # nothing to read but what is known of it

    def load(self) -> Sequence[Row]:
        return [
            Row((view.name, item), item.title or item.name, f"{view.name} · {item.name}  {item.description or ''}")
            for view in self.host.servers()
            for item in view.catalog.prompts
        ]

    def highlighted(self, row: Row) -> None:
        server, prompt = row.value
        given = [
            (argument.name, f"{'required' if argument.required else 'optional'}  {argument.description or ''}")
            for argument in prompt.arguments
        ]
        self.icon(prompt.icons)
        self.about(facts([("server", server), ("prompt", prompt.name), ("about", prompt.description or ""), *given]))

    def action_choose(self) -> None:
        """Fill the prompt under the cursor."""
        if row := self.current():
            self.chosen(row)

    def chosen(self, row: Row) -> None:
        self.dismiss(row.value)
