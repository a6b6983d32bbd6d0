"""Tests for the callback listener against browsers, other local programs, and web pages that know its port."""

import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from mcphost.auth import callback_server, loopback_peers
from mcphost.auth.callback_server import (
    MAX_CONCURRENT_REQUESTS,
    MAX_CONNECTIONS,
    AuthorizationResponse,
    CallbackServer,
    parse_authorization_response,
    run_callback_server,
)
from mcphost.redact import redact

pytestmark = pytest.mark.anyio


async def send_raw(port: int, raw: bytes) -> bytes:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(raw)
        answer = b""
        with anyio.move_on_after(5):
            try:
                while True:
                    answer += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                pass
        return answer


def get_callback(callback: CallbackServer, target: str, host: str = "") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{callback.port}'}\r\n\r\n".encode()


def has_good_state(redirect: AuthorizationResponse) -> bool:
    return redirect.get("state") == "good-state"


@pytest.mark.req("auth.callback.server", "auth.callback.loopback")
async def test_the_answer_of_the_browser_ends_the_wait_and_shows_a_page() -> None:
    async with run_callback_server(path="/callback/x") as callback:
        callback.expect(has_good_state)
        page = await send_raw(callback.port, get_callback(callback, "/callback/x?code=the-code&state=good-state&iss=i"))
        assert page.startswith(b"HTTP/1.1 200 ")
        assert b"the-code" not in page
        assert b"content-security-policy" in page
        assert (await callback.wait()).params == {"code": "the-code", "state": "good-state", "iss": "i"}
        assert callback.redirect_uri == f"http://127.0.0.1:{callback.port}/callback/x"


@pytest.mark.req("auth.callback.server", "auth.state")
@pytest.mark.parametrize(
    "target",
    [
        "/callback?code=c", "/callback?code=c&state=other", "/callback?code=c&state=good-state&state=good-state",
        "/callback?code=c&state=good-state&iss=a&iss=b",
        "/other?code=c&state=good-state", "/callback/?state=good-state",
    ],
)  # fmt: skip
async def test_a_foreign_response_is_rejected_and_the_wait_continues(target: str) -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        assert b" 40" in (await send_raw(callback.port, get_callback(callback, target)))[:13]
        assert (await send_raw(callback.port, get_callback(callback, "/callback?code=c&state=good-state"))).startswith(
            b"HTTP/1.1 200"
        )
        await callback.wait()


@pytest.mark.req("auth.callback.server")
@pytest.mark.parametrize(
    "host", ["evil.example", "localhost:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}\r\nHost: evil.example"]
)
async def test_another_host_name_is_another_site(host: str) -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        answer = await send_raw(
            callback.port, get_callback(callback, "/callback?code=c&state=good-state", host.format(port=callback.port))
        )
        assert answer.startswith(b"HTTP/1.1 400 " if "\r\n" in host else b"HTTP/1.1 421 ")


@pytest.mark.req("auth.callback.server")
async def test_only_one_answer_is_accepted_and_only_by_get() -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        post = f"POST /callback?state=good-state HTTP/1.1\r\nHost: 127.0.0.1:{callback.port}\r\n\r\n".encode()
        assert (await send_raw(callback.port, post)).startswith(b"HTTP/1.1 405 ")
        assert (await send_raw(callback.port, get_callback(callback, "/callback?code=1&state=good-state"))).startswith(
            b"HTTP/1.1 200"
        )
        assert (await send_raw(callback.port, get_callback(callback, "/callback?code=2&state=good-state"))).startswith(
            b"HTTP/1.1 404"
        )
        assert (await callback.wait()).get("code") == "1"


