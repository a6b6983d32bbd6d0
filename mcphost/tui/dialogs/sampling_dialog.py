"""Base class for dialogs that show, and let the user edit, the content of a sampling request or its reply."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import Deny
from mcphost.sanitize import short_mime_type
from mcphost.serialization import as_object, dumps
from mcphost.translation import N_, _
from mcphost.tui.dialogs.quoting_dialog import QuotingDialog
from mcphost.tui.forms.form import Form
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.image_view import ImageView, create_image_views
from mcphost.tui.widgets.key_values import QuotedPart, QuotedText

MAX_CHARACTERS = 100_000
"""Maximum characters of one text; a longer one cannot be shown in full, so it cannot be approved."""
MAX_TOTAL_CHARACTERS = 400_000
"""Maximum characters of all texts together; more would make layout slow."""
_PREVIEW_CHARACTERS = 1_000
_MAX_HEADING_LENGTH = 200
_MIN_BLOCK_COST = 40  # a shorter block is counted as this many characters, to limit the number of blocks
MAX_TEXTS = 50
"""Maximum text blocks of a request or reply that can be edited, always the last ones; longer forms are slow."""


class SamplingDialog(QuotingDialog[Any]):
    """Base class for dialogs that review a server's sampling request or the model's reply.

    After an edit, the dialog shows the new text, and the user must read it to the end before approving.
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
    EDIT_KEYS: ClassVar[str] = N_("tab next · shift+tab back · ctrl+s apply · esc discard")
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
        """Return the form fields for editing, and their current values keyed by field name."""
        raise NotImplementedError

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values, keyed by field name; return an error message, or "" if they are valid."""
        raise NotImplementedError

    def answer(self) -> Any:
        """Return the answer that approves the request or reply as shown, including the user's edits."""
        raise NotImplementedError

    # -- content

    def text_part(self, value: str, style: str = "") -> QuotedPart:
        """Return *value* as quoted text, not yet sanitized.

        If the text exceeds the limit for one text, or all texts together exceed the limit for the dialog, it is
        truncated, and approval is disabled.
        """
        room = min(MAX_CHARACTERS, max(0, self._remaining_characters))
        self._remaining_characters -= max(len(value), _MIN_BLOCK_COST)
        if len(value) > room or self._remaining_characters < 0:
            self.is_too_long = True
            left = len(value) - room
            value = _("{value}\n… {count:,} more characters: too long to approve here.").format(
                value=value[:room], count=max(0, left)
            )
        return QuotedPart(value, style)

    def content_parts(self, content: Any) -> Iterator[QuotedPart]:
        """Return the quoted parts that show *content*, which is one content block (a JSON object) or a list of them."""
        return (
            part
            for one in _as_list(content)
            if isinstance(one, dict)
            for part in self.block_parts(cast("dict[str, Any]", one))
        )

    def first_text(self, content: Any) -> str:
        """Return the beginning of the first text block in *content*, or "" if there is none.

        Like `content_parts`, this method accepts one content block or a list of them.
        """
        texts = (str(one.get("text", "")) for one in map(as_object, _as_list(content)) if one.get("type") == "text")
        return next(texts, "")[:_PREVIEW_CHARACTERS]

    def build_quoted_text(self, parts: Iterable[QuotedPart]) -> QuotedText:
        """Build the widget that shows the beginning of *parts*; the viewer shows all of them.

        If *parts* are too long to be approved, only those within the limit are shown. Every row except headings starts
        with a bar, so that text from a server or model cannot imitate a heading.
        """
        self._remaining_characters, self.is_too_long = MAX_TOTAL_CHARACTERS, False
        shown: list[QuotedPart] = []
        for part in parts:
            shown.append(part)
            if self.is_too_long:
                break
        return self.quote(shown)

    def heading_part(self, text: str, style: str = "$muted") -> QuotedPart:
        """Return a sanitized one-line heading written by mcphost; if it must be truncated, disable approval."""
        self._remaining_characters -= _MIN_BLOCK_COST
        line = clean_line(text, _MAX_HEADING_LENGTH)
        self.is_too_long |= line != clean_line(text, 2 * _MAX_HEADING_LENGTH)
        return QuotedPart(line, style, is_heading=True)

    def image_views(self, contents: Iterable[Any]) -> list[ImageView]:
        """Return widgets for the first four images in *contents*; each item is a content block or a list of blocks."""
        listed = (as_object(one) for content in contents for one in _as_list(content))
        return create_image_views(str(one.get("data", "")) for one in listed if one.get("type") == "image")

    def block_parts(self, block: dict[str, Any]) -> Iterator[QuotedPart]:
        """Yield the quoted parts that show a content block, given as a JSON object.

        A block that is not text has a heading, such as "[image: image/png, 2,048 bytes]".
        """
        match block.get("type"):
            case "text":
                yield self.text_part(str(block.get("text", "")))
            case "image" | "audio" as kind:
                size = len(str(block.get("data", ""))) * 3 // 4
                mime_type = short_mime_type(str(block.get("mimeType", "")))
                yield self.heading_part(
                    _("[{kind}: {text}, {size:,} bytes]").format(kind=kind, text=mime_type, size=size)
                )
            case "tool_use":
                yield self.heading_part(_("calls {text}").format(text=block.get("name")), "$accent")
                yield self.text_part(dumps(block.get("input")), "$accent")
            case kind:
                yield self.heading_part(f"[{kind}]")
                yield self.text_part(dumps(block), "$muted")

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        if button_id == "send" and self.is_too_long:
            return _("this is too long to approve here")
        return super().disabled_reason(button_id)

    def reminder(self) -> str:
        """Return a reminder to read the text that the dialog does not show.

        Return "" if the user has read all of it, or while the form is open.
        """
        return super().reminder() if self.form is None else ""

    def compose_extra(self) -> ComposeResult:
        """Yield the line for error messages, which is hidden while there is no error."""
        yield Static("", id="fault", markup=False)

    # -- answers

    def action_send(self) -> None:
        """Approve the request or reply as shown; do nothing while the form is open."""
        if self.form is None:
            self.approve("send", self.answer())

    def action_deny_unless_editing(self) -> None:
        """Deny the request; do nothing while the form is open, because the key then enters text."""
        if self.form is None:
            self.dismiss(Deny())

    def action_refuse(self) -> None:
        """Deny the request; if the form is open, only close the form."""
        if self.form is None:
            self.dismiss(Deny())
        else:
            self.call_later(self._close_form)

    # -- editing

    async def action_edit(self) -> None:
        """Open a form to edit the text, unless it is too long."""
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
        """Focus the next field of the form or, if no form is open, the next widget; go back if *by* is negative."""
        if self.form is not None:
            if not self.form.move_focus(by):
                self.form.focus_first() if by > 0 else self.form.focus_last()
        else:
            self.focus_next() if by > 0 else self.focus_previous()

    def action_apply(self) -> None:
        """Close the form and show the edited text for approval; if a value is invalid, show the error."""
        if self.form is None or not self.form.validate():
            return
        if fault := self.apply_edits(self.form.values()):
            self._show_fault(fault)
        else:
            self.call_later(self._close_form)

    def on_form_changed(self) -> None:
        """Clear the error message, because it referred to the previous values."""
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
        announce(self, text)
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)


