"""Registry of the OAuth providers of all configured HTTP servers.

The providers share the token store and the user interface.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from shlex import quote
from typing import TYPE_CHECKING

from mcphost.auth.accounts import DEFAULT_ACCOUNT_NAME, Account, StoredAccount, account_key, hide_query
from mcphost.auth.client_grants import ClientGrant
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.sign_in_context import (
    DEFAULT_TIMEOUT,
    ProgressCallback,
    SignInInteraction,
    SignInTarget,
    ignore_progress,
)
from mcphost.auth.token_store import TokenStore
from mcphost.auth.url_policy import UrlPolicy, url_origin
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.config.variable_references import resolve_target
from mcphost.errors import UsageError
from mcphost.serialization import replace

if TYPE_CHECKING:
    from mcphost.message_log import MessageLog


class OAuthRegistry:
    """The OAuth providers of all servers; each provider is created on first use.

    *client_metadata_url* is the URL of mcphost's client metadata document, or "" if none is published.
    *max_timeout* limits the time for a sign-in, in seconds, even if the configuration allows more; None means
    no limit.
    """

    def __init__(
        self,
        token_store: TokenStore,
        interaction: SignInInteraction | None,
        *,
        client_metadata_url: str = "",
        on_progress: ProgressCallback = ignore_progress,
        max_timeout: float | None = None,
    ) -> None:
        self._on_progress = on_progress
        self.token_store = token_store
        self._interaction = interaction
        self._client_metadata_url = client_metadata_url
        self._max_timeout = max_timeout or inf
        self._providers: dict[tuple[str, str, OAuthConfig, str], OAuthProvider] = {}
        self._http_clients: dict[tuple[str, str, OAuthConfig, str], OAuthHttpClient] = {}
        self._logs: dict[str, MessageLog] = {}

    def set_log(self, server: str, log: "MessageLog | None") -> None:
        """Log later OAuth requests for the server named *server* to *log*; if *log* is None, change nothing."""
        if log is not None:
            self._logs[server] = log

    def get_provider(self, server: ServerConfig, *, proxy_for: Callable[[str], str]) -> OAuthProvider | None:
        """Return the provider shared by all connections to a server, or None if the server does not use OAuth.

        Variable references such as `${keyring:NAME}` in *server* must already be expanded. If *server* contains a
        digest of its certificate authority file, all later OAuth requests require that the file has this digest.
        *proxy_for* returns the proxy for a URL, or "" for none.
        """
        if not uses_oauth(server):
            return None
        key = (server.name, server.url, server.oauth, server.ca_file)
        provider = self._providers.get(key)
        if provider is None:
            target = make_target(server, self._client_metadata_url)
            target = replace(target, timeout=min(target.timeout, self._max_timeout))
            url_policy = UrlPolicy(server.url, allow_private=server.oauth.private)
            self._http_clients[key] = OAuthHttpClient(
                url_policy, proxy_for=proxy_for, ca_file=server.ca_file, find_log=partial(self._logs.get, server.name)
            )
            provider = self._providers[key] = OAuthProvider(
                target,
                self._http_clients[key],
                self.token_store,
                self._interaction,
                make_client_grant(server, target),
                self._on_progress,
            )
        if server.ca_digest:
            self._http_clients[key].pin_ca_digest(server.ca_digest)
        return provider

    # -- accounts
    async def list_accounts(self, servers: Sequence[ServerConfig]) -> tuple[StoredAccount, ...]:
        """Return all stored accounts, each with the names of the *servers* that can use it."""
        using = [server for server in servers if uses_oauth(server) and server.oauth.grant == "person"]
        used = {
            server.name: (hide_query(make_target(server).canonical_url), await self._chosen_account(server))
            for server in using
        }
        configured = {server.name for server in using if server.oauth.account}
        stored_accounts: list[StoredAccount] = []
        for account in await self.token_store.accounts():
            names = tuple(name for name, (url, _) in used.items() if url == account.url)
            used_by = tuple(name for name in names if used[name] == account.identity)
            configured_by = tuple(name for name in used_by if name in configured)
            stored_accounts.append(
                StoredAccount(account=account, servers=names, used_by=used_by, configured_by=configured_by)
            )
        return tuple(stored_accounts)

    async def choose_account(self, server: ServerConfig, account: str) -> None:
        """Select a stored account for new connections to the server, in this run and later ones.

        Open connections continue to use their account. Raises UsageError if there is no such account, or if the
        server's configuration already sets the account to use.
        """
        target = self._choosable_target(server)
        names = {
            entry.account: entry.name
            for entry in await self.token_store.accounts()
            if entry.url == hide_query(target.canonical_url)
        }
        if account_key(account) not in names:
            raise UsageError(
                f"You are not signed in to {server.name!r} as {account!r}.",
                f"Accounts: {', '.join(sorted(names.values()))}. "
                f"Sign in: mcphost login {quote(server.name)} --account {quote(account)}"
                if names
                else f"Sign in: mcphost login {quote(server.name)} --account {quote(account)}",
            )
        await self.token_store.choose_account(target.canonical_url, account_key(account))
        self.discard_providers(server)

    async def sign_in(self, server: ServerConfig, account: str, *, proxy_for: Callable[[str], str]) -> None:
        """Let the user sign in to the account named *account*, and select it once the sign-in is complete.

        Variable references such as `${keyring:NAME}` in *server* must already be expanded. *proxy_for* returns the
        proxy for a URL, or "" for none. Raises SignInRequired or UsageError.
        """
        if server.oauth.account != account:
            self._choosable_target(server)
        with_account = replace(server, oauth=replace(server.oauth, account=account or DEFAULT_ACCOUNT_NAME))
        provider = self.get_provider(with_account, proxy_for=proxy_for)
        if provider is None:
            raise UsageError(f"The server {server.name!r} has a configured Authorization header.")
        await provider.login()
        if not server.oauth.account:
            await provider.select_account()
        self.discard_providers(server)

    async def sign_out(self, server: ServerConfig, oauth: OAuthProvider) -> bool:
        """Sign out of the account that the provider *oauth* uses; return whether its tokens were revoked.

        The server is not switched to another stored account.
        """
        _, revoked = await oauth.logout()
        if not server.oauth.account:
            await self._clear_choice(make_target(server).canonical_url)
        self.discard_providers(server)
        return revoked

    async def _clear_choice(self, url: str) -> None:
        """Clear the account selection for the server at *url*, so that the default account is used.

        If other accounts are stored for the server, the selection is kept, because the server might otherwise be used
        with an account that the user did not select.
        """
        if all(entry.url != hide_query(url) for entry in await self.token_store.accounts()):
            await self.token_store.choose_account(url, None)

    async def sign_out_stored(
        self, account: Account, server: ServerConfig | None, *, proxy_for: Callable[[str], str]
    ) -> tuple[bool, bool]:
        """Sign out of a stored account; *server* is None if the server is no longer configured.

        *proxy_for* returns the proxy for a URL, or "" for none. Returns whether the account existed, and whether
        the authorization server revoked its tokens.
        """
        erased, is_revoked = await self.make_stored_provider(account, server, proxy_for=proxy_for).logout()
        await self._clear_choice(account.url)
        return erased is not None, is_revoked

    async def apply_account_choice(self, server: ServerConfig) -> None:
        """Discard the server's providers if they do not use the account that is selected now.

        Called before connecting, because another process may have changed the selection.
        """
        providers = [provider for key, provider in self._providers.items() if key[0] == server.name]
        chosen = await self.token_store.chosen_account(make_target(server).canonical_url)
        if not server.oauth.account and any(provider.account_name not in (None, chosen) for provider in providers):
            self.discard_providers(server)

    def discard_providers(self, server: ServerConfig) -> None:
        """Discard the server's providers, so that the next connection determines again which account to use."""
        for key in [key for key in self._providers if key[0] == server.name]:
            del self._http_clients[key]
            self._providers.pop(key).detach()

    async def _chosen_account(self, server: ServerConfig) -> str:
        target = make_target(server)
        return (
            target.account
            if target.is_account_configured
            else await self.token_store.chosen_account(target.canonical_url)
        )

    def _choosable_target(self, server: ServerConfig) -> SignInTarget:
        """Return the SignInTarget of a server for which the user can select an account.

        Raises UsageError if the server uses no account, or if its configuration already sets the account to use.
        """
        if not uses_oauth(server) or server.oauth.grant != "person":
            raise UsageError(f"{server.name!r} signs in as {server.file} says; there is no account to select.")
        if server.oauth.account:
            raise UsageError(
                f"{server.file} sets the account {server.oauth.account!r} for {server.name!r}.",
                'Remove "mcphost": {"oauth": {"account"}} there to select one here.',
            )
        return make_target(server)

    def make_stored_provider(
        self, account: Account, server: ServerConfig | None, *, proxy_for: Callable[[str], str]
    ) -> OAuthProvider:
        """Create a provider that can sign out of a stored account.

        *server* is the configured server with the same name as the account's server, if any. It may be a different
        server, so its settings are used only if its URL has the same origin as the account's URL. *proxy_for* returns
        the proxy for a URL, or "" for none.
        """
        if server is not None and url_origin(resolve_target(server).url) != url_origin(account.url):
            server = None
        target = SignInTarget(
            server=account.server, url=account.url, account=account.account, is_account_configured=True
        )
        url_policy = UrlPolicy(account.url, allow_private=server.oauth.private if server else False)
        http = OAuthHttpClient(
            url_policy,
            proxy_for=proxy_for,
            ca_file=server.ca_file if server else "",
            find_log=partial(self._logs.get, server.name if server else ""),
        )
        return OAuthProvider(target, http, self.token_store, None)


