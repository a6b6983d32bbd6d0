"""Amplification cases for hostile input to a session: lists, prompts, resources, notifications and instructions."""

# pyright: basic

import asyncio
from typing import Any

from benchmarks.amplification import MB, Meter, case
from benchmarks.amplification_wire import array, session_with

LISTS: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}


def page(member: str, entry: bytes, size: int, more: bytes = b"") -> bytes:
    return b'{"%s":' % member.encode() + array(entry, size) + more + b"}"


async def listed(meter: Meter, body: bytes, fed: int) -> None:
    """Measure listing all tools of a server that sends *body* as every page of the list."""
    from mcphost.client.pagination import list_tools

    async with session_with({"tools/list": body}, LISTS) as session:
        with meter.measuring(fed):
            found = await list_tools(session)
            print(len(found.entries), found.problems[-1:])


async def answered(meter: Meter, method: str, body: bytes) -> None:
    """Measure sending one request to which the server responds with *body*."""
    from mcphost.protocol.prompts import Complete, CompletionArgument, GetPrompt, PromptReference
    from mcphost.protocol.resources import ReadResource
    from mcphost.protocol.tools import CallTool

    calls: dict[str, Any] = {
        "prompts/get": GetPrompt("x"),
        "resources/read": ReadResource("x:y"),
        "completion/complete": Complete(PromptReference("x"), CompletionArgument("a", "b")),
        "tools/call": CallTool("x"),
    }
    size = len(body)
    async with session_with({method: body}, LISTS) as session:
        del body
        with meter.measuring(size):
            kept = await session.request(calls[method])
            print(type(kept))


@case("session: 40 pages of 12 MB in their cursors", size=480 * MB)
async def cursors(meter: Meter, size: int) -> None:
    cursor = b',"nextCursor":"%N%' + b"c" * 12 * MB + b'"'
    await listed(meter, page("tools", b'{"name":"a"}', 20, cursor), 12 * MB)


@case("session: 20 pages of 2 MB of tools", size=40 * MB)
async def pages(meter: Meter, size: int) -> None:
    entry = b'{"name":"a%N%","description":"' + b"d" * 20_000 + b'"}'
    await listed(meter, page("tools", entry, 2 * MB, b',"nextCursor":"%N%"'), 16 * MB)


@case("session: a page of tools that are empty objects", size=5 * MB)
async def empty_tools(meter: Meter, size: int) -> None:
    await listed(meter, page("tools", b"{}", 700_000), 700_000)


@case("session: 10,000 broken tools", size=1 * MB)
async def broken_tools(meter: Meter, size: int) -> None:
    await listed(meter, page("tools", b'{"name":1,"description":"' + b"d" * 70 + b'"}', size), size)


@case("session: 400,000 prompt messages", size=15 * MB)
async def prompt_messages(meter: Meter, size: int) -> None:
    await answered(meter, "prompts/get", page("messages", b'{"role":"user","content":{}}', 12 * MB))


@case("session: 60,000 prompt messages", size=2 * MB)
async def some_prompt_messages(meter: Meter, size: int) -> None:
    await answered(meter, "prompts/get", page("messages", b'{"role":"user","content":{}}', size))


@case("session: 1,000,000 resource contents", size=11 * MB)
async def contents(meter: Meter, size: int) -> None:
    await answered(meter, "resources/read", page("contents", b'{"uri":"a"}', size))


@case("session: 100,000 resource contents", size=1 * MB)
async def some_contents(meter: Meter, size: int) -> None:
    await answered(meter, "resources/read", page("contents", b'{"uri":"a"}', size))


@case("session: 200,000 completion values", size=1 * MB)
async def completions(meter: Meter, size: int) -> None:
    values = b'{"completion":{"values":' + array(b'"ab"', size) + b"}}"
    await answered(meter, "completion/complete", values)


@case("session: a result of 15 MB of text with one four-byte character", size=15 * MB)
async def wide_text(meter: Meter, size: int) -> None:
    text = b'{"content":[{"type":"text","text":"' + b"a" * size + "😀".encode() + b'"}]}'
    await answered(meter, "tools/call", text)


FLOODS = {
    "log messages": b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n',
    "the shortest notifications": b'{"jsonrpc":"2.0","method":"x"}\n',
    "changed lists": b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n',
    "updated resources": b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}\n',
    "cancellations": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}\n',
    "broken notifications": b'{"jsonrpc":"2.0","method":"notifications/progress","params":[]}\n',
    "ends of elicitations": b'{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{}}\n',
    "task states": b'{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"a"}}\n',
}


