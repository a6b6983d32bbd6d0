"""Keeps sign-ins: tokens and registrations in the vault by server, issuer and account; an index without secrets.

What is kept is in memory first, so that a vault that fails costs the next start a sign-in and never this one. Several
processes share the vault: whoever changes something holds a file lock and reads again under it.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio

from mcphost.auth.account import Account
from mcphost.auth.account_index import Index
from mcphost.auth.client_registration import Client
from mcphost.auth.file_backend import Locked
from mcphost.auth.file_lock import locked
from mcphost.auth.keyring_backend import SecretVault
from mcphost.auth.secret_store import Places
from mcphost.auth.stored_sign_in import SignedIn, entry_name
from mcphost.errors import MalformedMessage, McpHostError
from mcphost.serialization import Struct, decode, encode, replace

T = TypeVar("T")


class Keep:
    """See the module. `folder` holds index and locks; None keeps everything in this process. `warn` hears sentences.

    `places` says where secrets go; a vault alone is the only place there is.
    """

    def __init__(
        self, places: Places | SecretVault, folder: Path | None, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.places = places if isinstance(places, Places) else Places(places, None)
        self._folder = folder
        self._told: set[str] = set()
        self._index = None if folder is None else Index(folder, self._tell)
        self._chosen: dict[str, str] = {}
        self._memory: dict[str, SignedIn] = {}
        self._unkept: set[str] = set()
        self._where: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._reason = ""
        self._wanted = anyio.Event()
        self._settling = anyio.Lock()
        self.moved: list[Callable[[], None]] = []
        """Who hears that sign-ins are in another place now; must not raise."""
        self.warn = warn

    @property
    def warn(self) -> Callable[[str], None]:
        """Who hears what the user should know about keeping secrets."""
        return self.places.warn

    @warn.setter
    def warn(self, value: Callable[[str], None]) -> None:
        self.places.warn = value

    # -- sign-ins
    async def load(
        self, url: str, account: str = "", *, again: bool = False, strictly: bool = False
    ) -> SignedIn | None:
        """The sign-in for that server and account, or None; `again` reads the vault even if it is in memory.

        With `strictly` McpHostError is raised when there is one that cannot be read; else that is told, once, and the
        one in memory serves. With `again` it is raised, too, when another process has stored a newer one than that:
        whoever renewed by what is in memory would lose the whole family (RFC 9700 section 4.14.2).
        """
        for entry in await self.accounts():
            if entry.url == url and entry.account == account:
                name = entry_name("tokens", url, entry.issuer, account)
                if name in self._memory and (not again or name in self._unkept):
                    return self._memory[name]
                try:
                    found = await self._read(entry.place, name, SignedIn)
                except McpHostError as error:
                    known = self._memory.get(name)
                    if strictly or (again and known is not None and await self._is_outdated(known)):
                        raise
                    if not isinstance(error, Locked):
                        self._tell(f"Earlier sign-ins cannot be used. {error.message} {error.hint}")
                    return known
                # The vault is not ours alone: what lies there must be what we put there.
                if found is not None and (found.url, found.issuer, found.account) == (url, entry.issuer, account):
                    found.conceal()
                    self._memory[name] = found
                    self._where[name] = entry.place
                    return found
        return None

    async def save(self, signed: SignedIn) -> None:
        """Keep it, replacing what was there for that server and account. Never raises, and cannot be cancelled.

        It is in memory and in use before any place is tried; one that no place took is kept for this run.
        """
        with anyio.CancelScope(shield=True):
            name = signed.entry
            self._memory[name] = signed
            signed.conceal()
            place = self.places.place
            kept = await self._write(place, name, signed)
            (self._unkept.discard if kept else self._unkept.add)(name)
            self._where[name] = place if kept else "session"
            key = (signed.url, signed.account)
            for stale in [other for other, one in self._memory.items() if other != name and one.whose == key]:
                del self._memory[stale]
            if kept:
                earlier = [one for one in await self._indexed() if one.whose == key]
                await self._change_index(key, replace(signed.shown(place), ends=0.0))
                for one in earlier:
                    if (one.issuer, one.place) != (signed.issuer, place):
                        await self._erase(one.place, entry_name("tokens", one.url, one.issuer, one.account))

    def kept_in(self, signed: SignedIn) -> str:
        """The place that took it; "session": none did."""
        return self._where.get(signed.entry, "session")

    async def forget(self, url: str, account: str = "", *, only: SignedIn | None = None) -> SignedIn | None:
        """Erase a sign-in and return it. With `only`, nothing happens if another one was stored meanwhile.

        Raises McpHostError, without `only`, when there is one that cannot be read: it is still there then.
        """
        with anyio.CancelScope(shield=True):
            try:
                found = await self.load(url, account, again=True, strictly=only is None)
            except McpHostError:
                if only is None:
                    raise
                return None  # a newer one that cannot be read
            if found is None or (only is not None and found.tokens != only.tokens):
                return None
            name = found.entry
            place = self.kept_in(found)
            self._memory.pop(name, None)
            self._unkept.discard(name)
            await self._erase(place, name)
            await self._change_index((url, account), None)
            return found

    async def accounts(self) -> tuple[Account, ...]:
        """Every sign-in there is."""
        mine = [self._memory[name].shown("session") for name in self._unkept]
        hidden = {one.whose for one in mine}
        listed = [one for one in await self._indexed() if one.whose not in hidden]
        return (*mine, *(self._as_used(one) for one in listed))

    def _as_used(self, entry: Account) -> Account:
        """With the end by which it is judged here, when it is used here."""
        used = self._memory.get(entry_name("tokens", entry.url, entry.issuer, entry.account))
        return entry if used is None else replace(entry, expires=used.tokens.expires, ends=used.tokens.ends)

    async def _is_outdated(self, known: SignedIn) -> bool:
        """Whether the list of sign-ins, which needs no vault, has another token than this one."""
        listed = [
            one.expires for one in await self._indexed() if (one.whose, one.issuer) == (known.whose, known.issuer)
        ]
        return listed not in ([], [known.tokens.expires])

    # -- which of several accounts
    async def others(self, url: str, account: str) -> tuple[str, ...]:
        """The names of those who are signed in to that server besides that account."""
        return tuple(sorted(one.name for one in await self.accounts() if one.url == url and one.account != account))

    async def chosen(self, url: str) -> str:
        """The account that was chosen for that server; "" for none, and for the one without a name."""
        if url in self._chosen or self._index is None:
            return self._chosen.get(url, "")
        return next((one.account for one in (await self._index.read()).chosen if one.url == url), "")

    async def choose(self, url: str, account: str | None) -> None:
        """From now on that account is used at that server, also by later runs; None: no choice. Never raises."""
        with anyio.CancelScope(shield=True):
            self._chosen[url] = account or ""
            try:
                if self._index is not None:
                    await self._index.choose(url, account)
                    del self._chosen[url]  # other processes may choose later
            except (OSError, McpHostError) as error:
                self._tell(f"Which account was chosen cannot be written down: {error}")

    # -- asking the user, never inside a sign-in
    async def prepare(self) -> None:
        """Before a person signs in: have the place ready, so that unlocking it is not in the way later. Never raises.

        A keyring that fails now is not waited for again when the token is there.
        """
        vault = self.places.vault(self.places.place)
        if self.places.is_locked:
            await self.places.unlock()
        elif vault is not None:
            try:
                await vault.describe()
            except McpHostError as error:
                self._reason = error.message

    async def unlocked(self, url: str, account: str = "") -> bool:
        """Whether a sign-in to that server is in a file that was just opened by asking for its pass phrase."""
        for entry in await self.accounts():
            if entry.whose == (url, account) and entry.place == "encrypted":
                return await self.places.unlock()
        return False

    async def settle(self) -> None:
        """Ask where to keep what no place took, and put it there. Cancelling the question leaves it in memory."""
        async with self._settling:
            waiting = [self._memory[name] for name in self._unkept if name in self._memory]
            if not waiting or not (self.places.may_ask or self.places.is_locked):
                return
            if self.places.is_locked:
                changed = await self.places.unlock()
            else:
                await self.places.choose(tuple(dict.fromkeys(one.server for one in waiting)), self._reason)
                changed = self.places.place != "keyring"
            if not changed:
                return
            with anyio.CancelScope(shield=True):
                # Once more from memory: meanwhile a token may have been renewed.
                for name in tuple(self._unkept):
                    if name in self._memory:
                        await self.save(self._memory[name])
                for name, client in tuple(self._clients.items()):
                    await self._write(self.places.place, name, client)
            for listener in self.moved:
                listener()

    async def keep_settling(self) -> None:
        """Settle whenever there is something to settle, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            await self.settle()

    # -- registrations
    async def client(self, issuer: str) -> Client | None:
        """Our registration with an issuer, when it can still be used."""
        name = entry_name("client", issuer)
        found = self._clients.get(name)
        if found is None and self._folder is not None:
            try:
                found = await self._read(self.places.place, name, Client)
            except Locked:
                pass
            except McpHostError as error:
                self._tell(f"Earlier registrations cannot be used. {error.message} {error.hint}")
        if found is None or found.issuer != issuer or not found.usable():
            return None
        found.conceal()
        self._clients[name] = found
        return found

    async def save_client(self, client: Client) -> None:
        """Keep a registration."""
        with anyio.CancelScope(shield=True):
            name = entry_name("client", client.issuer)
            self._clients[name] = client
            await self._write(self.places.place, name, client)

    async def forget_issuer(self, issuer: str) -> bool:
        """Drop whatever registration there is with an issuer; whether there was one."""
        client = await self.client(issuer)
        if client is not None:
            await self.forget_client(client)
        return client is not None

    async def forget_client(self, client: Client) -> None:
        """Drop a registration that is known nowhere any more; another one of that issuer stays."""
        name = entry_name("client", client.issuer)
        if (await self.client(client.issuer)) not in (None, client):
            return
        self._clients.pop(name, None)
        await self._erase(self.places.place, name)

    # -- locks
    @asynccontextmanager
    async def lock(self, url: str, account: str = "") -> AsyncGenerator[None]:
        """One process at a time changes this sign-in. Raises McpHostError when another one keeps it for too long."""
        if self._folder is None:
            yield
            return
        async with locked(self._folder / f"{entry_name('lock', url, account)}.lock"):
            yield

    # -- inside
    async def _read(self, place: str, name: str, kind: type[T]) -> T | None:
        vault = self.places.vault(place)
        stored = None if vault is None else await vault.get(name)
        try:
            return None if stored is None else decode(stored, kind, "stored sign-in")
        except MalformedMessage:
            return None  # of a later version, or damaged: a new sign-in replaces it

    async def _write(self, place: str, name: str, value: Struct) -> bool:
        vault = self.places.vault(place)
        if vault is None:
            return False
        try:
            await vault.set(name, encode(value).decode())
        except McpHostError as error:
            self._reason = error.message
            if self.places.may_ask or (isinstance(error, Locked) and self.places.is_locked):
                self._wanted.set()  # the question says the same
            elif not self.places.is_declined:
                self._tell(f"This sign-in is kept only until mcphost ends. {error.message} {error.hint}")
            return False
        return True

    async def _erase(self, place: str, name: str) -> None:
        vault = self.places.vault(place)
        try:
            if vault is not None:
                await vault.delete(name)
        except McpHostError as error:
            self._tell(f"What is kept of this sign-in could not be removed ({place}). {error.message}")

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.warn(text.strip())

    async def _indexed(self) -> tuple[Account, ...]:
        if self._index is None:
            place = self.places.place
            return tuple(one.shown(place) for name, one in self._memory.items() if name not in self._unkept)
        return (await self._index.read()).accounts

    async def _change_index(self, key: tuple[str, str], entry: Account | None) -> None:
        try:
            if self._index is not None:
                await self._index.change(key, entry)
        except (OSError, McpHostError) as error:
            self._tell(f"The list of sign-ins cannot be written, so this one is forgotten when mcphost ends: {error}")
