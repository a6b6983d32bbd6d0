"""Fuzz mcphost's HTTP/1.1 parser against h11: both must accept the same responses and read the same values."""

import asyncio
import random
from collections import Counter
from typing import NamedTuple

import h11

from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.transport.http1_connection import HEAD_LIMIT, HttpConnection

STATUS_LINES = (
    b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 ", b"HTTP/1.1 200", b"HTTP/1.0 200 OK",
    b"HTTP/1.1 404 Not Found", b"HTTP/1.1 204 No Content", b"HTTP/1.1 304 Not Modified", b"HTTP/1.1 100 Continue",
    b"HTTP/1.1 103 Early Hints", b"HTTP/1.1 101 Switching Protocols", b"HTTP/1.1 99 Low", b"HTTP/1.1 099 Low",
    b"HTTP/1.1 600 High", b"HTTP/1.1 999 High", b"HTTP/1.1 2000 OK", b"HTTP/1.1  200 OK", b" HTTP/1.1 200 OK",
    b"http/1.1 200 OK", b"HTTP/1.2 200 OK", b"HTTP/1.10 200 OK", b"HTTP/1. 200 OK", b"HTTP/11 200 OK", b"HTTP/2 200 OK",
    b"HTTP/1.1\t200 OK", b"HTTP/1.1 200\tOK", b"HTTP/1.1 +20 OK", b"HTTP/1.1 2\xb20 OK", b"HTTP/1.1 200 O\x00K",
    b"HTTP/1.1 200 \xfcber", b"HTTP/1.1 200 O\rK", b"", b"\r\nHTTP/1.1 200 OK", b"\nHTTP/1.1 200 OK",
)  # fmt: skip
HEADERS = (
    b"content-type: application/json", b"Content-Type:text/event-stream", b"x-a: 1", b"X-A: 2", b"x-empty:", b"x-e: ",
    b"x:\ty\t", b"x: a\tb", b"x : y", b" x: y", b"\tx: y", b"x\ty: z", b"x y: z", b": y", b"x", b"x\x00: y",
    b"x: a\x00b", b"x: a\rb", b"x: a\nb", b"x: \x7f", b"x: \x01", b"x: \x0b", b"x: \xff", b"x: \xc3\xbc", b"\xff: y",
    b"x(y): z", b"x@y: z", b"connection: close", b"connection: keep-alive", b"x:y:z", b"x: " + b"y" * 300,
    b"x: y\r\n z", b"x: y\r\n\tz", b"x: \x85", b"x: a\x1fb", b"set-cookie: a=b", b"x\xa0: y", b"x: y\xa0",
    b"x\x0c: y", b"\x0cx: y", b"x: \x0cy",
)  # fmt: skip
FRAMINGS = (
    b"content-length: %d", b"content-length: %d", b"Content-Length:%d", b"content-length: %d\r\ncontent-length: %d",
    b"content-length: %d, %d", b"content-length: %d,", b"content-length: +%d", b"content-length: -%d",
    b"content-length: 0%d", b"content-length: %d ", b"content-length: %d\t", b"content-length: 0x%d",
    b"content-length: %d.0", b"content-length: \xb2", b"content-length: ", b"content-length: %d\r\ncontent-length: 7",
    b"content-length: %d\x0b", b"content-length: 1_%d",
)  # fmt: skip
CODINGS = (
    b"transfer-encoding: chunked", b"transfer-encoding: chunked", b"transfer-encoding: chunked",
    b"Transfer-Encoding:CHUNKED", b"transfer-encoding: gzip, chunked", b"transfer-encoding: chunked, chunked",
    b"transfer-encoding: identity", b"transfer-encoding: chunked\r\ntransfer-encoding: chunked",
    b"transfer-encoding: chunked\r\ncontent-length: 5", b"transfer-encoding: chunked\x0b",
    b"transfer-encoding: \x0bchunked", b"transfer-encoding:", b"transfer-encoding: x",
    b"transfer-encoding: chunked;q=1", b"transfer-encoding: ,chunked", b"transfer-encoding: chunked\xa0",
)  # fmt: skip
CHUNK_SIZES = (
    b"%x", b"%x", b"%x", b"%x", b"%X", b"0%x", b"000000%x", b"00000000%x", b"0x%x", b"+%x", b"-%x", b" %x", b"%x ",
    b"%x\t", b"%x;a=b", b"%x ;a=b", b"%x;a=\"b\"", b"%x;\x00", b"%x;a\rb", b"%x\x0b", b"_%x", b"%x_", b"", b"%xg",
    b"\xb2%x", b"%x\x00", b"\x0c%x", b"%x;" + b"e" * 40, b"%x;\xff", b"%x;a\tb", b"%x;\x01", b"%x; ", b"\t%x",
    b"%x\xa0",
)  # fmt: skip
LINE_ENDS = (b"\r\n",) * 300 + (b"\n", b"\r", b"\r\r\n", b" \r\n", b"\n\r")
TRAILERS = (b"",) * 6 + (
    b"x-t: 1\r\n",
    b"x t: 1\r\n",
    b"x\r\n",
    b" x: 1\r\n",
    b": 1\r\n",
    b"x: \x00\r\n",
    b"x: 1\n",
    b"x: 1\r",
)
ODD_BYTES = b'\x00\x01\t\n\x0b\x0c\r\x1f !",:;\\_0a\x7f\x80\x85\xa0\xb2\xff'


class ParsedResponse(NamedTuple):
    """A response as one of the two parsers reads it."""

    status: int
    headers: dict[str, str]
    body: bytes


