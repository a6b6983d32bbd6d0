"""Amplification cases for hostile HTTP responses while the messages of a server are logged."""

# pyright: basic

import asyncio

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_wire import ANSWER, DEADLINE, file_of, silent, started

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
MAX_HEAD = 63_000


async def logged(meter: Meter, headers: bytes) -> None:
    """Measure receiving a response with *headers*, logging it and showing it on the messages page."""
    import anyio

    from mcphost.http_log import show_headers
    from mcphost.message_log import MessageLog
    from mcphost.protocol.jsonrpc import JsonRpcRequest
    from mcphost.transport.streamable_http import HttpConnector
    from mcphost.tui.screens.message_rows import EntryDescriber

    with file_of(HEAD + headers + b"\r\n" + ANSWER) as name, started("hostile_http.py", name) as port:
        connector = HttpConnector("hostile", f"http://127.0.0.1:{port}/mcp", {}, warn=silent)
        connector.message_log = log = MessageLog()
        async with connector.connect() as channel:
            with meter.measuring(len(headers)), anyio.fail_after(DEADLINE):
                async with channel.exchange(JsonRpcRequest(1, "tools/call")) as messages:
                    _kept = [message async for message in messages]
                _rows = EntryDescriber().describe(log.messages(), log.exchanges())
                _shown = [await anyio.to_thread.run_sync(show_headers, one.response_headers) for one in log.exchanges()]


def header_lines(name: bytes, value: bytes, size: int) -> bytes:
    """Return header lines of *size* bytes, each with its own name and a value of at most 2,000 bytes."""
    line = (value * (2_000 // len(value) + 1))[:2_000]
    return b"".join(b"%s%d: %s\r\n" % (name, number, line) for number in range(size // 2_020))


@case("HTTP log: long headers that resemble secrets", size=MAX_HEAD)
async def _(meter: Meter, size: int) -> None:
    await logged(meter, header_lines(b"x-note-", b'token="', size))


@case("HTTP log: many short headers", size=4_000)
async def _(meter: Meter, size: int) -> None:
    await logged(meter, b"".join(b"x-%d: %d\r\n" % (number, number) for number in range(min(250, size // 14))))


@case("HTTP log: a challenge of many parameters", size=MAX_HEAD)
async def _(meter: Meter, size: int) -> None:
    await logged(meter, b"www-authenticate: Bearer " + b"a=b," * (size // 4) + b"\r\n")


@case("HTTP log: addresses of many exchanges, listed", size=2 * MB)
async def _(meter: Meter, size: int) -> None:
    from mcphost.message_log import MessageLog
    from mcphost.tui.screens.message_rows import EntryDescriber

    log = MessageLog()
    addresses = [f"https://h.example/{number}/" + "token=" * 650 for number in range(size // 4_000)]
    with meter.measuring(size):
        for address in addresses:
            log.add_exchange("POST", address, (), b"").end("failed", address)
            await asyncio.sleep(0)  # the next redirect has to arrive
        _rows = EntryDescriber().describe(log.messages(), log.exchanges())
