"""OAuth discovery: protected resource metadata and authorization server metadata.

Implements RFC 9728 (protected resources); RFC 8414 and OpenID Connect Discovery (authorization servers); and the
default endpoints of protocol revision 2025-03-26 for servers that publish no metadata.
Specification: basic/authorization, authorization server discovery.
"""

from typing import TypeVar

from mcphost.auth.accounts import DiscoverySummary
from mcphost.auth.oauth_http import RETRY_HINT, EndpointUnreachable, OAuthHttpClient, OAuthResponse
from mcphost.auth.url_policy import canonical_url, check_url, resource_covers, url_origin
from mcphost.errors import MalformedMessage, SignInRequired
from mcphost.serialization import Struct, convert, replace
from mcphost.unicode_forms import split_url

MAX_ISSUERS = 10
LEGACY_REVISION = "2025-03-26"
_SERVER_ERROR = 500
_MAX_SHOWN_LENGTH = 500
_MAX_PKCE_METHODS = 8
OPERATOR_HINT = "None of it was used. Its operator must correct it."
T = TypeVar("T")


class UntrustedMetadata(SignInRequired):
    """Raised when OAuth metadata is inconsistent or does not match the MCP server; the metadata is not used."""


class ProtectedResourceMetadata(Struct, frozen=True):
    """The metadata of a protected resource (RFC 9728)."""

    resource: str = ""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    dpop_bound_access_tokens_required: bool = False


