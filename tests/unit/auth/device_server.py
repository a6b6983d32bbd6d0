"""An authorization server for the device flow, and a simulated user who signs in with its code."""

from typing import Any

from tests.unit.auth.oauth_peer import OAuthPeer
from tests.unit.transport.raw_http import ReceivedRequest


class DeviceCodeServer(OAuthPeer):
    """A server that answers each poll with the next error code in `said`, and with a token when none is left."""

    said: list[str]
    code: dict[str, Any]

    async def handle(self, request: ReceivedRequest) -> None:
        if request.path == "/device":
            standard = {
                "device_code": "the-device-code",
                "user_code": "ABCD-1234",
                "verification_uri": f"{self.origin}/enter",
            }
            await self.json(request, standard | {"expires_in": 60, "interval": 0} | self.code)
        else:
            await super().handle(request)

    def metadata(self) -> dict[str, Any]:
        return super().metadata() | {"device_authorization_endpoint": f"{self.origin}/device"}

    async def token(self, request: ReceivedRequest) -> None:
        if self.said:
            await self.json(request, {"error": self.said.pop(0)}, 400)
        else:
            await self.grant(request, "family", "tools:read")


class DeviceCodeUser:
    """A user who is shown the device code, and answers with `answer`; `shown` records the arguments of each sign-in."""

    def __init__(self, answer: str | None = "") -> None:
        self.answer = answer
        self.shown: list[dict[str, Any]] = []

    async def ask_client_id(self, **asked: str) -> None:
        """Return None, because no client is registered manually."""

    async def sign_in(self, **shown: Any) -> str | None:
        self.shown.append(shown)
        return self.answer
