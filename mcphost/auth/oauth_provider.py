"""What a transport sees of sign-in: `headers` for every request, `recover` from a refusal, both without a person.

When only a person helps, whoever waits for an answer calls `sign_in`, outside of every deadline. One flow at a time a
server; no lock is held while requests run, and a refused request tells by what it sent whether others were quicker.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Protocol

import anyio

from mcphost.auth import token_refresh
from mcphost.auth.accounts import FETCHED_ON_DEMAND, Account
from mcphost.auth.authorization_flow import AuthorizationFlow
from mcphost.auth.client_grants import ClientGrant, fetch_token
from mcphost.auth.discovery import discover_resource, select_challenge
from mcphost.auth.dpop import USE_DPOP_NONCE, JwtSigner
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.sign_in import (
    ProgressCallback,
    SignInFailed,
    SignInInteraction,
    SignInProgress,
    SignInTarget,
    ignore_progress,
)
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import split_scopes
from mcphost.errors import McpHostError, SignInRequired
from mcphost.serialization import Struct, replace

_PING_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class RejectedRequest(Protocol):
    """A 401 or 403, as the transport saw it; `sent` is the Authorization header of the refused request."""

    @property
    def status(self) -> int: ...

    @property
    def www_authenticate(self) -> str: ...

    @property
    def authorization(self) -> str: ...

    @property
    def dpop_nonce(self) -> str: ...


class ProbeResult(Struct, frozen=True):
    """The refusal of a question that we asked to be refused."""

    status: int
    www_authenticate: str
    authorization: str
    dpop_nonce: str = ""

    def __repr__(self) -> str:
        return f"ProbeResult({self.status})"


async def probe_server(http: OAuthHttpClient, url: str) -> ProbeResult:
    """What the server says to somebody it does not know. Raises UnsafeUrl, Unreachable."""
    headers = {"accept": "application/json, text/event-stream"}
    reply = await http.post_json(url, _PING_REQUEST, "MCP server", headers)
    return ProbeResult(reply.status, reply.headers.get("www-authenticate", "") if reply.status == 401 else "", "")


_log = logging.getLogger(__name__)
MAX_SIGN_INS = 2
"""How often one action of the user may lead to a sign-in."""
MAX_STEP_UPS = 3
"""The same when a server wants more scopes each time."""
_FRESH_SECONDS = 30.0
_MAX_SCOPES_SHOWN = 10
_SHELL_SAFE_SCOPE = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,99}", re.ASCII)
_NO_HEADERS: Mapping[str, str] = {}


class _SharedSignIn:
    """A sign-in that runs; who comes meanwhile gets its outcome."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: SignInRequired | None = None
        self.is_cancelled = False


