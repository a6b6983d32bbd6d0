"""What a person should know of a sign-in before they type a password: where it leads, and what its token opens."""

from mcphost.auth.url_policy import canonical_url, resource_covers, url_origin
from mcphost.unicode_forms import split_url


def sign_in_warnings(url: str, issuer: str, resource: str, server_url: str, *, has_code: bool) -> tuple[str, ...]:
    """Return sentences about an address that another party than the issuer serves, and about a wide `resource`.

    A hostile issuer can name somebody else's endpoint and collect what that one answers (a mix-up, RFC 9700, 4.4), or
    pass on a device code that somebody else's program was given (RFC 8628, 5.4).
    """
    found: list[str] = []
    (_, place, port), (_, issuing, issuing_port) = url_origin(url), url_origin(issuer)
    if port != issuing_port or (place != issuing and not place.endswith(f".{issuing}")):
        words = (
            "The code may belong to somebody else's sign-in, which you would let in"
            if has_code
            else "What you sign in to there may be passed on to another"
        )
        there, here = split_url(url).netloc, split_url(issuer).netloc
        found.append(f"You sign in at {there}, and {here} gets the result. {words}: go on only if you expect it.")
    if resource_covers(resource, server_url) and canonical_url(resource).rstrip("/") != canonical_url(
        server_url
    ).rstrip("/"):
        found.append(f"What you permit counts for everything below {resource[:300]}, not for this server alone.")
    return tuple(found)
