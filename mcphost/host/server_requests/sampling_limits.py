"""Limits of one server's use of the model: requests and tokens, per minute and per run."""

import time
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import SamplingLimits
from mcphost.host.questions.questions import LimitUsage
from mcphost.serialization import Struct

MINUTE = 60.0


class SamplingBudget:
    """Limits and usage of one server; a request counts on arrival, tokens after use."""

    def __init__(self, limits: SamplingLimits) -> None:
        self.limits = limits
        self._request_times: deque[float] = deque()
        self._token_uses: deque[tuple[float, int]] = deque()
        self._request_count = 0
        self._token_count = 0

    def count_request(self) -> str:
        """Count a request and return "", or return the exceeded limit, which begins with "at most"."""
        now = self._discard_expired()
        if len(self._request_times) >= self.limits.requests_per_minute:
            return f"at most {self.limits.requests_per_minute} sampling requests of this server are allowed per minute."
        if self._request_count >= self.limits.requests_per_session:
            return f"at most {self.limits.requests_per_session} sampling requests of this server are allowed per run."
        self._request_count += 1
        self._request_times.append(now)
        return ""

    def available_tokens(self, needed: int) -> tuple[int, str]:
        """Return the tokens left for the answer besides *needed* input; 0 and the limit if none are left."""
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
        """Count used tokens."""
        self._token_count += tokens
        self._token_uses.append((self._discard_expired(), tokens))

    def usage(self) -> tuple[LimitUsage, ...]:
        """Return the usage of all limits."""
        self._discard_expired()
        limits = self.limits
        return (
            LimitUsage("requests this minute", len(self._request_times), limits.requests_per_minute),
            LimitUsage("requests this run", self._request_count, limits.requests_per_session),
            LimitUsage("tokens this minute", self._recent_tokens, limits.tokens_per_minute),
            LimitUsage("tokens this run", self._token_count, limits.tokens_per_session),
        )

    @property
    def _recent_tokens(self) -> int:
        return sum(tokens for _, tokens in self._token_uses)

    def _discard_expired(self) -> float:
        """Drop entries older than a minute and return the time."""
        now = time.monotonic()
        while self._request_times and now - self._request_times[0] >= MINUTE:
            self._request_times.popleft()
        while self._token_uses and now - self._token_uses[0][0] >= MINUTE:
            self._token_uses.popleft()
        return now


def estimate_tokens(texts: Any) -> int:
    """Return an estimate of the tokens in these bytes, rather too high than too low."""
    return sum(len(text) for text in texts) // 3


MAX_OPEN = 200
"""Remembered open sampling requests of one server."""
OPEN_SECONDS = 600.0
"""Seconds that one without a certain call stays open if the server never sends the results."""
NO_CALL = 0


class _OpenSampling(Struct, frozen=True):
    depth: int
    tool_use_ids: frozenset[str]
    calls: frozenset[int]
    opened_at: float


class SamplingNesting:
    """The open tool calls in one server's sampling, by the calls they may belong to."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._open: tuple[_OpenSampling, ...] = ()

    def depth(self, context: ServerRequestContext, answered_ids: frozenset[str]) -> int:
        """Return the depth of a sampling request with the results of these tool calls; 1 is not nested.

        A request with results continues the sampling that made the calls, and closes them.
        """
        calls = _possible_calls(context)
        related = [item for item in self._open if self._is_related(item, calls)]
        continued = [item for item in related if item.tool_use_ids & answered_ids]
        self._open = tuple(item for item in self._open if item not in continued)
        if continued:
            return max(item.depth for item in continued)
        return 1 + max((item.depth for item in related), default=0)

    def record_tool_uses(self, context: ServerRequestContext, depth: int, tool_use_ids: frozenset[str]) -> None:
        """Record the tool calls in an answer of this depth, before it is sent."""
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
    """Return the calls it may belong to, with NO_CALL if that is not certain."""
    return frozenset((context.call_number,)) if context.call_number else frozenset((NO_CALL, *context.candidate_calls))
