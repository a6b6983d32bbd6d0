"""What one server may use of the user's model: requests and tokens, in any minute and in this run."""

import time
from collections import deque
from typing import Any

from mcphost.config.schema import SamplingLimits
from mcphost.host.questions.sampling_context import LimitUsage

MINUTE = 60.0


class SamplingBudget:
    """The limits of one server and what it used of them; a request counts when it comes, tokens when they are used."""

    def __init__(self, limits: SamplingLimits) -> None:
        self.limits = limits
        self._request_times: deque[float] = deque()
        self._token_uses: deque[tuple[float, int]] = deque()
        self._request_count = 0
        self._token_count = 0

    def count_request(self) -> str:
        """Count one more; or the limit that it would pass, in words that begin with "at most"."""
        now = self._discard_expired()
        if len(self._request_times) >= self.limits.requests_per_minute:
            return f"at most {self.limits.requests_per_minute} samplings of this server are answered in a minute."
        if self._request_count >= self.limits.requests_per_session:
            return f"at most {self.limits.requests_per_session} samplings of this server are answered in one run."
        self._request_count += 1
        self._request_times.append(now)
        return ""

    def available_tokens(self, needed: int) -> tuple[int, str]:
        """How many tokens the answer may have beside `needed` that go in; 0 and the limit when there are none left."""
        self._discard_expired()
        rooms = (
            (self.limits.tokens_per_minute, self._recent_tokens, "in a minute"),
            (self.limits.tokens_per_session, self._token_count, "in one run"),
        )
        for most, used, when in rooms:
            if used + needed >= most:
                return 0, f"this server may use at most {most:,} tokens {when}, and used {used:,}."
        return min(most - used - needed for most, used, _ in rooms), ""

    def spend(self, tokens: int) -> None:
        """That many were used."""
        self._token_count += tokens
        self._token_uses.append((self._discard_expired(), tokens))

    def usage(self) -> tuple[LimitUsage, ...]:
        """All of it, for whoever decides."""
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
        """The time, with what is older than a minute forgotten."""
        now = time.monotonic()
        while self._request_times and now - self._request_times[0] >= MINUTE:
            self._request_times.popleft()
        while self._token_uses and now - self._token_uses[0][0] >= MINUTE:
            self._token_uses.popleft()
        return now


def estimate_tokens(texts: Any) -> int:
    """About how many tokens these bytes are, rather too many than too few."""
    return sum(len(text) for text in texts) // 3
