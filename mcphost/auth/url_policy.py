"""Which addresses sign-in may use: https (http only on loopback), nothing hidden in them, no foreign private hosts.

A host is judged by what it resolves to, because a public name may point at 127.0.0.1 or a cloud's metadata service.
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
Place = Literal["public", "loopback", "private", "link-local", "reserved"]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
MOST_CHARS = 4096
HEARSAY_SECONDS = 2.0
"""How long a name that a proxy resolves is looked up here: where only the proxy knows names, that may never end."""
CORRECTED_WHERE = (
    "Nothing was sent. The operator of the server that names it must correct it there; what you named yourself is in "
    '"mcphost.oauth".'
)
"""What to do about an address that cannot be used."""
_PASSWORD = re.compile(r"//[^/@]{1,200}@")
_BY_CAUTION: tuple[Place, ...] = ("link-local", "reserved", "loopback", "private", "public")
_ALLOWED_BY_USER: frozenset[Place] = frozenset({"private", "loopback"})
_SHARED = ipaddress.ip_network("100.64.0.0/10")
# IPv6 prefixes with an IPv4 address inside, and the bit at which it begins: IPv4-compatible and -mapped (RFC 4291),
# IPv4-translated (RFC 2765), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056). ISATAP (RFC 5214) goes by the other half.
_EMBEDDING = tuple(
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
_LOCAL_TRANSLATION = ipaddress.IPv6Network("64:ff9b:1::/48")
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
# Segment routing, documentation, dummy prefix: newer in the registry than in the library of Python 3.11.
_NEVER_PUBLIC = tuple(map(ipaddress.IPv6Network, ("5f00::/16", "3fff::/20", "100:0:0:1::/64")))
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Unsafe(SignInRequired):
    """An address of the server's or its authorization server's that we do not use."""


def checked(url: str, what: str) -> str:
    """`url` unchanged when it may be used at all; `what` names it for people. Raises Unsafe.

    https, or http to a loopback host; a host, no user name or password, no fragment, no characters that browsers and
    URL libraries read differently.
    """
    if not url:
        raise Unsafe(f"The {what} is empty.", CORRECTED_WHERE)
    shown = _PASSWORD.sub("//…@", url[:200])
    if len(url) > MOST_CHARS:
        raise Unsafe(
            f"The {what} {shown!r} is too long: {len(url):,} characters, of at most {MOST_CHARS:,}.", CORRECTED_WHERE
        )
    if not url.isascii() or any(char <= " " or char in '\\"<>^`{|}\x7f' for char in url):
        raise Unsafe(f"The {what} {shown!r} has characters that do not belong into an address.", CORRECTED_WHERE)
    try:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise Unsafe(f"The {what} {shown!r} is no address.", CORRECTED_WHERE) from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        why = "" if parts.scheme and host else ": it is relative" if not parts.scheme else ": it names no host"
        raise Unsafe(f"The {what} {shown!r} is not an https address{why}.", CORRECTED_WHERE)
    if port == 0:
        raise Unsafe(f"The {what} {shown!r} has the port 0, at which nothing can be reached.", CORRECTED_WHERE)
    if parts.username is not None or parts.password is not None:
        raise Unsafe(f"The {what} {shown!r} hides a user name in the address.", CORRECTED_WHERE)
    if "#" in url:
        raise Unsafe(f"The {what} {shown!r} has a fragment.", CORRECTED_WHERE)
    if parts.scheme == "http" and not is_loopback_name(host):
        why = "plain http is only used on this machine"
        raise Unsafe(f"The {what} {shown!r} is not encrypted: {why}.", CORRECTED_WHERE)
    return url


def is_loopback_name(host: str) -> bool:
    """Whether a host names this machine without asking anybody."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # No other form counts: what has 127.0.0.1 somewhere inside is still sent to a network.
    return address.is_loopback or bool(address.version == 6 and (address.ipv4_mapped or address).is_loopback)


