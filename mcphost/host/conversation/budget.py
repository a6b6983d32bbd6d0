"""The budget check that every model request passes before it is sent."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from mcphost.config.schema import BudgetConfig
from mcphost.errors import McpHostError, ModelError
from mcphost.host.active_conversation import Conversation
from mcphost.host.conversation.request_shares import measure_shares
from mcphost.host.event_bus import EventBus
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.cost import (
    ApproveCost,
    BudgetName,
    BudgetUse,
    CheaperModel,
    CompactConversation,
    CostShare,
    CostVerdict,
    LeaveOutTools,
    RaiseBudget,
    SendOnce,
    UseCheaperModel,
)
from mcphost.host.questions.frontend import Frontend
from mcphost.host.spending import SpendingTracker
from mcphost.llm.messages import Message
from mcphost.llm.model import ChatModel, ModelFacts, ModelRequest
from mcphost.llm.model_catalog import PricedModel
from mcphost.pluralize import format_dollars
from mcphost.serialization import Struct, replace
from mcphost.store.spending import SpendingEntry, SpendingTotals, TokenShare

DEFAULT_OUTPUT_TOKENS = 4_096
"""Assumed length of the longest answer if neither the user nor the list of models limits it."""

CACHE_SECONDS = 300.0
"""Minimum number of seconds for which providers cache the beginning of a request."""

MIN_OUTPUT_TOKENS = 256
"""The shortest answer that is offered as a way to stay within the budget."""

MAX_QUESTIONS = 20
"""Maximum number of questions about one request; each changes the request or the budget."""

_TOLERANCE = 1e-9
_NAMES: tuple[BudgetName, ...] = ("ask_above", "per_turn", "per_conversation", "per_day")


class BudgetReached(McpHostError):
    """Raised before a request that the budget does not allow; the message names the setting."""

    exit_code = 7


class CostEstimate(Struct, frozen=True):
    """Estimated size of a request in tokens and cost in US dollars; costs are None without a known price."""

    input_tokens: int
    cached_tokens: int
    max_output_tokens: int
    input_cost: float | None = None
    output_cost: float | None = None

    @property
    def cost(self) -> float | None:
        """The highest possible cost: the input plus the longest answer allowed; None if the price is unknown."""
        return None if self.input_cost is None or self.output_cost is None else self.input_cost + self.output_cost


class PreparedRequest(NamedTuple):
    """A request that the budget allows, the model to send it to, and its entry for the spending record."""

    model: ChatModel
    request: ModelRequest
    entry: SpendingEntry


class RequestSource(Protocol):
    """Interface of the request builder that BudgetGuard uses."""

    def build(self, conversation: Conversation) -> ModelRequest:
        """Build the next request of a conversation."""
        ...

    def find_server(self, name: str) -> str:
        """Return the server of the tool with this model-facing name; "" for a built-in tool of mcphost."""
        ...

    def leave_out(self, conversation: str, server: str) -> None:
        """Omit a server's tools from later requests of a conversation."""
        ...


ListModels = Callable[[], Awaitable[Sequence[PricedModel]]]
Compact = Callable[[], Awaitable[bool]]


