"""Data types for sign-ins, shared by `transport`, `auth`, `host` and the front ends."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from mcphost.serialization import Struct

WRONG_REDIRECT = "That is not the redirect URL of this sign-in."
"""Note shown when the user is asked again because the pasted text is not the redirect URL of the sign-in."""


class EntryCheck:
    """An entry that mcphost checks, such as a passphrase or a redirect URL, and asks for again if it is wrong."""

    def __init__(self) -> None:
        self.on_end: Callable[[], None] = lambda: None
        """Called when the entry has been accepted, or when mcphost stops asking for it."""


_current_check: ContextVar[EntryCheck | None] = ContextVar("entry_check", default=None)
"""The check that a question belongs to; a context variable, because questions are created in other modules."""


def current_entry_check() -> EntryCheck | None:
    """Return the entry check of the enclosing `check_entries` block, or None outside of such a block."""
    return _current_check.get()


@contextmanager
def check_entries() -> Generator[None]:
    """Return a context manager for a block that asks the user again after a wrong entry.

    All questions in the block have the same `EntryCheck`, and count as one question.
    """
    check = EntryCheck()
    token = _current_check.set(check)
    try:
        yield
    finally:
        _current_check.reset(token)
        check.on_end()


class AuthChallenge(Struct, frozen=True):
    """A response with status 401 or 403 that requires authorization.

    `www_authenticate` is the header of the response, and `authorization` is the Authorization header of the rejected
    request.
    """

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str = ""

    def __repr__(self) -> str:
        return f"AuthChallenge({self.status})"


class SignInTerms(Struct, frozen=True, kw_only=True):
    """Details of a sign-in that are displayed together with its URL.

    - `timeout`: the time limit for the sign-in, in seconds from now.
    - `verification_uri_complete`: the URL that includes the device code, or "" if there is none.
    - `poll_interval`: the number of seconds between token requests.
    - `switch_method`: called if the user prefers the other method (device code or browser); None if there is only one.
    - `other_accounts`: accounts that are already signed in, and can be selected instead.
    - `warnings`: displayed before everything else.
    """

    timeout: float
    verification_uri_complete: str = ""
    poll_interval: float = 0
    switch_method: Callable[[], None] | None = None
    other_accounts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SignInProgress(Struct, frozen=True, kw_only=True, tag_field="event", tag="signing_in"):
    """The progress of a sign-in, which the host also emits as an event; times are in seconds.

    `step` is one of these:

    - "resource": requesting the metadata of the server
    - "issuer": requesting the metadata of the authorization server
    - "client": registering the client
    - "person": waiting for the user
    - "code": requesting the token
    - "done": the sign-in succeeded
    - "over": the sign-in has ended, successfully or not

    `text` describes the step; it is "" for "over". `seconds` is the maximum remaining time of the step.

    During the device flow, `polls` is the number of token requests so far, and `interval` is the time until the next
    one. `slowed` means that the interval has been increased, because the server requested that or could not be reached.
    """

    server: str
    step: str
    text: str = ""
    account: str = ""
    seconds: float = 0
    polls: int = 0
    interval: float = 0
    slowed: bool = False
