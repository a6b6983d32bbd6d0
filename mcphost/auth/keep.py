"""Keeps sign-ins: tokens and registrations in the vault by server, issuer and account; an index without secrets.

What is kept is in memory first, so that a vault that fails costs the next start a sign-in and never this one. Several
processes share the vault: whoever changes something holds a file lock and reads again under it.
"""

import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from mcphost.auth.registration import Client
from mcphost.auth.tokens import Tokens
from mcphost.auth.vault import SecretVault
from mcphost.data import Data, decode, encode
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.paths import make_private
from mcphost.redact import register

INDEX = "sign-ins.json"
LOCK_SECONDS = 30.0
_POLL = 0.05
T = TypeVar("T")
_MOST_BYTES = 4 * 1024 * 1024


class Account(Data, frozen=True, kw_only=True):
    """One sign-in as people may see it; no secret in it."""

    server: str
    url: str
    issuer: str
    account: str = ""
    scopes: tuple[str, ...] = ()
    expires: float = 0
    renews: bool = False
    client: str = ""
    kept: bool = True
    """False: only until mcphost ends, because no keyring took it."""


class SignedIn(Data, frozen=True, kw_only=True):
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

    def __repr__(self) -> str:
        return f"SignedIn({self.server!r}, {self.issuer!r})"

    def shown(self, *, kept: bool) -> Account:
        """Without the secrets."""
        tokens = self.tokens
        return Account(
            server=self.server,
            url=self.url,
            issuer=self.issuer,
            account=self.account,
            scopes=tokens.scopes or self.asked,
            expires=tokens.expires,
            renews=bool(tokens.refresh),
            client=self.client.kind,
            kept=kept,
        )


class _Index(Data, frozen=True):
    accounts: tuple[Account, ...] = ()


