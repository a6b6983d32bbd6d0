"""Tests that `mcphost serve` serves a chat only to the user's own browser, over HTTP and WebSocket."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, cast
from urllib.parse import urlsplit

import aiohttp
import anyio
import anyio.to_thread
import psutil
import pytest
from aiohttp import web

from mcphost.auth.loopback_peers import Endpoint
from mcphost.cli import chat_web_server
from mcphost.cli.main import parse_arguments
from mcphost.cli.serve import chat_command
from tests.flows.fork_server import MCPHOST
from tests.flows.program import Program

END_SECONDS = 60
# A subprocess of Python that loads aiohttp and Textual; their warnings are not ours.
QUIET = {"PYTHONWARNINGS": ""}


class Serving:
    """A running `mcphost serve`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.address = cast("IO[bytes]", process.stdout).readline().decode().strip()
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.address))

    def chats(self) -> list[psutil.Process]:
        """Return the processes of the open chats, one for each browser page."""
        return psutil.Process(self.process.pid).children()


@contextmanager
def serve(program: Program, *arguments: str, stderr: IO[bytes] | None = None) -> Iterator[Serving]:
    """Run `mcphost serve` with the demo until the block ends, then stop it with SIGINT, as Ctrl+C does."""
    command = [*MCPHOST, "serve", "--demo", *arguments]
    env = {**program.env, **QUIET}
    process = subprocess.Popen(command, env=env, cwd=program.work, stdout=subprocess.PIPE, stderr=stderr)
    with process:
        try:
            yield Serving(process)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(END_SECONDS)


@pytest.mark.anyio
async def test_a_connection_of_another_user_of_the_machine_is_refused() -> None:
    connections: list[tuple[Endpoint, Endpoint]] = []

    def refuse(server: Endpoint, client: Endpoint) -> bool:
        connections.append((server, client))
        return True

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = chat_web_server.ChatServer(["true"], listener.getsockname()[1], refuse)
        runner = web.AppRunner(server.make_app(), access_log=None)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            async with aiohttp.ClientSession() as client:
                async with client.get(server.address) as answer:
                    assert (answer.status, "Another user" in await answer.text()) == (403, True)
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await client.ws_connect(f"{server.address}ws", origin=server.public_url)
        finally:
            await runner.cleanup()
    place = urlsplit(server.address)
    assert [end for end, _ in connections] == [(place.hostname, place.port)] * 2
    assert all(host == "127.0.0.1" and port != place.port for _, (host, port) in connections)


class Page:
    """A chat in a browser page, connected through its WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._shown = ""

    async def wait_for(self, text: str) -> None:
        """Wait until *text* has appeared in the page's terminal."""
        while text not in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z$]|\x1b.", "", self._shown):
            message = await self._socket.receive(END_SECONDS)
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), (message, self._shown[-500:])
            if message.type == aiohttp.WSMsgType.BINARY:
                self._shown += cast("bytes", message.data).decode(errors="replace")

    async def type(self, text: str) -> None:
        """Send the text key by key, as a browser does while the user types."""
        for envelope in (["focus"], *(["stdin", key] for key in text)):
            await self._socket.send_str(json.dumps(envelope))


@asynccontextmanager
async def open_page(serving: Serving, **headers: str) -> AsyncIterator[Page]:
    """Open a chat page through its WebSocket; *headers* are added to the request."""
    async with aiohttp.ClientSession() as client:
        url = f"{serving.address.replace('http:', 'ws:')}ws?width=100&height=30"
        async with client.ws_connect(url, headers={"Origin": serving.origin, **headers}, max_msg_size=0) as socket:
            yield Page(socket)


