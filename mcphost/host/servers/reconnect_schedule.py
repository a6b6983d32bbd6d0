"""Schedule that decides whether, and when, a lost connection to a server is opened again without the user."""

import time

from mcphost.errors import ConfigError, McpHostError, SignInRequired, UnsupportedRevision

BACK_OFF = (1, 2, 4, 8, 16)
"""Seconds before each attempt to reconnect; after these attempts, the user must restart the server."""
STEADY_SECONDS = 60
"""Seconds that a server must have been ready before the attempts are counted from the beginning."""
_PERMANENT_ERRORS = (SignInRequired, UnsupportedRevision, ConfigError)


class ReconnectSchedule:
    """Delays before the attempts to reconnect to one server.

    Only a server that was ready is tried again; one that was never ready needs action by the user.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again, as for a server that was never started."""
        self.failures = 0
        self._was_ready = False

    def next_delay(self, error: McpHostError | None, ready_at: float) -> float | None:
        """Return the seconds until the next attempt, or None if only the user can start the server.

        *error* ended the connection; None if it was not even opened. *ready_at* is the monotonic time in seconds at
        which the server was ready, 0 if it never was.
        """
        if ready_at and time.monotonic() - ready_at > STEADY_SECONDS:
            self.failures = 0
        self._was_ready = self._was_ready or ready_at > 0
        is_retried = self._was_ready and error is not None and not isinstance(error, _PERMANENT_ERRORS)
        delay = BACK_OFF[self.failures] if is_retried and self.failures < len(BACK_OFF) else None
        self.failures += 1
        return delay
