"""Budget limits set by the user, and estimates of the cost of model requests."""

import math
import time
from collections.abc import Sequence

from mcphost.errors import McpHostError, ModelError
from mcphost.host.budget.spending import SpendingTracker
from mcphost.host.event_bus import EventBus
from mcphost.host.questions.cost import BudgetName, BudgetUse
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.llm.messages import Message
from mcphost.llm.model import ChatModel, ModelFacts, ModelRequest
from mcphost.pluralize import format_dollars
from mcphost.serialization import Struct
from mcphost.store.spending import SpendingTotals

DEFAULT_OUTPUT_TOKENS = 4_096
"""Assumed length of the longest answer if neither the user nor the list of models limits it."""

CACHE_SECONDS = 300.0
"""Minimum number of seconds for which providers cache the beginning of a request."""

MIN_OUTPUT_TOKENS = 256
"""Minimum length of an answer that is short enough for the budget and still worth offering, in tokens."""

MAX_QUESTIONS = 20
"""Maximum number of questions about one request; each changes the request or the budget."""

_TOLERANCE = 1e-9
_NAMES: tuple[BudgetName, ...] = ("ask_above", "per_turn", "per_conversation", "per_day")


class BudgetReached(McpHostError):
    """Raised when a request is not sent because it would exceed the budget; the message names the setting."""

    exit_code = 7


class CostEstimate(Struct, frozen=True):
    """Estimated size of a request in tokens, and its estimated cost in US dollars.

    The costs are None if the price is unknown.
    """

    input_tokens: int
    cached_tokens: int
    max_output_tokens: int
    input_cost: float | None = None
    output_cost: float | None = None

    @property
    def cost(self) -> float | None:
        """The highest possible cost in US dollars, or None if the price is unknown.

        It assumes that the model's response is as long as the request allows.
        """
        return None if self.input_cost is None or self.output_cost is None else self.input_cost + self.output_cost


class BudgetLimits:
    """Configured budget limits, and the limits that the user raised for individual conversations.

    Turns and sampling requests must use the same object, so that a limit that the user raises applies to both.
    """

    def __init__(self, settings: RuntimeSettings, spending: SpendingTracker, events: EventBus) -> None:
        self._settings = settings
        self._spending = spending
        self._events = events
        self._raised: dict[tuple[str, BudgetName], float] = {}
        self._unpriced: set[str] = set()

    def is_limited(self, conversation: str) -> bool:
        """Return whether any budget limit applies to a conversation."""
        return any(self._limit(conversation, name) for name in _NAMES)

    async def check(self, conversation: str, turn: str, estimate: CostEstimate) -> list[BudgetUse]:
        """Compare a request with each configured limit, and return a BudgetUse for each limit.

        A BudgetUse contains the amount spent so far. If the request would exceed the limit, `raised` is the higher
        limit to propose to the user, which would allow the request; otherwise it is 0. *turn* is "" for a request
        that belongs to no turn. Raises StoreError.
        """
        totals = await self._spending.load_totals(conversation, turn)
        return self._compare(totals, conversation, estimate)

    async def require(
        self, conversation: str, turn: str, model: ChatModel, input_tokens: int, output_tokens: int
    ) -> None:
        """Check a request that mcphost makes by itself, such as for a title; the user is not asked.

        *input_tokens* and *output_tokens* are estimates; *turn* is as for `check`. Raises BudgetReached if the request
        would exceed a limit, and StoreError.
        """
        if not self.is_limited(conversation):
            return
        await self.load_prices(model)
        request = ModelRequest(messages=(), max_output_tokens=output_tokens)
        estimate = estimate_request(model, request, input_tokens, ())
        exceeded = [use for use in await self.check(conversation, turn, estimate) if use.raised]
        if exceeded:
            raise make_budget_error(exceeded[0], estimate.cost)

    def raise_limits(self, conversation: str, uses: Sequence[BudgetUse]) -> None:
        """Raise each limit in *uses* that a request would exceed; its new value is `BudgetUse.raised`.

        The raised limits apply to this conversation until mcphost exits.
        """
        self._raised.update({(conversation, use.name): use.raised for use in uses if use.raised})

    async def load_prices(self, model: ChatModel) -> None:
        """Load the prices of a model; if they are unknown, notify the user once per model."""
        if model.facts.input_price is None:
            try:
                await model.load_facts()
            except ModelError:
                return  # the request itself reports the error
        if model.facts.input_price is None and model.name not in self._unpriced:
            self._unpriced.add(model.name)
            self._events.notify(
                "warning",
                f"The price of {model.name} is unknown: the budget does not count its requests.",
                "Set input_price and output_price under [model] in config.toml.",
            )

    def _limit(self, conversation: str, name: BudgetName) -> float:
        limit: float = getattr(self._settings.budget, name)
        return max(limit, self._raised.get((conversation, name), 0.0)) if limit else 0.0

    def _compare(self, totals: SpendingTotals, conversation: str, estimate: CostEstimate) -> list[BudgetUse]:
        """Compare a request with each configured limit; see `check` for the result."""
        spent: dict[BudgetName, float] = {
            "ask_above": 0.0,
            "per_turn": totals.turn.cost,
            "per_conversation": totals.conversation.cost,
            "per_day": totals.day.cost,
        }
        uses: list[BudgetUse] = []
        for name in _NAMES:
            limit = self._limit(conversation, name)
            if not limit:
                continue
            needed = spent[name] + (estimate.cost or 0.0)
            is_free = estimate.cost == 0
            # With an unknown price, only the amount already spent is known.
            is_exceeded = needed > limit + _TOLERANCE or (estimate.cost is None and needed >= limit)
            raised = _raise_limit(getattr(self._settings.budget, name), needed) if is_exceeded and not is_free else 0.0
            uses.append(BudgetUse(name, spent[name], limit, raised))
        return uses