class BudgetGuard:
    """Check that lets a model request through, or asks the user if it would exceed the budget."""

    def __init__(
        self,
        config: BudgetConfig,
        *,
        requests: RequestSource,
        spending: SpendingTracker,
        frontend: Frontend,
        model_selection: ModelSelection,
        events: EventBus,
        list_models: ListModels | None = None,
    ) -> None:
        self._config = config
        self._requests = requests
        self._spending = spending
        self._frontend = frontend
        self._model_selection = model_selection
        self._events = events
        self._list_models = list_models
        self.compact: Compact | None = None
        """Shortens the open conversation and returns whether it became shorter; None if that is not possible."""

        self._raised: dict[tuple[str, BudgetName], float] = {}
        self._unpriced: set[str] = set()

    async def prepare(self, conversation: Conversation, turn: str, model: ChatModel) -> PreparedRequest:
        """Build the next request of a turn, and ask the user if it exceeds the budget.

        Raises BudgetReached if the user stops, and StoreError if the budget cannot be checked.
        """
        for _ in range(MAX_QUESTIONS):
            request = self._requests.build(conversation)
            shares = measure_shares(request, self._requests.find_server)
            entry = SpendingEntry(
                at=0.0, conversation=conversation.id, turn=turn, model=model.name, shares=shares,
                input_tokens=sum(share.tokens for share in shares),
            )  # fmt: skip
            if not any(self._limit(conversation.id, name) for name in _NAMES):
                return PreparedRequest(model, request, entry)
            await self._load_prices(model)
            estimate = estimate_request(model, request, entry.input_tokens, conversation.messages)
            uses = self._check(await self._spending.load_totals(conversation.id, turn), conversation.id, estimate)
            exceeded = [use for use in uses if use.raised]
            if not exceeded:
                return PreparedRequest(model, request, entry)
            question = await self._make_question(model, request, estimate, shares, uses)
            answer = await self._frontend.ask(question)
            if isinstance(answer, SendOnce):
                limits = [limit for limit in (answer.max_output_tokens, request.max_output_tokens) if limit > 0]
                return PreparedRequest(model, replace(request, max_output_tokens=min(limits, default=0)), entry)
            model = await self._apply(answer, question, conversation, model)
        raise BudgetReached("The request still exceeds the budget.", "Raise a limit under [budget] in config.toml.")

    async def _apply(
        self, answer: CostVerdict, question: ApproveCost, conversation: Conversation, model: ChatModel
    ) -> ChatModel:
        """Do what the user chose, and return the model to use. Raises BudgetReached if the user stops."""
        exceeded = [use for use in question.budgets if use.raised]
        match answer:
            case RaiseBudget():
                self._raised.update({(conversation.id, use.name): use.raised for use in exceeded})
                return model
            case UseCheaperModel(name) if any(offer.name == name for offer in question.cheaper):
                return await self._switch_model(name)
            case LeaveOutTools(server) if server in question.optional_servers:
                self._requests.leave_out(conversation.id, server)
                return model
            case CompactConversation() if question.can_compact and self.compact is not None:
                if await self.compact():
                    return model
                raise _make_error(exceeded[0], question.cost)
            case _:
                raise _make_error(exceeded[0], question.cost)

    async def _switch_model(self, name: str) -> ChatModel:
        priced = await self._list_models() if self._list_models is not None else ()
        config = next(one.config for one in priced if one.config.name == name)
        self._model_selection.select(config)
        model = self._model_selection.model
        if model is None:
            raise BudgetReached("The cheaper model is not available.", "Choose a model with /model.")
        return model

    def _limit(self, conversation: str, name: BudgetName) -> float:
        limit: float = getattr(self._config, name)
        return max(limit, self._raised.get((conversation, name), 0.0)) if limit else 0.0

    def _check(self, totals: SpendingTotals, conversation: str, estimate: CostEstimate) -> list[BudgetUse]:
        """Return each configured limit, how much of it is spent, and whether the request would exceed it."""
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
            # Of an unknown price only this is known: what was spent already.
            is_exceeded = needed > limit + _TOLERANCE or (estimate.cost is None and needed >= limit)
            raised = _raise_limit(getattr(self._config, name), needed) if is_exceeded and not is_free else 0.0
            uses.append(BudgetUse(name, spent[name], limit, raised))
        return uses

    async def _make_question(
        self,
        model: ChatModel,
        request: ModelRequest,
        estimate: CostEstimate,
        shares: Sequence[TokenShare],
        uses: Sequence[BudgetUse],
    ) -> ApproveCost:
        biggest = sorted(shares, key=lambda share: -share.tokens)
        return ApproveCost(
            server="",
            why="",
            model=model.name,
            label=model.label,
            input_tokens=estimate.input_tokens,
            cached_tokens=estimate.cached_tokens,
            max_output_tokens=estimate.max_output_tokens,
            input_cost=estimate.input_cost,
            output_cost=estimate.output_cost,
            shorter_output_tokens=_find_shorter_output(model.facts, estimate, uses),
            budgets=tuple(uses),
            shares=tuple(CostShare(one.kind, one.server, one.tool, one.tokens) for one in biggest),
            cheaper=await self._find_cheaper(model, request, estimate),
            can_compact=self.compact is not None,
        )

    async def _find_cheaper(
        self, model: ChatModel, request: ModelRequest, estimate: CostEstimate
    ) -> tuple[CheaperModel, ...]:
        if self._list_models is None or estimate.cost is None:
            return ()
        offers: list[CheaperModel] = []
        for one in await self._list_models():
            # Nothing of the conversation is in the cache of another model.
            output = request.max_output_tokens or estimate.max_output_tokens
            cost = estimate.input_tokens * one.input_price + output * one.output_price
            if one.config.name != model.name and cost < estimate.cost:
                offers.append(CheaperModel(one.config.name, cost))
        return tuple(sorted(offers, key=lambda offer: offer.cost))

    async def _load_prices(self, model: ChatModel) -> None:
        """Load the prices of the model, and tell the user once if they are unknown."""
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


def estimate_request(
    model: ChatModel, request: ModelRequest, input_tokens: int, messages: Sequence[Message]
) -> CostEstimate:
    """Estimate the highest cost of a request, counting input that the provider has probably cached."""
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
    """Return how many input tokens the provider has probably cached.

    Returns 0 unless this model wrote the last answer, used the cache for it, and did so less than CACHE_SECONDS ago.
    """
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if facts.cached_input_price is None or last is None or last.usage is None or last.model != name:
        return 0
    age = time.time() - last.at
    if not last.usage.cached_tokens or not 0 <= age < CACHE_SECONDS:
        return 0
    return min(last.usage.input_tokens, input_tokens)


def _find_shorter_output(facts: ModelFacts, estimate: CostEstimate, uses: Sequence[BudgetUse]) -> int:
    """Return the longest answer that all limits allow, in tokens; 0 if it would be too short to be useful."""
    if estimate.input_cost is None or not facts.output_price:
        return 0
    left = min(use.limit - use.spent for use in uses) - estimate.input_cost
    tokens = math.floor(left / facts.output_price + _TOLERANCE)
    return tokens if MIN_OUTPUT_TOKENS <= tokens < estimate.max_output_tokens else 0


def _raise_limit(limit: float, needed: float) -> float:
    """Return the smallest multiple of *limit*, at least twice the limit, that allows *needed*."""
    return limit * max(2, math.ceil(needed / limit - _TOLERANCE))


def _make_error(use: BudgetUse, cost: float | None) -> BudgetReached:
    limit = format_dollars(use.limit)
    flag = ", or give --max-cost" if use.name == "per_turn" else ""
    hint = f"Raise {use.name} under [budget] in config.toml{flag}."
    if use.name == "ask_above":
        return BudgetReached(f"The request may cost {format_dollars(cost or 0)}, above ask_above = {limit}.", hint)
    more = f" and the next request may cost {format_dollars(cost)}" if cost is not None else ""
    return BudgetReached(f"{format_dollars(use.spent)} of {use.name} = {limit} is spent{more}.", hint)
