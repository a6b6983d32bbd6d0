"""The question whether a model request may be sent although it costs more than the user's budget allows."""

from typing import ClassVar, Literal

from mcphost.host.questions.frontend import Question
from mcphost.serialization import Struct

BudgetName = Literal["ask_above", "per_turn", "per_conversation", "per_day"]


class BudgetUse(Struct, frozen=True):
    """One limit of the budget in US dollars, and what was spent of it before the request.

    `limit` is the limit that applies in this conversation. If the request would exceed it, `raised` is the limit that
    `RaiseBudget` sets, else 0.
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
    """A model that could answer for less; `cost` is the highest estimated cost of this request in US dollars."""

    name: str
    cost: float


class SendOnce(Struct, frozen=True):
    """Answer that sends this request; a later one is asked about again.

    If `max_output_tokens` is not 0, the answer is limited to it.
    """

    max_output_tokens: int = 0


class RaiseBudget(Struct, frozen=True):
    """Answer that raises the exceeded limits for this conversation, until mcphost exits, and sends the request."""


class UseCheaperModel(Struct, frozen=True):
    """Answer that continues the conversation with one of the offered models."""

    name: str


class CompactConversation(Struct, frozen=True):
    """Answer that shortens the conversation first; what it then costs is checked again."""


class LeaveOutTools(Struct, frozen=True):
    """Answer that leaves out the tools of a server for the rest of this conversation."""

    tools_of: str


class StopTurn(Struct, frozen=True):
    """Answer that ends the turn; what was received before is kept."""


CostVerdict = SendOnce | RaiseBudget | UseCheaperModel | CompactConversation | LeaveOutTools | StopTurn


class ApproveCost(Question[CostVerdict], frozen=True, kw_only=True):
    """Asks whether to send a model request that exceeds the budget; costs are estimates in US dollars.

    `input_cost` and `output_cost` are None if the model's price is unknown. `output_cost` is that of an answer of
    `max_output_tokens`, the longest. `shorter_output_tokens` is the longest answer that fits in the budget, or 0.
    `cached_tokens` of the input are expected in the provider's cache. `shares` are the parts of the input, the biggest
    first. `can_compact` is whether `CompactConversation` is possible.
    """

    KIND: ClassVar[str] = "approve_cost"
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
        """The highest estimated cost, or None if the price is unknown."""
        if self.input_cost is None or self.output_cost is None:
            return None
        return self.input_cost + self.output_cost

    @property
    def optional_servers(self) -> tuple[str, ...]:
        """The servers whose tools can be left out, the biggest definitions first."""
        return tuple(share.server for share in self.shares if share.kind == "definitions" and share.server)

    def refusal(self) -> CostVerdict:
        """Return an answer that ends the turn."""
        return StopTurn()
