"""Which model answers a server: its hints in their order, then its priorities over what is known; and why that one.

Specification: client/sampling, model preferences. What is not known of a model counts neither for nor against it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import anyio

from mcphost.config.schema import SamplingConfig
from mcphost.errors import ModelError
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.sampling_context import ModelCandidate
from mcphost.llm.messages import Message
from mcphost.llm.model import ChatModel
from mcphost.sanitize import sanitize
from mcphost.serialization import is_number

FACTS_TIMEOUT = 5.0
"""Seconds to find out what is known of the models; what is not known by then is asked for without it."""
MAX_HINTS = 20
MAX_CONVERSATION = 50_000
"""Characters of the conversation that can be added to a request, its newest."""


class SamplingModels:
    """The model of the conversation and those that the user named for servers."""

    def __init__(
        self, model_selection: ModelSelection, config: SamplingConfig, conversation: Callable[[], Sequence[Message]]
    ) -> None:
        self.limits = config.limits
        self._model_selection = model_selection
        self._configs = config.models
        self._conversation = conversation
        self._speeds: dict[str, float] = {}

    async def load_models(self) -> dict[str, ChatModel]:
        """By name, the one of the conversation first; their facts are known as far as they can be."""
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
        """That many tokens came in that time."""
        if tokens >= 10 and seconds > 0:
            self._speeds[name] = round(tokens / seconds, 1)

    def make_candidate(self, model: ChatModel, tokens: int, max_tokens: int) -> ModelCandidate:
        """What is known of it, for a request of about `tokens` whose answer has `most`."""
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
        """What the user and the model said to each other: words alone, no results of tools."""
        said = [(one.role, one.text) for one in self._conversation() if one.role in ("user", "assistant")]
        return "\n\n".join(f"{role}: {text}" for role, text in said if text.strip())[-MAX_CONVERSATION:]


async def _load_facts(model: ChatModel) -> None:
    try:
        await model.learn()
    except ModelError:
        return  # then nothing is known of it; what is wrong shows when it is asked


class _Criterion(NamedTuple):
    key: str
    words: str
    value: Callable[[ModelCandidate], float | None]


def _price(offer: ModelCandidate) -> float | None:
    """Less is better. One token out for three in, as most requests are."""
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
    """The model for these preferences, and why in a sentence; `offers` is not empty, and its first is the usual one.

    `needed` is about how many tokens must fit. Whatever a server writes into its preferences is no error.
    """
    large = [one for one in offers if not 0 < one.context_window < needed]
    small = "" if len(large) in (0, len(offers)) else " Smaller models cannot take so much."
    fitting = large or list(offers)
    hints = list(_hints(preferences))
    for hint in hints:
        matching = [one for one in fitting if hint.casefold() in one.name.casefold()]
        if len(matching) == 1:
            return matching[0], f'The server wishes for "{_display_hint(hint)}", and its name has that.{small}'
        if matching:
            best, why = _rank_models(preferences, matching)
            return (
                best,
                f'The server wishes for "{_display_hint(hint)}", as {len(matching)} models are called. {why}{small}',
            )
    unmet = f'No model is called "{_display_hint(hints[0])}", which the server wishes for. ' if hints else ""
    if len(fitting) == 1:
        return fitting[0], f"{unmet}It is the only model that can answer here.{small}"
    best, why = _rank_models(preferences, fitting)
    return best, f"{unmet}{why}{small}"


def _rank_models(preferences: Mapping[str, Any], offers: Sequence[ModelCandidate]) -> tuple[ModelCandidate, str]:
    scores = dict.fromkeys(range(len(offers)), 0.0)
    wanted: list[str] = []
    unknown: list[str] = []
    for criterion in _CRITERIA:
        weight = _weight(preferences.get(criterion.key))
        if not weight:
            continue
        known = {at: value for at, one in enumerate(offers) if (value := criterion.value(one)) is not None}
        if len(known) < len(offers):
            unknown.append(criterion.words)
        low, high = min(known.values(), default=0.0), max(known.values(), default=0.0)
        if len(known) > 1:
            wanted.append(f"{criterion.words} {weight:g}")
            for at, value in known.items():
                scores[at] += weight * ((value - low) / (high - low) if high > low else 1.0)
    best = offers[max(scores, key=lambda at: scores[at])]
    blind = f" The {' and the '.join(unknown)} of some is not known." if unknown else ""
    if not wanted:
        why = "It comes first of them." if offers[0].rank is not None else "It is the model of your conversation."
        return best, f"{why}{blind}"
    return best, f"It suits best what the server weighs: {', '.join(wanted)}.{blind}"


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
