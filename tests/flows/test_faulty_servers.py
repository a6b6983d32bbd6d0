"""Tests for good, slow, dead and hostile servers at the same time: each failure gives one clear message."""

from pathlib import Path

import anyio
import psutil
import pytest

from mcphost.client import handshake_session
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, ConsentDenied, ServerError, StartupError, UsageError
from mcphost.host.events import CatalogChanged, NoticeEvent, ServerLog, ServerState
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer
from mcphost.serialization import replace
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import DEMO, OpenHost, inline_server, read_events
from tests.flows.inline_servers import HANDSHAKE_SERVER
from tests.processes import is_alive, processes_with_variable

pytestmark = pytest.mark.anyio


def faulty_entry(name: str, call: str = "pass", start: str = "") -> ServerConfig:
    return inline_server(name, HANDSHAKE_SERVER.format(call=call, start=start))


def wait_for_state(name: str, expected: str):  # type: ignore[no-untyped-def]
    return lambda event: isinstance(event, ServerState) and event.server == name and event.state == expected


@pytest.mark.req("ui.partial-failure")
async def test_a_silent_server_delays_neither_the_others_nor_the_first_prompt(open_host: OpenHost) -> None:
    silent = inline_server("silent", "import sys\nfor line in sys.stdin: pass")
    model = ScriptedModel(text_round("here"))
    async with open_host(model, servers=(silent, DEMO)) as host:
        host.start()
        with anyio.fail_after(20):
            assert (await host.conversation.send("hi")).text == "here"
            await host.servers.ensure_ready("demo")
        assert host.servers.view("silent").state == "connecting"


async def test_a_missing_command_is_named_before_the_connect_limit(open_host: OpenHost) -> None:
    missing = ServerConfig(name="gone", command="no-such-program-here", source="flag")
    async with open_host(servers=(missing,)) as host:
        with anyio.fail_after(20), pytest.raises(StartupError, match="no-such-program-here"):
            await host.servers.ensure_ready("gone")
        assert host.servers.view("gone").state == "failed"


async def test_a_server_that_dies_at_start_is_reported_with_its_last_output(open_host: OpenHost) -> None:
    dying = inline_server("dying", "import sys; print('loading', file=sys.stderr); sys.exit('no licence found')")
    async with open_host(servers=(dying, DEMO)) as host:
        host.start()
        with anyio.fail_after(20), pytest.raises(ServerError, match="no licence found"):
            await host.servers.ensure_ready("dying")
        await host.servers.ensure_ready("demo")
        assert [line.text for line in host.servers.view("dying").log if line.source == "stderr"][
            -1
        ] == "no licence found"


async def test_a_server_that_dies_in_a_call_fails_the_call_and_is_restarted(open_host: OpenHost) -> None:
    dying = faulty_entry("dying", call='print("out of luck", file=sys.stderr); os._exit(3)')
    model = ScriptedModel(tool_round(("dying__t", {})), text_round("I see."))
    async with open_host(model, servers=(dying,)) as host:
        await host.servers.ensure_ready("dying")
        feed = host.events.subscribe()
        with anyio.fail_after(20), pytest.raises(ConnectionLost) as exc_info:
            await host.tools.call("dying", "t", {})
        assert exc_info.value.hint.startswith("The tool may have run. Its error output is in ")
        with anyio.fail_after(10):
            await read_events(feed, wait_for_state("dying", "ready"))


@pytest.mark.req("stdio.stdout-noise")
async def test_garbage_on_standard_output_costs_a_warning_and_nothing_else(open_host: OpenHost) -> None:
    noisy = faulty_entry(
        "noisy",
        start='print("Welcome to noisy!\\x1b[2J"); print("{not json"); sys.stdout.flush()',
        call='print("DEBUG hello"); answer({"content": [{"type": "text", "text": "fine"}]})',
    )
    async with open_host(servers=(noisy,)) as host:
        assert (await host.tools.call("noisy", "t", {})).text == "fine"
        warnings = [line.text for line in host.servers.view("noisy").log if line.source == "client"]
        assert len(warnings) == 1


@pytest.mark.req("sec.size-limits")
async def test_an_endless_message_stops_the_server_and_is_reported(open_host: OpenHost) -> None:
    flood = faulty_entry("flood", call='sys.stdout.write("x" * 100_000_000); sys.stdout.flush(); time.sleep(60)')
    async with open_host(servers=(flood, DEMO)) as host:
        await host.servers.ensure_ready("demo")
        await host.servers.ensure_ready("flood")
        with anyio.fail_after(10), pytest.raises(ServerError, match="16 MB"):
            await host.tools.call("flood", "t", {})
        assert "42" in (await host.tools.call("demo", "add", {"a": 2, "b": 40})).text


