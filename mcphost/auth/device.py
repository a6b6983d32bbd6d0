"""The device flow (RFC 8628): a code that the user enters in a browser anywhere, while we ask for the token."""

import time

import anyio

from mcphost.auth.metadata import IssuerDocument
from mcphost.auth.proofs import Signer
from mcphost.auth.registration import Client, told
from mcphost.auth.requests import Requests, Unreachable
from mcphost.auth.tokens import TokenRefused, Tokens, authentication, exchange, seconds
from mcphost.auth.urls import checked
from mcphost.clean import visible
from mcphost.data import Data
from mcphost.redact import register

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL = 5.0
SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 60.0
_MOST_CODE = 64


class DeviceCode(Data, frozen=True):
    """What the user enters where, and what we ask with; `lasts` and `interval` in seconds."""

    device_code: str
    user_code: str
    address: str
    lasts: float
    interval: float

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
        error = members.get("error")
        raise TokenRefused(
            f"The authorization server {document.issuer[:200]} gave no code: {told(reply, members)}",
            code=error if isinstance(error, str) else "",
        )
    register(code)
    # The complete address is not used: whoever types the code has read it where mcphost showed it.
    return DeviceCode(
        code,
        visible(user_code[:_MOST_CODE], keep_newlines=False),
        checked(address, "verification address"),
        seconds(members.get("expires_in")),
        min(max(seconds(members.get("interval", INTERVAL)), SHORTEST_INTERVAL), LONGEST_INTERVAL),
    )


async def poll(
    requests: Requests,
    document: IssuerDocument,
    client: Client,
    resource: str,
    code: DeviceCode,
    *,
    signer: Signer | None = None,
) -> Tokens:
    """Ask until the user is done, never faster than told. Raises TokenRefused, Unreachable; may be cancelled."""
    interval, until = code.interval, time.monotonic() + code.lasts
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
        if time.monotonic() > until:
            raise TokenRefused("The code was not entered in time.", "Sign in again.", code="expired_token")
