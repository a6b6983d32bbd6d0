"""How old tokens are, by a clock that nobody sets and that goes on while the machine sleeps.

What is stored can only say when something ended by the clock on the wall. Within one process that clock is read once
for each token, when it came or was loaded; whether it is set forth or back afterwards changes nothing.
"""

import hashlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable

CLOCK_SLACK = 300.0
"""Seconds by which clocks differ for honest reasons."""
_MAX_TOKENS = 256


def suspend_aware_time() -> float:
    """Seconds since some moment, those in which the machine slept included."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # unlike time.monotonic() there, it counts sleep
    return time.monotonic()


class TokenAges:
    """Remembers for each token how old it was when it was first seen here, and when that was."""

    def __init__(
        self, clock: Callable[[], float] = suspend_aware_time, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._first_seen: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def age(self, token: str, issued: float) -> float:
        """Seconds since it was issued, which was then by the clock on the wall; infinite when that cannot be.

        That is so when the clock was set back before this process saw the token: then nobody can tell.
        """
        return self._clock() - self.issue_time(token, issued)

    def issue_time(self, token: str, issued: float) -> float:
        """When it was issued, by the clock that nobody sets; minus infinity when nobody can tell. Always the same."""
        key = hashlib.sha256(f"{issued} {token}".encode()).digest()
        now = self._clock()
        seen = self._first_seen.get(key)
        if seen is None:
            age = self._wall_clock() - issued
            seen = self._first_seen[key] = (now, max(0.0, age) if age > -CLOCK_SLACK else float("inf"))
            if len(self._first_seen) > _MAX_TOKENS:
                self._first_seen.popitem(last=False)
        self._first_seen.move_to_end(key)
        return seen[0] - seen[1]


token_ages = TokenAges()
"""Those of this process."""
