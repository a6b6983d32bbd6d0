"""Who signs in to which server: one OAuth for each configured HTTP server, all sharing vault, index and person."""

from collections.abc import Callable, Sequence
from math import inf
from shlex import quote

from mcphost.auth.account import UNNAMED, Account, Kept, account_key
from mcphost.auth.client_grants import Machine
from mcphost.auth.oauth_http import Requests
from mcphost.auth.oauth_provider import OAuth
from mcphost.auth.sign_in_target import SECONDS, Target
from mcphost.auth.token_store import Keep
from mcphost.auth.url_policy import Guard
from mcphost.auth.user_interaction import Person, Tell, unheard
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.errors import UsageError
from mcphost.serialization import replace

Warn = Callable[[str], None]
Signed = Callable[[Account | None], None]


class Identities:
    """`document_url` is where our client metadata document is published, "" for nowhere; `told` hears of each step.

    `longest`: how many seconds a person may take at most, whatever is configured; None for no such limit.
    """

    def __init__(
        self,
        keep: Keep,
        person: Person | None,
        *,
        document_url: str = "",
        told: Tell = unheard,
        longest: float | None = None,
    ) -> None:
        self._told = told
        self.keep = keep
        self._person = person
        self._document_url = document_url
        self._longest = longest or inf
        self._known: dict[tuple[str, str, OAuthConfig], OAuth] = {}
        self._requests: dict[tuple[str, str, OAuthConfig], Requests] = {}

    def of(
        self, server: ServerConfig, *, warn: Warn, proxy_for: Callable[[str], str], signed: Signed | None = None
    ) -> OAuth | None:
        """The same one at each connection, so that a sign-in survives them; None where the user wrote a header.

        `server` has its references filled in. `warn` hears what the user should know about keeping secrets,
        `signed` which sign-in is used.
        """
        if not signs_in(server):
            return None
        self.keep.warn = warn
        key = (server.name, server.url, server.oauth)
        known = self._known.get(key)
        if known is None:
            target = target_of(server, self._document_url)
            target = replace(target, seconds=min(target.seconds, self._longest))
            guard = Guard(server.url, private=server.oauth.private)
            self._requests[key] = Requests(guard, proxy_for=proxy_for, ca_file=server.ca_file)
            known = self._known[key] = OAuth(
                target,
                self._requests[key],
                self.keep,
                self._person,
                machine_of(server, target),
                self._told,
            )
        if server.ca_digest:
            self._requests[key].bind_authorities(server.ca_digest)
        if signed is not None:
            known.tell(signed)
        return known

    # -- several accounts
    async def kept(self, servers: Sequence[ServerConfig]) -> tuple[Kept, ...]:
        """Every sign-in there is, and which of these servers use it."""
        using = [server for server in servers if signs_in(server) and server.oauth.grant == "person"]
        used = {server.name: (target_of(server).key, await self._used(server)) for server in using}
        fixed = {server.name for server in using if server.oauth.account}
        out: list[Kept] = []
        for one in await self.keep.accounts():
            there = tuple(name for name, (url, _) in used.items() if url == one.url)
            by = tuple(name for name in there if used[name] == one.whose)
            fixed_by = tuple(name for name in by if name in fixed)
            out.append(Kept(account=one, servers=there, used_by=by, fixed_by=fixed_by))
        return tuple(out)

    async def use(self, server: ServerConfig, account: str) -> None:
        """From now on, and in later runs, that server is used with that account; connections that are open go on with
        theirs. Raises UsageError when nobody is signed in by that name, or the user's file says which account it is."""
        target = self._free(server)
        names = {one.account: one.name for one in await self.keep.accounts() if one.url == target.key}
        if account_key(account) not in names:
            raise UsageError(
                f"Nobody is signed in to {server.name!r} as {account!r}.",
                f"There {'is' if len(names) == 1 else 'are'}: {', '.join(sorted(names.values())) or 'nobody'}. "
                f"Sign in with: mcphost login {quote(server.name)} --account {quote(account)}",
            )
        await self.keep.choose(target.key, account_key(account))
        self.drop(server)

    async def sign_in(self, server: ServerConfig, account: str, *, warn: Warn, proxy_for: Callable[[str], str]) -> None:
        """Have a person sign in under that name, and use it from then on. Until it is done nothing is changed.

        `server` has its references filled in. Raises SignInRequired, UsageError.
        """
        if server.oauth.account != account:
            self._free(server)
        named = replace(server, oauth=replace(server.oauth, account=account or UNNAMED))
        other = self.of(named, warn=warn, proxy_for=proxy_for)
        if other is None:
            raise UsageError(f"The server {server.name!r} has an Authorization header of its own.")
        await other.login()
        if not server.oauth.account:
            await other.use()
        self.drop(server)

    async def sign_out(self, server: ServerConfig, oauth: OAuth) -> bool:
        """Sign out of the account that is used; whether it was revoked. No other one is used instead."""
        _, revoked = await oauth.logout()
        if not server.oauth.account:
            await self._unchoose(target_of(server).key)
        self.drop(server)
        return revoked

    async def _unchoose(self, url: str) -> None:
        """No choice any more. While there are other accounts the one that is gone stays chosen: else the one without a
        name would be used, and nobody said that it should be."""
        if all(one.url != url for one in await self.keep.accounts()):
            await self.keep.choose(url, None)

    async def sign_out_kept(
        self, account: Account, server: ServerConfig | None, *, proxy_for: Callable[[str], str]
    ) -> tuple[bool, bool]:
        """Sign out of what is kept; whether there was something, and whether it was revoked."""
        gone, revoked = await self.stored(account, server, proxy_for=proxy_for).logout()
        await self._unchoose(account.url)
        return gone is not None, revoked

    async def follow(self, server: ServerConfig) -> None:
        """Before a connection: somebody else, such as another process, may have chosen another account meanwhile."""
        known = [one for key, one in self._known.items() if key[0] == server.name]
        chosen = await self.keep.chosen(target_of(server).key)
        if not server.oauth.account and any(one.whose not in (None, chosen) for one in known):
            self.drop(server)

    def drop(self, server: ServerConfig) -> None:
        """The next connection asks anew which account is used."""
        for key in [key for key in self._known if key[0] == server.name]:
            del self._requests[key]
            self._known.pop(key).drop()

    async def _used(self, server: ServerConfig) -> str:
        target = target_of(server)
        return target.account if target.named else await self.keep.chosen(target.key)

    def _free(self, server: ServerConfig) -> Target:
        """What there is to choose an account for. Raises UsageError."""
        if not signs_in(server) or server.oauth.grant != "person":
            raise UsageError(f"{server.name!r} signs in as {server.file} says; there is no account to choose.")
        if server.oauth.account:
            raise UsageError(
                f"{server.file} says that {server.name!r} is used with the account {server.oauth.account!r}.",
                'Remove "mcphost": {"oauth": {"account"}} there to choose here.',
            )
        return target_of(server)

    def stored(self, account: Account, server: ServerConfig | None, *, proxy_for: Callable[[str], str]) -> OAuth:
        """For signing out of what is kept, also when its server is not configured any more (None)."""
        target = Target(server=account.server, url=account.url, account=account.account, named=True)
        guard = Guard(account.url, private=server.oauth.private if server else False)
        requests = Requests(guard, proxy_for=proxy_for, ca_file=server.ca_file if server else "")
        return OAuth(target, requests, self.keep, None)


def signs_in(server: ServerConfig) -> bool:
    """Whether there is anything to sign in to: not for programs, nor where the user wrote the header."""
    return not server.is_stdio and not any(name.lower() == "authorization" for name in server.headers)


def target_of(server: ServerConfig, document_url: str = "") -> Target:
    """What there is to sign in to."""
    oauth = server.oauth
    return Target(
        server=server.name,
        url=server.url,
        account=account_key(oauth.account),
        named=bool(oauth.account),
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        issuer=oauth.issuer,
        port=oauth.port,
        document_url=oauth.document_url or document_url,
        seconds=oauth.seconds or SECONDS,
    )


def machine_of(server: ServerConfig, target: Target) -> Machine | None:
    """How to sign in without a person, when the user configured that."""
    oauth = server.oauth
    if oauth.grant == "person":
        return None
    return Machine(
        grant=oauth.grant,
        target=target,
        scopes=oauth.scopes,
        key=oauth.key,
        algorithm=oauth.algorithm,
        assertion=oauth.assertion,
        idp_token=oauth.idp_token,
        idp_client_id=oauth.idp_client_id,
        idp_token_endpoint=oauth.idp_token_endpoint,
    )
