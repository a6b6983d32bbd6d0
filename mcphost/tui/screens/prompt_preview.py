"""Preview of a filled prompt, shown before its messages are added to the conversation."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from mcphost.errors import McpHostError
from mcphost.host.conversation.prompt_messages import read_links
from mcphost.llm.messages import FilePart, ImagePart, Message, Part, ResourcePart, TextPart
from mcphost.llm.model import ModelFacts
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _
from mcphost.tui import input_guard
from mcphost.tui.image_cache import images_unsupported_reason
from mcphost.tui.messages import Section
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.prompts import FilledPrompt
from mcphost.tui.transcript.image_block import detect_image
from mcphost.tui.widgets.image_view import MAX_IMAGES, ImageView
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

PromptChoice = Literal["insert", "answer", "edit"]
PromptDecision = tuple[PromptChoice, tuple[Message, ...]]
_ABOUT = N_("The server wrote all of this, including the assistant's messages. The model reads them as its own.")
_BUSY = N_("Still answering. Insert it when the answer is complete, or edit it as text.")


def describe_part(part: Part) -> str:
    """Return the text of a part, or a description of it; the text is not sanitized."""
    match part:
        case TextPart():
            return part.text
        case ResourcePart():
            return f"resource {part.uri}{f', {part.mime_type}' if part.mime_type else ''}\n{part.text}"
        case ImagePart():
            return f"[{part.name}: {part.mime_type}, {_format_size(part.data)}]"
        case FilePart():
            return f"[{part.name}: {part.mime_type}, {_format_size(part.data)}]"
        case _:
            return ""


def _format_size(data: str) -> str:
    return _("about {data_count:,} bytes").format(data_count=len(data) * 3 // 4)


def preview_sections(messages: tuple[Message, ...]) -> list[Section]:
    """Return a viewer section for each message, with its role as the heading."""
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
    """Yield the images that can be drawn, each with the number of its message, counted from 1."""
    for number, message in enumerate(messages, 1):
        for part in message.parts:
            if isinstance(part, ImagePart) and detect_image(part) is not None:
                yield number, part


class PromptPreview(FormScreen[PromptDecision]):
    """Preview of a filled prompt; its result is the chosen action with the messages, or None."""

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
        """Yield a note on who wrote the messages, and the messages."""
        yield Static(Content.styled(_(_ABOUT), "$muted"), markup=False)
        yield LongText("")
        yield Horizontal(id="pictures")

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button; "answer" is offered only after a user message."""
        last = self.prompt.messages[-1].role
        answer = (("answer", _("Insert and send")),) if last == "user" else ()
        read = (("read_links", _("Read the links")),) if self.prompt.links else ()
        return (("insert", _("Insert")), *answer, *read, ("edit", _("Edit as text")))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("tab next · enter chooses · page up/down scroll · esc back")

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
        """Draw the first images of the messages side by side, if the terminal can show them."""
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
        """Scroll the messages by this number of pages."""
        text = self.query_one(LongText)
        (text.scroll_page_down if by > 0 else text.scroll_page_up)(animate=False)

    def action_insert(self) -> None:
        """Insert the messages without asking the model."""
        self._decide("insert")

    def action_answer(self) -> None:
        """Insert the messages and let the model answer."""
        self._decide("answer")

    def action_edit(self) -> None:
        """Insert the messages into the composer as a single text."""
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
            self.show_fault(f"{error.message} {error.hint}".strip())
            return
        self.show_fault("")
        self._show_messages()
        self.query_one("#insert").focus()
        await self.query_one("#read_links").remove()

    def _decide(self, choice: PromptChoice) -> None:
        pressed_before, self._pressed_at = self._pressed_at, input_guard.clock()
        if self._pressed_at - pressed_before < input_guard.GUARD_SECONDS:
            return  # Enter has been held down since the form before, or was meant for it
        if self.host.conversation.is_busy:
            self.show_fault(_(_BUSY))
        else:
            self.dismiss((choice, self.messages))
