"""Rules for URLs used in OAuth: they must use https, or http on loopback.

A URL may refer to a private host only if the MCP server itself is private. A host is classified by the
addresses that its name resolves to, because a public name may point to 127.0.0.1 or to the metadata service of
a cloud provider.
"""

import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Literal
from urllib.parse import urlunsplit

import anyio

from mcphost.errors import SignInRequired
from mcphost.unicode_forms import split_url

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressScope = Literal["public", "loopback", "private", "link-local", "reserved"]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
MAX_URL_LENGTH = 4096
PROXIED_LOOKUP_TIMEOUT = 2.0
"""Seconds for the local lookup of a name that the proxy will resolve; it might otherwise never end."""
CORRECTION_HINT = (
    "Nothing was sent. If the server names it, its operator must correct it there; if you set it, correct "
    '"mcphost.oauth".'
)
"""Hint in errors about a URL that cannot be used."""
_URL_CREDENTIALS = re.compile(r"//[^/@]{1,200}@")
_HOST_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*+\.?")
_NUMBER_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_SCOPES_BY_CAUTION: tuple[AddressScope, ...] = ("link-local", "reserved", "loopback", "private", "public")
_USER_ALLOWED_SCOPES: frozenset[AddressScope] = frozenset({"private", "loopback"})
_SHARED_ADDRESS_SPACE = ipaddress.ip_network("100.64.0.0/10")
# IPv6 prefixes with an IPv4 address inside, and the bit at which it begins: IPv4-compatible and -mapped (RFC 4291),
# IPv4-translated (RFC 2765), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056). ISATAP (RFC 5214) is recognized by the
# interface identifier instead.
_IPV4_EMBEDDING_PREFIXES = tuple(
    (ipaddress.IPv6Network(network), start)
    for network, start in (
        ("::/96", 96),
        ("::ffff:0:0/96", 96),
        ("::ffff:0:0:0/96", 96),
        ("64:ff9b::/96", 96),
        ("64:ff9b:1::/96", 96),
        ("2002::/16", 16),
    )
)
_TEREDO = ipaddress.IPv6Network("2001::/32")
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")
_ISATAP_IDENTIFIERS = (0x0000_5EFE, 0x0200_5EFE)
# Segment routing, documentation, dummy prefix: in the IANA registry, but not yet in Python 3.11's ipaddress.
_NEVER_PUBLIC = tuple(map(ipaddress.IPv6Network, ("5f00::/16", "3fff::/20", "100:0:0:1::/64")))
_DEFAULT_PORTS = {"http": 80, "https": 443}


class UnsafeUrl(SignInRequired):
    """Raised when mcphost refuses to use a URL from the MCP server or its authorization server."""


def check_url(url: str, what: str) -> str:
    """Return *url* unchanged if it is acceptable; otherwise raise UnsafeUrl.

    *what* describes the URL in the error message. The URL must use https, or http to a loopback host. It must have
    a host, and must not have a user name, a password, a fragment, or characters that browsers and URL libraries
    interpret differently.
    """
    if not url:
        raise UnsafeUrl(f"The {what} is empty.", CORRECTION_HINT)
    shown = _URL_CREDENTIALS.sub("//…@", url[:200])
    if len(url) > MAX_URL_LENGTH:
        raise UnsafeUrl(
            f"The {what} {shown!r} is too long: {len(url):,} characters, of at most {MAX_URL_LENGTH:,}.",
            CORRECTION_HINT,
        )
    if not url.isascii() or any(char <= " " or char in '\\"<>^`{|}\x7f' for char in url):
        raise UnsafeUrl(f"The {what} {shown!r} has characters that are not allowed in an address.", CORRECTION_HINT)
    try:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise UnsafeUrl(f"The {what} {shown!r} is not a valid address.", CORRECTION_HINT) from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        reason = "" if parts.scheme and host else ": it is relative" if not parts.scheme else ": it names no host"
        raise UnsafeUrl(f"The {what} {shown!r} is not an https address{reason}.", CORRECTION_HINT)
    if not _is_well_formed_host(host, is_bracketed="[" in parts.netloc):
        raise UnsafeUrl(f"The {what} {shown!r} is not a valid address.", CORRECTION_HINT)
    if port == 0:
        raise UnsafeUrl(f"The {what} {shown!r} has port 0, which cannot be reached.", CORRECTION_HINT)
    if parts.username is not None or parts.password is not None:
        raise UnsafeUrl(f"The {what} {shown!r} hides a user name in the address.", CORRECTION_HINT)
    if "#" in url:
        raise UnsafeUrl(f"The {what} {shown!r} has a fragment.", CORRECTION_HINT)
    if parts.scheme == "http" and not is_loopback_name(host):
        raise _make_unencrypted(shown, what)
    return url


