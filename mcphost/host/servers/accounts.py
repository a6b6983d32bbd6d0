"""Accounts on MCP servers: listing, selection, sign-in, sign-out and descriptions for the user.

An account consists of the OAuth tokens stored under one account name for one server.
"""

from collections.abc import Callable, Sequence
from shlex import join, quote
from typing import TYPE_CHECKING, Literal

import anyio

from mcphost.client.session import AccountManager
from mcphost.errors import SignInRequired, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.server_views import ServerView
from mcphost.host.servers.servers import Servers
from mcphost.sanitize import sanitize
from mcphost.translation import N_

if TYPE_CHECKING:
    from mcphost.client.session import Account, StoredAccount

EXPIRY_WARNING_SECONDS = 600.0
"""Remaining seconds below which a sign-in that is not renewed automatically is classified as "soon"."""
MAX_NAME = 60
"""Maximum characters of an account name."""
Validity = Literal["good", "soon", "ended"]
STORAGE_LABELS = {
    "keyring": N_("in the keyring"),
    "file": N_("in a file that only you can read"),
    "encrypted": N_("in an encrypted file"),
    "session": N_("only until mcphost quits"),
    "earned": N_("not stored: obtained again automatically"),
}
_CLIENT_LABELS = {
    "configured": N_("the client ID of your configuration"),
    "document": N_("mcphost's published metadata"),
    "registered": N_("registered automatically"),
    "entered": N_("the client ID you entered"),
}
_METADATA_LABELS = {
    "oauth": "RFC 8414",
    "oidc": "OpenID Connect Discovery",
    "legacy": N_("none: default addresses of 2025-03-26"),
}


_MAX_PLAUSIBLE_MINUTES = 3 * 366 * 1440
"""Longest remaining time in minutes that is shown; if more time remains, the clock was probably set back."""


def validity(account: "Account", now: float | None = None) -> Validity:
    """Classify an account's tokens as "good", "soon" (expire within 10 minutes) or "ended" (expired).

    *now* is in seconds since 1970; the default is the current time. Tokens that are renewed automatically or have
    no known expiry are "good".
    """
    if account.is_renewable or not account.expires:
        return "good"
    left = account.seconds_left(now)
    return "ended" if left <= 0 else "soon" if left < EXPIRY_WARNING_SECONDS else "good"