def place(address: Address) -> Place:
    """Where an address lies; one with IPv4 addresses inside lies where those do, the least public of them."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _SITE_LOCAL:
            return "private"
        if any(address in network for network in _NEVER_PUBLIC):
            return "reserved"
        inner = [] if address.is_loopback or address.is_unspecified else _embedded(address)
        places: list[Place] = [place(one) for one in inner]
        if address in _LOCAL_TRANSLATION:
            places.append("private")  # each network decides how IPv4 addresses are written into it
        if address in _TEREDO:
            places.append("reserved")
        if places:
            return min(places, key=_BY_CAUTION.index)
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast or address.is_unspecified:
        return "reserved"
    if address.is_global:
        return "public"
    if address.version == 4 and address in _SHARED:
        return "private"
    return "private" if address.is_private and not address.is_reserved else "reserved"


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address leads to or through."""
    number = int(address)
    found = [start for network, start in _EMBEDDING if address in network]
    inner = [ipaddress.IPv4Address(number >> (96 - start) & 0xFFFFFFFF) for start in found]
    if address in _TEREDO:
        inner += [*(address.teredo or ())]
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        inner.append(ipaddress.IPv4Address(number & 0xFFFFFFFF))
    return inner


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port, lower case and with the default port filled in; ("", "", 0) for no address."""
    try:
        parts = split_url(url)
        return parts.scheme, (parts.hostname or "").lower(), parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError:
        return "", "", 0


def canonical(url: str) -> str:
    """The canonical URI of an MCP server (specification: authorization, canonical server URI).

    Scheme and host in lower case, no fragment, no default port, no lone slash as path; the query stays.
    """
    parts = split_url(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if parts.port and parts.port != _DEFAULT_PORTS.get(parts.scheme.lower()):
        host = f"{host}:{parts.port}"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme.lower(), host, path, parts.query, ""))


def covers(resource: str, url: str) -> bool:
    """Whether a `resource` identifier is that MCP server, or an origin or parent path that it belongs to."""
    if origin(resource) != origin(url) or "#" in resource:
        return False
    wide, narrow = split_url(resource), split_url(url)
    if wide.query and wide.query != narrow.query:
        return False
    above, below = wide.path.rstrip("/"), narrow.path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver. Raises OSError."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """Judges hosts by where the MCP server itself lives: who is on a private network may point into it, nobody else."""

    def __init__(self, server_url: str, *, resolving: Resolve = resolve, private: bool = False) -> None:
        """`private`: the user allows private addresses for this server in any case."""
        self._server = origin(server_url)
        self._resolving = resolving
        self._allowed: set[Place] | None = None
        self._own: frozenset[Place] = frozenset()
        self._private = private

    async def addresses(self, url: str, what: str) -> Sequence[str]:
        """What to connect to for `url`, resolved once so that a second answer cannot differ. Raises Unsafe."""
        checked(url, what)
        _, host, port = origin(url)
        await self._judge(url, what, found := await self._resolved(host, port, what))
        return found

    async def hearsay(self, url: str, what: str) -> None:
        """The same for a host that a proxy will resolve, by what is known of it here. Raises Unsafe.

        A proxy may run on this machine or inside a private network, so what a name leads to here counts. A name that
        only the proxy knows leads where the proxy lets it, which the user chose.
        """
        checked(url, what)
        _, host, port = origin(url)
        found: Sequence[str] = ()
        with anyio.move_on_after(HEARSAY_SECONDS), suppress(Unsafe):
            found = await self._resolved(host, port, what)
        if found:
            await self._judge(url, what, found)

    async def _judge(self, url: str, what: str, found: Sequence[str]) -> None:
        """Raises Unsafe when one of the addresses is where nothing of this server may lead."""
        places = {address: place(ipaddress.ip_address(address.partition("%")[0])) for address in found}
        if all(where == "public" for where in places.values()):
            return
        allowed = await self._places()
        for address, where in places.items():
            if where not in allowed:
                why = (
                    f"the MCP server's own name leads to a {where} address, too, but whoever runs it decides where a "
                    "name leads"
                    if where in self._own
                    else "the MCP server is not there"
                )
                raise Unsafe(
                    f"The {what} {url[:200]!r} leads to {address}, which is a {where} address; {why}, so it is not "
                    "asked.",
                    'If that is right, allow it with "mcphost": {"oauth": {"private": true}} for this server.'
                    if where in _ALLOWED_BY_USER
                    else "Nothing of a sign-in is ever there.",
                )

    async def _places(self) -> set[Place]:
        """Where addresses may lead besides the world: where the MCP server is, if that can be relied on.

        Whoever runs a server answers for its name, too. So a name is nowhere but in the world as soon as one of its
        addresses is there, and never on this machine: that only counts where the user wrote it.
        """
        if self._allowed is None:
            _, host, port = self._server
            found: Sequence[str] = ()
            with suppress(Unsafe):  # a name that only a proxy knows is nowhere here
                found = await self._resolved(host, port, "MCP server's address")
            places: set[Place] = {place(ipaddress.ip_address(address.partition("%")[0])) for address in found}
            self._own = frozenset(places)
            if not is_loopback_name(host) and list(found) != [host]:
                places = {"private"} if places == {"private"} else set()
            public: set[Place] = {"public"}
            self._allowed = public | places | (_ALLOWED_BY_USER if self._private else set())
        return self._allowed

    async def _resolved(self, host: str, port: int, what: str) -> Sequence[str]:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            pass
        else:
            return [host]
        try:
            found = await self._resolving(host, port)
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise Unsafe(
                f"The {what} cannot be reached: the host {host[:200]!r} was not found.",
                "Check the name and this machine's network. A wrong name must be corrected by whoever wrote it.",
            )
        return found
