"""What one server may use of the user's model: requests and tokens, in any minute and in this run."""

import time
from collections import deque
from typing import Any

from mcphost.config.schema import SamplingLimits
from mcphost.host.questions.sampling_context import Spent

MINUTE = 60.0


class Budget:
    """The limits of one server and what it used of them; a request counts when it comes, tokens when they are used."""

    def __init__(self, limits: SamplingLimits) -> None:
        self.limits = limits
        self._begun: deque[float] = deque()
        self._used: deque[tuple[float, int]] = deque()
        self._requests = 0
        self._tokens = 0

    def request(self) -> str:
        """Count one more; or the limit that it would pass, in words that begin with "at most"."""
        now = self._now()
        if len(self._begun) >= self.limits.requests_per_minute:
            return f"at most {self.limits.requests_per_minute} samplings of this server are answered in a minute."
        if self._requests >= self.limits.requests_per_session:
            return f"at most {self.limits.requests_per_session} samplings of this server are answered in one run."
        self._requests += 1
        self._begun.append(now)
        return ""

    def tokens(self, needed: int) -> tuple[int, str]:
        """How many tokens the answer may have beside `needed` that go in; 0 and the limit when there are none left."""
        self._now()
        rooms = (
            (self.limits.tokens_per_minute, self._lately, "in a minute"),
            (self.limits.tokens_per_session, self._tokens, "in one run"),
        )
        for most, used, when in rooms:
            if used + needed >= most:
                return 0, f"this server may use at most {most:,} tokens {when}, and used {used:,}."
        return min(most - used - needed for most, used, _ in rooms), ""

    def spend(self, tokens: int) -> None:
        """That many were used."""
        self._tokens += tokens
        self._used.append((self._now(), tokens))

    def shown(self) -> tuple[Spent, ...]:
        """All of it, for whoever decides."""
        self._now()
        limits = self.limits
        return (
            Spent("requests this minute", len(self._begun), limits.requests_per_minute),
            Spent("requests this run", self._requests, limits.requests_per_session),
            Spent("tokens this minute", self._lately, limits.tokens_per_minute),
            Spent("tokens this run", self._tokens, limits.tokens_per_session),
        )

    @property
    def _lately(self) -> int:
        return sum(tokens for _, tokens in self._used)

    def _now(self) -> float:
        """The time, with what is older than a minute forgotten."""
        now = time.monotonic()
        while self._begun and now - self._begun[0] >= MINUTE:
            self._begun.popleft()
        while self._used and now - self._used[0][0] >= MINUTE:
            self._used.popleft()
        return now


def about(texts: Any) -> int:
    """About how many tokens these bytes are, rather too many than too few."""
    return sum(len(text) for text in texts) // 3
