"""The authorization code flow: a browser on this machine, its response to a listener, or a pasted URL.

Specification: basic/authorization. Nothing of a response is used or shown before `state` and `iss` match (RFC 9207).
"""

import base64
import hashlib
import secrets
from contextlib import AsyncExitStack
from urllib.parse import parse_qsl, urlencode

import anyio

from mcphost.auth.callback_server import AuthorizationResponse, CallbackServer, parse_authorization_response
from mcphost.auth.discovery import AuthorizationServerMetadata, UntrustedMetadata, check_pkce
from mcphost.auth.interactive_flow import AuthorizationRequest, InteractiveSignIn, SignInMethodSwitched, SignInStep
from mcphost.auth.oauth_http import EndpointUnreachable
from mcphost.auth.registration import ENTERED_KIND, OAuthClient, quote_server_text
from mcphost.auth.tokens import TokenSet, request_tokens
from mcphost.auth.url_policy import check_url
from mcphost.auth.user_interaction import SignInFailed
from mcphost.redact import register_secret, register_server_secret
from mcphost.sign_in import SignInTerms
from mcphost.unicode_forms import split_url


class AuthorizationAttempt:
    """The secrets of one authorization request: PKCE (RFC 7636, S256 only) and `state`; never stored."""

    __slots__ = ("challenge", "state", "verifier")
    METHOD = "S256"

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(24)
        self.challenge = s256_challenge(self.verifier)
        register_secret(self.verifier)
        register_secret(self.state)


def s256_challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def extract_code(response: AuthorizationResponse, document: AuthorizationServerMetadata, issuer: str) -> str:
    """Return the code if the response comes from *issuer*. Raises UntrustedMetadata, SignInFailed."""
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
    register_server_secret(code)
    return code


SELECT_ACCOUNT = "select_account"
_RESERVED_PARAMETERS = frozenset(
    {"response_type", "response_mode", "client_id", "redirect_uri", "state", "scope", "resource", "prompt",
     "code_challenge", "code_challenge_method", "request", "request_uri"}
)  # fmt: skip
"""Parameters that mcphost sends, and those that could replace them."""


async def run_code_flow(interactive: InteractiveSignIn, request: AuthorizationRequest) -> tuple[TokenSet, OAuthClient]:
    """Return the tokens and the client. Raises SignInMethodSwitched, and as AuthorizationFlow.run."""
    document, issuer = request.metadata, request.issuer
    interactive.report_step(SignInStep.CLIENT)
    check_pkce(document, is_legacy=request.resource.is_legacy)
    if not document.authorization_endpoint:
        raise EndpointUnreachable(
            f"The authorization server {issuer[:200]} has no authorization endpoint.",
            "Its operator must add one. You may be able to use a device code: mcphost login --device",
        )
    _check_endpoint_query(document.authorization_endpoint)
    await interactive.http.check_url(document.authorization_endpoint, "authorization endpoint")
    await interactive.http.check_url(document.token_endpoint, "token endpoint")  # before the user signs in
    async with AsyncExitStack() as stack:
        callback, client = await interactive.client_resolver.resolve(stack, document, issuer, request.scopes)
        interactive.is_client_registered = client.kind in (ENTERED_KIND, "registered")
        attempt = AuthorizationAttempt()
        interactive.report_step(SignInStep.PERSON, seconds=interactive.target.timeout)
        url = _authorization_url(interactive, request, client, callback, attempt)
        response = await _wait_for_response(interactive, request, callback, attempt, url)
    code = extract_code(response, document, issuer)
    interactive.report_step(SignInStep.CODE)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.redirect_uri,
        "code_verifier": attempt.verifier,
    }
    # The code works once, so the tokens must be received and stored before cancellation.
    with anyio.CancelScope(shield=True):
        tokens = await request_tokens(
            interactive.http, document, client, request.resource.identifier, form, signer=interactive.signer
        )
        return tokens, client
    raise AssertionError("a shielded scope is not cancelled")


def _check_endpoint_query(endpoint: str) -> None:
    """Raise UntrustedMetadata if the endpoint's query has a parameter that mcphost sends (RFC 6749, 3.1).

    A parameter may occur only once. Which of two counts is the server's choice, and a foreign one may send the code
    elsewhere.
    """
    query = split_url(endpoint).query
    pairs = [pair for separator in "&;" for pair in parse_qsl(query, keep_blank_values=True, separator=separator)]
    for name, _ in pairs:
        if name.strip().lower() in _RESERVED_PARAMETERS:
            raise UntrustedMetadata(
                f"The authorization endpoint {endpoint[:200]!r} has {name.strip()[:40]!r} in its own query, which "
                "mcphost sends too; a parameter may occur only once (RFC 6749, section 3.1).",
                "The operator of the authorization server must remove it there. The sign-in was not started.",
            )


def _authorization_url(
    interactive: InteractiveSignIn,
    request: AuthorizationRequest,
    client: OAuthClient,
    callback: CallbackServer,
    attempt: AuthorizationAttempt,
) -> str:
    """Return the URL that the browser opens."""
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
    if interactive.target.account and SELECT_ACCOUNT in request.metadata.prompt_values_supported:
        # Otherwise a browser that remembers an account uses it for every name (OpenID Connect Core, 3.1.2.1).
        parameters["prompt"] = SELECT_ACCOUNT
    endpoint = request.metadata.authorization_endpoint
    separator = "" if endpoint.endswith(("?", "&")) else "&" if "?" in endpoint else "?"
    return check_url(f"{endpoint}{separator}{urlencode(parameters)}", "address of the sign-in")


async def _wait_for_response(
    interactive: InteractiveSignIn,
    request: AuthorizationRequest,
    callback: CallbackServer,
    attempt: AuthorizationAttempt,
    url: str,
) -> AuthorizationResponse:
    """Return the first response with the right state, from the browser or pasted by the user.

    The user may switch to a device code if the server offers one; that raises SignInMethodSwitched.
    """
    accepted: list[AuthorizationResponse] = []
    is_refused = is_switched = False
    deadline = anyio.current_time() + interactive.target.timeout

    def has_state(response: AuthorizationResponse) -> bool:
        return secrets.compare_digest(response.get("state").encode(), attempt.state.encode())

    def is_expected(response: AuthorizationResponse) -> bool:
        if not (is_ours := has_state(response)):
            interactive.report_foreign_response(deadline - anyio.current_time())
        return is_ours

    def switch_method() -> None:
        nonlocal is_switched
        is_switched = True
        tasks.cancel_scope.cancel()

    async def ask_person() -> None:
        nonlocal is_refused
        note, others = interactive.previous_error, await interactive.other_accounts()
        switch = switch_method if request.metadata.device_authorization_endpoint else None
        while True:
            terms = SignInTerms(timeout=deadline - anyio.current_time(), switch_method=switch, other_accounts=others)
            redirect_url = await interactive.ask_person(request, url, terms, note=note)
            if redirect_url is None:
                is_refused = True
                tasks.cancel_scope.cancel()
            if not redirect_url:
                return
            pasted = parse_authorization_response(redirect_url)
            if has_state(pasted):
                accepted.append(pasted)
                tasks.cancel_scope.cancel()
                return
            note = "That is not the redirect URL of this sign-in."

    callback.expect(is_expected)
    with anyio.move_on_after(interactive.target.timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_person)
            accepted.append(await callback.wait())
            tasks.cancel_scope.cancel()
    if accepted:
        return accepted[0]
    if is_switched:
        raise SignInMethodSwitched
    raise interactive.refusal_error() if is_refused else interactive.timeout_error()
