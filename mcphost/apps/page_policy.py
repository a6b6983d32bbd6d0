"""Content security policies of a page and of the document around it (MCP Apps, "CSP Enforcement")."""

from mcphost.protocol.apps import PageOrigins

SANDBOX = "allow-scripts"
"""The page may only run scripts. Its origin is opaque, so it has no storage and cannot read its parent."""


def build_page_policy(origins: PageOrigins, parent: str) -> str:
    """Return the policy of the page's own document.

    The page may load content only from the origins that the server declared. `'self'` is not one of them, because it
    would mean mcphost's own HTTP server. *parent* is the origin of the document around the page; no other document may
    show the page in a frame.
    """
    resource = " ".join(("", *origins.resource))
    directives = (
        f"sandbox {SANDBOX}",
        "default-src 'none'",
        f"script-src 'unsafe-inline'{resource}",
        f"style-src 'unsafe-inline'{resource}",
        f"img-src data:{resource}",
        f"font-src data:{resource}",
        f"media-src data:{resource}",
        f"connect-src {_join(origins.connect)}",
        f"frame-src {_join(origins.frame)}",
        "worker-src 'none'",
        "object-src 'none'",
        f"base-uri {_join(origins.base_uri)}",
        "form-action 'none'",
        f"frame-ancestors {parent}",
        "webrtc 'block'",
    )
    return "; ".join(directives)


def build_outer_policy(page_url: str) -> str:
    """Return the policy of the document around the page.

    `frame-src` names exactly one address, so the page cannot navigate elsewhere, not even to send data there.
    """
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        f"frame-src {page_url}; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )


def _join(origins: tuple[str, ...]) -> str:
    return " ".join(origins) or "'none'"
