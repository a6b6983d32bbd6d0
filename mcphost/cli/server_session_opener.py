"""Session opener that imports modules lazily, expands `${…}` references in a thread, and stores protocol eras.

The protocol eras are the two groups of protocol revisions, with and without an `initialize` handshake.
"""

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
from mcphost.config.schema import Limits, ServerConfig
from mcphost.config.server_restrictions import INSTALLER_START_TIMEOUT, is_installer
from mcphost.config.target_secrets import find_target_secrets
from mcphost.config.variable_references import expand_target, has_secret_in_url, has_target_references, resolve_target
from mcphost.errors import ConfigError, StoreError
from mcphost.protocol.revisions import ServerEras
from mcphost.redact import register_secret
from mcphost.serialization import replace
from mcphost.store.grants import GrantStore

if TYPE_CHECKING:
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.transport.watchdog import Watchdog


class PersistentEraStore:
    """Database-backed store of the protocol eras that each server supports.

    With it, mcphost need not probe known servers again. The eras are handshake (protocol revisions up to
    2025-11-25) and stateless (revisions since 2026-07-28). They are loaded before the first connection to a
    server and saved when they change. A server is identified by its `client.connect.endpoint_digest`.
    """

    def __init__(self, grants: GrantStore) -> None:
        self._grants = grants
        self._eras: dict[str, ServerEras] = {}
        self._unsaved: dict[str, ServerEras] = {}

    def get(self, server: str, digest: str) -> ServerEras | None:
        """Return the protocol eras that the server supported at the last connection, or None if they are unknown."""
        return self._eras.get(digest)

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        """Store the protocol eras that the server supports, in memory only; `save` writes them to the database."""
        if self._eras.get(digest) != eras:
            self._eras[digest] = self._unsaved[digest] = eras

    async def load(self, digest: str) -> None:
        """Load the protocol eras of a server from the database; if this fails, treat them as unknown."""
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

    The OAuth registry is created by `create_registry` when the first HTTP server is opened; None disables OAuth.
    """

    def __init__(
        self, limits: Limits, grants: GrantStore, create_registry: "Callable[[], OAuthRegistry] | None" = None
    ) -> None:
        self.limits: Callable[[], Limits] = lambda: limits
        """Function that returns the limits for the next connection."""

        self._create_registry = create_registry
        self._registry: OAuthRegistry | None = None
        self._eras = PersistentEraStore(grants)
        self._watchdog: Watchdog | None = None
        self._load_lock = anyio.Lock()

    def enable_sign_in(self, create_registry: "Callable[[], OAuthRegistry]") -> None:
        """Set the function that creates the OAuth registry when the first HTTP server is opened."""
        self._create_registry = create_registry

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

        The `${…}` references in the server's entry are expanded only here, so that secrets are kept no longer than the
        connection lasts.
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
            accounts=self._registry_for(server),
        )

        async def prepare_connection() -> None:
            await prepare()
            await self._eras.load(digest)

        async with opener.open(ready, responder, observer, prepare_connection) as session:
            await self._eras.save()
            yield session

    def ask_passphrase_again(self) -> None:
        """Let the next connection ask for the passphrase again; see `client.session.SessionOpener`."""
        if self._registry is not None:
            self._registry.token_store.storage.ask_again()

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Ask the user to sign in to a server again; see `client.session.SessionOpener`."""
        ready = await anyio.to_thread.run_sync(expand_references, server)
        from mcphost.client.connect import ClientSessionOpener

        await ClientSessionOpener(accounts=self._registry_for(server)).sign_in(ready, observer, account)

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete and revoke the tokens of the server's current account; see `client.session.SessionOpener`."""
        ready = await anyio.to_thread.run_sync(expand_references, server)
        from mcphost.client.connect import ClientSessionOpener

        return await ClientSessionOpener(accounts=self._registry_for(server)).sign_out(ready, observer)

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[StoredAccount, ...]:
        """Return all stored accounts, each with the servers that can use it; see `client.session.SessionOpener`."""
        return await (await self._account_opener()).list_accounts(tuple(map(resolve_target, servers)))

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Select a stored account for future connections to a server; see `client.session.SessionOpener`."""
        await (await self._account_opener()).use_account(resolve_target(server), account)

    async def sign_out_account(self, account: Account, server: ServerConfig | None) -> bool:
        """Delete and revoke the tokens of a stored account; see `client.session.SessionOpener`."""
        opener = await self._account_opener()
        return await opener.sign_out_account(account, resolve_target(server) if server is not None else None)

    async def _account_opener(self) -> "ClientSessionOpener":
        """Return an opener for managing stored accounts, after importing its modules in a thread."""
        for name in ("client.connect", "auth.oauth_registry"):
            await anyio.to_thread.run_sync(import_module, f"mcphost.{name}")
        from mcphost.client.connect import ClientSessionOpener

        return ClientSessionOpener(accounts=self._registry_for(None))

    def _registry_for(self, server: ServerConfig | None) -> "OAuthRegistry | None":
        """Return the OAuth registry; create it first if needed, unless *server* is a stdio server.

        *server* is None for operations on stored accounts. Returns None if OAuth is disabled, if the registry does not
        exist yet and *server* is a stdio server, or if the server's URL contains a reference to a secret: such a URL is
        the server's credential, and would stand in the list of accounts.
        """
        if server is not None and has_secret_in_url(server):
            return None
        if self._registry is None and self._create_registry is not None and not (server and server.is_stdio):
            self._registry = self._create_registry()
        return self._registry


def _startup_limits(server: ServerConfig, limits: Limits) -> Limits:
    """Return *limits*, with a longer connection timeout if the server's command first downloads a program.

    A timeout that the user has set is not changed.
    """
    if not is_installer(server.argv) or limits.connect_timeout != Limits().connect_timeout:
        return limits
    # --timeout applies to everything, including a first start.
    longest = limits.request_timeout if limits.includes_user_time else INSTALLER_START_TIMEOUT
    return replace(limits, connect_timeout=min(INSTALLER_START_TIMEOUT, longest))


def _required_modules(server: ServerConfig) -> tuple[str, ...]:
    modules = ("transport.stdio",) if server.is_stdio else ("transport.streamable_http", "auth.oauth_registry")
    return tuple(f"mcphost.{name}" for name in ("client.connect", *modules))


def is_loaded(server: ServerConfig) -> bool:
    """Return whether the modules needed to connect to *server* have been imported."""
    return all(name in sys.modules for name in _required_modules(server))


def load_modules(server: ServerConfig) -> None:
    """Import the modules needed to connect to *server*. This is slow, so it should be called in a thread."""
    for name in _required_modules(server):
        import_module(name)


def needs_expansion(server: ServerConfig) -> bool:
    """Return whether the server's entry may contain `${…}` references to expand or secrets to redact."""
    if server.env or server.env_file or server.headers or not server.is_stdio:
        return True
    return has_target_references(server) or bool(find_target_secrets(server))


def expand_references(server: ServerConfig) -> ServerConfig:
    """Return the server with all `${…}` references expanded, after importing the modules needed to connect to it.

    Must be called in an anyio worker thread. Raises ConfigError.
    """
    load_modules(server)
    from mcphost.config.env_file import read_env_file
    from mcphost.config.secrets import expand_oauth, expand_server

    def look_up(name: str) -> str | None:
        from mcphost.auth.keyring_backend import KeyringBackend
        from mcphost.auth.secret_store import resolve_reference

        return anyio.from_thread.run(resolve_reference, KeyringBackend(), paths.data_dir(), name)

    try:
        target = expand_target(server, os.environ, look_up)
        env, headers = expand_server(server, os.environ, look_up, read_env_file(server, os.environ))
        oauth = expand_oauth(server, os.environ, look_up)
        for span in find_target_secrets(server):
            register_secret(span.value)
    except ConfigError as error:
        raise ConfigError(f"The server {server.name!r} was not started. {error.message}", error.hint) from error
    return replace(target, env=env, headers=headers, oauth=oauth)
