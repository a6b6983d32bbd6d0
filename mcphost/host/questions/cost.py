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

    `limit` is the limit that applies in this conversation. If the request exceeds it, `raised` is the limit after the
    answer RaiseBudget; otherwise, `raised` is 0.
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

    If `max_output_tokens` is not 0, it limits the length of the model's response.
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

    - `input_cost`: the cost of the input, None if the model's price is unknown.
    - `output_cost`: the cost of the longest possible response (`max_output_tokens` tokens), None if the price is
      unknown.
    - `shorter_output_tokens`: the length of the longest response within the budget, 0 if there is none.
    - `cached_tokens`: the part of the input that the provider has probably cached.
    - `shares`: the parts of the input, largest first.
    - `can_compact`: whether `CompactConversation` is a possible answer.
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
