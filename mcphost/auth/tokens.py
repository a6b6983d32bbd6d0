"""Requests to the token endpoint of an authorization server, and the tokens and scopes in its responses.

The `resource` parameter is sent unchanged in every request (RFC 8707). All secrets are registered for redaction.
"""

import base64
import logging
import math
import re
import time
from collections.abc import Mapping
from urllib.parse import quote

from mcphost.auth.accounts import token_ages
from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.dpop import USE_DPOP_NONCE, JwtSigner
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient, OAuthResponse
from mcphost.auth.registration import ENTERED_KIND, OAuthClient, describe_oauth_error
from mcphost.errors import SignInRequired
from mcphost.redact import register_secret, register_server_secret
from mcphost.sanitize import quote_text
from mcphost.serialization import Struct

_log = logging.getLogger(__name__)
EXPIRY_MARGIN = 30.0
"""Seconds before its expiry that a token is refreshed; fewer for a short-lived token."""
_NEW_SECONDS = 30.0
_MAX_TOKEN_LENGTH = 64 * 1024
MAX_SCOPES = 100
MAX_SCOPE_LENGTH = 200
_SCOPE_PATTERN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_ACCESS_TOKEN = re.compile(r"[!-~]+")
_REFRESH_TOKEN = re.compile(r"[ -~]+")
_TOKEN_TYPES = {"bearer": "Bearer", "dpop": "DPoP"}


class TokenError(SignInRequired):
    """Raised when the token endpoint returns an error; `code` is the OAuth error code, or "" if unknown."""

    def __init__(self, message: str, hint: str = "", *, code: str = "") -> None:
        super().__init__(message, hint)
        self.code = code

    @classmethod
    def from_response(
        cls, response: OAuthResponse, what: str, fallback: str, hint: str = "Sign in again."
    ) -> "TokenError":
        """Create the error for a failed token request, given the server's response.

        *what* is the beginning of the error message, which names the failed operation. *fallback* is the reason to
        state if the response contains no error. *hint* tells the user what to do.
        """
        members = response.json_members()
        code = members.get("error")
        reason = describe_oauth_error(response, members) if not response.is_success or code else fallback
        return cls(f"{what}: {reason}", hint, code=code if isinstance(code, str) else "")


class TokenSet(Struct, frozen=True):
    """The access token of one account and, if issued, its refresh token. The repr contains no secrets."""

    access: str
    kind: str = "Bearer"
    refresh: str = ""
    expires: float = 0
    """When the access token expires, in seconds since 1970; 0 if the server did not say."""
    scopes: tuple[str, ...] = ()
    issued: float = 0

    def __repr__(self) -> str:
        return "Tokens(…)"

    @property
    def lifetime(self) -> float:
        """Seconds from issue to expiry; infinite if the server did not state an expiry time."""
        return self.expires - self.issued if self.expires else float("inf")

    @property
    def age(self) -> float:
        """Seconds since the token was issued, unaffected by changes to the system clock."""
        return token_ages.age(self.access, self.issued)

    @property
    def monotonic_expiry(self) -> float:
        """The expiry time of the token on the clock of `suspend_aware_time`, in seconds; 0 if unknown."""
        issued = token_ages.issue_time(self.access, self.issued)
        return issued + self.lifetime if self.expires and issued > -math.inf else 0.0

    @property
    def authorization(self) -> str:
        """The value of the Authorization header that carries the access token."""
        return f"{self.kind} {self.access}"

    @property
    def is_new(self) -> bool:
        """Whether the token is so new that the server cannot have rejected it because of its age.

        Many servers count whole seconds, so a token with a lifetime of one second can expire immediately; such a token
        is never new.
        """
        return self.age < min(_NEW_SECONDS, (self.lifetime - 1) / 2)

    def needs_refresh(self) -> bool:
        """Return whether the token should be refreshed, because it has expired or will expire soon.

        If the token's age is unknown, the result is True only if there is a refresh token and the token can expire.
        """
        if self.age == float("inf"):
            return bool(self.refresh and self.expires)
        return bool(self.expires) and self.lifetime - min(EXPIRY_MARGIN, self.lifetime / 10) <= self.age

    def has_expired(self) -> bool:
        """Return whether the token's age has reached its lifetime."""
        return self.age >= self.lifetime


class InvalidScopes(SignInRequired):
    """Raised when the scopes to request are invalid, or too many to show to the user."""


def split_scopes(scope: str) -> tuple[str, ...]:
    """Split a space-separated list of scopes, keeping the order and dropping duplicates.

    Scopes are not validated.
    """
    return tuple(dict.fromkeys(word for word in scope.split(" ") if word))


def is_scope(text: str) -> bool:
    """Return whether *text* is a scope-token (RFC 6749, section 3.3) of at most 200 characters."""
    return _SCOPE_PATTERN.fullmatch(text) is not None


