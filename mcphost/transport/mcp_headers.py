"""The HTTP headers defined by MCP (specification: basic/transports), and parsing of origins; no I/O."""

import base64

from mcphost.errors import MalformedMessage
from mcphost.unicode_forms import split_url

PROTOCOL_VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
SESSION_ID_HEADER = "Mcp-Session-Id"
_BASE64_PREFIX, _BASE64_SUFFIX = "=?base64?", "?="
_MAX_SAFE_INTEGER = 2**53 - 1


def encode_header_value(value: str | int | bool) -> str:
    """Encode *value* for an HTTP header.

    Text is encoded as base64 if it contains characters other than visible ASCII and inner spaces, or if it looks as if
    it were already encoded. Raises MalformedMessage for a number that JavaScript cannot represent exactly.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > _MAX_SAFE_INTEGER:
            raise MalformedMessage(f"The number {value} is too large for a header.")
        return str(value)
    plain = value.isascii() and value.isprintable()
    wrapped = value.startswith(_BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX)
    if plain and value == value.strip() and not wrapped:
        return value
    return _BASE64_PREFIX + base64.b64encode(value.encode(errors="replace")).decode() + _BASE64_SUFFIX


def parse_origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of a URL. Raises MalformedMessage unless the scheme is http or https."""
    try:
        parts = split_url(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        host = (parts.hostname or "").lower()
    except ValueError as error:
        raise MalformedMessage(f"The address {url[:200]!r} cannot be read: {error}.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise MalformedMessage(f"The address {url[:200]!r} is not an http or https address.")
    return parts.scheme, host, port
