"""Functions that obtain an OAuth client for an authorization server.

An OAuth client is configured, described by a metadata document, registered dynamically, or entered by the
user (specification: basic/authorization, client registration; RFC 7591). It is stored under its issuer and
never used with another issuer.
"""

import time
from collections.abc import Mapping
from typing import Any

from mcphost.auth.discovery import AuthorizationServerMetadata
from mcphost.auth.oauth_http import EndpointUnreachable, OAuthHttpClient, OAuthResponse
from mcphost.auth.url_policy import check_url
from mcphost.errors import SignInRequired
from mcphost.redact import redact_registered, register_secret, register_server_secret
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct

CLIENT_NAME = "mcphost"
AUTHENTICATION_METHODS = ("none", "client_secret_basic", "client_secret_post")
"""Authentication methods at a token endpoint; the most suitable for a program on a user's machine first."""
ENTERED_KIND = "entered"
"""The `kind` of a client that the user registered manually and entered when asked."""
_MAX_ERROR_LENGTH = 4_000
_MAX_CLIENT_ID_LENGTH = 4096
"""Maximum length of a client ID, and of a client secret."""
_EXPIRY_MARGIN = 60.0
_MAX_TIMESTAMP = 1e12


class OAuthClient(Struct, frozen=True):
    """An OAuth client of one authorization server: its id, and how it authenticates.

    - `method`: the authentication method at the token endpoint.
    - `redirect_uri`: the registered redirect URI; "" allows any loopback port.
    - `expires`: when the secret expires, in seconds since 1970; 0 means never.
    """

    issuer: str
    id: str
    secret: str = ""
    method: str = "none"
    redirect_uri: str = ""
    expires: float = 0
    kind: str = "configured"
    scopes: tuple[str, ...] = ()
    """The scopes that the client was registered for; () for any."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.kind}, {self.issuer!r})"

    def register_secrets(self) -> None:
        """Register the client's secret for redaction in all later logs and output."""
        if self.kind == ENTERED_KIND:
            register_secret(self.secret)
        else:
            # A project's file may have configured it. `expand_oauth` registers the user's own secrets, even short ones.
            register_server_secret(self.secret, self.issuer)

    def is_usable(self, now: float | None = None) -> bool:
        """Return whether the client can still be used: it has no secret, or its secret has not expired.

        *now* is the time in seconds since 1970; by default, it is the current time.
        """
        return not self.expires or self.expires - _EXPIRY_MARGIN > (time.time() if now is None else now)

    def can_request(self, scopes: tuple[str, ...]) -> bool:
        """Return whether the client may request *scopes*.

        Servers restrict a client to the scopes that it was registered for.
        """
        return not self.scopes or set(scopes) <= set(self.scopes)


class RegistrationError(SignInRequired):
    """Raised when the authorization server does not register mcphost as a client."""


def choose_authentication_method(
    document: AuthorizationServerMetadata, *, has_secret: bool, registered_method: str = ""
) -> str:
    """Choose how the client authenticates at the token endpoint; "none" if *has_secret* is false.

    The result is *registered_method* if it can be used, or else the first method that both mcphost and the server
    support. If the metadata in *document* does not list methods, the default is client_secret_basic (RFC 8414, section
    2).
    """
    supported = document.token_endpoint_auth_methods_supported
    if (
        registered_method in AUTHENTICATION_METHODS
        and (not supported or registered_method in supported)
        and (has_secret or registered_method == "none")
    ):
        return registered_method
    if not has_secret:
        return "none"
    if supported:
        for method in ("client_secret_basic", "client_secret_post", "none"):
            if method in supported:
                return method
    return "client_secret_basic"


def make_configured_client(
    document: AuthorizationServerMetadata, issuer: str, client_id: str, secret: str
) -> OAuthClient:
    """Create an OAuth client with the configured id and secret.

    The secret has already been registered for redaction by `expand_oauth`.
    """
    return OAuthClient(issuer, client_id, secret, choose_authentication_method(document, has_secret=bool(secret)))