class OAuthProvider:
    """The Authorizer of one server. `person` None: nobody can be asked. With a `machine` nobody needs to be: its tokens
    are in memory only, since the next one can be earned whenever it is wanted, and no sign-in of a person is used.
    """

    def __init__(
        self,
        target: SignInTarget,
        http: OAuthHttpClient,
        token_store: TokenStore,
        interaction: SignInInteraction | None,
        client_grant: ClientGrant | None = None,
        on_progress: ProgressCallback = ignore_progress,
    ) -> None:
        self._on_progress = on_progress
        self._client_grant = client_grant
        self._signer: JwtSigner | None = None
        self._signer_jwk = ""
        self._dpop_nonce = ""
        self._target = target
        self._http = http
        self._token_store = token_store
        self._interaction = interaction
        self._active_sign_in: StoredSignIn | None = None
        self._on_account_changed: Callable[[Account | None], None] = lambda account: None
        self._has_loaded = False
        self._is_account_resolved = False
        self._refresh_lock = anyio.Lock()
        self._shared_sign_in: _SharedSignIn | None = None
        self._refused_scopes: set[tuple[str, ...]] = set()
        token_store.storage_listeners.append(self._notify_account_changed)

    def _notify_account_changed(self) -> None:
        self._on_account_changed(self.account)

    def detach(self) -> None:
        """Nobody hears of it any more: another one takes its place. Requests that it serves still go on with it."""
        self._on_account_changed = lambda account: None
        if self._notify_account_changed in self._token_store.storage_listeners:
            self._token_store.storage_listeners.remove(self._notify_account_changed)

    @property
    def account_name(self) -> str | None:
        """The account that it signs in, "" for the one without a name; None until that is known, then for ever."""
        return self._target.account if self._is_account_resolved or self._target.is_account_configured else None

    @property
    def account(self) -> Account | None:
        """The sign-in that requests are made with now, without its secrets."""
        return self._active_sign_in and self._active_sign_in.to_account(self._storage_place(self._active_sign_in))

    @property
    def credential_digest(self) -> str:
        """A digest of the token that requests are made with now, "" without one; another token has another digest."""
        signed = self._active_sign_in
        return hashlib.sha256(_authorization_header(signed).encode()).hexdigest() if signed is not None else ""

    def set_account_listener(self, listener: Callable[[Account | None], None]) -> None:
        """From now on this one hears which sign-in is used, now and after each change. It must not block or raise."""
        self._on_account_changed = listener
        listener(self.account)

    @property
    def _current_sign_in(self) -> StoredSignIn | None:
        return self._active_sign_in

    @_current_sign_in.setter
    def _current_sign_in(self, signed: StoredSignIn | None) -> None:
        changed = signed is not self._active_sign_in
        self._active_sign_in = signed
        if changed:
            self._on_account_changed(self.account)

    # -- for transports
    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers of a request; a token that is about to end is renewed first."""
        if not self._has_loaded:
            self._has_loaded = True
            await self._resolve_account()
            if self._client_grant is None:
                self._current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        signed = self._current_sign_in
        if signed is not None and signed.tokens.needs_refresh():
            signed = await self._refresh(signed)
        return self._make_headers(signed, verb, url)

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        """The headers of a last request: with the token that is there, which is not renewed."""
        return self._make_headers(self._active_sign_in, verb, url)

    def _make_headers(self, sign_in: StoredSignIn | None, verb: str, url: str) -> Mapping[str, str]:
        if sign_in is None:
            return _NO_HEADERS
        headers = {"authorization": _authorization_header(sign_in)}
        signer = self._get_signer(sign_in)
        if signer is not None:
            headers["dpop"] = signer.make_dpop_proof(verb, url, token=sign_in.tokens.access, nonce=self._dpop_nonce)
        return headers

    async def recover(self, refusal: RejectedRequest) -> bool:
        """Whether the same request may be sent again: someone else signed in, or the token could be renewed."""
        challenge = select_challenge(refusal.www_authenticate)
        if refusal.status == 403 and challenge.get("error") != "insufficient_scope":
            return False
        if refusal.dpop_nonce and challenge.get("error") == USE_DPOP_NONCE and refusal.dpop_nonce != self._dpop_nonce:
            self._dpop_nonce = refusal.dpop_nonce
            return True
        if self._client_grant is not None:
            return refusal.status == 401 and await self._fetch_token(self._client_grant, refusal)
        signed = self._current_sign_in or await self._token_store.load(self._target.canonical_url, self._target.account)
        self._current_sign_in = signed
        if signed is None:
            return False
        if _authorization_header(signed) != refusal.authorization and not signed.tokens.needs_refresh():
            return True
        if refusal.status == 403 or _is_fresh(signed):
            return False
        renewed = await self._refresh(signed)
        return renewed is not None and _authorization_header(renewed) != refusal.authorization

    # -- for whoever waits for an answer
    async def sign_in(self, refusal: RejectedRequest, attempt: int = 1) -> None:
        """Have a person sign in; afterwards the same request may be sent again. `attempt` counts from 1 per action.

        Raises SignInRequired. Cancelling the last one who waits ends the flow.
        """
        challenge = select_challenge(refusal.www_authenticate)
        more = refusal.status == 403
        scopes = split_scopes(challenge.get("scope"))
        if self._client_grant is not None or (more and challenge.get("error") != "insufficient_scope"):
            raise SignInFailed(
                f"The server {self._target.server!r} does not permit this to the account (HTTP {refusal.status})."
            )
        if more and attempt > MAX_STEP_UPS:
            self._refused_scopes.add(scopes)
        if more and scopes in self._refused_scopes:
            raise SignInFailed(
                f"The server {self._target.server!r} keeps asking for more rights, though they were given: "
                f"{' '.join(scopes)[:200]}.",
                "Its operator must correct that. mcphost asks again after a restart.",
            )
        if not more and attempt > MAX_SIGN_INS:
            raise SignInFailed(f"The server {self._target.server!r} refuses the account it was just given.")
        while True:
            signed = self._current_sign_in
            if signed is not None and (
                _authorization_header(signed) != refusal.authorization or (signed.tokens.has_expired() and not more)
            ):
                # One that lives shortly may be over before it was used once, or on its way; that needs nobody.
                now = await self._refresh(signed) if signed.tokens.needs_refresh() else signed
                if now is not None and _authorization_header(now) != refusal.authorization:
                    return
            flight = self._shared_sign_in
            if flight is None:
                await self._run_sign_in(refusal, is_step_up=more)
                return
            if await self._join_sign_in(flight):
                return

    async def _unlock_and_load(self) -> bool:
        """Whether there is a sign-in after all, in a file whose pass phrase was asked for just now."""
        if await self._token_store.unlock_storage(self._target.canonical_url, self._target.account):
            self._current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        return self._current_sign_in is not None

    async def _join_sign_in(self, shared_sign_in: _SharedSignIn) -> bool:
        """Wait for somebody else's sign-in; False when they gave up waiting. Raises SignInRequired."""
        await shared_sign_in.done.wait()
        if shared_sign_in.error is not None:
            raise SignInFailed(shared_sign_in.error.message, shared_sign_in.error.hint)
        return not shared_sign_in.is_cancelled

    async def _run_sign_in(
        self,
        refusal: RejectedRequest,
        *,
        is_step_up: bool,
        is_required: bool = True,
        use_device_code: bool = False,
        scopes: tuple[str, ...] = (),
    ) -> None:
        if self._client_grant is not None:
            self._current_sign_in = await fetch_token(
                self._client_grant, self._http, select_challenge(refusal.www_authenticate)
            )
            return
        flight = self._shared_sign_in = _SharedSignIn()
        try:
            if self._current_sign_in is None and not refusal.authorization and await self._unlock_and_load():
                return
            if self._interaction is None:
                raise await self._sign_in_required_error(
                    split_scopes(select_challenge(refusal.www_authenticate).get("scope")) if is_step_up else ()
                )
            await self._token_store.prepare_storage()
            machine = AuthorizationFlow(
                self._target, self._http, self._token_store, self._interaction, self._on_progress
            )
            before = self._current_sign_in or await self._token_store.load(
                self._target.canonical_url, self._target.account
            )
            self._current_sign_in = await machine.run(
                select_challenge(refusal.www_authenticate),
                before,
                is_step_up=is_step_up or bool(scopes),
                is_required=is_required,
                use_device_code=use_device_code,
                scopes=scopes,
            )
        except SignInRequired as error:
            _log.warning("sign-in to %s: %s", self._target.server, error.message)
            error.server = error.server or self._target.server
            flight.error = error
            raise
        except BaseException:
            flight.is_cancelled = True
            raise
        finally:
            self._on_progress(SignInProgress(server=self._target.server, account=self._target.account, step="over"))
            self._shared_sign_in = None
            flight.done.set()

    async def _sign_in_required_error(self, missing_scopes: tuple[str, ...]) -> SignInFailed:
        """Nobody can be asked here; `more` is what the server wants besides what was given, () for nothing."""
        name = self._target.server
        if not missing_scopes:
            others = (
                ()
                if self._target.is_account_configured
                else await self._token_store.other_accounts(self._target.canonical_url, self._target.account)
            )
            there = (
                f". Signed in there as {', '.join(others)}: mcphost accounts use {quote(name)} NAME" if others else ""
            )
            return SignInFailed(
                f"The server {name!r} wants you to sign in.", f"Do it with: mcphost login {quote(name)}{there}"
            )
        # What a server wrote goes into a command to copy only where no shell could take it for anything else.
        plain = len(missing_scopes) <= _MAX_SCOPES_SHOWN and all(
            _SHELL_SAFE_SCOPE.fullmatch(scope) for scope in missing_scopes
        )
        flags = "".join(f" --scope {scope}" for scope in missing_scopes) if plain else ", with --scope for each of them"
        return SignInFailed(
            f"The server {name!r} wants more rights for this: {' '.join(missing_scopes)[:200]}.",
            f"Give them with: mcphost login {quote(name)}{flags}",
        )

    # -- for the user
    async def login(self, *, use_device_code: bool = False, scopes: tuple[str, ...] = ()) -> StoredSignIn:
        """Sign in anew, whatever there is already, or with whoever does that already.

        With `device` the user enters a code in a browser anywhere (RFC 8628). With `scopes` those are asked for besides
        what was given before.

        Raises SignInRequired, also when the server wants no account.
        """
        if self._shared_sign_in is not None:
            await self._join_sign_in(self._shared_sign_in)
            if self._current_sign_in is not None:
                return self._current_sign_in
        await self._resolve_account()
        refusal = await probe_server(self._http, self._target.url)
        challenge = refusal.www_authenticate
        if self._client_grant is None and self._current_sign_in is None and not await self._unlock_and_load():
            self._current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        if self._current_sign_in is not None:
            refusal = ProbeResult(refusal.status, challenge, _authorization_header(self._current_sign_in))
        await self._run_sign_in(
            refusal, is_step_up=False, is_required=refusal.status == 401, use_device_code=use_device_code, scopes=scopes
        )
        if self._current_sign_in is None:
            raise AssertionError("signed in to nothing")
        return self._current_sign_in

    async def resolve_storage(self, sign_in: StoredSignIn) -> str:
        """Ask where to keep a sign-in that no place took, if that can be asked; the place that has it now."""
        if self._client_grant is None:
            await self._token_store.store_pending()
        return self._storage_place(sign_in)

    def _storage_place(self, sign_in: StoredSignIn) -> str:
        return self._token_store.storage_place(sign_in) if self._client_grant is None else FETCHED_ON_DEMAND

    async def logout(self) -> tuple[StoredSignIn | None, bool]:
        """Erase the tokens here, and revoke them where that is possible (RFC 7009): what was erased, and whether.

        Raises McpHostError when it cannot be read where it is kept; then it is still there.
        """
        if self._client_grant is not None:
            gone, self._current_sign_in = self._current_sign_in, None
            return gone, gone is not None and await token_refresh.revoke_tokens(self._http, gone)
        self._current_sign_in = None
        self._has_loaded = True
        await self._resolve_account()
        await self._token_store.unlock_storage(self._target.canonical_url, self._target.account)
        gone = await self._token_store.delete(self._target.canonical_url, self._target.account)
        return gone, gone is not None and await token_refresh.revoke_tokens(self._http, gone)

    async def select_account(self) -> None:
        """From now on the account of this sign-in is the one for its server, where the user's file names none."""
        await self._token_store.choose_account(self._target.canonical_url, self._target.account)

    async def forget_client(self) -> bool:
        """Drop the registrations with the server's authorization servers, so that the next sign-in makes a new one.

        Whether there was one. Raises SignInRequired when the server does not say who signs for it.
        """
        named = select_challenge((await probe_server(self._http, self._target.url)).www_authenticate).get(
            "resource_metadata"
        )
        resource = await discover_resource(self._http, self._target.url, named)
        return any([await self._token_store.delete_issuer_client(issuer) for issuer in resource.issuers])

    async def _resolve_account(self) -> None:
        """Once: whoever serves a session never becomes somebody else under it."""
        if not (self._is_account_resolved or self._target.is_account_configured or self._target.account):
            self._target = replace(
                self._target, account=await self._token_store.chosen_account(self._target.canonical_url)
            )
        self._is_account_resolved = True

    # -- inside
    async def _refresh(self, old: StoredSignIn) -> StoredSignIn | None:
        """The sign-in with a new token; None when a person must sign in again. One at a time, in all processes."""
        async with self._refresh_lock:
            if self._current_sign_in is not old:
                return self._current_sign_in
            if not old.tokens.refresh:
                self._current_sign_in = None
                return None
            try:
                self._current_sign_in = await token_refresh.refresh_sign_in(
                    self._token_store, self._http, old, self._get_signer
                )
            except McpHostError as error:
                # Not reachable now, or busy: a token that has not ended yet still serves.
                if not old.tokens.has_expired():
                    return old
                raise EndpointUnreachable(error.message, error.hint) from error
        return self._current_sign_in

    async def _fetch_token(self, client_grant: ClientGrant, refusal: RejectedRequest) -> bool:
        """A token without a person; one that was just given and is refused is not asked for again."""
        async with self._refresh_lock:
            signed = self._current_sign_in
            if signed is not None and _authorization_header(signed) != refusal.authorization:
                return True
            if signed is not None and _is_fresh(signed):
                return False
            self._current_sign_in = await fetch_token(
                client_grant, self._http, select_challenge(refusal.www_authenticate)
            )
        return True

    def _get_signer(self, sign_in: StoredSignIn) -> JwtSigner | None:
        """Whoever proves that the token is ours; None for a token that needs no proof."""
        if not sign_in.key:
            return None
        if self._signer is None or self._signer_jwk != sign_in.key:
            self._signer, self._signer_jwk = JwtSigner.from_jwk(sign_in.key), sign_in.key
        return self._signer


def _authorization_header(sign_in: StoredSignIn) -> str:
    return f"{sign_in.tokens.kind} {sign_in.tokens.access}"


def _is_fresh(sign_in: StoredSignIn) -> bool:
    """Whether its token was issued just now, so that a refusal is not about its age.

    Many servers count whole seconds: a token of one second may be over at once.
    """
    return sign_in.tokens.age < min(_FRESH_SECONDS, (sign_in.tokens.lifetime - 1) / 2)
