"""Mcp-* header values and which addresses count as the same origin; no I/O (specification: basic/transports)."""

import base64
import ipaddress

from mcphost.errors import MalformedMessage
from mcphost.unicode_forms import split_url

VERSION = "MCP-Protocol-Version"
METHOD = "Mcp-Method"
NAME = "Mcp-Name"
SESSION = "Mcp-Session-Id"
_OPEN, _CLOSE = "=?base64?", "?="
_LARGEST = 2**53 - 1


def header_value(value: str | int | bool) -> str:
    """The text that stands for `value` in a header.

    Anything but visible ASCII and inner spaces is wrapped in base64, and so is text that looks wrapped. Raises
    MalformedMessage for a number that JavaScript could not read back.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) > _LARGEST:
            raise MalformedMessage(f"The number {value} is too large for a header.")
        return str(value)
    plain = value.isascii() and value.isprintable()
    wrapped = value.startswith(_OPEN) and value.endswith(_CLOSE)
    if plain and value == value.strip() and not wrapped:
        return value
    return _OPEN + base64.b64encode(value.encode(errors="replace")).decode() + _CLOSE


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine.

    Names below `localhost` do not count: many resolvers ask the network about them.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of an address. Raises MalformedMessage for one that has none."""
    try:
        parts = split_url(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        host = (parts.hostname or "").lower()
    except ValueError as error:
        raise MalformedMessage(f"The address {url[:200]!r} cannot be read: {error}.") from error
    if parts.scheme not in ("http", "https") or not host:
        raise MalformedMessage(f"The address {url[:200]!r} is not an http or https address.")
    return parts.scheme, host, port