class AuthorizationServerMetadata(Struct, frozen=True):
    """The metadata of an authorization server (RFC 8414, OpenID Connect Discovery)."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    prompt_values_supported: tuple[str, ...] = ()


class DiscoveredIssuer(Struct, frozen=True):
    """The metadata of an authorization server and the URL that it was loaded from.

    If the authorization server publishes no metadata, `metadata_url` is "", and `metadata` contains the default
    endpoints of protocol revision 2025-03-26. `kind` is one of the values of `DiscoverySummary.metadata_kind`.
    """

    metadata: AuthorizationServerMetadata
    metadata_url: str = ""
    kind: str = "legacy"


class ProtectedResource(Struct, frozen=True):
    """The result of discovery for an MCP server.

    - `identifier`: the URI to send unchanged as the `resource` of authorization and token requests (RFC 8707).
    - `issuers`: the authorization servers to choose from.
    - `is_legacy`: whether the server publishes no metadata, so that protocol revision 2025-03-26 applies.
    - `metadata_url`: the URL of the server's metadata, or "" if it publishes none.
    """

    identifier: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    is_legacy: bool = False
    requires_dpop: bool = False
    metadata_url: str = ""

    def with_issuer(self, issuer: str) -> "ProtectedResource":
        """Return a copy with *issuer*, the configured issuer, as the only one; `self` if the copy is not needed.

        The copy is needed if the server has no metadata and an issuer is configured (*issuer* is not "").
        """
        applies = self.is_legacy and issuer and issuer not in self.issuers
        return replace(self, issuers=(issuer,), is_legacy=False) if applies else self


def resource_metadata_urls(url: str) -> tuple[str, ...]:
    """Return the well-known metadata URLs of the MCP server at *url*, in the order to try them (RFC 9728).

    Callers use these URLs only if the server's challenge does not name a metadata URL.
    """
    parts = split_url(canonical_url(url))
    base = f"{parts.scheme}://{parts.netloc}"
    well_known = f"{base}/.well-known/oauth-protected-resource"
    path = parts.path.rstrip("/")
    return (f"{well_known}{path}", well_known) if path else (well_known,)


def issuer_metadata_urls(issuer: str) -> tuple[str, ...]:
    """Return the well-known metadata URLs of an issuer, in the order to try them.

    If the issuer has a path, every URL includes it.
    """
    parts = split_url(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    first = (
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
    )
    return (*first, f"{base}{path}/.well-known/openid-configuration") if path else first


async def discover_resource(http: OAuthHttpClient, url: str, metadata_url: str) -> ProtectedResource:
    """Find the resource identifier, issuers and scopes of the MCP server at *url* (RFC 9728).

    *metadata_url* is the `resource_metadata` parameter of the server's challenge, or "" if the challenge has none.
    A server without metadata is treated as in protocol revision 2025-03-26: its own origin is the issuer.

    Raises UnsafeUrl, EndpointUnreachable, or UntrustedMetadata if the metadata is invalid, is on another origin or
    describes another resource.
    """
    if metadata_url and not url_origin(metadata_url)[1]:
        check_url(metadata_url, "address of the protected resource metadata")
    if metadata_url and url_origin(metadata_url) != url_origin(url):
        raise UntrustedMetadata(
            f"The server at {url[:200]} names metadata on another origin: {metadata_url[:200]!r}.",
            "Nothing was sent there. Its operator must publish it on the server's own origin.",
        )
    for place in (metadata_url,) if metadata_url else resource_metadata_urls(url):
        reply = await http.get(place, "protected resource metadata")
        if reply.status >= _SERVER_ERROR:
            raise EndpointUnreachable(
                f"The protected resource metadata {place[:200]!r} cannot be loaded: HTTP {reply.status}.", RETRY_HINT
            )
        if not reply.is_success or not reply.is_json:
            if metadata_url:
                raise EndpointUnreachable(
                    f"The protected resource metadata {metadata_url[:200]!r} was not found: {reply.status_text}.",
                    "The server names this address in its challenge; its operator must publish it there (RFC 9728).",
                )
            continue  # many sites respond to every path with a page
        document = parse_metadata(reply, ProtectedResourceMetadata, "protected resource metadata")
        if not document.resource:
            raise UntrustedMetadata(
                f'The protected resource metadata {place[:200]!r} has no "resource".',
                OPERATOR_HINT,
            )
        if not resource_covers(document.resource, url):
            raise UntrustedMetadata(
                f"The server at {url[:200]} declares another resource: {document.resource[:200]!r}.",
                "Nothing was sent. Check the address in mcp.json.",
            )
        # An authorization server may mistake `https://other@host/` for a URL of the other host.
        check_url(document.resource, "resource in the protected resource metadata")
        if not document.authorization_servers:
            raise UntrustedMetadata(
                f"The server at {url[:200]} names no authorization server in its metadata.", OPERATOR_HINT
            )
        issuers = document.authorization_servers[:MAX_ISSUERS]
        scopes, dpop = document.scopes_supported, document.dpop_bound_access_tokens_required
        return ProtectedResource(document.resource, issuers, scopes, requires_dpop=dpop, metadata_url=place)
    parts = split_url(canonical_url(url))
    return ProtectedResource(canonical_url(url), (f"{parts.scheme}://{parts.netloc}",), is_legacy=True)


async def discover_issuer(http: OAuthHttpClient, issuer: str, *, is_legacy: bool) -> DiscoveredIssuer:
    """Return the metadata of an issuer.

    *is_legacy* means that the MCP server has no metadata. In this case, an issuer without metadata is assumed
    to have the default endpoints of protocol revision 2025-03-26. Raises UntrustedMetadata, UnsafeUrl or
    EndpointUnreachable.
    """
    check_url(issuer, "authorization server")
    headers = {"mcp-protocol-version": LEGACY_REVISION} if is_legacy else {}
    error_status = 0
    failures: list[str] = []
    places = issuer_metadata_urls(issuer)
    for place in places:
        reply = await http.get(place, "authorization server metadata", headers)
        if reply.status >= _SERVER_ERROR:
            error_status = reply.status
        if not reply.is_success or not reply.is_json:
            failures.append(f"{split_url(place).path[:200]} answers {reply.status_text}")
            continue
        document = parse_metadata(reply, AuthorizationServerMetadata, "authorization server metadata")
        if not document.issuer:
            raise UntrustedMetadata(
                f'The authorization server metadata {place[:200]!r} has no "issuer".',
                OPERATOR_HINT,
            )
        if document.issuer != issuer and not (is_legacy and document.issuer.rstrip("/") == issuer):
            raise UntrustedMetadata(
                f"The authorization server {issuer[:200]!r} calls itself {document.issuer[:200]!r}.",
                "Its metadata was not used. The two must match exactly (RFC 8414, section 3.3); the "
                "operator of one of them must correct it.",
            )
        return DiscoveredIssuer(_check_endpoints(document), place, "oauth" if place == places[0] else "oidc")
    if is_legacy and not error_status:
        base = issuer.rstrip("/")
        return DiscoveredIssuer(
            AuthorizationServerMetadata(
                issuer=issuer,
                authorization_endpoint=f"{base}/authorize",
                token_endpoint=f"{base}/token",
                registration_endpoint=f"{base}/register",
            )
        )
    raise EndpointUnreachable(
        f"The authorization server {issuer[:200]!r} has no metadata: {'; '.join(failures)}.",
        RETRY_HINT if error_status else "Nothing was sent. Its operator must publish it (RFC 8414).",
    )


def summarize_discovery(resource: ProtectedResource, issuer: DiscoveredIssuer) -> DiscoverySummary:
    """Summarize the endpoints and metadata URLs for display; strings are truncated and contain no secrets."""
    document = issuer.metadata
    return DiscoverySummary(
        resource_metadata=resource.metadata_url[:_MAX_SHOWN_LENGTH],
        issuer_metadata=issuer.metadata_url[:_MAX_SHOWN_LENGTH],
        metadata_kind=issuer.kind,
        authorization_endpoint=document.authorization_endpoint[:_MAX_SHOWN_LENGTH],
        token_endpoint=document.token_endpoint[:_MAX_SHOWN_LENGTH],
        registration_endpoint=document.registration_endpoint[:_MAX_SHOWN_LENGTH],
        device_endpoint=document.device_authorization_endpoint[:_MAX_SHOWN_LENGTH],
        revocation_endpoint=document.revocation_endpoint[:_MAX_SHOWN_LENGTH],
        pkce_methods=tuple(
            method[:40] for method in (document.code_challenge_methods_supported or ())[:_MAX_PKCE_METHODS]
        ),
        sends_issuer=document.authorization_response_iss_parameter_supported,
    )


def _check_endpoints(document: AuthorizationServerMetadata) -> AuthorizationServerMetadata:
    check_url(document.token_endpoint, "token endpoint")
    for what, url in (
        ("authorization endpoint", document.authorization_endpoint),
        ("registration endpoint", document.registration_endpoint),
        ("revocation endpoint", document.revocation_endpoint),
        ("device authorization endpoint", document.device_authorization_endpoint),
    ):
        if url:
            check_url(url, what)
    return document


def check_pkce(document: AuthorizationServerMetadata, *, is_legacy: bool) -> None:
    """Raise UntrustedMetadata unless the authorization server declares that it supports PKCE with S256.

    *is_legacy* means that the MCP server has no metadata. In this case, a missing declaration is accepted, because
    protocol revision 2025-03-26 did not define one.
    """
    methods = document.code_challenge_methods_supported
    if is_legacy and methods is None:
        return
    if "S256" not in (methods or ()):
        raise UntrustedMetadata(
            f"The authorization server {document.issuer[:200]} does not declare PKCE with S256.",
            "Without it a stolen code could be used by others, so the sign-in was not started.",
        )


def parse_metadata(response: OAuthResponse, kind: type[T], what: str) -> T:
    """Parse the JSON body of *response* as metadata of the type *kind*.

    Raises UntrustedMetadata if the body is not a JSON object or does not match *kind*; *what* names the
    metadata in the error message.
    """
    if not response.is_json_object():
        raise UntrustedMetadata(
            f"The {what} {response.url[:200]!r} cannot be read: it is not a JSON object.", OPERATOR_HINT
        )
    try:
        return convert(response.json_members(), kind, what)
    except MalformedMessage as error:
        raise UntrustedMetadata(
            f"The {what} {response.url[:200]!r} cannot be read: {error.message[:300]}", OPERATOR_HINT
        ) from error
