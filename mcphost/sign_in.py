"""Values of a sign-in that transport, auth, host and front ends share."""

from collections.abc import Callable

from mcphost.serialization import Struct


class AuthChallenge(Struct, frozen=True):
    """A 401 or 403 response, and the Authorization header of the request that it refuses."""

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str = ""

    def __repr__(self) -> str:
        return f"AuthChallenge({self.status})"


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


class SignInProgress(Struct, frozen=True, kw_only=True, tag_field="event", tag="signing_in"):
    """The progress of a sign-in, which is also an event of the host; times are in seconds.

    `step` is "resource", "issuer", "client", "person", "code", "done", or "over" however it ended; `text` describes it,
    "" when it is over. `seconds` is how long the step may take at most, from now.

    While the device flow waits, `polls` counts the requests for the token, and `interval` is the time until the next
    one; `slowed` if the server asked for fewer requests or could not be reached.
    """

    server: str
    step: str
    text: str = ""
    account: str = ""
    seconds: float = 0
    polls: int = 0
    interval: float = 0
    slowed: bool = False
