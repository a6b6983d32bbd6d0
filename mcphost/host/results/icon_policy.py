"""Policy for icons of servers: embedded images, and https from the server's own origin.

mcphost draws embedded images and never fetches others; it only reports that they exist.
"""

import binascii

from mcphost.errors import MalformedMessage
from mcphost.llm.messages import ImagePart
from mcphost.protocol.base import Icon, is_set
from mcphost.sandbox.image_formats import HEADER_BYTES, identify_image
from mcphost.serialization import Raw, decode
from mcphost.unicode_forms import split_url

DATA_LIMIT = 256 * 1024
ICON_LIMIT = 20
_IMAGE_PREFIXES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,")


def parse_icons(raw: Raw) -> tuple[Icon, ...]:
    """Return the icons of a list; none if the list is invalid."""
    try:
        return decode(raw, tuple[Icon, ...], "icons") if is_set(raw) else ()
    except MalformedMessage:
        return ()


def find_drawable(icons: tuple[Icon, ...], *, dark: bool) -> ImagePart | None:
    """Return an icon that can be drawn without fetching, or None.

    It is embedded, and its first bytes are the declared PNG, JPEG or WebP (2026-07-28, basic#icons). Icons for the
    theme are preferred, then icons for any theme.
    """
    theme = "dark" if dark else "light"
    order = {theme: 0, None: 1}
    for icon in sorted(allowed_icons(icons, ""), key=lambda icon: order.get(icon.theme, 2)):
        head, _, data = icon.src.partition(",")
        claimed = head[len("data:") :].partition(";")[0].lower()
        try:
            info = identify_image(binascii.a2b_base64(data[: HEADER_BYTES // 3 * 4]))
        except (binascii.Error, ValueError):
            continue
        if info is not None and info.mime_type == claimed and not info.is_too_big:
            return ImagePart(claimed, data)
    return None


def allowed_icons(icons: tuple[Icon, ...], server_url: str) -> tuple[Icon, ...]:
    """Return the allowed icons; local servers have no origin, so only `data:` is allowed."""
    return tuple(icon for icon in icons[:ICON_LIMIT] if _is_allowed(icon.src, server_url))


def _is_allowed(src: str, server_url: str) -> bool:
    if src[:5].lower() == "data:":
        return src.lower().startswith(_IMAGE_PREFIXES) and len(src) <= DATA_LIMIT
    try:
        source, server = split_url(src), split_url(server_url)
        return (
            source.scheme == "https"
            and server.scheme == "https"
            and bool(source.hostname)
            and source.hostname == server.hostname
            and (source.port or 443) == (server.port or 443)
            and source.username is None
        )
    except ValueError:
        return False
