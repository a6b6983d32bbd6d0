"""Where an address that a server sends the user to leads, and what is odd about it; read, never fetched."""

import ipaddress
import re
from urllib.parse import quote, urlunsplit

from mcphost.errors import MalformedMessage
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct
from mcphost.unicode_forms import HOST_LIMIT, split_url

MAX_URL = 16 * 1024
_SAFE_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
# Browsers decode percent codes in a host and take signs in it that people read as its end.
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_NUMBER = re.compile(r"(0x[0-9a-f]*|\d+)", re.IGNORECASE)
# Endings that people read as the end of a host, wherever they stand in it.
_COMMON_SUFFIXES = frozenset({"com", "org", "net", "io", "dev", "gov", "edu", "app"})


class InspectedUrl(Struct, frozen=True):
    """Where an address leads: the host, and what is odd about it. `url` is the whole address as a browser gets it."""

    url: str
    host: str
    warnings: tuple[str, ...] = ()


def inspect_url(url: str) -> InspectedUrl:
    """Read an address. Raises MalformedMessage for one that no browser should be sent to.

    What is not ASCII in it becomes what every browser makes of it: punycode in the host, percent signs behind it.
    """
    if not url or len(url) > MAX_URL:
        raise MalformedMessage(f"The address is empty or longer than {MAX_URL:,} characters.")
    if sanitize(url, keep_newlines=False) != url or any(one.isspace() or one in '\\<>"' for one in url):
        raise MalformedMessage("The address holds characters that no address has.")
    try:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise MalformedMessage(f"The address cannot be read: {error}.") from error
    if not host or parts.scheme not in ("https", "http"):
        raise MalformedMessage("The address is not an https one.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise MalformedMessage("The address is not https; http is opened on this machine only.")
    name = _to_ascii(host)
    if len(name) > HOST_LIMIT:
        raise MalformedMessage(f"The host {name[:100]!r} is longer than {HOST_LIMIT} characters.")
    if not _HOST.fullmatch(name):
        raise MalformedMessage(f"The host {name[:100]!r} has characters that no host has.")
    warnings: list[str] = []
    if parts.scheme == "http":
        warnings.append("The address is not encrypted; it leads to this machine.")
    if parts.username is not None:
        warnings.append(f"What stands before the @ is a name, not the host: it leads to {name}.")
    warnings += _host_warnings(name)
    if port is not None and port not in (80, 443):
        warnings.append(f"It leads to the unusual port {port}.")
    place = f"[{name}]" if ":" in name else name
    before = (
        quote(parts.netloc.rpartition("@")[0], safe=_SAFE_CHARACTERS.replace("@", "")) + "@"
        if "@" in parts.netloc
        else ""
    )
    netloc = f"{before}{place}" + (f":{port}" if port is not None else "")
    rest = (quote(part, safe=_SAFE_CHARACTERS) for part in (parts.path, parts.query, parts.fragment))
    # An address that was plain stays as it was, to the letter.
    whole = url if _is_plain(url) else urlunsplit((parts.scheme, netloc, *rest))
    if len(whole) > MAX_URL:
        raise MalformedMessage(f"The address is longer than {MAX_URL:,} characters.")
    return InspectedUrl(whole, name, tuple(warnings))


def _is_plain(url: str) -> bool:
    return url.isascii() and not any(one in "^`{|}" for one in url)


def _to_ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError as error:
        raise MalformedMessage(f"The host {host[:100]!r} is no host name.") from error


def _host_warnings(host: str) -> list[str]:
    if "xn--" in host:
        return [f"The host has letters that can look like others: it is {host}, shown as {_display_host(host)}."]
    labels = host.rstrip(".").split(".")
    if ":" in host or _NUMBER.fullmatch(labels[-1]):
        # A browser reads 2130706433 and 0x7f.1 as addresses as well.
        return [] if _is_loopback(host) else ["The host is a bare number, not a name."]
    if any(label in _COMMON_SUFFIXES for label in labels[:-2]):
        return [f"The end of a host says whose it is: this one ends in {'.'.join(labels[-2:])}."]
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
