"""Tests for ten servers at the same time over real sockets; slow, silent and dead ones do not delay the others."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import psutil
import pytest

from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import RequestTimeout, StartupError
from mcphost.host.events import HostEvent, ServerState
from mcphost.host.questions.questions import AllowOnce, AllowSession
from mcphost.host.servers import connection
from mcphost.serialization import replace
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import DEMO, OpenHost, read_events
from tests.processes import command_line
from tests.unit.client.scripted_http import RequestHandler, handshake_server, stateless_server
from tests.unit.transport.raw_http import RawServer, ReceivedRequest, serve

pytestmark = pytest.mark.anyio
TOOLS = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}


async def answer_tools_list(request: ReceivedRequest) -> object:
    return await request.result({"resultType": "complete", **TOOLS})


async def never_answer(request: ReceivedRequest) -> object:
    return await anyio.sleep(60)


def answer_late(seconds: float) -> RequestHandler:
    """Return a handler that answers no request until *seconds* after its creation."""
    ready = handshake_server(answer_tools_list)
    started_at = time.monotonic()

    async def handler(request: ReceivedRequest) -> object:
        await anyio.sleep(max(0.0, started_at + seconds - time.monotonic()))
        return await ready(request)

    return handler


@asynccontextmanager
async def run_servers(
    handlers: dict[str, RequestHandler],
) -> AsyncIterator[tuple[dict[str, RawServer], list[ServerConfig]]]:
    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(serve(handler)) for name, handler in handlers.items()}
        configs = [ServerConfig(name=name, url=server.url, source="flag") for name, server in servers.items()]
        yield servers, configs


def is_state_change(name: str, state: str):  # type: ignore[no-untyped-def]
    def is_it(event: HostEvent) -> bool:
        return isinstance(event, ServerState) and (event.server, event.state) == (name, state)

    return is_it


@pytest.mark.req("ui.partial-failure")
@pytest.mark.req("life.timeout.all")
async def test_working_servers_are_ready_whatever_the_others_do(
    open_host: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connection.SILENT_SECONDS == 10, "an ordinary slow start is not called silence"
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.3)
    handlers: dict[str, RequestHandler] = {
        f"good {n}": (stateless_server if n % 2 else handshake_server)(answer_tools_list) for n in range(7)
    }
    handlers |= {"slow": answer_late(1.5), "silent": never_answer}
    async with run_servers(handlers) as (_, configs):
        dead = ServerConfig(name="dead", url="http://127.0.0.1:9/mcp", source="flag")
        async with open_host(servers=(*configs, dead), limits=Limits(connect_timeout=2.2)) as host:
            feed = host.events.subscribe()
            host.start()
            for number in range(7):
                view = await host.servers.ensure_ready(f"good {number}")
                assert [tool.name for tool in view.catalog.tools] == ["t"]
            assert host.servers.view("slow").facts is None
            with pytest.raises(StartupError):
                await host.servers.ensure_ready("dead")
            with anyio.fail_after(20):
                await read_events(feed, is_state_change("silent", "silent"))
                assert "No response for" in host.servers.view("silent").detail
                await host.servers.ensure_ready("slow")
                with pytest.raises(RequestTimeout):
                    await host.servers.ensure_ready("silent")
            assert host.servers.view("silent").state == "failed"


async def test_a_server_that_did_not_answer_is_ready_after_a_restart_once_it_does(
    open_host: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.05)
    silent = True

    async def handler(request: ReceivedRequest) -> object:
        return await (never_answer if silent else handshake_server(answer_tools_list))(request)

    async with run_servers({"s": handler}) as (_, configs), open_host(servers=tuple(configs)) as host:
        feed = host.events.subscribe()
        host.start()
        with anyio.fail_after(20):
            await read_events(feed, is_state_change("s", "silent"))
            silent = False
            host.servers.restart("s")
            await host.servers.ensure_ready("s")
        assert host.servers.view("s").state == "ready"


@pytest.mark.req("base.conversation-private", "base.isolation")
async def test_a_server_gets_the_arguments_of_its_tool_and_no_part_of_the_conversation(open_host: OpenHost) -> None:
    async def answer(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/call":
            return await request.result({"resultType": "complete", "content": [{"type": "text", "text": "told-by-a"}]})
        return await answer_tools_list(request)

    model = ScriptedModel(
        tool_round(("a__t", {"x": "for-a"}), text="thought-of-a"),
        tool_round(("b__t", {"x": "for-b"}), text="thought-of-b"),
        text_round("done-and-said"),
    )
    frontend = ScriptedFrontend(AllowOnce(), AllowOnce())
    async with (
        run_servers({"a": stateless_server(answer), "b": handshake_server(answer)}) as (requests, configs),
        open_host(model, frontend, servers=tuple(configs)) as host,
    ):
        for name in ("a", "b"):
            await host.servers.ensure_ready(name)
        assert (await host.conversation.send("what-the-user-wrote")).text == "done-and-said"
    for name, other in (("a", "b"), ("b", "a")):
        sent = b"".join(message.body for message in requests[name].seen)
        assert f"for-{name}".encode() in sent
        for word in ("what-the-user-wrote", "thought-of", "told-by-a", "done-and-said", f"for-{other}"):
            assert word.encode() not in sent


@pytest.mark.req("base.stateless.process-lifetime")
@pytest.mark.req("base.stateless.interleave")
async def test_a_stateless_process_serves_every_call_of_every_conversation(open_host: OpenHost) -> None:
    def processes() -> set[int]:
        return {child.pid for child in psutil.Process().children() if "mcphost.demo.server" in command_line(child)}

    model = ScriptedModel(
        tool_round(("demo__add", {"a": 1, "b": 2})),
        text_round("3"),
        tool_round(("demo__add", {"a": 2, "b": 2})),
        text_round("4"),
    )
    frontend = ScriptedFrontend(AllowSession())
    async with open_host(model, frontend, servers=(replace(DEMO, era="stateless"),)) as host:
        assert (await host.servers.ensure_ready("demo")).facts.era == "stateless"  # type: ignore[union-attr]
        started = processes()
        assert (await host.conversation.send("one")).text == "3"
        host.conversation.open_new()
        assert (await host.conversation.send("two")).text == "4"
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(host.tools.call, "demo", "add", {"a": number, "b": 1})
        assert processes() == started
        assert len(started) == 1


@pytest.mark.req("base.isolation")
async def test_nothing_of_one_server_reaches_another(open_host: OpenHost) -> None:
    """Arguments, headers and earlier results of one server are not sent to another, nor from one call to the next."""

    async def answer(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/call":
            return await request.result({"resultType": "complete", "content": [{"type": "text", "text": "from-a"}]})
        return await answer_tools_list(request)

    async with run_servers(
        {
            "a": stateless_server(answer),
            "b": stateless_server(answer_tools_list),
            "c": handshake_server(answer_tools_list, session="s-c"),
        }
    ) as (requests, configs):
        first = ServerConfig(name="a", url=requests["a"].url, headers={"X-Key": "key-of-a"}, source="flag")
        async with open_host(servers=(first, *configs[1:])) as host:
            for name in ("a", "b", "c"):
                await host.servers.ensure_ready(name)
            for _ in range(2):
                await host.tools.call("a", "t", {"secret": "only-for-a"})
            for name in ("b", "c"):
                await host.tools.call(name, "t", {})
    sent = {
        name: b"".join(message.body + repr(message.headers).encode() for message in server.seen)
        for name, server in requests.items()
    }
    assert b"only-for-a" in sent["a"]
    assert b"key-of-a" in sent["a"]
    for word in (b"only-for-a", b"key-of-a", b"from-a"):
        assert word not in sent["b"] + sent["c"]
    assert b"s-c" not in sent["a"] + sent["b"]
    one, two = [
        {**message.message, "id": 0, "headers": message.headers}
        for message in requests["a"].seen
        if b"tools/call" in message.body
    ]
    for message in (one, two):
        del message["params"]["_meta"]["progressToken"]
    assert {**one, "headers": {**one["headers"], "content-length": ""}} == {
        **two,
        "headers": {**two["headers"], "content-length": ""},
    }
