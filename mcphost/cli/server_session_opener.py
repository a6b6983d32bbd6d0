"""Session opener that imports modules lazily and remembers which protocol eras each server supports.

There are two protocol eras: the revisions with an `initialize` handshake, and those without one. `${…}` references in
the configuration are expanded in a thread.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost import paths
from mcphost.cli.server_preparation import expand_references, is_loaded, load_modules, needs_expansion
from mcphost.client.session import (
    PrepareFn,
    RequestHandler,
    Session,
    SessionObserver,
    prepare_nothing,
)
from mcphost.config.schema import Limits, ServerConfig
from mcphost.config.server_restrictions import INSTALLER_START_TIMEOUT, is_installer
from mcphost.config.variable_references import has_secret_in_url, resolve_target
from mcphost.errors import StoreError
from mcphost.protocol.revisions import ServerEras
from mcphost.serialization import replace
from mcphost.store.grants import GrantStore

if TYPE_CHECKING:
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.account_manager import RegistryAccountManager
    from mcphost.client.session import Account, StoredAccount
    from mcphost.transport.watchdog import Watchdog


class PersistentEraStore:
    """Store of the protocol eras that each server supports, so that known servers need not be probed again.

    The eras are "handshake" (protocol revisions up to 2025-11-25) and "stateless" (revisions since 2026-07-28). The
    eras of a server are loaded from the database before the first connection to this server, and saved when they
    change. A server is identified by its `client.connect.endpoint_digest`.
    """

    def __init__(self, grants: GrantStore) -> None:
        self._grants = grants
        self._eras: dict[str, ServerEras] = {}
        self._unsaved: dict[str, ServerEras] = {}

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return the protocol eras that the server supported at the last connection, or None if unknown.

        *digest* is the server's `endpoint_digest`.
        """
        return self._eras.get(digest)

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Store the protocol eras that the server supports, in memory only; `save` writes them to the database."""
        if self._eras.get(digest) != eras:
            self._eras[digest] = self._unsaved[digest] = eras

    async def load(self, digest: str) -> None:
        """Load the protocol eras of a server from the database; if this fails, treat them as unknown.

        *digest* is the server's `endpoint_digest`.
        """
        if digest not in self._eras:
            try:
                eras = await self._grants.load_eras(digest)
            except StoreError:
                return
            if eras is not None:
                self._eras[digest] = eras

    async def save(self) -> None:
        """Write changed protocol eras to the database.

        If this fails, mcphost probes those servers again after the next start.
        """
        while self._unsaved:
            digest, eras = self._unsaved.popitem()
            try:
                await self._grants.save_eras(digest, eras)
            except StoreError:
                return


class LazySessionOpener:
    """SessionOpener that imports heavy modules in a thread when the first server is opened.

    *create_registry* is called when the first HTTP server is opened. If it is None, OAuth is disabled until
    `account_manager.enable_sign_in` is called.
    """

    def __init__(
        self, limits: Limits, grants: GrantStore, create_registry: "Callable[[], OAuthRegistry] | None" = None
    ) -> None:
        self.account_manager = LazyAccountManager(create_registry)
        self.limits: Callable[[], Limits] = lambda: limits
        """Function that returns the limits for the next connection."""

        self._eras = PersistentEraStore(grants)
        self._watchdog: Watchdog | None = None
        self._load_lock = anyio.Lock()

    async def close(self) -> None:
        """Close the resources that connections share. Must be called after the last connection is closed."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            await watchdog.close()

    @asynccontextmanager
    async def open(
        self,
        server: ServerConfig,
        responder: RequestHandler,
        observer: SessionObserver,
        prepare: PrepareFn = prepare_nothing,
    ) -> AsyncGenerator[Session]:
        """Open a session with a server; see `client.session.SessionOpener`.

        The `${…}` references in the server's entry are expanded for this session only, so that secrets are kept no
        longer than the session lasts.
        """
        async with self._load_lock:  # otherwise, ten servers starting together would use ten threads
            if not is_loaded(server):
                await anyio.to_thread.run_sync(load_modules, server)
        ready = await anyio.to_thread.run_sync(expand_references, server) if needs_expansion(server) else server
        from mcphost.client.connect import ClientSessionOpener, endpoint_digest
        from mcphost.transport.watchdog import Watchdog

        # A configured era says nothing about which eras the server supports.
        eras = self._eras if server.era == "auto" and server.revision is None else None
        if self._watchdog is None:
            self._watchdog = Watchdog(paths.state_dir() / "servers")
        digest = endpoint_digest(resolve_target(server))
        opener = ClientSessionOpener(
            limits=_startup_limits(ready, self.limits()),
            digest=digest,
            eras=eras,
            watchdog=self._watchdog,
            accounts=self.account_manager.registry_for(server),
        )

        async def prepare_connection() -> None:
            await prepare()
            await self._eras.load(digest)

        async with opener.open(ready, responder, observer, prepare_connection) as session:
            await self._eras.save()
            yield session


