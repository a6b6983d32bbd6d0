"""Dialog to approve, edit or deny a server's sampling request."""

from collections.abc import Iterator
from typing import Any, ClassVar

from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import Field, Option
from mcphost.host.questions.questions import ApproveUnchanged, EditedRequest, LimitUsage, ModelCandidate, ReviewSampling
from mcphost.pluralize import format_dollars
from mcphost.serialization import dumps, replace
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.sampling_dialog import MAX_TEXTS, SamplingDialog, build_text_fields, replace_texts
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import KeyValueList, QuotedPart

_MAX_STOP_SHOWN = 100_000
"""Maximum characters shown of a stop sequence; no accepted one is longer, even if all its characters become marks."""
_MAX_NAMED_TOOLS = 4


def format_request_cost(offer: ModelCandidate | None, tokens: int, max_tokens: int) -> str:
    """Format the maximum cost of a model request, such as "about $0.12", "cost unknown" or "free".

    *offer* is the model, with its prices, or None if it is unknown. *tokens* is the number of input tokens, and
    *max_tokens* the maximum number of output tokens.
    """
    if offer is None or offer.input_price is None or offer.output_price is None:
        return _("cost unknown")
    dollars = tokens * offer.input_price + max_tokens * offer.output_price
    return _("about {dollars}").format(dollars=format_dollars(dollars)) if dollars > 0 else _("free")


def _role_name(message: dict[str, Any]) -> str:
    role = str(message.get("role", ""))
    return {"user": _("user"), "assistant": _("assistant")}.get(role, clean_line(role, 20))


def _format_usage(usage: LimitUsage) -> str:
    return _("{used:,} of {limit:,} {label}").format(
        used=usage.used, limit=usage.limit, label=translate_sentence(usage.label)
    )


def _used_share(usage: LimitUsage) -> float:
    return usage.used / max(1, usage.limit)


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
        """Return the answer that approves the request as shown, including the user's edits."""
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
        cost = format_request_cost(self._model_offer(), asked.tokens, asked.max_tokens)
        facts = [
            (_("model"), clean_line(asked.label, 200)),
            (_("at most"), _("{max_tokens:,} tokens · {cost}").format(max_tokens=asked.max_tokens, cost=cost)),
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
        """Yield name-value pairs about the model: why it was chosen, the alternatives, and the server's usage so far.

        The usage is shown for only one of the limits on sampling: the one that the server is closest to reaching.
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
        """Yield everything that the model would receive.

        These are the server's instructions, messages and tools, and the user's conversation if the user has added it.
        """
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
