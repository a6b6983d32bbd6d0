"""Interactive sign-in, from OAuth discovery and client registration to the storage of the tokens.

Specification: basic/authorization. The user authorizes in the browser (code flow) or by entering a code on any device
(device flow).
"""

import base64
import hashlib
import re
import secrets
from contextlib import AsyncExitStack
from functools import partial
from urllib.parse import parse_qsl, urlencode

import anyio

from mcphost.auth.accounts import DiscoverySummary
from mcphost.auth.callback_server import AuthorizationResponse, CallbackServer, parse_authorization_response
from mcphost.auth.cancellation_grace import finish_despite_cancellation
from mcphost.auth.device_flow import run_device_flow
from mcphost.auth.discovery import (
    AuthorizationServerMetadata,
    ProtectedResource,
    UntrustedMetadata,
    check_pkce,
    discover_issuer,
    discover_resource,
    summarize_discovery,
)
from mcphost.auth.dpop import JwtSigner, load_joserfc
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.registration import ENTERED_KIND, OAuthClient, quote_server_text
from mcphost.auth.sign_in_context import (
    AuthorizationRequest,
    ProgressCallback,
    SignInContext,
    SignInFailed,
    SignInInteraction,
    SignInMethodSwitched,
    SignInStep,
    SignInTarget,
    ignore_progress,
)
from mcphost.auth.token_store import StoredSignIn, TokenStore
from mcphost.auth.tokens import (
    TokenError,
    TokenSet,
    is_scope,
    request_tokens,
    select_scopes,
)
from mcphost.auth.url_policy import check_url
from mcphost.auth.www_authenticate import Challenge
from mcphost.errors import SignInRequired
from mcphost.redact import register_secret, register_server_secret
from mcphost.sanitize import replace_surrogates
from mcphost.sign_in_types import WRONG_REDIRECT, SignInTerms, check_entries
from mcphost.unicode_forms import split_url


class AuthorizationAttempt:
    """Secrets of one authorization request: the PKCE pair (RFC 7636, S256 only) and `state`; never stored."""

    __slots__ = ("challenge", "state", "verifier")
    METHOD = "S256"

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(24)
        self.challenge = s256_challenge(self.verifier)
        register_secret(self.verifier)
        register_secret(self.state)