def make_entered_client(
    document: AuthorizationServerMetadata, issuer: str, client_id: str, secret: str, redirect_uri: str
) -> OAuthClient | None:
    """Create an OAuth client with the id and secret that the user entered, and register the secret for redaction.

    Returns None if the id is empty, or if the id or the secret is too long or contains characters other than visible
    ASCII.
    """
    client_id, secret = client_id.strip(), secret.strip()
    is_valid = all(
        len(text) <= _MAX_CLIENT_ID_LENGTH and all("!" <= char <= "~" for char in text) for text in (client_id, secret)
    )
    if not client_id or not is_valid:
        return None
    if secret:
        register_secret(secret)
    return OAuthClient(
        issuer,
        client_id,
        secret,
        choose_authentication_method(document, has_secret=bool(secret)),
        redirect_uri,
        kind=ENTERED_KIND,
    )


def make_metadata_document_client(issuer: str, url: str) -> OAuthClient:
    """Create the OAuth client whose id is the URL of mcphost's client metadata document.

    Raises SignInRequired unless *url* is an https URL with a path.
    """
    check_url(url, "client metadata document")
    if not url.startswith("https://") or not url[8:].partition("/")[2]:
        raise SignInRequired("The address of the client metadata document is not https with a path.")
    return OAuthClient(issuer, url, kind="document")


async def register_client(
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    issuer: str,
    redirect_uri: str,
    scopes: tuple[str, ...],
) -> OAuthClient:
    """Register mcphost as a client (RFC 7591). Raises RegistrationError, UnsafeUrl or EndpointUnreachable."""
    supported = document.token_endpoint_auth_methods_supported
    preferred = next((method for method in AUTHENTICATION_METHODS if method in supported), "none")
    device = ["urn:ietf:params:oauth:grant-type:device_code"] if document.device_authorization_endpoint else []
    metadata: dict[str, Any] = {
        "client_name": CLIENT_NAME,
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token", *device],
        "response_types": ["code"],
        "token_endpoint_auth_method": preferred,
    }
    if scopes:
        metadata["scope"] = " ".join(scopes)
    reply = await http.post_json(document.registration_endpoint, metadata, "registration endpoint")
    members = reply.json_members()
    if reply.is_busy:
        raise EndpointUnreachable(
            f"The authorization server {issuer[:200]} cannot answer now: {describe_oauth_error(reply, members)}"
        )
    client_id, secret = members.get("client_id"), members.get("client_secret")
    secret = secret if isinstance(secret, str) else ""
    if (
        not reply.is_success
        or not isinstance(client_id, str)
        or not 0 < len(client_id) <= _MAX_CLIENT_ID_LENGTH
        or len(secret) > _MAX_CLIENT_ID_LENGTH
    ):
        raise RegistrationError(
            f"The authorization server {issuer[:200]} did not register mcphost: {describe_oauth_error(reply, members)}",
            'Configure a client ID: "mcphost": {"oauth": {"clientId": "…"}} for this server in mcp.json.',
        )
    register_server_secret(secret, issuer)
    method = members.get("token_endpoint_auth_method")
    expires = members.get("client_secret_expires_at")
    return OAuthClient(
        issuer,
        client_id,
        secret,
        choose_authentication_method(
            document, has_secret=bool(secret), registered_method=method if isinstance(method, str) else ""
        ),
        redirect_uri,
        float(expires) if isinstance(expires, int | float) and secret and 0 <= expires < _MAX_TIMESTAMP else 0.0,
        "registered",
        scopes,
    )


def quote_server_text(text: str) -> str:
    """Return the beginning of a message from a server, sanitized for quoting in an error.

    Secrets are redacted before the text is truncated, so that no part of a secret remains.
    """
    return sanitize_line(redact_registered(text[:_MAX_ERROR_LENGTH]), 300)


def describe_oauth_error(response: OAuthResponse, members: Mapping[str, Any]) -> str:
    """Return a sanitized, shortened description of an OAuth error response (RFC 6749, section 5.2).

    *members* are the members of the JSON object in the response.
    """
    values = [members.get("error"), members.get("error_description")]
    texts = [quote_server_text(text) for text in values if isinstance(text, str) and text]
    return f"{': '.join(texts)} (HTTP {response.status})." if texts else f"HTTP {response.status}."
