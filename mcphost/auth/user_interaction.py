"""Settings of the user for a sign-in, and the interface for asking the user to sign in."""

from collections.abc import Callable
from typing import Protocol

from mcphost.auth.url_policy import canonical_url
from mcphost.errors import SignInRequired
from mcphost.serialization import Struct
from mcphost.sign_in import SignInProgress, SignInTerms

DEFAULT_TIMEOUT = 300.0
"""Default time limit for a sign-in, in seconds."""


class SignInTarget(Struct, frozen=True, kw_only=True):
    """The server to sign in to, and the user's settings for it."""

    server: str
    url: str
    account: str = ""
    is_account_configured: bool = False
    """Whether the configuration names the account; otherwise, it is the one last selected for this server."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    port: int = 0
    client_metadata_url: str = ""
    """URL of mcphost's client metadata document, or "" if it is not published."""

    timeout: float = DEFAULT_TIMEOUT
    """Time limit for the sign-in, in seconds."""

    def __repr__(self) -> str:
        return f"SignInTarget({self.server!r})"

    @property
    def canonical_url(self) -> str:
        """The canonical URI of the server, under which its tokens are stored."""
        return canonical_url(self.url)


ProgressCallback = Callable[[SignInProgress], None]
"""Called for every step of a sign-in; must return immediately and must not raise."""


def ignore_progress(progress: SignInProgress) -> None:
    """Do nothing; the default ProgressCallback."""
    del progress


class SignInInteraction(Protocol):
    """Interface for asking the user to sign in."""

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
        """Show the sign-in URL and wait for the user.

        Return None if the user declines, "" if the browser will deliver the response, or the redirect URL that the user
        pasted. If there is a *code*, the user enters it at the URL on any device. *note* says what was wrong with the
        previous answer. The call is cancelled if the browser delivers the response first.
        """
        ...

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """Ask for the id and secret of an OAuth client registered for *redirect_uri*; return None if refused.

        The secret is "" if the client has none. *note* says why the user is asked. Can be cancelled.
        """
        ...


class SignInFailed(SignInRequired):
    """Raised if the user or the authorization server refuses the sign-in, or time runs out."""