def s256_challenge(verifier: str) -> str:
    """Return the PKCE code challenge for a code verifier (method S256, RFC 7636)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def extract_code(response: AuthorizationResponse, document: AuthorizationServerMetadata, issuer: str) -> str:
    """Return the authorization code from the authorization response.

    Raises UntrustedMetadata if `iss` names another issuer, or is missing although *document* declares that the
    server sends it (RFC 9207). Raises SignInFailed if the response is an error or has no code.
    """
    if "iss" in response.params:
        if response.params["iss"] != document.issuer:
            raise UntrustedMetadata(f"The response to the sign-in does not come from {issuer[:200]}; it was not used.")
    elif document.authorization_response_iss_parameter_supported:
        raise UntrustedMetadata(
            f"The response to the sign-in does not say that it comes from {issuer[:200]}; it was not used."
        )
    if error := response.get("error"):
        texts = [quote_server_text(text) for text in (error, response.get("error_description"))]
        reason = ": ".join(text for text in texts if text)
        raise SignInFailed(f"The authorization server {issuer[:200]} reported: {reason}.", "Sign in again.")
    code = response.get("code")
    if not code:
        raise SignInFailed(f"The authorization server {issuer[:200]} sent neither a code nor an error.")
    register_server_secret(code, document.issuer)
    return code


SELECT_ACCOUNT = "select_account"
_RESERVED_PARAMETERS = frozenset(
    {"response_type", "response_mode", "client_id", "redirect_uri", "state", "scope", "resource", "prompt",
     "code_challenge", "code_challenge_method", "request", "request_uri"}
)  # fmt: skip
"""Parameters that mcphost sends itself, and parameters that could override them."""


async def run_code_flow(context: SignInContext, request: AuthorizationRequest) -> tuple[TokenSet, OAuthClient]:
    """Sign in through the browser; return the tokens and the OAuth client.

    Raises SignInMethodSwitched if the user switches to a device code. If the sign-in fails, raises SignInFailed,
    UntrustedMetadata, UnsafeUrl, EndpointUnreachable, RegistrationError or TokenError.
    """
    document, issuer = request.metadata, request.issuer
    context.report_step(SignInStep.CLIENT)
    check_pkce(document, is_legacy=request.resource.is_legacy)
    if not document.authorization_endpoint:
        raise EndpointUnreachable(
            f"The authorization server {issuer[:200]} has no authorization endpoint.",
            "Its operator must add one. You may be able to use a device code: mcphost login --device",
        )
    _check_endpoint_query(document.authorization_endpoint)
    await context.http.check_url(document.authorization_endpoint, "authorization endpoint")
    await context.http.check_url(document.token_endpoint, "token endpoint")  # before the user signs in
    async with AsyncExitStack() as stack:
        callback, client = await context.client_resolver.resolve(stack, document, issuer, request.scopes)
        context.is_client_registered = client.kind in (ENTERED_KIND, "registered")
        attempt = AuthorizationAttempt()
        context.report_step(SignInStep.PERSON, seconds=context.target.timeout)
        url = _authorization_url(context, request, client, callback, attempt)
        response = await _wait_for_response(context, request, callback, attempt, url)
    code = extract_code(response, document, issuer)
    context.report_step(SignInStep.CODE)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.redirect_uri,
        "code_verifier": attempt.verifier,
    }
    # The code works once, so the tokens are received and stored before cancellation.
    tokens = await finish_despite_cancellation(
        partial(
            request_tokens, context.http, document, client, request.resource.identifier, form, signer=context.signer
        )
    )
    return tokens, client


def _check_endpoint_query(endpoint: str) -> None:
    """Raise UntrustedMetadata if the query of *endpoint* already contains a parameter that mcphost adds.

    *endpoint* is the URL of the authorization endpoint. No parameter may occur more than once (RFC 6749, section 3.1):
    a server could use either value, and a second `redirect_uri` could send the authorization code to another address.

    The error is also raised for parameter names that some servers might treat as a name that mcphost adds, and for
    names with control characters, brackets or percent signs.
    """
    query = split_url(endpoint).query
    pairs = [pair for separator in "&;" for pair in parse_qsl(query, keep_blank_values=True, separator=separator)]
    for name, _ in pairs:
        # PHP reads dots, spaces and brackets in a name as underscores; other servers ignore what follows a zero byte.
        if re.sub("[^a-z0-9]", "_", name.casefold()).strip("_") in _RESERVED_PARAMETERS:
            raise UntrustedMetadata(
                f"The authorization endpoint {endpoint[:200]!r} has {name.strip()[:40]!r} in its own query, which "
                "mcphost sends too; a parameter may occur only once (RFC 6749, section 3.1).",
                "The operator of the authorization server must remove it there. The sign-in was not started.",
            )
        if not name.isprintable() or any(character in name for character in "[]%"):
            raise UntrustedMetadata(
                f"The authorization endpoint {endpoint[:200]!r} has {name.strip()[:40]!r} in its own query, which "
                "servers read in different ways.",
                "The operator of the authorization server must remove it there. The sign-in was not started.",
            )


def _authorization_url(
    context: SignInContext,
    request: AuthorizationRequest,
    client: OAuthClient,
    callback: CallbackServer,
    attempt: AuthorizationAttempt,
) -> str:
    """Return the authorization request as a URL for the browser. Raises UnsafeUrl.

    The redirect URI is taken from *callback*; the PKCE challenge and the `state` are taken from *attempt*.
    """
    parameters = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": callback.redirect_uri,
        "state": attempt.state,
        "code_challenge": attempt.challenge,
        "code_challenge_method": attempt.METHOD,
        "resource": request.resource.identifier,
    }
    if request.scopes:
        parameters["scope"] = " ".join(request.scopes)
    if context.target.account and SELECT_ACCOUNT in request.metadata.prompt_values_supported:
        # Otherwise, a browser that is already signed in would use that account for every account name
        # (OpenID Connect Core, section 3.1.2.1).
        parameters["prompt"] = SELECT_ACCOUNT
    endpoint = request.metadata.authorization_endpoint
    separator = "" if endpoint.endswith(("?", "&")) else "&" if "?" in endpoint else "?"
    return check_url(f"{endpoint}{separator}{urlencode(parameters)}", "address of the sign-in")


async def _wait_for_response(
    context: SignInContext,
    request: AuthorizationRequest,
    callback: CallbackServer,
    attempt: AuthorizationAttempt,
    url: str,
) -> AuthorizationResponse:
    """Wait for the first response with the expected `state`, either from the browser or pasted by the user.

    Raises SignInMethodSwitched if the user switches to a device code (offered only if the server supports device
    codes). Raises SignInFailed if the user declines or time runs out.
    """
    accepted: list[AuthorizationResponse] = []
    is_refused = is_switched = False
    deadline = anyio.current_time() + context.target.timeout

    def has_state(response: AuthorizationResponse) -> bool:
        return secrets.compare_digest(replace_surrogates(response.get("state")).encode(), attempt.state.encode())

    def is_expected(response: AuthorizationResponse) -> bool:
        if not (is_ours := has_state(response)):
            context.report_foreign_response(deadline - anyio.current_time())
        return is_ours

    def switch_method() -> None:
        nonlocal is_switched
        is_switched = True
        tasks.cancel_scope.cancel()

    def make_terms() -> SignInTerms:
        switch = switch_method if request.metadata.device_authorization_endpoint else None
        return SignInTerms(timeout=deadline - anyio.current_time(), switch_method=switch, other_accounts=others)

    async def ask_user() -> None:
        nonlocal is_refused
        note = context.previous_error
        with check_entries():
            while redirect_url := await context.ask_user(request, url, make_terms(), note=note):
                pasted = parse_authorization_response(redirect_url)
                if has_state(pasted):
                    accepted.append(pasted)
                    tasks.cancel_scope.cancel()
                    return
                note = WRONG_REDIRECT
        if redirect_url is None:
            is_refused = True
            tasks.cancel_scope.cancel()

    others = await context.other_accounts()
    callback.expect(is_expected)
    with anyio.move_on_after(context.target.timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_user)
            accepted.append(await callback.wait())
            tasks.cancel_scope.cancel()
    if accepted:
        return accepted[0]
    if is_switched:
        raise SignInMethodSwitched
    raise await context.refusal_error() if is_refused else context.timeout_error()


OFFLINE_ACCESS = "offline_access"


class SignInNotRequired(SignInFailed):
    """Raised when the user requests a sign-in to a server that does not require an account."""


class InteractiveSignIn:
    """An interactive sign-in to the server *target*; *on_progress* receives a SignInProgress at each step."""

    def __init__(
        self,
        target: SignInTarget,
        http: OAuthHttpClient,
        token_store: TokenStore,
        interaction: SignInInteraction,
        on_progress: ProgressCallback = ignore_progress,
    ) -> None:
        self._target = target
        self._http = http
        self._token_store = token_store
        self._sign_in_context = SignInContext(target, http, token_store, interaction, on_progress)

    @property
    def step(self) -> SignInStep:
        """The current step of the sign-in."""
        return self._sign_in_context.step

    async def run(
        self,
        challenge: Challenge,
        previous: StoredSignIn | None,
        *,
        is_step_up: bool,
        is_required: bool = True,
        use_device_code: bool = False,
        scopes: tuple[str, ...] = (),
        previous_issuer: str = "",
    ) -> StoredSignIn:
        """Sign in, store the tokens with their OAuth client, and return both. Can be cancelled.

        The scopes of *challenge* and *scopes* are requested. If *is_step_up* is true and the issuer has not changed,
        the scopes of the *previous* sign-in are requested, too. If *use_device_code* is true, the user enters a code in
        a browser on any machine. If the issuer differs from *previous_issuer*, that of the last sign-in, the user is
        warned. If *is_required* is false, SignInNotRequired is raised for a server without OAuth metadata.

        Raises SignInFailed (including SignInNotRequired), UntrustedMetadata, UnsafeUrl, EndpointUnreachable,
        RegistrationError, TokenError, InvalidScopes.
        """
        target = self._target
        self._sign_in_context.begin(has_previous=previous is not None, is_step_up=is_step_up)
        resource = await discover_resource(self._http, target.url, challenge.get("resource_metadata"))
        if resource.is_legacy and not is_required:
            raise SignInNotRequired(
                f"The server {target.server!r} does not require an account.", "There is nothing to do."
            )
        resource = resource.with_issuer(target.issuer)
        self._sign_in_context.report_step(SignInStep.ISSUER)
        issuer = await self._choose_issuer(resource, previous)
        if (
            use_device_code
            and target.client_secret
            and not target.issuer
            and (previous is None or previous.issuer != issuer)
        ):
            # With a device code, the client secret is sent before the user has seen the issuer it goes to.
            raise UntrustedMetadata(
                f"The server {target.server!r} requires a sign-in at {issuer[:200]!r}, but mcp.json names no issuer "
                "for its client secret; nothing was sent.",
                'If that is right, add "mcphost": {"oauth": {"issuer": "…"}} to this server.',
            )
        discovered = await discover_issuer(self._http, issuer, is_legacy=resource.is_legacy)
        document = discovered.metadata
        if previous is not None and previous.issuer == issuer and is_step_up:
            granted = previous.requested_scopes or previous.tokens.scopes
            # Earlier versions stored scopes without checking them.
            scopes = (*filter(is_scope, granted), *scopes)
        scopes = select_scopes(challenge.get("scope"), resource.scopes, scopes)
        if scopes and OFFLINE_ACCESS in document.scopes_supported and OFFLINE_ACCESS not in scopes:
            scopes = (*scopes, OFFLINE_ACCESS)  # otherwise no refresh token is issued
        # A DPoP challenge, or the metadata, requires that the token is bound to a key (RFC 9449).
        self._sign_in_context.signer = None
        if challenge.scheme == "dpop" or resource.requires_dpop:
            await load_joserfc()
            self._sign_in_context.signer = JwtSigner.generate()
        request = AuthorizationRequest(resource, document, issuer, scopes, previous_issuer)
        tokens, client = await self._obtain_tokens(request, use_device_code=use_device_code)
        return await self._store(request, tokens, client, summarize_discovery(resource, discovered))

    async def _obtain_tokens(
        self, request: AuthorizationRequest, *, use_device_code: bool
    ) -> tuple[TokenSet, OAuthClient]:
        """Let the user authorize, and return the tokens and the OAuth client.

        The user authorizes with a device code if *use_device_code* is true, otherwise in the browser, and can switch
        between the two methods. If the authorization server rejects a registered client, mcphost registers a new one,
        but only once.
        """
        with_code, has_registered_again = use_device_code, False
        while True:
            run_flow = run_device_flow if with_code else run_code_flow
            try:
                tokens, client = await run_flow(self._sign_in_context, request)
            except SignInMethodSwitched:
                with_code, self._sign_in_context.previous_error = not with_code, ""
            except SignInRequired as error:
                # If the server deleted the registration (RFC 6749, invalid_client), register again, once.
                client = await self._token_store.load_client(request.issuer)
                is_unknown = isinstance(error, TokenError) and error.code in ("invalid_client", "unauthorized_client")
                if is_unknown and not has_registered_again and client is not None and not self._target.client_id:
                    has_registered_again = True
                    await self._token_store.delete_client(client)
                elif with_code != use_device_code and self.step is SignInStep.CLIENT:
                    # The other method could not be started: return to the first one and show the reason.
                    with_code, self._sign_in_context.previous_error = use_device_code, error.message
                else:
                    raise
            else:
                if request.resource.requires_dpop and tokens.kind != "DPoP":
                    raise TokenError(
                        f"The server {self._target.server!r} requires tokens that are bound to a key (DPoP), but the "
                        f"authorization server {request.issuer[:200]!r} issued another; it was not used.",
                        "The operator of the authorization server must correct it.",
                    )
                return tokens, client

    async def _store(
        self, request: AuthorizationRequest, tokens: TokenSet, client: OAuthClient, discovery: DiscoverySummary
    ) -> StoredSignIn:
        """Store everything that a later token refresh needs, and return it.

        *discovery* is stored for display only. The caller must not await anything between receiving the tokens and
        calling this method; otherwise, the tokens could be lost on cancellation.
        """
        self._sign_in_context.report_step(SignInStep.DONE)
        document, signer = request.metadata, self._sign_in_context.signer
        sign_in = StoredSignIn(
            server=self._target.server,
            url=self._target.canonical_url,
            issuer=request.issuer,
            resource=request.resource.identifier,
            token_endpoint=document.token_endpoint,
            revocation_endpoint=document.revocation_endpoint,
            tokens=tokens,
            client=client,
            account=self._target.account,
            requested_scopes=request.scopes,
            dpop_key=signer.export_jwk() if signer is not None and tokens.kind == "DPoP" else "",
            discovery=discovery,
        )
        await self._token_store.save_new(sign_in)
        if client.kind == ENTERED_KIND:
            await self._token_store.save_client(client)
        return sign_in

    async def _choose_issuer(self, resource: ProtectedResource, previous: StoredSignIn | None) -> str:
        """Choose one of the issuers listed in *resource*, the metadata of the MCP server.

        In order of preference: the configured issuer, the issuer of the *previous* sign-in, an issuer with a stored
        OAuth client, the first listed issuer. If a client ID is configured without an issuer, and the *previous*
        sign-in used this client ID, the issuer of that sign-in counts as the configured issuer.

        Raises UntrustedMetadata if the configured issuer is not listed.
        """
        configured = self._target.issuer
        if not configured and previous is not None and previous.client.kind == "configured":
            # A client ID that is configured without an issuer belongs to the issuer with which it was first used.
            configured = previous.issuer if previous.client.id == self._target.client_id else ""
        if configured and configured not in resource.issuers:
            named = ", ".join(repr(name[:200]) for name in resource.issuers)
            raise UntrustedMetadata(
                f"The client ID of the server {self._target.server!r} belongs to the authorization server "
                f"{configured[:200]!r}, but the server now names {named}.",
                "Credentials for one authorization server are not sent to another. If the change is right, "
                "correct mcp.json.",
            )
        if configured:
            return configured
        if previous is not None and previous.issuer in resource.issuers:
            return previous.issuer
        for issuer in resource.issuers:
            if await self._token_store.load_client(issuer) is not None:
                return issuer
        return resource.issuers[0]
