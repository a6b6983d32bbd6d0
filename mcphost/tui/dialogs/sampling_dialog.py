"""What both dialogs of a sampling share: texts shown whole, one key that lets them go on, one that edits them."""

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
"""What is longer cannot be read here, so it cannot be agreed to here."""
MAX_TOTAL_CHARACTERS = 400_000
"""The same for all of it together: laying out more would hold up the screen."""
_PREVIEW_CHARACTERS = 1_000
_MAX_HEADING_LENGTH = 200
_MIN_BLOCK_COST = 40  # what a block counts for at least: a flood of empty ones is one, too


class SamplingDialog(Dialog[Any]):
    """A text that goes to the model, or comes from it: shown whole, let go on by one key, edited by another.

    Edited texts are shown like the first ones, and are read to their end before they go anywhere.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "deny_unless_editing", show=False),
        Binding("a", "send", show=False),
        Binding("e", "edit", show=False),
        Binding("ctrl+s", "apply", show=False),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    APPROVING: ClassVar[frozenset[str]] = frozenset({"send"})
    EDIT_KEYS: ClassVar[str] = "tab next · shift+tab back · ctrl+s apply · esc drop the edits"
    DEFAULT_CSS = """
    SamplingDialog #fault { height: auto; color: $error; }
    SamplingDialog #body { scrollbar-gutter: stable; }
    """

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.is_too_long = False
        self.form: Form | None = None
        self._remaining_characters = MAX_TOTAL_CHARACTERS

    # -- what each fills in

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """What can be edited, and what it is now."""
        raise NotImplementedError

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Take this over; or why that cannot be."""
        raise NotImplementedError

    def answer(self) -> Any:
        """The answer that sends what is shown."""
        raise NotImplementedError

    # -- showing

    def text_part(self, value: str, style: str = "") -> QuotedPart:
        """Clean, and whole unless it is beyond reading."""
        room = min(MAX_CHARACTERS, max(0, self._remaining_characters))
        self._remaining_characters -= max(len(value), _MIN_BLOCK_COST)
        if len(value) > room or self._remaining_characters < 0:
            self.is_too_long = True
            left = len(value) - room
            value = f"{value[:room]}\n… {max(0, left):,} more characters: too long to agree to here."
        return QuotedPart(clean(value), style)

    def content_parts(self, content: Any) -> Iterator[QuotedPart]:
        """Content blocks of the wire; what is no text is named."""
        return (part for one in _as_list(content) if isinstance(one, dict) for part in self.block_parts(_as_dict(one)))

    def first_text(self, content: Any) -> str:
        """The first text in content blocks of the wire, cut."""
        texts = (str(one.get("text", "")) for one in map(_as_dict, _as_list(content)) if one.get("type") == "text")
        return next(texts, "")[:_PREVIEW_CHARACTERS]

    def build_quoted_text(self, parts: Iterable[QuotedPart]) -> QuotedText:
        """All of it, up to where it is too long, each text behind a bar: none can fake a heading or a setting."""
        self._remaining_characters, self.is_too_long = MAX_TOTAL_CHARACTERS, False
        shown: list[QuotedPart] = []
        for part in parts:
            shown.append(part)
            if self.is_too_long:
                break
        return QuotedText(shown)

    def heading_part(self, text: str, style: str = "$muted") -> QuotedPart:
        """What a part is, in our words."""
        self._remaining_characters -= _MIN_BLOCK_COST
        return QuotedPart(clean_line(text, _MAX_HEADING_LENGTH), style, is_heading=True)

    def image_views(self, contents: Iterable[Any]) -> list[ImageView]:
        """The pictures among these contents, drawn where the terminal can; they are named above."""
        listed = (_as_dict(one) for content in contents for one in _as_list(content))
        return create_image_views(str(one.get("data", "")) for one in listed if one.get("type") == "image")

    def block_parts(self, block: dict[str, Any]) -> Iterator[QuotedPart]:
        """One block; what is no text of a message has a heading of its own."""
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
        if ident == "send" and self.is_too_long:
            return "this is too long to agree to here"
        return super().disabled_reason(ident)

    def compose_extra(self) -> ComposeResult:
        yield Static("", id="fault", markup=False)

    # -- answering

    def action_send(self) -> None:
        """What was shown."""
        if self.form is None:
            self.approve("send", self.answer())

    def action_deny_unless_editing(self) -> None:
        """Nothing leaves; in a form the key is one of its own."""
        if self.form is None:
            self.dismiss(Deny())

    def action_refuse(self) -> None:
        """Nothing leaves; out of the form first."""
        if self.form is None:
            self.dismiss(Deny())
        else:
            self.call_later(self._close_form)

    # -- editing

    async def action_edit(self) -> None:
        """The texts as fields to fill in."""
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
        """To the next field, or the next button."""
        if self.form is not None:
            if not self.form.move_focus(by):
                self.form.focus_first() if by > 0 else self.form.focus_last()
        else:
            self.focus_next() if by > 0 else self.focus_previous()

    def action_apply(self) -> None:
        """Show what was edited, to be agreed to or not."""
        if self.form is None or not self.form.validate():
            return
        if fault := self.apply_edits(self.form.values()):
            self._show_fault(fault)
        else:
            self.call_later(self._close_form)

    def on_form_changed(self) -> None:
        """A fault is about what was there before."""
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
