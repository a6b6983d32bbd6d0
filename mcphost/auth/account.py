"""One sign-in as people may see it: which server, whose, what it permits, for how long. No secret is in it."""

import math
import time

from mcphost.auth.token_expiry import suspend_aware_time
from mcphost.serialization import Struct

FETCHED_ON_DEMAND = "earned"
"""The place of a token that is got without a person whenever it is wanted, and so kept nowhere."""
DEFAULT_ACCOUNT_NAME = "default"
"""What the account is called that nobody gave a name."""


class DiscoverySummary(Struct, frozen=True, kw_only=True):
    """What was found out for one sign-in, as it was found then; all of it the servers' own claims, for people to see.

    `resource_metadata` and `issuer_metadata` are where the documents are, "" for none. No address here is used again.
    """

    resource_metadata: str = ""
    issuer_metadata: str = ""
    form: str = ""
    """What the issuer has: "oauth" (RFC 8414), "oidc" (OpenID Connect), "legacy" (none: the defaults of 2025-03-26)."""
    authorization: str = ""
    token: str = ""
    registration: str = ""
    device: str = ""
    revocation: str = ""
    pkce: tuple[str, ...] = ()
    names_itself: bool = False
    """Whether its answers say who they are from (RFC 9207)."""


class Account(Struct, frozen=True, kw_only=True):
    """One sign-in; `account` is the name the user gave it, "" for none; `expires` in seconds since 1970, 0: unknown."""

    server: str
    url: str
    issuer: str
    account: str = ""
    scopes: tuple[str, ...] = ()
    expires: float = 0
    ends: float = 0
    """When it expires, by the clock of `auth.token_expiry` in this process; 0 before its first use here."""
    renews: bool = False
    client: str = ""
    kept: bool = True
    """False: only until mcphost ends, because nothing took it."""
    place: str = "keyring"
    """Where it is kept: "keyring", "file", "encrypted"; "session" for only until mcphost ends; or EARNED."""
    discovered: DiscoverySummary = DiscoverySummary()
    """Empty for a sign-in of an earlier version."""

    @property
    def identity(self) -> tuple[str, str]:
        """Which sign-in it is: address and account."""
        return self.url, self.account

    def seconds_left(self, now: float | None = None) -> float:
        """For how many seconds it still serves, as that is judged when it is used; infinite without a known end.

        For one that was not used in this process that is by the clock on the wall, `now` in seconds since 1970.
        """
        if not self.expires:
            return math.inf
        if self.ends:
            return self.ends - suspend_aware_time()
        return self.expires - (time.time() if now is None else now)

    @property
    def name(self) -> str:
        """What it is called; never empty."""
        return self.account or DEFAULT_ACCOUNT_NAME

    def has_name(self, name: str) -> bool:
        """Whether that is its name, as a user writes it."""
        return self.account == account_key(name)


class StoredAccount(Struct, frozen=True, kw_only=True):
    """A sign-in that is kept, and for which of the configured servers."""

    account: Account
    servers: tuple[str, ...] = ()
    """The configured servers that could use it; none when its server is not configured any more."""
    used_by: tuple[str, ...] = ()
    """Those that do, or would when they connect."""
    configured_by: tuple[str, ...] = ()
    """Those of the former for which `mcp.json` names it, so that no other can be chosen."""

    def has_name(self, name: str) -> bool:
        """Whether that is its name, as a user writes it."""
        return self.account.has_name(name)


def account_key(name: str) -> str:
    """The name as it is stored: the account without a name is "", however the user wrote that."""
    return "" if name == DEFAULT_ACCOUNT_NAME else name
