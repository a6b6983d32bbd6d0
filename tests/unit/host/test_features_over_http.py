"""Tests for log messages and subscriptions of the stateless era over HTTP, with a real Host."""

from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client import subscriptions
from mcphost.errors import ConnectionLost, RequestRefused, ServerError
from mcphost.host.events import CatalogChanged, ResourceChanged, ServerLog
from mcphost.host.servers import change_watcher
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import open_peer_host
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = pytest.mark.anyio
LEVEL = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(change_watcher, "REFRESH_SECONDS", 0.02)


class FeatureServer:
    """A server of 2026-07-28; `listening` contains the open subscriptions, and `tools` the names it lists."""

    def __init__(self) -> None:
        self.tools = ["t"]
        self.refuses = 0
        self.is_leaving = False
        self.listening: list[ReceivedRequest] = []
        self.ended = anyio.Event()
        self.hang_up = anyio.Event()
        self.opened = anyio.Event()

    async def handle(self, request: ReceivedRequest) -> object:
        if self.is_leaving:
            return False
        method = request.message["method"]
        done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        match method:
            case "server/discover":
                offered = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "logging": {}}
                return await request.result({**done, "supportedVersions": ["2026-07-28"], "capabilities": offered})
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                return await request.result({**done, "tools": tools})
            case "resources/list" | "resources/templates/list":
                return await request.result(done)
            case "subscriptions/listen":
                if self.refuses:
                    return await request.error(self.refuses, -32601)
                return await self.listen(request)
            case _:
                return await self.call(request)

    async def listen(self, request: ReceivedRequest) -> object:
        await request.stream()
        self.listening.append(request)
        asked = request.message["params"]["notifications"]
        await self.tell(request, "notifications/subscriptions/acknowledged", notifications=asked)
        self.opened.set()
        self.opened = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def left() -> None:
                with suppress(ConnectionError):  # closing resets the connection
                    await request.wait_closed()
                self.ended.set()
                tasks.cancel_scope.cancel()

            tasks.start_soon(left)
            await self.hang_up.wait()
            tasks.cancel_scope.cancel()
        return False

    async def tell(self, request: ReceivedRequest, method: str, **params: Any) -> None:
        await request.event({"method": method, "params": {**params, "_meta": {SUBSCRIPTION: request.message["id"]}}})

    async def call(self, request: ReceivedRequest) -> object:
        await request.stream()
        if LEVEL in request.message["params"]["_meta"]:
            said = {"level": "warning", "logger": "disk", "data": "nearly full"}
            await request.event({"method": "notifications/message", "params": said})
        await request.event({"id": request.message["id"], "result": {"resultType": "complete", "content": []}})
        return False

    async def until(self, count: int) -> None:
        while len(self.listening) < count:
            await self.opened.wait()

    def about(self, key: str) -> ReceivedRequest:
        """Return the newest open subscription whose filter contains *key*."""
        return [
            subscription for subscription in self.listening if key in subscription.message["params"]["notifications"]
        ][-1]


@pytest.mark.req("log.message.scope")
@pytest.mark.req("log.level.modern")
async def test_a_log_message_on_the_stream_of_a_call_is_attributed_to_it(tmp_path: Path) -> None:
    server = FeatureServer()
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.tools.call("peer", "t", {})
        assert host.servers.view("peer").log == ()
        await host.features.set_log_level("peer", "info")
        call = host.tools.make_call_id()
        await host.tools.call("peer", "t", {}, call=call)
        line = host.servers.view("peer").log[0]
        assert line == ServerLog("peer", "warning", "nearly full", "server", "disk", call)
        asked = {message.message["method"]: LEVEL in message.message["params"]["_meta"] for message in raw.seen}
        assert asked == {
            "server/discover": False, "tools/list": False, "resources/list": False, "resources/templates/list": False,
            "subscriptions/listen": False, "tools/call": True,
        }  # fmt: skip


