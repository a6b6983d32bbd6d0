"""Sampling policy: limits on each server's requests and tokens, and the choice of the model.

Specification: client/sampling, model preferences. The server's hints are matched first; then its priorities are applied
to the known facts about the models. An unknown fact counts neither for nor against a model.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol, cast

from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import SamplingLimits
from mcphost.host.questions.questions import LimitUsage, ModelCandidate
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct, as_object, is_number, replace

MAX_HINTS = 20


class _Criterion(NamedTuple):
    key: str
    words: str
    value: Callable[[ModelCandidate], float | None]


def _price(offer: ModelCandidate) -> float | None:
    """Return a model's price as a negative number, so that a cheaper model scores higher; None if it is unknown.

    It is the price of three input tokens and one output token, which is a typical ratio.
    """
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
    """Return the model that best fits a server's preferences, and the reason as text for the user.

    *offers* must not be empty; without preferences, its first model is chosen. *needed* is the approximate number
    of tokens that the context window must hold. Invalid preferences are ignored.
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
        reason = (
            "It is first in [sampling] models."
            if offers[0].rank is not None
            else "It is the model of your conversation."
        )
        return best, f"{reason}{note}"
    return best, f"It fits the server's priorities best: {', '.join(weights)}.{note}"


def _hints(preferences: Mapping[str, Any]) -> Iterator[str]:
    hints = preferences.get("hints")
    for hint in cast("list[Any]", hints)[:MAX_HINTS] if isinstance(hints, list) else []:
        name = as_object(hint).get("name")
        if isinstance(name, str) and name.strip():
            yield name.strip()


def _weight(value: Any) -> float:
    return min(1.0, max(0.0, float(value))) if is_number(value) else 0.0


def _display_hint(hint: str) -> str:
    return sanitize_line(hint, 60)


MINUTE = 60.0


class LimitsSource(Protocol):
    """Interface to an object that provides the current sampling limits; implemented by SamplingModels."""

    @property
    def limits(self) -> SamplingLimits:
        """The limits on each server's requests, unless the server's configuration entry overrides them."""
        ...


class SamplingBudget:
    """Sampling limits of one server, and how much of each limit has been used.

    A request is counted when it arrives, and its tokens after they have been used.
    """

    def __init__(self, source: LimitsSource, overrides: Mapping[str, int] | None = None) -> None:
        """Create a budget with the limits of *source*, replaced by those in *overrides*.

        *overrides* contains the limits set in this server's configuration entry, keyed by field name.
        """
        self._source = source
        self._overrides = overrides or {}
        self._request_times: deque[float] = deque()
        self._token_uses: deque[tuple[float, int]] = deque()
        self._request_count = 0
        self._token_count = 0

    @property
    def limits(self) -> SamplingLimits:
        """The limits in use; if they change, earlier requests and tokens count against the new limits."""
        return replace(self._source.limits, **self._overrides)

    def count_request(self) -> str:
        """Count a request and return ""; if it would exceed a limit, return a description of the limit instead.

        The description begins with "at most". A request that would exceed a limit is not counted.
        """
        now = self._discard_expired()
        if len(self._request_times) >= self.limits.requests_per_minute:
            return f"at most {self.limits.requests_per_minute} sampling requests of this server are allowed per minute."
        if self._request_count >= self.limits.requests_per_session:
            return f"at most {self.limits.requests_per_session} sampling requests of this server are allowed per run."
        self._request_count += 1
        self._request_times.append(now)
        return ""

    def available_tokens(self, needed: int) -> tuple[int, str]:
        """Return a pair: the number of output tokens that the limits allow, and "".

        If the limits allow none, return 0 and a sentence about the limit that is reached. *needed* is the number of
        input tokens.
        """
        self._discard_expired()
        limits = (
            (self.limits.tokens_per_minute, self._recent_tokens, "per minute"),
            (self.limits.tokens_per_session, self._token_count, "per run"),
        )
        for limit, used, period in limits:
            if used + needed >= limit:
                return 0, f"this server may use at most {limit:,} tokens {period}, and used {used:,}."
        return min(limit - used - needed for limit, used, _ in limits), ""

    def spend(self, tokens: int) -> None:
        """Count tokens that have been used against the limits."""
        self._token_count += tokens
        self._token_uses.append((self._discard_expired(), tokens))

    def usage(self) -> tuple[LimitUsage, ...]:
        """Return the usage of each limit, not counting the latest request, which the user is about to review."""
        self._discard_expired()
        limits = self.limits
        return (
            LimitUsage("requests this minute", max(0, len(self._request_times) - 1), limits.requests_per_minute),
            LimitUsage("requests this run", max(0, self._request_count - 1), limits.requests_per_session),
            LimitUsage("tokens this minute", self._recent_tokens, limits.tokens_per_minute),
            LimitUsage("tokens this run", self._token_count, limits.tokens_per_session),
        )

    @property
    def _recent_tokens(self) -> int:
        return sum(tokens for _, tokens in self._token_uses)

    def _discard_expired(self) -> float:
        """Discard requests and token uses that are older than a minute; return the current monotonic time."""
        now = time.monotonic()
        while self._request_times and now - self._request_times[0] >= MINUTE:
            self._request_times.popleft()
        while self._token_uses and now - self._token_uses[0][0] >= MINUTE:
            self._token_uses.popleft()
        return now


