"""Schedule that decides whether, and when, a lost connection to a server is opened again without the user."""

import time
from typing import NamedTuple

from mcphost.errors import ConfigError, McpHostError, SignInRequired, UnsupportedRevision

BACK_OFF = (1, 2, 4, 8, 16)
"""Seconds before each attempt to reconnect; after these attempts, the user must restart the server."""
STEADY_SECONDS = 60
"""Seconds that a server must have been ready before the attempts are counted from the beginning."""
_PERMANENT_ERRORS = (SignInRequired, UnsupportedRevision, ConfigError)


class Retry(NamedTuple):
    """The attempt with the number `attempt` of `attempts`, made in `seconds` seconds."""

    seconds: float
    attempt: int
    attempts: int


class ReconnectSchedule:
    """Delays before the attempts to reconnect to one server.

    Only a server that was ready is tried again; one that was never ready needs action by the user.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again, as for a server that was never started."""
        self._failures = 0
        self._was_ready = False
        self.has_given_up = False
        """Whether the last attempt failed as well."""

    @property
    def attempts(self) -> int:
        """The number of attempts after which only the user can start the server."""
        return len(BACK_OFF)

    def next_retry(self, error: McpHostError, ready_at: float) -> Retry | None:
        """Return the next attempt after *error* ended the connection; None if only the user can start the server.

        *ready_at* is the monotonic time in seconds at which the server was ready, 0 if it never was.
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
