"""Dialog that is shown when a model request exceeds the budget.

The user can send the request, stop the turn, or choose a cheaper alternative.
"""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button

from mcphost.host.budget.spending import describe_part
from mcphost.host.questions.cost import (
    BUDGET_LABELS,
    ApproveCost,
    BudgetUse,
    CompactConversation,
    CostShare,
    CostVerdict,
    DeferTools,
    RaiseBudget,
    SendOnce,
    StopTurn,
    UseCheaperModel,
)
from mcphost.pluralize import format_dollars
from mcphost.translation import N_, _
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.compact_button import CompactButton
from mcphost.tui.widgets.key_values import KeyValueList

_MAX_SHARES_SHOWN = 8
_MAX_MODELS_SHOWN = 3
_MAX_SERVERS_SHOWN = 3
_BAR_CELLS = 10
_LABELS = {
    "ask_above": N_("one request"),
    "per_turn": N_("this turn"),
    "per_conversation": N_("this conversation"),
    "per_day": N_("today"),
}


class _Choice(NamedTuple):
    """A way to make a model request cheaper: the button's label, and the answer that the dialog returns."""

    label: str
    answer: CostVerdict


class ApproveCostDialog(Dialog[CostVerdict]):
    """Dialog that asks whether to send a model request that exceeds the budget.

    It shows the estimated cost of the request and a breakdown of its input.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Stop")),
        ("once", N_("Send once")),
        ("raise", N_("Raise the budget")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "raise"})
    KEYS: ClassVar[str] = N_("esc/d stop · a send once · r raise")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("a", "once", show=False),
        Binding("r", "raise", show=False),
        *(Binding(str(number), f"choose({number})", show=False) for number in range(1, 10)),
    ]
    DEFAULT_CSS = """
    ApproveCostDialog #body Button.choice {
        width: 100%; background: $panel; text-align: left; content-align: left middle; margin: 0; text-style: none;
    }
    ApproveCostDialog #body Button.choice:focus { background: $accent; color: $background; }
    """

    def __init__(self, question: ApproveCost) -> None:
        super().__init__(question)
        self.details = question
        self.choices = list(_list_choices(question))[:9]
        self.key_line = self.key_hints()

    def headline(self) -> str:
        """Return the dialog's title, which states the highest possible cost if it is known."""
        cost = self.details.cost
        return (
            _("Send a request for up to {cost}?").format(cost=format_dollars(cost))
            if cost is not None
            else _("Send another request?")
        )

    def preview(self) -> str:
        """Return the exceeded limits, for the card shown while the dialog is minimized."""
        return _("; ").join(_describe_use(use, self.details.cost).plain for use in self.details.budgets if use.raised)

    def on_mount(self) -> None:
        """Show the new limit on the button that raises the budget, if the request exceeds exactly one limit."""
        raised = [use for use in self.details.budgets if use.raised]
        if len(raised) == 1:
            label = _("Raise to {raised} in this conversation").format(raised=format_dollars(raised[0].raised))
            self.query_one("#raise", Button).label = Content(label)
        super().on_mount()

    def key_hints(self) -> str:
        """Return the key hints, including the number keys that choose a cheaper alternative."""
        last = len(self.choices)
        return (
            _("{keys} · {text} cheaper").format(
                keys=_(self.KEYS), text="1" if last == 1 else _("1 to {last}").format(last=last)
            )
            if last
            else self.KEYS
        )

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the cost, the limits, cheaper alternatives, and a breakdown of the input."""
        asked = self.details
        limits = [(_(_LABELS[use.name]), _describe_use(use, asked.cost)) for use in asked.budgets]
        out: list[Content | Widget] = [
            KeyValueList([(_("model"), clean_line(asked.label, 200)), *_describe_cost(asked), *limits]),
        ]
        if self.choices:
            out.append(Content.styled(_("\nMake it cheaper"), "$muted"))
        for number, choice in enumerate(self.choices, 1):
            label = Content.assemble((f"{number} ", "$accent"), clean_line(choice.label, 200))
            out.append(CompactButton(label, id=f"choice-{number}", classes="choice"))
        shares = _render_shares(asked, 0 if is_reader(self) else _BAR_CELLS)
        return [*out, Content.styled(_("\nWhat is sent"), "$muted"), shares]

    def unmet_condition(self, button_id: str) -> str:
        """Return the reason why a button's key does not work yet, or "" if it works.

        The number keys that choose a cheaper alternative work under the same condition as the "Send once" button.
        """
        return super().unmet_condition("once" if button_id.startswith("choose(") else button_id)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Apply the cheaper alternative whose button was pressed; leave other buttons to the base class."""
        name = event.button.id or ""
        if name.startswith("choice-"):
            event.stop()
            event.prevent_default()
            self.call_later(self.action_choose, int(name.removeprefix("choice-")))

    def action_refuse(self) -> None:
        """End the turn without sending the request; everything received so far is saved."""
        self.dismiss(StopTurn())

    def action_once(self) -> None:
        """Send this request without changing the budget."""
        self.approve("once", SendOnce())

    def action_raise(self) -> None:
        """Raise the exceeded limits for this conversation and send the request."""
        self.approve("raise", RaiseBudget())

    def action_choose(self, number: int) -> None:
        """Apply the cheaper alternative with this number in the list, counting from 1.

        If the user has not yet read the dialog to the end, show a hint instead. Ignore a number that is not in the
        list.
        """
        if number > len(self.choices):
            return
        if self.is_read:
            self.dismiss(self.choices[number - 1].answer)
        else:
            self.show_hint(self.disabled_reason("once"))