@pytest.mark.req("res.subscribe.modern")
@pytest.mark.req("sub.cancel")
@pytest.mark.req("sub.id-unknown")
async def test_a_watched_resource_uses_a_stream_that_closes_with_the_last_watcher(tmp_path: Path) -> None:
    server = FeatureServer()
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        feed = host.events.subscribe()
        await host.features.subscribe("peer", "a://1")
        await server.until(2)
        stream = server.about("resourceSubscriptions")
        assert stream.message["params"]["notifications"] == {"resourceSubscriptions": ["a://1"]}
        await server.tell(stream, "notifications/resources/updated", uri="a://2")
        await stream.event({"method": "notifications/resources/updated", "params": {"uri": "a://1"}})
        assert await wait_for_event(feed, ResourceChanged) == ResourceChanged("peer", "a://1")
        assert not server.ended.is_set()
        await host.features.unsubscribe("peer", "a://1")
        await server.ended.wait()
        assert "notifications/cancelled" not in [message.message.get("method") for message in raw.seen if message.body]


@pytest.mark.req("sub.abrupt-end")
async def test_a_broken_stream_is_reopened_and_missed_events_are_found(tmp_path: Path) -> None:
    server = FeatureServer()
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        await server.until(1)
        server.tools = ["t", "new"]
        server.hang_up.set()
        server.hang_up = anyio.Event()
        assert (await wait_for_event(feed, CatalogChanged)).added == ("new",)
        assert len(server.listening) == 2


async def test_a_broken_stream_is_reopened_at_once_when_the_server_answers_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "FIRST_DELAY", 600)
    monkeypatch.setattr(subscriptions, "MIN_DELAY", 0.001)
    server = FeatureServer()
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        await server.until(1)
        server.hang_up.set()
        server.hang_up = anyio.Event()
        with anyio.fail_after(20):
            while len(server.listening) < 2:
                await host.tools.call("peer", "t", {})


@pytest.mark.req("sub.error")
@pytest.mark.parametrize("status", [200, 404, 405])
async def test_a_server_without_subscriptions_works_on(status: int, tmp_path: Path) -> None:
    server = FeatureServer()
    server.refuses = status
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.tools.call("peer", "t", {})
        with pytest.raises(Exception) as exc_info:  # noqa: PT011 - the transport may say it by its status alone
            await host.features.subscribe("peer", "a://1")
        assert (
            isinstance(exc_info.value, RequestRefused) or "404" in str(exc_info.value) or "405" in str(exc_info.value)
        )
        await anyio.sleep(0.1)
        assert raw.calls().count("POST subscriptions/listen") == 2
        await host.tools.call("peer", "t", {})
        assert host.servers.view("peer").state == "ready"


