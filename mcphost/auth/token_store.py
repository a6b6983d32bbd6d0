"""Keeps sign-ins: tokens and registrations in the vault by server, issuer and account; an index without secrets.

What is kept is in memory first, so that a vault that fails costs the next start a sign-in and never this one. Several
processes share the vault: whoever changes something holds a file lock and reads again under it.
"""

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio

from mcphost.auth.accounts import FETCHED_ON_DEMAND, Account, AccountIndex, DiscoverySummary
from mcphost.auth.file_backend import SecretsLocked
from mcphost.auth.file_lock import lock_file
from mcphost.auth.keyring_backend import SecretBackend
from mcphost.auth.registration import OAuthClient
from mcphost.auth.secret_store import SecretStorage
from mcphost.auth.tokens import TokenSet
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct, decode, encode, replace


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


T = TypeVar("T")


class TokenStore:
    """See the module. `folder` holds index and locks; None keeps everything in this process. `warn` hears sentences.

    `places` says where secrets go; a vault alone is the only place there is.
    """

    def __init__(
        self,
        storage: SecretStorage | SecretBackend,
        directory: Path | None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.storage = storage if isinstance(storage, SecretStorage) else SecretStorage(storage, None)
        self._directory = directory
        self._reported: set[str] = set()
        self._index = None if directory is None else AccountIndex(directory, self._report)
        self._chosen_accounts: dict[str, str] = {}
        self._sign_ins: dict[str, StoredSignIn] = {}
        self._unsaved: set[str] = set()
        self._place_by_entry: dict[str, str] = {}
        self._clients: dict[str, OAuthClient] = {}
        self._failure_reason = ""
        self._is_storage_needed = anyio.Event()
        self._settle_lock = anyio.Lock()
        self.storage_listeners: list[Callable[[], None]] = []
        """Who hears that sign-ins are in another place now; must not raise."""
        self.warn = warn

    @property
    def warn(self) -> Callable[[str], None]:
        """Who hears what the user should know about keeping secrets."""
        return self.storage.warn

    @warn.setter
    def warn(self, value: Callable[[str], None]) -> None:
        self.storage.warn = value

    # -- sign-ins
    async def load(
        self, url: str, account: str = "", *, reload: bool = False, is_strict: bool = False
    ) -> StoredSignIn | None:
        """The sign-in for that server and account, or None; `again` reads the vault even if it is in memory.

        With `strictly` McpHostError is raised when there is one that cannot be read; else that is told, once, and the
        one in memory serves. With `again` it is raised, too, when another process has stored a newer one than that:
        whoever renewed by what is in memory would lose the whole family (RFC 9700 section 4.14.2).
        """
        for entry in await self.accounts():
            if entry.url == url and entry.account == account:
                name = make_entry_name("tokens", url, entry.issuer, account)
                if name in self._sign_ins and (not reload or name in self._unsaved):
                    return self._sign_ins[name]
                try:
                    found = await self._read(entry.place, name, StoredSignIn)
                except McpHostError as error:
                    known = self._sign_ins.get(name)
                    if is_strict or (reload and known is not None and await self._is_outdated(known)):
                        raise
                    if not isinstance(error, SecretsLocked):
                        self._report(f"Earlier sign-ins cannot be used. {error.message} {error.hint}")
                    return known
                # The vault is not ours alone: what lies there must be what we put there.
                if found is not None and (found.url, found.issuer, found.account) == (url, entry.issuer, account):
                    found.register_secrets()
                    self._sign_ins[name] = found
                    self._place_by_entry[name] = entry.place
                    return found
        return None

    async def save(self, sign_in: StoredSignIn) -> None:
        """Keep it, replacing what was there for that server and account. Never raises, and cannot be cancelled.

        It is in memory and in use before any place is tried; one that no place took is kept for this run.
        """
        with anyio.CancelScope(shield=True):
            name = sign_in.entry_name
            self._sign_ins[name] = sign_in
            sign_in.register_secrets()
            place = self.storage.place
            kept = await self._write(place, name, sign_in)
            (self._unsaved.discard if kept else self._unsaved.add)(name)
            self._place_by_entry[name] = place if kept else "session"
            key = (sign_in.url, sign_in.account)
            for stale in [other for other, one in self._sign_ins.items() if other != name and one.identity == key]:
                del self._sign_ins[stale]
            if kept:
                earlier = [one for one in await self._indexed_accounts() if one.identity == key]
                await self._update_index(key, replace(sign_in.to_account(place), ends=0.0))
                for one in earlier:
                    if (one.issuer, one.place) != (sign_in.issuer, place):
                        await self._erase(one.place, make_entry_name("tokens", one.url, one.issuer, one.account))

    def storage_place(self, sign_in: StoredSignIn) -> str:
        """The place that took it; "session": none did."""
        return self._place_by_entry.get(sign_in.entry_name, "session")

    async def delete(self, url: str, account: str = "", *, only: StoredSignIn | None = None) -> StoredSignIn | None:
        """Erase a sign-in and return it. With `only`, nothing happens if another one was stored meanwhile.

        Raises McpHostError, without `only`, when there is one that cannot be read: it is still there then.
        """
        with anyio.CancelScope(shield=True):
            try:
                found = await self.load(url, account, reload=True, is_strict=only is None)
            except McpHostError:
                if only is None:
                    raise
                return None  # a newer one that cannot be read
            if found is None or (only is not None and found.tokens != only.tokens):
                return None
            name = found.entry_name
            place = self.storage_place(found)
            self._sign_ins.pop(name, None)
            self._unsaved.discard(name)
            await self._erase(place, name)
            await self._update_index((url, account), None)
            return found

    async def accounts(self) -> tuple[Account, ...]:
        """Every sign-in there is."""
        mine = [self._sign_ins[name].to_account("session") for name in self._unsaved]
        hidden = {one.identity for one in mine}
        listed = [one for one in await self._indexed_accounts() if one.identity not in hidden]
        return (*mine, *(self._with_current_expiry(one) for one in listed))

    def _with_current_expiry(self, entry: Account) -> Account:
        """With the end by which it is judged here, when it is used here."""
        used = self._sign_ins.get(make_entry_name("tokens", entry.url, entry.issuer, entry.account))
        return entry if used is None else replace(entry, expires=used.tokens.expires, ends=used.tokens.monotonic_expiry)

    async def _is_outdated(self, known: StoredSignIn) -> bool:
        """Whether the list of sign-ins, which needs no vault, has another token than this one."""
        listed = [
            one.expires
            for one in await self._indexed_accounts()
            if (one.identity, one.issuer) == (known.identity, known.issuer)
        ]
        return listed not in ([], [known.tokens.expires])

    # -- which of several accounts
    async def other_accounts(self, url: str, account: str) -> tuple[str, ...]:
        """The names of those who are signed in to that server besides that account."""
        return tuple(sorted(one.name for one in await self.accounts() if one.url == url and one.account != account))

    async def chosen_account(self, url: str) -> str:
        """The account that was chosen for that server; "" for none, and for the one without a name."""
        if url in self._chosen_accounts or self._index is None:
            return self._chosen_accounts.get(url, "")
        return next((one.account for one in (await self._index.read()).chosen if one.url == url), "")

    async def choose_account(self, url: str, account: str | None) -> None:
        """From now on that account is used at that server, also by later runs; None: no choice. Never raises."""
        with anyio.CancelScope(shield=True):
            self._chosen_accounts[url] = account or ""
            try:
                if self._index is not None:
                    await self._index.choose_account(url, account)
                    del self._chosen_accounts[url]  # other processes may choose later
            except (OSError, McpHostError) as error:
                self._report(f"Which account was chosen cannot be written down: {error}")

    # -- asking the user, never inside a sign-in
    async def prepare_storage(self) -> None:
        """Before a person signs in: have the place ready, so that unlocking it is not in the way later. Never raises.

        A keyring that fails now is not waited for again when the token is there.
        """
        vault = self.storage.get_backend(self.storage.place)
        if self.storage.is_locked:
            await self.storage.unlock()
        elif vault is not None:
            try:
                await vault.describe()
            except McpHostError as error:
                self._failure_reason = error.message

    async def unlock_storage(self, url: str, account: str = "") -> bool:
        """Whether a sign-in to that server is in a file that was just opened by asking for its pass phrase."""
        for entry in await self.accounts():
            if entry.identity == (url, account) and entry.place == "encrypted":
                return await self.storage.unlock()
        return False

    async def store_pending(self) -> None:
        """Ask where to keep what no place took, and put it there. Cancelling the question leaves it in memory."""
        async with self._settle_lock:
            waiting = [self._sign_ins[name] for name in self._unsaved if name in self._sign_ins]
            if not waiting or not (self.storage.can_ask or self.storage.is_locked):
                return
            if self.storage.is_locked:
                changed = await self.storage.unlock()
            else:
                await self.storage.ask_place(tuple(dict.fromkeys(one.server for one in waiting)), self._failure_reason)
                changed = self.storage.place != "keyring"
            if not changed:
                return
            with anyio.CancelScope(shield=True):
                # Once more from memory: meanwhile a token may have been renewed.
                for name in tuple(self._unsaved):
                    if name in self._sign_ins:
                        await self.save(self._sign_ins[name])
                for name, client in tuple(self._clients.items()):
                    await self._write(self.storage.place, name, client)
            for listener in self.storage_listeners:
                listener()

    async def watch_pending(self) -> None:
        """Settle whenever there is something to settle, until cancelled."""
        while True:
            await self._is_storage_needed.wait()
            self._is_storage_needed = anyio.Event()
            await self.store_pending()

    # -- registrations
    async def load_client(self, issuer: str) -> OAuthClient | None:
        """Our registration with an issuer, when it can still be used."""
        name = make_entry_name("client", issuer)
        found = self._clients.get(name)
        if found is None and self._directory is not None:
            try:
                found = await self._read(self.storage.place, name, OAuthClient)
            except SecretsLocked:
                pass
            except McpHostError as error:
                self._report(f"Earlier registrations cannot be used. {error.message} {error.hint}")
        if found is None or found.issuer != issuer or not found.is_usable():
            return None
        found.register_secrets()
        self._clients[name] = found
        return found

    async def save_client(self, client: OAuthClient) -> None:
        """Keep a registration."""
        with anyio.CancelScope(shield=True):
            name = make_entry_name("client", client.issuer)
            self._clients[name] = client
            await self._write(self.storage.place, name, client)

    async def delete_issuer_client(self, issuer: str) -> bool:
        """Drop whatever registration there is with an issuer; whether there was one."""
        client = await self.load_client(issuer)
        if client is not None:
            await self.delete_client(client)
        return client is not None

    async def delete_client(self, client: OAuthClient) -> None:
        """Drop a registration that is known nowhere any more; another one of that issuer stays."""
        name = make_entry_name("client", client.issuer)
        if (await self.load_client(client.issuer)) not in (None, client):
            return
        self._clients.pop(name, None)
        await self._erase(self.storage.place, name)

    # -- locks
    @asynccontextmanager
    async def lock(self, url: str, account: str = "") -> AsyncGenerator[None]:
        """One process at a time changes this sign-in. Raises McpHostError when another one keeps it for too long."""
        if self._directory is None:
            yield
            return
        async with lock_file(self._directory / f"{make_entry_name('lock', url, account)}.lock"):
            yield

    # -- inside
    async def _read(self, place: str, name: str, kind: type[T]) -> T | None:
        vault = self.storage.get_backend(place)
        stored = None if vault is None else await vault.get(name)
        try:
            return None if stored is None else decode(stored, kind, "stored sign-in")
        except MalformedMessage:
            return None  # of a later version, or damaged: a new sign-in replaces it

    async def _write(self, place: str, name: str, value: Struct) -> bool:
        vault = self.storage.get_backend(place)
        if vault is None:
            return False
        try:
            await vault.set(name, encode(value).decode())
        except McpHostError as error:
            self._failure_reason = error.message
            if self.storage.can_ask or (isinstance(error, SecretsLocked) and self.storage.is_locked):
                self._is_storage_needed.set()  # the question says the same
            elif not self.storage.is_declined:
                self._report(f"This sign-in is kept only until mcphost ends. {error.message} {error.hint}")
            return False
        return True

    async def _erase(self, place: str, name: str) -> None:
        vault = self.storage.get_backend(place)
        try:
            if vault is not None:
                await vault.delete(name)
        except McpHostError as error:
            self._report(f"What is kept of this sign-in could not be removed ({place}). {error.message}")

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self.warn(text.strip())

    async def _indexed_accounts(self) -> tuple[Account, ...]:
        if self._index is None:
            place = self.storage.place
            return tuple(one.to_account(place) for name, one in self._sign_ins.items() if name not in self._unsaved)
        return (await self._index.read()).accounts

    async def _update_index(self, key: tuple[str, str], entry: Account | None) -> None:
        try:
            if self._index is not None:
                await self._index.update(key, entry)
        except (OSError, McpHostError) as error:
            self._report(f"The list of sign-ins cannot be written, so this one is forgotten when mcphost ends: {error}")
