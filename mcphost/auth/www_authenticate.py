"""Parsing of the challenges in WWW-Authenticate headers (RFC 9110, section 11.6.1).

`probe_server` sends a request to obtain a server's challenge.
"""

import re

from mcphost.auth.oauth_http import OAuthHttpClient
from mcphost.serialization import Struct
from mcphost.sign_in_types import AuthChallenge

MAX_HEADER_LENGTH = 16 * 1024
MAX_CHALLENGES = 20
_PING_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a grammar rule, not a secret
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=\s|,|$)[ \t]*")
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*(?=,|$)', re.DOTALL)
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Challenge(Struct, frozen=True):
    """One challenge of a WWW-Authenticate header.

    The scheme and the parameter names are in lower case; if a parameter is repeated, its first value is kept.
    """

    scheme: str
    params: dict[str, str]

    def get(self, name: str) -> str:
        """Return the value of a parameter, or "" if it is missing."""
        return self.params.get(name, "")


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Parse the challenges of a WWW-Authenticate header, or of several header lines joined with commas.

    Parameter values may be quoted or bare. Parsing stops at the first syntax error; nothing is raised.
    """
    header = header[:MAX_HEADER_LENGTH]
    challenges: list[Challenge] = []
    at = 0
    while len(challenges) < MAX_CHALLENGES and (scheme := _SCHEME.match(header, at)):
        at = scheme.end()
        params: dict[str, str] = {}
        if (blob := _TOKEN68.match(header, at)) and not _PARAMETER.match(header, at):
            at = blob.end()
        while parameter := _PARAMETER.match(header, at):
            name, quoted, bare = parameter.groups()
            params.setdefault(name.lower(), bare if quoted is None else _ESCAPE.sub(r"\1", quoted))
            at = parameter.end()
        challenges.append(Challenge(scheme[1].lower(), params))
    return tuple(challenges)


def select_challenge(header: str) -> Challenge:
    """Return the first DPoP challenge, or else the first Bearer challenge, or else an empty challenge."""
    challenges = parse_challenges(header)
    for scheme in ("dpop", "bearer"):
        for challenge in challenges:
            if challenge.scheme == scheme:
                return challenge
    return Challenge("", {})


async def probe_server(http: OAuthHttpClient, url: str) -> AuthChallenge:
    """Send an MCP ping without credentials; return the status and the authorization challenge of the response.

    Raises UnsafeUrl or EndpointUnreachable.
    """
    headers = {"accept": "application/json, text/event-stream"}
    reply = await http.post_json(url, _PING_REQUEST, "MCP server", headers)
    return AuthChallenge(reply.status, reply.headers.get("www-authenticate", "") if reply.status == 401 else "", "")
