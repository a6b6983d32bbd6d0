"""AccountManager that imports its modules and creates the OAuth registry when they are first needed."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.cli.server_preparation import expand_references
from mcphost.client.session import SessionObserver
from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import has_secret_in_url, resolve_target

if TYPE_CHECKING:
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.account_manager import RegistryAccountManager
    from mcphost.client.session import Account, StoredAccount


class LazyAccountManager:
    """AccountManager that expands `${…}` references before it calls a RegistryAccountManager.

    *create_registry* is called when the first HTTP server is opened or an account is managed; None disables OAuth.
    """

    def __init__(self, create_registry: "Callable[[], OAuthRegistry] | None" = None) -> None:
        self._create_registry = create_registry
        self._registry: OAuthRegistry | None = None

    def enable_sign_in(self, create_registry: "Callable[[], OAuthRegistry]") -> None:
        """Set the function that creates the OAuth registry."""
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

        Its modules are imported in a thread.
        """
        for name in ("client.account_manager", "auth.oauth_registry"):
            await anyio.to_thread.run_sync(import_module, f"mcphost.{name}")
        from mcphost.client.account_manager import RegistryAccountManager

        return RegistryAccountManager(self.registry_for(server))

    def registry_for(self, server: ServerConfig | None) -> "OAuthRegistry | None":
        """Return the OAuth registry; create it first if needed, unless *server* is a stdio server.

        *server* is None for operations on stored accounts. Returns None if OAuth is disabled, or if the registry does
        not exist yet and *server* is a stdio server. Also returns None if the server's URL contains a reference to a
        secret: such a URL is a credential, and the list of accounts would contain it.
        """
        if server is not None and has_secret_in_url(server):
            return None
        if self._registry is None and self._create_registry is not None and not (server and server.is_stdio):
            self._registry = self._create_registry()
        return self._registry
