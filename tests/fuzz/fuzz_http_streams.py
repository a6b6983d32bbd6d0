"""Fuzz HTTP sessions with mutated event streams over a fake socket: the client, event decoder, exchange and session.

Requests and responses pass through `transport.http1_connection` as bytes. Each trial opens a session with a server that
behaves, makes calls that are answered with broken streams, and then makes calls that are answered correctly again.
"""

import asyncio
import gzip
import json
import random
import time
import traceback
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_tools
from mcphost.client.session import Session, WatchedChanges
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError, UnsupportedCapability
from mcphost.transport import http1_connection
from mcphost.transport.event_stream import EventDecoder, ServerSentEvent
from mcphost.transport.http_pool import HttpConnectionPool
from tests.fuzz import corpus
from tests.fuzz.fuzz_stdio import LONGEST_CALL, REQUEST_TIMEOUT, VALID_REQUEST, exercise, valid_answer_for
from tests.fuzz.fuzz_stdio import request_handler as everybody
from tests.fuzz.monitor import FuzzReport, run_monitored
from tests.fuzz.mutator import Mutator
from tests.spec.manifest import REVISIONS
from tests.unit.client.fakes import RecordingObserver

STREAMS_PER_SESSION = 60
CONCURRENT_SESSIONS = 3
STREAM_LIMIT = 1024 * 1024
LINE_ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r")
FIELDS = (
    b": keep-alive", b":", b"data", b"data:", b"data: ", b"id", b"id: \x00", b"id:", b"event: message", b"event: ping",
    b"retry: 5", b"retry: -1", b"retry: 99999999999999999999", b"retry: x", b"foo: bar", b"DATA: {}", b" data: x",
    b"\xef\xbb\xbfdata: {}", b"id: \xff\xfe", b"event: " + b"e" * 2000, b"id: " + b"i" * 2000, b"data: \xff",
    b"retry: \xc2\xb2",
)  # fmt: skip
STATUS_LINES = (b"200 OK",) * 120 + (
    b"202 Accepted", b"204 No Content", b"301 Moved", b"400 Bad", b"401 No", b"404 Gone", b"429 Slow", b"500 Oh",
    b"503 Later", b"101 Switch", b"000 Nil", b"99999 Many",
)  # fmt: skip


class FakeTransport(asyncio.Transport):
    """The transport of a fake connection: it reads the client's requests, and feeds response bytes to it in pieces."""

    def __init__(self, peer: "StreamServer", connection: http1_connection.HttpConnection) -> None:
        super().__init__()
        self._peer = peer
        self._connection = connection
        self._request = b""
        self._pieces: list[bytes | None] = []
        self._closing = False
        self._paused = False
        self._planned = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Receive a part of a request, and respond when the request is complete."""
        self._request += bytes(data)
        while (end := self._request.find(b"\r\n\r\n")) >= 0:
            head = self._request[:end].decode("latin-1")
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:])
            size = int(fields.get("content-length", 0))
            if len(self._request) < end + 4 + size:
                return
            body = self._request[end + 4 : end + 4 + size]
            self._request = self._request[end + 4 + size :]
            data, ends = self._peer.respond(head.split(" ", 1)[0], fields, body)
            self._pieces += [*self._peer.mutator.split(data), *([None] if ends else [])]
            self._plan()

    def _plan(self) -> None:
        if not self._planned and self._pieces and not self._paused and not self._closing:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self._planned = False
        if self._closing or self._paused or not self._pieces:
            return
        piece = self._pieces.pop(0)
        if piece is None:
            self.abort()
        else:
            started_at = time.perf_counter()
            self._connection.data_received(piece)
            self._peer.report.add_duration(self._peer.where, time.perf_counter() - started_at)
        self._plan()

    def pause_reading(self) -> None:
        """Pause reading, as in `asyncio.Transport`."""
        self._paused = True

    def resume_reading(self) -> None:
        """Resume reading, as in `asyncio.Transport`."""
        self._paused = False
        self._plan()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or closing, as in `asyncio.Transport`."""
        return self._closing

    def abort(self) -> None:
        """Close the connection immediately, as in `asyncio.Transport`."""
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


