"""One sign-in with its secrets, as the vault has it, and the name that it has there."""

import hashlib

from mcphost.auth.account import EARNED, Account, Discovered
from mcphost.auth.client_registration import Client
from mcphost.auth.tokens import Tokens
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct


class SignedIn(Struct, frozen=True, kw_only=True):
    """One sign-in with its secrets, as the vault has it; its repr shows none."""

    server: str
    url: str
    issuer: str
    resource: str
    token_endpoint: str
    tokens: Tokens
    client: Client
    account: str = ""
    revocation_endpoint: str = ""
    asked: tuple[str, ...] = ()
    key: str = ""
    """The private key that the tokens are bound to (DPoP), as a JWK; "" for none."""
    discovered: Discovered = Discovered()

    def __repr__(self) -> str:
        return f"SignedIn({self.server!r}, {self.issuer!r})"

    @property
    def entry(self) -> str:
        """The name that it is kept under."""
        return entry_name("tokens", self.url, self.issuer, self.account)

    @property
    def whose(self) -> tuple[str, str]:
        """Which sign-in it is: address and account."""
        return self.url, self.account

    def shown(self, place: str) -> Account:
        """Without the secrets; `place` is where it is kept."""
        tokens = self.tokens
        return Account(
            server=self.server,
            url=self.url,
            issuer=self.issuer,
            account=self.account,
            scopes=tokens.scopes or self.asked,
            expires=tokens.expires,
            ends=tokens.ends,
            renews=bool(tokens.refresh) or place == EARNED,
            client=self.client.kind,
            kept=place != "session",
            place=place,
            discovered=self.discovered,
        )

    def conceal(self) -> None:
        """From now on its secrets are removed from whatever is logged or shown."""
        register_server_secret(self.tokens.access)
        register_server_secret(self.tokens.refresh)
        self.client.conceal()


def entry_name(kind: str, *parts: str) -> str:
    """The name of an entry in a vault; what it is about cannot be read from it."""
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
    return f"sign-in-{kind}-{digest}"