def _list_choices(asked: ApproveCost) -> Iterator[_Choice]:
    if asked.shorter_output_tokens:
        tokens = asked.shorter_output_tokens
        yield _Choice(_("send it with an answer of at most {tokens:,} tokens").format(tokens=tokens), SendOnce(tokens))
    if asked.can_compact:
        yield _Choice(_("compact the conversation first"), CompactConversation())
    for offer in asked.cheaper[:_MAX_MODELS_SHOWN]:
        price = _("up to {cost}").format(cost=format_dollars(offer.cost)) if offer.cost else _("free")
        yield _Choice(
            _("continue with {name} · {price}").format(name=offer.name, price=price), UseCheaperModel(offer.name)
        )
    for share in [one for one in asked.shares if one.kind == "definitions" and one.server][:_MAX_SERVERS_SHOWN]:
        saved = _share_cost(asked, share)
        saving = (
            _("saves {saved}").format(saved=format_dollars(saved))
            if saved is not None
            else _("saves {tokens:,} tokens").format(tokens=share.tokens)
        )
        yield _Choice(
            _("leave the tools of {server} to the search · {saving}").format(server=share.server, saving=saving),
            DeferTools(share.server),
        )


def _describe_cost(asked: ApproveCost) -> list[tuple[str, str]]:
    if asked.input_cost is None or asked.output_cost is None:
        return [(_("cost"), _("unknown: the model has no known price"))]
    cached = (
        _(", {cached_tokens:,} of them cached").format(cached_tokens=asked.cached_tokens) if asked.cached_tokens else ""
    )
    return [
        (
            _("input"),
            _("about {input_cost} for {input_tokens:,} tokens{cached}").format(
                input_cost=format_dollars(asked.input_cost), input_tokens=asked.input_tokens, cached=cached
            ),
        ),
        (
            _("answer"),
            _("up to {output_cost} for {max_output_tokens:,} tokens").format(
                output_cost=format_dollars(asked.output_cost), max_output_tokens=asked.max_output_tokens
            ),
        ),
    ]


def _describe_use(use: BudgetUse, cost: float | None) -> Content:
    """Describe a limit of the budget and how much of it is spent; *use* contains both amounts.

    If the user is asked about this limit, the text also states whether it is already exceeded, or whether the request
    would or could exceed it. *cost* is the highest possible cost of the request in US dollars, or None if unknown.
    """
    limit, spent = f"{format_dollars(use.limit)} ({_(BUDGET_LABELS[use.name])})", format_dollars(use.spent)
    if use.name == "ask_above":
        text = _("at most {limit}").format(limit=limit)
    else:
        text = _("{spent} spent of {limit}").format(spent=spent, limit=limit)
    if not use.raised:
        return Content.styled(text, "$text")
    if use.name != "ask_above" and use.spent >= use.limit:
        text = _("{text}: exceeded").format(text=text)
    elif cost is None:
        text = _("{text}: could be exceeded").format(text=text)
    elif use.name == "ask_above":
        text = _("up to {cost} of {limit}: would exceed").format(cost=format_dollars(cost), limit=limit)
    else:
        text = _("{spent} + up to {cost} of {limit}: would exceed").format(
            spent=spent, cost=format_dollars(cost), limit=limit
        )
    return Content.styled(text, "$warning")


def _share_cost(asked: ApproveCost, share: CostShare) -> float | None:
    if asked.input_cost is None or not asked.input_tokens:
        return None
    return asked.input_cost * share.tokens / asked.input_tokens


def _render_shares(asked: ApproveCost, cells: int) -> Content:
    """Return a line for each of the largest parts of the request's input, such as a server's tool definitions.

    A line contains a bar, the part's share of the input, its cost and its name. The last line combines all other parts.
    The bar is *cells* characters wide.
    """
    shown = asked.shares[:_MAX_SHARES_SHOWN]
    rest = sum(share.tokens for share in asked.shares[_MAX_SHARES_SHOWN:])
    total = max(1, asked.input_tokens)
    rows: list[Content] = []
    for share in (*shown, *([CostShare("other", "", "", rest)] if rest else [])):
        cost = _share_cost(asked, share)
        filled = round(share.tokens / total * cells)
        price = f" {format_dollars(cost):>8}" if cost is not None else ""
        rows.append(
            Content.assemble(
                ("━" * filled, "$accent"),
                ("─" * (cells - filled), "$faint"),
                (f" {share.tokens / total:>4.0%}{price}  ", "$muted"),
                clean_line(describe_part(share.kind, share.server, share.tool, _), 120),
            )
        )
    return Content("\n").join(rows)
