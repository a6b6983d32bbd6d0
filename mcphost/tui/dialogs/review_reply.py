"""What the model answered to a server's question, before it leaves: read whole, edited."""

from typing import Any, ClassVar, cast

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import AsShown, EditedReply, ReviewReply
from mcphost.tui.dialogs.sampling_cost import money
from mcphost.tui.dialogs.sampling_dialog import SamplingDialog
from mcphost.tui.dialogs.text_parts import fields_of, with_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import Pairs

_ENDS = {
    "endTurn": "its own end", "maxTokens": "the limit of tokens", "stopSequence": "a word it was to end before",
    "toolUse": "calling a tool",
}  # fmt: skip


class ReviewReplyDialog(SamplingDialog):
    """May the server have what the model answered?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Keep it"), ("edit", "Edit"), ("go_on", "Send it"))
    KEYS: ClassVar[str] = "esc/d keep it · e edit · a send it"

    def __init__(self, question: ReviewReply) -> None:
        super().__init__(question)
        self.asked = question
        self.content = question.content

    def headline(self) -> str:
        return f"Send this answer to {self.asked.server}?"

    def preview(self) -> str:
        return self.beginning(self.content)

    def answer(self) -> Any:
        return AsShown() if self.content == self.asked.content else EditedReply(self.content)

    def body(self) -> list[Content | Widget]:
        reason = clean_line(self.asked.stop_reason, 60)
        facts = [("model", clean_line(self.asked.model, 200)), ("ended by", _ENDS.get(reason, reason))]
        usage = self.asked.usage
        if usage.input_tokens or usage.output_tokens:
            dear = f" · {money(usage.cost)}" if usage.cost is not None else ""
            facts.append(("it took", f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{dear}"))
        if self.content != self.asked.content:
            facts.append(("edited", "by you"))
        return [Pairs(facts), Content(""), self.whole(self.blocks(self.content)), *self.pictures([self.content])]

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        fields, values = fields_of(list(self.content), "", "text")
        return tuple(fields), values

    def edited(self, values: dict[str, Any]) -> str:
        content = with_texts(list(self.content), "", values)
        if content is None:
            return "Something must be left; to send nothing, keep it."
        self.content = tuple(cast("list[dict[str, Any]]", content))
        return ""
