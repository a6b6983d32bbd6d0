"""Amplification cases for hostile input from providers, subscriptions, tool lists and sign-in servers."""

# pyright: basic

import asyncio
import contextlib
import gzip
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_host import Work, host_case


async def provided(meter: Meter, body: bytes, headers: dict[str, str]) -> None:
    """Measure reading the lines of a provider's response in the same way as the model worker reads them."""
    import httpx

    from mcphost.llm.answer_limits import AnswerTooLong
    from mcphost.llm.response_limits import limit_responses

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 64 * 1024):
            yield body[start : start + 64 * 1024]

    limit_responses(httpx.Response)
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


@case("subscription: 230,000 acknowledged addresses", size=3 * MB)
async def acknowledged(meter: Meter, size: int) -> None:
    from mcphost.client.subscriptions import SubscriptionStream
    from mcphost.protocol.jsonrpc import JsonRpcNotification
    from mcphost.protocol.notifications import SubscriptionFilter
    from mcphost.serialization import Raw

    del size
    body = b'{"notifications":{"resourceSubscriptions":[' + b",".join([b'"a:12345"'] * 230_000) + b"]}}"
    message = JsonRpcNotification("notifications/subscriptions/acknowledged", Raw(body))
    wanted = SubscriptionFilter(resource_subscriptions=tuple(f"a:{number}" for number in range(1_000)))

    @contextlib.asynccontextmanager
    async def opened(_wanted: SubscriptionFilter) -> AsyncIterator[AsyncIterator[JsonRpcNotification]]:
        async def messages() -> AsyncIterator[JsonRpcNotification]:
            yield message

        yield messages()

    owner = SimpleNamespace(open_stream=opened, server="s")
    with meter.measuring(len(body)):
        await SubscriptionStream(cast("Any", owner), "resources", wanted, None)._listen()  # pyright: ignore[reportPrivateUsage]


@case("session: 12 MB of inputRequests", size=12 * MB)
async def many_inputs(meter: Meter, size: int) -> None:
    from mcphost.protocol.server_requests import InputRequiredResult, parse_input_requests
    from mcphost.serialization import Raw, decode
    from mcphost.transport.flow_control import run_steps_cooperatively

    members = b",".join(b'"%d":{"method":"roots/list"}' % number for number in range(size // 30))
    raw = Raw(b'{"resultType":"input_required","inputRequests":{' + members + b"}}")
    with meter.measuring(len(raw)):
        await run_steps_cooperatively(parse_input_requests(decode(raw, InputRequiredResult).input_requests))


@case("tools: 15 MB of definitions that all changed", size=15 * MB)
async def changed_tools(meter: Meter, size: int) -> None:
    from mcphost.config.schema import ServerConfig
    from mcphost.host.audit.audit_log import create_in_memory_log
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.catalog import ServerListing, ToolDefinition
    from mcphost.host.servers.tool_changes import ToolChangeTrackerFactory
    from mcphost.serialization import Raw
    from mcphost.store.accepted_tools import ToolFingerprintStore
    from mcphost.store.database import Database

    def offers(word: bytes) -> ServerListing:
        text = b"%s " % word * 12_000
        raws = {f"t{n}": b'{"name":"t%d","description":"%s"}' % (n, text) for n in range(size // len(text))}
        return ServerListing(tools={name: ToolDefinition(name, Raw(raw)) for name, raw in raws.items()})

    async def follow(*words: str) -> None:
        """Do nothing, because no grant exists."""

    with tempfile.TemporaryDirectory() as folder:
        pins = ToolFingerprintStore(Database(Path(folder) / "store.db"))
        drift = ToolChangeTrackerFactory(pins, RefusingFrontend(), print, follow, create_in_memory_log()).create(
            ServerConfig(name="s"), print
        )
        await drift.compare_first(offers(b"good"))
        now = offers(b"evil")
        with meter.measuring(sum(len(bytes(tool.raw)) for tool in now.tools.values())):
            drift.compare(now, await drift.compute_digests(now))
            print(len(drift.quarantined))


@case("sign-in: interim answers without end", size=1 * MB)
async def interim_answers(meter: Meter, size: int) -> None:
    import httpx

    from mcphost.auth.oauth_http import OAuthHttpClient
    from mcphost.auth.url_policy import UrlPolicy

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 103 x\r\n\r\n" * (size // 18))
            await writer.drain()
        writer.close()

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    del httpx  # loaded before measuring begins
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        requests = OAuthHttpClient(UrlPolicy(url, resolver=resolve, allow_private=True))
        with meter.measuring(size):
            await requests.get(url, "document")


def elicited(schema: dict[str, Any]) -> tuple[int, Work]:
    """Return the size of *schema* and a function that parses it as the form of an elicitation by a server."""
    from mcphost.client.session import ServerRequestContext
    from mcphost.host.questions.questions import Decline, FillForm
    from mcphost.host.server_requests.elicitation import ElicitationHandler
    from mcphost.protocol.revisions import Revision
    from mcphost.protocol.server_requests import Elicit
    from mcphost.serialization import Raw, encode

    async def ask(question: object) -> object:
        return question and Decline()

    raw = Raw(encode(schema))
    front = cast("Any", SimpleNamespace(kinds=frozenset({FillForm.KIND}), ask=ask))
    elicitation = ElicitationHandler("s", front, lambda text, hint: None)

    async def work() -> object:
        form = Elicit(message="?", requested_schema=raw)
        return await elicitation.answer(form, "", ServerRequestContext(revision=Revision.V2025_11_25))

    return len(bytes(raw)), work


@host_case
def form_of_combining_marks() -> tuple[int, Work]:
    marks = "a" + "\u0315\u0300" * 2_400
    fields = {f"f{n}": {"type": "string", "title": marks, "description": marks} for n in range(3)}
    return elicited({"type": "object", "properties": fields})


@host_case
def form_with_a_long_default() -> tuple[int, Work]:
    options = [f"{n:x}" for n in range(999)] + ["z"]
    field = {"type": "array", "items": {"type": "string", "enum": options}, "default": ["z"] * 60_000}
    return elicited({"type": "object", "properties": {"a": field}})


def attached(text: str) -> tuple[int, Work]:
    """Return the size of *text* and a function that removes hidden text from it as an attached resource."""
    from mcphost.host.message_text import clean_parts
    from mcphost.llm.messages import ResourcePart

    part = ResourcePart("s", "x://a", text)

    async def work() -> object:
        return await clean_parts((part,))

    return len(text.encode()), work


@host_case
def attachment_of_plain_text() -> tuple[int, Work]:
    return attached("the tide is high\n" * 900_000)


@host_case
def attachment_of_ideographs() -> tuple[int, Work]:
    return attached("潮水很高了" * 1_000_000)


@host_case
def attachment_of_tags_between_letters() -> tuple[int, Work]:
    return attached("a\U000e0041" * 3_000_000)
