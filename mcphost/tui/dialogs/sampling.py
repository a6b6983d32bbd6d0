"""Dialogs to approve, edit or deny a server's sampling request, and then the model's reply to the request."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import (
    ApproveUnchanged,
    Deny,
    EditedReply,
    EditedRequest,
    LimitUsage,
    ModelCandidate,
    ReviewReply,
    ReviewSampling,
)
from mcphost.pluralize import format_cost, format_dollars
from mcphost.sanitize import short_mime_type
from mcphost.serialization import as_object, dumps, replace
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.quoting_dialog import QuotingDialog
from mcphost.tui.forms.form import Form
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.image_view import ImageView, create_image_views
from mcphost.tui.widgets.key_values import KeyValueList, QuotedPart, QuotedText

MAX_CHARACTERS = 100_000
"""Maximum characters of one text; a longer one cannot be shown in full, so it cannot be approved."""
MAX_TOTAL_CHARACTERS = 400_000
"""Maximum characters of all texts together; more would make layout slow."""
_PREVIEW_CHARACTERS = 1_000
_MAX_HEADING_LENGTH = 200
_MIN_BLOCK_COST = 40  # a shorter block is counted as this many characters, to limit the number of blocks
MAX_TEXTS = 50
"""Maximum text blocks of a request or reply that can be edited, always the last ones; longer forms are slow."""
_MAX_STOP_SHOWN = 100_000
"""Maximum characters shown of a stop sequence; no accepted one is longer, even if all its characters become marks."""
_MAX_NAMED_TOOLS = 4
_STOP_REASONS = {
    "endTurn": N_("end of turn"), "maxTokens": N_("token limit"), "stopSequence": N_("stop sequence"),
    "toolUse": N_("tool call"),
}  # fmt: skip


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
        """Return the dialog's answer if the user approves: the request or reply as shown, including edits."""
        raise NotImplementedError

    # -- content

    def text_part(self, value: str, style: str = "") -> QuotedPart:
        """Return *value* as quoted text, not yet sanitized.

        If the text is too long, it is truncated, and approval is disabled. There is a limit for each text and another
        limit for the total length of the texts in the dialog.
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
        """Return the quoted parts that show *content*, which is in wire format; a non-text block has a heading."""
        return (
            part
            for one in _as_list(content)
            if isinstance(one, dict)
            for part in self.block_parts(cast("dict[str, Any]", one))
        )

    def first_text(self, content: Any) -> str:
        """Return the beginning of the first text block in *content*, given in wire format, or "" if there is none."""
        texts = (str(one.get("text", "")) for one in map(as_object, _as_list(content)) if one.get("type") == "text")
        return next(texts, "")[:_PREVIEW_CHARACTERS]

    def build_quoted_text(self, parts: Iterable[QuotedPart]) -> QuotedText:
        """Build the widget that shows the beginning of *parts*.

        The viewer shows all parts, up to a maximum length. Every row except headings starts with a bar, so that
        text from a server or model cannot imitate a heading.
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
        """Yield the quoted parts that show a content block, which is in wire format.

        A block that is not text has a heading.
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
        """Focus the next field, or the previous one if *by* is negative; if no form is open, focus a button."""
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


def format_request_cost(offer: ModelCandidate | None, tokens: int, max_tokens: int) -> str:
    """Format the maximum cost of a model request, such as "about $0.12", "cost unknown" or "free".

    *offer* is the model, with its prices, or None if it is unknown. *tokens* is the number of input tokens, and
    *max_tokens* the maximum number of output tokens.
    """
    if offer is None or offer.input_price is None or offer.output_price is None:
        return _("cost unknown")
    dollars = tokens * offer.input_price + max_tokens * offer.output_price
    return _("about {dollars}").format(dollars=format_dollars(dollars)) if dollars > 0 else _("free")


def _format_usage(usage: LimitUsage) -> str:
    return _("{used:,} of {limit:,} {label}").format(
        used=usage.used, limit=usage.limit, label=translate_sentence(usage.label)
    )


def _used_share(usage: LimitUsage) -> float:
    return usage.used / max(1, usage.limit)


def _content_items(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [content]


def _text_blocks(content: Any) -> list[tuple[int, dict[str, Any]]]:
    blocks = [
        (at, cast("dict[str, Any]", one)) for at, one in enumerate(_content_items(content)) if isinstance(one, dict)
    ]
    return [(at, one) for at, one in blocks if one.get("type") == "text" and isinstance(one.get("text"), str)][
        -MAX_TEXTS:
    ]


def _role_name(message: dict[str, Any]) -> str:
    role = str(message.get("role", ""))
    return {"user": _("user"), "assistant": _("assistant")}.get(role, clean_line(role, 20))


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


class ReviewSamplingDialog(SamplingDialog):
    """Dialog that asks whether a server may send a sampling request to the model."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Deny")),
        ("edit", N_("Edit")),
        ("send", N_("Ask the model")),
    )
    KEYS: ClassVar[str] = N_("esc/d deny · e edit, other model · a ask the model")

    def __init__(self, question: ReviewSampling) -> None:
        super().__init__(question)
        self.details = question
        self.edited_details = question
        self.includes_context = False

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Let {server} ask your model?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the beginning of the last message for the card shown while the dialog is minimized."""
        return self.first_text(self.edited_details.messages[-1].get("content") if self.edited_details.messages else ())

    def answer(self) -> Any:
        """Return the dialog's answer if the user approves: the request as shown, including edits."""
        asked, now = self.details, self.edited_details
        if now == asked and not self.includes_context:
            return ApproveUnchanged()
        return EditedRequest(
            messages=now.messages if now.messages != asked.messages else None,
            system=now.system if now.system != asked.system else None,
            max_tokens=now.max_tokens if now.max_tokens != asked.max_tokens else None,
            model=now.model if now.model != asked.model else None,
            context=self.includes_context,
        )

    # -- content

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the model, the cost, everything to be sent, and the request's settings."""
        asked = self.edited_details
        dear = format_request_cost(self._model_offer(), asked.tokens, asked.max_tokens)
        facts = [
            (_("model"), clean_line(asked.label, 200)),
            (_("at most"), _("{max_tokens:,} tokens · {dear}").format(max_tokens=asked.max_tokens, dear=dear)),
        ]
        out: list[Content | Widget] = [
            KeyValueList([*facts, *self._request_rows()]),
            self.build_quoted_text(self._sent_parts()),
        ]
        out += self.image_views(message.get("content") for message in self.edited_details.messages)
        # The limits are only information, so approval does not wait for them.
        out += [Content(""), KeyValueList([*self._model_rows(), *self._setting_rows()], id="sent")]
        out.append(
            Content.styled(
                _("\nYour model gets exactly this, and you see its answer before the server does."), "$faint"
            )
        )
        if len(asked.budget) > 1:
            out += [Content(""), KeyValueList([(_("all limits"), "\n".join(map(_format_usage, asked.budget)))])]
        return out

    def _model_rows(self) -> Iterator[tuple[str, str]]:
        """Yield name-value pairs about the model: why it was chosen, the alternatives, and the server's usage.

        The usage is shown only for the limit of which the server has used the largest share.
        """
        asked = self.edited_details
        reason = translate_sentence(asked.reason) if asked.model == self.details.model else _("You chose it.")
        if reason:
            yield _("reason"), clean_line(reason, 600)
        others = [one for one in asked.models if one.name != asked.model]
        if others:
            names = (
                f"{clean_line(one.name, 100)} ({format_request_cost(one, asked.tokens, asked.max_tokens)})"
                for one in others
            )
            yield _("other models"), "\n".join(names)
        if asked.budget:
            yield _("used so far"), _format_usage(max(asked.budget, key=_used_share))

    def _model_offer(self) -> ModelCandidate | None:
        return next((one for one in self.edited_details.models if one.name == self.edited_details.model), None)

    def _setting_rows(self) -> Iterator[tuple[str, str]]:
        asked = self.edited_details
        if asked.temperature is not None:
            yield _("temperature"), f"{asked.temperature:g}"

    def _request_rows(self) -> Iterator[tuple[str, str]]:
        asked = self.edited_details
        if asked.stop:  # text of the server, so it is shown whole, and above what must be read before approval
            yield _("stop sequences"), " ".join(dumps(clean_line(stop, _MAX_STOP_SHOWN)) for stop in asked.stop)
        if asked.include_context != "none":
            if self.includes_context:
                text = _("the server asks for yours; you added it")
            elif asked.conversation:
                text = _("the server asks for yours; not sent unless you add it (e)")
            else:
                text = _("the server asks for yours; not sent")
            yield _("conversation"), text
        if asked.tools:
            names = join_list(clean_line(str(tool.get("name", "")), 100) for tool in asked.tools[:_MAX_NAMED_TOOLS])
            names += (
                _(", … {tools_count} in all, below").format(tools_count=len(asked.tools))
                if len(asked.tools) > _MAX_NAMED_TOOLS
                else ""
            )
            must = {"required": _("; one must be called"), "none": _("; none may be called")}.get(asked.tool_choice, "")
            yield _("server tools"), _("{names} (run by the server{must})").format(names=names, must=must)

    def _sent_parts(self) -> Iterator[QuotedPart]:
        """Yield everything that the model would receive: instructions, conversation, messages and tools."""
        if self.edited_details.system:
            yield from self._section_heading(_("the server's instructions"))
            yield self.text_part(self.edited_details.system)
        if self.includes_context:
            yield from self._section_heading(_("your conversation, added by you"), "$warning")
            yield self.text_part(self.edited_details.conversation)
        for message in self.edited_details.messages:
            yield from self._section_heading(_role_name(message))
            yield from self.content_parts(message.get("content"))
        for tool in self.edited_details.tools:
            yield from self._section_heading(
                _("its tool {text}").format(text=clean_line(str(tool.get("name", "")), 100))
            )
            if words := tool.get("description") or tool.get("title"):
                yield self.text_part(str(words))
            if schema := tool.get("inputSchema"):
                yield self.text_part(dumps(schema), "$faint")

    def _section_heading(self, heading: str, style: str = "$muted") -> Iterator[QuotedPart]:
        yield QuotedPart("", is_heading=True)
        yield self.heading_part(heading, style)

    # -- editing

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """Return the form fields for editing, and their current values keyed by field name."""
        now = self.edited_details
        fields: list[Field] = []
        values: dict[str, Any] = {"model": now.model, "max tokens": now.max_tokens, "system": now.system or None}
        if len(now.models) > 1:
            # The list begins at the model in use, also if it is not one of those that mcphost offers.
            known = any(one.name == now.model for one in now.models)
            models = now.models if known else (ModelCandidate(name=now.model, label=now.label), *now.models)
            titles = (f"{one.name} · {format_request_cost(one, now.tokens, now.max_tokens)}" for one in models)
            options = tuple(Option(one.name, title) for one, title in zip(models, titles, strict=True))
            fields.append(Field(name="model", title=_("model"), kind="choice", required=True, options=options))
        most = self.details.max_tokens
        fields.append(
            Field(name="max tokens", title=_("max tokens"), kind="integer", required=True, minimum=1, maximum=most)
        )
        if now.conversation:
            fields.append(
                Field(name="add my conversation", title=_("add my conversation"), kind="boolean", required=True)
            )
            values["add my conversation"] = self.includes_context
        fields.append(Field(name="system", kind="text", title=_("its instructions")))
        groups: list[list[Field]] = []
        room = MAX_TEXTS
        for number, message in reversed(list(enumerate(now.messages))):
            if not room:
                break
            title = f"{number + 1} {_role_name(message)}"
            group, texts = build_text_fields(message.get("content"), f"{number}.", title, room)
            groups.append(group)
            values |= texts
            room -= len(group)
        return (*fields, *(field for group in reversed(groups) for field in group)), values

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values, keyed by field name; return an error message, or "" if they are valid."""
        made: list[dict[str, Any]] = []
        for number, message in enumerate(self.edited_details.messages):
            content = replace_texts(message.get("content"), f"{number}.", values)
            if content is not None:
                made.append({**message, "content": content})
        if not made:
            return _("Keep at least one message.")
        model = values.get("model") or self.edited_details.model
        label = next((one.label for one in self.edited_details.models if one.name == model), self.edited_details.label)
        self.includes_context = bool(values.get("add my conversation"))
        self.edited_details = replace(
            self.edited_details,
            messages=tuple(made) if made != list(self.edited_details.messages) else self.edited_details.messages,
            system=values.get("system") or "",
            max_tokens=values["max tokens"],
            model=model,
            label=label,
        )
        return ""


class ReviewReplyDialog(SamplingDialog):
    """Dialog that asks whether a server may receive the model's reply to its sampling request."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Don't send")),
        ("edit", N_("Edit")),
        ("send", N_("Send")),
    )
    KEYS: ClassVar[str] = N_("esc/d don't send · e edit · a send")

    def __init__(self, question: ReviewReply) -> None:
        super().__init__(question)
        self.details = question
        self.content = question.content

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Send this answer to {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the beginning of the reply for the card shown while the dialog is minimized."""
        return self.first_text(self.content)

    def answer(self) -> Any:
        """Return the dialog's answer if the user approves: the reply as shown, including edits."""
        return ApproveUnchanged() if self.content == self.details.content else EditedReply(self.content)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the model, its token usage and the reply."""
        reason = clean_line(self.details.stop_reason, 60)
        facts = [
            (_("model"), clean_line(self.details.model, 200)),
            (_("stop reason"), _(_STOP_REASONS.get(reason, reason))),
        ]
        usage = self.details.usage
        if usage.input_tokens or usage.output_tokens:
            dear = f" · {format_cost(usage.cost)}" if usage.cost is not None else ""
            facts.append(
                (
                    _("usage"),
                    _("{input_tokens:,} tokens in, {output_tokens:,} out{dear}").format(
                        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, dear=dear
                    ),
                )
            )
        if self.content != self.details.content:
            facts.append(("edited", _("by you")))
        return [
            KeyValueList(facts),
            Content(""),
            self.build_quoted_text(self.content_parts(self.content)),
            *self.image_views([self.content]),
        ]

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """Return the form fields for editing, and their current values keyed by field name."""
        fields, values = build_text_fields(list(self.content), "", _("text"))
        return tuple(fields), values

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values, keyed by field name; return an error message, or "" if they are valid."""
        content = replace_texts(list(self.content), "", values)
        if content is None:
            return _("The reply cannot be empty. To send nothing, choose Don't send.")
        self.content = tuple(cast("list[dict[str, Any]]", content))
        return ""
