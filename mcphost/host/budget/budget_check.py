"""Budget check before each model request: the user is asked before the budget is exceeded."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from mcphost.host.budget.budget_limits import (
    MAX_QUESTIONS,
    BudgetLimits,
    BudgetReached,
    CostEstimate,
    estimate_request,
    find_shorter_output,
    make_budget_error,
)
from mcphost.host.budget.token_shares import measure_shares
from mcphost.host.conversation_messages import Conversation
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.cost import (
    ApproveCost,
    BudgetUse,
    CheaperModel,
    CompactConversation,
    CostShare,
    CostVerdict,
    DeferTools,
    RaiseBudget,
    SendOnce,
    UseCheaperModel,
)
from mcphost.host.questions.frontend import Frontend
from mcphost.llm.model import ChatModel, ModelRequest, TokenShare
from mcphost.llm.model_catalog import PricedModel
from mcphost.serialization import replace
from mcphost.store.spending import SpendingEntry


class PreparedRequest(NamedTuple):
    """A request ready to be sent, the model to send it to, and an entry for the spending record."""

    model: ChatModel
    request: ModelRequest
    entry: SpendingEntry


class RequestSource(Protocol):
    """Interface to the object that builds model requests, limited to what BudgetCheck needs."""

    def build(self, conversation: Conversation) -> ModelRequest:
        """Build the next request of a conversation."""
        ...

    def find_server(self, name: str) -> str:
        """Return the server of the tool that the model knows as *name*, or "" for a built-in tool."""
        ...

    def defer(self, server: str) -> None:
        """Send the definitions of a server's tools only once the model has found them by searching.

        This applies to later requests of the open conversation.
        """
        ...


ListModels = Callable[[], Awaitable[Sequence[PricedModel]]]
Compact = Callable[[], Awaitable[bool]]


class BudgetCheck:
    """Check of each model request against the budget; if a request would exceed the budget, the user is asked first."""

    def __init__(
        self,
        limits: BudgetLimits,
        *,
        requests: RequestSource,
        frontend: Frontend,
        model_selection: ModelSelection,
        list_models: ListModels | None = None,
    ) -> None:
        self._limits = limits
        self._requests = requests
        self._frontend = frontend
        self._model_selection = model_selection
        self._list_models = list_models
        self.compact: Compact | None = None
        """Shortens the open conversation and returns whether it became shorter; None if that is not possible."""

        self.has_old_messages: Callable[[], bool] = lambda: True
        """Returns whether the open conversation has messages that `compact` would summarize."""

    async def prepare(self, conversation: Conversation, turn: str, model: ChatModel) -> PreparedRequest:
        """Build the next model request of a turn; if it would exceed the budget, ask the user what to do.

        The user can, for example, raise the limit, switch to a cheaper model or shorten the request. After each of
        these changes, the request is built and checked again. The model in the result is therefore not *model* if the
        user has switched to another one. Raises BudgetReached if the request must not be sent, and StoreError if the
        budget cannot be checked.
        """
        for _ in range(MAX_QUESTIONS):
            request = self._requests.build(conversation)
            shares = measure_shares(request, self._requests.find_server)
            entry = SpendingEntry(
                at=0.0, conversation=conversation.id, turn=turn, model=model.name, shares=shares,
                input_tokens=sum(share.tokens for share in shares),
            )  # fmt: skip
            if not self._limits.is_limited(conversation.id):
                return PreparedRequest(model, request, entry)
            await self._limits.load_prices(model)
            estimate = estimate_request(model, request, entry.input_tokens, conversation.messages)
            uses = await self._limits.check(conversation.id, turn, estimate)
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
        """Apply the user's answer to the budget question, and return the model to use.

        Raises BudgetReached if the request must not be sent.
        """
        exceeded = [use for use in question.budgets if use.raised]
        match answer:
            case RaiseBudget():
                self._limits.raise_limits(conversation.id, exceeded)
                return model
            case UseCheaperModel(name) if any(offer.name == name for offer in question.cheaper):
                return await self._switch_model(name)
            case DeferTools(server) if server in question.optional_servers:
                self._requests.defer(server)
                return model
            case CompactConversation() if question.can_compact and self.compact is not None:
                if await self.compact():
                    return model
                raise make_budget_error(exceeded[0], question.cost, can_ask=True)
            case _:
                can_ask = question.KIND in self._frontend.kinds
                raise make_budget_error(exceeded[0], question.cost, can_ask=can_ask)

    async def _switch_model(self, name: str) -> ChatModel:
        priced = await self._list_models() if self._list_models is not None else ()
        config = next(one.config for one in priced if one.config.name == name)
        self._model_selection.select(config)
        model = self._model_selection.model
        if model is None:
            raise BudgetReached("The cheaper model is not available.", "Choose a model with /model.")
        return model

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
            shorter_output_tokens=find_shorter_output(model.facts, estimate, uses),
            budgets=tuple(uses),
            shares=tuple(CostShare(one.kind, one.server, one.tool, one.tokens) for one in biggest),
            cheaper=await self._find_cheaper(model, request, estimate),
            can_compact=self.compact is not None and self.has_old_messages(),
        )

    async def _find_cheaper(
        self, model: ChatModel, request: ModelRequest, estimate: CostEstimate
    ) -> tuple[CheaperModel, ...]:
        if self._list_models is None or estimate.cost is None:
            return ()
        offers: list[CheaperModel] = []
        for one in await self._list_models():
            # Another model has no part of the conversation in its cache.
            output = request.max_output_tokens or estimate.max_output_tokens
            cost = estimate.input_tokens * one.input_price + output * one.output_price
            if one.config.name != model.name and cost < estimate.cost:
                offers.append(CheaperModel(one.config.name, cost))
        return tuple(sorted(offers, key=lambda offer: offer.cost))