@pytest.mark.req("sub.no-progress")
async def test_progress_and_logs_on_a_subscription_are_ignored(tmp_path: Path) -> None:
    server = FeatureServer()
    async with serve(server.handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        await server.until(1)
        stream = server.about("toolsListChanged")
        await server.tell(stream, "notifications/progress", progressToken=stream.message["id"], progress=1)
        await server.tell(stream, "notifications/message", level="emergency", data="listen to me")
        server.tools = ["t", "new"]
        await server.tell(stream, "notifications/tools/list_changed")
        await wait_for_event(feed, CatalogChanged)
        assert host.servers.view("peer").log == ()
    expected = [subscription.message["params"]["notifications"] for subscription in server.listening]
    assert [item for item in expected if "toolsListChanged" in item] == [stream.message["params"]["notifications"]]


async def test_a_changed_list_that_requires_an_account_keeps_the_old_list_and_the_connection(
    tmp_path: Path,
) -> None:
    server = FeatureServer()
    refusing = anyio.Event()

    async def handle(request: ReceivedRequest) -> object:
        if refusing.is_set() and request.message["method"] == "tools/list":
            return await request.reply(401, b"who are you", "text/plain")
        return await server.handle(request)

    async with serve(handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        await server.until(1)
        feed = host.events.subscribe()
        refusing.set()
        await server.tell(server.listening[0], "notifications/tools/list_changed")
        async for event in feed:
            if isinstance(event, ServerLog) and "could not be read" in event.text:
                break
        assert host.servers.view("peer").state == "ready"
        assert [tool.name for tool in host.servers.view("peer").catalog.tools] == ["t"]


async def test_the_tools_of_a_server_that_was_unreachable_are_listed_again_once_it_answers(tmp_path: Path) -> None:
    before, after = FeatureServer(), FeatureServer()
    before.refuses = after.refuses = 404
    after.tools = ["t", "new"]
    async with AsyncExitStack() as first:
        raw = await first.enter_async_context(serve(before.handle))
        host = await first.enter_async_context(open_peer_host(tmp_path, url=raw.url))
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        raw.listener.close()
        before.is_leaving = True
        while host.servers.view("peer").state != "unreachable":  # the first calls use kept connections
            with pytest.raises(ServerError):
                await host.tools.call("peer", "t", {})
        async with serve(after.handle, port=raw.port) as again:
            await host.tools.call("peer", "t", {})
            with anyio.fail_after(20):
                async for event in feed:
                    if event == CatalogChanged("peer", ("new",)):
                        break
            # The call and an attempt to connect again may notice at the same time that the server answers.
            assert again.calls().count("POST tools/list") <= 2
            await first.aclose()


@pytest.mark.parametrize("calls_again", [False, True])
async def test_the_tools_of_a_server_that_crashed_during_a_call_are_listed_again_at_once(
    tmp_path: Path, calls_again: bool
) -> None:
    server = FeatureServer()
    server.refuses = 404

    async def handle(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/call" and server.tools == ["t"]:
            server.tools = ["t", "new"]  # a supervisor starts it again at the same address
            return False
        return await server.handle(request)

    async with serve(handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        with pytest.raises(ConnectionLost):
            await host.tools.call("peer", "t", {})
        if calls_again:
            await host.tools.call("peer", "t", {})
        with anyio.fail_after(20):
            async for event in feed:
                if event == CatalogChanged("peer", ("new",)):
                    break
        assert raw.calls().count("POST tools/list") == 2


async def test_the_tools_of_a_restarted_server_without_sessions_are_listed_again(tmp_path: Path) -> None:
    tools = ["t"]

    async def handle(request: ReceivedRequest) -> object:
        match request.message["method"] if request.method == "POST" else "":
            case "initialize":
                about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": ""}}
                return await request.result({"protocolVersion": "2025-06-18", **about})
            case "tools/list":
                listed = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
                return await request.result({"tools": listed})
            case "tools/call":
                tools.append("new")  # a supervisor starts it again at the same address
                return False
            case "server/discover":
                return await request.error(400, -32601)
            case method:
                return await request.reply(202 if method else 405)

    async with serve(handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")
        feed = host.events.subscribe()
        with pytest.raises(ConnectionLost):
            await host.tools.call("peer", "t", {})
        with anyio.fail_after(20):
            async for event in feed:
                if event == CatalogChanged("peer", ("new",)):
                    break


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_a_call_that_runs_while_the_user_restarts_or_stops_its_server_is_not_sent_again(
    is_restarted: bool, tmp_path: Path
) -> None:
    server, called = FeatureServer(), anyio.Event()

    async def handle(request: ReceivedRequest) -> object:
        if request.message["method"] != "tools/call":
            return await server.handle(request)
        called.set()
        await request.wait_closed()
        return False

    async with serve(handle) as raw, open_peer_host(tmp_path, url=raw.url) as host:
        await host.servers.ensure_ready("peer")

        async def call() -> None:
            with pytest.raises(ServerError, match="may have had effects") as exc_info:
                await host.tools.call("peer", "t", {})
            assert exc_info.value.may_have_run

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await called.wait()
            if is_restarted:
                host.servers.restart("peer")
                await host.servers.ensure_ready("peer")
            else:
                host.servers.stop("peer")
        assert raw.calls().count("POST tools/call") == 1
        assert host.servers.view("peer").state == ("ready" if is_restarted else "stopped")