def _startup_limits(server: ServerConfig, limits: Limits) -> Limits:
    """Return *limits*, with a longer connection timeout if the server's command first downloads a program.

    A timeout that the user has set is not changed.
    """
    if not is_installer(server.argv) or limits.connect_timeout != Limits().connect_timeout:
        return limits
    # --timeout applies to everything, including a first start.
    longest = limits.request_timeout if limits.includes_user_time else INSTALLER_START_TIMEOUT
    return replace(limits, connect_timeout=min(INSTALLER_START_TIMEOUT, longest))


class LazyAccountManager:
    """AccountManager that expands `${…}` references before it calls a RegistryAccountManager.

    *create_registry* is called when the first HTTP server is opened or an account is managed. If it is None, OAuth is
    disabled until `enable_sign_in` is called.
    """

    def __init__(self, create_registry: "Callable[[], OAuthRegistry] | None" = None) -> None:
        self._create_registry = create_registry
        self._registry: OAuthRegistry | None = None

    def enable_sign_in(self, create_registry: "Callable[[], OAuthRegistry]") -> None:
        """Enable OAuth; *create_registry* creates the OAuth registry when it is first needed."""
        self._create_registry = create_registry

    def ask_passphrase_again(self) -> None:
        """Let the next connection ask for the passphrase again; see `client.session.AccountManager`."""
        if self._registry is not None:
            self._registry.token_store.storage.ask_again()

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Ask the user to sign in to a server again; see `client.session.AccountManager`."""
        accounts, ready = await self._prepare(server)
        await accounts.sign_in(ready, observer, account)

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete and revoke the tokens of the server's current account; see `client.session.AccountManager`."""
        accounts, ready = await self._prepare(server)
        return await accounts.sign_out(ready, observer)

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> "tuple[StoredAccount, ...]":
        """Return all stored accounts, each with the servers that can use it; see `client.session.AccountManager`."""
        return await (await self._accounts_of(None)).list_accounts(tuple(map(resolve_target, servers)))

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Select a stored account for future connections to a server; see `client.session.AccountManager`."""
        await (await self._accounts_of(None)).use_account(resolve_target(server), account)

    async def sign_out_account(self, account: "Account", server: ServerConfig | None) -> bool:
        """Delete and revoke the tokens of a stored account; see `client.session.AccountManager`."""
        target = resolve_target(server) if server is not None else None
        return await (await self._accounts_of(None)).sign_out_account(account, target)

    async def _prepare(self, server: ServerConfig) -> "tuple[RegistryAccountManager, ServerConfig]":
        """Return a manager for the accounts that *server* may use, and *server* with expanded references.

        References are placeholders in the configuration, such as `${env:NAME}`.
        """
        ready = await anyio.to_thread.run_sync(expand_references, server)
        return await self._accounts_of(server), ready

    async def _accounts_of(self, server: ServerConfig | None) -> "RegistryAccountManager":
        """Return a manager for the accounts that *server* may use, or for all accounts if *server* is None.

        The modules that the manager needs are imported in a thread.
        """
        for name in ("client.account_manager", "auth.oauth_registry"):
            await anyio.to_thread.run_sync(import_module, f"mcphost.{name}")
        from mcphost.client.account_manager import RegistryAccountManager

        return RegistryAccountManager(self.registry_for(server))

    def registry_for(self, server: ServerConfig | None) -> "OAuthRegistry | None":
        """Return the OAuth registry for *server*, or for all stored accounts if *server* is None.

        The registry is created on first use, but not for a stdio server. Returns None if OAuth is disabled, if only
        stdio servers have been used so far, or if the server's URL refers to a secret, which the list of accounts would
        reveal because it contains the complete URL.
        """
        if server is not None and has_secret_in_url(server):
            return None
        if self._registry is None and self._create_registry is not None and not (server and server.is_stdio):
            self._registry = self._create_registry()
        return self._registry