@pytest.mark.req("auth.callback.server")
@pytest.mark.skipif(sys.platform != "linux", reason="the users of connections are known on Linux only")
@pytest.mark.parametrize(("is_ours", "status"), [(True, b"200"), (False, b"403")])
async def test_another_user_of_the_machine_cannot_answer(
    is_ours: bool, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = loopback_peers.accepted_uids({}) if is_ours else frozenset({-1})

    def accept_from(environ: Mapping[str, str]) -> frozenset[int]:
        return uids

    def is_outside(environ: Mapping[str, str]) -> bool:
        return False

    monkeypatch.setattr(loopback_peers, "is_in_container", is_outside)
    monkeypatch.setattr(loopback_peers, "accepted_uids", accept_from)
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        page = await send_raw(callback.port, get_callback(callback, "/callback?code=c&state=good-state"))
        assert page.startswith(b"HTTP/1.1 " + status)


async def test_messages_before_any_request_are_ignored() -> None:
    async with run_callback_server() as callback:
        assert (await send_raw(callback.port, get_callback(callback, "/callback?code=1&state=good-state"))).startswith(
            b"HTTP/1.1 400"
        )


async def test_a_flood_of_bytes_is_cut_off() -> None:
    async with run_callback_server() as callback:
        answer = await send_raw(callback.port, b"GET /" + b"a" * 30_000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


GOOD = "/callback?code=c&state=good-state"


@pytest.mark.req("auth.callback.server")
@pytest.mark.parametrize(
    ("request_line", "headers", "status"),
    [
        (f"HEAD {GOOD}", "", 405), ("GET /favicon.ico", "", 404), (f"POST {GOOD}", "Content-Length: 3\r\n", 405),
        (f"GET {GOOD}", "Content-Length: 3\r\n", 413), (f"GET {GOOD}", "Content-Length: 99999999\r\n", 413),
        (f"GET {GOOD}", "Transfer-Encoding: chunked\r\n", 411), (f"GET {GOOD}", "Transfer-Encoding: x\r\n", 400),
        (f"GET {GOOD}", "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 411),
        (f"GET {GOOD}", "Content-Length: 0\r\nContent-Length: 5\r\n", 400), (f"GET {GOOD}", "Bad Name: x\r\n", 400),
        (f"GET {GOOD}", "X: a\r\nX: b\r\n", 400), (f"GET {GOOD}", "X: a\x00b\r\n", 400),
        (f"GET //evil.example{GOOD}", "", 404), (f"GET http://evil.example{GOOD}", "", 400),
        (f"OPTIONS {GOOD}", "", 405), ("OPTIONS *", "", 400), (f"GET {GOOD}", f"X: {'a' * 20_000}\r\n", 431),
        (f"GET {GOOD}&x={'a' * 20_000}", "", 431), (f"GET {GOOD}", "X: a\r\n" * 5_000, 431),
    ],
)  # fmt: skip
async def test_a_hostile_request_is_refused_and_the_browser_is_served_afterwards(
    request_line: str, headers: str, status: int
) -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        raw = f"{request_line} HTTP/1.1\r\nHost: 127.0.0.1:{callback.port}\r\n{headers}\r\n".encode()
        answer = await send_raw(callback.port, raw)
        # A long request may be refused, and the connection closed, before it was sent.
        assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or (len(raw) > 16_384 and not answer)
        assert (await send_raw(callback.port, get_callback(callback, GOOD))).startswith(b"HTTP/1.1 200 ")


@pytest.mark.req("auth.callback.server")
@pytest.mark.parametrize("head", ["GET {good} HTTP/1.0\r\n\r\n", "GET {good} HTTP/1.1\r\n\r\n", "GET {good}\r\n\r\n"])
async def test_a_request_without_a_host_is_refused(head: str) -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        answer = await send_raw(callback.port, head.format(good=GOOD).encode())
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 421")


@pytest.mark.req("auth.callback.server")
async def test_two_requests_in_one_connection_get_one_answer() -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        raw = get_callback(callback, "/callback?code=1&state=other") + get_callback(callback, GOOD)
        answer = await send_raw(callback.port, raw)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1") == 1
        assert (await send_raw(callback.port, get_callback(callback, GOOD))).startswith(b"HTTP/1.1 200 ")


@pytest.mark.req("auth.callback.server")
async def test_a_second_response_while_the_first_page_is_sent_does_not_replace_it() -> None:
    sending, go_on = anyio.Event(), anyio.Event()

    class SlowBrowser(AsyncExitStack):
        """The connection of a browser that does not take the page yet."""

        async def receive(self, max_bytes: int = 0) -> bytes:
            return get_callback(callback, "/callback?code=first&state=good-state")

        async def send(self, item: bytes) -> None:
            sending.set()
            await go_on.wait()

        def extra(self, attribute: object) -> str:
            return "no address"

    async with run_callback_server() as callback, anyio.create_task_group() as tasks:
        callback.expect(has_good_state)
        slow: Any = SlowBrowser()
        tasks.start_soon(callback.serve, slow)
        await sending.wait()
        assert (await send_raw(callback.port, get_callback(callback, GOOD))).startswith(b"HTTP/1.1 404 ")
        go_on.set()
        assert (await callback.wait()).get("code") == "first"


async def test_a_request_that_arrives_byte_by_byte_is_answered_once_it_is_complete() -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        async with await anyio.connect_tcp("127.0.0.1", callback.port) as stream:
            for byte in get_callback(callback, GOOD):
                await stream.send(bytes([byte]))
            assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.req("auth.callback.server")
async def test_the_port_is_closed_after_the_sign_in_and_never_open_to_the_network() -> None:
    async with run_callback_server() as callback:
        port = callback.port
        with socket.socket() as probe:
            probe.bind(("127.0.0.2", port))  # would fail if it listened on every address
    with pytest.raises(OSError, match="connection"):
        await anyio.connect_tcp("127.0.0.1", port)


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:1/callback?code=c&state=s", "  http://127.0.0.1:1/callback?code=c&state=s\n",
        "code=c&state=s",
        "?code=c&state=s", "/callback?code=c&state=s",
    ],
)  # fmt: skip
@pytest.mark.req("auth.callback.manual")
def test_a_pasted_address_or_its_query_is_understood(text: str) -> None:
    assert parse_authorization_response(text).params == {"code": "c", "state": "s"}


def test_an_answer_does_not_show_its_code() -> None:
    assert "secret-code" not in repr(parse_authorization_response("code=secret-code&state=s"))


async def test_values_sent_by_a_page_do_not_become_our_secrets() -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        await send_raw(callback.port, get_callback(callback, "/callback?code=ordinary-words&state=everyday"))
    assert redact("ordinary-words of everyday") == "ordinary-words of everyday"


async def test_waiting_for_a_slot_counts_as_time_of_a_silent_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callback_server, "MAX_CONCURRENT_REQUESTS", 1)
    monkeypatch.setattr(callback_server, "CONNECTION_TIMEOUT", 0.2)
    async with run_callback_server() as callback:
        silent = [await anyio.connect_tcp("127.0.0.1", callback.port) for _ in range(MAX_CONNECTIONS)]
        with anyio.fail_after(8):  # one after the other, they would take 13 seconds
            for stream in silent:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
        for stream in silent:
            await stream.aclose()


async def test_excess_connections_are_closed_and_the_browser_is_served_afterwards() -> None:
    async with run_callback_server() as callback:
        callback.expect(has_good_state)
        silent = [
            await anyio.connect_tcp("127.0.0.1", callback.port)
            for _ in range(MAX_CONNECTIONS + MAX_CONCURRENT_REQUESTS)
        ]
        closed = 0
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:

                async def listen(stream: SocketStream) -> None:
                    nonlocal closed
                    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                        await stream.receive()
                    closed += 1
                    if closed == MAX_CONCURRENT_REQUESTS:
                        group.cancel_scope.cancel()

                for stream in silent:
                    group.start_soon(listen, stream)
        assert closed == MAX_CONCURRENT_REQUESTS
        for stream in silent:
            await stream.aclose()
        page = await send_raw(callback.port, get_callback(callback, "/callback?code=c&state=good-state"))
        assert page.startswith(b"HTTP/1.1 200 ")