class StreamServer:
    """A server that behaves correctly or responds with broken event streams, as the test chooses."""

    def __init__(self, report: FuzzReport, seed: str, most: int) -> None:
        self.report = report
        self.where = f"streams {seed}"
        self.rng = random.Random(seed)
        self.mutator = Mutator(self.rng)
        self.revision = self.rng.choice(REVISIONS[1:])
        self.stateless = self.revision == REVISIONS[-1]
        self.behaves = True
        self.left = most

    def respond(self, verb: str, fields: dict[str, str], body: bytes) -> tuple[bytes, bool]:
        """Return the bytes of a response, and True if the connection closes after them."""
        if verb == "DELETE":
            return _http_response(b"200 OK", b"", b""), False
        if verb == "GET":
            return self._get(fields)
        message = json.loads(body)
        if "id" not in message or "method" not in message:
            return _http_response(b"202 Accepted", b"", b""), False
        answer = valid_answer_for(message["id"], message["method"], self.revision, self.rng.randrange(3))
        if self.behaves or (message["method"] == "initialize" and self.rng.random() < 0.8):
            kind = b"application/json"
            raw = json.dumps(answer).encode()
            if self.rng.random() < 0.5:
                kind, raw = b"text/event-stream", b"data: " + raw + b"\n\n"
            session = b"mcp-session-id: s1\r\n" if message["method"] == "initialize" else b""
            return _http_response(b"200 OK", kind, raw, session), False
        self.left -= 1
        self.report.inputs += 1
        return self._broken(self._stream(message["id"], answer))

    def _get(self, fields: dict[str, str]) -> tuple[bytes, bool]:
        """Respond to GET: resume a stream after an event, or open a stream for messages that belong to no request."""
        last = fields.get("last-event-id", "")
        if last.startswith("r") and last[1:].isdigit() and self.rng.random() < 0.7:
            message = valid_answer_for(int(last[1:]), "tools/list", self.revision, 0)
            return _http_response(
                b"200 OK", b"text/event-stream", b"data: " + json.dumps(message).encode() + b"\n\n"
            ), False
        if self.behaves or self.rng.random() < 0.5:
            return _http_response(b"405 Method Not Allowed", b"", b""), False
        self.report.inputs += 1
        self.left -= 1
        return self._broken(self._stream(0, {"jsonrpc": "2.0", **self.rng.choice(corpus.NOTIFICATIONS)}))

    def _stream(self, ident: int, answer: dict[str, Any]) -> bytes:
        """Return an event stream that contains the response among other events, some of which are broken."""
        rng = self.rng
        events: list[bytes] = []
        end = rng.choice(LINE_ENDS)
        if rng.random() < 0.4:
            events.append(b"id: r%d%sretry: %d%sdata:" % (ident, end, rng.choice((0, 5, 500)), end))
        for _ in range(rng.randrange(5)):
            other: dict[str, Any] = {"jsonrpc": "2.0", **rng.choice(corpus.NOTIFICATIONS)}
            if "progress" in other["method"]:
                other["params"] = {**other["params"], "progressToken": ident}
            if rng.random() < 0.2:
                other = {"jsonrpc": "2.0", "id": "q", **rng.choice(corpus.SERVER_REQUESTS)}
            events.append(self._event(other, end))
        if rng.random() < 0.1:
            answer = answer | {"result": {"resultType": "input_required", **rng.choice(corpus.INPUT_REQUIRED)}}
        if rng.random() < 0.9:
            events.append(self._event(answer, end))
        if rng.random() < 0.4:
            events.insert(rng.randrange(len(events) + 1), rng.choice(FIELDS))
        rng.shuffle(events) if rng.random() < 0.1 else None
        raw = b"".join(event + end * 2 for event in events)
        for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
            raw = self.mutator.mutate_bytes(raw)
        if rng.random() < 0.0005:
            raw = b"data: " + b"x" * (STREAM_LIMIT + 1) + end * 2 + raw
        return raw

    def _event(self, message: dict[str, Any], end: bytes) -> bytes:
        rng = self.rng
        data = self.mutator.encode_mutated(message, most=2) if rng.random() < 0.5 else json.dumps(message).encode()
        lines = [b"data: " + data]
        if rng.random() < 0.1:
            cut = rng.randrange(len(data) + 1)
            lines = [b"data: " + data[:cut], b"data: " + data[cut:]]
        if rng.random() < 0.3:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(FIELDS))
        return end.join(lines)

    def _broken(self, body: bytes) -> tuple[bytes, bool]:
        """Return an event stream as an HTTP response with random framing, which is sometimes broken."""
        self._check_chunking(body)
        rng = self.rng
        status = rng.choice(STATUS_LINES)
        head = b"content-type: %s\r\n" % rng.choice(
            (b"text/event-stream",) * 9 + (b"application/json", b"text/html", b"")
        )
        framing = rng.randrange(4)
        if rng.random() < 0.1:
            body = gzip.compress(body, mtime=0)
            head += b"content-encoding: gzip\r\n"
            body = self.mutator.mutate_bytes(body) if rng.random() < 0.5 else body
        if framing == 0:
            head += b"transfer-encoding: chunked\r\n"
            body = b"".join(b"%x\r\n%s\r\n" % (len(item), item) for item in self.mutator.split(body)) + b"0\r\n\r\n"
        elif framing < 3:
            head += b"content-length: %d\r\n" % (len(body) + (rng.choice((-1, 1, 50)) if rng.random() < 0.1 else 0))
        raw = b"HTTP/1.1 " + status + b"\r\n" + head + b"\r\n" + body
        if rng.random() < 0.15:
            raw = self.mutator.mutate_bytes(raw)
        return raw[: 4 * STREAM_LIMIT], framing == 3 or rng.random() < 0.3

    def _check_chunking(self, body: bytes) -> None:
        if _decode([body]) != _decode(self.mutator.split(body)):
            self.report.add_fault(self.where, f"the events depend on where the stream is cut: {body[:500]!r}")