def describe_validity(account: "Account", now: float | None = None, translate: Callable[[str], str] = str) -> str:
    """Return a phrase that describes how long an account's tokens remain valid, such as "for 3 more hours".

    *now* is in seconds since 1970; the default is the current time. *translate* translates English text for the
    user.
    """
    if account.is_renewable:
        return translate(N_("renewed automatically"))
    if not account.expires:
        return translate(N_("with no known expiry"))
    if validity(account, now) == "ended":
        return translate(N_("expired: sign in again"))
    if account.has_future_issue(now):
        return translate(N_("for an unknown time, because this machine's clock was set back"))
    minutes = int(account.seconds_left(now) // 60)
    if minutes > _MAX_PLAUSIBLE_MINUTES and not account.monotonic_expiry:
        return translate(N_("for over three years, if this machine's clock is right"))
    if minutes < 2:
        return translate(N_("for 1 more minute") if minutes else N_("for less than a minute"))
    phrase, size = (
        (N_("for {number:,} more days"), 1440)
        if minutes >= 2880
        else (N_("for {number:,} more hours"), 60)
        if minutes >= 120
        else (N_("for {number:,} more minutes"), 1)
    )
    return translate(phrase).format(number=minutes // size)


def describe_storage(account: "Account", translate: Callable[[str], str] = str) -> str:
    """Return a phrase that names where an account's tokens are stored, such as "in the keyring".

    *translate* translates English text for the user.
    """
    return translate(STORAGE_LABELS.get(account.place, account.place))


def describe_client(account: "Account", translate: Callable[[str], str] = str) -> str:
    """Return a phrase that describes how the OAuth client ID was obtained, such as "registered automatically".

    *translate* translates English text for the user.
    """
    return translate(_CLIENT_LABELS.get(account.client_kind, account.client_kind))


def describe_discovery(account: "Account", translate: Callable[[str], str] = str) -> list[tuple[str, str]]:
    """Return the OAuth metadata discovered at sign-in as (label, value) pairs.

    The list is empty for an account stored by an early version of mcphost, which did not save the metadata.
    *translate* is called only with mcphost's own texts, never with values received from a server.
    """
    metadata = account.discovery
    if not metadata.metadata_kind:
        return []
    features = [
        f"PKCE {', '.join(metadata.pkce_methods)}" if metadata.pkce_methods else translate(N_("PKCE not declared")),
        translate(N_("issuer in responses (RFC 9207)") if metadata.sends_issuer else N_("no issuer in responses")),
        translate(N_("device codes (RFC 8628)") if metadata.device_endpoint else N_("no device codes")),
    ]
    kind = translate(_METADATA_LABELS.get(metadata.metadata_kind, metadata.metadata_kind))
    issuer = f"{metadata.issuer_metadata} ({kind})" if metadata.issuer_metadata else kind
    pairs = [
        (N_("server metadata"), metadata.resource_metadata or translate(N_("none"))),
        (N_("issuer metadata"), issuer),
        (N_("known by"), describe_client(account, translate)),
        (N_("sign-in at"), metadata.authorization_endpoint),
        (N_("tokens at"), metadata.token_endpoint),
        (N_("registers at"), metadata.registration_endpoint),
        (N_("codes at"), metadata.device_endpoint),
        (N_("revokes at"), metadata.revocation_endpoint),
        (N_("it supports"), "; ".join(features)),
    ]
    return [(translate(name), value) for name, value in pairs if value]


def parse_account_name(text: str) -> str:
    """Return *text* as an account name, without surrounding whitespace; "" means the default account.

    Raises UsageError if the name has more than 60 characters or contains invisible characters.
    """
    name = text.strip()
    if len(name) > MAX_NAME or sanitize(name, keep_newlines=False) != name:
        raise UsageError(f"An account name has at most {MAX_NAME} visible characters.", "Example: work")
    return name


def describe_other_accounts(server: str, names: Sequence[str]) -> tuple[str, str]:
    """Return a message and a hint to show after a sign-out from *server*, for which other accounts are stored.

    The message lists the *names* of these accounts; the hint contains a command that selects the first one.
    """
    command = join(("mcphost", "accounts", "use", server, names[0]))
    return (
        f"Still signed in to {server}: {', '.join(names)}. Choose an account to use it.",
        f"Press Enter on it in /accounts, or run: {command}",
    )


def no_sign_in_error(server: str) -> UsageError:
    """Return the error for an attempt to sign in to a local server, which needs no sign-in."""
    return UsageError(
        f"{server!r} is a program on this machine; there is nothing to sign in to.",
        f"Its secrets are set in its entry: mcphost servers edit {quote(server)}",
    )


class Accounts:
    """Account operations for user interfaces: list, select, sign in and sign out."""

    def __init__(
        self, servers: Servers, account_manager: AccountManager, audit: AuditLog, notify: Callable[[str, str], None]
    ) -> None:
        """Create the account operations; *notify* is called with a message and a hint to show to the user."""
        self._servers = servers
        self._account_manager = account_manager
        self._audit = audit
        self._notify = notify
        self._sign_in_scopes: dict[str, anyio.CancelScope] = {}

    async def list_accounts(self) -> "tuple[StoredAccount, ...]":
        """Return all stored accounts, sorted by server (in configuration order) and account name.

        Accounts on servers that are no longer configured come last.
        """
        accounts = await self._account_manager.list_accounts(tuple(connection.config for connection in self._servers))
        order = {connection.config.name: number for number, connection in enumerate(self._servers)}
        return tuple(
            sorted(
                accounts,
                key=lambda account: (
                    order.get(_server_name(account), len(order)),
                    _server_name(account),
                    account.account.account,
                ),
            )
        )

    async def own_accounts(self, server: str) -> "tuple[StoredAccount, ...]":
        """Return the stored accounts that only this server, and no other configured server, can use."""
        return tuple(one for one in await self.list_accounts() if one.servers == (server,))

    async def sign_in(self, server: str, account: str | None = None) -> ServerView:
        """Sign in again and reconnect; return a snapshot of the reconnected server.

        If *account* is given, the new tokens are stored under this name, which becomes the selected account. The
        existing connection stays open until the user has signed in. Raises SignInRequired if the user cancels. Other
        failures raise ServerError, ConsentDenied, ConfigError or UsageError.
        """
        connection = self._servers.find(server)
        if connection.config.is_stdio:
            raise no_sign_in_error(server)
        before = connection.account
        name = None if account is None else parse_account_name(account)
        with anyio.CancelScope() as scope:
            self._sign_in_scopes[server] = scope
            try:
                await connection.sign_in(name)
            finally:
                self._sign_in_scopes.pop(server, None)
        if scope.cancelled_caught:
            raise SignInRequired(f"You cancelled the sign-in to {server!r}; nothing was changed.", server=server)
        self._servers.start(server)
        await connection.session()
        self._notify_change(server, before, connection.account)
        return connection.view()

    def cancel_sign_in(self, server: str) -> bool:
        """Cancel the sign-in to this server that is in progress; return False if there is none.

        Raises UsageError for an unknown server.
        """
        scope = self._sign_in_scopes.get(server)
        if scope is None:
            return self._servers.find(server).cancel_sign_in()
        scope.cancel()
        return True

    async def select_account(self, server: str, account: str, *, who: str = "person") -> ServerView:
        """Select another stored account of this server, for this and later runs, and reconnect.

        *who* is the source that the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError if there is
        no account with this name or if `mcp.json` sets the account. Raises ServerError or ConsentDenied if the server
        cannot be reached with the new account.
        """
        if self._servers.find(server).config.is_stdio:
            raise no_sign_in_error(server)
        connection = self._servers.start(server)
        name, before = parse_account_name(account), connection.account
        span = await self._audit.start_span(AuditSubject(kind="account", server=server, name=name), who=who)
        is_chosen = False
        try:
            await connection.use_account(name)
            is_chosen = True
        finally:
            span.end("chosen" if is_chosen else "not chosen")
        await connection.session()
        self._notify_change(server, before, connection.account)
        return connection.view()

    async def sign_out(self, server: str, account: str | None = None, *, who: str = "person") -> bool:
        """Delete an account's tokens and revoke them at the authorization server.

        Returns whether the tokens were revoked. If *account* is None, the selected account is signed out. Connections
        that use the account are closed. *server* may be a server that is no longer configured. *who* is the source that
        the audit log records (see `audit_labels.SOURCE_LABELS`). Raises UsageError if there is no such account, and
        McpHostError if the tokens could not be deleted and are still stored.
        """
        matches = [
            item for item in await self.list_accounts() if server in item.servers or item.account.server == server
        ]
        if account is None:
            matches = [item for item in matches if server in item.used_by] or (matches if len(matches) == 1 else [])
        else:
            matches = [item for item in matches if item.has_name(parse_account_name(account))]
        if not matches:
            suffix = "" if account is None else f" as {account!r}"
            raise UsageError(f"You are not signed in to {server!r}{suffix}.")
        return await self.sign_out_account(matches[0], who=who)

    async def sign_out_account(self, stored_account: "StoredAccount", *, who: str = "person") -> bool:
        """Sign out of one of the accounts that `list_accounts` returned; see `sign_out`."""
        subject = AuditSubject(kind="account", server=_server_name(stored_account), name=stored_account.account.name)
        span = await self._audit.start_span(subject, who=who)
        outcome = "not signed out"
        try:
            revoked = await self._erase(stored_account)
            outcome = "revoked" if revoked else "erased here"
        finally:
            span.end(outcome)
        for server in self._replaceable_servers(stored_account):
            if names := await self.unused_accounts(server):
                self._notify(*describe_other_accounts(server, names))
        return revoked

    async def unused_accounts(self, server: str) -> tuple[str, ...]:
        """Return the names of all accounts stored for the server, or () if the server uses one of them."""
        accounts = [account for account in await self.list_accounts() if server in account.servers]
        return (
            ()
            if any(server in account.used_by for account in accounts)
            else tuple(account.account.name for account in accounts)
        )

    def _replaceable_servers(self, stored_account: "StoredAccount") -> list[str]:
        """Return the names of the servers that use this account and can switch to another one.

        A server whose configuration sets the account cannot switch, and is not included.
        """
        return [name for name in stored_account.used_by if name not in stored_account.configured_by]

    async def _erase(self, stored_account: "StoredAccount") -> bool:
        connections = [
            connection
            for name in stored_account.used_by
            if await (connection := self._servers.find(name)).is_approved()
        ]
        if connections:
            remaining = [
                other.account.name
                for other in await self.list_accounts()
                if other.account.url == stored_account.account.url
                and other.account.account != stored_account.account.account
            ]
            hints = {
                name: " ".join(describe_other_accounts(name, remaining))
                for name in self._replaceable_servers(stored_account)
                if remaining
            }
            return any([await item.sign_out(hints.get(item.config.name, "")) for item in connections])
        # Certificates and addresses of an unapproved entry are not trusted.
        approved = [
            connection
            for name in stored_account.servers
            if await (connection := self._servers.find(name)).is_approved()
        ]
        return await self._account_manager.sign_out_account(
            stored_account.account, approved[0].config if approved else None
        )

    def _notify_change(self, server: str, before: str, after: str) -> None:
        if after and before and before != after:
            self._notify(
                f"{server} now uses the account {after} instead of {before}.",
                f"Permissions granted for {before} do not apply; you are asked again.",
            )


def _server_name(stored_account: "StoredAccount") -> str:
    return stored_account.servers[0] if stored_account.servers else stored_account.account.server
