"""Tests for the result cache and its expiry in a stateless session with a manual clock."""

from typing import Any, ClassVar

import anyio
import pytest

from mcphost.client import result_cache
from mcphost.client.pagination import list_tools
from mcphost.client.result_cache import ChangeNotifications, ResultCache
from mcphost.client.session import WatchedChanges
from mcphost.protocol.apps import ReadPage, ReadPageResult
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcResponse
from mcphost.protocol.lifecycle import Discover
from mcphost.protocol.notifications import ResourceUpdatedNotification
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.resources import ListResources, ListResourceTemplates, ReadResource, ReadResourceResult
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ElicitResult
from mcphost.protocol.tools import CallTool, ListTools, ListToolsResult
from mcphost.serialization import Raw, encode
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_session import SubscriptionServer, open_scripted_session

pytestmark = pytest.mark.anyio
EVERY: list[ClientRequest[Any]] = [
    Discover(),
    ListTools(),
    ListPrompts(),
    ListResources(),
    ListResourceTemplates(),
    ReadResource("a:1"),
]


class CacheClock:
    """The clock of the cache, set by the test."""

    now = 1000.0


@pytest.fixture(autouse=True)
def cache_clock(monkeypatch: pytest.MonkeyPatch) -> CacheClock:
    made = CacheClock()
    monkeypatch.setattr(result_cache, "now", lambda: made.now)
    return made


def cacheable_result(ttl: Any, scope: str = "private", **more: Any) -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": ttl, "cacheScope": scope, **more}


@pytest.mark.req("cache.fresh")
@pytest.mark.req("cache.stale-refetch")
@pytest.mark.req("cache.no-polling")
@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.METHOD)
async def test_a_result_is_used_again_until_its_time_ran_out_and_then_asked_for_once(
    call: ClientRequest[Any], cache_clock: CacheClock
) -> None:
    async with open_scripted_session(lambda *_: cacheable_result(5000)) as (session, requests, _):
        first = await session.request(call)
        cache_clock.now += 4.9
        assert await session.request(call) is first
        assert len(requests) == 1
        cache_clock.now += 0.2
        await anyio.wait_all_tasks_blocked()
        assert len(requests) == 1  # no request before it is needed
        await session.request(call)
        await session.request(call)
        assert len(requests) == 2


@pytest.mark.req("cache.zero")
@pytest.mark.parametrize("ttl", [0, -1, -1e9, None, 0.0])
async def test_without_time_to_live_every_use_asks(ttl: Any) -> None:
    answer = cacheable_result(ttl)
    if ttl is None:
        del answer["ttlMs"]
    async with open_scripted_session(lambda *_: answer) as (session, requests, _):
        for _ in range(3):
            await session.request(ListTools())
    assert len(requests) == 3


@pytest.mark.req("cache.key")
async def test_another_address_cursor_or_method_gets_its_own_answer() -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        return cacheable_result(60_000, contents=[{"uri": params.get("uri", ""), "text": str(params.get("uri"))}])

    calls: list[ClientRequest[Any]] = [ReadResource("a:1"), ReadResource("a:2"), ReadResource("A:1"), ListTools(),
                              ListTools(cursor=""), ListTools(cursor="x"), ListPrompts()]  # fmt: skip
    async with open_scripted_session(server) as (session, requests, _):
        for _ in range(2):
            for call in calls:
                result = await session.request(call)
                if isinstance(result, ReadResourceResult) and isinstance(call, ReadResource):
                    assert result.contents[0].text == call.uri
        await session.request(CallTool("t"))
        await session.request(CallTool("t"))
    assert len(requests) == len(calls) + 2


@pytest.mark.req("cache.no-mrtr")
async def test_results_that_took_input_are_never_cached() -> None:
    question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}

    def server(method: str, params: dict[str, Any]) -> Any:
        if "inputResponses" in params:
            return cacheable_result(60_000, contents=[])
        return {**cacheable_result(60_000), "resultType": "input_required", "inputRequests": {"a": question}}

    answers = FakeRequestHandler({"elicitation/create": ElicitResult("accept", {})})
    async with open_scripted_session(server, answers=answers) as (session, requests, _):
        await session.request(ReadResource("a:1"))
        await session.request(ReadResource("a:1"))
    assert len(requests) == 4