def _flood_case(name: str, line: bytes) -> None:
    @case(f"session: a flood of {name}", size=10 * MB)
    async def entry(meter: Meter, size: int) -> None:
        from mcphost.protocol.tools import CallTool

        flood = line * (size // len(line))
        end = b"{}"
        answers = {
            "tools/call": b'{"content":[]}}\n' + flood[: -len(line)] + b'{"jsonrpc":"2.0","id":0,"result":' + end
        }
        async with session_with({**answers, "ping": end}, LISTS) as session:
            with meter.measuring(size):
                await session.request(CallTool("x"))
                # The answer to a second call comes behind the flood.
                await session.request(CallTool("x"))


for _name, _line in FLOODS.items():
    _flood_case(_name, _line)


@case("session: instructions of 15 MB", size=15 * MB)
async def instructions(meter: Meter, size: int) -> None:
    from mcphost.protocol.jsonrpc import JsonRpcResponse, parse_message
    from mcphost.protocol.lifecycle import InitializeResult, parse_implementation
    from mcphost.serialization import decode

    body = (
        b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"experimental":'
        + array(b"[]", 700_000)
        + b'},"serverInfo":{"name":"'
        + b"n" * (size // 2)
        + b'"},"instructions":"'
        + b"i" * (size // 2)
        + b'"}}'
    )
    with meter.measuring(len(body)):
        message = parse_message(body)
        assert isinstance(message, JsonRpcResponse)
        found = decode(message.result, InitializeResult)
        kept = parse_implementation(found.server_info)
        print(len(kept.name))


@case("session: updates beside 100 watched resources that were read", size=10 * MB)
async def updates_of_watched_resources(meter: Meter, size: int) -> None:
    from mcphost.client.result_cache import ChangeNotifications, ResultCache
    from mcphost.client.session import WatchedChanges
    from mcphost.protocol.notifications import parse_notification
    from mcphost.protocol.resources import ReadResource, ReadResourceResult
    from mcphost.serialization import Raw

    cache = ResultCache()
    for number in range(100):
        read = ReadResourceResult(ttl_ms=600_000, cache_scope="public")
        cache.put(ReadResource("a:" + "/" * number), read, 100)
    changes = ChangeNotifications(cache.handle_notification)
    changes.wanted = WatchedChanges(uris=tuple("a:" + "/" * number for number in range(100)))
    line = FLOODS["updated resources"]
    with meter.measuring(size):
        for number in range(size // len(line)):
            notice = parse_notification("notifications/resources/updated", Raw(b'{"uri":"b:%d"}' % number))
            assert notice is not None
            changes.put(notice)
            if number % 500 == 0:
                await asyncio.sleep(0)


@case("session: 1,000 changes of 10 attached resources of 1,000 items", size=1 * MB)
async def changes_of_attached_resources(meter: Meter, size: int) -> None:
    from mcphost.host.conversation.resource_changes import MAX_TRACKED, ResourceVersions
    from mcphost.llm.messages import Message, ResourcePart

    parts = tuple(ResourcePart("s", f"x:/{number}", "text") for number in range(10_000))
    messages = [Message(role="user", parts=parts[at : at + 1_000], at=1.0) for at in range(0, 10_000, 1_000)]
    versions = ResourceVersions()
    with meter.measuring(size):
        for number in range(MAX_TRACKED):
            versions.note_change("s", f"x:/{number}")
        print(len(versions.find_outdated(messages)))


def _update_case(name: str, before: str, after: str) -> None:
    @case(f"session: an update of a resource of {name}", size=len(before) + len(after))
    async def entry(meter: Meter, size: int) -> None:
        import anyio.to_thread

        from mcphost.host.conversation.resource_changes import SentResource, make_update
        from mcphost.llm.messages import ResourcePart

        await anyio.to_thread.run_sync(int)  # the first thread of a process costs more
        sent, newer = SentResource(ResourcePart("s", "x:y", before), 1.0, 0), ResourcePart("s", "x:y", after)
        with meter.measuring(size):
            kept = await anyio.to_thread.run_sync(make_update, sent, newer, 0)
            print(type(kept))


for _name, _before, _after in (
    ("a million empty lines", "\n" * 999_999, "x" + "\n" * 999_000),
    ("few lines in many orders", "a\nb\nc\n" * 300, "c\na\nb\n" * 330),
    ("140,000 moved lines", *("\n".join(str(n) for n in range(at, at + 140_000)) for at in (0, 1))),
    ("15 MB", "x\n" * 50, "x\n" * 7_500_000),
):
    _update_case(_name, _before, _after)