def _decode(pieces: list[bytes]) -> tuple[list[ServerSentEvent], str, float | None] | str:
    decoder = EventDecoder(STREAM_LIMIT)
    try:
        events = [event for piece in pieces for event in decoder.feed(piece)]
    except MalformedMessage as error:
        return error.message
    return events, decoder.last_id, decoder.retry


def _http_response(status: bytes, kind: bytes, body: bytes, more: bytes = b"") -> bytes:
    head = b"content-type: %s\r\n" % kind if kind else b""
    return b"HTTP/1.1 %s\r\n%s%scontent-length: %d\r\n\r\n%s" % (status, head, more, len(body), body)


async def run_session(report: FuzzReport, seed: str, most: int) -> None:
    """Run one session with up to *most* broken streams, and add the faults found to the report."""
    peer = StreamServer(report, seed, most)

    async def connect(origin: HttpConnectionPool) -> http1_connection.HttpConnection:
        connection = http1_connection.HttpConnection()
        connection.connection_made(FakeTransport(peer, connection))
        return connection

    real, HttpConnectionPool._connect = HttpConnectionPool._connect, connect  # type: ignore[method-assign]
    try:
        config = ServerConfig(
            name="fuzz", url="http://127.0.0.1:1/mcp", era="stateless" if peer.stateless else "handshake"
        )
        limits = Limits(request_timeout=REQUEST_TIMEOUT, request_timeout_max=REQUEST_TIMEOUT)
        opener = ClientSessionOpener(limits=limits, message_limit=STREAM_LIMIT)
        async with opener.open(config, everybody(), RecordingObserver()) as session:
            await list_tools(session)
            peer.behaves = False
            async with anyio.create_task_group() as group:
                group.start_soon(_watch, session, report)
                async with anyio.create_task_group() as callers:
                    for _ in range(CONCURRENT_SESSIONS):
                        callers.start_soon(_call_again, session, peer)
                peer.behaves = True
                await anyio.sleep(1)  # the rest of a broken answer on its connection has arrived by then
                await _check_session(session, peer)
                group.cancel_scope.cancel()
    finally:
        HttpConnectionPool._connect = real  # type: ignore[method-assign]
    report.sessions += 1


async def _call_again(session: Session, peer: StreamServer) -> None:
    while peer.left > 0:
        started_at = anyio.current_time()
        left = peer.left
        try:
            await exercise(session, peer.rng)
            outcome = "results"
        except McpHostError as error:
            outcome = type(error).__name__
        except Exception:  # noqa: BLE001 - the very thing this is about
            outcome = "uncaught"
            peer.report.add_fault(peer.where, traceback.format_exc())
        peer.report.outcomes[outcome] += 1
        if (took := anyio.current_time() - started_at) > LONGEST_CALL:
            peer.report.add_fault(peer.where, f"a call took {took:.0f} s of its clock")
        if left == peer.left:
            peer.left -= 1  # nothing was sent, so nothing will come


async def _watch(session: Session, report: FuzzReport) -> None:
    try:
        async for _ in session.changes(WatchedChanges(tools=True, resources=True, prompts=True, uris=("demo://a",))):
            report.outcomes["changes heard"] += 1
    except McpHostError:
        return


async def _check_session(session: Session, peer: StreamServer) -> None:
    try:
        result = await session.request(VALID_REQUEST)
    except McpHostError as error:
        # After a new handshake, which may have been mutated too, the server may offer less.
        is_renewed = isinstance(error, UnsupportedCapability) or "no longer knows the session" in error.message
        if isinstance(error, ConnectionLost | UnsupportedCapability) and is_renewed:
            peer.report.outcomes["sessions forgotten by the server"] += 1
            return
        peer.report.add_fault(peer.where, f"the session is broken: {type(error).__name__} {error}")
        return
    if len(result.contents) != 2:
        peer.report.add_fault(peer.where, "a whole answer was not read as such")
    peer.report.outcomes["sessions survived"] += 1


def run(count: int, seed: int, first: int = 0) -> FuzzReport:
    """Send *count* broken streams in as many sessions as needed; *first* is the number of the first session."""
    report = FuzzReport(seed)

    async def work() -> None:
        number = first
        while report.inputs < count:
            await run_session(report, f"{seed}:{number}", min(STREAMS_PER_SESSION, count - report.inputs))
            number += 1

    return run_monitored(report, work)
