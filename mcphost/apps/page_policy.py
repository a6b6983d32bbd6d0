"""Content security policies of a page and of the document around it (MCP Apps, "CSP Enforcement")."""

from mcphost.protocol.apps import PageOrigins

SANDBOX = "allow-scripts"
"""Sandbox flags of the page's frame: scripts run, but without storage or access to the document around the page."""


def build_page_policy(origins: PageOrigins, parent: str) -> str:
    """Return the Content-Security-Policy of the page's own document.

    The page may load content only from *origins*, which the server declared. The policy does not contain `'self'`,
    which would allow mcphost's own HTTP server. *parent* is the origin of the document around the page; no other
    document may show the page in a frame.
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
    """Return the Content-Security-Policy of the document around the page; *page_url* is the page's URL.

    `frame-src` allows only *page_url*: if the frame could show another URL, the page could send data to that URL.
    """
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        f"frame-src {page_url}; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    )


def _join(origins: tuple[str, ...]) -> str:
    return " ".join(origins) or "'none'"
