"""Base class of the sampling dialogs: texts shown whole, approved or edited."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import Deny
from mcphost.serialization import dumps
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.picture_view import ImageView, create_image_views
from mcphost.tui.widgets.quoted_text import QuotedPart, QuotedText

MAX_CHARACTERS = 100_000
"""Maximum characters of a text; a longer one cannot be read here, so it cannot be approved."""
MAX_TOTAL_CHARACTERS = 400_000
"""Maximum characters of all texts; more make layout slow."""
_PREVIEW_CHARACTERS = 1_000
_MAX_HEADING_LENGTH = 200
_MIN_BLOCK_COST = 40  # characters that a block counts for at least, to limit the number of blocks


class SamplingDialog(Dialog[Any]):
    """Dialog for texts that go to the model or come from it.

    Edited texts are shown like the first ones and must be read to the end before approval.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "deny_unless_editing", show=False),
        Binding("a", "send", show=False),
        Binding("e", "edit", show=False),
        Binding("ctrl+s", "apply", show=False),
        # Handled before the field, so that text typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    APPROVING: ClassVar[frozenset[str]] = frozenset({"send"})
    EDIT_KEYS: ClassVar[str] = "tab next · shift+tab back · ctrl+s apply · esc discard"
    DEFAULT_CSS = """
    SamplingDialog #fault { height: auto; color: $error; }
    SamplingDialog #body { scrollbar-gutter: stable; }
    """

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.is_too_long = False
        self.form: Form | None = None
        self._remaining_characters = MAX_TOTAL_CHARACTERS

    # -- overridden by each dialog

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """Return the editable fields and their current values."""
        raise NotImplementedError

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values; return an error, or an empty text."""
        raise NotImplementedError

    def answer(self) -> Any:
        """Return the answer that approves what is shown."""
        raise NotImplementedError

    # -- content

    def text_part(self, value: str, style: str = "") -> QuotedPart:
        """Return the clean text, cut if it is too long to be read."""
        room = min(MAX_CHARACTERS, max(0, self._remaining_characters))
        self._remaining_characters -= max(len(value), _MIN_BLOCK_COST)
        if len(value) > room or self._remaining_characters < 0:
            self.is_too_long = True
            left = len(value) - room
            value = f"{value[:room]}\n… {max(0, left):,} more characters: too long to approve here."
        return QuotedPart(clean(value), style)

    def content_parts(self, content: Any) -> Iterator[QuotedPart]:
        """Return the parts of wire content blocks; a block that is not text gets a heading."""
        return (part for one in _as_list(content) if isinstance(one, dict) for part in self.block_parts(_as_dict(one)))

    def first_text(self, content: Any) -> str:
        """Return the beginning of the first text in wire content blocks."""
        texts = (str(one.get("text", "")) for one in map(_as_dict, _as_list(content)) if one.get("type") == "text")
        return next(texts, "")[:_PREVIEW_CHARACTERS]

    def build_quoted_text(self, parts: Iterable[QuotedPart]) -> QuotedText:
        """Draw the parts up to the length limit, each text behind a bar so that it cannot imitate a heading."""
        self._remaining_characters, self.is_too_long = MAX_TOTAL_CHARACTERS, False
        shown: list[QuotedPart] = []
        for part in parts:
            shown.append(part)
            if self.is_too_long:
                break
        return QuotedText(shown)

    def heading_part(self, text: str, style: str = "$muted") -> QuotedPart:
        """Return a heading written by mcphost."""
        self._remaining_characters -= _MIN_BLOCK_COST
        return QuotedPart(clean_line(text, _MAX_HEADING_LENGTH), style, is_heading=True)

    def image_views(self, contents: Iterable[Any]) -> list[ImageView]:
        """Return views of the images in these contents, if the terminal can draw them."""
        listed = (_as_dict(one) for content in contents for one in _as_list(content))
        return create_image_views(str(one.get("data", "")) for one in listed if one.get("type") == "image")

    def block_parts(self, block: dict[str, Any]) -> Iterator[QuotedPart]:
        """Yield the parts of one block; one that is not text gets a heading."""
        match block.get("type"):
            case "text":
                yield self.text_part(str(block.get("text", "")))
            case "image" | "audio" as kind:
                size = len(str(block.get("data", ""))) * 3 // 4
                yield self.heading_part(f"[{kind}: {block.get('mimeType')}, {size:,} bytes]")
            case "tool_use":
                yield self.heading_part(f"calls {block.get('name')}", "$accent")
                yield self.text_part(dumps(block.get("input")), "$accent")
            case kind:
                yield self.heading_part(f"[{kind}]")
                yield self.text_part(dumps(block), "$muted")

    def disabled_reason(self, ident: str) -> str:
        """Return why a button is disabled; empty if it is not."""
        if ident == "send" and self.is_too_long:
            return "this is too long to approve here"
        return super().disabled_reason(ident)

    def compose_extra(self) -> ComposeResult:
        """Yield the inputs."""
        yield Static("", id="fault", markup=False)

    # -- answers

    def action_send(self) -> None:
        """Approve what is shown."""
        if self.form is None:
            self.approve("send", self.answer())

    def action_deny_unless_editing(self) -> None:
        """Deny by key, except in the form, where the key is text."""
        if self.form is None:
            self.dismiss(Deny())

    def action_refuse(self) -> None:
        """Deny; from the form, go back to the question first."""
        if self.form is None:
            self.dismiss(Deny())
        else:
            self.call_later(self._close_form)

    # -- editing

    async def action_edit(self) -> None:
        """Edit the texts in a form."""
        if self.form is None and not self.is_too_long:
            self.form = Form(*self.fields(), shows_names=False)
            await self._open_form(self.form)

    async def _open_form(self, form: Form) -> None:
        body = self.query_one("#body")
        await body.remove_children()
        body.can_focus = False
        await body.mount(form)
        self.query_one("#buttons").display = False
        self.show_key_hints(self.EDIT_KEYS)
        body.scroll_to(y=0, animate=False)
        form.focus_first()
        self.fit()

    def action_step(self, by: int) -> None:
        """Focus the next field or the next button."""
        if self.form is not None:
            if not self.form.move_focus(by):
                self.form.focus_first() if by > 0 else self.form.focus_last()
        else:
            self.focus_next() if by > 0 else self.focus_previous()

    def action_apply(self) -> None:
        """Show the edited texts for approval."""
        if self.form is None or not self.form.validate():
            return
        if fault := self.apply_edits(self.form.values()):
            self._show_fault(fault)
        else:
            self.call_later(self._close_form)

    def on_form_changed(self) -> None:
        """Remove an error about earlier values."""
        self._show_fault("")

    async def _close_form(self) -> None:
        self.form = None
        self._show_fault("")
        self.query_one("#buttons").display = True
        self.query_one("#body").can_focus = True
        self.show_key_hints(self.KEYS)
        await self.show_body()
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _show_fault(self, text: str) -> None:
        self.query_one("#fault", Static).update(text)
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)


def _as_list(content: Any) -> list[Any]:
    return list(cast("list[Any]", content)) if isinstance(content, list | tuple) else [content]


def _as_dict(block: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", block) if isinstance(block, dict) else {}
