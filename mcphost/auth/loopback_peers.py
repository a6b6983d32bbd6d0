"""Functions that find out which user is at the other end of a loopback connection, using Linux's /proc/net."""

import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mcphost.auth.browser import is_in_container

Endpoint = tuple[str, int]
"""An IPv4 address and a port."""
TABLES = Path("/proc/net")
_ESTABLISHED = "01"
_LISTENING = "0A"
_MIN_COLUMNS = 10
_IPV4_BYTES = 4


class _Socket(NamedTuple):
    """One row of the socket tables in /proc/net.

    If the program has closed the socket, `inode` is 0 and `uid` is meaningless.
    """

    local: Endpoint
    remote: Endpoint
    state: str
    uid: int
    inode: int


def accepted_uids(environ: Mapping[str, str]) -> frozenset[int]:
    """Return the user ids that may connect: root, the user running mcphost and, under sudo, the user who ran sudo.

    Root is included because, under WSL, a relay that runs as root connects on behalf of a browser on Windows.
    """
    uids = {0, os.getuid(), os.geteuid()}
    if os.getuid() == 0 and (caller := environ.get("SUDO_UID", "")).isdecimal():
        uids.add(int(caller))
    return frozenset(uids)


def is_refused_connection(server: Endpoint, client: Endpoint) -> bool:
    """Return whether a connection that this process has accepted at *server* must be refused.

    A connection is refused if it comes from another user; see `is_foreign_connection`. However, if this process runs
    as root in a container, no connection is refused, because the user may have a different user id outside of the
    container.
    """
    if os.getuid() == 0 and is_in_container(os.environ):
        return False
    return is_foreign_connection(server, client, accepted_uids(os.environ))


def is_foreign_connection(server: Endpoint, client: Endpoint, uids: frozenset[int], tables: Path = TABLES) -> bool:
    """Return whether the process at *client* runs as a user who is not one of *uids*.

    *client* and *server* are the endpoints of a connection that this process has accepted at *server*. A connection
    that the client has already closed counts as foreign. *tables* is the folder with the system's socket tables
    (/proc/net).

    Returns False if the user cannot be determined: the system may have no socket tables, or the client may be
    outside this network namespace, like a Windows browser that connects to a program in WSL.
    """
    for _ in range(2):
        found = list(_read_sockets(tables, server[1]))
        if not any(entry.state == _LISTENING and entry.local[1] == server[1] for entry in found):
            return False
        for entry in found:
            if (entry.local, entry.remote) == (client, server):
                return entry.inode == 0 or entry.uid not in uids
        # The rows are not read at one moment. Only if the server's end is still open after the client's was missing
        # did the client not just close it.
        if not any((entry.local, entry.remote, entry.state) == (server, client, _ESTABLISHED) for entry in found):
            return True
    return False


def _read_sockets(tables: Path, port: int) -> Iterator[_Socket]:
    """Yield the sockets that have *port* at one end, including IPv6 sockets that carry IPv4 connections.

    *tables* is the folder with the system's socket tables (/proc/net).
    """
    mark = f":{port:04X} "
    for name in ("tcp", "tcp6"):
        try:
            with (tables / name).open(encoding="ascii", errors="replace") as lines:
                for line in lines:
                    if mark in line and (entry := _parse_row(line)) is not None:
                        yield entry
        except OSError:
            continue


def _parse_row(line: str) -> _Socket | None:
    columns = line.split()
    if len(columns) < _MIN_COLUMNS:
        return None
    try:
        local, remote = _parse_endpoint(columns[1]), _parse_endpoint(columns[2])
        return _Socket(local, remote, columns[3], int(columns[7]), int(columns[9]))
    except ValueError:
        return None


def _parse_endpoint(text: str) -> Endpoint:
    """Parse an endpoint from /proc/net: an address, as 32-bit numbers in the kernel's byte order, and a port."""
    address, _, port = text.partition(":")
    raw = bytes.fromhex(address)
    words = (raw[at : at + 4] for at in range(0, len(raw), 4))
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET, packed[-_IPV4_BYTES:]), int(port, 16)
