"""Token ages by a clock that nobody sets and that counts the time the machine is suspended.

What is stored can only hold wall-clock times. Within one process the wall clock is read once per token, when the token
is received or loaded, so later changes of the clock have no effect.
"""

import hashlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable

CLOCK_SLACK = 300.0
"""Seconds by which correctly set clocks may differ."""
_MAX_TOKENS = 256


def suspend_aware_time() -> float:
    """Return the seconds since an arbitrary moment, including the time the machine was suspended."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # unlike time.monotonic() there, it counts sleep
    return time.monotonic()


class TokenAges:
    """The age of each token when this process first saw it, and when that was."""

    def __init__(
        self, clock: Callable[[], float] = suspend_aware_time, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._first_seen: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def age(self, token: str, issued: float) -> float:
        """Return the seconds since the token was issued; infinity if that is unknown.

        *issued* is a wall-clock time. It is unknown if the clock was set back before this process saw the token.
        """
        return self._clock() - self.issue_time(token, issued)

    def issue_time(self, token: str, issued: float) -> float:
        """Return when the token was issued, by the monotonic clock; always the same value per token.

        Minus infinity if that is unknown.
        """
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
"""The instance of this process."""
