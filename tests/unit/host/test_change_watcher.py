"""Tests for keeping a server's lists up to date: changes, floods of changes, expiry, and watched resources."""

from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from mcphost.errors import ConsentDenied, RequestRefused, ServerError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import CatalogChanged, ResourceChanged, ServerLog, ServerState, ToolProgress, ToolStarted
from mcphost.host.servers import change_watcher
from mcphost.host.servers.change_watcher import ChangeWatcher
from mcphost.host.servers.features import MAX_FOLLOWED
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.notifications import ResourceUpdatedNotification
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer
from tests.unit.host.host_events import LIST_RESULT_KEYS, wait_for_event
from tests.unit.host.scripted_host import open_peer_host

pytestmark = pytest.mark.anyio
CHANGED = "notifications/{}/list_changed"


class ListServer:
    """A server with changeable lists; `ttl` is their lifetime in milliseconds, and `refuse` maps methods to errors."""

    def __init__(self, revision: str = "2025-11-25", **lists: list[str]) -> None:
        self.lists = {kind: lists.get(kind, []) for kind in LIST_RESULT_KEYS.values()}
        self.words = "does it"
        self.ttl: float = 0
        self.refuse: dict[str, ErrorData] = {}
        self.acknowledges = True
        self.seconds = 0.0
        self.late: list[tuple[Any, Any]] = []
        self.peer = ScriptedServer(self.script, revision)

    def script(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method in self.refuse:
            return self.refuse[method]
        if method == "subscriptions/listen":
            if self.acknowledges:
                self.tell("notifications/subscriptions/acknowledged", peer.ident, notifications=params["notifications"])
            return NO_REPLY
        if method not in LIST_RESULT_KEYS:
            return {"resultType": "complete", "content": []}
        names = self.lists[LIST_RESULT_KEYS[method]]
        entries = [{"name": name, "uri": f"a://{name}", "uriTemplate": "a://{x}", "description": self.words,
                    "inputSchema": {"type": "object"}} for name in names]  # fmt: skip
        result = {
            "resultType": "complete",
            "ttlMs": self.ttl,
            "cacheScope": "public",
            LIST_RESULT_KEYS[method]: entries,
        }
        if self.seconds:
            self.late.append((self.peer.ident, result))
            return NO_REPLY
        return result

    def tell(self, method: str, subscription: Any = None, **params: Any) -> None:
        """Send a notification, as part of *subscription* if one is given."""
        if subscription is not None:
            params["_meta"] = {"io.modelcontextprotocol/subscriptionId": subscription}
        self.peer.say(method=method, params=params)

    def count(self, method: str) -> int:
        return self.peer.methods().count(method)


@pytest.fixture(autouse=True)
def short_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_watcher, "REFRESH_SECONDS", 0.02)


# -- changed lists
@pytest.mark.req("prompts.list-changed")
@pytest.mark.req("res.list-changed")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("kind", "again"), [
    ("tools", ["tools/list"]),
    ("prompts", ["prompts/list"]),
    ("resources", ["resources/list", "resources/templates/list"]),
])  # fmt: skip
async def test_a_changed_list_is_read_again_and_the_others_are_not(
    kind: str, again: list[str], revision: str, tmp_path: Path
) -> None:
    server = ListServer(revision)
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        if revision == "2026-07-28":
            await server.peer.wait_until(lambda: server.count("subscriptions/listen") == 1)
        feed = host.events.subscribe()
        server.lists[kind] = ["new"]
        server.tell(CHANGED.format(kind), server.peer.ident if revision == "2026-07-28" else None)
        await wait_for_event(feed, ServerState)
        assert len(getattr(host.servers.view("peer").catalog, kind)) == 1
    assert [method for method in LIST_RESULT_KEYS for _ in range(server.count(method) - 1)] == again


async def test_a_burst_of_changes_costs_one_listing_and_the_last_state_counts(tmp_path: Path) -> None:
    server = ListServer(tools=["a"])
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        for number in range(1_000):
            server.lists["tools"] = [f"tool {number}"]
            server.tell(CHANGED.format("tools"))
        assert (await wait_for_event(feed, CatalogChanged)).added == ("tool 999",)
        await anyio.sleep(0.06)
        assert server.count("tools/list") <= 3


