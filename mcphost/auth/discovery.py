"""Protected-resource and authorization-server documents: where they are, fetching them, and what is believed of them.

RFC 9728 for the resource, RFC 8414 and OpenID Connect Discovery for the authorization server, the rules of revision
2025-03-26 for servers that have neither. Specification: basic/authorization, authorization server discovery.
"""

from typing import TypeVar

from mcphost.auth.account import Discovered
from mcphost.auth.oauth_http import LATER, Reply, Requests, Unreachable
from mcphost.auth.url_policy import canonical, checked, covers, origin
from mcphost.errors import MalformedMessage, SignInRequired
from mcphost.serialization import Struct, convert, replace
from mcphost.unicode_forms import split_url

MOST_ISSUERS = 10
LEGACY_REVISION = "2025-03-26"
_BROKEN = 500
_MOST_SHOWN = 500
_MOST_METHODS = 8
OPERATOR = "Nothing of it was used. Its operator must correct it."
T = TypeVar("T")


class Untrusted(SignInRequired):
    """A document that contradicts itself or the server; nothing of it is used."""


class ResourceDocument(Struct, frozen=True):
    """What a protected resource says of itself (RFC 9728)."""

    resource: str = ""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    resource_name: str = ""
    dpop_bound_access_tokens_required: bool = False


class IssuerDocument(Struct, frozen=True):
    """What an authorization server says of itself (RFC 8414, OpenID Connect Discovery)."""

    issuer: str = ""
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    device_authorization_endpoint: str = ""
    scopes_supported: tuple[str, ...] = ()
    grant_types_supported: tuple[str, ...] = ()
    code_challenge_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False
    dpop_signing_alg_values_supported: tuple[str, ...] = ()
    prompt_values_supported: tuple[str, ...] = ()


class FoundIssuer(Struct, frozen=True):
    """An authorization server's document, and where it was; `place` "" when there is none."""

    document: IssuerDocument
    place: str = ""
    form: str = "legacy"


class Resource(Struct, frozen=True):
    """What was found about the MCP server; `identifier` goes into every request byte for byte.

    `place` is where its metadata was; "" for none.
    """

    identifier: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    legacy: bool = False
    dpop: bool = False
    place: str = ""

    def at(self, issuer: str) -> "Resource":
        """The same with the issuer that the user wrote down, "" for none: it counts where the server names nobody."""
        silent = self.legacy and issuer and issuer not in self.issuers
        return replace(self, issuers=(issuer,), legacy=False) if silent else self


def resource_places(url: str) -> tuple[str, ...]:
    """Where the metadata of a protected resource may be when no challenge names it, in order."""
    parts = split_url(canonical(url))
    base = f"{parts.scheme}://{parts.netloc}"
    well_known = f"{base}/.well-known/oauth-protected-resource"
    path = parts.path.rstrip("/")
    return (f"{well_known}{path}", well_known) if path else (well_known,)


