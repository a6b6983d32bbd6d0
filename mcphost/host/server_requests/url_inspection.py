"""Inspection of an address from a server: its host and anything unusual; it is never fetched."""

import ipaddress
import re
from urllib.parse import quote, urlunsplit

from mcphost.errors import MalformedMessage
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct
from mcphost.unicode_forms import HOST_LIMIT, split_url

MAX_URL = 16 * 1024
_SAFE_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
# Browsers decode percent codes in a host and accept characters that people read as its end.
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NUMBER = re.compile(r"(0x[0-9a-f]*|\d+)", re.IGNORECASE)
# Suffixes that people read as the end of a host, wherever they are in it.
_COMMON_SUFFIXES = frozenset({"com", "org", "net", "io", "dev", "gov", "edu", "app"})


class InspectedUrl(Struct, frozen=True):
    """An inspected address: `url` is complete as a browser gets it, `host` its host."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


def inspect_url(url: str) -> InspectedUrl:
    """Return the inspected address. Raises MalformedMessage for one that a browser must not open.

    Non-ASCII characters are converted as browsers do: punycode in the host, percent-encoding elsewhere.
    """
    if not url or len(url) > MAX_URL:
        raise MalformedMessage(f"The address is empty or longer than {MAX_URL:,} characters.")
    if sanitize(url, keep_newlines=False) != url or any(char.isspace() or char in '\\<>"' for char in url):
        raise MalformedMessage("The address has invalid characters.")
    try:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise MalformedMessage(f"The address cannot be read: {error}.") from error
    if not host or parts.scheme not in ("https", "http"):
        raise MalformedMessage("The address is not an https one.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise MalformedMessage("The address is not https; http is allowed only for this machine.")
    name = _to_ascii(host)
    if len(name) > HOST_LIMIT:
        raise MalformedMessage(f"The host {name[:100]!r} is longer than {HOST_LIMIT} characters.")
    if not _HOST.fullmatch(name):
        raise MalformedMessage(f"The host {name[:100]!r} has invalid characters.")
    warnings: list[str] = []
    if parts.scheme == "http":
        warnings.append("The connection is not encrypted; it leads to this machine.")
    if parts.username is not None:
        warnings.append(f"The part before the @ is a user name, not the host: it leads to {name}.")
    warnings += _host_warnings(name)
    if port is not None and port not in (80, 443):
        warnings.append(f"It leads to the unusual port {port}.")
    bracketed = f"[{name}]" if ":" in name else name
    userinfo = (
        quote(parts.netloc.rpartition("@")[0], safe=_SAFE_CHARACTERS.replace("@", "")) + "@"
        if "@" in parts.netloc
        else ""
    )
    netloc = f"{userinfo}{bracketed}" + (f":{port}" if port is not None else "")
    tail = (quote(part, safe=_SAFE_CHARACTERS) for part in (parts.path, parts.query, parts.fragment))
    # A plain address stays exactly as it is.
    full = url if _is_plain(url) else urlunsplit((parts.scheme, netloc, *tail))
    if len(full) > MAX_URL:
        raise MalformedMessage(f"The address is longer than {MAX_URL:,} characters.")
    return InspectedUrl(full, name, tuple(warnings))


def _is_plain(url: str) -> bool:
    return url.isascii() and not any(char in "^`{|}" for char in url)


def _to_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise MalformedMessage(f"The host {host[:100]!r} is not a host name.") from error


def _host_warnings(host: str) -> list[str]:
    if "xn--" in host:
        return [f"The host has letters that can look like others: it is {host}, shown as {_display_host(host)}."]
    labels = host.rstrip(".").split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1]):
        # Browsers also read 2130706433 and 0x7f.1 as IP addresses.
        return [] if _is_loopback(host) else ["The host is an IP address, not a name."]
    if any(label in _COMMON_SUFFIXES for label in labels[:-2]):
        return [f"The end of the host names its owner: {'.'.join(labels[-2:])}."]
    return []


def _display_host(ascii_host: str) -> str:
    try:
        return sanitize(ascii_host.encode().decode("idna"), keep_newlines=False)
    except UnicodeError:
        return ascii_host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
