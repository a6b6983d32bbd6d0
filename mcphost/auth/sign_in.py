"""What there is to sign in to, and what the user configured for it."""

from collections.abc import Callable
from typing import Protocol

from mcphost.auth.url_policy import canonical_url
from mcphost.errors import SignInRequired
from mcphost.serialization import Struct

DEFAULT_TIMEOUT = 300.0
"""How long a person may take, unless the user configured something else."""


class SignInTarget(Struct, frozen=True, kw_only=True):
    """What to sign in to, and what the user configured for it."""

    server: str
    url: str
    account: str = ""
    is_account_configured: bool = False
    """Whether the user said which account; else it is the one that was chosen for this server last."""

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    port: int = 0
    client_metadata_url: str = ""
    """Where our client metadata document is published; "" for nowhere."""

    timeout: float = DEFAULT_TIMEOUT
    """How long a person may take."""

    def __repr__(self) -> str:
        return f"SignInTarget({self.server!r})"

    @property
    def canonical_url(self) -> str:
        """The canonical URI of the server, under which its tokens are kept."""
        return canonical_url(self.url)


class SignInTerms(Struct, frozen=True, kw_only=True):
    """What goes with the address that a person is shown.

    `seconds` is how long the answer is waited for, from now; `whole` the address with the code in it, "" for none;
    `interval` how often, in seconds, the authorization server is asked whether the code was entered. `switch` is called
    when the person wants the other way, a code or a browser; None where there is no other. `others` are the accounts
    that are signed in there already and could be chosen instead. `warnings` are sentences to show before all else.
    """

    timeout: float
    verification_uri_complete: str = ""
    poll_interval: float = 0
    switch_method: Callable[[], None] | None = None
    other_accounts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SignInProgress(Struct, frozen=True, kw_only=True):
    """Where a sign-in is now, for people to see; times in seconds.

    `step` is "resource", "issuer", "client", "person", "code" or "done", and "over" whichever way it ended; `text` says
    the same in words, "" when it is over. `seconds` is how long the answer is waited for at most, from now.

    While a code is waited for: the authorization server was asked so many times (`polls`), just now if there was one,
    and is asked again after `interval`; `slowed` when it wanted to be asked less often, or could not be reached.
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
"""Hears of every step; returns at once and never raises."""


def ignore_progress(progress: SignInProgress) -> None:
    """Nobody listens."""
    del progress


class SignInInteraction(Protocol):
    """Whoever can sign in."""

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
        """Show the address, and where it leads. None: refused. "": the browser has it, wait for its answer.

        With a `code` the user enters that at the address, anywhere, and there is nothing to paste. Anything else is
        the redirect address the user pasted. `note` says what was wrong with the last one. Cancelled when the browser's
        answer comes first.
        """
        ...

    async def ask_client_id(
        self, *, server: str, account: str, issuer: str, redirect_uri: str, note: str
    ) -> tuple[str, str] | None:
        """The client id, and its secret or "", that the user got at `issuer` for `redirect_uri`; None: there is none.

        `note` says why it is asked. It may be cancelled.
        """
        ...


class SignInFailed(SignInRequired):
    """The person, or the authorization server, said no; or nobody did anything in time."""