MAX_OPEN = 200
"""Maximum open sampling requests remembered per server."""
OPEN_SECONDS = 600.0
"""Seconds after which a request that may not belong to any call is closed if its tool results never arrive."""
NO_CALL = 0


class _OpenSampling(Struct, frozen=True):
    depth: int
    tool_use_ids: frozenset[str]
    calls: frozenset[int]
    opened_at: float


class SamplingNesting:
    """Tracker of nested sampling requests, used to limit their depth.

    When the reply to a sampling request contains tool calls, the request stays open until the server returns the
    results of these calls. Another sampling request that the server sends while the first is open is nested in the
    first, if both may belong to the same client request.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: tuple[_OpenSampling, ...] = ()

    def depth(self, context: ServerRequestContext, answered_ids: frozenset[str]) -> int:
        """Return the nesting depth of a new sampling request; 1 means that it is not nested.

        *context* is the client request during which the server sent the new request. *answered_ids* are the ids of the
        tool calls whose results the new request contains. If the reply to an open sampling request contained one of
        these calls, the new request continues the open one: both have the same depth, and the open request is closed.
        """
        calls = _possible_calls(context)
        related = [item for item in self._open if self._is_related(item, calls)]
        continued = [item for item in related if item.tool_use_ids & answered_ids]
        self._open = tuple(item for item in self._open if item not in continued)
        if continued:
            return max(item.depth for item in continued)
        return 1 + max((item.depth for item in related), default=0)

    def record_tool_uses(self, context: ServerRequestContext, depth: int, tool_use_ids: frozenset[str]) -> None:
        """Record that a sampling request stays open, because its reply contains tool calls.

        *context* is the client request during which the server sent the sampling request, *depth* is the nesting depth
        of the sampling request, and *tool_use_ids* are the ids of the tool calls. Call this before the reply is sent.
        Does nothing if there are no tool calls.
        """
        if tool_use_ids:
            self._open = (*self._open, _OpenSampling(depth, tool_use_ids, _possible_calls(context), self._clock()))[
                -MAX_OPEN:
            ]

    def _is_related(self, item: _OpenSampling, calls: frozenset[int]) -> bool:
        common = item.calls & calls
        return common > {NO_CALL} or (
            bool(common) and (NO_CALL not in common or self._clock() - item.opened_at < OPEN_SECONDS)
        )


def _possible_calls(context: ServerRequestContext) -> frozenset[int]:
    """Return the numbers of the client requests during which a server may have sent a sampling request.

    If it may also have been sent outside all client requests, the result includes NO_CALL.
    """
    return frozenset((context.call_number,)) if context.call_number else frozenset((NO_CALL, *context.candidate_calls))
