"""Budget checks and spending records for sampling requests, which are paid for with the user's API key."""

from contextlib import AbstractAsyncContextManager

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.budget.budget_limits import (
    MAX_QUESTIONS,
    BudgetLimits,
    BudgetReached,
    estimate_request,
    find_shorter_output,
    make_budget_error,
)
from mcphost.host.budget.spending import OpenSpending, SpendingTracker
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.cost import ApproveCost, CostShare, RaiseBudget, SendOnce
from mcphost.host.questions.frontend import Frontend
from mcphost.llm.model import ChatModel, ModelRequest, TokenShare
from mcphost.store.spending import SpendingEntry


class SamplingCosts:
    """Budget checks and spending records for the sampling requests of all servers.

    The costs count toward the budgets of the open conversation and of the day. They do not count toward the budget of a
    turn, because a server may send a request outside a turn.
    """

    def __init__(
        self, limits: Lazy[BudgetLimits], spending: Lazy[SpendingTracker], conversation: ActiveConversation | None
    ) -> None:
        self._limits = limits
        self._spending = spending
        self._active = conversation

    async def find_max_output(
        self, frontend: Frontend, server: str, why: str, model: ChatModel, request: ModelRequest, input_tokens: int
    ) -> int:
        """Check a request against the budget; return the maximum number of tokens in the model's response.

        The result is at most `request.max_output_tokens`. If the request could exceed a limit, the user is asked
        first, and may allow only a shorter response. *why* is the reason shown with the question. *input_tokens* is
        the estimated size of the request's input. Raises BudgetReached if the user refuses, and StoreError if the
        budget cannot be checked.
        """
        limits, conversation = self._limits.get(), self._conversation
        for _ in range(MAX_QUESTIONS):
            if not limits.is_limited(conversation):
                return request.max_output_tokens
            await limits.load_prices(model)
            estimate = estimate_request(model, request, input_tokens, ())
            uses = await limits.check(conversation, "", estimate)
            exceeded = [use for use in uses if use.raised]
            if not exceeded:
                return request.max_output_tokens
            question = ApproveCost(
                server=server, why=why, model=model.name, label=model.label, input_tokens=estimate.input_tokens,
                max_output_tokens=estimate.max_output_tokens, input_cost=estimate.input_cost,
                output_cost=estimate.output_cost, budgets=tuple(uses),
                shorter_output_tokens=find_shorter_output(model.facts, estimate, uses),
                shares=(CostShare("sampling", server, "", input_tokens),),
            )  # fmt: skip
            match await frontend.ask(question):
                case SendOnce(max_output_tokens=most):
                    return min(most, request.max_output_tokens) if most else request.max_output_tokens
                case RaiseBudget():
                    limits.raise_limits(conversation, exceeded)
                case _:
                    raise make_budget_error(exceeded[0], estimate.cost)
        raise BudgetReached("The request still exceeds the budget.", "Raise a limit under [budget] in config.toml.")

    def track(self, server: str, model: ChatModel, input_tokens: int) -> AbstractAsyncContextManager[OpenSpending]:
        """Return a context manager that records the cost of the request sent inside its block.

        *input_tokens* is the estimated size of the request's input.
        """
        entry = SpendingEntry(
            at=0.0, conversation=self._conversation, purpose="sampling", model=model.name, input_tokens=input_tokens,
            shares=(TokenShare("sampling", server, "", input_tokens),),
        )  # fmt: skip
        return self._spending.get().track(entry, model)

    @property
    def _conversation(self) -> str:
        return self._active.current.id if self._active is not None else ""