def uses_oauth(server: ServerConfig) -> bool:
    """Return whether the server may require an OAuth sign-in.

    The result is True if the server uses HTTP and has no configured Authorization header.
    """
    return not server.is_stdio and not any(name.lower() == "authorization" for name in server.headers)


def make_target(server: ServerConfig, client_metadata_url: str = "") -> SignInTarget:
    """Create a server's SignInTarget from its configuration: its URL, issuer, OAuth client and account.

    *client_metadata_url* is used if no URL of a client metadata document is configured for the server.
    """
    oauth = server.oauth
    return SignInTarget(
        server=server.name,
        url=server.url,
        account=account_key(oauth.account),
        is_account_configured=bool(oauth.account),
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        issuer=oauth.issuer,
        port=oauth.port,
        client_metadata_url=oauth.client_metadata_url or client_metadata_url,
        timeout=oauth.seconds or DEFAULT_TIMEOUT,
    )


def make_client_grant(server: ServerConfig, target: SignInTarget) -> ClientGrant | None:
    """Return the OAuth grant configured for the server, or None if the user must sign in."""
    oauth = server.oauth
    if oauth.grant == "person":
        return None
    return ClientGrant(
        grant=oauth.grant,
        target=target,
        scopes=oauth.scopes,
        resource=oauth.resource,
        key=oauth.key,
        algorithm=oauth.algorithm,
        assertion=oauth.assertion,
        idp_token=oauth.idp_token,
        idp_client_id=oauth.idp_client_id,
        idp_token_endpoint=oauth.idp_token_endpoint,
    )
