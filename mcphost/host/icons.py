"""Which icons of a server may ever be looked at: pictures inside the message, and https from the server's own origin.

mcphost draws none and fetches none; it only tells which ones there are.
"""

from urllib.parse import urlsplit

from mcphost.protocol.wire import Icon

DATA_LIMIT = 256 * 1024
ICON_LIMIT = 20
_PICTURES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,")


def allowed(icons: tuple[Icon, ...], server_url: str) -> tuple[Icon, ...]:
    """Those that the rule lets pass; a server that is a program has no origin, so only `data:` does."""
    return tuple(icon for icon in icons[:ICON_LIMIT] if _is_allowed(icon.src, server_url))


def _is_allowed(src: str, server_url: str) -> bool:
    if src[:5].lower() == "data:":
        return src.lower().startswith(_PICTURES) and len(src) <= DATA_LIMIT
    try:
        theirs, ours = urlsplit(src), urlsplit(server_url)
        return (
            theirs.scheme == "https"
            and ours.scheme == "https"
            and bool(theirs.hostname)
            and theirs.hostname == ours.hostname
            and (theirs.port or 443) == (ours.port or 443)
            and theirs.username is None
        )
    except ValueError:
        return False