async def parse_ours(pieces: list[bytes]) -> ParsedResponse | None:
    """Return what mcphost's parser reads until the server closes the connection, or None if it refuses the response."""
    connection = HttpConnection()
    connection.send_request(b"")
    for piece in pieces:
        connection.data_received(piece)
    connection.connection_lost(None)
    try:
        await connection.read_head()
        body = b""
        while (chunk := await connection.read_chunk()) is not None:
            body += chunk
    except (MalformedMessage, ConnectionLost):
        return None
    return ParsedResponse(connection.status, connection.headers, body)


def parse_h11(data: bytes) -> ParsedResponse | None:
    """Return what h11 reads until the server closes the connection, or None if it refuses the response."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    status, headers, body = 0, dict[str, str](), b""
    try:
        connection.receive_data(data)
        connection.receive_data(b"")
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
                for name, value in event.headers:
                    key, text = name.decode("latin-1"), value.decode("latin-1")
                    headers[key] = f"{headers[key]}, {text}" if key in headers else text
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return ParsedResponse(status, headers, body)
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None


class AnswerGenerator:
    """A generator of almost valid responses; the same seed gives the same bytes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def answer(self) -> bytes:
        """Return a response, sometimes with interim responses before it, and sometimes with mutated bytes."""
        rng = self.rng
        data = b"".join(self._interim() for _ in range(rng.choice((0, 0, 0, 0, 1, 2)))) + self._final()
        if rng.random() < 0.2:
            for _ in range(rng.randint(1, 3)):
                data = self._mutate(data)
        return data

    def split(self, data: bytes) -> list[bytes]:
        """Split the bytes at random into pieces, as a network might deliver them."""
        at = sorted(self.rng.randrange(len(data) + 1) for _ in range(self.rng.choice((0, 0, 1, 2, 5))))
        return [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True)]

    def _end(self) -> bytes:
        return self.rng.choice(LINE_ENDS)

    def _interim(self) -> bytes:
        line = self.rng.choice((b"HTTP/1.1 100 Continue", b"HTTP/1.1 103 Early Hints", b"HTTP/1.1 102 X"))
        return line + self._end() + b"".join(self._headers(0.3)) + self._end()

    def _headers(self, odd: float) -> list[bytes]:
        rng = self.rng
        known = HEADERS[:5] if rng.random() > odd else HEADERS
        return [rng.choice(known) + self._end() for _ in range(rng.randrange(4))]

    def _final(self) -> bytes:
        rng = self.rng
        body = rng.choice((b"", b"{}", b"hello world", b"a\r\n\r\nb", b"data: x\n\n" * 3))
        kind = rng.random()
        framing: list[bytes] = []
        if kind < 0.45:
            text = rng.choice(FRAMINGS[:3] if rng.random() < 0.6 else FRAMINGS)
            framing, content = [text % ((len(body),) * text.count(b"%d")) + self._end()], body
        elif kind < 0.9:
            framing, content = (
                [rng.choice(CODINGS[:3] if rng.random() < 0.6 else CODINGS) + self._end()],
                self._chunks(body),
            )
        else:
            content = body
        headers = [*self._headers(0.25), *framing]
        rng.shuffle(headers)
        status = rng.choice(STATUS_LINES[:3]) if rng.random() < 0.75 else rng.choice(STATUS_LINES)
        more = rng.choice((b"",) * 8 + (b"x", b"\r\n"))
        return status + self._end() + b"".join(headers) + self._end() + content + more

    def _chunks(self, body: bytes) -> bytes:
        rng = self.rng
        pieces: list[bytes] = []
        while body:
            size = rng.randint(1, len(body))
            text = rng.choice(CHUNK_SIZES[:4]) if rng.random() < 0.9 else rng.choice(CHUNK_SIZES)
            pieces += [
                text % ((size,) * text.count(b"%x") + (size,) * text.count(b"%X")),
                self._end(),
                body[:size],
                self._end(),
            ]
            body = body[size:]
        return (
            b"".join(pieces)
            + rng.choice((b"0", b"0", b"0", b"00", b"0;x", b"0 "))
            + self._end()
            + rng.choice(TRAILERS)
            + self._end()
        )

    def _mutate(self, data: bytes) -> bytes:
        rng = self.rng
        at = rng.randrange(len(data) + 1)
        odd = bytes([rng.choice(ODD_BYTES)])
        return rng.choice(
            (data[:at] + odd + data[at:], data[:at] + odd + data[at + 1 :], data[:at] + data[at + 1 :], data[:at])
        )


class ParserReport(NamedTuple):
    """The number of responses compared, their outcomes, and the first differences between the parsers."""

    outcomes: Counter[str]
    differences: list[tuple[str, bytes]]


def run(count: int, seed: int) -> ParserReport:
    """Compare both parsers on *count* responses."""
    return asyncio.run(_run(count, seed))


async def _run(count: int, seed: int) -> ParserReport:
    generator = AnswerGenerator(seed)
    outcomes: Counter[str] = Counter()
    differences: list[tuple[str, bytes]] = []
    for _ in range(count):
        data = generator.answer()
        theirs, ours = parse_h11(data), await parse_ours(generator.split(data))
        if ours is not None and theirs is None:
            kind = "accepted where h11 refuses"
        elif ours is None:
            kind = "both refuse" if theirs is None else "refused where h11 accepts"
        else:
            kind = "equal" if theirs is not None and _normalize(ours) == _normalize(theirs) else "read differently"
        outcomes[kind] += 1
        if kind in ("accepted where h11 refuses", "read differently") and len(differences) < 100:
            differences.append((kind, data))
    return ParserReport(outcomes, differences)


def _normalize(answer: ParsedResponse) -> ParsedResponse:
    """Return the response with transfer codings in lower case, which is how h11 reports them."""
    headers = {name: value.lower() if name == "transfer-encoding" else value for name, value in answer.headers.items()}
    return answer._replace(headers=headers)