@pytest.mark.anyio
async def test_a_browser_gets_the_chat_and_what_is_typed_reaches_it(program: Program) -> None:
    with serve(program) as serving:
        async with open_page(serving) as page:
            await page.wait_for("Everything here is real except the model")
            await page.wait_for("1/1 server")  # a turn waits only two seconds for a server
            await page.type("what is 2 + 40?\r")
            await page.wait_for("Run demo · add?")
            (chat,) = serving.chats()
        chat.wait(END_SECONDS)
        assert serving.chats() == []
    assert serving.process.returncode == 0


@pytest.mark.anyio
async def test_other_pages_hosts_and_addresses_are_refused(program: Program) -> None:
    with serve(program) as serving:
        assert urlsplit(serving.address).hostname == "127.0.0.1"
        key = urlsplit(serving.address).path.strip("/")
        assert len(key) >= 32
        origins = ({"Origin": origin} for origin in ("http://evil.example", "http://127.0.0.1", "null"))
        for headers in (*origins, {"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                async with open_page(serving, **headers):
                    pass
        async with aiohttp.ClientSession() as client:
            without_origin = client.ws_connect(f"{serving.address}ws")
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await without_origin
            upgrade = {
                "Connection": "Upgrade", "Upgrade": "websocket\xa0", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            }  # fmt: skip
            async with client.get(f"{serving.address}ws", headers=upgrade) as answer:
                assert answer.status == 403
            for path in ("/", "/ws", f"/{key[:-1]}~/", f"/{key}/static/"):
                async with client.get(f"{serving.origin}{path}") as answer:
                    assert answer.status in (403, 404), path
            async with client.get(serving.address, headers={"Sec-Fetch-Site": "none"}) as answer:
                assert answer.status == 200
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                assert "http://fonts" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert serving.chats() == []


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["Host", "Origin", "Sec-Fetch-Site"])
async def test_a_header_that_tells_the_page_apart_may_not_be_repeated(program: Program, name: str) -> None:
    with serve(program) as serving:
        place = urlsplit(serving.address)
        fitting = {"Host": place.netloc, "Origin": serving.origin, "Sec-Fetch-Site": "same-origin"}
        for foreign in ("http://evil.example", fitting[name]):
            lines = [*fitting.items(), (name, foreign), ("Connection", "close")]
            head = "".join(f"{one}: {value}\r\n" for one, value in lines)
            async with await anyio.connect_tcp("127.0.0.1", place.port or 0) as stream:
                await stream.send(f"GET {place.path} HTTP/1.1\r\n{head}\r\n".encode())
                assert (await stream.receive())[9:12] in (b"400", b"403")


@pytest.mark.anyio
async def test_no_more_chats_than_the_limit_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_web_server, "MAX_CHATS", 0)
    server = chat_web_server.ChatServer(["true"], 1)
    with pytest.raises(aiohttp.web.HTTPServiceUnavailable):
        await server.handle_websocket(cast("aiohttp.web.Request", None))


@pytest.mark.anyio
async def test_no_chat_outlives_a_killed_server(program: Program) -> None:
    with serve(program) as serving:
        async with open_page(serving) as page:
            await page.wait_for("Everything here is real except the model")
            (chat,) = serving.chats()
            os.kill(serving.process.pid, signal.SIGKILL)
            chat.wait(END_SECONDS)


@pytest.mark.anyio
@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1\r\nHost secret\r\n\r\n", b"\x16\x03\x01\x00\r\n\r\n"])
async def test_a_malformed_request_is_one_line_of_the_log_and_nothing_in_the_terminal(
    program: Program, request_line: bytes
) -> None:
    log_file, terminal = program.home / "state" / "mcphost.log", program.home / "terminal"
    with terminal.open("wb") as written, serve(program, stderr=written) as serving:
        async with await anyio.connect_tcp("127.0.0.1", urlsplit(serving.address).port or 0) as stream:
            await stream.send(request_line)
            assert (await stream.receive())[9:12] == b"400"
    (shown,) = terminal.read_text().splitlines()
    assert shown.startswith("Open this page.")
    (line,) = log_file.read_text().splitlines()
    assert "malformed HTTP request: BadHttpMe" in line
    assert "secret" not in line