def estimate_request(
    model: ChatModel, request: ModelRequest, input_tokens: int, messages: Sequence[Message]
) -> CostEstimate:
    """Estimate the highest cost of a request: input that is probably cached has a lower price.

    *input_tokens* is the estimated size of the input. *messages* are the messages of the conversation; the latest
    response shows what the provider has probably cached.
    """
    facts = model.facts
    output = request.max_output_tokens or facts.max_output_tokens or DEFAULT_OUTPUT_TOKENS
    if facts.max_output_tokens:
        output = min(output, facts.max_output_tokens)
    cached = _find_cached_tokens(model.name, facts, messages, input_tokens)
    if facts.input_price is None or facts.output_price is None:
        return CostEstimate(input_tokens, cached, output)
    cached_price = facts.input_price if facts.cached_input_price is None else facts.cached_input_price
    input_cost = (input_tokens - cached) * facts.input_price + cached * cached_price
    return CostEstimate(input_tokens, cached, output, input_cost, output * facts.output_price)


def _find_cached_tokens(name: str, facts: ModelFacts, messages: Sequence[Message], input_tokens: int) -> int:
    """Return how many input tokens of a request to the model *name* the provider has probably cached.

    Returns 0 unless the latest response in *messages* is from this model, used the cache, and is less than
    CACHE_SECONDS old. *input_tokens* is the estimated size of the request's input.
    """
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if facts.cached_input_price is None or last is None or last.usage is None or last.model != name:
        return 0
    age = time.time() - last.at
    if not last.usage.cached_tokens or not 0 <= age < CACHE_SECONDS:
        return 0
    return min(last.usage.input_tokens, input_tokens)


def find_shorter_output(facts: ModelFacts, estimate: CostEstimate, uses: Sequence[BudgetUse]) -> int:
    """Return the length, in tokens, of the longest response that would keep the request within all limits.

    Returns 0 if even the longest possible response stays within the limits, if the result would be too short to be
    useful, or if the price is unknown.
    """
    if estimate.input_cost is None or not facts.output_price:
        return 0
    left = min(use.limit - use.spent for use in uses) - estimate.input_cost
    tokens = math.floor(left / facts.output_price + _TOLERANCE)
    return tokens if MIN_OUTPUT_TOKENS <= tokens < estimate.max_output_tokens else 0


def _raise_limit(limit: float, needed: float) -> float:
    """Return the smallest multiple of *limit* that is at least twice *limit* and not less than *needed*."""
    return limit * max(2, math.ceil(needed / limit - _TOLERANCE))


def make_budget_error(use: BudgetUse, cost: float | None, *, can_ask: bool = False) -> BudgetReached:
    """Return the error for a request that is not sent because it would exceed the limit in *use*.

    *cost* is the estimated cost of the request, None if unknown. Set *can_ask* if the user will be asked about the
    limit when the message is sent again; the hint then suggests sending it again.
    """
    limit = format_dollars(use.limit)
    flag = ", or with --max-cost" if use.name == "per_turn" else ""
    hint = (
        f"Send again to raise it for this conversation, or raise {use.name} under [budget] in config.toml{flag}."
        if can_ask
        else f"Raise {use.name} under [budget] in config.toml{flag}."
    )
    if use.name == "ask_above":
        return BudgetReached(f"The request may cost {format_dollars(cost or 0)}, above ask_above = {limit}.", hint)
    more = f" and the next request may cost {format_dollars(cost)}" if cost is not None else ""
    return BudgetReached(f"{format_dollars(use.spent)} of {use.name} = {limit} is spent{more}.", hint)
