"""OAuth authorization for one server: request headers, token refresh, sign-in and sign-out.

`headers` and `recover` never ask the user. If the user must act, the task that sent the request calls `sign_in`, which
has no time limit of its own. At most one sign-in runs for a server at a time, and no lock is held while requests run.
If the Authorization header of a rejected request differs from the current one, another task has signed in since, and
the request only needs to be sent again.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from shlex import quote

import anyio

from mcphost.auth.accounts import FETCHED_ON_DEMAND, Account, hide_query
from mcphost.auth.client_grants import ClientGrant, fetch_token
from mcphost.auth.discovery import discover_resource
from mcphost.auth.dpop import USE_DPOP_NONCE, JwtSigner, load_joserfc
from mcphost.auth.interactive_sign_in import InteractiveSignIn
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.registration import quote_server_text
from mcphost.auth.sign_in_context import (
    ProgressCallback,
    SignInFailed,
    SignInInteraction,
    SignInTarget,
    ignore_progress,
)
from mcphost.auth.sign_in_pause import SignInPause, copy_sign_in_error
from mcphost.auth.token_refresh import refresh_sign_in, revoke_tokens
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import split_scopes
from mcphost.auth.www_authenticate import probe_server, select_challenge
from mcphost.errors import McpHostError, SignInRequired, UsageError
from mcphost.serialization import replace
from mcphost.sign_in_types import AuthChallenge, SignInProgress

_log = logging.getLogger(__name__)
MAX_SIGN_INS = 2
"""Maximum number of sign-ins for one action of the user."""
MAX_STEP_UPS = 3
"""Maximum number of sign-ins for one action of the user if the server requests more scopes each time."""
_MAX_SCOPES_SHOWN = 10
_SHELL_SAFE_SCOPE = re.compile(r"[A-Za-z0-9_][\w.:/-]{0,99}", re.ASCII)
_NO_HEADERS: Mapping[str, str] = {}


class _SharedSignIn:
    """A running sign-in that several tasks can wait for."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.error: SignInRequired | None = None
        self.is_cancelled = False


