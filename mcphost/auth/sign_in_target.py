"""What there is to sign in to, and what the user configured for it."""

from mcphost.auth.url_policy import canonical_url
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
