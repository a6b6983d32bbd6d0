"""Limits of one server's use of the model: requests and tokens, per minute and per run."""

import time
from collections import deque
from typing import Any

from mcphost.config.schema import SamplingLimits
from mcphost.host.questions.sampling_context import LimitUsage

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
