"""Who signs in to which server: one OAuth for each configured HTTP server, all sharing vault, index and person."""

from collections.abc import Callable

from mcphost.auth.authorizer import OAuth
from mcphost.auth.keep import Keep
from mcphost.auth.machine import Machine
from mcphost.auth.requests import Requests
from mcphost.auth.signin import Person, Target
from mcphost.auth.urls import Guard, canonical
from mcphost.config.schema import OAuthConfig, ServerConfig

Warn = Callable[[str], None]


class Identities:
    """`document_url` is where our client metadata document is published, "" for nowhere."""

    def __init__(self, keep: Keep, person: Person | None, *, document_url: str = "") -> None:
        self.keep = keep
        self._person = person
        self._document_url = document_url
        self._known: dict[tuple[str, str, OAuthConfig], OAuth] = {}

    def of(self, server: ServerConfig, *, warn: Warn, proxy_for: Callable[[str], str]) -> OAuth | None:
        """The same one at each connection, so that a sign-in survives them; None where the user wrote a header.

        `server` has its references filled in. `warn` hears what the user should know about keeping secrets.
        """
        if any(name.lower() == "authorization" for name in server.headers):
            return None
        self.keep.warn = warn
        key = (server.name, server.url, server.oauth)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = OAuth(
                target_of(server, self._document_url),
                Requests(Guard(server.url, private=server.oauth.private), proxy_for=proxy_for, ca_file=server.ca_file),
                self.keep,
                self._person,
                machine_of(server),
            )
        return known


def target_of(server: ServerConfig, document_url: str = "") -> Target:
    """What there is to sign in to."""
    oauth = server.oauth
    return Target(
        server=server.name,
        url=server.url,
        account=oauth.account,
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        issuer=oauth.issuer,
        port=oauth.port,
        document_url=oauth.document_url or document_url,
    )


def machine_of(server: ServerConfig) -> Machine | None:
    """How to sign in without a person, when the user configured that."""
    oauth = server.oauth
    if oauth.grant == "person":
        return None
    return Machine(
        grant=oauth.grant,
        server=server.name,
        url=server.url,
        key_uri=canonical(server.url),
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        issuer=oauth.issuer,
        scopes=oauth.scopes,
        key=oauth.key,
        algorithm=oauth.algorithm,
        assertion=oauth.assertion,
        idp_token=oauth.idp_token,
        idp_client_id=oauth.idp_client_id,
        idp_token_endpoint=oauth.idp_token_endpoint,
    )
