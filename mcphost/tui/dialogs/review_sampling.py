"""A server's question to the user's model, before it is asked and before the answer leaves: read whole, edited."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcphost.data import dumps, replace
from mcphost.host.questions.fields import Field, Option
from mcphost.host.questions.questions import AsShown, Deny, EditedReply, EditedRequest, ReviewReply, ReviewSampling
from mcphost.host.questions.sampling_shown import ModelOffer
from mcphost.tui.dialogs.cost import cost, money
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.said_texts import fields_of, with_texts
from mcphost.tui.sanitize import clean, clean_line
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.pairs import Pairs
from mcphost.tui.widgets.picture_view import PictureView, views

MOST_CHARS = 100_000
"""What is longer cannot be read here, so it cannot be agreed to here."""
MOST_TOTAL = 400_000
"""The same for all of it together: laying out more would hold up the screen."""
_NAMED = 4
_EACH = 40  # what a block counts for at least: a flood of empty ones is one, too


_ENDS = {
    "endTurn": "its own end", "maxTokens": "the limit of tokens", "stopSequence": "a word it was to end before",
    "toolUse": "calling a tool",
}  # fmt: skip


class _Review(Dialog[Any]):
    """What both reviews share: texts that are shown whole, one key that lets them go on, and one that edits them.

    Edited texts are shown like the first ones, and are read to their end before they go anywhere.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse_it", show=False),
        Binding("a", "go_on", show=False),
        Binding("e", "edit", show=False),
        Binding("ctrl+s", "take", show=False),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    AGREEING: ClassVar[frozenset[str]] = frozenset({"go_on"})
    EDIT_KEYS: ClassVar[str] = "tab next · shift+tab back · ctrl+s take over · esc drop the edits"
    DEFAULT_CSS = """
    _Review #fault { height: auto; color: $error; }
    _Review #body { scrollbar-gutter: stable; }
    """

    def __init__(self, question: Any) -> None:
        super().__init__(question)
        self.too_long = False
        self.form: Form | None = None
        self._room = MOST_TOTAL

    # -- what each fills in

    def fields(self) -> tuple[tuple[Field, ...], dict[str, Any]]:
        """What can be edited, and what it is now."""
        raise NotImplementedError

    def edited(self, values: dict[str, Any]) -> str:
        """Take this over; or why that cannot be."""
        raise NotImplementedError

    def answer(self) -> Any:
        """The answer that sends what is shown."""
        raise NotImplementedError

    # -- showing

    def text(self, value: str, style: str = "") -> Content:
        """Clean, and whole unless it is beyond reading."""
        room = min(MOST_CHARS, max(0, self._room))
        self._room -= max(len(value), _EACH)
        if len(value) > room or self._room < 0:
            self.too_long = True
            left = len(value) - room
            value = f"{value[:room]}\n… {max(0, left):,} more characters: too long to agree to here."
        return Content.styled(clean(value), style) if style else Content(clean(value))

    def blocks(self, content: Any) -> Iterator[Content]:
        """Content blocks of the wire; what is no text is named."""
        return (self.block(_dict(one)) for one in _many(content) if isinstance(one, dict))

    def whole(self, parts: Iterable[Content]) -> Content:
        """All of it, up to where it is too long; one widget, because a thousand of them take seconds."""
        self._room, self.too_long = MOST_TOTAL, False
        shown: list[Content] = []
        for part in parts:
            shown.append(part)
            if self.too_long:
                break
        return Content("\n").join(shown)

    def pictures(self, contents: Iterable[Any]) -> list[PictureView]:
        """The pictures among these contents, drawn where the terminal can; they are named above."""
        listed = (_dict(one) for content in contents for one in _many(content))
        return views(str(one.get("data", "")) for one in listed if one.get("type") == "image")

    def block(self, block: dict[str, Any]) -> Content:
        """One block."""
        match block.get("type"):
            case "text":
                return self.text(str(block.get("text", "")))
            case "image" | "audio" as kind:
                size = len(str(block.get("data", ""))) * 3 // 4
                return self.text(f"[{kind}: {block.get('mimeType')}, {size:,} bytes]", "$muted")
            case "tool_use":
                return self.text(f"calls {block.get('name')} {dumps(block.get('input'))}", "$accent")
            case _:
                return self.text(dumps(block), "$muted")

    def withheld(self, ident: str) -> str:
        if ident == "go_on" and self.too_long:
            return "this is too long to agree to here"
        return super().withheld(ident)

    def extra(self) -> ComposeResult:
        yield Static("", id="fault", markup=False)

    # -- answering

    def action_go_on(self) -> None:
        """What was shown."""
        if self.form is None:
            self.agree("go_on", self.answer())

    def action_refuse_it(self) -> None:
        """Nothing leaves; in a form the key is one of its own."""
        if self.form is None:
            self.dismiss(Deny())

    def action_refuse(self) -> None:
        """Nothing leaves; out of the form first."""
        if self.form is None:
            self.dismiss(Deny())
        else:
            self.call_later(self._close)

    # -- editing

    async def action_edit(self) -> None:
        """The texts as fields to fill in."""
        if self.form is None and not self.too_long:
            self.form = Form(*self.fields(), named=False)
            await self._open(self.form)

    async def _open(self, form: Form) -> None:
        body = self.query_one("#body")
        await body.remove_children()
        body.can_focus = False
        await body.mount(form)
        self.query_one("#buttons").display = False
        self.show_keys(self.EDIT_KEYS)
        body.scroll_to(y=0, animate=False)
        form.begin()
        self.fit()

    def action_step(self, by: int) -> None:
        """To the next field, or the next button."""
        if self.form is not None:
            if not self.form.go(by):
                self.form.begin() if by > 0 else self.form.end()
        else:
            self.focus_next() if by > 0 else self.focus_previous()

    def action_take(self) -> None:
        """Show what was edited, to be agreed to or not."""
        if self.form is None or not self.form.complete():
            return
        if fault := self.edited(self.form.values()):
            self._say(fault)
        else:
            self.call_later(self._close)

    def on_form_edited(self) -> None:
        """A fault is about what was there before."""
        self._say("")

    async def _close(self) -> None:
        self.form = None
        self._say("")
        self.query_one("#buttons").display = True
        self.query_one("#body").can_focus = True
        self.show_keys(self.KEYS)
        await self.show_body()
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _say(self, text: str) -> None:
        self.query_one("#fault", Static).update(Content(text))
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)


