"""Tests of the server of pages at wire level: who may read and send, what is bounded, and what the policies allow."""

import sys
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from mcphost.apps import page_server
from mcphost.apps.page_server import BURST, MAX_CONNECTIONS, PageDocument, run_page_server
from mcphost.auth import loopback_peers
from mcphost.auth.loopback_requests import BODY_LIMIT, HEAD_LIMIT
from mcphost.protocol.apps import PageOrigins
from tests.unit.apps.browser import browse, build_request, parse_reply, request, send_raw

pytestmark = pytest.mark.anyio
HTML = b"<!doctype html><p>the page</p>"
DOCUMENT = PageDocument(HTML, PageOrigins(), "weather", "show")
ORIGINS = PageOrigins(connect=("https://api.example.com",), resource=("https://cdn.example.com",))


class Receiver:
    """A receiver that keeps the messages, and accepts at most `room` of them."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.starts = 0
        self.room = 1_000

    def start(self) -> None:
        self.starts += 1

    def receive(self, message: bytes) -> bool:
        if len(self.messages) >= self.room:
            return False
        self.messages.append(message)
        return True


async def test_a_browser_loads_the_page_and_exchanges_messages() -> None:
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        browser = browse(server)
        outer = await browser.load()
        assert outer.status == 200
        assert receiver.starts == 1
        assert 'sandbox="allow-scripts"' in outer.body
        assert "allow-same-origin" not in outer.body
        assert (await request(server.port, browser.paths["page"])).body == HTML.decode()
        assert not server.is_shown
        await browser.connect(width="640")
        assert await browser.post({"jsonrpc": "2.0", "method": "a"}) == 202
        assert receiver.messages == [b'{"jsonrpc": "2.0", "method": "a"}']
        assert server.is_shown
        assert server.width == 640
        server.send(b'{"one":1}')
        server.send(b'{"two":2}')
        assert [await browser.read(), await browser.read()] == [{"one": 1}, {"two": 2}]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.end)
            assert await browser.read() == "end"
        assert await browser.post({"jsonrpc": "2.0", "method": "late"}) == 410
        await browser.close()


async def test_json_that_a_server_wrote_in_several_lines_is_one_event() -> None:
    async with run_page_server(DOCUMENT, Receiver()) as server:
        browser = browse(server)
        await browser.load()
        await browser.connect()
        server.send(b'{\r\n "one":\n\n {"two":\r2}}\n')
        server.send(b'{"three":3}')
        assert [await browser.read(), await browser.read()] == [{"one": {"two": 2}}, {"three": 3}]
        await browser.close()


async def test_the_policies_allow_nothing_that_was_not_declared() -> None:
    async with run_page_server(DOCUMENT, Receiver()) as server:
        browser = browse(server)
        outer = await browser.load()
        page = await request(server.port, browser.paths["page"])
    policy = page.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline';")
    assert "connect-src 'none'; frame-src 'none'" in policy
    assert "'self'" not in policy
    assert f"frame-ancestors http://127.0.0.1:{server.port};" in policy
    assert "http" not in policy.replace(f"http://127.0.0.1:{server.port}", "")
    around = outer.headers["content-security-policy"]
    assert f"frame-src http://127.0.0.1:{server.port}{browser.paths['page']};" in around
    assert "frame-ancestors 'none'" in around
    for reply in (outer, page):
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["x-content-type-options"] == "nosniff"


async def test_declared_origins_widen_only_their_directives() -> None:
    async with run_page_server(DOCUMENT._replace(origins=ORIGINS), Receiver()) as server:
        browser = browse(server)
        await browser.load()
        policy = (await request(server.port, browser.paths["page"])).headers["content-security-policy"]
    assert "connect-src https://api.example.com; frame-src 'none'" in policy
    for name in ("script-src 'unsafe-inline'", "style-src 'unsafe-inline'", "img-src data:", "font-src data:"):
        assert f"{name} https://cdn.example.com;" in policy
    assert "base-uri 'none'; form-action 'none'" in policy


async def test_the_page_does_not_learn_the_path_of_the_messages() -> None:
    async with run_page_server(DOCUMENT, Receiver()) as server:
        browser = browse(server)
        await browser.load()
        assert browser.paths["page"].strip("/") not in server.url
        assert server.url.split("/")[3] not in browser.paths["page"]
        # The page is for a frame of mcphost's document only.
        assert (await request(server.port, browser.paths["page"], sec_fetch_dest="document")).status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": None}, 400),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_dest": "iframe"}, 404),
        ({"sec_fetch_dest": "image"}, 404),
    ],
)
async def test_requests_of_other_sites_and_names_are_refused(headers: dict[str, Any], status: int) -> None:
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        browser = browse(server)
        assert (await request(server.port, browser.path, **headers)).status == status
        assert receiver.starts == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": None}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_length": None}, 411),
        ({"content_length": "-1"}, 400),
        ({"content_length": "99999999"}, 413),
        ({"content_length": None, "transfer_encoding": "chunked"}, 411),
    ],
)
async def test_messages_of_others_and_in_other_forms_are_refused(headers: dict[str, Any], status: int) -> None:
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        browser = browse(server)
        await browser.load()
        assert await browser.post({"jsonrpc": "2.0"}, **headers) == status
        assert receiver.messages == []


@pytest.mark.parametrize("path", ["/", "/x/", "//", "/../", "/index.html", "/bridge.js", "/favicon.ico"])
async def test_there_is_nothing_without_the_token(path: str) -> None:
    async with run_page_server(DOCUMENT, Receiver()) as server:
        assert (await request(server.port, path)).status == 404
        token = server.url.split("/")[3]
        assert (await request(server.port, f"/{token}/x")).status == 404
        assert (await request(server.port, f"/{token}/x/events")).status == 410
        assert (await request(server.port, f"/{token}", "GET")).status == 404
        assert (await request(server.port, f"/{token}/", "DELETE")).status == 405


async def test_a_second_load_ends_the_first_exchange() -> None:
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        first, second = browse(server), browse(server)
        await first.load()
        await first.connect()
        server.send(b'{"for":"first"}')
        assert await first.read() == {"for": "first"}
        await second.load()
        assert receiver.starts == 2
        assert await first.post({"jsonrpc": "2.0"}) == 410
        await second.connect()
        server.send(b'{"for":"second"}')
        assert await second.read() == {"for": "second"}
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await first.read()
        await first.close()
        await second.close()


async def test_requests_and_messages_are_bounded() -> None:
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        browser = browse(server)
        long = await send_raw(server.port, b"GET / HTTP/1.1\r\nx: " + b"a" * (HEAD_LIMIT + 8192) + b"\r\n\r\n")
        assert parse_reply(long).status == 431
        twice = build_request(server.port, "GET", browser.path).replace(b"\r\n\r\n", b"\r\nhost: evil\r\n\r\n")
        assert parse_reply(await send_raw(server.port, twice)).status == 400
        await browser.load()
        assert await browser.post(b"1" * (BODY_LIMIT + 1)) == 413
        receiver.room = 0
        assert await browser.post({}) == 429


async def test_a_page_that_floods_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "RATE", 0.0)  # a busy machine may take a second for the messages below
    receiver = Receiver()
    async with run_page_server(DOCUMENT, receiver) as server:
        browser = browse(server)
        await browser.load()
        statuses = [await browser.post({}) for _ in range(BURST + 60)]
        assert 429 in statuses
        assert statuses[:BURST] == [202] * BURST


async def test_a_page_that_makes_the_host_send_much_is_slowed_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "RATE", 0.0)
    monkeypatch.setattr(page_server, "BYTES_PER_MESSAGE", 1_000)
    async with run_page_server(DOCUMENT, Receiver()) as server:
        browser = browse(server)
        await browser.load()
        server.send(b"1" * 1_000 * (BURST - 1))
        assert [await browser.post({}) for _ in range(2)] == [202, 429]


async def test_connections_are_bounded_and_silent_ones_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "REQUEST_TIMEOUT", 0.3)
    async with run_page_server(DOCUMENT, Receiver()) as server:
        silent = [await anyio.connect_tcp("127.0.0.1", server.port) for _ in range(MAX_CONNECTIONS + 4)]
        with anyio.fail_after(10):
            for stream in silent:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
                await stream.aclose()
        assert (await browse(server).load()).status == 200


async def test_a_bug_in_one_request_does_not_end_the_page() -> None:
    class FaultyReceiver(Receiver):
        def receive(self, message: bytes) -> bool:
            raise KeyError(message)

    async with run_page_server(DOCUMENT, FaultyReceiver()) as server:
        browser = browse(server)
        await browser.load()
        raw = build_request(server.port, "POST", browser.paths["messages"], b"{}")
        assert await send_raw(server.port, raw) == b""
        assert (await browser.load()).status == 200
        for query in ("?" + "a=1&" * 20, "?width=9999999", "?width=x", "?height=3", "?width=%00"):
            browser.paths["events"] = browser.paths["events"].partition("?")[0]
            stream = await anyio.connect_tcp("127.0.0.1", server.port)
            await stream.send(build_request(server.port, "GET", browser.paths["events"] + query))
            assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            await stream.aclose()
        assert server.width == 0


async def test_a_browser_that_takes_no_messages_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "MAX_QUEUED_BYTES", 100)
    async with run_page_server(DOCUMENT, Receiver()) as server:
        server.send(b"1" * 60)
        assert not server.overflow.is_set()
        server.send(b"1" * 60)
        assert server.overflow.is_set()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")
async def test_another_user_of_the_machine_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def others(environ: Mapping[str, str]) -> frozenset[int]:
        del environ
        return frozenset({54321})

    monkeypatch.setattr(loopback_peers, "accepted_uids", others)

    def outside(environ: Mapping[str, str]) -> bool:
        del environ
        return False

    monkeypatch.setattr(loopback_peers, "is_in_container", outside)
    async with run_page_server(DOCUMENT, Receiver()) as server:
        assert (await browse(server).load()).status == 403


async def test_names_of_the_server_cannot_write_into_the_document() -> None:
    hostile = DOCUMENT._replace(server='<script>alert(1)</script>"', tool="</title>\u202e\x1b[2J{0}")
    async with run_page_server(hostile, Receiver()) as server:
        body = (await browse(server).load()).body
    assert "<script>alert" not in body
    assert "</title>\u202e" not in body
    assert "\x1b" not in body
    assert body.count("<script") == 1
