"""Tests for sessions with real child processes: eras, faults, and how sessions end."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    ServerError,
    StartupError,
    UnsupportedRevision,
)
from mcphost.protocol.notifications import Notification, ProgressNotification
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.server_requests import ElicitResult, ListRootsResult, Root, ServerRequestRejection
from mcphost.protocol.tools import CallTool
from mcphost.transport.process import CERTIFICATE_FILE_VARIABLES, CERTIFICATE_FLAG_VARIABLES, PROXY_VARIABLES
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.stdio_sessions import FAULTY_SERVER, call_echo, faulty_server_config, open_stdio_session

pytestmark = pytest.mark.anyio


@pytest.mark.req("stdio.launch", "stdio.support")
@pytest.mark.req("stdio.only-messages-to-stdin")
@pytest.mark.req("life.era.stdio-probe")
@pytest.mark.req("life.init.no-early-requests")
@pytest.mark.req("life.era.stdio-fallback-any-error")
@pytest.mark.req("life.init.initialized")
async def test_a_server_that_refuses_the_probe_is_connected_by_the_handshake(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    async with open_stdio_session(faulty_server_config(note=str(note))) as session:
        assert session.facts.revision is Revision.V2025_11_25
        assert await call_echo(session, "grüße\n🙂") == "grüße\n🙂"
    seen = note.read_text().splitlines()
    assert ['"method":"server/discover"' in line for line in seen[:3]] == [True, False, False]
    assert '"method":"initialize"' in seen[1]
    assert '"method":"notifications/initialized"' in seen[2]
    assert all('"jsonrpc":"2.0"' in line for line in seen)


@pytest.mark.req("life.era.stdio-fallback-timeout")
async def test_a_server_silent_on_the_probe_costs_the_hedge_and_not_a_timeout(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    started_at = time.monotonic()
    async with open_stdio_session(faulty_server_config("silent on discover", str(note))) as session:
        assert time.monotonic() - started_at < 20
        assert await call_echo(session) == "hi"
    assert "notifications/cancelled" not in note.read_text()


@pytest.mark.req("life.era.stdio-modern")
async def test_a_stateless_server_slower_than_the_hedge_stays_stateless() -> None:
    async with open_stdio_session(faulty_server_config("modern")) as session:
        assert session.facts.revision is Revision.V2026_07_28
        assert await call_echo(session) == "hi"


@pytest.mark.req("life.era.stdio-fallback-exit")
async def test_a_server_that_dies_of_the_probe_is_started_again_for_the_handshake() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config("dies of discover"), observer) as session:
        assert session.facts.era == "handshake"
        assert await call_echo(session) == "hi"
    assert "unknown method, giving up" in observer.lines


@pytest.mark.req("life.era.user-override")
async def test_a_pinned_era_sends_no_probe(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    async with open_stdio_session(faulty_server_config(note=str(note), era="handshake")) as session:
        await call_echo(session)
    assert "server/discover" not in note.read_text()


async def test_a_server_that_is_not_of_the_pinned_era_is_refused_with_both_lists() -> None:
    with pytest.raises(UnsupportedRevision) as exc_info:
        async with open_stdio_session(faulty_server_config(era="stateless")):
            pass
    assert "2026-07-28" in exc_info.value.client_revisions
    assert "peer" in exc_info.value.message


@pytest.mark.req("life.era.cache")
async def test_the_era_is_remembered_for_the_next_start(tmp_path: Path) -> None:
    class EraMemory:
        eras: dict[tuple[str, str], Era] = {}  # noqa: RUF012

        def get(self, server: str, digest: str) -> Era | None:
            return self.eras.get((server, digest))

        def put(self, server: str, digest: str, era: Era) -> None:
            self.eras[server, digest] = era

    note = tmp_path / "seen"
    server = faulty_server_config(note=str(note))
    opener = ClientSessionOpener(eras=EraMemory())
    for _ in range(2):
        async with opener.open(server, FakeRequestHandler(), RecordingObserver()) as session:
            await call_echo(session)
    assert note.read_text().count("server/discover") == 1
    assert list(EraMemory.eras.values()) == ["handshake"]


@pytest.mark.req("life.era.persist")
async def test_a_server_that_now_dies_of_the_handshake_is_negotiated_again() -> None:
    class EraMemory:
        era: Era = "handshake"

        def get(self, server: str, digest: str) -> Era | None:
            return self.era

        def put(self, server: str, digest: str, era: Era) -> None:
            self.era = era

    memory = EraMemory()
    opener = ClientSessionOpener(eras=memory)
    async with opener.open(
        faulty_server_config("modern, dies of initialize"), FakeRequestHandler(), RecordingObserver()
    ) as session:
        assert await call_echo(session) == "hi"
    assert memory.era == "stateless"


@pytest.mark.req("life.init.downgrade")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_an_older_revision_of_the_server_is_taken(revision: str) -> None:
    async with open_stdio_session(faulty_server_config(f"revision {revision}")) as session:
        assert session.facts.revision.value == revision
        assert await call_echo(session) == "hi"


@pytest.mark.req("life.init.unsupported-reply")
async def test_a_revision_we_do_not_know_ends_the_connection_naming_both() -> None:
    with pytest.raises(UnsupportedRevision, match="1999-01-01") as exc_info:
        async with open_stdio_session(faulty_server_config("revision 1999-01-01")):
            pass
    assert "2025-11-25" in exc_info.value.message


@pytest.mark.req("stdio.spawn-failure")
async def test_a_missing_command_is_named_before_the_connect_limit() -> None:
    started_at = time.monotonic()
    with pytest.raises(StartupError, match="no-such-program-anywhere") as exc_info:
        async with open_stdio_session(ServerConfig(name="peer", command="no-such-program-anywhere")):
            pass
    assert time.monotonic() - started_at < 10
    assert exc_info.value.server == "peer"


async def test_a_missing_folder_and_a_non_executable_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="nowhere"):
        async with open_stdio_session(faulty_server_config(cwd=str(tmp_path / "nowhere"))):
            pass
    plain = tmp_path / "plain.txt"
    plain.write_text("x")
    with pytest.raises(StartupError, match=r"plain\.txt"):
        async with open_stdio_session(ServerConfig(name="peer", command=str(plain))):
            pass


@pytest.mark.req("stdio.spawn-failure")
async def test_a_server_that_dies_at_start_is_reported_with_status_and_last_output() -> None:
    started_at = time.monotonic()
    with pytest.raises(StartupError, match=r"exited with status 3; it last said: cannot read licence\.key"):
        async with open_stdio_session(faulty_server_config("dies at start")):
            pass
    assert time.monotonic() - started_at < 25


@pytest.mark.req("life.timeout.initialize")
@pytest.mark.req("life.timeout.all")
async def test_a_server_that_never_answers_is_abandoned_after_the_connect_deadline() -> None:
    with pytest.raises(RequestTimeout, match="peer"):
        async with open_stdio_session(faulty_server_config("never answers"), limits=Limits(connect_timeout=0.6)):
            pass


@pytest.mark.req("stdio.shutdown.server-initiated")
@pytest.mark.parametrize(
    ("tool", "how"),
    [
        ("die", "ended by SIGKILL; it last said: out of memory"),
        ("half", "exited with status 4"),
        ("close output", "closed its output"),
        ("close input", "closed its input"),
    ],
)
async def test_a_server_death_during_a_call_ends_the_call_early_with_the_exit_status(tool: str, how: str) -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        started_at = time.monotonic()
        with pytest.raises(ConnectionLost, match=how):
            await session.request(CallTool(tool))
        assert time.monotonic() - started_at < 10
        with pytest.raises(ConnectionLost) as later:
            await call_echo(session)
        assert not later.value.may_have_run
        with anyio.fail_after(20):
            await session.wait_closed()


@pytest.mark.req("stdio.stdout-noise")
async def test_lines_that_are_no_messages_are_warned_of_once() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config("banner"), observer) as session:
        assert await call_echo(session) == "hi"
    assert len(observer.warnings) == 1
    assert "Loading module 0" in observer.warnings[0]


@pytest.mark.req("stdio.framing.large")
async def test_byte_order_mark_and_crlf_are_read() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config("BOM and CRLF"), observer) as session:
        assert await call_echo(session) == "hi"
    assert observer.warnings == []


@pytest.mark.req("base.parse.bad-json")
async def test_text_that_is_not_utf8_is_replaced_and_the_call_succeeds() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config(), observer) as session:
        assert single_text(await session.request(CallTool("bad utf-8"))) == "a\ufffd\ufffdb"
        assert await call_echo(session) == "hi"
    assert len(observer.warnings) == 1


@pytest.mark.req("base.id.unknown-response")
async def test_answers_with_other_ids_are_dropped() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        assert single_text(await session.request(CallTool("string id"))) == "right"
        assert await call_echo(session) == "hi"


@pytest.mark.req("base.response.both-received")
@pytest.mark.parametrize("tool", ["both", "wrong shape"])
async def test_a_broken_answer_fails_its_call_alone(tool: str) -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        with pytest.raises(MalformedMessage):
            await session.request(CallTool(tool), deadline=5)
        assert await call_echo(session) == "hi"


@pytest.mark.parametrize("tool", ["deep", "pretty"])
async def test_an_unreadable_response_times_out_and_the_session_continues(tool: str) -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        with pytest.raises(ServerError):
            await session.request(CallTool(tool), deadline=0.5)
        assert await call_echo(session) == "hi"


@pytest.mark.req("sec.size-limits")
async def test_a_line_of_100_mb_stops_the_server_with_bounded_memory() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        before = psutil.Process().memory_info().rss
        started_at = time.monotonic()
        with pytest.raises(ConnectionLost, match="message over 16 MB, server stopped"):
            await session.request(CallTool("huge"))
        assert time.monotonic() - started_at < 30
        assert psutil.Process().memory_info().rss - before < 100_000_000


@pytest.mark.req("stdio.stderr-not-error")
@pytest.mark.req("stdio.stderr-capture")
async def test_a_flood_of_error_output_is_logged_and_does_not_block() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config("stderr flood"), observer) as session:
        assert await call_echo(session) == "hi"
    assert len(observer.lines) == 200_000


@pytest.mark.req("cancel.send.legacy")
@pytest.mark.req("life.timeout.all")
@pytest.mark.req("life.timeout.configurable")
@pytest.mark.req("life.timeout.cancel")
@pytest.mark.req("cancel.send.stdio")
async def test_a_call_without_an_answer_ends_with_its_deadline_and_is_cancelled(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    async with open_stdio_session(faulty_server_config(note=str(note))) as session:
        with pytest.raises(RequestTimeout, match="tools/call"):
            await session.request(CallTool("silent"), deadline=0.1)
        assert await call_echo(session) == "hi"
    sent = note.read_text().splitlines()
    (silent,) = [line for line in sent if '"silent"' in line]
    ident = silent.split('"id":')[1].split(",")[0]
    assert any("notifications/cancelled" in line and f'"requestId":{ident}' in line for line in sent)


async def test_a_server_that_stops_reading_delays_only_its_own_calls_until_their_deadline() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        async with anyio.create_task_group() as group:

            async def give_up(call: CallTool) -> None:
                with pytest.raises(RequestTimeout):
                    await session.request(call, deadline=0.3)

            group.start_soon(give_up, CallTool("stop reading"))
            group.start_soon(give_up, CallTool("echo", {"text": "x" * 5_000_000}))
        started_at = time.monotonic()
        await give_up(CallTool("echo", {"text": "y"}))
        assert 0.2 < time.monotonic() - started_at < 20


@pytest.mark.req("prog.token")
@pytest.mark.req("prog.float")
@pytest.mark.req("life.timeout.progress-reset")
@pytest.mark.req("life.timeout.hard-max")
async def test_progress_extends_the_deadline_up_to_its_maximum() -> None:
    limits = Limits(request_timeout=2, request_timeout_max=5)
    notifications: list[Notification] = []
    async with open_stdio_session(faulty_server_config(), limits=limits) as session:
        call = CallTool("progress", {"steps": 8, "seconds": 0.3})
        assert single_text(await session.request(call, on_notification=notifications.append)) == "done"
        assert [notice.progress for notice in notifications if isinstance(notice, ProgressNotification)] == [
            n + 0.5 for n in range(8)
        ]
        endless = CallTool("progress", {"steps": 30, "seconds": 0.3})
        started_at = time.monotonic()
        with pytest.raises(RequestTimeout):
            await session.request(endless, on_notification=notifications.append)
        assert 4.9 < time.monotonic() - started_at < 30


async def test_without_a_listener_no_progress_is_asked_for() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        assert single_text(await session.request(CallTool("progress", {"steps": 1, "seconds": 0}))) == "no token"


@pytest.mark.req("roots.list.legacy")
@pytest.mark.req("base.response.one-of")
@pytest.mark.req("base.id.echo")
@pytest.mark.parametrize("ident", ["1", 1])
async def test_a_question_of_the_server_is_answered_with_its_id(ident: str | int) -> None:
    answers = FakeRequestHandler({"roots/list": ListRootsResult((Root("file:///a", "a"),))})
    async with open_stdio_session(faulty_server_config(), answers=answers) as session:
        result = await session.request(CallTool("ask", {"method": "roots/list", "id": ident}))
    assert json.loads(single_text(result)) == {
        "jsonrpc": "2.0", "id": ident, "result": {"roots": [{"uri": "file:///a", "name": "a"}]}
    }  # fmt: skip
    assert answers.asked[0][1].method == "tools/call"
    assert answers.asked[0][1].target == "ask"


@pytest.mark.req("ping.answer")
@pytest.mark.req("base.request.unknown-method")
@pytest.mark.req("base.request.bad-params")
@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("ping", {}, '"result": {}'),
        ("sampling/createMessage", {}, "-32601"),
        ("tools/unknown", {}, "-32601"),
        ("elicitation/create", {"message": 5}, "-32602"),
        ("roots/list", {}, '"code": -1'),
    ],
)
async def test_pings_unknown_and_broken_questions_get_their_answers(
    method: str, params: dict[str, Any], expected: str
) -> None:
    answers = FakeRequestHandler(
        {"elicitation/create": ElicitResult("decline"), "roots/list": ServerRequestRejection("no")}
    )
    async with open_stdio_session(faulty_server_config(), answers=answers) as session:
        result = await session.request(CallTool("ask", {"method": method, "params": params}))
        assert expected in single_text(result)
        assert await call_echo(session) == "hi"


async def test_an_error_keeps_its_code_and_data_and_its_text_is_cut() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(CallTool("error"))
    assert (exc_info.value.code, exc_info.value.data, len(exc_info.value.server_message)) == (
        -32602,
        {"why": [1, 2]},
        2000,
    )
    assert exc_info.value.server == "peer"


@pytest.mark.req("base.result-type.unknown")
@pytest.mark.req("base.result-type.absent")
async def test_a_result_of_an_unknown_kind_is_refused_in_the_stateless_era() -> None:
    async with open_stdio_session(faulty_server_config("modern", era="stateless")) as session:
        assert single_text(await session.request(CallTool("kind", {"kind": "complete"}))) == "x"
        assert await call_echo(session) == "hi"
        with pytest.raises(MalformedMessage, match="task"):
            await session.request(CallTool("kind", {"kind": "task"}))


@pytest.mark.req("stdio.no-server-requests-modern", "stdio.no-responses-modern")
async def test_a_question_from_a_stateless_server_is_reported_once_and_not_answered(tmp_path: Path) -> None:
    observer, note = RecordingObserver(), tmp_path / "seen"
    async with open_stdio_session(faulty_server_config("modern", str(note), era="stateless"), observer) as session:
        for _ in range(2):
            with pytest.raises(RequestTimeout):
                await session.request(CallTool("ask", {"method": "ping"}), deadline=0.2)
    assert len(observer.warnings) == 1
    assert '"result"' not in note.read_text()


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def is_server(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return FAULTY_SERVER in process.cmdline()
    return False


@pytest.mark.req("stdio.shutdown.close-stdin")
@pytest.mark.req("stdio.shutdown.escalate")
@pytest.mark.parametrize(
    ("fault", "least", "most"), [("", 0, 1.8), ("ignores end of input", 1.9, 3.8), ("ignores SIGTERM", 3.9, 15)]
)
async def test_leaving_ends_the_server_by_the_ladder(fault: str, least: float, most: float) -> None:
    children = set(psutil.Process().children(recursive=True))
    async with open_stdio_session(faulty_server_config(fault, era="handshake")) as session:
        await call_echo(session)
        # A fork server of the worker may start programs at the same time.
        (child,) = (one for one in set(psutil.Process().children(recursive=True)) - children if is_server(one))
        started_at = time.monotonic()
    assert least <= time.monotonic() - started_at < most
    assert has_ended(child.pid)


@pytest.mark.req("stdio.shutdown.process-tree")
@pytest.mark.parametrize("how", ["leaving", "death"])
async def test_grandchildren_end_with_the_server(tmp_path: Path, how: str) -> None:
    note = tmp_path / "pids"
    async with open_stdio_session(faulty_server_config("leaves a grandchild", str(note), era="handshake")) as session:
        grandchild = int(note.read_text().splitlines()[0])
        assert not has_ended(grandchild)
        if how == "death":
            with pytest.raises(ConnectionLost, match="SIGKILL"):
                await session.request(CallTool("die"))
    psutil.wait_procs([psutil.Process(grandchild)] if psutil.pid_exists(grandchild) else [], timeout=2)
    assert has_ended(grandchild)


async def test_a_server_ends_when_its_host_is_killed_outright() -> None:
    host = (
        "import anyio, psutil, sys\n"
        "from mcphost.client.connect import ClientSessionOpener\n"
        "from mcphost.config.schema import ServerConfig\n"
        "from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver\n"
        "async def main():\n"
        "    server = ServerConfig(name='peer', command=sys.executable, args=(sys.argv[1], ''))\n"
        "    async with ClientSessionOpener().open(server, FakeRequestHandler(), RecordingObserver()):\n"
        "        print(psutil.Process().children()[0].pid, flush=True)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    with psutil.Popen([sys.executable, "-c", host, FAULTY_SERVER], stdout=subprocess.PIPE) as process:
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
    psutil.wait_procs([child], timeout=5)
    assert has_ended(child.pid)


async def test_a_cancelled_owner_still_ends_the_process() -> None:
    children = set(psutil.Process().children(recursive=True))
    started = anyio.Event()
    pids: list[int] = []

    async def own() -> None:
        async with open_stdio_session(faulty_server_config()) as session:
            started_here = set(psutil.Process().children(recursive=True)) - children
            pids.extend(child.pid for child in started_here if is_server(child))
            started.set()
            await session.request(CallTool("silent"))

    async with anyio.create_task_group() as group:
        group.start_soon(own)
        await started.wait()
        group.cancel_scope.cancel()
    assert len(pids) == 1
    assert has_ended(pids[0])


@pytest.mark.req("sec.local.no-shell")
async def test_the_child_sees_only_allow_listed_and_configured_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper() in PROXY_VARIABLES]:
        monkeypatch.delenv(name)
    for name in (*CERTIFICATE_FILE_VARIABLES, *CERTIFICATE_FLAG_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("LC_TEST", "yes")
    show = "import os,sys; print(' '.join(sorted(os.environ)), file=sys.stderr); sys.exit(1)"
    observer = RecordingObserver()
    server = ServerConfig(name="peer", command=sys.executable, args=("-c", show), env={"MINE": "1"}, era="handshake")
    with pytest.raises(StartupError):
        async with open_stdio_session(server, observer):
            pass
    seen = set(observer.lines[0].split())
    assert {"MINE", "LC_TEST", "PATH"} <= seen
    assert "OPENAI_API_KEY" not in seen
    assert seen <= {"MINE", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"} | {
        name for name in os.environ if name.startswith("LC_")
    }


async def test_an_error_of_the_block_is_raised_unchanged() -> None:
    with pytest.raises(RequestRefused):
        async with open_stdio_session(faulty_server_config()) as session:
            await session.request(CallTool("error"))


async def test_many_calls_in_flight_get_their_own_answers() -> None:
    async with open_stdio_session(faulty_server_config()) as session:
        results: dict[int, str] = {}

        async def one(number: int) -> None:
            results[number] = await call_echo(session, str(number) * 50)

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)
    assert results == {number: str(number) * 50 for number in range(200)}


async def test_a_server_gets_no_descriptor_of_ours_but_its_three_pipes(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ours")
    note = tmp_path / "descriptors"
    seen = "{n: os.readlink(f'/dev/fd/{n}') for n in os.listdir('/dev/fd') if os.path.exists(f'/dev/fd/{n}')}"
    listing = f"import json, os; seen = {seen}; open({str(note)!r}, 'w').write(json.dumps(seen))"
    serving = f"import runpy, sys; sys.argv = ['x', '', '']; runpy.run_path({FAULTY_SERVER!r}, run_name='__main__')"
    code = f"{listing}; {serving}"
    descriptor = os.open(secret, os.O_RDONLY)
    try:
        os.set_inheritable(descriptor, True)  # as a library may
        async with open_stdio_session(ServerConfig(name="peer", command=sys.executable, args=("-c", code))) as session:
            assert await call_echo(session) == "hi"
    finally:
        os.close(descriptor)
    held = json.loads(note.read_text())
    assert str(secret) not in held.values()
    # One more is open while it lists the folder: that of the listing.
    assert set(held) - {"0", "1", "2"} <= {"3"}
