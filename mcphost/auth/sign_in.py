"""The target of a sign-in, and the interface to the user who signs in."""

from collections.abc import Callable
from typing import Protocol

from mcphost.auth.url_policy import canonical_url
from mcphost.errors import SignInRequired
from mcphost.serialization import Struct

DEFAULT_TIMEOUT = 300.0
"""Seconds that the user has for a sign-in, unless configured otherwise."""


class SignInTarget(Struct, frozen=True, kw_only=True):
    """The server to sign in to, and what the user configured for it."""

    server: str
    url: str
    account: str = ""
    is_account_configured: bool = False
    """Whether the user configured the account; otherwise it is the one last selected for this server."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    port: int = 0
    client_metadata_url: str = ""
    """Where mcphost's client metadata document is published; "" if it is not."""

    timeout: float = DEFAULT_TIMEOUT
    """Seconds that the user has for the sign-in."""

    def __repr__(self) -> str:
        return f"SignInTarget({self.server!r})"

    @property
    def canonical_url(self) -> str:
        """The canonical URI of the server, under which its tokens are stored."""
        return canonical_url(self.url)


class SignInTerms(Struct, frozen=True, kw_only=True):
    """Details of a sign-in that are shown with the URL.

    `timeout` is in seconds from now. `verification_uri_complete` is the URL that includes the code, "" for none, and
    `poll_interval` the seconds between requests for the token. `switch_method` is called when the user prefers the
    other method, device code or browser; None if there is no other. `other_accounts` are accounts that are signed in
    there and could be selected instead. `warnings` are shown before everything else.
    """

    timeout: float
    verification_uri_complete: str = ""
    poll_interval: float = 0
    switch_method: Callable[[], None] | None = None
    other_accounts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SignInProgress(Struct, frozen=True, kw_only=True):
    """The progress of a sign-in, for display; times are in seconds.

    `step` is "resource", "issuer", "client", "person", "code", "done", or "over" however it ended; `text` describes it,
    "" when it is over. `seconds` is how long the step may take at most, from now.

    While the device flow waits, `polls` counts the requests for the token, and `interval` is the time until the next
    one; `slowed` if the server asked for fewer requests or could not be reached.
    """

    server: str
    account: str = ""
    step: str
    text: str = ""
    seconds: float = 0
    polls: int = 0
    interval: float = 0
    slowed: bool = False


ProgressCallback = Callable[[SignInProgress], None]
"""Receives every step; returns immediately and never raises."""


def ignore_progress(progress: SignInProgress) -> None:
    """Ignore the progress."""
    del progress


class SignInInteraction(Protocol):
    """The user who can sign in."""

    async def sign_in(
        self,
        *,
        server: str,
        account: str,
        issuer: str,
        url: str,
        scopes: tuple[str, ...],
        code: str,
        note: str,
        terms: SignInTerms,
    ) -> str | None:
        """Show the URL; return None if the user declined, "" if the browser will respond.

        With a *code*, the user enters it at the URL on any device. Any other return value is the redirect URL that the
        user pasted. *note* says what was wrong with the previous one. Cancelled when the browser responds first.
        """
        ...

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """Ask for the client id and secret (or "") issued for *redirect_uri*; None if there is none.

        *note* is the reason for the question. May be cancelled.
        """
        ...


class SignInFailed(SignInRequired):
    """The user or the authorization server declined, or the time was up."""
