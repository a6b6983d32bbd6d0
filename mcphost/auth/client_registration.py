"""Who we are to an authorization server: a configured client, our metadata document, or a registration made there.

Specification: basic/authorization, client registration; RFC 7591. Stored under the issuer and used nowhere else.
"""

import time
from collections.abc import Mapping
from typing import Any

from mcphost.auth.discovery import IssuerDocument
from mcphost.auth.oauth_http import Reply, Requests, Unreachable
from mcphost.auth.url_policy import checked
from mcphost.errors import SignInRequired
from mcphost.redact import redact_registered, register_secret, register_server_secret
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct

NAME = "mcphost"
METHODS = ("none", "client_secret_basic", "client_secret_post")
"""How we can prove who we are at a token endpoint, the best for a program on a person's machine first."""
ENTERED = "entered"
"""The kind of a client that the user registered by hand and entered when asked."""
_MOST_SAID = 4_000
_MOST_ID = 4096
_EARLY = 60.0
_FOREVER = 1e12


class Client(Struct, frozen=True):
    """A client id and how it is used. `redirect_uri` is the registered one; empty: any loopback port will do.

    `method` is the way to authenticate at the token endpoint. Its repr must not be shown: it holds the secret.
    """

    issuer: str
    id: str
    secret: str = ""
    method: str = "none"
    redirect_uri: str = ""
    expires: float = 0
    kind: str = "configured"
    scopes: tuple[str, ...] = ()
    """What it was registered for; (): anything."""

    def __repr__(self) -> str:
        return f"Client({self.kind}, {self.issuer!r})"

    def conceal(self) -> None:
        """Remove its secret from whatever is logged or shown from now on."""
        if self.kind == "registered":
            register_server_secret(self.secret)
        else:
            register_secret(self.secret)

    def usable(self, now: float | None = None) -> bool:
        """Whether its secret has not run out."""
        return not self.expires or self.expires - _EARLY > (time.time() if now is None else now)

    def may_ask(self, scopes: tuple[str, ...]) -> bool:
        """Whether it may ask for those: authorization servers hold a client to what it registered for."""
        return not self.scopes or set(scopes) <= set(self.scopes)


class RegistrationRefused(SignInRequired):
    """The authorization server does not want us."""


def method_for(document: IssuerDocument, *, secret: bool, told: str = "") -> str:
    """The authentication at the token endpoint: what the registration said, else the first that both sides know.

    Without a list in the metadata, client_secret_basic is the default (RFC 8414, section 2).
    """
    supported = document.token_endpoint_auth_methods_supported
    if told in METHODS and (not supported or told in supported) and (secret or told == "none"):
        return told
    if not secret:
        return "none"
    if supported:
        for method in ("client_secret_basic", "client_secret_post", "none"):
            if method in supported:
                return method
    return "client_secret_basic"


def configured(document: IssuerDocument, issuer: str, client_id: str, secret: str) -> Client:
    """A client the user entered."""
    if secret:
        register_secret(secret)
    return Client(issuer, client_id, secret, method_for(document, secret=bool(secret)))


def entered(document: IssuerDocument, issuer: str, ident: str, secret: str, redirect_uri: str) -> Client | None:
    """A client that the user entered when asked, for that redirect address; None when it cannot be one."""
    ident, secret = ident.strip(), secret.strip()
    fits = all(len(text) <= _MOST_ID and all("!" <= char <= "~" for char in text) for text in (ident, secret))
    if not ident or not fits:
        return None
    if secret:
        register_secret(secret)
    return Client(issuer, ident, secret, method_for(document, secret=bool(secret)), redirect_uri, kind=ENTERED)


def published(issuer: str, url: str) -> Client:
    """The client of our metadata document. Raises SignInRequired for an address that cannot be one."""
    checked(url, "client metadata document")
    if not url.startswith("https://") or not url[8:].partition("/")[2]:
        raise SignInRequired("The address of the client metadata document is not https with a path.")
    return Client(issuer, url, kind="document")


async def registered(
    requests: Requests, document: IssuerDocument, issuer: str, redirect_uri: str, scopes: tuple[str, ...]
) -> Client:
    """Register dynamically. Raises RegistrationRefused with the server's own words, Unsafe, Unreachable."""
    supported = document.token_endpoint_auth_methods_supported
    wanted = next((method for method in METHODS if method in supported), "none")
    device = ["urn:ietf:params:oauth:grant-type:device_code"] if document.device_authorization_endpoint else []
    metadata: dict[str, Any] = {
        "client_name": NAME,
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token", *device],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
    }
    if scopes:
        metadata["scope"] = " ".join(scopes)
    reply = await requests.post_json(document.registration_endpoint, metadata, "registration endpoint")
    members = reply.members()
    if reply.is_busy:
        raise Unreachable(f"The authorization server {issuer[:200]} cannot answer now: {told(reply, members)}")
    ident = members.get("client_id")
    if not reply.ok or not isinstance(ident, str) or not 0 < len(ident) <= _MOST_ID:
        raise RegistrationRefused(
            f"The authorization server {issuer[:200]} did not register mcphost: {told(reply, members)}",
            'Enter a client id of yours: "mcphost": {"oauth": {"clientId": "…"}} for this server in mcp.json.',
        )
    secret = members.get("client_secret")
    secret = secret if isinstance(secret, str) else ""
    register_server_secret(secret)
    method = members.get("token_endpoint_auth_method")
    expires = members.get("client_secret_expires_at")
    return Client(
        issuer,
        ident,
        secret,
        method_for(document, secret=bool(secret), told=method if isinstance(method, str) else ""),
        redirect_uri,
        float(expires) if isinstance(expires, int | float) and secret and 0 <= expires < _FOREVER else 0.0,
        "registered",
        scopes,
    )


def quoted(said: str) -> str:
    """Return the beginning of what an authorization server said, cleaned; secrets go before a cut can spare a part."""
    return sanitize(redact_registered(said[:_MOST_SAID])[:300], keep_newlines=False)


def told(reply: Reply, members: Mapping[str, Any]) -> str:
    """What an OAuth endpoint said against a request, cleaned and bounded (RFC 6749, section 5.2)."""
    said = [members.get("error"), members.get("error_description")]
    words = [quoted(word) for word in said if isinstance(word, str) and word]
    return f"{': '.join(words)} (HTTP {reply.status})." if words else f"HTTP {reply.status}."
