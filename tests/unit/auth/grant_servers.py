"""Authorization servers for sign-ins without a user and for tokens bound to a key, with helpers for keys and JWTs."""

import base64
import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcphost.auth.client_grants import ID_JAG_TOKEN_TYPE
from tests.unit.auth.oauth_peer import OAuthPeer
from tests.unit.transport.raw_http import ReceivedRequest


class MachineTokenServer(OAuthPeer):
    """A server for client credentials and token exchange, which also acts as the identity provider."""

    async def token(self, request: ReceivedRequest) -> None:
        form = self.form(request)
        if form.get("error"):
            await self.json(request, {"error": "invalid_grant", "error_description": "no"}, 400)
        elif form["grant_type"].endswith("token-exchange"):
            jag = {"access_token": "the-id-jag-assertion", "issued_token_type": ID_JAG_TOKEN_TYPE, "token_type": "N_A"}
            await self.json(request, jag | self.registration)
        else:
            await self.grant(request, "machine", form.get("scope", ""))

    def form(self, request: ReceivedRequest) -> dict[str, str]:
        from urllib.parse import parse_qsl

        form = dict(parse_qsl(request.body.decode()))
        self.forms.append(form | {"authorization": request.headers.get("authorization", "")})
        return form


def decode_jwt(jwt: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, body, _ = (base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in jwt.split("."))
    return json.loads(head), json.loads(body)


class DpopServer(OAuthPeer):
    """A server that requires DPoP proofs, with different nonces at the authorization server and the MCP server."""

    def good(self, request: ReceivedRequest, nonce: str, token: str = "") -> bool:
        import jwt

        proof = request.headers.get("dpop", "")
        if not proof:
            return False
        head, _ = decode_jwt(proof)
        key = jwt.PyJWK(head["jwk"])
        claims = jwt.decode(proof, key, algorithms=["ES256"], options={"verify_aud": False})
        assert head["typ"] == "dpop+jwt"
        assert "d" not in head["jwk"]
        assert claims["htm"] == "POST"
        assert claims["htu"] == f"{self.origin}{request.path}"
        assert claims["jti"] not in self.live
        self.live[claims["jti"]] = ""
        if token:
            digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
            assert claims["ath"] == digest
        return claims.get("nonce") == nonce

    async def token(self, request: ReceivedRequest) -> None:
        if not self.good(request, "nonce-as"):
            await request.reply(400, b'{"error": "use_dpop_nonce"}', dpop_nonce="nonce-as")
            return
        access = f"bound-{len(self.valid)}-token"
        self.valid[access] = set()
        await self.json(
            request, {"access_token": access, "token_type": "DPoP", "expires_in": 3600, "refresh_token": "rrrrrrr"}
        )

    async def mcp(self, request: ReceivedRequest) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if token not in self.valid:
            await request.reply(401, b"", www_authenticate='DPoP algs="ES256"')
        elif scheme != "DPoP" or not self.good(request, "nonce-rs", token):
            await request.reply(401, b"", www_authenticate='DPoP error="use_dpop_nonce"', dpop_nonce="nonce-rs")
        else:
            await request.result({})


def create_private_key_pem() -> str:
    """Return a private key in PEM format."""
    key = ec.generate_private_key(ec.SECP256R1())
    kind = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()