@pytest.mark.req("stdio.shutdown.escalate")
@pytest.mark.req("stdio.shutdown.process-tree")
async def test_a_server_that_ignores_every_signal_is_killed_with_its_children(
    open_host: OpenHost, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    stubborn = faulty_entry(
        "stubborn",
        start="import subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " child = subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGTERM,"
        f" signal.SIG_IGN); time.sleep(300)']); open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')",
    )
    # It keeps running after the end of its input.
    stubborn = replace(stubborn, args=("-c", stubborn.args[1] + "\ntime.sleep(300)"))
    async with open_host(servers=(stubborn,)) as host:
        await host.servers.ensure_ready("stubborn")
        started = [int(pid) for pid in pids.read_text().split()]
        processes = [psutil.Process(pid) for pid in started]
        before = anyio.current_time()
    assert anyio.current_time() - before < 6
    psutil.wait_procs(processes, timeout=5)  # SIGKILL was sent; a busy kernel removes a process a moment later
    assert not [pid for pid in started if is_alive(pid)]


async def test_a_host_that_is_left_by_an_error_leaves_no_process(open_host: OpenHost) -> None:
    before = psutil.Process().children()

    async def fail() -> None:
        async with open_host() as host:
            await host.servers.ensure_ready("demo")
            assert len(psutil.Process().children()) > len(before)
            raise ValueError("an error")

    with pytest.raises(ExceptionGroup) as exc_info:
        await fail()
    assert exc_info.group_contains(ValueError, match="an error")
    assert not set(psutil.Process().children()) - set(before)


@pytest.mark.req("tools.list-changed.legacy")
async def test_a_burst_of_changes_causes_one_listing_and_one_event(open_host: OpenHost) -> None:
    changing = inline_server(
        "changing",
        """
import json, sys
listed = 0
def send(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        send({"id": m["id"], "result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
              "capabilities": {"tools": {"listChanged": True}}}})
    elif m["method"] == "tools/list":
        listed += 1
        tools = [{"name": f"t{listed}", "inputSchema": {"type": "object"}},
                 {"name": "same", "description": str(listed), "inputSchema": {"type": "object"}}]
        send({"id": m["id"], "result": {"tools": tools}})
    elif m["method"] == "tools/call":
        for _ in range(50): send({"method": "notifications/tools/list_changed"})
        send({"id": m["id"], "result": {"content": [{"type": "text", "text": str(listed)}]}})
    else: send({"id": m["id"], "error": {"code": -32601, "message": "no"}})
""",
    )
    async with open_host(servers=(changing,)) as host:
        await host.servers.ensure_ready("changing")
        feed = host.events.subscribe()
        assert (await host.tools.call("changing", "same", {})).text == "1"
        with anyio.fail_after(20):
            events = await read_events(feed, lambda event: isinstance(event, CatalogChanged))
        assert events[-1] == CatalogChanged("changing", ("t2",), ("t1",), ("same",))
        assert (await host.tools.call("changing", "t2", {})).text == "2"


@pytest.mark.req("sec.local.approve")
async def test_a_configured_server_is_not_started_before_it_is_trusted(open_host: OpenHost, tmp_path: Path) -> None:
    mark = tmp_path / "started"
    touching = replace(
        faulty_entry("files", start=f"open({str(mark)!r}, 'a').write('x')"), source="user", file="mcp.json"
    )
    frontend = ScriptedFrontend(DoNotTrust())
    async with open_host(frontend=frontend, servers=(touching,)) as host:
        with pytest.raises(ConsentDenied, match="not approved"):
            await host.servers.ensure_ready("files")
    assert not mark.exists()
    question = frontend.asked[0]
    assert isinstance(question, TrustServer)
    assert question.command == touching.argv
    for answers, asked in (([TrustOnce()], 1), ([TrustAlways()], 1), ([], 0)):
        frontend = ScriptedFrontend(*answers)
        async with open_host(frontend=frontend, servers=(touching,)) as host:
            await host.servers.ensure_ready("files")
        assert len(frontend.asked) == asked
    changed = replace(touching, args=(*touching.args, "--more"))
    frontend = ScriptedFrontend(DoNotTrust())
    async with open_host(frontend=frontend, servers=(changed,)) as host:
        with pytest.raises(ConsentDenied):
            await host.servers.ensure_ready("files")
    assert isinstance(frontend.asked[0], TrustServer)
    assert frontend.asked[0].changed


async def test_restarting_opens_a_new_process_and_finds_the_tools_again(open_host: OpenHost) -> None:
    tells_pid = faulty_entry("who", call='answer({"content": [{"type": "text", "text": str(os.getpid())}]})')
    async with open_host(servers=(tells_pid,)) as host:
        first = (await host.tools.call("who", "t", {})).text
        feed = host.events.subscribe()
        host.servers.restart("who")
        with anyio.fail_after(10):
            await read_events(feed, wait_for_state("who", "ready"))
        second = (await host.tools.call("who", "t", {})).text
    assert first != second
    assert not psutil.pid_exists(int(first))


async def test_tools_beyond_the_model_limit_are_omitted_and_reported(open_host: OpenHost) -> None:
    model = ScriptedModel(text_round("ok"))
    async with open_host(model, limits=Limits(tools_to_model=3)) as host:
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()
        await host.conversation.send("hi")
        events = feed.drain()
    assert len(model.requests[0].tools) == 3
    assert [event.text for event in events if isinstance(event, NoticeEvent)] == [
        f"The model gets 3 of {len(host.servers.view('demo').catalog.tools)} tools."
    ]


async def test_an_unknown_server_or_tool_is_reported_with_the_available_ones(open_host: OpenHost) -> None:
    async with open_host() as host:
        with pytest.raises(UsageError, match="demo"):
            await host.servers.ensure_ready("nope")
        with pytest.raises(UsageError, match="add"):
            await host.tools.call("demo", "nope", {})


async def test_server_logs_are_recorded_with_their_level(open_host: OpenHost) -> None:
    note = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "warning", "data": "low disk"}}'
    logging = faulty_entry("logging", call=f"send({note}); answer({{'content': []}})")
    async with open_host(servers=(logging,)) as host:
        await host.tools.call("logging", "t", {})
        feed = host.events.subscribe()
        await host.tools.call("logging", "t", {})
        log = host.servers.view("logging").log
        assert [(line.source, line.level, line.text) for line in log] == [("server", "warning", "low disk")] * 2
        assert [event for event in feed.drain() if isinstance(event, ServerLog)] == [log[1]]