@pytest.mark.req("cache.private")
@pytest.mark.req("cache.public")
async def test_a_private_result_is_never_shared_but_a_public_one_may_be() -> None:
    who = "first"
    memory = ResultCache(lambda: who)
    memory.put(ReadResource("mine"), ReadResourceResult(ttl_ms=60_000, cache_scope="private"), 10)
    memory.put(ReadResource("odd"), ReadResourceResult(ttl_ms=60_000, cache_scope="whatever"), 10)
    memory.put(ReadResource("all"), ReadResourceResult(ttl_ms=60_000, cache_scope="public"), 10)
    assert all(memory.get(ReadResource(uri)) for uri in ("mine", "odd", "all"))
    who = "second"
    assert memory.get(ReadResource("mine")) is None
    assert memory.get(ReadResource("odd")) is None
    assert memory.get(ReadResource("all")) is not None
    memory.put(ReadResource("late"), ReadResourceResult(ttl_ms=60_000, cache_scope="private"), 10, requester="first")
    assert memory.get(ReadResource("late")) is None  # requested first, but it arrived after the change
    who = "first"
    memory.put(ReadResource("all"), ReadResourceResult(ttl_ms=60_000, cache_scope="private"), 10)
    who = "second"
    assert memory.get(ReadResource("all")) is None


@pytest.mark.req("cache.notification")
async def test_an_announced_change_invalidates_only_what_it_concerns() -> None:
    server = SubscriptionServer(lambda *_: cacheable_result(60_000))
    reads: list[ClientRequest[Any]] = [ReadResource("a://1"), ReadResource("a://2")]
    lists: list[ClientRequest[Any]] = [
        ListTools(),
        ListTools(cursor="2"),
        ListPrompts(),
        ListResources(),
        ListResourceTemplates(),
    ]
    told = {
        "notifications/tools/list_changed": [ListTools(), ListTools(cursor="2")],
        "notifications/prompts/list_changed": [ListPrompts()],
        "notifications/resources/list_changed": [ListResources(), ListResourceTemplates()],
        "notifications/resources/updated": [ReadResource("a://1")],
    }
    async with open_scripted_session(server) as (session, _, _):
        await session.watch(WatchedChanges(True, True, True, ("a://1",)))
        await server.until(2)
        changes = session.changes(WatchedChanges(True, True, True, ("a://1",)))
        for method, stale in told.items():
            for call in (*reads, *lists):
                await session.request(call)
            ident = next(
                item["id"] for item in server.opened if ("resourceSubscriptions" in item) == ("updated" in method)
            )
            server.say(ident, method, uri="a://1/part")
            await anext(changes)
            assert [call for call in (*reads, *lists) if not session.is_cached(call)] == stale


@pytest.mark.req("cache.notification")
@pytest.mark.parametrize("how", ["told", "forgotten"])
async def test_a_list_that_was_on_its_way_when_it_changed_is_not_remembered(how: str) -> None:
    late: list[bool] = []
    server = SubscriptionServer(lambda *_: None if not late else cacheable_result(60_000))
    async with open_scripted_session(server) as (session, requests, pipe):
        await session.watch(WatchedChanges(tools=True))
        await server.until(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.request, ListTools())
            await anyio.wait_all_tasks_blocked()
            if how == "told":
                server.say(server.opened[0]["id"], "notifications/tools/list_changed")
            else:
                session.invalidate()
            await anyio.wait_all_tasks_blocked()
            late.append(True)
            asked = next(message for message in requests if message["method"] == "tools/list")
            pipe.send(JsonRpcResponse(asked["id"], Raw(encode(cacheable_result(60_000)))))
        assert not session.is_cached(ListTools())
        await session.request(ListTools())
        assert session.is_cached(ListTools())


async def test_expired_entries_are_requested_again() -> None:
    async with open_scripted_session(lambda *_: cacheable_result(60_000)) as (session, requests, _):
        for call in (ListTools(), ListPrompts()):
            await session.request(call)
        session.invalidate("tools/list")
        assert [session.is_cached(call) for call in (ListTools(), ListPrompts(), CallTool("t"))] == [False, True, False]
        session.invalidate()
        assert not session.is_cached(ListPrompts())
    assert len(requests) == 2


@pytest.mark.req("cache.pages")
async def test_a_list_of_which_a_page_ran_out_is_read_from_the_start(cache_clock: CacheClock) -> None:
    version = 1

    def server(method: str, params: dict[str, Any]) -> Any:
        page = params.get("cursor", "1")
        name = f"{page} of version {version}"
        tool = {"name": name, "inputSchema": {"type": "object"}}
        return cacheable_result({"1": 9000, "2": 3000, "3": 9000}[page], tools=[tool], **(
            {} if page == "3" else {"nextCursor": str(int(page) + 1)}))  # fmt: skip

    async with open_scripted_session(server) as (session, requests, _):
        first = await list_tools(session)
        assert first.ttl_ms == 3000
        assert (await list_tools(session)).values == first.values
        assert len(requests) == 3
        version = 2
        cache_clock.now += 4
        again = [tool.name for tool in (await list_tools(session)).values]
    assert again == [f"{page} of version 2" for page in (1, 2, 3)]


