"""Signed JWTs: DPoP proofs (RFC 9449) and client assertions (RFC 7523).

joserfc is imported on first use, because most sign-ins need no signature. The import would block the event loop, so
asynchronous code awaits `load_joserfc` first.
"""

import base64
import hashlib
import secrets
import time
from importlib import import_module
from typing import Any
from urllib.parse import urlunsplit

import anyio.to_thread

from mcphost.errors import ConfigError
from mcphost.redact import register_secret
from mcphost.serialization import dumps, loads
from mcphost.unicode_forms import split_url

DPOP_ALGORITHM = "ES256"
USE_DPOP_NONCE = "use_dpop_nonce"
_ASSERTION_LIFETIME = 120
_ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519")
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "Ed25519": "Ed25519"}
"""Curve of each signature algorithm (RFC 7518, section 3.4; RFC 9864)."""


async def load_joserfc() -> None:
    """Import joserfc in a thread, because it would block the event loop for about 60 ms. Safe to call repeatedly."""
    for module in ("joserfc.jwk", "joserfc.jwt"):
        await anyio.to_thread.run_sync(import_module, module)


class JwtSigner:
    """Signer of JWTs: a private key and the signature algorithm to use with it."""

    def __init__(self, key: Any, algorithm: str) -> None:
        self._key = key
        self._algorithm = algorithm

    @classmethod
    def generate(cls) -> "JwtSigner":
        """Create a signer for DPoP proofs with a new P-256 key."""
        from joserfc.jwk import ECKey

        return cls(ECKey.generate_key("P-256"), DPOP_ALGORITHM)

    @classmethod
    def from_jwk(cls, jwk: str) -> "JwtSigner":
        """Create a signer for DPoP proofs from a key that `export_jwk` returned."""
        from joserfc.jwk import ECKey

        return cls(ECKey.import_key(loads(jwk)), DPOP_ALGORITHM)

    @classmethod
    def from_pem(cls, pem: str, algorithm: str) -> "JwtSigner":
        """Create a signer from a private key in PEM form.

        Raises ConfigError if the key is invalid or has the wrong type for *algorithm*.
        """
        kind = {"ES": "EC", "RS": "RSA", "PS": "RSA", "Ed": "OKP"}.get(algorithm[:2], "")
        if algorithm not in _ALGORITHMS:
            raise ConfigError(
                f'"mcphost.oauth.algorithm" is {algorithm[:20]!r}.', f"Use one of {', '.join(_ALGORITHMS)}."
            )
        from joserfc.jwk import JWKRegistry

        try:
            key = JWKRegistry.import_key(pem, kind)
            curve = _CURVES.get(algorithm)
            if curve is not None and key.as_dict(private=False).get("crv") != curve:
                raise ValueError(f"the key is not on the curve {curve}")
            return cls(key, algorithm)
        except Exception as error:  # the library may raise any exception for a broken key
            raise ConfigError(
                f'"mcphost.oauth.key" is not a private key for {algorithm}.',
                "It must be PEM text that begins with BEGIN PRIVATE KEY.",
            ) from error

    def export_jwk(self) -> str:
        """Return the private key as a JWK, to be kept in secret storage."""
        members = self._key.as_dict(private=True)
        register_secret(members["d"])
        return dumps(members)

    def make_dpop_proof(self, verb: str, url: str, *, token: str = "", nonce: str = "") -> str:
        """Return a DPoP proof for one HTTP request.

        *verb* is the HTTP method of the request, and *token* is the access token that is sent with it, or "" for
        none. *nonce* is the nonce that the server requires in the proof, or "" for none.
        """
        parts = split_url(url)
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": verb,
            "htu": urlunsplit((parts.scheme, parts.netloc, parts.path or "/", "", "")),
            "iat": int(time.time()),
        }
        if token:
            digest = hashlib.sha256(token.encode("ascii")).digest()
            claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if nonce:
            claims["nonce"] = nonce
        return self._sign({"typ": "dpop+jwt", "jwk": self._key.as_dict(private=False)}, claims)

    def make_client_assertion(self, client_id: str, audience: str) -> str:
        """Return a JWT that authenticates the client to *audience*, valid for two minutes."""
        now = int(time.time())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": secrets.token_urlsafe(16),
            "iat": now,
            "exp": now + _ASSERTION_LIFETIME,
        }
        signed = self._sign({}, claims)
        register_secret(signed)
        return signed

    def _sign(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        from joserfc import jwt

        full = {"alg": self._algorithm, **header}
        return str(jwt.encode(full, claims, self._key, algorithms=[self._algorithm]))
