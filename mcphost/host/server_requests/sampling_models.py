"""Selection of the model for sampling, by hints, then by priorities over known facts.

Specification: client/sampling, model preferences. Unknown facts of a model count neither for nor against it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import anyio

from mcphost.config.schema import SamplingConfig
from mcphost.errors import ModelError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.questions import ModelCandidate
from mcphost.llm.model import ChatModel
from mcphost.sanitize import sanitize
from mcphost.serialization import is_number

FACTS_TIMEOUT = 5.0
"""Seconds to load facts of the models; the review does not wait longer."""
MAX_HINTS = 20
MAX_CONVERSATION = 50_000
"""Newest characters of the conversation that can be added to a request."""


class SamplingModels:
    """The conversation's model and the models configured for sampling."""

    def __init__(
        self, model_selection: ModelSelection, config: SamplingConfig, conversation: ActiveConversation | None = None
    ) -> None:
        self.limits = config.limits
        self._model_selection = model_selection
        self._configs = config.models
        self._conversation = conversation
        self._speeds: dict[str, float] = {}

    async def load_models(self) -> dict[str, ChatModel]:
        """Return the models by name, the conversation's first, with facts as far as available."""
        models: dict[str, ChatModel] = {}
        for model in (
            self._model_selection.model,
            *(self._model_selection.get_model(config) for config in self._configs),
        ):
            if model is not None:
                models.setdefault(model.name, model)
        with anyio.move_on_after(FACTS_TIMEOUT):
            async with anyio.create_task_group() as tasks:
                for model in models.values():
                    tasks.start_soon(_load_facts, model)
        return models

    def record_speed(self, name: str, tokens: int, seconds: float) -> None:
        """Record the speed of an answer."""
        if tokens >= 10 and seconds > 0:
            self._speeds[name] = round(tokens / seconds, 1)

    def make_candidate(self, model: ChatModel, tokens: int, max_tokens: int) -> ModelCandidate:
        """Return the facts of a model for a request of about *tokens* and at most *max_tokens* of output."""
        facts = model.facts
        priced = facts.input_price is not None and facts.output_price is not None
        ranks = [self._model_selection.get_model(config).name for config in self._configs]
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
        """Return the text of the user and the model, without tool results."""
        messages = self._conversation.messages if self._conversation is not None else ()
        texts = [(message.role, message.text) for message in messages if message.role in ("user", "assistant")]
        return "\n\n".join(f"{role}: {text}" for role, text in texts if text.strip())[-MAX_CONVERSATION:]


async def _load_facts(model: ChatModel) -> None:
    try:
        await model.load_facts()
    except ModelError:
        return  # the facts stay unknown; the request itself reports the error


class _Criterion(NamedTuple):
    key: str
    words: str
    value: Callable[[ModelCandidate], float | None]


def _price(offer: ModelCandidate) -> float | None:
    """Return the negated price of three input tokens and one output token, a typical ratio."""
    if offer.input_price is None or offer.output_price is None:
        return None
    return -(3 * offer.input_price + offer.output_price)


def _speed(offer: ModelCandidate) -> float | None:
    return offer.speed


def _rank(offer: ModelCandidate) -> float | None:
    return None if offer.rank is None else -float(offer.rank)


_CRITERIA = (
    _Criterion("costPriority", "low cost", _price),
    _Criterion("speedPriority", "speed", _speed),
    _Criterion("intelligencePriority", "capability", _rank),
)


def choose_model(
    preferences: Mapping[str, Any], offers: Sequence[ModelCandidate], needed: int
) -> tuple[ModelCandidate, str]:
    """Return the model for these preferences and the reason for the choice.

    *offers* is not empty, and its first is the default. *needed* is the approximate number of tokens that must fit.
    Invalid preferences of a server are ignored.
    """
    large = [offer for offer in offers if not 0 < offer.context_window < needed]
    too_small = "" if len(large) in (0, len(offers)) else " Smaller models cannot take this request."
    candidates = large or list(offers)
    hints = list(_hints(preferences))
    for hint in hints:
        matching = [offer for offer in candidates if hint.casefold() in offer.name.casefold()]
        if len(matching) == 1:
            return matching[0], f'It matches the server\'s hint "{_display_hint(hint)}".{too_small}'
        if matching:
            best, reason = _rank_models(preferences, matching)
            return (
                best,
                f'The server\'s hint "{_display_hint(hint)}" matches {len(matching)} models. {reason}{too_small}',
            )
    unmet = f'No model matches the server\'s hint "{_display_hint(hints[0])}". ' if hints else ""
    if len(candidates) == 1:
        return candidates[0], f"{unmet}It is the only available model.{too_small}"
    best, reason = _rank_models(preferences, candidates)
    return best, f"{unmet}{reason}{too_small}"


def _rank_models(preferences: Mapping[str, Any], offers: Sequence[ModelCandidate]) -> tuple[ModelCandidate, str]:
    scores = dict.fromkeys(range(len(offers)), 0.0)
    weights: list[str] = []
    unknown: list[str] = []
    for criterion in _CRITERIA:
        weight = _weight(preferences.get(criterion.key))
        if not weight:
            continue
        known = {at: value for at, offer in enumerate(offers) if (value := criterion.value(offer)) is not None}
        if len(known) < len(offers):
            unknown.append(criterion.words)
        low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        if len(known) > 1:
            weights.append(f"{criterion.words} {weight:g}")
            for at, value in known.items():
                scores[at] += weight * ((value - low) / (high - low) if high > low else 1.0)
    best = offers[max(scores, key=lambda at: scores[at])]
    note = f" The {' and the '.join(unknown)} of some models is unknown." if unknown else ""
    if not weights:
        reason = "It is the first of them." if offers[0].rank is not None else "It is the model of your conversation."
        return best, f"{reason}{note}"
    return best, f"It fits the server's priorities best: {', '.join(weights)}.{note}"


def _hints(preferences: Mapping[str, Any]) -> Iterator[str]:
    hints = preferences.get("hints")
    for hint in cast("list[Any]", hints)[:MAX_HINTS] if isinstance(hints, list) else []:
        name = cast("dict[str, Any]", hint).get("name") if isinstance(hint, dict) else None
        if isinstance(name, str) and name.strip():
            yield name.strip()


def _weight(value: Any) -> float:
    return min(1.0, max(0.0, float(value))) if is_number(value) else 0.0


def _display_hint(hint: str) -> str:
    return sanitize(hint[:60], keep_newlines=False)
