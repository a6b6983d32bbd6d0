"""Account management backed by an OAuth registry, and access to the OAuth provider of a server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcphost.client.session import SessionObserver
from mcphost.config.schema import ServerConfig
from mcphost.errors import SignInRequired

if TYPE_CHECKING:
    from mcphost.auth.oauth_provider import OAuthProvider
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.client.session import Account, StoredAccount


class RegistryAccountManager:
    """AccountManager for the accounts in an OAuth registry; without a registry, users cannot sign in.

    The `${…}` references in a server's configuration must already be expanded.
    """

    def __init__(self, registry: "OAuthRegistry | None") -> None:
        self.registry = registry

    def ask_passphrase_again(self) -> None:
        """Allow another prompt for the passphrase of the secrets file; see `AccountManager.ask_passphrase_again`."""
        if self.registry is not None:
            self.registry.token_store.storage.ask_again()

    async def sign_in(self, server: ServerConfig, observer: SessionObserver, account: str | None = None) -> None:
        """Let the user sign in again; see `AccountManager.sign_in`."""
        from mcphost.proxies import proxy_for

        self.ask_passphrase_again()
        oauth = observed_provider(self.registry, server, observer)
        if oauth is None:
            raise SignInRequired(
                f"The server {server.name!r} has a configured Authorization header, or you cannot sign in here.",
                "Remove the header in mcp.json to sign in instead.",
                server=server.name,
            )
        if account is None or self.registry is None:
            await oauth.login()
        else:
            await self.registry.sign_in(server, account, proxy_for=proxy_for)

    async def sign_out(self, server: ServerConfig, observer: SessionObserver) -> bool:
        """Delete and revoke the current account's tokens; see `AccountManager.sign_out`."""
        oauth = observed_provider(self.registry, server, observer)
        if oauth is None or self.registry is None:
            return False
        return await self.registry.sign_out(server, oauth)

    async def list_accounts(self, servers: Sequence[ServerConfig]) -> "tuple[StoredAccount, ...]":
        """Return the stored accounts; see `AccountManager.list_accounts`."""
        return () if self.registry is None else await self.registry.list_accounts(servers)

    async def use_account(self, server: ServerConfig, account: str) -> None:
        """Select an account for later connections; see `AccountManager.use_account`."""
        if self.registry is not None:
            await self.registry.choose_account(server, account)

    async def sign_out_account(self, account: "Account", server: ServerConfig | None) -> bool:
        """Sign out of a stored account; see `AccountManager.sign_out_account`."""
        if self.registry is None:
            return False
        from mcphost.proxies import proxy_for

        return (await self.registry.sign_out_stored(account, server, proxy_for=proxy_for))[1]


def observed_provider(
    registry: "OAuthRegistry | None", server: ServerConfig, observer: SessionObserver
) -> "OAuthProvider | None":
    """Return the OAuth provider for a remote server, and make it report its account to *observer*.

    The account is reported immediately and whenever it changes. Returns None if the server is local, if there is no
    OAuth registry, or if the configuration sets the Authorization header.
    """
    if registry is None or server.is_stdio:
        return None
    from mcphost.proxies import proxy_for  # takes 3 MB of memory, which local servers do not need

    registry.set_log(server.name, observer.message_log)
    oauth = registry.get_provider(server, proxy_for=proxy_for)
    if oauth is not None:
        oauth.set_account_listener(observer.on_account_changed)
    return oauth