@pytest.mark.req("page.invalid")
@pytest.mark.parametrize("times", [1, 2, 100])
async def test_an_invalid_cursor_restarts_the_list_a_bounded_number_of_times(times: int) -> None:
    refusals = 0

    def server(method: str, params: dict[str, Any]) -> Any:
        nonlocal refusals
        if "cursor" not in params:
            return cacheable_result(60_000, tools=[{"name": "a"}], nextCursor="next")
        refusals += 1
        return ErrorData(-32602, "expired") if refusals <= times else cacheable_result(0, tools=[{"name": "b"}])

    async with open_scripted_session(server) as (session, requests, _):
        found = await list_tools(session)
    if times < 3:
        assert ([tool.name for tool in found.values], found.problems) == (["a", "b"], ())
        assert len(requests) == 2 * (times + 1)
    else:
        assert [tool.name for tool in found.values] == ["a"]
        assert "rejects its own cursor" in found.problems[0]
        assert len(requests) == 6


@pytest.mark.req("cache.legacy-none")
async def test_a_server_of_the_handshake_era_is_always_asked_when_a_list_is_wanted() -> None:
    async with open_scripted_session(lambda *_: cacheable_result(60_000), Revision.V2025_11_25) as (
        session,
        requests,
        _,
    ):
        await session.request(ListTools())
        await session.request(ListTools())
        assert not session.is_cached(ListTools())
        session.invalidate()
    assert len(requests) == 2


async def test_memory_is_bounded_in_entries_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MAX_ENTRIES", 10)
    monkeypatch.setattr(result_cache, "MAX_BYTES", 1000)
    memory = ResultCache()
    for number in range(50):
        memory.put(ReadResource(str(number)), ReadResourceResult(ttl_ms=1e300), 20)
    assert [number for number in range(50) if memory.get(ReadResource(str(number)))] == list(range(40, 50))
    memory.put(ReadResource("huge"), ReadResourceResult(ttl_ms=60_000), 251)
    assert memory.get(ReadResource("huge")) is None
    for number in range(4):
        memory.put(ReadResource(f"big {number}"), ReadResourceResult(ttl_ms=60_000), 250)
    assert memory.get(ReadResource("49")) is None
    assert memory.get(ReadResource("big 0")) is not None


async def test_entries_of_a_cached_page_count_in_addition_to_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "MAX_BYTES", 1000 * result_cache.ENTRY_BYTES)
    memory = ResultCache()
    for number in range(10):
        memory.put(ListTools(str(number)), ListToolsResult(ttl_ms=60_000, tools=(Raw(b"{}"),) * 200), 10)
    assert [number for number in range(10) if memory.get(ListTools(str(number)))] == list(range(6, 10))


async def test_an_update_drops_what_a_page_read_of_the_resource() -> None:
    cache = ResultCache()
    page, result = ReadPageResult(ttl_ms=60_000), ReadResourceResult(ttl_ms=60_000)
    cache.put(ReadPage("x:/1"), page, 100)
    cache.put(ReadResource("x:/1"), result, 100)
    assert cache.get(ReadPage("x:/1")) is page
    assert cache.get(ReadResource("x:/1")) is result
    cache.handle_notification(ResourceUpdatedNotification("x:/1"))
    assert cache.get(ReadPage("x:/1")) is None
    assert cache.get(ReadResource("x:/1")) is None


class CountingUri(str):
    """A URI that counts how often `startswith` is called on any URI of this class."""

    __slots__ = ()
    comparisons: ClassVar[int] = 0

    def startswith(self, *arguments: Any) -> bool:
        CountingUri.comparisons += 1
        return super().startswith(*arguments)


async def test_an_update_is_not_compared_with_each_cached_and_watched_resource() -> None:
    cache = ResultCache()
    result = ReadResourceResult(ttl_ms=60_000, cache_scope="public")
    uris = tuple(f"x:/{number}" for number in range(500))
    for uri in uris:
        cache.put(ReadResource(uri), result, 100)
    changes = ChangeNotifications(cache.handle_notification)
    changes.wanted = WatchedChanges(uris=uris)
    assert not changes.put(ResourceUpdatedNotification(CountingUri("x:/other")))
    assert changes.put(ResourceUpdatedNotification(CountingUri("x:/7?page=2")))
    assert CountingUri.comparisons < 10
    assert cache.get(ReadResource("x:/7")) is None
    assert cache.get(ReadResource("x:/8")) == result
