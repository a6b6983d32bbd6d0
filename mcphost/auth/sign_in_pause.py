"""Pause between the sign-ins that the requests of an open session start."""

import anyio

from mcphost.auth.sign_in_context import SignInFailed
from mcphost.errors import SignInRequired, SignInUnchanged

FIRST_PAUSE = 10.0
MAX_PAUSE = 600.0
"""Seconds; each failed sign-in doubles the pause, up to this maximum."""


class SignInPause:
    """Time after a failed sign-in in which the requests of an open session start no other one.

    A server can cause requests at any time, for example by announcing that its lists have changed. Without a pause, it
    could ask the user again as soon as a sign-in is declined, and send as many requests to an authorization server.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._end = 0.0
        self._error: SignInRequired | None = None

    def begin(self, error: SignInRequired) -> None:
        """Start or extend the pause after a sign-in that failed with *error*."""
        self._end = anyio.current_time() + min(FIRST_PAUSE * 2.0 ** min(self._failures, 10), MAX_PAUSE)
        self._failures += 1
        self._error = error

    def end(self) -> None:
        """End the pause after a successful sign-in; the next one is as short as the first."""
        self._failures, self._error = 0, None

    def check(self) -> None:
        """Raise the error of the sign-in that failed last if the pause has not ended yet.

        Its hint always says what to do, because the reason, such as a network that was down, may be over.
        """
        error = self._error
        if error is not None and anyio.current_time() < self._end:
            again = copy_sign_in_error(error)
            again.hint = again.hint or "Sign in again or restart the server."
            raise again


def copy_sign_in_error(error: SignInRequired) -> SignInRequired:
    """Return a new error with the message, hint and server of *error*, which may be raised in another task."""
    kind = SignInUnchanged if isinstance(error, SignInUnchanged) else SignInFailed
    return kind(error.message, error.hint, server=error.server)
