"""Proof key for code exchange (RFC 7636, S256 only) and the `state` of one attempt."""

import base64
import hashlib
import secrets

from mcphost.redact import register_secret


class AuthorizationAttempt:
    """The secrets of one authorization request; made fresh for each, never stored, known to `redact`."""

    __slots__ = ("challenge", "state", "verifier")
    METHOD = "S256"

    def __init__(self) -> None:
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(24)
        self.challenge = s256_challenge(self.verifier)
        register_secret(self.verifier)
        register_secret(self.state)


def s256_challenge(verifier: str) -> str:
    """The S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()
