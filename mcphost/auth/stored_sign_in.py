"""One sign-in with its secrets, as the vault has it, and the name that it has there."""

import hashlib

from mcphost.auth.account import FETCHED_ON_DEMAND, Account, DiscoverySummary
from mcphost.auth.client_registration import OAuthClient
from mcphost.auth.tokens import TokenSet
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct


class StoredSignIn(Struct, frozen=True, kw_only=True):
    """One sign-in with its secrets, as the vault has it; its repr shows none."""

    server: str
    url: str
    issuer: str
    resource: str
    token_endpoint: str
    tokens: TokenSet
    client: OAuthClient
    account: str = ""
    revocation_endpoint: str = ""
    asked: tuple[str, ...] = ()
    key: str = ""
    """The private key that the tokens are bound to (DPoP), as a JWK; "" for none."""
    discovered: DiscoverySummary = DiscoverySummary()

    def __repr__(self) -> str:
        return f"StoredSignIn({self.server!r}, {self.issuer!r})"

    @property
    def entry_name(self) -> str:
        """The name that it is kept under."""
        return make_entry_name("tokens", self.url, self.issuer, self.account)

    @property
    def identity(self) -> tuple[str, str]:
        """Which sign-in it is: address and account."""
        return self.url, self.account

    def to_account(self, place: str) -> Account:
        """Without the secrets; `place` is where it is kept."""
        tokens = self.tokens
        return Account(
            server=self.server,
            url=self.url,
            issuer=self.issuer,
            account=self.account,
            scopes=tokens.scopes or self.asked,
            expires=tokens.expires,
            ends=tokens.monotonic_expiry,
            renews=bool(tokens.refresh) or place == FETCHED_ON_DEMAND,
            client=self.client.kind,
            kept=place != "session",
            place=place,
            discovered=self.discovered,
        )

    def register_secrets(self) -> None:
        """From now on its secrets are removed from whatever is logged or shown."""
        register_server_secret(self.tokens.access)
        register_server_secret(self.tokens.refresh)
        self.client.register_secrets()


def make_entry_name(kind: str, *parts: str) -> str:
    """The name of an entry in a vault; what it is about cannot be read from it."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
    return f"sign-in-{kind}-{digest}"
