"""Screen for browsing every server's prompts, entering their arguments, and inserting the result.

A result that is a single user message with only text goes into the composer; any other result is previewed
before it is added to the conversation.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.worker import Worker

from mcphost.errors import McpHostError
from mcphost.host.content_rendering import render_block
from mcphost.host.conversation.prompt_messages import find_links, is_plain_text, make_prompt_messages, read_links
from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, TextPart, with_targets
from mcphost.llm.model import ModelFacts
from mcphost.pluralize import translate_count
from mcphost.protocol.content import EmbeddedResource
from mcphost.protocol.prompts import Completion, GetPromptResult, Prompt, PromptReference
from mcphost.translation import N_, _
from mcphost.tui import input_guard
from mcphost.tui.forms.suggestion_input import SuggestionInput
from mcphost.tui.image_cache import images_unsupported_reason
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.arguments_form import ArgumentsForm
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.transcript.image_block import detect_image
from mcphost.tui.widget_messages import Section
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.image_view import MAX_IMAGES, ImageView
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.stepped_column import SteppedColumn

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.tui.screens.chat import ChatScreen


def render_prompt_result(result: GetPromptResult) -> str:
    """Return the messages of a prompt as one sanitized text for review in the composer.

    If there are several messages, the text of each begins with its role. An embedded text resource begins with its
    URI.
    """
    out: list[str] = []
    for message in result.messages:
        block = message.parse_content()
        text = render_block(block)[0]
        if isinstance(block, EmbeddedResource) and block.resource.text is not None:
            text = f"── {block.resource.uri}\n{text}"
        out.append(text if len(result.messages) == 1 else f"{message.role}: {text}")
    return clean("\n\n".join(out))


_MAX_ARGUMENTS_SHOWN = 20
"""Maximum arguments of a prompt in the details of the list; the form shows all of them."""


class FilledPrompt(NamedTuple):
    """A prompt from a server, with the arguments filled in.

    `text` is the whole prompt as sanitized text, for the composer. `messages` are the prompt's messages, for the
    conversation. `links` contains the URIs of linked resources, keyed by the index of the message that contains the
    link.
    """

    server: str
    name: str
    text: str
    messages: tuple[Message, ...]
    links: dict[int, str]


class PromptArgumentsForm(ArgumentsForm[FilledPrompt]):
    """Form for the arguments of a prompt; its result is the filled prompt, or None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "insert", show=False)]

    def __init__(self, host: "Host", server: str, prompt: Prompt) -> None:
        super().__init__()
        self.host, self.server, self.prompt = host, server, prompt
        self._request: Worker[Any] | None = None

    def headline(self) -> str:
        """Return the title, which names the server and the prompt."""
        return f"{self.server} · {self.prompt.name}"

    def body(self) -> ComposeResult:
        """Yield the prompt's description and a labeled input for each argument."""
        yield from self.describe(self.prompt.description)
        yield SteppedColumn(self._argument_widgets(), widget_id="fields")

    def _argument_widgets(self) -> Iterator[Widget]:
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
            yield SuggestionInput(f"argument-{number}", partial(self._suggest, argument.name))

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return (("insert", _("Insert")), ("leave", _("Back")))

    def input_hints(self) -> str:
        """Return the key hints; hints about suggestions are included only if the server supports completion."""
        completes = bool(self.prompt.arguments) and self.host.features.can_complete(self.server)
        return _("{hint}enter next · ctrl+s insert · esc back").format(
            hint=_(SuggestionInput.HINT) if completes else ""
        )

    def on_mount(self) -> None:
        """Focus the first input, or the Insert button if the prompt has no arguments."""
        self.query(Input).first().focus() if self.prompt.arguments else self.query_one("#insert").focus()

    async def wait_for_fields(self) -> None:
        """Wait until the inputs of all arguments are mounted."""
        await self.query_one(SteppedColumn).wait_whole()

    def moves_on_enter(self, field: Input) -> bool:
        """Return True: Enter focuses the next input or, from the last input, the Insert button."""
        del field
        return True

    def action_insert(self) -> None:
        """Request the prompt's text from the server, or show an error if a required argument is missing.

        Does nothing while an earlier request is running.
        """
        if self._request is None or self._request.is_finished:
            self._request = self.run_worker(self._get_prompt)

    def values(self) -> dict[str, str]:
        """Return the values that the user entered, keyed by argument name; empty values are omitted."""
        texts = (one.value for one in self.query("#fields SuggestionLine").results(Input))
        named = zip(self.prompt.arguments, texts, strict=False)  # the last inputs may not be mounted yet
        return {argument.name: text for argument, text in named if text}

    async def _suggest(self, name: str, value: str) -> Completion:
        others = {key: given for key, given in self.values().items() if key != name}
        return await self.host.features.complete(self.server, PromptReference(self.prompt.name), name, value, others)

    async def _get_prompt(self) -> None:
        await self.query_one(SteppedColumn).wait_whole()
        values = self.values()
        for number, argument in enumerate(self.prompt.arguments):
            if argument.required and argument.name not in values:
                self.show_fault(_("{name} is required.").format(name=clean_line(argument.name, 60)))
                self.query_one(f"#argument-{number}").focus()
                return
        self.show_fault(_("asking the server…"))
        targets = dict(self.host.servers.targets)  # the server may be replaced before the messages are inserted
        try:
            result = await self.host.features.get_prompt(self.server, self.prompt.name, values)
            model = self.host.model_selection.model
            facts = model.facts if model is not None else ModelFacts()
            messages = await make_prompt_messages(self.server, self.prompt.name, result, facts, self.host.attachments)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        text, links = await anyio.to_thread.run_sync(lambda: (render_prompt_result(result), find_links(result)))
        messages = tuple(with_targets(one, targets) for one in messages)
        self.dismiss(FilledPrompt(self.server, self.prompt.name, text, messages, links))