class Keep:
    """See the module. `folder` holds index and locks; None keeps everything in this process. `warn` hears sentences."""

    def __init__(
        self, vault: SecretVault, folder: Path | None, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self._vault = vault
        self._folder = folder
        self.warn = warn
        self._warned = False
        self._memory: dict[str, SignedIn] = {}
        self._unkept: set[str] = set()
        self._clients: dict[str, Client] = {}

    # -- sign-ins
    async def load(self, url: str, account: str = "", *, again: bool = False) -> SignedIn | None:
        """The sign-in for that server and account, or None; `again` reads the vault even if it is in memory."""
        for entry in await self.accounts():
            if entry.url == url and entry.account == account:
                name = _name("tokens", url, entry.issuer, account)
                if name in self._memory and (not again or name in self._unkept):
                    return self._memory[name]
                try:
                    found = await self._read(name, SignedIn)
                except McpHostError as error:
                    self._tell(f"Earlier sign-ins cannot be used. {error.message} {error.hint}")
                    return self._memory.get(name)
                # The vault is not ours alone: what lies there must be what we put there.
                if found is not None and (found.url, found.issuer, found.account) == (url, entry.issuer, account):
                    _register(found)
                    self._memory[name] = found
                    return found
        return None

    async def save(self, signed: SignedIn) -> None:
        """Keep it, replacing what was there for that server and account. Never raises, and cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            name = _name("tokens", signed.url, signed.issuer, signed.account)
            self._memory[name] = signed
            _register(signed)
            kept = await self._write(name, signed)
            (self._unkept.discard if kept else self._unkept.add)(name)
            others = [one for one in await self.accounts() if (one.url, one.account) != (signed.url, signed.account)]
            for stale in [
                other
                for other, one in self._memory.items()
                if other != name and (one.url, one.account) == (signed.url, signed.account)
            ]:
                del self._memory[stale]
            if kept:
                await self._change_index((*others, signed.shown(kept=True)), signed)

    def kept(self, signed: SignedIn) -> bool:
        """Whether the vault took it."""
        return _name("tokens", signed.url, signed.issuer, signed.account) not in self._unkept

    async def forget(self, url: str, account: str = "", *, only: SignedIn | None = None) -> SignedIn | None:
        """Erase a sign-in and return it. With `only`, nothing happens if another one was stored meanwhile."""
        with anyio.CancelScope(shield=True):
            found = await self.load(url, account, again=True)
            if found is None or (only is not None and found.tokens != only.tokens):
                return None
            name = _name("tokens", url, found.issuer, account)
            self._memory.pop(name, None)
            self._unkept.discard(name)
            try:
                await self._vault.delete(name)
            except McpHostError as error:
                self._tell(f"The sign-in could not be removed from the keyring. {error.message}")
            others = [one for one in await self._indexed() if (one.url, one.account) != (url, account)]
            await self._change_index(tuple(others), found)
            return found

    async def accounts(self) -> tuple[Account, ...]:
        """Every sign-in there is."""
        mine = [self._memory[name].shown(kept=False) for name in self._unkept]
        hidden = {(one.url, one.account) for one in mine}
        return (*mine, *(one for one in await self._indexed() if (one.url, one.account) not in hidden))

    # -- registrations
    async def client(self, issuer: str) -> Client | None:
        """Our registration with an issuer, when it can still be used."""
        name = _name("client", issuer)
        found = self._clients.get(name)
        if found is None and self._folder is not None:
            try:
                found = await self._read(name, Client)
            except McpHostError as error:
                self._tell(f"Earlier registrations cannot be used. {error.message} {error.hint}")
        if found is None or found.issuer != issuer or not found.usable():
            return None
        register(found.secret)
        self._clients[name] = found
        return found

    async def save_client(self, client: Client) -> None:
        """Keep a registration."""
        with anyio.CancelScope(shield=True):
            name = _name("client", client.issuer)
            self._clients[name] = client
            await self._write(name, client)

    async def forget_client(self, client: Client) -> None:
        """Drop a registration that is known nowhere any more; another one of that issuer stays."""
        name = _name("client", client.issuer)
        if (await self.client(client.issuer)) not in (None, client):
            return
        self._clients.pop(name, None)
        try:
            await self._vault.delete(name)
        except McpHostError as error:
            self._tell(f"The registration could not be removed from the keyring. {error.message}")

    # -- locks
    @asynccontextmanager
    async def lock(self, url: str, account: str = "") -> AsyncGenerator[None]:
        """One process at a time changes this sign-in. Raises McpHostError when another one keeps it for too long."""
        if self._folder is None:
            yield
            return
        async with _locked(self._folder / f"{_name('lock', url, account)}.lock"):
            yield

    # -- inside
    async def _read(self, name: str, kind: type[T]) -> T | None:
        stored = await self._vault.get(name)
        try:
            return None if stored is None else decode(stored, kind, "stored sign-in")
        except MalformedMessage:
            return None  # of a later version, or damaged: a new sign-in replaces it

    async def _write(self, name: str, value: Data) -> bool:
        try:
            await self._vault.set(name, encode(value).decode())
        except McpHostError as error:
            self._tell(f"This sign-in is kept only until mcphost ends. {error.message} {error.hint}")
            return False
        return True

    def _tell(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self.warn(text.strip())

    async def _indexed(self) -> tuple[Account, ...]:
        if self._folder is None:
            return tuple(one.shown(kept=True) for name, one in self._memory.items() if name not in self._unkept)
        return await anyio.to_thread.run_sync(_read_index, self._folder / INDEX)

    async def _change_index(self, accounts: tuple[Account, ...], changed: SignedIn) -> None:
        if self._folder is None:
            return
        key = (changed.url, changed.account)
        ours = [one for one in accounts if (one.url, one.account) == key]
        try:
            async with _locked(self._folder / "index.lock"):
                others = [one for one in await self._indexed() if (one.url, one.account) != key]
                value = _Index((*others, *(one for one in ours if one.kept)))
                await anyio.to_thread.run_sync(_write_index, self._folder, encode(value))
        except (OSError, McpHostError) as error:
            self._tell(f"The list of sign-ins cannot be written, so this one is forgotten when mcphost ends: {error}")


@asynccontextmanager
async def _locked(path: Path) -> AsyncGenerator[None]:
    handle = -1
    with suppress(OSError):
        make_private(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if handle < 0:
        yield  # without a place for locks there is no place that processes could share either
        return
    try:
        until = anyio.current_time() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if anyio.current_time() > until:
                    raise McpHostError(
                        "Another mcphost has been busy with this sign-in for too long.", "End it, and try again."
                    ) from None
                await anyio.sleep(_POLL)
        yield
    finally:
        os.close(handle)


def _name(kind: str, *parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]
    return f"sign-in {kind} {digest}".replace(" ", "-")


def _register(signed: SignedIn) -> None:
    for secret in (signed.tokens.access, signed.tokens.refresh, signed.client.secret):
        register(secret)


def _read_index(path: Path) -> tuple[Account, ...]:
    try:
        with path.open("rb") as file:
            return decode(file.read(_MOST_BYTES), _Index, "list of sign-ins").accounts
    except (OSError, MalformedMessage):
        return ()


def _write_index(folder: Path, raw: bytes) -> None:
    make_private(folder)
    fresh = folder / f"{INDEX}.{os.getpid()}"
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        fresh.replace(folder / INDEX)
    finally:
        fresh.unlink(missing_ok=True)
