"""Sign-in without user interaction: client credentials, enterprise authorization, workload identity.

Implements the MCP extensions oauth-client-credentials and enterprise-managed-authorization (ID-JAG), and
SEP-1933. If the configured grant is rejected, no other grant is tried.
"""

from typing import Literal

from mcphost.auth.discovery import (
    AuthorizationServerMetadata,
    ProtectedResource,
    UntrustedMetadata,
    discover_issuer,
    discover_resource,
    summarize_discovery,
)
from mcphost.auth.dpop import JwtSigner, load_joserfc
from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.auth.registration import OAuthClient, make_configured_client
from mcphost.auth.sign_in_context import SignInTarget
from mcphost.auth.token_store import StoredSignIn
from mcphost.auth.tokens import InvalidScopes, TokenError, request_tokens, select_scopes
from mcphost.auth.url_policy import canonical_url, check_url
from mcphost.auth.www_authenticate import Challenge
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct

GrantType = Literal["client_credentials", "enterprise", "workload"]
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name, not a secret
CLIENT_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ID_JAG_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id-jag"  # noqa: S105 - a type, not a token
ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105


class ClientGrant(Struct, frozen=True, kw_only=True):
    """Configuration of an OAuth grant that requires no user interaction. The repr contains no secrets."""

    grant: GrantType
    target: SignInTarget
    scopes: tuple[str, ...] = ()
    resource: str = ""
    """A resource wider than the server's URL that the user accepts, or ""."""

    key: str = ""
    algorithm: str = "ES256"
    assertion: str = ""
    idp_token: str = ""
    idp_client_id: str = ""
    idp_token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"ClientGrant({self.grant}, {self.target.server!r})"


async def fetch_token(grant: ClientGrant, http: OAuthHttpClient, challenge: Challenge) -> StoredSignIn:
    """Fetch a token with *grant* and return it as a `StoredSignIn`, without storing it.

    *challenge* is the authorization challenge of the server. Credentials are sent only to the configured issuer.
    Because no user confirms where they are sent, a server could otherwise name an authorization server of its own, and
    receive credentials that are intended for another issuer.

    Raises UntrustedMetadata, UnsafeUrl, EndpointUnreachable, TokenError, InvalidScopes or ConfigError.
    """
    target = grant.target
    resource = await discover_resource(http, target.url, challenge.get("resource_metadata"))
    issuer = target.issuer
    resource = resource.with_issuer(issuer)
    if issuer not in resource.issuers:
        named = ", ".join(repr(name[:200]) for name in resource.issuers)
        if not issuer:
            raise UntrustedMetadata(
                f"The server {target.server!r} requires a sign-in at {named}, but mcp.json names no issuer for its "
                "credentials; nothing was sent.",
                'If that is right, add "mcphost": {"oauth": {"issuer": "…"}} to this server.',
            )
        raise UntrustedMetadata(
            f"The server {target.server!r} is configured for the authorization server {issuer[:200]!r}, which it does "
            f"not name; it names {named}.",
            'Credentials for one authorization server are not sent to another. Correct "mcphost": '
            '{"oauth": {"issuer"}} in mcp.json.',
        )
    _check_resource(grant, resource.identifier)
    discovered = await discover_issuer(http, issuer, is_legacy=resource.is_legacy)
    document = discovered.metadata
    scopes = _check_configured_scopes(grant, select_scopes(challenge.get("scope"), grant.scopes or resource.scopes))
    client = make_configured_client(document, issuer, target.client_id, target.client_secret)
    form = await _make_token_request(grant, http, document, resource, scopes)
    if grant.grant == "client_credentials" and grant.key:
        client = OAuthClient(issuer, target.client_id)
        await load_joserfc()
        signer = JwtSigner.from_pem(grant.key, grant.algorithm)
        form |= {
            "client_assertion_type": CLIENT_ASSERTION_TYPE,
            "client_assertion": signer.make_client_assertion(target.client_id, issuer),
        }
    if scopes:
        form["scope"] = " ".join(scopes)
    tokens = await request_tokens(http, document, client, resource.identifier, form)
    return StoredSignIn(
        server=target.server,
        url=target.canonical_url,
        issuer=issuer,
        resource=resource.identifier,
        token_endpoint=document.token_endpoint,
        revocation_endpoint=document.revocation_endpoint,
        tokens=tokens,
        client=client,
        requested_scopes=scopes,
        discovery=summarize_discovery(resource, discovered),
    )


def _check_resource(grant: ClientGrant, resource: str) -> None:
    """Raise UntrustedMetadata if *resource* is neither the server's URL nor the configured resource.

    A token for a wider resource is also valid for other servers on the same host. An interactive sign-in warns the user
    of this; here, there is no user to warn.
    """
    accepted = {canonical_url(url).rstrip("/") for url in (grant.target.url, grant.resource) if url}
    if canonical_url(resource).rstrip("/") not in accepted:
        raise UntrustedMetadata(
            f"The server {grant.target.server!r} declares the resource {resource[:200]!r}, which covers more than its "
            "own address; nothing was sent.",
            "If it may get a token for everything below that, add "
            f'"mcphost": {{"oauth": {{"resource": "{resource[:200]}"}}}} to this server.',
        )


def _check_configured_scopes(grant: ClientGrant, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Check that the configuration allows *scopes*, and return them unchanged.

    Raises InvalidScopes if the configuration lists the allowed scopes and any of *scopes* is not among them.
    """
    missing = [scope for scope in scopes if grant.scopes and scope not in grant.scopes]
    if missing:
        raise InvalidScopes(
            f"The server {grant.target.server!r} requires scopes that are not configured: {' '.join(missing)[:500]}.",
            'Nothing was sent. If they are right, add them to "mcphost": {"oauth": {"scopes": […]}} in mcp.json.',
        )
    return scopes


async def _make_token_request(
    grant: ClientGrant,
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    resource: ProtectedResource,
    scopes: tuple[str, ...],
) -> dict[str, str]:
    match grant.grant:
        case "client_credentials":
            return {"grant_type": "client_credentials"}
        case "workload":
            return {"grant_type": JWT_BEARER, "assertion": grant.assertion}
        case "enterprise":
            return {"grant_type": JWT_BEARER, "assertion": await _fetch_id_jag(grant, http, document, resource, scopes)}


async def _fetch_id_jag(
    grant: ClientGrant,
    http: OAuthHttpClient,
    document: AuthorizationServerMetadata,
    resource: ProtectedResource,
    scopes: tuple[str, ...],
) -> str:
    """Exchange the user's ID token for an ID-JAG, an assertion that grants access to the server (RFC 8693)."""
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG_TOKEN_TYPE,
        "subject_token": grant.idp_token,
        "subject_token_type": ID_TOKEN_TYPE,
        "audience": document.issuer,
        "resource": resource.identifier,
        "client_id": grant.idp_client_id,
    }
    if scopes:
        form["scope"] = " ".join(scopes)
    endpoint = check_url(grant.idp_token_endpoint, "identity provider's token endpoint")
    reply = await http.post_form(endpoint, form, "identity provider's token endpoint")
    members = reply.json_members()
    id_jag = members.get("access_token")
    if not reply.is_success or not isinstance(id_jag, str) or members.get("issued_token_type") != ID_JAG_TOKEN_TYPE:
        raise TokenError.from_response(
            reply,
            f"The identity provider {endpoint[:200]} issued no ID-JAG",
            "the response has another token type.",
            "Sign in to it again, and renew mcphost.oauth.idToken.",
        )
    register_server_secret(id_jag, endpoint)
    return id_jag