def check_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Return *scopes* unchanged if all are valid and there are not too many to show to the user.

    Raises InvalidScopes.
    """
    if len(scopes) > MAX_SCOPES:
        raise InvalidScopes(
            f"{len(scopes):,} scopes would be requested; at most {MAX_SCOPES} can be shown to you.",
            "Nothing was sent. The server's operator must list only the scopes that it needs in its challenge.",
        )
    for scope in scopes:
        if not is_scope(scope):
            what = (
                "is over 200 characters"
                if len(scope) > MAX_SCOPE_LENGTH
                else "has characters that are not allowed in a scope"
            )
            raise InvalidScopes(
                f"The scope {quote_text(scope, 100)} {what} (RFC 6749, section 3.3).",
                "Nothing was sent. Correct it where it is named: in the server, mcphost.oauth.scopes or --scope.",
            )
    return scopes


def parse_granted_scopes(scope: object) -> tuple[str, ...]:
    """Parse the `scope` member of a token response; return its valid scopes, at most 100."""
    words = split_scopes(scope[:_MAX_TOKEN_LENGTH]) if isinstance(scope, str) else ()
    return tuple(word for word in words if is_scope(word))[:MAX_SCOPES]


def merge_scopes(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of all *lists* in order, without duplicates."""
    return tuple(dict.fromkeys(scope for scopes in lists for scope in scopes))


def select_scopes(challenged: str, supported: tuple[str, ...], previous: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the scopes to request: *previous*, followed by *challenged* or, if that is empty, by *supported*.

    *challenged* is the `scope` parameter of the server's challenge. Raises InvalidScopes.
    """
    return check_scopes(merge_scopes(previous, split_scopes(challenged) or supported))


def authenticate_client(client: OAuthClient, form: dict[str, str]) -> dict[str, str]:
    """Add the client's credentials to *form* or return them as headers (RFC 6749, section 2.3.1).

    The result is empty if no header is needed.
    """
    if client.method == "client_secret_basic":
        pair = f"{quote(client.id, safe='')}:{quote(client.secret, safe='')}"
        encoded = base64.b64encode(pair.encode()).decode()
        if client.kind == ENTERED_KIND:
            register_secret(encoded)
        else:
            register_server_secret(encoded, client.issuer)
        return {"authorization": f"Basic {encoded}"}
    form["client_id"] = client.id
    if client.method == "client_secret_post":
        form["client_secret"] = client.secret
    return {}


async def request_tokens(
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    client: OAuthClient,
    resource: str,
    form: Mapping[str, str],
    *,
    signer: JwtSigner | None = None,
) -> TokenSet:
    """Send *form*, the parameters of a grant, to the token endpoint and return the tokens.

    If *signer* is given, the tokens are bound to its key (DPoP). If the server requires a nonce in the DPoP proof,
    the request is sent once more with that nonce. Raises TokenError, UnsafeUrl or EndpointUnreachable.
    """
    full = {**form, "resource": resource}
    headers, nonce = authenticate_client(client, full), ""
    for _ in range(2 if signer else 1):
        if signer is not None:
            headers["dpop"] = signer.make_dpop_proof("POST", document.token_endpoint, nonce=nonce)
        reply = await http.post_form(document.token_endpoint, full, "token endpoint", headers)
        nonce = reply.headers.get("dpop-nonce", "")
        if not nonce or reply.is_success or reply.json_members().get("error") != USE_DPOP_NONCE:
            return parse_token_response(reply, document.issuer)
    raise TokenError(f"The authorization server {document.issuer[:200]} requires a new nonce every time.")


def parse_token_response(response: OAuthResponse, issuer: str) -> TokenSet:
    """Parse the tokens in the response of the authorization server *issuer*, and register them for redaction.

    Raises EndpointUnreachable if the authorization server is overloaded, and TokenError for any other invalid response.
    """
    members = response.json_members()
    if response.is_busy:
        raise EndpointUnreachable(
            f"The authorization server {issuer[:200]} cannot answer now: {describe_oauth_error(response, members)}"
        )
    access = members.get("access_token")
    if not response.is_success or not isinstance(access, str) or not access:
        raise TokenError.from_response(
            response, f"The authorization server {issuer[:200]} issued no token", "the response has no token."
        )
    if len(access) > _MAX_TOKEN_LENGTH or _ACCESS_TOKEN.fullmatch(access) is None:
        raise TokenError(f"The authorization server {issuer[:200]} issued a token that does not fit into a header.")
    scope, lifetime = members.get("scope"), members.get("expires_in")
    refresh = _parse_refresh_token(members.get("refresh_token"), issuer)
    register_server_secret(access, issuer)
    if refresh:
        register_server_secret(refresh, issuer)
    kind = str(members.get("token_type", "")).lower()
    if kind not in _TOKEN_TYPES:
        raise TokenError(f"The authorization server {issuer[:200]} issued a token of the unknown type {kind[:40]!r}.")
    now = time.time()
    token_ages.age(access, now)  # from now on, a monotonic clock measures the age
    return TokenSet(
        access,
        _TOKEN_TYPES[kind],
        refresh,
        now + parse_lifetime(lifetime) if lifetime is not None else 0.0,
        parse_granted_scopes(scope),
        now,
    )


def _parse_refresh_token(token: object, issuer: str) -> str:
    """Return the `refresh_token` member of a token response, or "" if there is none or it cannot be used.

    It must be printable ASCII (RFC 6749, appendix A.17). Another one is dropped, because the access token works
    without it; this is logged, since it is why the user has to sign in again when that token expires.
    """
    if token is None or token == "":
        return ""
    if isinstance(token, str) and len(token) <= _MAX_TOKEN_LENGTH and _REFRESH_TOKEN.fullmatch(token):
        return token
    _log.warning(
        "The authorization server %s issued a refresh token that cannot be sent: it is not printable ASCII or too long."
        " It was dropped.",
        issuer[:200],
    )
    return ""


def parse_lifetime(value: object, default: float = 3600.0) -> float:
    """Parse a duration in seconds from a number or a string of digits; return *default* for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
        return float(value)
    return default