def _as_list(content: Any) -> list[Any]:
    return list(cast("list[Any]", content)) if isinstance(content, list | tuple) else [content]


def _content_items(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [content]


def _text_blocks(content: Any) -> list[tuple[int, dict[str, Any]]]:
    blocks = [
        (at, cast("dict[str, Any]", one)) for at, one in enumerate(_content_items(content)) if isinstance(one, dict)
    ]
    return [(at, one) for at, one in blocks if one.get("type") == "text" and isinstance(one.get("text"), str)][
        -MAX_TEXTS:
    ]


def build_text_fields(
    content: Any, prefix: str, title: str, limit: int = MAX_TEXTS
) -> tuple[list[Field], dict[str, Any]]:
    """Return form fields for the text blocks in *content*, and the current texts keyed by field name.

    Only the last *limit* text blocks get a field. Each field has the title *title*. Its name is *prefix* followed
    by the block's index in *content*.
    """
    found = _text_blocks(content)[-limit:]
    fields = [Field(name=f"{prefix}{at}", kind="text", title=title) for at, _unused in found]
    return fields, {f"{prefix}{at}": block["text"] or None for at, block in found}


def replace_texts(content: Any, prefix: str, values: dict[str, Any]) -> Any:
    """Return *content* with the edited texts; return None if all blocks were removed.

    Text blocks that the user emptied are removed. *prefix* and the keys of *values* must match the field names from
    `build_text_fields`.
    """
    known = {at for at, _unused in _text_blocks(content) if f"{prefix}{at}" in values}
    made: list[Any] = []
    for at, block in enumerate(_content_items(content)):
        if at not in known:
            made.append(block)
        elif text := values[f"{prefix}{at}"]:
            made.append({**block, "text": text})
    if not made:
        return None
    return made if isinstance(content, list) else made[0]
