"""Amplification cases for interactive pages: what a page sends, and what its server sends to it."""

# pyright: basic

import asyncio
import json
import os
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_wire import DEADLINE

URI = "ui://hostile/page"
INITIALIZE = b'{"jsonrpc":"2.0","id":"first","method":"ui/initialize","params":{}}'
READ = b'{"jsonrpc":"2.0","id":"read","method":"resources/read","params":{"uri":"x://hostile"}}'
BROWSER = """
import re, socket, sys
port, path = int(sys.argv[1]), sys.argv[2]
def connect(method, path, body=b""):
    stream = socket.create_connection(("127.0.0.1", port))
    head = f"{method} {path} HTTP/1.1\\r\\nhost: 127.0.0.1:{port}\\r\\norigin: http://127.0.0.1:{port}\\r\\n"
    head += f"content-type: application/json\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
    stream.sendall(head.encode() + body)
    return stream
def fetch(*request):
    with connect(*request) as stream:
        return stream.makefile("rb").read()
paths = dict(re.findall(r'data-(messages|events)="([^"]+)"', fetch("GET", path).decode()))
events = connect("GET", paths["events"]).makefile("rb")
messages = eval(sys.stdin.read())
fetch("POST", paths["messages"], messages[0])
while b'"first"' not in events.readline(10_000_000)[:100]:
    pass
print("ready", flush=True)
sys.stdin = open(sys.argv[3])
sys.stdin.readline()
for message in messages[1:]:
    fetch("POST", paths["messages"], message)
print("posted", flush=True)
while line := events.readline():
    if line.startswith(b"data: ") and b'"read"' in line[:100]:
        print("read", flush=True)
"""


class HostileSession:
    """A session whose server returns *contents*, JSON, for each address."""

    def __init__(self, contents: bytes) -> None:
        self._result = b'{"contents":' + contents + b"}"

    async def request(self, request: Any) -> Any:
        from mcphost.serialization import decode

        result = decode(self._result, request.RESULT)
        await asyncio.sleep(0.01)
        return result


async def relayed(meter: Meter, size: int, *messages: bytes, contents: bytes = b"[]") -> None:
    """Measure relaying *messages* of a page, or the *contents* of a resource that it reads."""
    import anyio

    from mcphost.apps.page_server import PageDocument, run_page_server
    from mcphost.host.app_pages.page_bridge import PageBridge
    from mcphost.host.app_pages.page_calls import PageCall
    from mcphost.host.app_pages.page_requests import PageLimits, PageRequests
    from mcphost.protocol.apps import PageOrigins

    session = HostileSession(contents)

    async def open_session() -> HostileSession:
        return session

    connection = SimpleNamespace(
        config=SimpleNamespace(name="hostile"), session=open_session, is_ready=True, log=lambda *_: None
    )
    definition = SimpleNamespace(name="show", page=SimpleNamespace(resource_uri=URI), raw={"name": "show"})
    offered: Any = SimpleNamespace(connection=connection, definition=definition)
    call = PageCall("1", offered, {})
    servers = SimpleNamespace(find=lambda _: connection)
    no_calls: Any = None
    services: Any = SimpleNamespace(servers=servers, audit=None, limits=PageLimits(no_calls))
    with tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "gate")
        os.mkfifo(gate)
        async with anyio.create_task_group() as tasks:
            opened: list[Any] = []

            def send(message: bytes) -> None:
                opened[0].send(message)

            requests = PageRequests(services, call, lambda _: None)
            bridge = PageBridge(call, PageOrigins(), tasks, send, requests.handlers)
            async with run_page_server(PageDocument(b"<p>", PageOrigins(), "hostile", "show"), bridge) as server:
                opened.append(server)
                path = server.url.removeprefix(f"http://127.0.0.1:{server.port}")
                browser = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", BROWSER, str(server.port), path, gate,
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1_000,
                )  # fmt: skip
                assert browser.stdin
                assert browser.stdout
                browser.stdin.write(repr([INITIALIZE, *messages]).encode())
                browser.stdin.close()
                assert await browser.stdout.readline() == b"ready\n"
                with meter.measuring(size), anyio.fail_after(DEADLINE):
                    with open(gate, "w") as file:  # noqa: ASYNC230 - its reader waits
                        file.write("\n")
                    assert await browser.stdout.readline() == b"posted\n"
                    if READ in messages:
                        assert await browser.stdout.readline() == b"read\n"
                browser.kill()
                await browser.wait()
            tasks.cancel_scope.cancel()


def contents_of(text: bytes) -> bytes:
    """Return a resource whose text is *text*, which is escaped as in JSON."""
    return b'[{"uri":"x://hostile","text":"' + text + b'"}]'


@case("page: reads a resource of plain text", size=7_900_000)
async def _(meter: Meter, size: int) -> None:
    await relayed(meter, size, READ, contents=contents_of(b"a" * size))


@case("page: reads a resource of control characters", size=7_900_000)
async def _(meter: Meter, size: int) -> None:
    await relayed(meter, size, READ, contents=contents_of(b"\\u0001" * (size // 6)))


@case("page: reads a resource of quotes over the limit", size=15 * MB)
async def _(meter: Meter, size: int) -> None:
    await relayed(meter, size, READ, contents=contents_of(b'\\"' * (size // 2)))


@case("page: reads a resource of line breaks between tokens", size=7_900_000)
async def _(meter: Meter, size: int) -> None:
    await relayed(meter, size, READ, contents=b'[{"uri":"x://hostile","_meta":{"a":' + b"\n" * size + b"1}}]")


@case("page: messages of many values", size=10 * MB)
async def _(meter: Meter, size: int) -> None:
    one = b'{"jsonrpc":"2.0","method":"x","params":[' + b",".join([b"{}"] * 90_000) + b"]}"
    await relayed(meter, size, *[one] * (size // len(one)))


@case("page: log messages of many values", size=10 * MB)
async def _(meter: Meter, size: int) -> None:
    data = json.dumps([{"a": "\u202e"}] * 30_000)
    one = f'{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{data}}}}}'.encode()
    await relayed(meter, size, *[one] * (size // len(one)))


@case("page: requests of many values", size=1_000_000)
async def _(meter: Meter, size: int) -> None:
    values = b",".join([b'"aaaaa"'] * (size // 8 - 100))
    one = b'{"jsonrpc":"2.0","id":"read","method":"tools/call","params":{"name":1,"arguments":{"a":[' + values + b"]}}}"
    await relayed(meter, size, one)
