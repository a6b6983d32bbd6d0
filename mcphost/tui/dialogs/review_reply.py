"""Dialog to review and edit the model's reply to a sampling request before the server gets it."""

from typing import Any, ClassVar, cast

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import ApproveUnchanged, EditedReply, ReviewReply
from mcphost.tui.dialogs.sampling_cost import format_dollars
from mcphost.tui.dialogs.sampling_dialog import SamplingDialog
from mcphost.tui.dialogs.text_parts import build_text_fields, replace_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import KeyValueList

_STOP_REASONS = {
    "endTurn": "end of turn", "maxTokens": "token limit", "stopSequence": "stop sequence",
    "toolUse": "tool call",
}  # fmt: skip


class ReviewReplyDialog(SamplingDialog):
    """Ask whether the server may get the model's reply."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Don't send"), ("edit", "Edit"), ("send", "Send"))
    KEYS: ClassVar[str] = "esc/d don't send · e edit · a send"

    def __init__(self, question: ReviewReply) -> None:
        super().__init__(question)
        self.details = question
        self.content = question.content

    def headline(self) -> str:
        """Return the title."""
        return f"Send this answer to {self.details.server}?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return self.first_text(self.content)

    def answer(self) -> Any:
        """Return the answer that approves the shown texts."""
        return ApproveUnchanged() if self.content == self.details.content else EditedReply(self.content)

    def body(self) -> list[Content | Widget]:
        """Return the content of the dialog."""
        reason = clean_line(self.details.stop_reason, 60)
        facts = [("model", clean_line(self.details.model, 200)), ("stop reason", _STOP_REASONS.get(reason, reason))]
        usage = self.details.usage
        if usage.input_tokens or usage.output_tokens:
            dear = f" · {format_dollars(usage.cost)}" if usage.cost is not None else ""
            facts.append(("usage", f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{dear}"))
        if self.content != self.details.content:
            facts.append(("edited", "by you"))
        return [
            KeyValueList(facts),
            Content(""),
            self.build_quoted_text(self.content_parts(self.content)),
            *self.image_views([self.content]),
        ]

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """Return the editable fields and their values."""
        fields, values = build_text_fields(list(self.content), "", "text")
        return tuple(fields), values

    def apply_edits(self, values: dict[str, Any]) -> str:
        """Apply the edited values; return an error, or an empty text."""
        content = replace_texts(list(self.content), "", values)
        if content is None:
            return "The reply cannot be empty. To send nothing, choose Don't send."
        self.content = tuple(cast("list[dict[str, Any]]", content))
        return ""
