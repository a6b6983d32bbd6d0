"""Schedule that decides whether and when to reopen a lost connection to a server automatically."""

import ssl
import time
from typing import NamedTuple

from mcphost.errors import (
    ConfigError,
    McpHostError,
    RequestNotSent,
    SignInRequired,
    StartupError,
    UnsupportedRevision,
)
from mcphost.llm.providers import is_loopback

BACK_OFF = (1, 2, 4, 8, 16)
"""Seconds before each attempt to reconnect; after these attempts, the user must restart the server."""
STEADY_SECONDS = 60
"""Seconds that a server must have been ready before the attempts are counted from the beginning."""
FIRST_UNREACHABLE_DELAY = 2.0
MAX_UNREACHABLE_DELAY = 60.0
"""Maximum seconds between two attempts to reach an unreachable HTTP server; each attempt doubles the delay.

For a server at a loopback address, the delay stays the same.
"""
_PERMANENT_ERRORS = (SignInRequired, UnsupportedRevision, ConfigError)


class Retry(NamedTuple):
    """A planned reconnect after `seconds` seconds, which is attempt number `attempt` of `attempts`.

    If `attempts` is 0, their number is not limited; this is the case while a server cannot be reached.
    """

    seconds: float
    attempt: int
    attempts: int = 0


class ReconnectSchedule:
    """Schedule of the automatic attempts to reconnect to one server.

    Attempts are made only if the server has been ready before, or if `retry_unreachable` is set and the server cannot
    be reached; otherwise, the user must act first.
    """

    def __init__(self, url: str = "") -> None:
        """Create the schedule of a server with this URL, which is "" for a local server."""
        self._url = url
        self.retry_unreachable = False
        """Whether mcphost keeps trying to reach an unreachable HTTP server, even if the server was never ready."""

        self.reset()

    def reset(self) -> None:
        """Forget all earlier attempts, as if the server had never been started."""
        self._failures = self._unreachable = 0
        self._was_ready = False
        self.has_given_up = False
        """Whether all automatic attempts to reconnect have failed."""

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
        if self.retry_unreachable and is_unreachable(error):
            self._unreachable += 1
            # A program on this machine is tried often: its developer has just started it.
            doublings = 0 if is_loopback(self._url) else min(self._unreachable - 1, 10)
            delay = FIRST_UNREACHABLE_DELAY * 2**doublings
            return Retry(min(delay, MAX_UNREACHABLE_DELAY), self._unreachable)
        self._unreachable = 0
        if not self._was_ready or isinstance(error, _PERMANENT_ERRORS):
            return None
        self._failures += 1
        if self._failures > len(BACK_OFF):
            self.has_given_up = True
            return None
        return Retry(BACK_OFF[self._failures - 1], self._failures, self.attempts)


def is_unreachable(error: McpHostError) -> bool:
    """Return whether *error* means that an HTTP server could not be reached but may be reachable later.

    True if nothing listens at its address, if its name cannot be resolved, or if connecting timed out; False for
    TLS errors.
    """
    if not isinstance(error, StartupError | RequestNotSent):
        return False
    cause: BaseException = error
    while isinstance(cause.__cause__, RequestNotSent):
        cause = cause.__cause__
    reason = cause.__cause__
    is_network = isinstance(reason, OSError) and not isinstance(
        reason, ssl.SSLError | ConnectionResetError | ConnectionAbortedError
    )
    return is_network and isinstance(cause, RequestNotSent)
