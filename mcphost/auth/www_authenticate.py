"""Reads WWW-Authenticate: several challenges, quoted and bare parameters, any case; nothing it holds is trusted.

Grammar: RFC 9110, section 11.6.1. Broken input gives the challenges before the break, never an error.
"""

import re

from mcphost.serialization import Struct

MAX_HEADER_LENGTH = 16 * 1024
MAX_CHALLENGES = 20
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a grammar rule, not a secret
_SCHEME = re.compile(rf"[\s,]*({_TOKEN})(?=\s|,|$)[ \t]*")
_PARAMETER = re.compile(rf'[\s,]*({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))[ \t]*(?=,|$)', re.DOTALL)
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Challenge(Struct, frozen=True):
    """One scheme and its parameters; scheme and names in lower case, the first of repeated parameters counts."""

    scheme: str
    params: dict[str, str]

    def get(self, name: str) -> str:
        """One parameter, "" when absent."""
        return self.params.get(name, "")


def parse_challenges(header: str) -> tuple[Challenge, ...]:
    """Every challenge of a header, or of several header lines joined with commas."""
    header = header[:MAX_HEADER_LENGTH]
    found: list[Challenge] = []
    at = 0
    while len(found) < MAX_CHALLENGES and (scheme := _SCHEME.match(header, at)):
        at = scheme.end()
        params: dict[str, str] = {}
        if (blob := _TOKEN68.match(header, at)) and not _PARAMETER.match(header, at):
            at = blob.end()
        while parameter := _PARAMETER.match(header, at):
            name, quoted, bare = parameter.groups()
            params.setdefault(name.lower(), bare if quoted is None else _ESCAPE.sub(r"\1", quoted))
            at = parameter.end()
        found.append(Challenge(scheme[1].lower(), params))
    return tuple(found)


def select_challenge(header: str) -> Challenge:
    """The challenge we can meet: the first Bearer or DPoP one, preferring DPoP; one without parameters if none is."""
    found = parse_challenges(header)
    for scheme in ("dpop", "bearer"):
        for challenge in found:
            if challenge.scheme == scheme:
                return challenge
    return Challenge("", {})
