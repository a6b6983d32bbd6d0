"""Schedule that decides whether and when to reopen a lost connection to a server automatically."""

import time
from typing import NamedTuple

from mcphost.errors import ConfigError, McpHostError, SignInRequired, UnsupportedRevision

BACK_OFF = (1, 2, 4, 8, 16)
"""Seconds before each attempt to reconnect; after these attempts, the user must restart the server."""
STEADY_SECONDS = 60
"""Seconds that a server must have been ready before the attempts are counted from the beginning."""
_PERMANENT_ERRORS = (SignInRequired, UnsupportedRevision, ConfigError)


class Retry(NamedTuple):
    """A planned reconnect: attempt number `attempt` of `attempts`, made after `seconds` seconds."""

    seconds: float
    attempt: int
    attempts: int


class ReconnectSchedule:
    """Schedule of the automatic attempts to reconnect to one server.

    Attempts are made only if the server has been ready before; otherwise, the user must act first.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all earlier attempts, as if the server had never been started."""
        self._failures = 0
        self._was_ready = False
        self.has_given_up = False
        """Whether the last attempt failed as well."""

    @property
    def attempts(self) -> int:
        """The maximum number of consecutive automatic attempts; after these, the user must start the server."""
        return len(BACK_OFF)

    def next_retry(self, error: McpHostError, ready_at: float) -> Retry | None:
        """Return the next attempt after *error* ended the connection; None if the user must act.

        *ready_at* is the monotonic time in seconds at which the server became ready, 0 if it never did.
        """
        if ready_at and time.monotonic() - ready_at > STEADY_SECONDS:
            self._failures = 0
        self._was_ready = self._was_ready or ready_at > 0
        self.has_given_up = False
        if not self._was_ready or isinstance(error, _PERMANENT_ERRORS):
            return None
        self._failures += 1
        if self._failures > len(BACK_OFF):
            self.has_given_up = True
            return None
        return Retry(BACK_OFF[self._failures - 1], self._failures, self.attempts)
