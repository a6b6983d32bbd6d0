"""Sign-in with a device code (RFC 8628): the user enters a short code in a browser on any device."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import anyio

from mcphost.auth.cancellation_grace import finish_despite_cancellation
from mcphost.auth.discovery import (
    AuthorizationServerMetadata,
)
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.registration import OAuthClient
from mcphost.auth.sign_in_context import (
    AuthorizationRequest,
    SignInContext,
    SignInMethodSwitched,
    SignInStep,
)
from mcphost.auth.tokens import (
    TokenError,
    TokenSet,
    authenticate_client,
    parse_lifetime,
    request_tokens,
)
from mcphost.auth.url_policy import UnsafeUrl, check_url, url_origin
from mcphost.errors import SignInRequired
from mcphost.redact import register_server_secret
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct
from mcphost.sign_in_types import SignInTerms

DEVICE_CODE_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_INTERVAL = 5.0
MIN_INTERVAL = 1.0
MAX_INTERVAL = 60.0
_MAX_USER_CODE_LENGTH = 64
_MAX_COMPLETE_URI_LENGTH = 1_000


class DeviceAuthorization(Struct, frozen=True):
    """A device authorization response (RFC 8628, section 3.2); `expires_in` and `interval` are in seconds.

    A user who types `user_code` opens `verification_uri` (section 5.4). `verification_uri_complete`, which already
    includes the code, is meant for a QR code; it is "" if the server sent none.
    """

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    interval: float
    verification_uri_complete: str = ""

    def __repr__(self) -> str:
        return f"DeviceAuthorization({self.verification_uri!r})"


async def request_device_authorization(
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    client: OAuthClient,
    resource: str,
    scopes: tuple[str, ...],
) -> DeviceAuthorization:
    """Request a device code and a user code (RFC 8628).

    Raises TokenError, UnsafeUrl or EndpointUnreachable.
    """
    endpoint = document.device_authorization_endpoint
    if not endpoint:
        raise EndpointUnreachable(f"The authorization server {document.issuer[:200]} does not offer device codes.")
    form = {"resource": resource, **({"scope": " ".join(scopes)} if scopes else {})}
    headers = authenticate_client(client, form)
    reply = await http.post_form(endpoint, form, "device authorization endpoint", headers)
    members = reply.json_members()
    code, user_code, uri = (members.get(name) for name in ("device_code", "user_code", "verification_uri"))
    # Without a user code, the question would look like one about signing in with a browser.
    if not (
        reply.is_success
        and isinstance(code, str)
        and isinstance(user_code, str)
        and isinstance(uri, str)
        and code
        and user_code.strip()
    ):
        raise TokenError.from_response(
            reply, f"The authorization server {document.issuer[:200]} issued no code", "the response has no code."
        )
    register_server_secret(code, document.issuer)
    await http.check_url(uri, "verification address")
    return DeviceAuthorization(
        code,
        sanitize_line(user_code, _MAX_USER_CODE_LENGTH),
        uri,
        parse_lifetime(members.get("expires_in")),
        min(max(parse_lifetime(members.get("interval"), DEFAULT_INTERVAL), MIN_INTERVAL), MAX_INTERVAL),
        _check_complete_uri(members.get("verification_uri_complete"), uri, user_code),
    )


def _check_complete_uri(uri: object, verification_uri: str, user_code: str) -> str:
    """Return *uri* if it is safe, has the origin of *verification_uri* and includes *user_code*; otherwise ""."""
    if not isinstance(uri, str) or len(uri) > _MAX_COMPLETE_URI_LENGTH or user_code not in uri:
        return ""
    try:
        return uri if url_origin(check_url(uri, "verification address")) == url_origin(verification_uri) else ""
    except UnsafeUrl:
        return ""


async def poll_token(
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    client: OAuthClient,
    resource: str,
    authorization: DeviceAuthorization,
    on_poll: Callable[[int, float, bool], None],
    signer: JwtSigner | None = None,
) -> TokenSet:
    """Poll the token endpoint until the user has authorized the sign-in; return the tokens.

    *authorization* is the response of `request_device_authorization`. *on_poll* is called with the number of
    requests so far, the seconds until the next request, and whether this interval is longer than the server's
    original interval. Raises TokenError if the server rejects the sign-in or the code expires. Can be
    cancelled.
    """
    interval, deadline, polls = authorization.interval, time.monotonic() + authorization.expires_in, 0
    form = {"grant_type": DEVICE_CODE_GRANT_TYPE, "device_code": authorization.device_code}
    while True:
        await anyio.sleep(interval)
        try:
            return await finish_despite_cancellation(
                partial(request_tokens, http, document, client, resource, form, signer=signer)
            )
        except TokenError as error:
            if error.code == "slow_down":
                interval = min(interval + DEFAULT_INTERVAL, MAX_INTERVAL)
            elif error.code != "authorization_pending":
                raise
        except EndpointUnreachable:
            interval = min(interval * 2, MAX_INTERVAL)  # RFC 8628, section 3.5
        polls += 1
        on_poll(polls, interval, interval > authorization.interval)
        if time.monotonic() > deadline:
            raise TokenError("The code was not entered in time.", "Sign in again.", code="expired_token")


async def run_device_flow(context: SignInContext, request: AuthorizationRequest) -> tuple[TokenSet, OAuthClient]:
    """Sign in with a device code; return the tokens and the OAuth client.

    Raises SignInMethodSwitched if the user switches to the browser. If the sign-in fails, raises SignInFailed,
    UntrustedMetadata, UnsafeUrl, EndpointUnreachable, RegistrationError or TokenError.
    """
    document, resource = request.metadata, request.resource.identifier
    context.report_step(SignInStep.CLIENT)
    await context.http.check_url(document.token_endpoint, "token endpoint")  # before the user signs in
    async with AsyncExitStack() as stack:
        _, client = await context.client_resolver.resolve(stack, document, request.issuer, request.scopes)
    code = await request_device_authorization(context.http, document, client, resource, request.scopes)
    outcomes: list[TokenSet | SignInRequired | SignInMethodSwitched] = []
    timeout = min(context.target.timeout, code.expires_in)
    deadline = anyio.current_time() + timeout

    def report_poll(polls: int, interval: float, slowed: bool) -> None:
        remaining = deadline - anyio.current_time()
        context.report_step(SignInStep.PERSON, seconds=remaining, polls=polls, interval=interval, slowed=slowed)

    report_poll(0, code.interval, slowed=False)

    def switch_method() -> None:
        outcomes.append(SignInMethodSwitched())
        tasks.cancel_scope.cancel()

    async def ask_user() -> None:
        switch = switch_method if document.authorization_endpoint else None
        others = await context.other_accounts()
        terms = SignInTerms(
            timeout=timeout,
            verification_uri_complete=code.verification_uri_complete,
            poll_interval=code.interval,
            switch_method=switch,
            other_accounts=others,
        )
        if (
            await context.ask_user(
                request, code.verification_uri, terms, note=context.previous_error, code=code.user_code
            )
            is None
        ):
            outcomes.append(await context.refusal_error())
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(context.target.timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_user)
            try:
                outcomes.append(
                    await poll_token(context.http, document, client, resource, code, report_poll, context.signer)
                )
            except SignInRequired as error:
                outcomes.append(error)
            tasks.cancel_scope.cancel()
    tokens = next((outcome for outcome in outcomes if isinstance(outcome, TokenSet)), None)
    if tokens is not None:
        return tokens, client
    raise next((outcome for outcome in outcomes if isinstance(outcome, Exception)), context.timeout_error())
