"""Consent prompt for a model request that exceeds the user's budget, and the possible answers."""

from typing import ClassVar, Literal

from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Question
from mcphost.serialization import Struct
from mcphost.translation import N_

BudgetName = Literal["ask_above", "per_turn", "per_conversation", "per_day"]
BUDGET_LABELS: dict[BudgetName, str] = {
    "ask_above": N_("per request"),
    "per_turn": N_("per turn"),
    "per_conversation": N_("per conversation"),
    "per_day": N_("per day"),
}
"""What each limit applies to, for the user; not translated yet."""


class BudgetUse(Struct, frozen=True):
    """A limit of the budget and the amount already spent, both in US dollars.

    `limit` is the limit that applies in this conversation. `raised` is the limit that `RaiseBudget` would set, or 0
    if the request does not exceed the current limit.
    """

    name: BudgetName
    spent: float
    limit: float
    raised: float = 0.0


class CostShare(Struct, frozen=True):
    """Estimated input tokens of one part of the request; `kind`, `server` and `tool` are as in TokenShare."""

    kind: str
    server: str
    tool: str
    tokens: int


class CheaperModel(Struct, frozen=True):
    """A cheaper model that could handle the request.

    `cost` is the highest estimated cost of the request with this model, in US dollars.
    """

    name: str
    cost: float


class SendOnce(Struct, frozen=True):
    """Answer that sends this request only; the user is asked again about later requests.

    If `max_output_tokens` is not 0, it limits the length of the model's answer.
    """

    max_output_tokens: int = 0


class RaiseBudget(Struct, frozen=True):
    """Answer that sends the request and raises the exceeded limits for this conversation.

    The raised limits apply until mcphost exits.
    """


class UseCheaperModel(Struct, frozen=True):
    """Answer that continues the conversation with one of the offered models."""

    name: str


class CompactConversation(Struct, frozen=True):
    """Answer that first summarizes the conversation; the cost of the shorter request is checked again."""


class DeferTools(Struct, frozen=True):
    """Answer that defers the tools of one server in this conversation.

    The definition of a deferred tool is sent only after the model has found the tool by searching.
    """

    tools_of: str


class StopTurn(Struct, frozen=True):
    """Answer that ends the turn; everything received so far is saved."""


CostVerdict = SendOnce | RaiseBudget | UseCheaperModel | CompactConversation | DeferTools | StopTurn


class ApproveCost(Question[CostVerdict], frozen=True, kw_only=True):
    """Consent prompt for a model request that exceeds the budget; costs are estimates in US dollars.

    `output_cost` is the cost of the longest possible answer, which has `max_output_tokens` tokens. `input_cost` and
    `output_cost` are None if the model's price is unknown. `shorter_output_tokens` is the length of the longest
    answer within the budget, 0 if there is none. `cached_tokens` is the part of the input that the provider has
    probably cached. `shares` breaks down the input, largest part first. `can_compact` is True if the answer
    `CompactConversation` is possible.
    """

    KIND: ClassVar[str] = kinds.APPROVE_COST
    model: str
    label: str
    input_tokens: int
    max_output_tokens: int
    input_cost: float | None = None
    output_cost: float | None = None
    cached_tokens: int = 0
    shorter_output_tokens: int = 0
    budgets: tuple[BudgetUse, ...] = ()
    shares: tuple[CostShare, ...] = ()
    cheaper: tuple[CheaperModel, ...] = ()
    can_compact: bool = False

    @property
    def cost(self) -> float | None:
        """The highest estimated cost; None if the price is unknown."""
        if self.input_cost is None or self.output_cost is None:
            return None
        return self.input_cost + self.output_cost

    @property
    def optional_servers(self) -> tuple[str, ...]:
        """The servers whose tools can be deferred, largest tool definitions first."""
        return tuple(share.server for share in self.shares if share.kind == "definitions" and share.server)

    def refusal(self) -> CostVerdict:
        """Return an answer that ends the turn."""
        return StopTurn()
