"""Amplification cases for hostile bytes from servers: lines, JSON-RPC, event streams and HTTP bodies."""

# pyright: basic

import contextlib
import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.amplification import MB, Meter, case

HERE = Path(__file__).resolve().parent
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
EVENTS_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
DEADLINE = 60.0


def silent(text: str) -> None:
    """Ignore *text*."""


@contextlib.contextmanager
def file_of(*parts: bytes):
    """Write bytes to a temporary file, for a server in another process to send; yield the path of the file."""
    with tempfile.NamedTemporaryFile() as file:
        for part in parts:
            file.write(part)
        file.flush()
        yield file.name


async def pipe(meter: Meter, data: bytes) -> None:
    """Measure receiving *data* from a server's standard output, sent in response to one request."""
    import anyio

    from mcphost.protocol.jsonrpc import JsonRpcRequest
    from mcphost.transport.stdio import StdioConnector

    with file_of(data, b"\n", ANSWER, b"\n") as name:
        size = len(data)
        del data
        argv = ["sh", "-c", f"read line; cat {name}; read line"]
        dialer = StdioConnector("hostile", argv, {}, on_stderr=silent, warn=silent)
        async with dialer.connect() as channel:
            kept: list[object] = []
            with meter.measuring(size), anyio.fail_after(DEADLINE):
                async with channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
                    kept += [message async for message in messages]
            print(repr(kept)[:200], file=sys.stderr)


async def http(meter: Meter, answer: bytes, revision: str = "2025-11-25") -> None:
    """Measure receiving *answer*, an HTTP response including its header section, to one POST request."""
    import anyio

    from mcphost.protocol.jsonrpc import JsonRpcRequest
    from mcphost.protocol.revisions import Revision
    from mcphost.transport.streamable_http import HttpConnector

    with file_of(answer) as name, started("hostile_http.py", name) as port:
        size = len(answer)
        del answer
        async with HttpConnector("hostile", f"http://127.0.0.1:{port}/mcp", {}, warn=silent).connect() as channel:
            channel.set_revision(Revision(revision))
            kept: list[object] = []
            with meter.measuring(size), anyio.fail_after(DEADLINE):
                async with channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
                    kept += [message async for message in messages]
            print(repr(kept)[:200], file=sys.stderr)


