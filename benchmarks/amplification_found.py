"""Hostile input of providers, subscriptions, tool lists and sign-in servers (see `amplification`)."""

import contextlib
import gzip
from collections.abc import AsyncIterator

from benchmarks.amplification import MB, Meter, case


async def provided(meter: Meter, body: bytes, headers: dict[str, str]) -> None:
    """Read the lines of a provider's answer as the model worker does."""
    import httpx

    from mcphost.llm.answer_limits import AnswerTooLong
    from mcphost.llm.response_bounds import install

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 64 * 1024):
            yield body[start : start + 64 * 1024]

    install(httpx.Response)
    request = httpx.Request("POST", "http://provider.example/")
    response = httpx.Response(200, headers=headers, content=stream(), request=request)
    with meter.measuring(len(body)):
        count = 0
        with contextlib.suppress(AnswerTooLong):
            async for _line in response.aiter_lines():
                count += 1
        print(count)


EVENTS = {"content-type": "text/event-stream"}


@case("provider: 20 MB of empty lines", size=20 * MB)
async def empty_lines(meter: Meter, size: int) -> None:
    await provided(meter, b"\n" * size, EVENTS)


@case("provider: 20 MB of comments", size=20 * MB)
async def comments(meter: Meter, size: int) -> None:
    await provided(meter, b":\n" * (size // 2), EVENTS)


@case("provider: 200 MB of comments in 200 kB of gzip", size=1 * MB)
async def packed_comments(meter: Meter, size: int) -> None:
    packed = gzip.compress(b":\n" * (100 * size), 9)
    await provided(meter, packed, {**EVENTS, "content-encoding": "gzip"})


@case("provider: 200 MB of long lines in 200 kB of gzip", size=1 * MB)
async def packed_events(meter: Meter, size: int) -> None:
    packed = gzip.compress(b'data: {"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}\n\n' * (size * 7 // 2), 9)
    await provided(meter, packed, {**EVENTS, "content-encoding": "gzip"})
