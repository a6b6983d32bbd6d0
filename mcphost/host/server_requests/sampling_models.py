"""The models that can process sampling requests, with the facts about them that the user sees."""

from typing import TYPE_CHECKING

import anyio

from mcphost.config.schema import SamplingConfig, SamplingLimits
from mcphost.errors import ModelError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.lifetime import Lazy
from mcphost.host.model_selection import ModelSelection
from mcphost.llm.model import ChatModel

if TYPE_CHECKING:
    from mcphost.host.questions.questions import ModelCandidate
    from mcphost.host.server_requests.sampling_costs import SamplingCosts

FACTS_TIMEOUT = 5.0
"""Maximum seconds to load facts about the models before the review is shown."""
MAX_CONVERSATION = 50_000
"""Maximum characters of the conversation that can be added to a request, counted from its end."""


class SamplingModels:
    """The models that can process sampling requests: the conversation's model and those configured for sampling."""

    def __init__(
        self,
        model_selection: ModelSelection,
        config: SamplingConfig,
        costs: "Lazy[SamplingCosts]",
        conversation: ActiveConversation | None = None,
    ) -> None:
        self.config = config
        """The settings in use; a change applies to the next request."""

        self.costs = costs
        self._model_selection = model_selection
        self._conversation = conversation
        self._speeds: dict[str, float] = {}

    @property
    def limits(self) -> SamplingLimits:
        """The limits on each server's requests, unless the server's configuration entry overrides them."""
        return self.config.limits

    async def load_models(self) -> dict[str, ChatModel]:
        """Return the models by name, the conversation's model first.

        Facts about the models, such as prices, are also loaded, for at most 5 seconds. Facts not loaded by then
        count as unknown.
        """
        models: dict[str, ChatModel] = {}
        for model in (
            self._model_selection.model,
            *(self._model_selection.get_model(config) for config in self.config.models),
        ):
            if model is not None:
                models.setdefault(model.name, model)
        with anyio.move_on_after(FACTS_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for model in models.values():
                    tasks.start_soon(_load_facts, model)
        return models

    def record_speed(self, name: str, tokens: int, seconds: float) -> None:
        """Remember a model's speed: *tokens* is the length of one of its replies, which took *seconds* seconds."""
        if tokens >= 10 and seconds > 0:
            self._speeds[name] = round(tokens / seconds, 1)

    def make_candidate(self, model: ChatModel, tokens: int, max_tokens: int) -> "ModelCandidate":
        """Return the facts about a model that the user sees when reviewing a request.

        They include the maximum cost, which is computed from *tokens*, the estimated size of the input, and
        *max_tokens*, the maximum size of the output.
        """
        from mcphost.host.questions.questions import ModelCandidate  # loaded with the first request

        facts = model.facts
        priced = facts.input_price is not None and facts.output_price is not None
        ranks = [self._model_selection.get_model(config).name for config in self.config.models]
        return ModelCandidate(
            name=model.name,
            label=model.label,
            input_price=facts.input_price,
            output_price=facts.output_price,
            context_window=facts.context_window,
            speed=self._speeds.get(model.name),
            rank=ranks.index(model.name) + 1 if model.name in ranks else None,
            ceiling=tokens * (facts.input_price or 0) + max_tokens * (facts.output_price or 0) if priced else None,
        )

    def conversation_text(self) -> str:
        """Return the last 50,000 characters of the current conversation, without tool results."""
        messages = self._conversation.messages if self._conversation is not None else ()
        texts = [(message.role, message.text) for message in messages if message.role in ("user", "assistant")]
        return "\n\n".join(f"{role}: {text}" for role, text in texts if text.strip())[-MAX_CONVERSATION:]


async def _load_facts(model: ChatModel) -> None:
    try:
        await model.load_facts()
    except ModelError:
        return  # the facts stay unknown; the request itself reports the error