def test_a_port_in_use_is_reported(program: Program) -> None:
    with serve(program) as serving:
        port = str(urlsplit(serving.address).port)
        assert f"Port {port} cannot be used" in program.error("serve", "--port", port, code=2)


def test_an_unknown_profile_or_conversation_is_reported_before_anything_is_served(program: Program) -> None:
    assert "no profile 'nope'" in program.error("serve", "--profile", "nope", code=2)
    assert "no conversation 'zz'" in program.error("serve", "--resume", "zz", code=2)


def test_the_flags_of_the_chat_are_passed_on() -> None:
    flags = "--model a/b --mcp-config x.json --mcp-config y.json --resume --quiet --port 8080"
    _, args = parse_arguments("serve", flags.split())
    command = chat_command(args)[4:]
    assert sorted(command[:-1]) == ["--mcp-config=x.json", "--mcp-config=y.json", "--model=a/b", "--quiet", "--resume="]
    assert command[-1] == "chat"


def test_a_served_chat_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mcphost").mkdir()
    (tmp_path / "mcphost" / "__init__.py").write_text("raise SystemExit('imported from the current folder')")
    _, args = parse_arguments("serve", [])
    *command, _ = chat_command(args)
    done = subprocess.run([*command, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=END_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


@asynccontextmanager
async def serve_program(code: str) -> AsyncIterator[chat_web_server.ChatServer]:
    """Serve a Python program with this source code in place of the chat; it first says that it is a Textual app."""
    argv = [sys.executable, "-c", f"import os, sys, time\nprint('__GANGLION__', flush=True)\n{code}"]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = chat_web_server.ChatServer(argv, listener.getsockname()[1], lambda server, client: False)
        runner = web.AppRunner(server.make_app(), access_log=None)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            yield server
        finally:
            await runner.cleanup()


def packet(code: str) -> str:
    """Return code that writes the bytes of the expression *code* to the page."""
    return f"data = {code}\nos.write(1, b'D' + len(data).to_bytes(4, 'big') + data)\n"


REPORT_PID = packet("str(os.getpid()).encode()")


@asynccontextmanager
async def open_socket(server: chat_web_server.ChatServer) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """Open the WebSocket of a page."""
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{server.address}ws", origin=server.public_url) as connection,
    ):
        yield connection


@pytest.mark.anyio
async def test_a_chat_that_does_not_quit_is_killed_after_its_page_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_web_server, "STOP_SECONDS", 0.2)
    async with serve_program(REPORT_PID + "while True: time.sleep(60)") as server:
        async with open_socket(server) as page:
            chat = psutil.Process(int(await page.receive_bytes()))
        await anyio.to_thread.run_sync(chat.wait, END_SECONDS)


@pytest.mark.anyio
async def test_a_chat_quits_by_itself_though_nobody_reads_what_it_still_writes(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    quits = f"{packet('bytes(8_000_000)')}assert b'quit' in os.read(0, 100)\nopen({str(saved)!r}, 'x').close()"
    async with serve_program(REPORT_PID + quits) as server:
        async with open_socket(server) as page:
            chat = psutil.Process(int(await page.receive_bytes()))
            transport = page.get_extra_info("socket")
            transport.shutdown(socket.SHUT_RDWR)
        await anyio.to_thread.run_sync(chat.wait, END_SECONDS)
    assert saved.exists()


@pytest.mark.anyio
async def test_a_page_cannot_ask_for_a_terminal_that_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_web_server, "STOP_SECONDS", 0.2)
    async with serve_program(packet("os.read(0, 1000)[5:]")) as server, open_socket(server) as page:
        await page.send_str('["resize", {"width": 100000000, "height": -5}]')
        assert json.loads(await page.receive_bytes()) == {"type": "resize", "width": 500, "height": 1}
