"""Stored sign-ins of a server that a command removes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcphost.auth.accounts import Account
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.cli.parser import Options
    from mcphost.config.schema import HostConfig, ServerConfig


class StoredSignIns:
    """The stored sign-ins that only one server can use."""

    def __init__(
        self, accounts: "Sequence[Account]", registry: "OAuthRegistry | None", approved: "ServerConfig | None"
    ) -> None:
        self._accounts = accounts
        self._registry = registry
        self._approved = approved

    @classmethod
    async def load(cls, options: "Options", config: "HostConfig", server: "ServerConfig") -> "StoredSignIns":
        """Return the stored sign-ins that no other server of *config* can use."""
        if server.is_stdio:
            return cls((), None, None)
        from mcphost.cli.accounts import approved_or_none
        from mcphost.cli.bootstrap import create_oauth_registry
        from mcphost.cli.output import print_note
        from mcphost.config.references import resolve_target
        from mcphost.host.questions.frontend import RefusingFrontend

        registry = create_oauth_registry(options, RefusingFrontend(), config.secret_store)
        registry.token_store.warn = print_note
        stored = await registry.list_accounts(tuple(map(resolve_target, config.servers)))
        own = [one.account for one in stored if one.servers == (server.name,)]
        return cls(own, registry, await approved_or_none(server))

    def describe(self) -> tuple[str, ...]:
        """Return a phrase for each sign-in, such as "sign-in: work at https://login.example"."""
        return tuple(f"sign-in: {account.name} at {account.issuer}" for account in self._accounts)

    async def sign_out(self) -> tuple[str, ...]:
        """Delete the sign-ins and revoke their tokens; return what was deleted."""
        from mcphost.transport.http_client import proxy_for

        if self._registry is None:
            return ()
        for account in self._accounts:
            await self._registry.sign_out_stored(account, self._approved, proxy_for=proxy_for)
        return self.describe()