@contextlib.contextmanager
def started(script: str, *words: str):
    """Run a server script in another process; yield the first line that it prints, without the line feed."""
    command = [sys.executable, "-S", "-E", str(HERE / script), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


class Silent:
    """A request handler and session observer that does nothing."""

    message_log: Any = None
    capabilities: dict[str, Any] = {}  # noqa: RUF012

    async def answer(self, ask: object, context: object) -> Any:
        raise NotImplementedError

    def stderr(self, line: str) -> None: ...

    def warn(self, text: str) -> None:
        print(text, file=sys.stderr)

    def log(self, message: object) -> None: ...

    def on_call_ended(self, number: int) -> None: ...

    def on_elicitation_complete(self, ident: str) -> None: ...

    def on_request_cancelled(self, method: str) -> None: ...

    def track_request(self, context: object) -> AbstractContextManager[None]:
        return nullcontext()

    async def prepare(self, context: object) -> bool:
        return False


@asynccontextmanager
async def session_with(
    answers: dict[str, bytes], capabilities: dict[str, Any], revision: str = "2025-11-25", responder: Any = None
) -> AsyncGenerator[Any]:
    """Open a session with a stdio server that responds to each method with the given bytes.

    *responder* handles the server's requests; without it, they fail.
    """
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.config.schema import ServerConfig

    with contextlib.ExitStack() as files:
        pairs = [f"{method}={files.enter_context(file_of(body))}" for method, body in answers.items()]
        answers.clear()
        argv = ("-S", "-E", str(HERE / "hostile_server.py"), revision, json.dumps(capabilities), *pairs)
        config = ServerConfig(name="hostile", command=sys.executable, args=argv, era="handshake")
        async with ClientSessionOpener().open(config, responder or Silent(), Silent()) as session:  # type: ignore[arg-type]
            yield session


def result(body: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + body + b"}"


def array(item: bytes, size: int) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


# -- lines on standard output
LINES: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "a line with one half of a surrogate pair": (
        15 * MB,
        lambda size: result(b'{"t":"\\ud800' + b"\\n" * (size // 2) + b'"}'),
    ),
    "a line of halves of surrogate pairs": (15 * MB, lambda size: result(b'"' + b"\\ud800" * (size // 6) + b'"')),
    "a line of escapes": (15 * MB, lambda size: result(b'"' + b"\\u0041" * (size // 6) + b'"')),
    "a line of backslashes that is not JSON": (15 * MB, lambda size: result(b'"\\u' + b"\\\\" * (size // 2))),
    "a line that is not UTF-8": (15 * MB, lambda size: result(b'"' + b"\xff" * size + b'"')),
    "a line of four-byte characters": (15 * MB, lambda size: result(b'"' + "😀".encode() * (size // 4) + b'"')),
    "a line of ASCII with one four-byte character": (
        15 * MB,
        lambda size: result(b'"' + b"a" * size + "😀".encode() + b'"'),
    ),
    "a batch in a revision without batches": (10 * MB, lambda size: array(b"{}", size)),
    "a batch of 250,000 small things": (1 * MB, lambda size: array(b"{}", 750_000)),
    "a result of empty lists": (15 * MB, lambda size: result(array(b"[]", size))),
    "a result of empty texts": (15 * MB, lambda size: result(array(b'""', size))),
    "a result nested 900 deep": (1 * MB, lambda size: result(array(b"[" * 450 + b"]" * 450, size))),
    "a number of 15 MB": (15 * MB, lambda size: result(b"9" * size)),
    "an id of 15 MB": (15 * MB, lambda size: b'{"jsonrpc":"2.0","id":' + b"9" * size + b',"result":{}}'),
    "spaces": (15 * MB, lambda size: b" " * size + ANSWER),
    "an object with a million keys": (
        15 * MB,
        lambda size: b"{" + b",".join(b'"k%d":1' % n for n in range(1_000_000)) + b"}",
    ),
    "empty lines": (10 * MB, lambda size: b"\n" * size),
    "lines of two characters": (10 * MB, lambda size: b"{}\n" * (size // 3)),
    "lines of words": (10 * MB, lambda size: b"INFO something happened here\n" * (size // 29)),
    "lines of short broken JSON": (10 * MB, lambda size: b'{"jsonrpc":"2.0","id":1\n' * (size // 24)),
    "log messages": (
        10 * MB,
        lambda size: (
            b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n' * (size // 88)
        ),
    ),
    "progress": (
        10 * MB,
        lambda size: (
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n'
            * (size // 96)
        ),
    ),
    "answers nobody waits for": (10 * MB, lambda size: b'{"jsonrpc":"2.0","id":9,"result":{}}\n' * (size // 38)),
    "requests": (10 * MB, lambda size: b'{"jsonrpc":"2.0","id":"a","method":"ping"}\n' * (size // 43)),
    "the shortest notifications": (10 * MB, lambda size: b'{"jsonrpc":"2.0","method":"x"}\n' * (size // 31)),
    "notifications of 100 kB": (
        100 * MB,
        lambda size: (b'{"jsonrpc":"2.0","method":"x","params":{"a":"' + b"a" * 100_000 + b'"}}\n') * (size // 100_000),
    ),
}


def _line_case(name: str, size: int, make: Callable[[int], bytes]) -> None:
    @case(f"pipe: {name}", size=size)
    async def entry(meter: Meter, size: int) -> None:
        await pipe(meter, make(size))


for _name, (_size, _make) in LINES.items():
    _line_case(_name, _size, _make)


# -- HTTP
def gzipped(data: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return packer.compress(data) + packer.flush()


def plain(body: bytes, more: bytes = b"") -> bytes:
    return JSON_HEAD + more + b"content-length: %d\r\n\r\n" % len(body) + body


def chunked(head: bytes, chunk: bytes, size: int) -> bytes:
    one = b"%x\r\n" % len(chunk) + chunk + b"\r\n"
    return head + CHUNKED + one * (size // len(one)) + b"0\r\n\r\n"


def events(body: bytes) -> bytes:
    return EVENTS_HEAD + b"\r\n" + body


GZIP = b"content-encoding: gzip\r\n"
ANSWERS: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "a body of 16 MB of zeros as gzip": (16 * MB, lambda size: plain(gzipped(result(b'"' + b"0" * size + b'"')), GZIP)),
    "a gzip stream with a tail of 64 MB": (64 * MB, lambda size: plain(gzipped(ANSWER) + b"\0" * size, GZIP)),
    "a gzip stream without its end": (10 * MB, lambda size: plain(gzipped(b" " * size + ANSWER)[:-12], GZIP)),
    "many empty gzip members": (10 * MB, lambda size: plain(gzipped(b"") * (size // 20) + gzipped(ANSWER), GZIP)),
    "a body of empty lists": (15 * MB, lambda size: plain(result(array(b"[]", size)))),
    "a body with halves of characters": (15 * MB, lambda size: plain(result(b'"' + b"\\ud8" * (size // 5) + b'"'))),
    "a body that is not UTF-8": (15 * MB, lambda size: plain(result(b'"' + b"\xff" * size + b'"'))),
    "chunks of one byte": (10 * MB, lambda size: chunked(JSON_HEAD, b" ", size)),
    "chunks of 16 bytes": (10 * MB, lambda size: chunked(JSON_HEAD, b" " * 16, size)),
    "chunk extensions": (10 * MB, lambda size: JSON_HEAD + CHUNKED + b"1;aaaaaaaaaaaaaaaa\r\n \r\n" * (size // 23)),
    "60 kB of header lines": (60_000, lambda size: JSON_HEAD + b"a:b\r\n" * (size // 5) + b"content-length: 0\r\n\r\n"),
    "interim answers": (60_000, lambda size: b"HTTP/1.1 100 \r\n\r\n" * (size // 17) + plain(ANSWER)),
    "event lines of two characters": (10 * MB, lambda size: events(b":\n" * (size // 2) + b"data:" + ANSWER + b"\n\n")),
    "event lines that are empty": (10 * MB, lambda size: events(b"\n" * size + b"data:" + ANSWER + b"\n\n")),
    "empty data lines of an event": (10 * MB, lambda size: events(b"data\n" * (size // 5) + b"\n")),
    "short data lines of an event": (45 * MB, lambda size: events(b"data:ab\n" * (size // 8) + b"\n")),
    "ids of events": (10 * MB, lambda size: events(b"id:12345678\n" * (size // 12) + b"\n")),
    "retries of events": (10 * MB, lambda size: events(b"retry:1\n" * (size // 8) + b"\n")),
    "unknown fields of events": (10 * MB, lambda size: events(b"abcdefgh\n" * (size // 9) + b"\n")),
    "a name of an event of 15 MB": (15 * MB, lambda size: events(b"event:" + b"a" * size + b"\n\n")),
    "a comment without end": (45 * MB, lambda size: events(b":" * size)),
    "events without data": (10 * MB, lambda size: events(b"event:a\n\n" * (size // 9))),
    "the smallest events": (10 * MB, lambda size: events(b"data:1\n\n" * (size // 8))),
    "events of notifications": (
        10 * MB,
        lambda size: events(b'data:{"jsonrpc":"2.0","method":"x"}\n\n' * (size // 38) + b"data:" + ANSWER + b"\n\n"),
    ),
    "an event of empty lists": (15 * MB, lambda size: events(b"data:" + result(array(b"[]", size)) + b"\n\n")),
    "an event of 15 MB of text": (15 * MB, lambda size: events(b"data:" + result(b'"' + b"a" * size + b'"') + b"\n\n")),
    "carriage returns in an event stream": (10 * MB, lambda size: events(b"\r" * size)),
}  # fmt: skip


def _http_case(name: str, size: int, make: Callable[[int], bytes]) -> None:
    @case(f"HTTP: {name}", size=size)
    async def entry(meter: Meter, size: int) -> None:
        await http(meter, make(size))


for _name, (_size, _make) in ANSWERS.items():
    _http_case(_name, _size, _make)


BATCHES: dict[str, Callable[[int], bytes]] = {
    "a batch of 650,000 short texts": lambda size: plain(array(b'"aaaaaaaaaaaaaaaaaaaa"', size)),
    "a batch of one message of 700,000 values": lambda size: plain(b"[" + result(array(b"1" * 20, size)) + b"]"),
}


def _batch_case(name: str, make: Callable[[int], bytes]) -> None:
    @case(f"HTTP: {name}", size=15 * MB)
    async def entry(meter: Meter, size: int) -> None:
        await http(meter, make(size), "2025-03-26")


for _name, _make_batch in BATCHES.items():
    _batch_case(_name, _make_batch)