class PromptsScreen(ListScreen):
    """List of every server's prompts; its result is a (server name, Prompt) pair, or None.

    The result is None if the user cancels.
    """

    TITLE_TEXT: ClassVar[str] = N_("Prompts")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No server offers prompts. They appear here as soon as one does ({servers} shows the servers)."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", N_("fill in and insert"), "screen.choose"),)

    def __init__(self, host: "Host", selected: tuple[str, str] = ("", "")) -> None:
        """Create the list; the cursor starts on the prompt *selected*, a (server name, prompt name) pair."""
        super().__init__()
        self.host, self._selected = host, selected
        self.add_class("bare")  # there is no text to show below the details

    def on_mount(self) -> None:
        """Show the prompts, and move the cursor to the selected one."""
        super().on_mount()
        names = [(row.value[0], row.value[1].name) for row in self.visible_rows]
        if self._selected in names:
            self.list_widget.cursor = names.index(self._selected)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each prompt of each server."""
        return [
            ListRow(
                (view.name, item),
                item.title or item.name,
                "  ".join(filter(None, (item.name if item.title else "", item.description))),
                group=view.name,
            )
            for view in self.host.servers.views()
            for item in view.catalog.prompts
        ]

    def show_details(self, row: ListRow) -> None:
        """Show the icon, description and arguments of a prompt."""
        server, prompt = row.value
        given = [
            (
                argument.name,
                clean_line(
                    f"{(_('required') if argument.required else _('optional'))}  {argument.description or ''}", 200
                ),
            )
            for argument in prompt.arguments[:_MAX_ARGUMENTS_SHOWN]
        ]
        if (more := len(prompt.arguments) - _MAX_ARGUMENTS_SHOWN) > 0:
            given.append(("…", _("and {count} more").format(count=more)))
        self.show_icon(prompt.icons)
        self.show_about(
            clean_pairs(
                [(_("server"), server), (_("prompt"), prompt.name), (_("about"), prompt.description or ""), *given]
            )
        )

    def open_row(self, row: ListRow) -> None:
        """Choose this row's prompt: close the screen and return the prompt to the caller."""
        self.dismiss(row.value)


PromptChoice = Literal["insert", "answer", "edit"]
PromptDecision = tuple[PromptChoice, tuple[Message, ...]]
_ABOUT = N_("The server wrote all of this, including the assistant's messages. The model reads them as its own.")
_BUSY = N_("Still answering. Insert it when the answer is complete, or edit it as text.")


def describe_part(part: Part) -> str:
    """Return the text of a message part, or a description of the part if it has no text.

    The result is not sanitized.
    """
    match part:
        case TextPart():
            return part.text
        case ResourcePart():
            kind = f", {part.mime_type}" if part.mime_type else ""
            return f"{_('resource')} {part.uri}{kind}\n{part.text}"
        case ImagePart():
            return f"[{part.name}: {part.mime_type}, {_format_size(part.data)}]"
        case FilePart():
            return f"[{part.name}: {part.mime_type}, {_format_size(part.data)}]"
        case _:
            return ""


