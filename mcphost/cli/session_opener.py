"""The opener the product runs with: references filled in on a thread, the era of each server remembered."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.from_thread
import anyio.to_thread

from mcphost import paths
from mcphost.client.session import Account, Kept, PrepareFn, RequestHandler, Session, SessionObserver, prepare_nothing
from mcphost.config.package_runners import START_SECONDS, is_installer
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConfigError, StoreError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import replace
from mcphost.store.grants import Grants

if TYPE_CHECKING:
    from mcphost.auth.oauth_registry import Identities
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.transport.watchdog import Watchdog


class StoredEras:
    """EraStore over the store: read once before the first connection, written after each change."""

    def __init__(self, grants: Grants) -> None:
        self._grants = grants
        self._known: dict[str, ServerEras] = {}
        self._fresh: dict[str, ServerEras] = {}

    def get(self, server: str, digest: str) -> ServerEras | None:
        """What the last connection showed that the server speaks, or None."""
        return self._known.get(digest)

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Remember what the server speaks."""
        if self._known.get(digest) != eras:
            self._known[digest] = self._fresh[digest] = eras

    async def load(self, digest: str) -> None:
        """Learn what is stored; a store that fails means that the era is found anew."""
        if digest not in self._known:
            try:
                eras = await self._grants.eras(digest)
            except StoreError:
                return
            if eras is not None:
                self._known[digest] = eras

    async def save(self) -> None:
        """Write what is new; a store that fails costs a probe at the next start, nothing else."""
        while self._fresh:
            digest, eras = self._fresh.popitem()
            try:
                await self._grants.remember_eras(digest, eras)
            except StoreError:
                return


class ReadyOpener:
    """Opener: everything heavy is imported on a thread when the first server is opened.

    `identities` makes who signs in to HTTP servers, when the first of them is opened; None: nobody does.
    """

    def __init__(self, limits: Limits, grants: Grants, identities: "Callable[[], Identities] | None" = None) -> None:
        self._limits = limits
        self._make_identities = identities
        self._identities: Identities | None = None
        self._eras = StoredEras(grants)
        self._guardian: Watchdog | None = None
        self._loading = anyio.Lock()

    async def close(self) -> None:
        """End what connections share; after the last one was closed."""
        guardian, self._guardian = self._guardian, None
        if guardian is not None:
            await guardian.close()

    @asynccontextmanager
    async def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AsyncGenerator[Session]:
        """See client.session.Opener; references are expanded here, so that no secret outlives the connection."""
        async with self._loading:  # ten servers that start at once would start ten threads for it
            if not is_loaded(server):
                await anyio.to_thread.run_sync(load, server)
        ready = await anyio.to_thread.run_sync(filled, server) if needs_filling(server) else server
        from mcphost.client.connect import ClientSessionOpener, server_digest
        from mcphost.transport.watchdog import Watchdog

        # An era that was demanded says nothing about what the server would have chosen.
        eras = self._eras if server.era == "auto" and server.revision is None else None
        if self._guardian is None:
            self._guardian = Watchdog(paths.state_dir() / "servers")
        opener = ClientSessionOpener(
            expand=str,
            limits=_limits_for(server, self._limits),
            eras=eras,
            watchdog=self._guardian,
            accounts=self._identified(server),
        )

        async def prepared() -> None:
            await prepare()
            await self._eras.load(server_digest(ready))

        async with opener.open(ready, responder, observer, prepared) as session:
            await self._eras.save()
            yield session

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """See client.session.Opener."""
        ready = await anyio.to_thread.run_sync(filled, server)
        from mcphost.client.connect import ClientSessionOpener

        await ClientSessionOpener(expand=str, accounts=self._identified(server)).sign_in(ready, observer, account)

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """See client.session.Opener."""
        ready = await anyio.to_thread.run_sync(filled, server)
        from mcphost.client.connect import ClientSessionOpener

        return await ClientSessionOpener(expand=str, accounts=self._identified(server)).sign_out(ready, observer)

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[Kept, ...]:
        """See client.session.Opener."""
        return await (await self._keeping()).list_accounts(servers)

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """See client.session.Opener."""
        await (await self._keeping()).use_account(server, account)

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """See client.session.Opener."""
        return await (await self._keeping()).sign_out_account(account, server)

    async def _keeping(self) -> "ClientSessionOpener":
        """For what is about kept sign-ins alone; what that needs is imported on a thread."""
        for name in ("client.connect", "auth.oauth_registry"):
            await anyio.to_thread.run_sync(import_module, f"mcphost.{name}")
        from mcphost.client.connect import ClientSessionOpener

        return ClientSessionOpener(expand=str, accounts=self._identified(None))

    def _identified(self, server: ServerConfig | None) -> "Identities | None":
        """Who signs in; not made for a program, which needs nobody. None as a server: for all there is."""
        if self._identities is None and self._make_identities is not None and not (server and server.is_stdio):
            self._identities = self._make_identities()
        return self._identities


def _limits_for(server: ServerConfig, limits: Limits) -> Limits:
    """More time to start for a command that fetches its program first, unless the user chose a time themselves."""
    if not is_installer(server.argv) or limits.connect_timeout != Limits().connect_timeout:
        return limits
    # What --timeout says holds for everything, a first start as well.
    longest = limits.request_timeout if limits.hard else START_SECONDS
    return replace(limits, connect_timeout=min(START_SECONDS, longest))


def _needed(server: ServerConfig) -> tuple[str, ...]:
    rooms = ("transport.stdio",) if server.is_stdio else ("transport.http", "auth.oauth_registry")
    return tuple(f"mcphost.{name}" for name in ("client.connect", *rooms))


def is_loaded(server: ServerConfig) -> bool:
    """Whether everything that connecting to it needs was imported before."""
    return all(name in sys.modules for name in _needed(server))


def load(server: ServerConfig) -> None:
    """Import what connecting to it needs; on a thread, where it holds up nobody."""
    for name in _needed(server):
        import_module(name)


def needs_filling(server: ServerConfig) -> bool:
    """Whether anything in its entry is filled in, or must be known to redact."""
    return bool(server.env or server.headers or not server.is_stdio)


def filled(server: ServerConfig) -> ServerConfig:
    """References filled in; and what connecting needs is imported, while this thread holds up nobody."""
    load(server)
    from mcphost.config.expansion import expand_oauth, expand_server

    def look_up(name: str) -> str | None:
        from mcphost.auth.keyring_backend import KeyringVault
        from mcphost.auth.secret_store import referenced

        return anyio.from_thread.run(referenced, KeyringVault(), paths.data_dir(), name)

    try:
        env, headers = expand_server(server, os.environ, look_up)
        oauth = expand_oauth(server, os.environ, look_up)
    except ConfigError as error:
        raise ConfigError(f"The server {server.name!r} was not started. {error.message}", error.hint) from error
    return replace(server, env=env, headers=headers, oauth=oauth)