async def test_a_flood_of_changes_is_answered_four_times_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    server = ListServer(tools=["a"])
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        started_at, told = anyio.current_time(), 0
        while told <= 100 or anyio.current_time() - started_at < 1.1:  # a busy machine sends fewer in this time
            server.tell(CHANGED.format("tools"))
            told += 1
            await anyio.sleep(0.002)
        took = anyio.current_time() - started_at
        assert 1 <= server.count("tools/list") - 1 <= 4 * took + 1


async def answer_slowly(server: ListServer) -> None:
    """Answer list requests one after another, each after a delay of `server.seconds`."""
    while True:
        await server.peer.wait_until(lambda: bool(server.late))
        await anyio.sleep(server.seconds)
        ident, result = server.late.pop()
        server.peer.say(id=ident, result=result)


async def test_a_slow_listing_is_repeated_less_often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(change_watcher, "LISTING_ALLOWANCE", 0)
    server = ListServer(tools=["a"])
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        server.seconds = 0.05
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_slowly, server)
            with anyio.move_on_after(0.8):
                while True:
                    server.tell(CHANGED.format("tools"))
                    await anyio.sleep(0.005)
            tasks.cancel_scope.cancel()
        # Listing takes 50 ms, which is a tenth of the time.
        assert server.count("tools/list") - 1 <= 3


@pytest.mark.parametrize("allowance", [0, 1])
async def test_a_change_after_a_long_first_listing_is_read_without_a_pause(
    allowance: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(change_watcher, "LISTING_ALLOWANCE", allowance)
    monkeypatch.setattr(change_watcher, "IDLE_RATIO", 1_000)  # a pause would be longer than a test may take
    server = ListServer(tools=["a"])
    server.seconds = 0.05
    async with open_peer_host(tmp_path, server.peer) as host, anyio.create_task_group() as tasks:
        tasks.start_soon(answer_slowly, server)
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        server.lists["tools"] = ["b"]
        server.tell(CHANGED.format("tools"))
        assert (await wait_for_event(feed, CatalogChanged)).added == ("b",)
        tasks.cancel_scope.cancel()


@pytest.mark.req("cache.stale-on-error")
async def test_a_list_that_cannot_be_read_again_leaves_the_old_one(tmp_path: Path) -> None:
    server = ListServer(tools=["a"])
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        server.refuse["tools/list"] = ErrorData(-32603, "busy")
        server.tell(CHANGED.format("tools"))
        await wait_for_event(feed, ServerLog)
        assert "could not be read" in host.servers.view("peer").log[0].text
        assert [tool.name for tool in host.servers.view("peer").catalog.tools] == ["a"]
        assert host.servers.view("peer").state == "ready"


# -- time to live
@pytest.mark.req("cache.stale-refetch")
@pytest.mark.parametrize(
    ("revision", "ttl", "told", "age", "asked"),
    [
        ("2026-07-28", 5_000, True, 4, False),
        ("2026-07-28", 5_000, True, 6, True),
        ("2026-07-28", 0, True, 1_000, False),
        ("2026-07-28", 0, False, 20, False),
        ("2026-07-28", 0, False, 40, True),
        ("2025-11-25", 0, False, 1_000, False),
    ],
)
async def test_before_a_call_tools_are_listed_again_when_their_time_ran_out(
    revision: str, ttl: float, told: bool, age: float, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(change_watcher, "now", lambda: now)
    server = ListServer(revision, tools=["t"])
    server.ttl, server.acknowledges = ttl, told
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.tools.call("peer", "t", {})
        if revision == "2026-07-28":
            await server.peer.wait_until(lambda: server.count("subscriptions/listen") == 1)
            await anyio.wait_all_tasks_blocked()
        before = server.count("tools/list")
        now += age
        await host.tools.call("peer", "t", {})
        await host.tools.call("peer", "t", {})
        assert server.count("tools/list") - before == asked


async def test_a_tool_that_changed_without_notification_is_detected_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(change_watcher, "now", lambda: now)
    server = ListServer("2026-07-28", tools=["t"])
    server.ttl = 5_000
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.tools.call("peer", "t", {})
        server.words = "does something else"
        now += 10
        with pytest.raises(ConsentDenied, match="changed after the call was approved"):
            await host.tools.call("peer", "t", {})
        assert server.count("tools/call") == 1


async def test_a_list_that_is_refused_before_a_call_does_not_stop_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(change_watcher, "now", lambda: now)
    server = ListServer("2026-07-28", tools=["t"])
    server.ttl = 5_000
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        server.refuse["tools/list"] = ErrorData(-32603, "busy")
        now += 10
        await host.tools.call("peer", "t", {})
        await host.tools.call("peer", "t", {})
        assert server.count("tools/list") == 2


@pytest.mark.req("cache.error-refetch")
async def test_a_call_refused_for_its_arguments_makes_the_next_one_list_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watcher, "IDLE_RATIO", 0)
    server = ListServer("2026-07-28", tools=["t"])
    server.ttl = 3_600_000
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.tools.call("peer", "t", {})
        server.refuse["tools/call"] = ErrorData(-32602, "unknown tool")
        with pytest.raises(RequestRefused):
            await host.tools.call("peer", "t", {})
        del server.refuse["tools/call"]
        before = server.count("tools/list")
        await host.tools.call("peer", "t", {})
        await host.tools.call("peer", "t", {})
        assert server.count("tools/list") == before + 1


async def test_an_unsubscribed_change_makes_the_next_call_list_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watcher, "IDLE_RATIO", 0)
    monkeypatch.setattr(
        change_watcher, "REFRESH_SECONDS", 1_000
    )  # otherwise it would be listed again a moment later in any case
    server = ListServer("2026-07-28", tools=["t"])
    server.ttl, server.acknowledges = 3_600_000, False
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.tools.call("peer", "t", {})
        server.words = "does something else"
        server.tell(CHANGED.format("tools"))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ConsentDenied, match="changed after the call was approved"):
            await host.tools.call("peer", "t", {})
    assert server.count("tools/call") == 1


