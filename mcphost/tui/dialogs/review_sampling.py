"""Dialog to review a sampling request before the model gets it: edit it or choose another model."""

from collections.abc import Iterator
from typing import Any, ClassVar

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import ApproveUnchanged, EditedRequest, ModelCandidate, ReviewSampling
from mcphost.serialization import dumps, replace
from mcphost.tui.dialogs.sampling_cost import format_cost
from mcphost.tui.dialogs.sampling_dialog import SamplingDialog
from mcphost.tui.dialogs.text_parts import build_text_fields, replace_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.quoted_text import QuotedPart

_MAX_NAMED_TOOLS = 4


class ReviewSamplingDialog(SamplingDialog):
    """Ask whether a server may send this request to the model."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Deny"), ("edit", "Edit"), ("send", "Ask the model"))
    KEYS: ClassVar[str] = "esc/d deny · e edit, other model · a ask the model"

    def __init__(self, question: ReviewSampling) -> None:
        super().__init__(question)
        self.details = question
        self.edited_details = question
        self.includes_context = False

    def headline(self) -> str:
        """Return the title."""
        return f"Let {self.details.server} ask your model?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return self.first_text(self.edited_details.messages[-1].get("content") if self.edited_details.messages else ())

    def answer(self) -> Any:
        """Return the answer that approves the shown texts."""
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
        """Return the content of the dialog."""
        asked = self.edited_details
        dear = format_cost(self._model_offer(), asked.tokens, asked.max_tokens)
        facts = [("model", clean_line(asked.label, 200)), ("at most", f"{asked.max_tokens:,} tokens · {dear}")]
        out: list[Content | Widget] = [
            KeyValueList([*facts, *self._request_rows()]),
            self.build_quoted_text(self._sent_parts()),
        ]
        out += self.image_views(message.get("content") for message in self.edited_details.messages)
        out += [Content(""), KeyValueList([*self._model_rows(), *self._setting_rows()])]
        out.append(
            Content.styled("\nYour model gets exactly this, and you see its answer before the server does.", "$faint")
        )
        return out

    def _model_rows(self) -> Iterator[tuple[str, str]]:
        """Yield why this model was selected, the other models, and the budget used by the server."""
        asked = self.edited_details
        reason = asked.reason if asked.model == self.details.model else "You chose it."
        if reason:
            yield "reason", clean_line(reason, 600)
        others = [one for one in asked.models if one.name != asked.model]
        if others:
            names = (
                f"{clean_line(one.name, 100)} ({format_cost(one, asked.tokens, asked.max_tokens)})" for one in others
            )
            yield "other models", "\n".join(names)
        if asked.budget:
            yield "used so far", "\n".join(f"{one.used:,} of {one.most:,} {one.what}" for one in asked.budget)

    def _model_offer(self) -> ModelCandidate | None:
        return next((one for one in self.edited_details.models if one.name == self.edited_details.model), None)

    def _setting_rows(self) -> Iterator[tuple[str, str]]:
        asked = self.edited_details
        if asked.temperature is not None:
            yield "temperature", f"{asked.temperature:g}"
        if asked.stop:
            yield "stop sequences", " ".join(dumps(clean_line(stop, 1_000)) for stop in asked.stop)

    def _request_rows(self) -> Iterator[tuple[str, str]]:
        asked = self.edited_details
        if asked.include_context != "none":
            offered = "not included" + (", unless you add it (e)" if asked.conversation else "")
            yield "requests", f"your conversation; {'added by you' if self.includes_context else offered}"
        if asked.tools:
            names = ", ".join(clean_line(str(tool.get("name", "")), 100) for tool in asked.tools[:_MAX_NAMED_TOOLS])
            names += f", … {len(asked.tools)} in all, below" if len(asked.tools) > _MAX_NAMED_TOOLS else ""
            must = {"required": "; one must be called", "none": "; none may be called"}.get(asked.tool_choice, "")
            yield "server tools", f"{names} (run by the server{must})"

    def _sent_parts(self) -> Iterator[QuotedPart]:
        """Yield what the model gets from the server, including descriptions of tools."""
        if self.edited_details.system:
            yield from self._section_heading("the server's instructions")
            yield self.text_part(self.edited_details.system)
        if self.includes_context:
            yield from self._section_heading("your conversation, added by you", "$warning")
            yield self.text_part(self.edited_details.conversation)
        for message in self.edited_details.messages:
            yield from self._section_heading(clean_line(str(message.get("role", "")), 20))
            yield from self.content_parts(message.get("content"))
        for tool in self.edited_details.tools:
            yield from self._section_heading(f"its tool {clean_line(str(tool.get('name', '')), 100)}")
            if words := tool.get("description") or tool.get("title"):
                yield self.text_part(str(words))
            if schema := tool.get("inputSchema"):
                yield self.text_part(dumps(schema), "$faint")

    def _section_heading(self, heading: str, style: str = "$muted") -> Iterator[QuotedPart]:
        """Yield an empty row and a heading."""
        yield QuotedPart("", is_heading=True)
        yield self.heading_part(heading, style)

    # -- editing

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """Return the editable fields and their values."""
        now = self.edited_details
        fields: list[Field] = []
        values: dict[str, Any] = {"model": now.model, "max tokens": now.max_tokens, "system": now.system or None}
        if len(now.models) > 1:
            titles = (f"{one.name} · {format_cost(one, now.tokens, now.max_tokens)}" for one in now.models)
            options = tuple(Option(one.name, title) for one, title in zip(now.models, titles, strict=True))
            fields.append(Field(name="model", kind="choice", required=True, options=options))
        most = self.details.max_tokens
        fields.append(Field(name="max tokens", kind="integer", required=True, minimum=1, maximum=most))
        if now.conversation:
            fields.append(Field(name="add my conversation", kind="boolean", required=True))
            values["add my conversation"] = self.includes_context
        fields.append(Field(name="system", kind="text", title="its instructions"))
        for number, message in enumerate(now.messages):
            role = clean_line(str(message.get("role", "")), 20)
            more, texts = build_text_fields(message.get("content"), f"{number}.", f"{number + 1} {role}")
            fields += more
            values |= texts
        return tuple(fields), values

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values; return an error, or an empty text."""
        made: list[dict[str, Any]] = []
        for number, message in enumerate(self.edited_details.messages):
            content = replace_texts(message.get("content"), f"{number}.", values)
            if content is not None:
                made.append({**message, "content": content})
        if not made:
            return "Keep at least one message."
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
