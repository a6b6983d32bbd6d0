"""Tests for who is at the other end of a loopback connection, with tables as Linux prints them."""

import os
import socket
import struct
import sys
from pathlib import Path

import pytest

from mcphost.auth.loopback_peers import accepted_uids, is_foreign_connection

SERVER, CLIENT = ("127.0.0.1", 8080), ("127.0.0.1", 40001)
ESTABLISHED, FIN_WAIT, CLOSE_WAIT, LISTENING = "01", "05", "08", "0A"
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def print_endpoint(address: tuple[str, int], *, is_mapped: bool = False) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    (mark,) = struct.unpack("=I", b"\0\0\xff\xff")
    return (f"{0:016X}{mark:08X}" if is_mapped else "") + f"{number:08X}:{address[1]:04X}"


def print_row(
    local: tuple[str, int], remote: tuple[str, int], state: str, uid: int, inode: int = 77, *, is_mapped: bool = False
) -> str:
    ends = " ".join(print_endpoint(end, is_mapped=is_mapped) for end in (local, remote))
    return (
        f"   1: {ends} {state} 00000000:00000000 00:00000000 00000000 {uid:5}        0 {inode} 1 0000 20 4 30 10 -1\n"
    )


def write_tables(folder: Path, *rows: str, ipv6: str = "") -> None:
    (folder / "tcp").write_text(HEADER + "".join(rows))
    (folder / "tcp6").write_text(HEADER + ipv6)


LISTENER = print_row(SERVER, ("0.0.0.0", 0), LISTENING, 1000)
OUR_END = print_row(SERVER, CLIENT, ESTABLISHED, 1000)


@pytest.mark.parametrize(
    ("rows", "is_foreign"),
    [
        ([OUR_END, print_row(CLIENT, SERVER, ESTABLISHED, 1000)], False),
        ([print_row(CLIENT, SERVER, ESTABLISHED, 1001), OUR_END], True),
        # The kernel prints uid 0 for a socket that its program has closed.
        ([print_row(SERVER, CLIENT, CLOSE_WAIT, 1000), print_row(CLIENT, SERVER, FIN_WAIT, 0, 0)], True),
        ([print_row(SERVER, CLIENT, CLOSE_WAIT, 1000)], True),
        ([], True),
        # Only the server's end is here: the browser runs on Windows beside WSL.
        ([OUR_END], False),
        # Another connection of the same client port.
        ([OUR_END, print_row(CLIENT, ("127.0.0.1", 9999), ESTABLISHED, 1001)], False),
    ],
    ids=["same user", "another user", "closed", "closed long ago", "reset", "outside", "another server"],
)
def test_the_table_says_whose_connection_it_is(rows: list[str], is_foreign: bool, tmp_path: Path) -> None:
    write_tables(tmp_path, LISTENER, *rows)
    assert is_foreign_connection(SERVER, CLIENT, frozenset({0, 1000}), tmp_path) is is_foreign


def test_an_ipv6_socket_connected_through_ipv4_is_found(tmp_path: Path) -> None:
    row = print_row(CLIENT, SERVER, ESTABLISHED, 1001, is_mapped=True)
    write_tables(tmp_path, LISTENER, OUR_END, ipv6=row)
    assert is_foreign_connection(SERVER, CLIENT, frozenset({1000}), tmp_path)
    assert not is_foreign_connection(SERVER, CLIENT, frozenset({1001}), tmp_path)


@pytest.mark.parametrize("table", ["", HEADER, "nonsense :1F90 \n" * 3])
def test_without_a_usable_table_the_connection_is_accepted(table: str, tmp_path: Path) -> None:
    assert not is_foreign_connection(SERVER, CLIENT, frozenset({1000}), tmp_path)
    (tmp_path / "tcp").write_text(table)
    assert not is_foreign_connection(SERVER, CLIENT, frozenset({1000}), tmp_path)


def test_the_user_who_started_sudo_counts_only_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, accepted in ((0, {0, 1234}), (1000, {0, 1000})):
        monkeypatch.setattr(os, "getuid", lambda uid=uid: uid)
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert accepted_uids({"SUDO_UID": "1234"}) == accepted


@pytest.mark.skipif(sys.platform != "linux", reason="needs the tables of Linux")
def test_the_users_of_real_connections_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = listener.getsockname()
        with socket.create_connection(server) as client, listener.accept()[0]:
            ends = server, client.getsockname()
            assert not is_foreign_connection(*ends, frozenset({os.geteuid()}))
            assert is_foreign_connection(*ends, frozenset({os.geteuid() + 1}))
