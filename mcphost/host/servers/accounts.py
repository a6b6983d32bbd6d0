"""The accounts of servers for whoever shows them: how long a sign-in lasts, in words, and signing in and out."""

import shlex
from collections.abc import Callable, Sequence
from typing import Literal

import anyio

from mcphost.client.session import Account, Kept, SessionOpener
from mcphost.errors import SignInRequired, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.servers.servers import Servers
from mcphost.host.views import ServerView
from mcphost.pluralize import pluralize
from mcphost.sanitize import sanitize

EXPIRY_WARNING_SECONDS = 600.0
"""Seconds before its end from which a sign-in that does not renew itself is said to end soon."""
MAX_NAME = 60
"""Characters of an account's name."""
Validity = Literal["good", "soon", "ended"]
STORAGE_LABELS = {
    "keyring": "in the keyring",
    "file": "in a file that only you can read",
    "encrypted": "in an encrypted file",
    "session": "only until mcphost ends",
    "earned": "nowhere: the next one is obtained without you",
}
_CLIENT_LABELS = {
    "configured": "the client id of your configuration",
    "document": "mcphost's published metadata",
    "registered": "registered by itself",
    "entered": "the client id you entered",
}
_METADATA_LABELS = {
    "oauth": "RFC 8414",
    "oidc": "OpenID Connect Discovery",
    "legacy": "none: default addresses of 2025-03-26",
}


def validity(account: Account, now: float | None = None) -> Validity:
    """Whether it still serves; `now` in seconds since 1970. What renews itself or has no end is good."""
    if account.renews or not account.expires:
        return "good"
    left = account.left(now)
    return "ended" if left <= 0 else "soon" if left < EXPIRY_WARNING_SECONDS else "good"