async def test_leaving_the_host_leaves_no_process(open_host: OpenHost, tmp_path: Path) -> None:
    # By an inherited mark: this worker's fork servers may start programs for other tests meanwhile.
    mark = {"STARTED_BY": str(tmp_path)}
    async with open_host(servers=tuple(replace(DEMO, name=f"demo{n}", env=mark) for n in range(5))) as host:
        host.start()
        for number in range(5):
            await host.servers.ensure_ready(f"demo{number}")
        assert len(processes_with_variable("STARTED_BY", str(tmp_path))) >= 5
    assert processes_with_variable("STARTED_BY", str(tmp_path)) == []


@pytest.mark.req("ping.timeout")
async def test_pings_detect_a_stalled_process_which_is_reported_and_restarted(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is running and its pipes are open, so only unanswered pings show that it hangs."""
    monkeypatch.setattr(handshake_session, "MIN_PING_TIMEOUT", 0.2)
    mark = tmp_path / "hung"
    hangs_once = inline_server(
        "hangs",
        f"""
import json, os, sys, time
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "ping" and not os.path.exists({str(mark)!r}):
        open({str(mark)!r}, "w").close()
        time.sleep(60)
    if "id" not in m: continue
    result = {{"tools": []}} if m["method"] == "tools/list" else {{}}
    if m["method"] == "initialize":
        result = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                   "serverInfo": {{"name": "s", "version": "1"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": m["id"], "result": result}}), flush=True)
""",
        era="handshake",
    )
    async with open_host(servers=(hangs_once,), limits=Limits(ping_interval=0.15)) as host:
        await host.servers.ensure_ready("hangs")
        feed = host.events.subscribe()
        with anyio.fail_after(15):
            events = await read_events(
                feed, lambda event: isinstance(event, ServerState) and "pings in a row" in event.detail
            )
            assert (
                len([event for event in events if isinstance(event, ServerLog) and "missed a ping" in event.text]) == 3
            )
            await read_events(feed, wait_for_state("hangs", "ready"))
        assert host.servers.view("hangs").counts["pings missed"] >= 3
