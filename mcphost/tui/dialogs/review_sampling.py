"""A server's question to the user's model, before it is asked: read whole, edited, given to another model."""

from collections.abc import Iterator
from typing import Any, ClassVar

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import AsShown, EditedRequest, ReviewSampling
from mcphost.host.questions.sampling_context import ModelOffer
from mcphost.serialization import dumps, replace
from mcphost.tui.dialogs.sampling_cost import cost
from mcphost.tui.dialogs.sampling_dialog import SamplingDialog
from mcphost.tui.dialogs.text_parts import fields_of, with_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import Pairs
from mcphost.tui.widgets.quoted_text import Part

_NAMED = 4


class ReviewSamplingDialog(SamplingDialog):
    """May the model be asked this on a server's behalf?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Deny"), ("edit", "Edit"), ("go_on", "Ask the model"))
    KEYS: ClassVar[str] = "esc/d deny · e edit, other model · a ask the model"

    def __init__(self, question: ReviewSampling) -> None:
        super().__init__(question)
        self.asked = question
        self.now = question
        self.context = False

    def headline(self) -> str:
        return f"Let {self.asked.server} ask your model?"

    def preview(self) -> str:
        return self.beginning(self.now.messages[-1].get("content") if self.now.messages else ())

    def answer(self) -> Any:
        asked, now = self.asked, self.now
        if now == asked and not self.context:
            return AsShown()
        return EditedRequest(
            messages=now.messages if now.messages != asked.messages else None,
            system=now.system if now.system != asked.system else None,
            max_tokens=now.max_tokens if now.max_tokens != asked.max_tokens else None,
            model=now.model if now.model != asked.model else None,
            context=self.context,
        )

    # -- what is shown

    def body(self) -> list[Content | Widget]:
        asked = self.now
        dear = cost(self._offer(), asked.tokens, asked.max_tokens)
        facts = [("model", clean_line(asked.label, 200)), ("at most", f"{asked.max_tokens:,} tokens · {dear}")]
        out: list[Content | Widget] = [Pairs([*facts, *self._wishes()]), self.whole(self._sent())]
        out += self.pictures(message.get("content") for message in self.now.messages)
        out += [Content(""), Pairs([*self._choice(), *self._settings()])]
        out.append(
            Content.styled("\nYour model gets exactly this, and you see its answer before the server does.", "$faint")
        )
        return out

    def _choice(self) -> Iterator[tuple[str, str]]:
        """Why this model, which others there are, and what the server used so far."""
        asked = self.now
        reason = asked.reason if asked.model == self.asked.model else "You chose it."
        if reason:
            yield "why it", clean_line(reason, 600)
        others = [one for one in asked.models if one.name != asked.model]
        if others:
            names = (f"{clean_line(one.name, 100)} ({cost(one, asked.tokens, asked.max_tokens)})" for one in others)
            yield "or ask", "\n".join(names)
        if asked.budget:
            yield "it used", "\n".join(f"{one.used:,} of {one.most:,} {one.what}" for one in asked.budget)

    def _offer(self) -> ModelOffer | None:
        return next((one for one in self.now.models if one.name == self.now.model), None)

    def _settings(self) -> Iterator[tuple[str, str]]:
        asked = self.now
        if asked.temperature is not None:
            yield "temperature", f"{asked.temperature:g}"
        if asked.stop:
            yield "ends before", " ".join(dumps(clean_line(stop, 1_000)) for stop in asked.stop)

    def _wishes(self) -> Iterator[tuple[str, str]]:
        asked = self.now
        if asked.include_context != "none":
            offered = "it gets none of it" + (", unless you add it (e)" if asked.conversation else "")
            yield "wishes", f"to see your conversation too; {'you add it' if self.context else offered}"
        if asked.tools:
            names = ", ".join(clean_line(str(tool.get("name", "")), 100) for tool in asked.tools[:_NAMED])
            names += f", … {len(asked.tools)} in all, below" if len(asked.tools) > _NAMED else ""
            must = {"required": "; one must be called", "none": "; none may be called"}.get(asked.tool_choice, "")
            yield "its tools", f"{names} (run by the server{must})"

    def _sent(self) -> Iterator[Part]:
        """What the model gets, in the server's words; the descriptions of tools are such words, too."""
        if self.now.system:
            yield from self._apart("the server's instructions")
            yield self.text(self.now.system)
        if self.context:
            yield from self._apart("your conversation, added by you", "$warning")
            yield self.text(self.now.conversation)
        for message in self.now.messages:
            yield from self._apart(clean_line(str(message.get("role", "")), 20))
            yield from self.blocks(message.get("content"))
        for tool in self.now.tools:
            yield from self._apart(f"its tool {clean_line(str(tool.get('name', '')), 100)}")
            if words := tool.get("description") or tool.get("title"):
                yield self.text(str(words))
            if schema := tool.get("inputSchema"):
                yield self.text(dumps(schema), "$faint")

    def _apart(self, heading: str, style: str = "$muted") -> Iterator[Part]:
        """An empty row, and a heading."""
        yield Part("", is_heading=True)
        yield self.heading(heading, style)

    # -- what can be edited

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        now = self.now
        fields: list[Field] = []
        values: dict[str, Any] = {"model": now.model, "max tokens": now.max_tokens, "system": now.system or None}
        if len(now.models) > 1:
            titles = (f"{one.name} · {cost(one, now.tokens, now.max_tokens)}" for one in now.models)
            options = tuple(Option(one.name, title) for one, title in zip(now.models, titles, strict=True))
            fields.append(Field(name="model", kind="choice", required=True, options=options))
        most = self.asked.max_tokens
        fields.append(Field(name="max tokens", kind="integer", required=True, minimum=1, maximum=most))
        if now.conversation:
            fields.append(Field(name="add my conversation", kind="boolean", required=True))
            values["add my conversation"] = self.context
        fields.append(Field(name="system", kind="text", title="its instructions"))
        for number, message in enumerate(now.messages):
            role = clean_line(str(message.get("role", "")), 20)
            more, texts = fields_of(message.get("content"), f"{number}.", f"{number + 1} {role}")
            fields += more
            values |= texts
        return tuple(fields), values

    def edited(self, values: dict[str, Any]) -> str:
        made: list[dict[str, Any]] = []
        for number, message in enumerate(self.now.messages):
            content = with_texts(message.get("content"), f"{number}.", values)
            if content is not None:
                made.append({**message, "content": content})
        if not made:
            return "At least one message must be left."
        model = values.get("model") or self.now.model
        label = next((one.label for one in self.now.models if one.name == model), self.now.label)
        self.context = bool(values.get("add my conversation"))
        self.now = replace(
            self.now,
            messages=tuple(made) if made != list(self.now.messages) else self.now.messages,
            system=values.get("system") or "",
            max_tokens=values["max tokens"],
            model=model,
            label=label,
        )
        return ""
