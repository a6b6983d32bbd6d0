"""The device flow (RFC 8628): a code that the user enters in a browser anywhere, while we ask for the token."""

import time
from collections.abc import Callable

import anyio

from mcphost.auth.client_registration import Client
from mcphost.auth.discovery import IssuerDocument
from mcphost.auth.jwt_proofs import Signer
from mcphost.auth.oauth_http import Requests, Unreachable
from mcphost.auth.tokens import TokenRefused, Tokens, authentication, exchange, seconds
from mcphost.auth.url_policy import Unsafe, checked, origin
from mcphost.redact import register_server_secret
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL = 5.0
SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 60.0
_MOST_CODE = 64
_MOST_WHOLE = 1_000


class DeviceCode(Struct, frozen=True):
    """What the user enters where, and what we ask with; `lasts` and `interval` in seconds.

    `whole` is the address with the code in it, for a picture that another machine takes it from; "" for none. Whoever
    types reads the code where mcphost shows it, and opens `address` (RFC 8628, section 5.4).
    """

    device_code: str
    user_code: str
    address: str
    lasts: float
    interval: float
    whole: str = ""

    def __repr__(self) -> str:
        return f"DeviceCode({self.address!r})"


async def start(
    requests: Requests, document: IssuerDocument, client: Client, resource: str, scopes: tuple[str, ...]
) -> DeviceCode:
    """A code for the user. Raises TokenRefused, Unsafe, Unreachable."""
    endpoint = document.device_authorization_endpoint
    if not endpoint:
        raise Unreachable(f"The authorization server {document.issuer[:200]} does not offer to sign in by a code.")
    form = {"resource": resource, **({"scope": " ".join(scopes)} if scopes else {})}
    headers = authentication(client, form)
    reply = await requests.post_form(endpoint, form, "device authorization endpoint", headers)
    members = reply.members()
    code, user_code, address = (members.get(name) for name in ("device_code", "user_code", "verification_uri"))
    if not (reply.ok and isinstance(code, str) and isinstance(user_code, str) and isinstance(address, str) and code):
        raise TokenRefused.by(
            reply, f"The authorization server {document.issuer[:200]} gave no code", "there was no code in its answer."
        )
    register_server_secret(code)
    await requests.judge(address, "verification address")
    return DeviceCode(
        code,
        sanitize(user_code[:_MOST_CODE], keep_newlines=False),
        address,
        seconds(members.get("expires_in")),
        min(max(seconds(members.get("interval", INTERVAL)), SHORTEST_INTERVAL), LONGEST_INTERVAL),
        _whole(members.get("verification_uri_complete"), address, user_code),
    )


def _whole(given: object, address: str, user_code: str) -> str:
    """The complete address, when it leads where the other one leads and has the code that is shown; else ""."""
    if not isinstance(given, str) or len(given) > _MOST_WHOLE or user_code not in given:
        return ""
    try:
        return given if origin(checked(given, "verification address")) == origin(address) else ""
    except Unsafe:
        return ""


async def poll(
    requests: Requests,
    document: IssuerDocument,
    client: Client,
    resource: str,
    code: DeviceCode,
    asked: Callable[[int, float, bool], None],
    signer: Signer | None = None,
) -> Tokens:
    """Ask until the user is done, never faster than told. Raises TokenRefused, Unreachable; may be cancelled.

    `asked` hears after each time how often that was, after how many seconds it is asked again, and whether that is
    longer than at first.
    """
    interval, until, polls = code.interval, time.monotonic() + code.lasts, 0
    form = {"grant_type": GRANT, "device_code": code.device_code}
    while True:
        await anyio.sleep(interval)
        try:
            with anyio.CancelScope(shield=True):
                return await exchange(requests, document, client, resource, form, signer=signer)
        except TokenRefused as error:
            if error.code == "slow_down":
                interval = min(interval + INTERVAL, LONGEST_INTERVAL)
            elif error.code != "authorization_pending":
                raise
        except Unreachable:
            interval = min(interval * 2, LONGEST_INTERVAL)  # RFC 8628, section 3.5
        polls += 1
        asked(polls, interval, interval > code.interval)
        if time.monotonic() > until:
            raise TokenRefused("The code was not entered in time.", "Sign in again.", code="expired_token")
