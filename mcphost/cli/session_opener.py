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
from mcphost.client.session import (
    Account,
    PrepareFn,
    RequestHandler,
    Session,
    SessionObserver,
    StoredAccount,
    prepare_nothing,
)
from mcphost.config.package_runners import INSTALLER_START_TIMEOUT, is_installer
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConfigError, StoreError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import replace
from mcphost.store.grants import GrantStore

if TYPE_CHECKING:
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.transport.watchdog import Watchdog


class PersistentEraStore:
    """EraStore over the store: read once before the first connection, written after each change."""

    def __init__(self, grants: GrantStore) -> None:
        self._grants = grants
        self._eras: dict[str, ServerEras] = {}
        self._unsaved: dict[str, ServerEras] = {}

    def get(self, server: str, digest: str) -> ServerEras | None:
        """What the last connection showed that the server speaks, or None."""
        return self._eras.get(digest)

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Remember what the server speaks."""
        if self._eras.get(digest) != eras:
            self._eras[digest] = self._unsaved[digest] = eras

    async def load(self, digest: str) -> None:
        """Learn what is stored; a store that fails means that the era is found anew."""
        if digest not in self._eras:
            try:
                eras = await self._grants.load_eras(digest)
            except StoreError:
                return
            if eras is not None:
                self._eras[digest] = eras

    async def save(self) -> None:
        """Write what is new; a store that fails costs a probe at the next start, nothing else."""
        while self._unsaved:
            digest, eras = self._unsaved.popitem()
            try:
                await self._grants.save_eras(digest, eras)
            except StoreError:
                return


class LazySessionOpener:
    """Opener: everything heavy is imported on a thread when the first server is opened.

    `identities` makes who signs in to HTTP servers, when the first of them is opened; None: nobody does.
    """

    def __init__(
        self, limits: Limits, grants: GrantStore, create_registry: "Callable[[], OAuthRegistry] | None" = None
    ) -> None:
        self._limits = limits
        self._create_registry = create_registry
        self._registry: OAuthRegistry | None = None
        self._eras = PersistentEraStore(grants)
        self._watchdog: Watchdog | None = None
        self._load_lock = anyio.Lock()

    async def close(self) -> None:
        """End what connections share; after the last one was closed."""
        guardian, self._watchdog = self._watchdog, None
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
        async with self._load_lock:  # ten servers that start at once would start ten threads for it
            if not is_loaded(server):
                await anyio.to_thread.run_sync(load_modules, server)
        ready = await anyio.to_thread.run_sync(expand_references, server) if needs_expansion(server) else server
        from mcphost.client.connect import ClientSessionOpener, server_digest
        from mcphost.transport.watchdog import Watchdog

        # An era that was demanded says nothing about what the server would have chosen.
        eras = self._eras if server.era == "auto" and server.revision is None else None
        if self._watchdog is None:
            self._watchdog = Watchdog(paths.state_dir() / "servers")
        opener = ClientSessionOpener(
            expand=str,
            limits=_startup_limits(server, self._limits),
            eras=eras,
            watchdog=self._watchdog,
            accounts=self._registry_for(server),
        )

        async def prepare_connection() -> None:
            await prepare()
            await self._eras.load(server_digest(ready))

        async with opener.open(ready, responder, observer, prepare_connection) as session:
            await self._eras.save()
            yield session

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """See client.session.Opener."""
        ready = await anyio.to_thread.run_sync(expand_references, server)
        from mcphost.client.connect import ClientSessionOpener

        await ClientSessionOpener(expand=str, accounts=self._registry_for(server)).sign_in(ready, observer, account)

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """See client.session.Opener."""
        ready = await anyio.to_thread.run_sync(expand_references, server)
        from mcphost.client.connect import ClientSessionOpener

        return await ClientSessionOpener(expand=str, accounts=self._registry_for(server)).sign_out(ready, observer)

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[StoredAccount, ...]:
        """See client.session.Opener."""
        return await (await self._account_opener()).list_accounts(servers)

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """See client.session.Opener."""
        await (await self._account_opener()).use_account(server, account)

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """See client.session.Opener."""
        return await (await self._account_opener()).sign_out_account(account, server)

    async def _account_opener(self) -> "ClientSessionOpener":
        """For what is about kept sign-ins alone; what that needs is imported on a thread."""
        for name in ("client.connect", "auth.oauth_registry"):
            await anyio.to_thread.run_sync(import_module, f"mcphost.{name}")
        from mcphost.client.connect import ClientSessionOpener

        return ClientSessionOpener(expand=str, accounts=self._registry_for(None))

    def _registry_for(self, server: ServerConfig | None) -> "OAuthRegistry | None":
        """Who signs in; not made for a program, which needs nobody. None as a server: for all there is."""
        if self._registry is None and self._create_registry is not None and not (server and server.is_stdio):
            self._registry = self._create_registry()
        return self._registry


def _startup_limits(server: ServerConfig, limits: Limits) -> Limits:
    """More time to start for a command that fetches its program first, unless the user chose a time themselves."""
    if not is_installer(server.argv) or limits.connect_timeout != Limits().connect_timeout:
        return limits
    # What --timeout says holds for everything, a first start as well.
    longest = limits.request_timeout if limits.includes_user_time else INSTALLER_START_TIMEOUT
    return replace(limits, connect_timeout=min(INSTALLER_START_TIMEOUT, longest))


def _required_modules(server: ServerConfig) -> tuple[str, ...]:
    rooms = ("transport.stdio",) if server.is_stdio else ("transport.http", "auth.oauth_registry")
    return tuple(f"mcphost.{name}" for name in ("client.connect", *rooms))


def is_loaded(server: ServerConfig) -> bool:
    """Whether everything that connecting to it needs was imported before."""
    return all(name in sys.modules for name in _required_modules(server))


def load_modules(server: ServerConfig) -> None:
    """Import what connecting to it needs; on a thread, where it holds up nobody."""
    for name in _required_modules(server):
        import_module(name)


def needs_expansion(server: ServerConfig) -> bool:
    """Whether anything in its entry is filled in, or must be known to redact."""
    return bool(server.env or server.headers or not server.is_stdio)


def expand_references(server: ServerConfig) -> ServerConfig:
    """References filled in; and what connecting needs is imported, while this thread holds up nobody."""
    load_modules(server)
    from mcphost.config.expansion import expand_oauth, expand_server

    def look_up(name: str) -> str | None:
        from mcphost.auth.keyring_backend import KeyringBackend
        from mcphost.auth.secret_store import resolve_reference

        return anyio.from_thread.run(resolve_reference, KeyringBackend(), paths.data_dir(), name)

    try:
        env, headers = expand_server(server, os.environ, look_up)
        oauth = expand_oauth(server, os.environ, look_up)
    except ConfigError as error:
        raise ConfigError(f"The server {server.name!r} was not started. {error.message}", error.hint) from error
    return replace(server, env=env, headers=headers, oauth=oauth)
