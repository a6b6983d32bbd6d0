"""Collect the secrets that were sent over the network during a test."""

from tests.unit.auth.oauth_peer import OAuthPeer, query

SECRET_FIELDS = {
    "access_token", "refresh_token", "code", "code_verifier", "state", "client_secret", "assertion", "client_assertion",
    "subject_token", "device_code", "token",
}  # fmt: skip


SECRET_HEADERS = ("authorization", "dpop")


def collect_secrets(peer: OAuthPeer) -> set[str]:
    """Return the secrets that mcphost sent to the peer or the peer issued; none may appear in logs or messages."""
    found = {*peer.valid, *peer.families, *peer.codes}
    for seen in peer.seen:
        pairs = {**query(seen.path), **query(f"?{seen.body.decode('latin-1')}")}
        found |= {value for name, value in pairs.items() if name in SECRET_FIELDS}
        found |= {
            seen.headers[name].partition(" ")[2] or seen.headers[name]
            for name in SECRET_HEADERS
            if name in seen.headers
        }
    return {value for value in found if len(value) > 5}
