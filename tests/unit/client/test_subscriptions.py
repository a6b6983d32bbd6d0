"""Tests for change notifications in both eras, over an in-process pipe."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcphost.client import subscriptions
from mcphost.client.result_cache import ChangeNotifications
from mcphost.client.session import Session, WatchedChanges
from mcphost.client.subscriptions import intersect_filters
from mcphost.errors import ConnectionLost, MalformedMessage, RequestRefused, RequestTimeout, UnsupportedCapability
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import ErrorData, JsonRpcErrorResponse, JsonRpcMessage, JsonRpcNotification
from mcphost.protocol.lifecycle import ListCapability, ServerCapabilities
from mcphost.protocol.notifications import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscriptionFilter,
    ToolListChangedNotification,
)
from mcphost.protocol.prompts import ListPrompts
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tools import ListTools
from mcphost.serialization import Raw, encode
from tests.event_loop import wait_until
from tests.unit.client.scripted_session import SubscriptionServer, open_scripted_session

pytestmark = pytest.mark.anyio
OLD = Revision.V2025_11_25
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(subscriptions, "MAX_DELAY", 0.02)


async def first_changes(session: Session, want: WatchedChanges, count: int) -> list[Notification]:
    """Return the next *count* changes, and close the iterator, which ends the subscription."""
    changes: AsyncIterator[Notification] = session.changes(want)
    out = [await anext(changes) for _ in range(count)]
    await changes.aclose()  # type: ignore[attr-defined]
    return out


# -- the handshake era
@pytest.mark.req("res.subscribe.legacy")
async def test_a_resource_is_subscribed_to_and_unsubscribed_from_while_changes_are_read() -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        if method == "resources/subscribe" and params["uri"] == "a:2":
            pipe.send(JsonRpcNotification(UPDATED, Raw(b'{"uri":"a:2"}')))  # before the answer
        return {}

    async with open_scripted_session(server, OLD) as (session, requests, pipe):
        changes = session.changes(WatchedChanges(uris=("a:1",)))
        async with anyio.create_task_group() as tasks:

            async def more() -> None:
                await session.watch(WatchedChanges(uris=("a:1", "a:2")))

            tasks.start_soon(more)
            assert await anext(changes) == ResourceUpdatedNotification("a:2")
        await session.watch(WatchedChanges(uris=("a:2",)))
        pipe.send(JsonRpcNotification(UPDATED, Raw(b'{"uri":"a:1"}')))
        pipe.send(JsonRpcNotification(UPDATED, Raw(b'{"uri":"a:2"}')))
        assert await anext(changes) == ResourceUpdatedNotification("a:2")
        assert session.watched == WatchedChanges(uris=("a:2",))
    assert [(message["method"], message["params"]) for message in requests] == [
        ("resources/subscribe", {"uri": "a:1"}),
        ("resources/subscribe", {"uri": "a:2"}),
        ("resources/unsubscribe", {"uri": "a:1"}),
    ]


@pytest.mark.req("res.subscribe.legacy")
async def test_a_server_that_offers_no_subscriptions_is_not_asked_for_one() -> None:
    capabilities = ServerCapabilities(resources=ListCapability())
    async with open_scripted_session(lambda *_: {}, OLD, capabilities=capabilities) as (session, requests, _):
        with pytest.raises(UnsupportedCapability, match="offers no subscriptions"):
            await session.watch(WatchedChanges(uris=("a:1",)))
    assert requests == []


async def test_a_refused_resource_costs_only_itself() -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        return ErrorData(-32002, "not here") if params.get("uri") == "a:1" else {}

    async with open_scripted_session(server, OLD) as (session, _, pipe):
        with pytest.raises(RequestRefused, match="not here"):
            await session.watch(WatchedChanges(tools=True, uris=("a:1", "a:2")))
        assert session.watched == WatchedChanges(tools=True, uris=("a:2",))
        for uri in (b"a:1", b"a:2"):
            pipe.send(JsonRpcNotification(UPDATED, Raw(b'{"uri":"%s"}' % uri)))
        assert await first_changes(session, WatchedChanges(uris=("a:2",)), 1) == [ResourceUpdatedNotification("a:2")]


@pytest.mark.req("res.updated.sub-resource")
@pytest.mark.parametrize("revision", [OLD, Revision.V2026_07_28])
async def test_updates_below_a_watched_resource_count_but_not_those_of_a_longer_name(revision: Revision) -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server, revision) as (session, _, pipe):
        await session.watch(WatchedChanges(uris=("a://x",)))
        ident = server.opened[0]["id"] if server.opened else 0
        for uri in ("a://xy", "b://x", "a://x/y", "a://x#z"):
            server.say(ident, UPDATED, uri=uri)
        del pipe
        assert await first_changes(session, WatchedChanges(uris=("a://x",)), 2) == [
            ResourceUpdatedNotification("a://x/y"),
            ResourceUpdatedNotification("a://x#z"),
        ]


# -- the stateless era
@pytest.mark.req("sub.listen", "base.core-support")
@pytest.mark.req("sub.by-capability")
@pytest.mark.req("sub.cancel")
@pytest.mark.req("sub.id")
async def test_a_subscription_requests_what_is_wanted_and_offered_and_ends_with_its_reader() -> None:
    server = SubscriptionServer()
    capabilities = ServerCapabilities(tools=ListCapability())
    async with open_scripted_session(server, capabilities=capabilities) as (session, requests, _):
        changes = session.changes(WatchedChanges(tools=True, prompts=True, resources=True, uris=("a:1",)))
        async with anyio.create_task_group() as tasks:

            async def tell() -> None:
                await server.until(1)
                server.say(server.opened[0]["id"], TOOLS)

            tasks.start_soon(tell)
            assert await anext(changes) == ToolListChangedNotification()
        await changes.aclose()  # type: ignore[attr-defined]
        while len(requests) < 2:
            await anyio.lowlevel.checkpoint()
    assert requests[0]["method"] == "subscriptions/listen"
    assert requests[0]["params"]["notifications"] == {"toolsListChanged": True}
    assert requests[1:] == [{"method": "notifications/cancelled", "params": {"requestId": requests[0]["id"]}}]


@pytest.mark.req("sub.by-capability")
async def test_nothing_wanted_or_offered_opens_no_subscription() -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server, capabilities=ServerCapabilities(prompts=ListCapability())) as (
        session,
        requests,
        _,
    ):
        await session.watch(WatchedChanges(tools=True, resources=True))
        with pytest.raises(UnsupportedCapability):
            await session.watch(WatchedChanges(uris=("a:1",)))
        await session.request(ListPrompts())
    assert [message["method"] for message in requests] == ["prompts/list"]


@pytest.mark.req("sub.ack-subset")
@pytest.mark.req("sub.id-unknown", "sub.error")
async def test_a_changed_list_is_noticed_without_subscriptions() -> None:
    offered = ServerCapabilities(tools=ListCapability())
    async with open_scripted_session(lambda *_: {}, capabilities=offered) as (session, requests, pipe):
        changes = session.changes(WatchedChanges(tools=False))
        pipe.send(JsonRpcNotification(UPDATED, Raw(b'{"uri":"a:1"}')))
        pipe.send(JsonRpcNotification(TOOLS, Raw(b'{"_meta":{"io.modelcontextprotocol/subscriptionId":9}}')))
        pipe.send(JsonRpcNotification("notifications/prompts/list_changed"))
        pipe.send(JsonRpcNotification(TOOLS))
        assert [await anext(changes), await anext(changes)] == [
            PromptListChangedNotification(),
            ToolListChangedNotification(),
        ]
        assert requests == []


@pytest.mark.req("sub.id-unknown", "sub.ack")
async def test_acknowledgements_cover_only_what_was_acknowledged_from_then_on() -> None:
    server = SubscriptionServer()
    server.accept_filter = lambda _: None
    async with open_scripted_session(server) as (session, _, pipe):
        changes = session.changes(WatchedChanges(tools=True, prompts=True, resources=True))
        async with anyio.create_task_group() as tasks:

            async def tell() -> None:
                await server.until(1)
                ident = server.opened[0]["id"]
                assert session.watched == WatchedChanges()
                server.say(ident, TOOLS)
                granted = {"promptsListChanged": True, "toolsListChanged": False}
                server.say(ident, "notifications/subscriptions/acknowledged", notifications=granted)
                for other in (str(ident), ident + 1, None):
                    server.say(other, "notifications/prompts/list_changed")
                pipe.send(JsonRpcNotification("notifications/prompts/list_changed"))
                server.say(ident, "notifications/resources/list_changed")
                server.say(ident, TOOLS)
                server.say(ident, UPDATED, uri="a:1")
                server.say(ident, "notifications/progress", progressToken=ident, progress=1)
                server.say(ident, "notifications/message", level="info", data="x")
                server.say(ident, "notifications/prompts/list_changed")

            tasks.start_soon(tell)
            assert await anext(changes) == PromptListChangedNotification()
        assert session.watched == WatchedChanges(prompts=True)
        pipe.disconnect()
        assert [change async for change in changes] == []


@pytest.mark.req("res.subscribe.modern")
@pytest.mark.req("sub.many", "sub.listen")
async def test_watching_more_opens_the_new_subscription_before_the_old_one_is_closed() -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server) as (session, received_requests, _):
        await session.watch(WatchedChanges(tools=True, uris=("a:1",)))
        await session.watch(WatchedChanges(tools=True, uris=("a:1", "a:2")))
        assert session.watched == WatchedChanges(tools=True, uris=("a:1", "a:2"))
        lists, old, new = (
            item["id"] for item in sorted(server.opened, key=lambda item: "toolsListChanged" not in item)
        )
        server.say(new, UPDATED, uri="a:2")
        server.say(lists, TOOLS)
        server.say(new, UPDATED, uri="a:1")
        told = await first_changes(session, WatchedChanges(tools=True, uris=("a:1", "a:2")), 3)
        assert set(told) == {
            ResourceUpdatedNotification("a:2"),
            ToolListChangedNotification(),
            ResourceUpdatedNotification("a:1"),
        }
    cancelled = [
        message["params"]["requestId"]
        for message in received_requests
        if message["method"] == "notifications/cancelled"
    ]
    assert cancelled[0] == old
    requests = [
        message["params"]["notifications"]
        for message in received_requests
        if message["method"] == "subscriptions/listen"
    ]
    assert {"resourceSubscriptions": ["a:1", "a:2"]} in requests
    assert {"toolsListChanged": True} in requests


async def test_a_resource_the_server_does_not_honour_is_reported_and_other_subscriptions_continue() -> None:
    server = SubscriptionServer()

    def honours(expected: dict[str, Any]) -> dict[str, Any]:
        return {"resourceSubscriptions": [uri for uri in expected["resourceSubscriptions"] if uri != "a:2"]}

    server.accept_filter = honours
    async with open_scripted_session(server) as (session, _, _):
        await session.watch(WatchedChanges(uris=("a:1",)))
        with pytest.raises(RequestRefused, match="a:2"):
            await session.watch(WatchedChanges(uris=("a:1", "a:2")))
        await session.watch(WatchedChanges(uris=("a:1",)))
        assert session.watched.uris == ("a:1",)


async def test_a_refused_subscription_keeps_the_previous_one_open() -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server) as (session, requests, pipe):
        await session.watch(WatchedChanges(uris=("a:1",)))
        server.accept_filter = lambda _: None
        async with anyio.create_task_group() as tasks:

            async def refuse() -> None:
                await server.until(2)
                pipe.send(JsonRpcErrorResponse(server.opened[1]["id"], ErrorData(-32602, "no such thing")))

            tasks.start_soon(refuse)
            with pytest.raises(RequestRefused, match="no such thing"):
                await session.watch(WatchedChanges(uris=("a:1", "a:2")))
        server.say(server.opened[0]["id"], UPDATED, uri="a:1")
        assert session.watched.uris == ("a:1",)
        assert not [message for message in requests if message["method"] == "notifications/cancelled"]


async def test_a_subscription_that_was_refused_does_not_come_to_life_later() -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server) as (session, _, pipe):
        await session.watch(WatchedChanges(uris=("a:1",)))
        server.accept_filter = lambda _: None
        async with anyio.create_task_group() as tasks:

            async def refuse() -> None:
                await server.until(2)
                server.accept_filter = lambda expected: expected
                pipe.send(JsonRpcErrorResponse(server.opened[1]["id"], ErrorData(-32603, "busy just now")))

            tasks.start_soon(refuse)
            with pytest.raises(RequestRefused, match="busy just now"):
                await session.watch(WatchedChanges(uris=("a:1", "a:2")))
        with anyio.move_on_after(0.2):  # it was opened again after 0.01 s
            await server.until(3)
        assert len(server.opened) == 2
        assert session.watched.uris == ("a:1",)


async def test_a_server_that_never_acknowledges_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "ACKNOWLEDGE_TIMEOUT", 0.02)
    server = SubscriptionServer()
    server.accept_filter = lambda _: None
    async with open_scripted_session(server) as (session, _, _):
        with pytest.raises(RequestTimeout, match="acknowledge"):
            await session.watch(WatchedChanges(uris=("a:1",)))


@pytest.mark.req("sub.graceful-end", "cancel.receive-modern")
@pytest.mark.req("sub.abrupt-end")
@pytest.mark.parametrize("how", ["response", "cancelled", "both"])
async def test_a_subscription_the_server_ends_is_opened_again_and_its_lists_count_as_changed(how: str) -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server) as (session, requests, pipe):
        changes = session.changes(WatchedChanges(tools=True, resources=True))
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                await server.until(1)
                ident = server.opened[0]["id"]
                if how != "response":
                    pipe.send(JsonRpcNotification("notifications/cancelled", Raw(b'{"requestId":%d}' % ident)))
                if how != "cancelled":
                    server.end(ident)

            tasks.start_soon(end)
            told = {type(await anext(changes)) for _ in range(2)}
        assert told == {ToolListChangedNotification, ResourceListChangedNotification}
        assert len(server.opened) == 2
        assert server.opened[0]["id"] != server.opened[1]["id"]
    assert len([message for message in requests if message["method"] == "subscriptions/listen"]) == 2


@pytest.mark.req("sub.error")
async def test_a_server_that_knows_no_subscriptions_is_asked_once_and_works_on() -> None:
    def server(method: str, params: dict[str, Any]) -> Any:
        return ErrorData(-32601, "no") if method == "subscriptions/listen" else {}

    async with open_scripted_session(server) as (session, requests, _):
        with pytest.raises(RequestRefused, match="no"):
            await session.watch(WatchedChanges(tools=True, uris=("a:1",)))
        await anyio.sleep(0.05)  # longer than a new request would take
        assert session.watched == WatchedChanges()
        await session.request(ListTools())
    assert [message["method"] for message in requests] == ["subscriptions/listen", "subscriptions/listen", "tools/list"]


async def test_a_server_that_ends_every_subscription_at_once_is_abandoned() -> None:
    server = SubscriptionServer(lambda *_: {})
    server.accept_filter = lambda _: None
    async with open_scripted_session(server) as (session, _, _):
        session.changes(WatchedChanges())
        async with anyio.create_task_group() as tasks:

            async def end() -> None:
                for count in range(1, subscriptions.MAX_UNACKNOWLEDGED_TRIES + 1):
                    await server.until(count)
                    server.end(server.opened[-1]["id"])

            tasks.start_soon(end)
            with pytest.raises(RequestRefused, match="does not acknowledge"):
                await session.watch(WatchedChanges(uris=("a:1",)))
        await anyio.sleep(0.05)
        assert len(server.opened) == subscriptions.MAX_UNACKNOWLEDGED_TRIES


@pytest.mark.req("sub.no-timeout")
async def test_a_subscription_outlives_the_deadline_of_requests() -> None:
    server = SubscriptionServer()
    async with open_scripted_session(server, patience=0.05) as (session, _, _):
        await session.watch(WatchedChanges(tools=True))
        await server.until(1)
        await anyio.sleep(0.15)
        server.say(server.opened[0]["id"], TOOLS)
        assert await first_changes(session, WatchedChanges(tools=True), 1) == [ToolListChangedNotification()]
        assert len(server.opened) == 1


async def test_an_acknowledgement_of_far_more_than_was_asked_for_is_refused_before_it_is_decoded() -> None:
    server = SubscriptionServer()
    many = [f"a:{number}" for number in range(30_000)]
    server.accept_filter = lambda expected: {**expected, "resourceSubscriptions": many}
    async with open_scripted_session(server) as (session, _, pipe):
        with pytest.raises(MalformedMessage, match="acknowledged far more than the 1 requested resources") as exc_info:
            await session.watch(WatchedChanges(uris=("a:1",)))
        assert exc_info.value.server == "peer"
        assert session.watched.uris == ()
        pipe.disconnect()


def test_each_accepted_url_is_inspected_once() -> None:
    class CountedText(str):
        __slots__ = ()
        hashed = 0

        def __hash__(self) -> int:
            CountedText.hashed += 1
            return super().__hash__()

    both = SubscriptionFilter(resource_subscriptions=tuple(CountedText(f"a:{number}") for number in range(500)))
    assert intersect_filters(both, both) == both
    assert CountedText.hashed <= 1_000


async def test_a_response_of_the_server_ends_the_pause_of_a_subscription_that_could_not_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_DELAY", 600)
    monkeypatch.setattr(subscriptions, "MIN_DELAY", 0.001)
    attempts: list[bool] = []
    attempted = anyio.Event()
    is_away = True

    @asynccontextmanager
    async def open_stream(wanted: SubscriptionFilter) -> AsyncGenerator[AsyncIterator[JsonRpcMessage]]:
        attempts.append(is_away)
        attempted.set()
        if is_away:
            raise ConnectionLost("away")
        yield messages(wanted)

    async def messages(wanted: SubscriptionFilter) -> AsyncIterator[JsonRpcMessage]:
        yield JsonRpcNotification(ACKNOWLEDGED, Raw(encode({"notifications": wanted})))
        await anyio.sleep_forever()

    offered = ServerCapabilities(tools=ListCapability())
    streams = subscriptions.Subscriptions(open_stream, "s", offered, ChangeNotifications(lambda _change: None))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(streams.run)
            streams.set_wanted(WatchedChanges(tools=True))
            await attempted.wait()
            assert streams.granted == WatchedChanges()
            is_away = False
            streams.handle_response()
            await wait_until(lambda: streams.granted.tools)
            streams.close()
    assert attempts == [True, False]