def issuer_places(issuer: str) -> tuple[str, ...]:
    """Where the metadata of an issuer may be, in order; never at the root of an issuer that has a path."""
    parts = split_url(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    first = (
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
    )
    return (*first, f"{base}{path}/.well-known/openid-configuration") if path else first


async def find_resource(requests: Requests, url: str, named: str) -> Resource:
    """What the server at `url` says about who signs for it; `named` is `resource_metadata` of its challenge, or "".

    A server without such metadata follows the rules of 2025-03-26: its own origin is the issuer. Raises Untrusted for
    metadata of another resource, Unsafe, Unreachable.
    """
    if named and not origin(named)[1]:
        checked(named, "address of the protected resource metadata")
    if named and origin(named) != origin(url):
        raise Untrusted(
            f"The server at {url[:200]} names metadata on another origin: {named[:200]!r}.",
            "Nothing was sent there. Its operator must publish them on the server's own origin.",
        )
    for place in (named,) if named else resource_places(url):
        reply = await requests.get(place, "protected resource metadata")
        if reply.status >= _BROKEN:
            raise Unreachable(
                f"The protected resource metadata {place[:200]!r} cannot be had: HTTP {reply.status}.", LATER
            )
        if not reply.ok or not reply.is_json:
            if named:
                raise Unreachable(
                    f"The protected resource metadata {named[:200]!r} is not there: {reply.said}.",
                    "The server names this address in its challenge; its operator must publish them there (RFC 9728).",
                )
            continue  # many sites answer every address with a page
        document = _document(reply, ResourceDocument, "protected resource metadata")
        if not document.resource:
            raise Untrusted(
                f'The protected resource metadata {place[:200]!r} do not say what they are about: no "resource".',
                OPERATOR,
            )
        if not covers(document.resource, url):
            raise Untrusted(
                f"The server at {url[:200]} says that it is another resource: {document.resource[:200]!r}.",
                "Nothing was sent. Check the address in mcp.json.",
            )
        if not document.authorization_servers:
            raise Untrusted(f"The server at {url[:200]} names no authorization server in its metadata.", OPERATOR)
        issuers = document.authorization_servers[:MOST_ISSUERS]
        scopes, dpop = document.scopes_supported, document.dpop_bound_access_tokens_required
        return Resource(document.resource, issuers, scopes, dpop=dpop, place=place)
    parts = split_url(canonical(url))
    return Resource(canonical(url), (f"{parts.scheme}://{parts.netloc}",), legacy=True)


async def find_issuer(requests: Requests, issuer: str, *, legacy: bool) -> FoundIssuer:
    """The metadata of an issuer, with its endpoints checked. Raises Untrusted, Unsafe, Unreachable."""
    checked(issuer, "authorization server")
    headers = {"mcp-protocol-version": LEGACY_REVISION} if legacy else {}
    broken = 0
    answers: list[str] = []
    places = issuer_places(issuer)
    for place in places:
        reply = await requests.get(place, "authorization server metadata", headers)
        if reply.status >= _BROKEN:
            broken = reply.status
        if not reply.ok or not reply.is_json:
            answers.append(f"{split_url(place).path[:200]} answers {reply.said}")
            continue
        document = _document(reply, IssuerDocument, "authorization server metadata")
        if not document.issuer:
            raise Untrusted(
                f'The authorization server metadata {place[:200]!r} do not say whose they are: no "issuer".',
                OPERATOR,
            )
        if document.issuer != issuer and not (legacy and document.issuer.rstrip("/") == issuer):
            raise Untrusted(
                f"The authorization server {issuer[:200]!r} calls itself {document.issuer[:200]!r}.",
                "Its metadata were not used. The two must be the same to the letter (RFC 8414, section 3.3); whoever "
                "runs it or the server must correct one of them.",
            )
        return FoundIssuer(_complete(document), place, "oauth" if place == places[0] else "oidc")
    if legacy and not broken:
        base = issuer.rstrip("/")
        return FoundIssuer(
            IssuerDocument(
                issuer=issuer,
                authorization_endpoint=f"{base}/authorize",
                token_endpoint=f"{base}/token",
                registration_endpoint=f"{base}/register",
            )
        )
    raise Unreachable(
        f"The authorization server {issuer[:200]!r} has no metadata: {'; '.join(answers)}.",
        LATER if broken else "Nothing was sent. Its operator must publish them (RFC 8414).",
    )


def discovered(resource: Resource, found: FoundIssuer) -> Discovered:
    """What of both is worth telling people later; bounded, and nothing of it secret."""
    document = found.document
    return Discovered(
        resource_metadata=resource.place[:_MOST_SHOWN],
        issuer_metadata=found.place[:_MOST_SHOWN],
        form=found.form,
        authorization=document.authorization_endpoint[:_MOST_SHOWN],
        token=document.token_endpoint[:_MOST_SHOWN],
        registration=document.registration_endpoint[:_MOST_SHOWN],
        device=document.device_authorization_endpoint[:_MOST_SHOWN],
        revocation=document.revocation_endpoint[:_MOST_SHOWN],
        pkce=tuple(one[:40] for one in (document.code_challenge_methods_supported or ())[:_MOST_METHODS]),
        names_itself=document.authorization_response_iss_parameter_supported,
    )


def _complete(document: IssuerDocument) -> IssuerDocument:
    checked(document.token_endpoint, "token endpoint")
    for what, url in (
        ("authorization endpoint", document.authorization_endpoint),
        ("registration endpoint", document.registration_endpoint),
        ("revocation endpoint", document.revocation_endpoint),
        ("device authorization endpoint", document.device_authorization_endpoint),
    ):
        if url:
            checked(url, what)
    return document


def check_pkce(document: IssuerDocument, *, legacy: bool) -> None:
    """Raises Untrusted unless the authorization server says that it supports S256; 2025-03-26 had no way to say so."""
    methods = document.code_challenge_methods_supported
    if legacy and methods is None:
        return
    if "S256" not in (methods or ()):
        raise Untrusted(
            f"The authorization server {document.issuer[:200]} does not say that it supports PKCE with S256.",
            "Without it a stolen code could be used by others, so the sign-in was not started.",
        )


def _document(reply: Reply, kind: type[T], what: str) -> T:
    if not reply.is_object():
        raise Untrusted(f"The {what} {reply.url[:200]!r} cannot be read: it is no JSON object.", OPERATOR)
    try:
        return convert(reply.members(), kind, what)
    except MalformedMessage as error:
        raise Untrusted(f"The {what} {reply.url[:200]!r} cannot be read: {error.message[:300]}", OPERATOR) from error
