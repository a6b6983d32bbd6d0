"""Storage for tokens (by server and account) and OAuth clients (by issuer), with an account index.

All data is also kept in memory, so that a failure of the secret storage affects only later runs. Processes
share the storage: each change is made under a file lock, after the stored data has been read again.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio

from mcphost.auth.accounts import (
    FETCHED_ON_DEMAND,
    Account,
    AccountIndex,
    DiscoverySummary,
    hide_query,
    make_entry_name,
)
from mcphost.auth.file_backend import SecretsLocked
from mcphost.auth.keyring_backend import UNLOCK_HINT, SecretBackend
from mcphost.auth.registration import OAuthClient
from mcphost.auth.secret_store import SecretStorage
from mcphost.auth.tokens import TokenSet
from mcphost.config.file_edits import lock_file
from mcphost.errors import McpHostError, SignInRequired
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct, decode_or_none, encode, field, replace


class StoredSignIn(Struct, frozen=True, kw_only=True):
    """The tokens of one account on one server, with the OAuth client that they were issued to.

    The repr contains no secrets.
    """

    server: str
    url: str
    issuer: str
    resource: str
    token_endpoint: str
    tokens: TokenSet
    client: OAuthClient
    account: str = ""
    revocation_endpoint: str = ""
    requested_scopes: tuple[str, ...] = field(default=(), name="asked")
    dpop_key: str = field(default="", name="key")
    """The private key that the tokens are bound to (DPoP), as a JWK, or "" for none."""
    discovery: DiscoverySummary = field(default=DiscoverySummary(), name="discovered")

    def __repr__(self) -> str:
        return f"StoredSignIn({self.server!r}, {self.issuer!r})"

    @property
    def entry_name(self) -> str:
        """Name under which these tokens are stored in secret storage."""
        return make_entry_name("tokens", self.url, self.issuer, self.account)

    @property
    def identity(self) -> tuple[str, str]:
        """The server URL, as returned by `hide_query`, and the account name; together they identify an account."""
        return _identify(self.url, self.account)

    def has_requested(self, scopes: Iterable[str]) -> bool:
        """Return whether all *scopes* were requested or granted; the server may have granted fewer."""
        return {*self.requested_scopes, *self.tokens.scopes}.issuperset(scopes)

    def to_account(self, place: str) -> Account:
        """Return the account without its secrets; *place* is where its tokens are stored."""
        tokens = self.tokens
        return Account(
            server=self.server,
            url=hide_query(self.url),
            entry="" if hide_query(self.url) == self.url else self.entry_name,
            issuer=self.issuer,
            account=self.account,
            scopes=tokens.scopes or self.requested_scopes,
            expires=tokens.expires,
            issued=tokens.issued,
            monotonic_expiry=tokens.monotonic_expiry,
            is_renewable=bool(tokens.refresh) or place == FETCHED_ON_DEMAND,
            client_kind=self.client.kind,
            is_stored=place != "session",
            place=place,
            discovery=self.discovery,
        )

    def register_secrets(self) -> None:
        """Register the tokens and the client secret for redaction in all later logs and output."""
        register_server_secret(self.tokens.access, self.issuer)
        register_server_secret(self.tokens.refresh, self.issuer)
        self.client.register_secrets()


def _identify(url: str, account: str) -> tuple[str, str]:
    """Return the identity of an account on the server at *url*; see `Account.identity`."""
    return hide_query(url), account


T = TypeVar("T")
_REFRESH_TIMEOUT = 10.0
"""Maximum number of seconds that a new sign-in waits for a refresh of the previous tokens."""


class TokenStore:
    """Storage of the user's tokens and OAuth clients.

    - *storage*: where secrets are kept, either a SecretStorage or a single backend for all of them.
    - *directory*: the folder of the index and the lock files; if it is None, nothing is shared with other processes.
    - *warn*: called with warnings for the user.
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
        self._sign_in_turns: dict[tuple[str, str], anyio.Lock] = {}
        self.storage_listeners: list[Callable[[], None]] = []
        """Functions to call after sign-ins have been stored in another place; they must not raise."""
        self.storage.warn = warn

    # -- sign-ins
    async def load(
        self, url: str, account: str = "", *, reload: bool = False, is_strict: bool = False
    ) -> StoredSignIn | None:
        """Return the tokens for a server URL and account name, or None if none are stored.

        If *reload* is true, the storage is read again. If the storage cannot be read, the user is warned once, and the
        tokens in memory are returned. In two cases, McpHostError is raised instead: if *is_strict* is true, or if
        *reload* is true and another process has stored newer tokens. In the second case, a refresh with the older token
        in memory could revoke the tokens of both processes (RFC 9700, section 4.14.2).
        """
        for name in self._unsaved:
            if self._sign_ins[name].identity == _identify(url, account):
                return self._sign_ins[name]
        for entry in await self._indexed_accounts():
            if entry.identity != _identify(url, account):
                continue
            name = entry.entry_name
            known = self._sign_ins.get(name)
            if known is not None and not reload:
                return known
            try:
                sign_in = await self._read(entry.place, name, StoredSignIn)
            except McpHostError as error:
                if is_strict or (reload and known is not None and await self._is_outdated(known)):
                    raise
                if not isinstance(error, SecretsLocked):
                    self._report(f"Earlier sign-ins cannot be used. {error}")
                return known
            # Other programs can write to the storage, so check that mcphost stored the entry.
            if sign_in is not None and (sign_in.identity, sign_in.issuer) == (entry.identity, entry.issuer):
                sign_in.register_secrets()
                self._sign_ins[name] = sign_in
                self._place_by_entry[name] = entry.place
                return sign_in
        return None

    async def save(self, sign_in: StoredSignIn) -> None:
        """Store tokens, replacing the previous tokens of the same account on the same server.

        Cannot be cancelled and never raises. The new tokens take effect in memory immediately. If they cannot be
        stored, they are kept in memory until mcphost quits.
        """
        with anyio.CancelScope(shield=True):
            name = sign_in.entry_name
            self._sign_ins[name] = sign_in
            sign_in.register_secrets()
            place = self.storage.place
            is_stored = await self._write(place, name, sign_in)
            (self._unsaved.discard if is_stored else self._unsaved.add)(name)
            self._place_by_entry[name] = place if is_stored else "session"
            key = sign_in.identity
            for stale in [other for other, item in self._sign_ins.items() if other != name and item.identity == key]:
                del self._sign_ins[stale]
                self._unsaved.discard(stale)
            if is_stored:
                earlier = [entry for entry in await self._indexed_accounts() if entry.identity == key]
                await self._update_index(key, replace(sign_in.to_account(place), monotonic_expiry=0.0))
                for entry in earlier:
                    if (entry.issuer, entry.place) != (sign_in.issuer, place):
                        await self._erase(entry.place, entry.entry_name)

    async def save_new(self, sign_in: StoredSignIn) -> None:
        """Store new tokens like `save`, after any running refresh of the account's previous tokens has ended.

        Without the wait, the refresh would overwrite the tokens of the new sign-in. Cannot be cancelled, and never
        raises.
        """
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as stack:
                # The new tokens must not be lost because another process is stuck.
                with anyio.move_on_after(_REFRESH_TIMEOUT), suppress(McpHostError):
                    await stack.enter_async_context(self.lock(sign_in.url, sign_in.account))
                await self.save(sign_in)

    def storage_place(self, sign_in: StoredSignIn) -> str:
        """Return the place where the tokens in *sign_in* are stored; "session" means memory only."""
        return self._place_by_entry.get(sign_in.entry_name, "session")

    async def delete(self, url: str, account: str = "", *, only: StoredSignIn | None = None) -> StoredSignIn | None:
        """Delete the tokens of an account and return them, or return None if none are stored.

        If *only* is given, the tokens are deleted only if they are the same as those in *only*; if they differ or
        cannot be read, None is returned. If *only* is not given, and the tokens cannot be read, McpHostError is raised,
        and nothing is deleted.
        """
        with anyio.CancelScope(shield=True):
            try:
                sign_in = await self.load(url, account, reload=True, is_strict=only is None)
            except McpHostError:
                if only is None:
                    raise
                return None  # a newer sign-in that cannot be read
            if sign_in is None or (only is not None and sign_in.tokens != only.tokens):
                return None
            name = sign_in.entry_name
            place = self.storage_place(sign_in)
            self._sign_ins.pop(name, None)
            self._unsaved.discard(name)
            await self._erase(place, name)
            await self._update_index(sign_in.identity, None)
            return sign_in

    async def accounts(self) -> tuple[Account, ...]:
        """Return all accounts that are signed in, without their secrets."""
        unsaved = [self._sign_ins[name].to_account("session") for name in self._unsaved]
        hidden = {entry.identity for entry in unsaved}
        indexed = [entry for entry in await self._indexed_accounts() if entry.identity not in hidden]
        return (*unsaved, *(self._with_current_expiry(entry) for entry in indexed))

    def _with_current_expiry(self, entry: Account) -> Account:
        """Return an index entry, with the expiry updated if this process has the token in memory."""
        sign_in = self._sign_ins.get(entry.entry_name)
        if sign_in is None:
            return entry
        tokens = sign_in.tokens
        return replace(entry, expires=tokens.expires, issued=tokens.issued, monotonic_expiry=tokens.monotonic_expiry)

    async def _is_outdated(self, known: StoredSignIn) -> bool:
        """Return whether the index file lists a token other than *known* for the same account and issuer.

        Secret storage is not read; the tokens are compared by their expiry.
        """
        indexed = [
            entry.expires
            for entry in await self._indexed_accounts()
            if (entry.identity, entry.issuer) == (known.identity, known.issuer)
        ]
        return indexed not in ([], [known.tokens.expires])

    # -- selection of an account
    async def other_accounts(self, url: str, account: str) -> tuple[str, ...]:
        """Return the names of all accounts that are signed in to the server at *url*, except *account*."""
        url = hide_query(url)
        return tuple(
            sorted(entry.name for entry in await self.accounts() if entry.url == url and entry.account != account)
        )

    async def chosen_account(self, url: str) -> str:
        """Return the name of the account that the user selected for the server at *url*.

        Returns "" if that is the default account, or if the user has not selected an account.
        """
        url = hide_query(url)
        if url in self._chosen_accounts or self._index is None:
            return self._chosen_accounts.get(url, "")
        return next((choice.account for choice in (await self._index.read()).chosen if choice.url == url), "")

    async def choose_account(self, url: str, account: str | None) -> None:
        """Select the account for a server URL, in this run and later ones; None clears the selection.

        Never raises.
        """
        url = hide_query(url)
        with anyio.CancelScope(shield=True):
            self._chosen_accounts[url] = account or ""
            try:
                if self._index is not None:
                    await self._index.choose_account(url, account)
                    del self._chosen_accounts[url]  # other processes may select an account later
            except (OSError, McpHostError) as error:
                self._report(f"The selected account cannot be stored: {error}")

    # -- questions to the user, which are never asked during a sign-in
    async def prepare_storage(self, required_for: str = "") -> None:
        """Unlock or test the secret storage before a sign-in, so that no prompt interrupts the sign-in.

        *required_for* is the name of a server whose tokens must be kept after mcphost quits, or "" if they need not be
        kept. If it is given, SignInRequired is raised in two cases: if the user leaves the encrypted file locked, and
        if the storage cannot be used and the user cannot be asked for another place. A keyring that the user only has
        to unlock is accepted, and so is the configured place "session" (memory only). No other errors are raised.

        If the keyring fails this test, storing the tokens later makes only one attempt (see KeyringBackend).
        """
        storage = self.storage
        backend = storage.get_backend(storage.place)
        if storage.is_locked:
            if not await storage.unlock() and required_for:
                raise SignInRequired(
                    f"A sign-in to {required_for!r} would be lost when this command ends: its file is locked.",
                    'Enter its passphrase in a terminal, or set [secrets] store = "file" in config.toml.',
                )
        elif backend is not None:
            try:
                await backend.describe()
            except McpHostError as error:
                self._failure_reason = error.message
                # A keyring that waits for its user to unlock it can store the sign-in later.
                if required_for and not storage.can_ask and error.hint != UNLOCK_HINT:
                    raise SignInRequired(
                        f"A sign-in to {required_for!r} would be lost when this command ends. {error.message}",
                        'Set [secrets] store = "file" in config.toml, or "encrypted" and sign in at a terminal.',
                    ) from error

    async def unlock_storage(self, url: str, account: str = "") -> bool:
        """Ask for the passphrase of the encrypted file if the account's tokens are stored in that file.

        Return whether the tokens are stored in the file and the file is now unlocked.
        """
        for entry in await self.accounts():
            if entry.identity == _identify(url, account) and entry.place == "encrypted":
                return await self.storage.unlock()
        return False

    async def find_locked_file(self, url: str, account: str = "") -> str:
        """Return the path of the encrypted file if it is locked and contains the account's tokens, otherwise ""."""
        if not self.storage.is_encrypted_file_locked:
            return ""
        stored = [entry for entry in await self.accounts() if entry.identity == _identify(url, account)]
        return self.storage.encrypted_path if any(entry.place == "encrypted" for entry in stored) else ""

    async def store_pending(self) -> None:
        """Store the tokens that could not be stored, after asking the user for another place or for the passphrase.

        If the user declines, or if this is cancelled, the tokens stay in memory.
        """
        async with self._settle_lock:
            pending = [self._sign_ins[name] for name in self._unsaved if name in self._sign_ins]
            if not pending or not (self.storage.can_ask or self.storage.is_locked):
                return
            if self.storage.is_locked:
                has_changed = await self.storage.unlock()
            else:
                servers = tuple(dict.fromkeys(sign_in.server for sign_in in pending))
                await self.storage.ask_place(servers, self._failure_reason)
                has_changed = self.storage.place != "keyring"
            if not has_changed:
                return
            with anyio.CancelScope(shield=True):
                # A token may have been refreshed in the meantime, so store the one in memory, not the one in *pending*.
                for name in tuple(self._unsaved):
                    if name in self._sign_ins:
                        await self.save(self._sign_ins[name])
                for name, client in tuple(self._clients.items()):
                    await self._write(self.storage.place, name, client)
            for listener in self.storage_listeners:
                listener()

    async def watch_pending(self) -> None:
        """Call `store_pending` whenever tokens could not be stored. Runs until cancelled."""
        while True:
            await self._is_storage_needed.wait()
            self._is_storage_needed = anyio.Event()
            await self.store_pending()

    # -- registrations
    async def load_client(self, issuer: str) -> OAuthClient | None:
        """Return the client registered with an issuer, or None if there is none or it can no longer be used."""
        name = make_entry_name("client", issuer)
        client = self._clients.get(name)
        if client is None and self._directory is not None:
            try:
                client = await self._read(self.storage.place, name, OAuthClient)
            except SecretsLocked:
                pass
            except McpHostError as error:
                self._report(f"Earlier registrations cannot be used. {error}")
        if client is None or client.issuer != issuer or not client.is_usable():
            return None
        client.register_secrets()
        self._clients[name] = client
        return client

    async def save_client(self, client: OAuthClient) -> None:
        """Store a registered client; if that fails, keep it in memory until mcphost quits."""
        with anyio.CancelScope(shield=True):
            name = make_entry_name("client", client.issuer)
            self._clients[name] = client
            await self._write(self.storage.place, name, client)

    async def delete_issuer_client(self, issuer: str) -> bool:
        """Delete the client registered with an issuer; return whether there was one."""
        client = await self.load_client(issuer)
        if client is not None:
            await self.delete_client(client)
        return client is not None

    async def delete_client(self, client: OAuthClient) -> None:
        """Delete *client* from storage, unless another client of the same issuer has replaced it there."""
        name = make_entry_name("client", client.issuer)
        if (await self.load_client(client.issuer)) not in (None, client):
            return
        self._clients.pop(name, None)
        await self._erase(self.storage.place, name)

    # -- locks
    @asynccontextmanager
    async def take_sign_in_turn(self, url: str, account: str = "") -> AsyncGenerator[bool]:
        """Let only one sign-in to an account run at a time in this process; yield whether another one was running.

        If another sign-in was running, the caller may be able to use its tokens, because servers with the same URL
        share their accounts.
        """
        turn = self._sign_in_turns.setdefault(_identify(url, account), anyio.Lock())
        has_waited = turn.locked()
        async with turn:
            yield has_waited

    @asynccontextmanager
    async def lock(self, url: str, account: str = "") -> AsyncGenerator[None]:
        """Hold the inter-process lock on an account's stored tokens. Raises McpHostError after a timeout.

        The lock is the same for a URL and for the result of `hide_query` for this URL.
        """
        if self._directory is None:
            yield
            return
        async with lock_file(self._directory / f"{make_entry_name('lock', *_identify(url, account))}.lock"):
            yield

    # -- internal
    async def _read(self, place: str, name: str, kind: type[T]) -> T | None:
        backend = self.storage.get_backend(place)
        stored = None if backend is None else await backend.get(name)
        # None also if a later version wrote it, or it is damaged; a new sign-in will replace it.
        return None if stored is None else decode_or_none(stored, kind)

    async def _write(self, place: str, name: str, value: Struct) -> bool:
        backend = self.storage.get_backend(place)
        if backend is None:
            return False
        try:
            await backend.set(name, encode(value).decode())
        except McpHostError as error:
            self._failure_reason = error.message
            if self.storage.can_ask or (isinstance(error, SecretsLocked) and self.storage.is_locked):
                self._is_storage_needed.set()  # the question to the user gives the reason
            elif not self.storage.is_declined:
                self._report(f"This sign-in is kept only until mcphost quits. {error}")
            return False
        return True

    async def _erase(self, place: str, name: str) -> None:
        backend = self.storage.get_backend(place)
        try:
            if backend is not None:
                await backend.delete(name)
        except McpHostError as error:
            self._report(f"This sign-in could not be removed from storage ({place}). {error.message}")

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self.storage.warn(text.strip())

    async def _indexed_accounts(self) -> tuple[Account, ...]:
        if self._index is None:
            place = self.storage.place
            return tuple(item.to_account(place) for name, item in self._sign_ins.items() if name not in self._unsaved)
        return (await self._index.read()).accounts

    async def _update_index(self, key: tuple[str, str], entry: Account | None) -> None:
        try:
            if self._index is not None:
                await self._index.update(key, entry)
        except (OSError, McpHostError) as error:
            self._report(
                f"The list of sign-ins cannot be written, so this one is forgotten when mcphost quits: {error}"
            )