async def test_a_flood_of_changes_costs_no_listing_for_each_call_and_the_calls_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(change_watcher, "now", lambda: now)
    monkeypatch.setattr(change_watcher, "REFRESH_SECONDS", 1_000)
    monkeypatch.setattr(change_watcher, "LISTING_TIMEOUT", 0.01)

    class SlowListServer(ListServer):
        def script(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
            nonlocal now
            now += method == "tools/list"
            return super().script(peer, method, params)

    server = SlowListServer("2026-07-28", tools=["t"])
    server.ttl, server.acknowledges = 3_600_000, False
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.tools.call("peer", "t", {})
        before = server.count("tools/list")
        for _ in range(20):
            server.tell(CHANGED.format("tools"))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ServerError, match="being listed again"):
                await host.tools.call("peer", "t", {})
        assert server.count("tools/list") == before
        assert server.count("tools/call") == 1
        now += 10
        await host.tools.call("peer", "t", {})
        await host.tools.call("peer", "t", {})
        assert server.count("tools/list") == before + 1


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_call_waits_for_the_list_that_its_server_announced_as_changed(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watcher, "REFRESH_SECONDS", 1_000)  # the pause, whose length the server may determine
    server = ListServer(revision, tools=["t"])
    server.ttl = 3_600_000
    model = ScriptedModel(tool_round(("peer__t", {})), text_round("ok"))
    async with open_peer_host(tmp_path, server.peer, model=model) as host:
        await host.servers.ensure_ready("peer")
        if revision == "2026-07-28":
            await server.peer.wait_until(lambda: server.count("subscriptions/listen") == 1)
        feed = host.events.subscribe()
        server.words = "does something else"
        server.tell(CHANGED.format("tools"), server.peer.ident if revision == "2026-07-28" else None)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "go")
            assert "listed again" in (await wait_for_event(feed, ToolProgress)).message
            assert (await wait_for_event(feed, CatalogChanged)).changed == ("t",)
            await anyio.wait_all_tasks_blocked()
            assert not any(isinstance(event, ToolStarted) for event in feed.drain())
            host.conversation.stop()
        with pytest.raises(ConsentDenied):
            await host.tools.call("peer", "t", {})
    assert server.count("tools/call") == 0