class OAuthProvider:
    """Provider of authorization headers for one server, with tokens obtained by OAuth sign-in.

    If *interaction* is None, the user is never asked. If *client_grant* is given, tokens are fetched without the
    user: tokens stored by earlier sign-ins are ignored, and the new tokens are kept in memory only, because they
    can be fetched again at any time.
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
        self._last_issuer = ""
        self._on_account_changed: Callable[[Account | None], None] = lambda account: None
        self._has_loaded = False
        self._is_account_resolved = False
        self._load_lock = anyio.Lock()
        self._refresh_lock = anyio.Lock()
        self._shared_sign_in: _SharedSignIn | None = None
        self._refused_scopes: set[tuple[str, ...]] = set()
        self._pause = SignInPause()
        token_store.storage_listeners.append(self._notify_account_changed)

    def _notify_account_changed(self) -> None:
        self._on_account_changed(self.account)

    def detach(self) -> None:
        """Stop calling the account listener, because another provider has replaced this one.

        Requests that are already running may still use this provider.
        """
        self._on_account_changed = lambda account: None
        if self._notify_account_changed in self._token_store.storage_listeners:
            self._token_store.storage_listeners.remove(self._notify_account_changed)

    @property
    def account_name(self) -> str | None:
        """Name of the account, "" for the default account, or None if it is not known yet.

        Once the name is known, it never changes.
        """
        return self._target.account if self._is_account_resolved or self._target.is_account_configured else None

    @property
    def account(self) -> Account | None:
        """The account that is signed in, without its secrets, or None if not signed in."""
        return self._active_sign_in and self._active_sign_in.to_account(self._storage_place(self._active_sign_in))

    @property
    def credential_digest(self) -> str:
        """SHA-256 digest of the current Authorization header, or "" if there is none.

        The digest changes with every new token.
        """
        sign_in = self._active_sign_in
        return hashlib.sha256(sign_in.tokens.authorization.encode()).hexdigest() if sign_in is not None else ""

    def set_account_listener(self, listener: Callable[[Account | None], None]) -> None:
        """Call *listener* with the current account, now and after each change. *listener* must not block or raise."""
        self._on_account_changed = listener
        listener(self.account)

    @property
    def current_sign_in(self) -> StoredSignIn | None:
        """The tokens that are used for requests, with their OAuth client, or None if not signed in.

        Setting this property notifies the account listener.
        """
        return self._active_sign_in

    @current_sign_in.setter
    def current_sign_in(self, sign_in: StoredSignIn | None) -> None:
        has_changed = sign_in is not self._active_sign_in
        self._active_sign_in = sign_in
        if sign_in is not None:
            self._last_issuer = sign_in.issuer
        if has_changed:
            self._on_account_changed(self.account)

    # -- for transports
    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        """Return the authorization headers for a request, refreshing a token that expires soon.

        *verb* is the HTTP method of the request.
        """
        await self._load_once()
        sign_in = self.current_sign_in
        if sign_in is not None and sign_in.dpop_key and self._signer is None:
            await load_joserfc()
        if sign_in is not None and sign_in.tokens.needs_refresh():
            sign_in = await self._refresh(sign_in)
        return self._make_headers(sign_in, verb, url)

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        """Return the authorization headers for a request with the current token, without refreshing it.

        *verb* is the HTTP method of the request.
        """
        return self._make_headers(self._active_sign_in, verb, url)

    def _make_headers(self, sign_in: StoredSignIn | None, verb: str, url: str) -> Mapping[str, str]:
        if sign_in is None:
            return _NO_HEADERS
        headers = {"authorization": sign_in.tokens.authorization}
        signer = self._get_signer(sign_in)
        if signer is not None:
            headers["dpop"] = signer.make_dpop_proof(verb, url, token=sign_in.tokens.access, nonce=self._dpop_nonce)
        return headers

    async def recover(self, refusal: AuthChallenge) -> bool:
        """Try to get a valid token without asking the user; return whether to repeat the request.

        *refusal* describes the 401 or 403 response to the request.
        """
        await self._load_once()
        challenge = select_challenge(refusal.www_authenticate)
        if refusal.status == 403 and challenge.get("error") != "insufficient_scope":
            return False
        if refusal.dpop_nonce and challenge.get("error") == USE_DPOP_NONCE and refusal.dpop_nonce != self._dpop_nonce:
            self._dpop_nonce = refusal.dpop_nonce
            return True
        if self._client_grant is not None:
            return refusal.status == 401 and await self._fetch_token(self._client_grant, refusal)
        if self.current_sign_in is None:
            self.current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        sign_in = self.current_sign_in
        if sign_in is None:
            return False
        if sign_in.tokens.authorization != refusal.authorization and not sign_in.tokens.needs_refresh():
            return True
        if refusal.status == 403 or sign_in.tokens.is_new:
            return False
        refreshed = await self._refresh(sign_in)
        return refreshed is not None and refreshed.tokens.authorization != refusal.authorization

    # -- for callers that wait for a response
    async def sign_in_for_session(self, refusal: AuthChallenge, attempt: int = 1) -> None:
        """Let the user sign in, like `sign_in`, for a request that an open session sends.

        A server can cause a session to send requests, for example by announcing changes. After a failed sign-in, the
        user is therefore not asked again for some time; instead, the same error is raised again (see SignInPause).
        """
        await self._sign_in(refusal, attempt, is_paused=True)

    async def sign_in(self, refusal: AuthChallenge, attempt: int = 1) -> None:
        """Let the user sign in after a request was rejected with *refusal*, a 401 or 403 response.

        The caller can then send the request again. *attempt* is the number of times that the request has been rejected,
        starting with 1. If the task that is signing in is cancelled, another task that is waiting for the result starts
        a new sign-in. Raises SignInRequired if the sign-in fails, or if *attempt* exceeds a limit.
        """
        await self._sign_in(refusal, attempt, is_paused=False)

    async def _sign_in(self, refusal: AuthChallenge, attempt: int, *, is_paused: bool) -> None:
        await self._resolve_account()
        challenge = select_challenge(refusal.www_authenticate)
        is_step_up = refusal.status == 403
        scopes = split_scopes(challenge.get("scope"))
        if self._client_grant is not None or (is_step_up and challenge.get("error") != "insufficient_scope"):
            raise SignInFailed(
                f"The server {self._target.server!r} does not allow this for the account (HTTP {refusal.status})."
            )
        if is_step_up and attempt > MAX_STEP_UPS:
            self._refused_scopes.add(scopes)
        if is_step_up and scopes in self._refused_scopes:
            shown = quote_server_text(" ".join(scopes)[:200])
            raise SignInFailed(
                f"The server {self._target.server!r} still requires scopes that were granted: {shown}.",
                "Its operator must correct that. mcphost asks again after a restart.",
            )
        if not is_step_up and attempt > MAX_SIGN_INS:
            raise SignInFailed(f"The server {self._target.server!r} refuses the account that just signed in.")
        while True:
            current = self.current_sign_in
            if current is not None and (
                current.tokens.authorization != refusal.authorization
                or (current.tokens.has_expired() and not is_step_up)
            ):
                # A short-lived token may expire before its first use; a refresh needs no user.
                if current.tokens.needs_refresh():
                    current = await self._refresh(current)
                if current is not None and current.tokens.authorization != refusal.authorization:
                    return
            if self._shared_sign_in is None:
                if is_paused:
                    self._pause.check()
                await self._run_sign_in(refusal, is_step_up=is_step_up)
                return
            if await self._join_sign_in(self._shared_sign_in):
                return

    async def _unlock_and_load(self) -> bool:
        """Unlock the encrypted secrets file and load the tokens, if the tokens are in that file.

        Returns whether tokens are loaded now.
        """
        if await self._token_store.unlock_storage(self._target.canonical_url, self._target.account):
            self.current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        return self.current_sign_in is not None

    async def _join_sign_in(self, shared_sign_in: _SharedSignIn) -> bool:
        """Wait for a sign-in already in progress in another task; return False if it was cancelled.

        Raises SignInRequired.
        """
        await shared_sign_in.done.wait()
        if shared_sign_in.error is not None:
            raise copy_sign_in_error(shared_sign_in.error)
        return not shared_sign_in.is_cancelled

    async def _join_running_sign_ins(self, scopes: tuple[str, ...]) -> StoredSignIn | None:
        """Wait until no other task is signing in and return None, or return the result of one that requested *scopes*.

        After None, the caller may start its own sign-in if it does so before its next `await`. Raises SignInRequired if
        a sign-in that was waited for fails.
        """
        while self._shared_sign_in is not None:
            has_joined = await self._join_sign_in(self._shared_sign_in)
            joined = self.current_sign_in if has_joined else None
            if joined is not None and joined.has_requested(scopes):
                return joined
        return None

    async def _run_sign_in(
        self,
        refusal: AuthChallenge,
        *,
        is_step_up: bool,
        is_required: bool = True,
        use_device_code: bool = False,
        scopes: tuple[str, ...] = (),
        must_keep: bool = False,
    ) -> None:
        if self._client_grant is not None:
            self.current_sign_in = await fetch_token(
                self._client_grant, self._http, select_challenge(refusal.www_authenticate)
            )
            return
        if self._shared_sign_in is not None:
            raise AssertionError("another sign-in runs; its waiters would be told how this one ended")
        shared = self._shared_sign_in = _SharedSignIn()
        try:
            if self.current_sign_in is None and not refusal.authorization and await self._unlock_and_load():
                return
            if self._interaction is None:
                raise await self._sign_in_required_error(
                    split_scopes(select_challenge(refusal.www_authenticate).get("scope")) if is_step_up else ()
                )
            await self._token_store.prepare_storage(self._target.server if must_keep and is_required else "")
            async with self._token_store.take_sign_in_turn(self._target.canonical_url, self._target.account) as waited:
                newer = await self._find_newer_sign_in(refusal) if waited else None
                self.current_sign_in = newer or self.current_sign_in
                if newer is None or not newer.has_requested(scopes):
                    self.current_sign_in = await self._ask_to_sign_in(
                        refusal,
                        is_step_up=is_step_up,
                        is_required=is_required,
                        use_device_code=use_device_code,
                        scopes=scopes,
                    )
            self._pause.end()
        except SignInRequired as error:
            if self._interaction is not None:
                self._pause.begin(error)
            _log.warning("sign-in to %s: %s", self._target.server, error.message)
            error.server = error.server or self._target.server
            shared.error = error
            raise
        except BaseException:
            shared.is_cancelled = True
            raise
        finally:
            self._on_progress(SignInProgress(server=self._target.server, account=self._target.account, step="over"))
            self._shared_sign_in = None
            shared.done.set()

    async def _find_newer_sign_in(self, refusal: AuthChallenge) -> StoredSignIn | None:
        """Return the stored tokens if they are newer than the rejected ones, otherwise None.

        Another configured server with the same URL, or another process, may have stored them.
        """
        stored = await self._token_store.load(self._target.canonical_url, self._target.account)
        is_newer = stored is not None and stored.tokens.authorization != refusal.authorization
        return stored if is_newer and stored != self.current_sign_in else None

    async def _ask_to_sign_in(
        self,
        refusal: AuthChallenge,
        *,
        is_step_up: bool,
        is_required: bool,
        use_device_code: bool,
        scopes: tuple[str, ...],
    ) -> StoredSignIn:
        if self._interaction is None:
            raise AssertionError("nobody can be asked")
        flow = InteractiveSignIn(self._target, self._http, self._token_store, self._interaction, self._on_progress)
        previous = self.current_sign_in or await self._token_store.load(
            self._target.canonical_url, self._target.account
        )
        return await flow.run(
            select_challenge(refusal.www_authenticate),
            previous,
            is_step_up=is_step_up or bool(scopes),
            is_required=is_required,
            use_device_code=use_device_code,
            scopes=scopes,
            previous_issuer=previous.issuer if previous is not None else self._last_issuer,
        )

    async def _sign_in_required_error(self, missing_scopes: tuple[str, ...]) -> SignInFailed:
        """Create the error to raise if a sign-in is needed but the user cannot be asked.

        *missing_scopes* are scopes that the current token lacks.
        """
        name = self._target.server
        locked = await self._token_store.find_locked_file(self._target.canonical_url, self._target.account)
        if locked and self.current_sign_in is None:
            return SignInFailed(
                f"A sign-in to {name!r} is stored in {locked}, which is locked.",
                "Run the command in a terminal, where mcphost asks for the passphrase, or use the chat.",
            )
        if not missing_scopes:
            others = (
                ()
                if self._target.is_account_configured
                else await self._token_store.other_accounts(self._target.canonical_url, self._target.account)
            )
            return SignInFailed(
                f"The server {name!r} requires a sign-in.",
                hint=f"Sign in: mcphost login {quote(name)}. "
                f"Signed in there as {', '.join(others)}: mcphost accounts use {quote(name)} {quote(others[0])}"
                if others
                else f"Sign in: mcphost login {quote(name)}",
            )
        # The server's text becomes part of a command for the user, so it must not contain shell syntax.
        is_plain = len(missing_scopes) <= _MAX_SCOPES_SHOWN and all(
            _SHELL_SAFE_SCOPE.fullmatch(scope) for scope in missing_scopes
        )
        flags = "".join(f" --scope {scope}" for scope in missing_scopes) if is_plain else ", with --scope for each one"
        shown = quote_server_text(" ".join(missing_scopes)[:200])
        return SignInFailed(
            f"The server {name!r} requires more scopes for this: {shown}.",
            f"Grant them: mcphost login {quote(name)}{flags}",
        )

    # -- for the user
    async def login(
        self, *, use_device_code: bool = False, scopes: tuple[str, ...] = (), must_keep: bool = False
    ) -> StoredSignIn:
        """Sign in, even if already signed in, or join a running sign-in that requests at least *scopes*.

        If *use_device_code* is true, the user enters a code in a browser on any machine (RFC 8628). *scopes* are
        requested in addition to the scopes of the previous sign-in. If *must_keep* is true, the sign-in does not start
        unless the tokens can be stored. Raises SignInNotRequired if the server needs no account, and SignInRequired if
        the sign-in fails.
        """
        if (joined := await self._join_running_sign_ins(scopes)) is not None:
            return joined
        await self._resolve_account()
        refusal = await probe_server(self._http, self._target.url)
        challenge = refusal.www_authenticate
        if self._client_grant is None and self.current_sign_in is None and not await self._unlock_and_load():
            self.current_sign_in = await self._token_store.load(self._target.canonical_url, self._target.account)
        if self.current_sign_in is not None:
            refusal = AuthChallenge(refusal.status, challenge, self.current_sign_in.tokens.authorization)
        # A request may have started a sign-in in the meantime: the user must not be asked twice.
        if (joined := await self._join_running_sign_ins(scopes)) is not None:
            return joined
        await self._run_sign_in(
            refusal, is_step_up=False, is_required=refusal.status == 401, use_device_code=use_device_code,
            scopes=scopes, must_keep=must_keep,
        )  # fmt: skip
        if self.current_sign_in is None:
            raise AssertionError("signed in to nothing")
        return self.current_sign_in

    async def resolve_storage(self, sign_in: StoredSignIn) -> str:
        """Return the place where the tokens in *sign_in* are stored; "session" means memory only.

        If any tokens could not be stored, the user is first asked for another place, if possible.
        """
        if self._client_grant is None:
            await self._token_store.store_pending()
        return self._storage_place(sign_in)

    def _storage_place(self, sign_in: StoredSignIn) -> str:
        return self._token_store.storage_place(sign_in) if self._client_grant is None else FETCHED_ON_DEMAND

    async def logout(self) -> tuple[StoredSignIn | None, bool]:
        """Delete the stored tokens and revoke them (RFC 7009).

        Returns the deleted tokens with their OAuth client (None if no tokens were stored), and whether the server
        confirmed the revocation. Raises McpHostError if the stored tokens cannot be read, or if another process locks
        them for too long; in both cases, the stored tokens are kept and not revoked.
        """
        if self._client_grant is not None:
            erased, self.current_sign_in = self.current_sign_in, None
            return erased, erased is not None and await revoke_tokens(self._http, erased)
        await self._resolve_account()
        self.current_sign_in = None
        self._has_loaded = True
        url, account = self._target.canonical_url, self._target.account
        await self._token_store.unlock_storage(url, account)
        # A refresh that is still running, here or in another process, would otherwise undo the sign-out when it stores
        # its tokens.
        async with self._refresh_lock, self._token_store.lock(url, account):
            self.current_sign_in = None
            erased = await self._token_store.delete(url, account)
        return erased, erased is not None and await revoke_tokens(self._http, erased)

    async def select_account(self) -> None:
        """Save this account as the account that the user selected for the server.

        The selection applies to this run and later ones. An account named in the configuration takes precedence
        over it.
        """
        await self._token_store.choose_account(self._target.canonical_url, self._target.account)

    async def forget_client(self) -> bool:
        """Delete the OAuth client that the next sign-in to the server would use; that sign-in registers a new one.

        Returns whether there was a client. Raises SignInRequired if the issuers cannot be discovered. Raises UsageError
        if the client is also used for an account on another server; otherwise, a server that names that server's issuer
        in its metadata could make the user delete the wrong client.
        """
        challenge = select_challenge((await probe_server(self._http, self._target.url)).www_authenticate)
        resource = await discover_resource(self._http, self._target.url, challenge.get("resource_metadata"))
        accounts, own_url = await self._token_store.accounts(), hide_query(self._target.canonical_url)
        for issuer in (self._target.issuer,) if self._target.issuer else resource.issuers:
            if await self._token_store.load_client(issuer) is None:
                continue
            others = sorted({one.server for one in accounts if one.issuer == issuer and one.url != own_url})
            if others:
                raise UsageError(
                    f"The registration of mcphost at {issuer[:200]!r} is also used for {others[0]!r}.",
                    f"Forget it there: mcphost logout {quote(others[0])} --forget-client",
                )
            return await self._token_store.delete_issuer_client(issuer)
        return False

    # -- internal
    async def _resolve_account(self) -> None:
        """Determine which account to use; once determined, it never changes."""
        if self._is_account_resolved:
            return
        account = self._target.account
        if not (self._target.is_account_configured or account):
            account = await self._token_store.chosen_account(self._target.canonical_url)
        if not self._is_account_resolved:  # another task may have been faster
            self._target = replace(self._target, account=account)
            self._is_account_resolved = True

    async def _load_once(self) -> None:
        """Determine the account and load its stored tokens, unless this has already been done.

        If several tasks call this, the first one loads the tokens, and the others wait. If the first task is cancelled,
        the next one starts again.
        """
        if self._has_loaded:
            return
        async with self._load_lock:
            if self._has_loaded:
                return
            await self._resolve_account()
            if self._client_grant is None:
                stored = await self._token_store.load(self._target.canonical_url, self._target.account)
                # In the meantime, the user may have signed in or out.
                if self.current_sign_in is None and not self._has_loaded:
                    self.current_sign_in = stored
            self._has_loaded = True

    async def _refresh(self, old: StoredSignIn) -> StoredSignIn | None:
        """Refresh the tokens of *old*; return None if the user must sign in again.

        Only one task at a time refreshes the tokens of an account, across all processes.
        """
        async with self._refresh_lock:
            if self.current_sign_in is not old:
                return self.current_sign_in
            if not old.tokens.refresh:
                self.current_sign_in = None
                return None
            try:
                self.current_sign_in = await refresh_sign_in(self._token_store, self._http, old, self._get_signer)
            except McpHostError as error:
                # The authorization server is unreachable or busy: a token that has not expired is still used.
                if not old.tokens.has_expired():
                    return old
                raise EndpointUnreachable(error.message, error.hint) from error
        return self.current_sign_in

    async def _fetch_token(self, client_grant: ClientGrant, refusal: AuthChallenge) -> bool:
        """Fetch a token with *client_grant*; return whether the current token differs from the rejected token.

        *refusal* describes the response that rejected the token. If that token has only just been issued, no
        request is sent, and the result is False.
        """
        async with self._refresh_lock:
            sign_in = self.current_sign_in
            if sign_in is not None and sign_in.tokens.authorization != refusal.authorization:
                return True
            if sign_in is not None and sign_in.tokens.is_new:
                return False
            self.current_sign_in = await fetch_token(
                client_grant, self._http, select_challenge(refusal.www_authenticate)
            )
        return True

    def _get_signer(self, sign_in: StoredSignIn) -> JwtSigner | None:
        """Return the signer for DPoP proofs, or None if the token is not bound to a key."""
        if not sign_in.dpop_key:
            return None
        if self._signer is None or self._signer_jwk != sign_in.dpop_key:
            self._signer, self._signer_jwk = JwtSigner.from_jwk(sign_in.dpop_key), sign_in.dpop_key
        return self._signer
