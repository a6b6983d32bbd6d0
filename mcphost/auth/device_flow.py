"""The device authorization flow (RFC 8628): the user enters a code in a browser on any machine."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack

import anyio

from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.dpop import JwtSigner
from mcphost.auth.interactive_flow import AuthorizationRequest, InteractiveSignIn, SignInMethodSwitched, SignInStep
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient
from mcphost.auth.registration import OAuthClient
from mcphost.auth.tokens import TokenError, TokenSet, authenticate_client, parse_lifetime, request_tokens
from mcphost.auth.url_policy import UnsafeUrl, check_url, url_origin
from mcphost.errors import SignInRequired
from mcphost.redact import register_server_secret
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct
from mcphost.sign_in import SignInTerms

DEVICE_CODE_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_INTERVAL = 5.0
MIN_INTERVAL = 1.0
MAX_INTERVAL = 60.0
_MAX_USER_CODE_LENGTH = 64
_MAX_COMPLETE_URI_LENGTH = 1_000


class DeviceAuthorization(Struct, frozen=True):
    """A device code and what the user enters where; `expires_in` and `interval` are in seconds.

    `verification_uri_complete` includes the code, for a QR code; "" if there is none. A user who types reads the code
    and opens `verification_uri` (RFC 8628, section 5.4).
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
    """Request a device code. Raises TokenError, UnsafeUrl, EndpointUnreachable."""
    endpoint = document.device_authorization_endpoint
    if not endpoint:
        raise EndpointUnreachable(f"The authorization server {document.issuer[:200]} does not offer device codes.")
    form = {"resource": resource, **({"scope": " ".join(scopes)} if scopes else {})}
    headers = authenticate_client(client, form)
    reply = await http.post_form(endpoint, form, "device authorization endpoint", headers)
    members = reply.json_members()
    code, user_code, uri = (members.get(name) for name in ("device_code", "user_code", "verification_uri"))
    if not (
        reply.is_success and isinstance(code, str) and isinstance(user_code, str) and isinstance(uri, str) and code
    ):
        raise TokenError.from_response(
            reply, f"The authorization server {document.issuer[:200]} issued no code", "the response has no code."
        )
    register_server_secret(code)
    await http.check_url(uri, "verification address")
    return DeviceAuthorization(
        code,
        sanitize(user_code[:_MAX_USER_CODE_LENGTH], keep_newlines=False),
        uri,
        parse_lifetime(members.get("expires_in")),
        min(max(parse_lifetime(members.get("interval", DEFAULT_INTERVAL)), MIN_INTERVAL), MAX_INTERVAL),
        _check_complete_uri(members.get("verification_uri_complete"), uri, user_code),
    )


def _check_complete_uri(uri: object, verification_uri: str, user_code: str) -> str:
    """Return *uri* if it has the origin of the other URI and includes the code; otherwise ""."""
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
    """Request the token until the user is done. Raises TokenError, EndpointUnreachable; may be cancelled.

    The server's interval is respected. *on_poll* receives the number of requests, the seconds until the next one, and
    whether that is longer than at first.
    """
    interval, deadline, polls = authorization.interval, time.monotonic() + authorization.expires_in, 0
    form = {"grant_type": DEVICE_CODE_GRANT_TYPE, "device_code": authorization.device_code}
    while True:
        await anyio.sleep(interval)
        try:
            with anyio.CancelScope(shield=True):
                return await request_tokens(http, document, client, resource, form, signer=signer)
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


async def run_device_flow(
    interactive: InteractiveSignIn, request: AuthorizationRequest
) -> tuple[TokenSet, OAuthClient]:
    """Return the tokens and the client. Raises SignInMethodSwitched, and as AuthorizationFlow.run."""
    document, resource = request.metadata, request.resource.identifier
    interactive.report_step(SignInStep.CLIENT)
    await interactive.http.check_url(document.token_endpoint, "token endpoint")  # before the user signs in
    async with AsyncExitStack() as stack:
        _, client = await interactive.client_resolver.resolve(stack, document, request.issuer, request.scopes)
    code = await request_device_authorization(interactive.http, document, client, resource, request.scopes)
    outcomes: list[TokenSet | SignInRequired | SignInMethodSwitched] = []
    timeout = min(interactive.target.timeout, code.expires_in)
    deadline = anyio.current_time() + timeout

    def report_poll(polls: int, interval: float, slowed: bool) -> None:
        remaining = deadline - anyio.current_time()
        interactive.report_step(SignInStep.PERSON, seconds=remaining, polls=polls, interval=interval, slowed=slowed)

    report_poll(0, code.interval, slowed=False)

    def switch_method() -> None:
        outcomes.append(SignInMethodSwitched())
        tasks.cancel_scope.cancel()

    async def ask_person() -> None:
        switch = switch_method if document.authorization_endpoint else None
        others = await interactive.other_accounts()
        terms = SignInTerms(
            timeout=timeout,
            verification_uri_complete=code.verification_uri_complete,
            poll_interval=code.interval,
            switch_method=switch,
            other_accounts=others,
        )
        if (
            await interactive.ask_person(
                request, code.verification_uri, terms, note=interactive.previous_error, code=code.user_code
            )
            is None
        ):
            outcomes.append(interactive.refusal_error())
            tasks.cancel_scope.cancel()

    with anyio.move_on_after(interactive.target.timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_person)
            try:
                outcomes.append(
                    await poll_token(
                        interactive.http, document, client, resource, code, report_poll, interactive.signer
                    )
                )
            except SignInRequired as error:
                outcomes.append(error)
            tasks.cancel_scope.cancel()
    tokens = next((outcome for outcome in outcomes if isinstance(outcome, TokenSet)), None)
    if tokens is not None:
        return tokens, client
    raise next((outcome for outcome in outcomes if isinstance(outcome, Exception)), interactive.timeout_error())