def describe_validity(account: Account, now: float | None = None) -> str:
    """How long it serves, in words; never a time below nothing."""
    if account.renews:
        return "renewed automatically"
    if not account.expires:
        return "with no known end"
    if validity(account, now) == "ended":
        return "ended: sign in again"
    minutes = account.left(now) / 60
    if minutes < 1:
        return "for less than a minute"
    for size, unit in ((1440, "day"), (60, "hour"), (1, "minute")):
        if minutes >= size * 2 or size == 1:
            number = int(minutes // size)
            return f"for {pluralize(number, f'more {unit}')}"
    raise AssertionError("minutes are the last unit")


def describe_storage(account: Account) -> str:
    """Where it is kept, in words."""
    return STORAGE_LABELS.get(account.place, account.place)


def describe_client(account: Account) -> str:
    """As whom mcphost is known to the authorization server, in words."""
    return _CLIENT_LABELS.get(account.client, account.client)


def describe_discovery(account: Account) -> list[tuple[str, str]]:
    """What was found out for the sign-in, as names and values; nothing for one of an earlier version."""
    found = account.discovered
    if not found.form:
        return []
    said = [f"PKCE {', '.join(found.pkce)}" if found.pkce else "PKCE not told"]
    said.append("answers say who they are from" if found.names_itself else "answers do not say who they are from")
    said.append("codes for another machine" if found.device else "no codes for another machine")
    form = _METADATA_LABELS.get(found.form, found.form)
    metadata = f"{found.issuer_metadata} ({form})" if found.issuer_metadata else form
    pairs = [
        ("server metadata", found.resource_metadata or "none"),
        ("issuer metadata", metadata),
        ("known by", describe_client(account)),
        ("sign-in at", found.authorization),
        ("tokens at", found.token),
        ("registers at", found.registration),
        ("codes at", found.device),
        ("revokes at", found.revocation),
        ("it supports", "; ".join(said)),
    ]
    return [(name, value) for name, value in pairs if value]


def parse_account_name(text: str) -> str:
    """The name of an account as somebody typed it, "" for the one without. Raises UsageError."""
    name = text.strip()
    if len(name) > MAX_NAME or sanitize(name, keep_newlines=False) != name:
        raise UsageError(f"The name of an account has at most {MAX_NAME} visible characters.", "Such as: work")
    return name


def describe_other_accounts(server: str, names: Sequence[str]) -> tuple[str, str]:
    """Who else is signed in to it after the account in use was signed out, and how to use one of them."""
    command = shlex.join(("mcphost", "accounts", "use", server, names[0]))
    return (
        f"Still signed in to {server}: {', '.join(names)}; not used unless you choose it.",
        f"In the chat: /accounts, and enter on it. Or: {command}",
    )


class Accounts:
    """What a user does with accounts: sees them, chooses one for a server, signs in and out."""

    def __init__(
        self, servers: Servers, opener: SessionOpener, audit: AuditLog, notify: Callable[[str, str], None]
    ) -> None:
        """`tell` hears a sentence about what changed, and another one about what that means."""
        self._servers = servers
        self._opener = opener
        self._audit = audit
        self._notify = notify
        self._sign_in_scopes: dict[str, anyio.CancelScope] = {}

    async def list_accounts(self) -> tuple[Kept, ...]:
        """Every sign-in that is kept, by server and name; those of servers that are not configured come last."""
        found = await self._opener.list_accounts(tuple(connection.config for connection in self._servers))
        order = {connection.config.name: number for number, connection in enumerate(self._servers)}
        return tuple(
            sorted(
                found,
                key=lambda one: (order.get(_server_name(one), len(order)), _server_name(one), one.account.account),
            )
        )

    async def sign_in(self, server: str, account: str | None = None) -> ServerView:
        """Have the user sign in anew, then connect again; with `account` under that name, which is used from then on.

        Until the user is done the connection goes on as it is. Raises ServerError, Declined, ConfigError, UsageError.
        """
        connection = self._servers.find(server)
        before = connection.account
        name = None if account is None else parse_account_name(account)
        with anyio.CancelScope() as scope:
            self._sign_in_scopes[server] = scope
            try:
                await connection.sign_in(name)
            finally:
                self._sign_in_scopes.pop(server, None)
        if scope.cancelled_caught:
            raise SignInRequired(f"You stopped signing in to {server!r}; nothing was changed.", server=server)
        self._servers.start(server)
        await connection.session()
        self._notify_change(server, before, connection.account)
        return connection.view()

    def cancel_sign_in(self, server: str) -> bool:
        """End the sign-in to that server that goes on; whether there was one. Raises UsageError."""
        scope = self._sign_in_scopes.get(server)
        if scope is None:
            return self._servers.find(server).cancel_sign_in()
        scope.cancel()
        return True

    async def select_account(self, server: str, account: str) -> ServerView:
        """Use that server with another of its accounts, also in later runs, and connect again.

        Raises UsageError when there is none of that name, or `mcp.json` says which one it is; ServerError, Declined.
        """
        connection = self._servers.start(server)
        name, before = parse_account_name(account), connection.account
        effect = await self._audit.start_span(AuditSubject(kind="account", server=server, name=name), who="person")
        chosen = False
        try:
            await connection.use_account(name)
            chosen = True
        finally:
            effect.end("chosen" if chosen else "not chosen")
        await connection.session()
        self._notify_change(server, before, connection.account)
        return connection.view()

    async def sign_out(self, server: str, account: str | None = None) -> bool:
        """Erase a sign-in here and at the server; whether the server revoked it. Without a name, the one in use.

        The connection that used it is closed. The server may be one that is not configured any more. Raises UsageError
        when nobody is signed in, McpHostError when it cannot be erased: then it is still there.
        """
        kept = [one for one in await self.list_accounts() if server in one.servers or one.account.server == server]
        if account is None:
            kept = [one for one in kept if server in one.used_by] or (kept if len(kept) == 1 else [])
        else:
            kept = [one for one in kept if one.is_called(parse_account_name(account))]
        if not kept:
            whom = "" if account is None else f" as {account!r}"
            raise UsageError(f"You are not signed in to {server!r}{whom}.")
        return await self.sign_out_account(kept[0])

    async def sign_out_account(self, stored_account: Kept) -> bool:
        """As `sign_out`, of one of `all`."""
        act = AuditSubject(kind="account", server=_server_name(stored_account), name=stored_account.account.name)
        effect = await self._audit.start_span(act, who="person")
        outcome = "not signed out"
        try:
            revoked = await self._erase(stored_account)
            outcome = "revoked" if revoked else "erased here"
        finally:
            effect.end(outcome)
        for server in self._replaceable_servers(stored_account):
            if names := await self.unused_accounts(server):
                self._notify(*describe_other_accounts(server, names))
        return revoked

    async def unused_accounts(self, server: str) -> tuple[str, ...]:
        """The accounts of a configured server one of which could be used, while none of them is."""
        there = [one for one in await self.list_accounts() if server in one.servers]
        return () if any(server in one.used_by for one in there) else tuple(one.account.name for one in there)

    def _replaceable_servers(self, stored_account: Kept) -> list[str]:
        """The servers that used it and may use another one."""
        return [name for name in stored_account.used_by if name not in stored_account.fixed_by]

    async def _erase(self, stored_account: Kept) -> bool:
        connections = [one for name in stored_account.used_by if await (one := self._servers.find(name)).is_approved()]
        if connections:
            rest = [
                one.account.name
                for one in await self.list_accounts()
                if one.account.url == stored_account.account.url
                and one.account.account != stored_account.account.account
            ]
            said = {
                name: " ".join(describe_other_accounts(name, rest))
                for name in self._replaceable_servers(stored_account)
                if rest
            }
            return any([await one.sign_out(said.get(one.config.name, "")) for one in connections])
        # Certificates and addresses of an entry that nobody approved are not believed.
        known = [one for name in stored_account.servers if await (one := self._servers.find(name)).is_approved()]
        return await self._opener.sign_out_account(stored_account.account, known[0].config if known else None)

    def _notify_change(self, server: str, before: str, after: str) -> None:
        if after and before and before != after:
            self._notify(
                f"{server} is used with the account {after} from now on, not with {before} any more.",
                f"What was allowed for {before} is asked about again.",
            )


def _server_name(stored_account: Kept) -> str:
    return stored_account.servers[0] if stored_account.servers else stored_account.account.server