async def test_a_call_is_refused_when_the_changed_list_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_watcher, "REFRESH_SECONDS", 1_000)
    server = ListServer(tools=["t"])
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        server.refuse["tools/list"] = ErrorData(-32603, "busy")
        server.tell(CHANGED.format("tools"))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(ServerError, match="being listed again"):
            await host.tools.call("peer", "t", {})
        del server.refuse["tools/list"]
        await host.tools.call("peer", "t", {})
    assert server.count("tools/call") == 1


# -- watched resources
@pytest.mark.req("res.updated", "stdio.restart.resubscribe")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_watched_resource_is_reported_and_watched_again_after_a_reconnect(
    revision: str, tmp_path: Path
) -> None:
    first, second = ListServer(revision), ListServer(revision)
    stateless = revision == "2026-07-28"
    async with open_peer_host(tmp_path, first.peer, second.peer) as host:
        feed = host.events.subscribe()
        await host.features.subscribe("peer", "a://1")
        await host.features.subscribe("peer", "a://1")
        first.tell("notifications/resources/updated", first.peer.ident if stateless else None, uri="a://1")
        assert await wait_for_event(feed, ResourceChanged) == ResourceChanged("peer", "a://1")
        host.servers.restart("peer")
        await host.servers.ensure_ready("peer")
        method = "subscriptions/listen" if stateless else "resources/subscribe"
        await second.peer.wait_until(lambda: b"a://1" in b"".join(second.peer.pipe.lines))
        await anyio.wait_all_tasks_blocked()
        requests = [
            message
            for message in second.peer.seen
            if message.get("method") == method and "a://1" in str(message["params"])
        ]
        assert len(requests) == 1
        second.tell("notifications/resources/updated", requests[0]["id"] if stateless else None, uri="a://1/part")
        assert await wait_for_event(feed, ResourceChanged) == ResourceChanged("peer", "a://1/part")
        assert await host.features.unsubscribe("peer", "a://1")
        assert not await host.features.unsubscribe("peer", "a://1")
        await anyio.wait_all_tasks_blocked()
    assert first.peer.methods().count("resources/subscribe") == (0 if stateless else 1)
    gone = "notifications/cancelled" if stateless else "resources/unsubscribe"
    assert gone in second.peer.methods()
    assert b'"cursor"' not in b"".join(second.peer.pipe.lines)


async def test_a_resource_that_is_refused_is_not_watched_for_after_a_reconnect(tmp_path: Path) -> None:
    server = ListServer()
    server.refuse["resources/subscribe"] = ErrorData(-32002, "not here")
    async with open_peer_host(tmp_path, server.peer) as host:
        with pytest.raises(RequestRefused, match="not here"):
            await host.features.subscribe("peer", "a://1")
        assert not await host.features.unsubscribe("peer", "a://1")
        assert host.servers.view("peer").state == "ready"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_abandoned_subscription_is_cancelled(revision: str, tmp_path: Path) -> None:
    server = ListServer(revision)
    server.acknowledges = False
    answer = server.peer.script

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return NO_REPLY if method == "resources/subscribe" else answer(peer, method, params)

    server.peer.script = script
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.servers.ensure_ready("peer")
        with anyio.move_on_after(0.1):
            await host.features.subscribe("peer", "a://1")
        assert host.features.subscribed_uris("peer") == ()
        await anyio.wait_all_tasks_blocked()
        requests = [message for message in server.peer.seen if "a://1" in str(message.get("params"))]
        given_up = [
            message["params"].get("requestId")
            for message in server.peer.seen
            if "cancelled" in message.get("method", "")
        ]
        assert [question["id"] for question in requests] == given_up


