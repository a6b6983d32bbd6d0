"""Which icons of a server may ever be looked at: pictures inside the message, and https from the server's own origin.

mcphost draws the former and fetches none of the latter; it only tells which ones there are.
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
    """The icons of a list as a server wrote it; none when it cannot be read."""
    try:
        return decode(raw, tuple[Icon, ...], "icons") if is_set(raw) else ()
    except MalformedMessage:
        return ()


def find_drawable(icons: tuple[Icon, ...], *, dark: bool) -> ImagePart | None:
    """One that can be drawn as it came: inside of the message, and by its own first bytes the PNG, JPEG or WebP that it
    says it is (2026-07-28, basic#icons). One for the theme before one for any, and those before one for the other."""
    theme = "dark" if dark else "light"
    order = {theme: 0, None: 1}
    for icon in sorted(allowed_icons(icons, ""), key=lambda icon: order.get(icon.theme, 2)):
        head, _, data = icon.src.partition(",")
        claimed = head[len("data:") :].partition(";")[0].lower()
        try:
            found = identify_image(binascii.a2b_base64(data[: HEADER_BYTES // 3 * 4]))
        except (binascii.Error, ValueError):
            continue
        if found is not None and found.mime_type == claimed and not found.is_too_big:
            return ImagePart(claimed, data)
    return None


def allowed_icons(icons: tuple[Icon, ...], server_url: str) -> tuple[Icon, ...]:
    """Those that the rule lets pass; a server that is a program has no origin, so only `data:` does."""
    return tuple(icon for icon in icons[:ICON_LIMIT] if _is_allowed(icon.src, server_url))


def _is_allowed(src: str, server_url: str) -> bool:
    if src[:5].lower() == "data:":
        return src.lower().startswith(_IMAGE_PREFIXES) and len(src) <= DATA_LIMIT
    try:
        theirs, ours = split_url(src), split_url(server_url)
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
