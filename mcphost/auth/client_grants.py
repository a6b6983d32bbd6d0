"""Sign-ins without a person: client credentials, a company's identity provider (ID-JAG), workload identity.

Extensions of MCP: oauth-client-credentials, enterprise-managed-authorization, SEP-1933. What is refused is not tried in
another way.
"""

from typing import Literal

from mcphost.auth.client_registration import Client, configured
from mcphost.auth.discovery import IssuerDocument, Resource, Untrusted, discovered, find_issuer, find_resource
from mcphost.auth.jwt_proofs import Signer
from mcphost.auth.oauth_http import Requests
from mcphost.auth.sign_in_target import Target
from mcphost.auth.stored_sign_in import SignedIn
from mcphost.auth.tokens import ScopesRefused, TokenRefused, exchange, wanted
from mcphost.auth.url_policy import checked
from mcphost.auth.www_authenticate import Challenge
from mcphost.redact import register_server_secret
from mcphost.serialization import Struct

Grant = Literal["client_credentials", "enterprise", "workload"]
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name, not a secret
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105


class Machine(Struct, frozen=True, kw_only=True):
    """What the user configured for one grant; its repr shows nothing."""

    grant: Grant
    target: Target
    scopes: tuple[str, ...] = ()
    key: str = ""
    algorithm: str = "ES256"
    assertion: str = ""
    idp_token: str = ""
    idp_client_id: str = ""
    idp_token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"Machine({self.grant}, {self.target.server!r})"


async def earn(machine: Machine, requests: Requests, challenge: Challenge) -> SignedIn:
    """A token for this server. Raises Untrusted, Unsafe, Unreachable, TokenRefused, ScopesRefused, ConfigError.

    Nobody looks at where a machine proves who it is, so the user must have written that down: else a server could
    name an authorization server of its own, and would be sent what belongs to another.
    """
    target = machine.target
    resource = await find_resource(requests, target.url, challenge.get("resource_metadata"))
    issuer = target.issuer
    resource = resource.at(issuer)
    if issuer not in resource.issuers:
        named = ", ".join(repr(one[:200]) for one in resource.issuers)
        if not issuer:
            raise Untrusted(
                f"The server {target.server!r} wants a sign-in at {named}, and mcp.json does not say where its "
                "credentials belong; nothing was sent.",
                'If that is right, enter it there: "mcphost": {"oauth": {"issuer": "…"}} for this server.',
            )
        raise Untrusted(
            f"The server {target.server!r} is configured for the authorization server {issuer[:200]!r}, which it does "
            f"not name; it names {named}.",
            'What was entered for one is not sent to another. Correct "mcphost": {"oauth": {"issuer"}} in mcp.json.',
        )
    found = await find_issuer(requests, issuer, legacy=resource.legacy)
    document = found.document
    scopes = _scopes(machine, wanted(challenge.get("scope"), machine.scopes or resource.scopes))
    client = configured(document, issuer, target.client_id, target.client_secret)
    form = await _form(machine, requests, document, resource, scopes)
    if machine.grant == "client_credentials" and machine.key:
        client = Client(issuer, target.client_id)
        signer = Signer.of_pem(machine.key, machine.algorithm)
        form |= {
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": signer.assertion(target.client_id, issuer),
        }
    if scopes:
        form["scope"] = " ".join(scopes)
    tokens = await exchange(requests, document, client, resource.identifier, form)
    return SignedIn(
        server=target.server,
        url=target.key,
        issuer=issuer,
        resource=resource.identifier,
        token_endpoint=document.token_endpoint,
        revocation_endpoint=document.revocation_endpoint,
        tokens=tokens,
        client=client,
        asked=scopes,
        discovered=discovered(resource, found),
    )


def _scopes(machine: Machine, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Return `scopes` when the configured ones cover them, if there are any. Raises ScopesRefused: nobody is asked."""
    more = [scope for scope in scopes if machine.scopes and scope not in machine.scopes]
    if more:
        raise ScopesRefused(
            f"The server {machine.target.server!r} wants scopes that are not configured: {' '.join(more)[:500]}.",
            'Nothing was sent. If they are right, add them to "mcphost": {"oauth": {"scopes": […]}} in mcp.json.',
        )
    return scopes


async def _form(
    machine: Machine, requests: Requests, document: IssuerDocument, resource: Resource, scopes: tuple[str, ...]
) -> dict[str, str]:
    match machine.grant:
        case "client_credentials":
            return {"grant_type": "client_credentials"}
        case "workload":
            return {"grant_type": JWT_BEARER, "assertion": machine.assertion}
        case "enterprise":
            return {"grant_type": JWT_BEARER, "assertion": await _id_jag(machine, requests, document, resource, scopes)}


async def _id_jag(
    machine: Machine, requests: Requests, document: IssuerDocument, resource: Resource, scopes: tuple[str, ...]
) -> str:
    """The identity provider's word that this user may use that server (RFC 8693)."""
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG,
        "subject_token": machine.idp_token,
        "subject_token_type": ID_TOKEN,
        "audience": document.issuer,
        "resource": resource.identifier,
        "client_id": machine.idp_client_id,
    }
    if scopes:
        form["scope"] = " ".join(scopes)
    endpoint = checked(machine.idp_token_endpoint, "identity provider's token endpoint")
    reply = await requests.post_form(endpoint, form, "identity provider's token endpoint")
    members = reply.members()
    granted = members.get("access_token")
    if not reply.ok or not isinstance(granted, str) or members.get("issued_token_type") != ID_JAG:
        raise TokenRefused.by(
            reply,
            f"The identity provider {endpoint[:200]} did not vouch for you",
            "it gave something other than an ID-JAG.",
            "Sign in to it again, and renew mcphost.oauth.idToken.",
        )
    register_server_secret(granted)
    return granted