class ReviewSamplingDialog(_Review):
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

    def _sent(self) -> Iterator[Content]:
        """What the model gets, in the server's words; the descriptions of tools are such words, too."""
        if self.now.system:
            yield Content.styled("\nthe server's instructions", "$muted")
            yield self.text(self.now.system)
        if self.context:
            yield Content.styled("\nyour conversation, added by you", "$warning")
            yield self.text(self.now.conversation)
        for message in self.now.messages:
            yield Content.styled(f"\n{clean_line(str(message.get('role', '')), 20)}", "$muted")
            yield from self.blocks(message.get("content"))
        for tool in self.now.tools:
            yield Content.styled(f"\nits tool {clean_line(str(tool.get('name', '')), 100)}", "$muted")
            if words := tool.get("description") or tool.get("title"):
                yield self.text(str(words))
            if schema := tool.get("inputSchema"):
                yield self.text(dumps(schema), "$faint")

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


class ReviewReplyDialog(_Review):
    """May the server have what the model answered?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Keep it"), ("edit", "Edit"), ("go_on", "Send it"))
    KEYS: ClassVar[str] = "esc/d keep it · e edit · a send it"

    def __init__(self, question: ReviewReply) -> None:
        super().__init__(question)
        self.asked = question
        self.content = question.content

    def headline(self) -> str:
        return f"Send this answer to {self.asked.server}?"

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


def _many(content: Any) -> list[Any]:
    return list(cast("list[Any]", content)) if isinstance(content, list | tuple) else [content]


def _dict(block: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", block) if isinstance(block, dict) else {}
