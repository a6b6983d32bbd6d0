"""Minimum time between sign-ins that are started by requests of an open session."""

import anyio

from mcphost.auth.sign_in_context import SignInFailed
from mcphost.errors import SignInRequired, SignInUnchanged

FIRST_PAUSE = 10.0
MAX_PAUSE = 600.0
"""Seconds; each failed sign-in doubles the pause, up to this maximum."""


class SignInPause:
    """Pause after a failed sign-in, during which requests of an open session cannot start another one.

    A server can cause requests at any time, for example by announcing that its lists have changed. Without a pause, it
    could make mcphost ask the user again immediately after each declined sign-in, and flood an authorization server
    with requests.
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
        """End the pause after a successful sign-in, and reset the length of the next pause."""
        self._failures, self._error = 0, None

    def check(self) -> None:
        """Raise the error of the last failed sign-in if the pause has not ended yet.

        If that error has no hint, a hint to sign in again is added, because its cause, such as a network failure, may
        no longer exist.
        """
        error = self._error
        if error is not None and anyio.current_time() < self._end:
            again = copy_sign_in_error(error)
            again.hint = again.hint or "Sign in again or restart the server."
            raise again


def copy_sign_in_error(error: SignInRequired) -> SignInRequired:
    """Return a new error with the message, hint and server of *error*, so that another task can raise it."""
    kind = SignInUnchanged if isinstance(error, SignInUnchanged) else SignInFailed
    return kind(error.message, error.hint, server=error.server)
