"""Dialog to send, edit or hold back the model's reply to a server's sampling request."""

from typing import Any, ClassVar, cast

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import ApproveUnchanged, EditedReply, ReviewReply
from mcphost.pluralize import format_cost
from mcphost.translation import N_, _
from mcphost.tui.dialogs.sampling_dialog import SamplingDialog, build_text_fields, replace_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import KeyValueList

_STOP_REASONS = {
    "endTurn": N_("end of turn"), "maxTokens": N_("token limit"), "stopSequence": N_("stop sequence"),
    "toolUse": N_("tool call"),
}  # fmt: skip


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
        """Return the answer that approves the reply as shown, including the user's edits."""
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
            cost = f" · {format_cost(usage.cost)}" if usage.cost is not None else ""
            facts.append(
                (
                    _("usage"),
                    _("{input_tokens:,} tokens in, {output_tokens:,} out{cost}").format(
                        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost=cost
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