def _make_unencrypted(shown: str, what: str) -> UnsafeUrl:
    return UnsafeUrl(
        f"The {what} {shown!r} is not encrypted: plain http is only used on this machine.", CORRECTION_HINT
    )


def _is_well_formed_host(host: str, *, is_bracketed: bool) -> bool:
    """Return whether all programs interpret a host as the same name or address; *host* is in lower case.

    Forms such as `127.0.0.1.` or `%31.0.0.1` are rejected: the local resolver does not recognize them as addresses, but
    a proxy may do so. *is_bracketed* means that the host was enclosed in brackets, so that it must be an IPv6 address.
    """
    if is_bracketed:
        return _is_ip_address(host.partition("%")[0]) and ":" in host
    if _HOST_NAME.fullmatch(host) is None:
        return False
    if _NUMBER_LABEL.fullmatch(host.removesuffix(".").rpartition(".")[2]) is None:
        return True
    try:  # a host that ends in a number is an IPv4 address (URL Standard, section 3.5); lookups read it like inet_aton
        socket.inet_aton(host)
    except OSError:
        return False
    return True


def is_loopback_name(host: str) -> bool:
    """Return whether *host* is localhost or a loopback address; names are not resolved."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # Packets to other addresses that embed 127.0.0.1 leave this machine.
    return address.is_loopback or bool(address.version == 6 and (address.ipv4_mapped or address).is_loopback)


def address_scope(address: Address) -> AddressScope:
    """Return the scope of an address, such as "loopback" or "private".

    If IPv4 addresses are embedded in it, the result is the least public of their scopes.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _SITE_LOCAL:
            return "private"
        if any(address in network for network in _NEVER_PUBLIC):
            return "reserved"
        inner = [] if address.is_loopback or address.is_unspecified else _embedded_ipv4(address)
        scopes: list[AddressScope] = [address_scope(ipv4) for ipv4 in inner]
        if address in _LOCAL_NAT64:
            scopes.append("private")  # each network decides for itself how to embed IPv4 addresses
        if address in _TEREDO:
            scopes.append("reserved")
        if scopes:
            return min(scopes, key=_SCOPES_BY_CAUTION.index)
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast or address.is_unspecified:
        return "reserved"
    if address.is_global:
        return "public"
    if address.version == 4 and address in _SHARED_ADDRESS_SPACE:
        return "private"
    return "private" if address.is_private and not address.is_reserved else "reserved"