async def test_more_resources_than_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_watcher, "WATCH_LIMIT", 3)
    server = ListServer()
    async with open_peer_host(tmp_path, server.peer) as host:
        for number in range(3):
            await host.features.subscribe("peer", f"a://{number}")
        with pytest.raises(RequestRefused, match="3 resources"):
            await host.features.subscribe("peer", "a://3")


async def test_a_flood_of_updates_is_a_few_events(tmp_path: Path) -> None:
    server = ListServer()
    async with open_peer_host(tmp_path, server.peer) as host:
        await host.features.subscribe("peer", "a://1")
        feed = host.events.subscribe()
        for _ in range(20):
            for _ in range(100):
                server.tell("notifications/resources/updated", uri="a://1")
            await anyio.lowlevel.checkpoint()
        await wait_for_event(feed, ResourceChanged)
        await anyio.sleep(0.1)
        assert len([event for event in feed.drain() if isinstance(event, ResourceChanged)]) <= 2


def test_an_unread_update_is_not_reported_twice() -> None:
    event_bus = EventBus()
    feed = event_bus.subscribe()
    for _ in range(1_000):
        for uri in ("a", "b"):
            event_bus.publish(ResourceChanged("s", uri))
    assert feed.drain() == [ResourceChanged("s", "a"), ResourceChanged("s", "b")]
    event_bus.publish(ResourceChanged("s", "a"))
    assert feed.drain() == [ResourceChanged("s", "a")]


async def test_many_updates_are_published_without_blocking_the_event_loop() -> None:
    messages: list[object] = []
    turns: list[int] = []
    events = SimpleNamespace(publish=messages.append)

    async def changes(_: object) -> AsyncGenerator[ResourceUpdatedNotification]:
        for number in range(1_000):
            yield ResourceUpdatedNotification(uri=f"a:{number}")

    facts = SimpleNamespace(era="handshake", capabilities=SimpleNamespace(tools=None, prompts=None, resources=None))
    session = SimpleNamespace(changes=changes, facts=facts, wait_closed=anyio.sleep_forever)
    watcher = ChangeWatcher(
        "s",
        cast("Any", session),
        watched_uris={},
        events=cast("Any", events),
        warn=print,
        on_listing=cast("Any", print),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run)
        while len(messages) < 1_000:
            turns.append(len(messages))
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert len(set(turns)) >= 10


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_attached_resources_are_subscribed_to_within_a_bound_and_only_while_they_are_attached(
    revision: str, tmp_path: Path
) -> None:
    server = ListServer(revision)
    keys = [("peer", f"a://{number}") for number in range(MAX_FOLLOWED + 5)]
    async with open_peer_host(tmp_path, server.peer) as host:
        feed = host.events.subscribe()
        await host.features.attached.follow(keys[:1])
        assert host.features.subscribed_uris("peer") == (), "a server that is not connected is not started for it"
        await host.servers.ensure_ready("peer")
        await host.features.attached.follow([])
        await host.features.attached.follow(keys)
        assert host.features.subscribed_uris("peer") == tuple(uri for _, uri in keys[5:])
        listening = [one for one in server.peer.seen if one.get("method") == "subscriptions/listen"]
        subscription = listening[-1]["id"] if revision == "2026-07-28" else None
        server.tell("notifications/resources/updated", subscription, uri="a://7")
        assert await wait_for_event(feed, ResourceChanged) == ResourceChanged("peer", "a://7")
        await host.features.attached.follow(keys[-1:])
        assert host.features.subscribed_uris("peer") == (keys[-1][1],)
        await host.features.unsubscribe("peer", keys[-1][1])
        await host.features.attached.follow(keys[-1:])
        assert host.features.subscribed_uris("peer") == (), "the user ended it"
        await host.features.attached.follow([("gone", "a://1"), *keys[:1]])
        host.servers.stop("peer")
        await host.features.attached.follow([])
        assert host.features.subscribed_uris("peer") == ()