def _format_size(data: str) -> str:
    return _("about {data_count:,} bytes").format(data_count=len(data) * 3 // 4)


def preview_sections(messages: tuple[Message, ...]) -> list[Section]:
    """Return one section of the preview for each message; the heading of a section is the message's role."""
    names = {"user": _("User"), "assistant": _("Assistant")}
    return [
        Section(
            _("{text}  {number} of {messages_count}").format(
                text=names.get(one.role, one.role), number=number, messages_count=len(messages)
            ),
            "\n".join(map(describe_part, one.parts)),
        )
        for number, one in enumerate(messages, 1)
    ]


def find_pictures(messages: tuple[Message, ...]) -> Iterator[tuple[int, ImagePart]]:
    """Yield the images that can be drawn, each with the number of its message, counting from 1."""
    for number, message in enumerate(messages, 1):
        for part in message.parts:
            if isinstance(part, ImagePart) and detect_image(part) is not None:
                yield number, part


class PromptPreview(FormScreen[PromptDecision]):
    """Preview of a filled prompt; its result is a PromptDecision, or None if the user cancels.

    A PromptDecision is the chosen action and the prompt's messages. The messages include the contents of linked
    resources if the user chose to read these in the preview.
    """

    AUTO_FOCUS = "#insert"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "insert", show=False),
        Binding("pageup", "scroll_text(-1)", show=False),
        Binding("pagedown", "scroll_text(1)", show=False),
    ]
    DEFAULT_CSS = """
    PromptPreview #box { width: 95%; max-width: 110; height: 95%; }
    PromptPreview LongText { height: 1fr; margin: 1 0 0 0; }
    PromptPreview #pictures { height: auto; max-height: 50%; margin: 1 0 0 0; display: none; }
    PromptPreview #pictures.shown { display: block; }
    PromptPreview .picture { width: 1fr; height: auto; padding: 0 1; }
    PromptPreview .picture Static { color: $muted; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, host: "Host", prompt: FilledPrompt) -> None:
        super().__init__()
        self.host, self.prompt = host, prompt
        self.messages = prompt.messages
        self._pressed_at = float("-inf")

    def headline(self) -> str:
        """Return the title, which names the server and the prompt."""
        count = translate_count(len(self.prompt.messages), "message")
        return f"{self.prompt.server} · {self.prompt.name} · {count}"

    def body(self) -> ComposeResult:
        """Yield a note that explains who wrote the messages, and the widgets that show the messages."""
        yield Static(Content.styled(_(_ABOUT), "$muted"), markup=False)
        yield LongText("")
        yield Horizontal(id="pictures")

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button.

        The "Insert and send" button is omitted if the last message is not from the user. The button that reads the
        linked resources is omitted if the messages contain no links.
        """
        last = self.prompt.messages[-1].role
        answer = (("answer", _("Insert and send")),) if last == "user" else ()
        read = (("read_links", _("Read the links")),) if self.prompt.links else ()
        return (("insert", _("Insert")), *answer, *read, ("edit", _("Edit as text")))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("tab next · enter choose · page up/down scroll · esc back")

    def on_mount(self) -> None:
        """Show the messages, and focus the first button."""
        super().on_mount()
        self._pressed_at = input_guard.clock()
        self._show_messages()
        self.query_one("#insert").focus()

    def _show_messages(self) -> None:
        self.query_one(LongText).show("", preview_sections(self.messages))
        self.run_worker(self._show_pictures, group="pictures", exclusive=True)

    async def _show_pictures(self) -> None:
        """Draw the messages' first few images side by side, if the terminal can show images."""
        pictures = list(islice(find_pictures(self.messages), MAX_IMAGES))
        row = self.query_one("#pictures")
        await row.remove_children()
        if not pictures or images_unsupported_reason(self.app):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            return
        rows = max(4, self.size.height // 4)
        for number, part in pictures:
            caption = Static(
                clean_line(
                    _("{number} of {messages_count}  {name}").format(
                        number=number, messages_count=len(self.messages), name=part.name
                    ),
                    80,
                ),
                markup=False,
            )
            await row.mount(Vertical(caption, ImageView(part, rows=rows), classes="picture"))
        row.add_class("shown")

    def action_scroll_text(self, by: int) -> None:
        """Scroll the messages by one page: down if *by* is positive, otherwise up."""
        text = self.query_one(LongText)
        (text.scroll_page_down if by > 0 else text.scroll_page_up)(animate=False)

    def action_insert(self) -> None:
        """Insert the messages without requesting an answer from the model."""
        self._decide("insert")

    def action_answer(self) -> None:
        """Insert the messages and ask the model to answer."""
        self._decide("answer")

    def action_edit(self) -> None:
        """Close the preview and insert the text of the messages into the composer for editing."""
        self.dismiss(("edit", self.messages))

    def action_read_links(self) -> None:
        """Read the linked resources from the server, and show their contents in the preview."""
        self.run_worker(self._read_links, group="links", exclusive=True)

    async def _read_links(self) -> None:
        self.show_fault(_("asking the server…"))
        model = self.host.model_selection.model
        try:
            self.messages = await read_links(
                self.prompt.messages,
                self.prompt.links,
                self.host.features.read_resource,
                model.facts if model is not None else ModelFacts(),
                self.host.attachments,
            )
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.show_fault("")
        self._show_messages()
        self.query_one("#insert").focus()
        await self.query_one("#read_links").remove()

    def _decide(self, choice: PromptChoice) -> None:
        pressed_before, self._pressed_at = self._pressed_at, input_guard.clock()
        if self._pressed_at - pressed_before < input_guard.GUARD_SECONDS:
            return  # Enter has been held down since the previous form, or was meant for it
        if self.host.conversation.is_busy:
            self.show_fault(_(_BUSY))
        else:
            self.dismiss((choice, self.messages))


def _added_texts(before: Sequence[Message], after: Sequence[Message]) -> Iterator[str]:
    """Yield the text of the parts that were added to the messages *before*, such as linked resources.

    *after* are the same messages with the added parts.
    """
    for old, new in zip(before, after, strict=True):
        for part in new.parts[len(old.parts) :]:
            if isinstance(part, (TextPart, ResourcePart)):
                yield part.text


def open_prompts(
    chat: "ChatScreen",
    open_page: Callable[[PromptsScreen, Callable[[Any], None]], None],
    selected: tuple[str, str] = ("", ""),
) -> None:
    """Open the list of prompts, then a form for the arguments of the chosen prompt, and insert the filled prompt.

    The cursor of the list starts on the prompt *selected*. If the user goes back from the form, the list is opened
    again. *open_page* opens a screen over the chat, and calls the function passed to it with the screen's result.
    """

    def fill(chosen: tuple[str, Prompt] | None) -> None:
        if chosen is not None:
            server, prompt = chosen
            fill_prompt(chat, server, prompt, partial(open_prompts, chat, open_page, (server, prompt.name)))

    open_page(PromptsScreen(chat.host, selected), fill)


def fill_prompt(chat: "ChatScreen", server: str, prompt: Prompt, on_leave: Callable[[], object] = lambda: None) -> None:
    """Open a form for the arguments of a prompt, then insert the filled prompt; call *on_leave* if the user goes back.

    A single user message with only text is inserted into the composer, where the user can edit it. Any other prompt
    is shown in a preview, and then added to the conversation as messages.
    """
    composer = chat.query_one(Composer)

    def filled(result: FilledPrompt | None) -> None:
        """Insert or preview the filled prompt; None means that the user canceled the form."""
        if result is None:
            composer.composer_input.focus()
            on_leave()
        elif is_plain_text(result.messages):
            insert_text(result, result.text)
            composer.composer_input.focus()
        else:
            chat.app.push_screen(PromptPreview(chat.host, result), partial(decided, result))  # pyright: ignore[reportUnknownMemberType]

    def insert_text(result: FilledPrompt, text: str) -> None:
        chat.host.features.note_prompt_text(server, result.name, text)
        composer.insert_prompt_text(server, text)

    def decided(result: FilledPrompt, decision: PromptDecision | None) -> None:
        choice, messages = decision or ("", ())
        if choice == "edit":
            insert_text(result, "\n\n".join((result.text, *_added_texts(result.messages, messages))))
        elif choice:
            shown = result._replace(messages=messages)
            chat.run_worker(partial(_insert, chat, shown, asks=choice == "answer"), group="turn")
        composer.composer_input.focus()

    chat.app.push_screen(PromptArgumentsForm(chat.host, server, prompt), filled)  # pyright: ignore[reportUnknownMemberType]


async def _insert(chat: "ChatScreen", prompt: FilledPrompt, *, asks: bool) -> None:
    try:
        await chat.host.conversation.insert(prompt.messages)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
        return
    name = clean_line(f"{prompt.server} · {prompt.name}", 80)
    back = keys_in_use(chat).fill(_("{undo_insert} undoes it."))
    chat.notify(
        _("{messages} of {name} inserted. {back}").format(
            messages=translate_count(len(prompt.messages), "message"), name=name, back=back
        ),
        markup=False,
        timeout=8,
    )
    if asks:
        chat.call_later(chat.continue_turn)


async def undo_insert(chat: "ChatScreen") -> None:
    """Remove the messages of the prompt that was inserted last, or explain why this is not possible."""
    try:
        count = await chat.host.conversation.undo_insert()
    except McpHostError as error:
        chat.notify(str(error), severity="warning", markup=False, timeout=6)
        return
    chat.notify(_("{messages} removed.").format(messages=translate_count(count, "message")), markup=False, timeout=4)