def _scope_of(address: str) -> AddressScope:
    """Return the scope of an address in the text form that a resolver returns, possibly with an IPv6 zone."""
    return address_scope(ipaddress.ip_address(address.partition("%")[0]))


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _embedded_ipv4(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses embedded in an IPv6 address, such as a NAT64 or Teredo address."""
    number = int(address)
    starts = [start for network, start in _IPV4_EMBEDDING_PREFIXES if address in network]
    inner = [ipaddress.IPv4Address(number >> (96 - start) & 0xFFFFFFFF) for start in starts]
    if address in _TEREDO:
        inner += [*(address.teredo or ())]
    if number >> 32 & 0xFFFFFFFF in _ISATAP_IDENTIFIERS:
        inner.append(ipaddress.IPv4Address(number & 0xFFFFFFFF))
    return inner


def url_origin(url: str) -> tuple[str, str, int]:
    """Return the scheme, host and port of a URL, or ("", "", 0) if the URL is invalid.

    The scheme and the host are in lower case. A missing port is replaced with the default port of the scheme.
    """
    try:
        parts = split_url(url)
        return parts.scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


def canonical_url(url: str) -> str:
    """Return the canonical URI of an MCP server (basic/authorization, canonical server URI).

    Scheme and host are in lower case. The fragment, the default port and a path of just "/" are removed; the query is
    kept.
    """
    parts = split_url(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if parts.port and parts.port != _DEFAULT_PORTS.get(parts.scheme.lower()):
        host = f"{host}:{parts.port}"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme.lower(), host, path, parts.query, ""))


def resource_covers(resource: str, url: str) -> bool:
    """Return whether *resource* is *url* itself, its origin, or a URL whose path is a parent of the path of *url*."""
    if url_origin(resource) != url_origin(url) or "#" in resource:
        return False
    parent, child = split_url(resource), split_url(url)
    if parent.query and parent.query != child.query:
        return False
    parent_path, child_path = parent.path.rstrip("/"), child.path.rstrip("/")
    return child_path == parent_path or child_path.startswith(f"{parent_path}/")


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the system's resolver and return its addresses. Raises OSError."""
    entries = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class UrlPolicy:
    """Rules for the hosts that the URLs from one MCP server may refer to.

    Private hosts are allowed only if the server itself is private.
    """

    def __init__(self, server_url: str, *, resolver: Resolver = resolve_host, allow_private: bool = False) -> None:
        """Create the rules for the server at *server_url*.

        *resolver* resolves host names. *allow_private* means that the user has allowed private and loopback
        addresses for this server.
        """
        self._server_origin = url_origin(server_url)
        self._resolver = resolver
        self._server_scopes: set[AddressScope | Literal["unknown"]] = set()
        self._allow_private = allow_private

    async def resolve_addresses(self, url: str, what: str) -> Sequence[str]:
        """Resolve the host of *url* once, check its addresses and return them.

        *what* describes the URL in the error message. Raises UnsafeUrl.
        """
        check_url(url, what)
        scheme, host, port = url_origin(url)
        addresses = await self._resolve(host, port, what)
        if scheme == "http" and any(_scope_of(address) != "loopback" for address in addresses):
            raise _make_unencrypted(url[:200], what)  # the network's resolver may answer for `localhost.`
        self._note_addresses(host, addresses)
        await self._check_addresses(url, what, addresses)
        return addresses

    async def check_proxied(self, url: str, what: str) -> None:
        """Check a URL whose host will be resolved by a proxy. Raises UnsafeUrl.

        The addresses that can be found locally are checked, because the proxy may run on this machine or inside a
        private network. A name that only the proxy can resolve is accepted, because the user chose the proxy.
        *what* describes the URL in the error message.
        """
        check_url(url, what)
        _, host, port = url_origin(url)
        addresses: Sequence[str] = ()
        with anyio.move_on_after(PROXIED_LOOKUP_TIMEOUT), suppress(UnsafeUrl):
            addresses = await self._resolve(host, port, what)
        if not addresses and f".{host.removesuffix('.')}".endswith(".localhost"):
            addresses = ("127.0.0.1",)  # the proxy's machine, for a proxy that follows RFC 6761, section 6.3
        self._note_addresses(host, addresses)
        if addresses:
            await self._check_addresses(url, what, addresses)

    async def _check_addresses(self, url: str, what: str, addresses: Sequence[str]) -> None:
        """Raise UnsafeUrl unless the scope of every address, such as "private", is allowed for the MCP server.

        *addresses* are the addresses of the host in *url*, and *what* describes the URL in the error message.
        """
        scopes = {address: _scope_of(address) for address in addresses}
        if all(scope == "public" for scope in scopes.values()):
            return
        allowed = await self._get_allowed_scopes()
        for address, scope in scopes.items():
            if scope not in allowed:
                reason = (
                    f"the MCP server's own name leads to a {scope} address too, but its operator controls the name"
                    if scope in self._server_scopes
                    else "the MCP server is not there"
                )
                raise UnsafeUrl(
                    f"The {what} {url[:200]!r} leads to {address}, which is a {scope} address; {reason}, so it is not "
                    "used.",
                    'If that is right, allow it with "mcphost": {"oauth": {"private": true}} for this server.'
                    if scope in _USER_ALLOWED_SCOPES
                    else "A sign-in never uses such an address.",
                )

    async def _get_allowed_scopes(self) -> set[AddressScope]:
        """Return the allowed address scopes: public and, if it can be trusted, the scope of the MCP server's address.

        The server's operator controls the addresses that the server's name resolves to, and can change them between two
        lookups. A name therefore allows private addresses only if every lookup so far has returned only private
        addresses, and only the name `localhost` allows loopback addresses. An IP address in the URL allows its own
        scope. If `allow_private` is true, private and loopback addresses are always allowed.
        """
        _, host, port = self._server_origin
        if not self._server_scopes:
            addresses: Sequence[str] = ()
            with suppress(UnsafeUrl):  # perhaps only the proxy can resolve the name
                addresses = await self._resolve(host, port, "MCP server's address")
            self._note_addresses(host, addresses)
        allowed: set[AddressScope] = {"public"}
        if is_loopback_name(host) or _is_ip_address(host):
            allowed |= {scope for scope in self._server_scopes if scope != "unknown"}
        elif self._server_scopes == {"private"}:
            allowed.add("private")
        if self._allow_private:
            allowed |= _USER_ALLOWED_SCOPES
        return allowed

    def _note_addresses(self, host: str, addresses: Sequence[str]) -> None:
        """Record the scopes of the *addresses* of *host* if it is the MCP server's host."""
        if host == self._server_origin[1]:
            self._server_scopes |= {_scope_of(address) for address in addresses} or {"unknown"}

    async def _resolve(self, host: str, port: int, what: str) -> Sequence[str]:
        if _is_ip_address(host):
            return [host]
        try:
            addresses = await self._resolver(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise UnsafeUrl(
                f"The {what} cannot be reached: the host {host[:200]!r} was not found.",
                "Check the name and this machine's network. Correct a wrong name where it is configured or published.",
            )
        return addresses
