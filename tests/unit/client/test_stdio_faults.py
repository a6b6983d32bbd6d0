"""Tests for faults on a server's pipes, such as broken lines and floods: at most one call is affected."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcphost.auth.oauth_provider import OAuthProvider
from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.client.connect import ClientSessionOpener
from mcphost.client.session import Session
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, RequestTimeout, ServerError, StartupError
from mcphost.host.structured_content import ContentIndex, structured_text
from mcphost.protocol.tools import CallTool
from mcphost.transport import process
from tests.event_loop import wait_until
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import single_text
from tests.unit.client.stdio_sessions import call_echo, faulty_server_config, open_stdio_session

pytestmark = pytest.mark.anyio
RESULT = '{"jsonrpc":"2.0","id":@,"result":{"content":[{"type":"text","text":"fine"}]}}'


async def send_raw_lines(session: Session, *lines: str, deadline: float = 5) -> str:
    return single_text(await session.request(CallTool("raw", {"lines": list(lines)}), deadline=deadline))


@pytest.mark.req("stdio.framing.large", "base.utf8")
@pytest.mark.parametrize(
    "lines",
    [
        ("", "   ", RESULT),
        ("\ufeff" + RESULT + "\r",),
        ("npm notice: a new version", "{not json}", "[1, 2", "null", "17", '"text"', RESULT),
        (RESULT.replace('"content"', f'"structuredContent":{"[" * 199}{"]" * 199},"content"'),),
        (RESULT.replace('"content"', f'"structuredContent":{2**63 - 1},"content"'),),
        (RESULT.replace('"content"', f'"structuredContent":{"9" * 400},"content"'),),
        (RESULT.replace('"content"', '"structuredContent":1e400,"content"'),),
    ],
    ids=["blank", "BOM and CR", "banners", "deep", "2^63", "400 digits", "1e400"],
)
async def test_odd_lines_around_an_answer_do_not_cost_it(lines: tuple[str, ...]) -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config(era="handshake"), observer) as session:
        assert await send_raw_lines(session, *lines) == "fine"
        assert await call_echo(session) == "hi"
    assert len(observer.warnings) <= 1


@pytest.mark.parametrize(
    "line",
    [
        RESULT.replace("fine", "\x00"),
        RESULT.replace('"fine"', "NaN"),
        RESULT.replace('"fine"', "Infinity"),
        RESULT.replace('"fine"', "'fine'"),
        RESULT[:-1] + ",}",
        '{"JSONRPC":"2.0","ID":@,"Result":{}}',
        '{"jsonrpc":"2.0","Id":@,"result":{}}',
        RESULT.replace("2.0", "1.0"),
        RESULT.replace('"content"', f'"structuredContent":{"[" * 500_000}{"]" * 500_000},"content"'),
    ],
    ids=["NUL", "NaN", "Infinity", "quotes", "comma", "upper case", "Id", "1.0", "500,000 deep"],
)
async def test_a_broken_answer_fails_only_its_call_and_before_the_deadline(line: str) -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        started_at = time.monotonic()
        with pytest.raises(MalformedMessage, match=r"invalid response|not valid"):
            await send_raw_lines(session, line, deadline=20)
        assert time.monotonic() - started_at < 15
        assert await call_echo(session) == "hi"


@pytest.mark.parametrize("levels", [5_000, 100_000])
async def test_a_deeply_nested_answer_costs_at_most_its_call(levels: int) -> None:
    deep = RESULT.replace('"content"', f'"structuredContent":{"[" * levels}{"]" * levels},"content"')
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        note = "[structured content that is nested too deeply or is not JSON: left out]"
        assert await read_structure(session, deep) in {"refused", note}
        assert await call_echo(session) == "hi"


async def read_structure(session: Session, line: str) -> str | None:
    """Return the structured content as text; since Python 3.12 the decoder passes over more levels, which stay raw."""
    try:
        result = await session.request(CallTool("raw", {"lines": [line]}), deadline=20)
    except MalformedMessage:
        return "refused"
    return structured_text(result.structured_content, ContentIndex([]))


async def test_half_a_character_is_shown_as_replaced() -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        assert await send_raw_lines(session, RESULT.replace("fine", "\\ud83d!")) == "\ufffd!"


@pytest.mark.req("stdio.framing.large")
async def test_an_answer_that_arrives_byte_by_byte_is_read_as_one() -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        assert single_text(await session.request(CallTool("drip"))) == "dripped"


async def test_an_answer_over_several_lines_fails_its_call_and_the_session_continues() -> None:
    observer = RecordingObserver()
    async with open_stdio_session(faulty_server_config(era="handshake"), observer) as session:
        started_at = time.monotonic()
        with pytest.raises(MalformedMessage, match="is not one line of JSON"):
            await session.request(CallTool("pretty"), deadline=30)
        assert time.monotonic() - started_at < 20
        assert await call_echo(session) == "hi"
    assert len(observer.warnings) == 1
    assert "is not one line of JSON" in observer.warnings[0]


async def test_a_server_that_writes_without_end_and_reads_nothing_meanwhile_is_read() -> None:
    async with open_stdio_session(faulty_server_config(era="handshake")) as session, anyio.create_task_group() as group:
        done: list[str] = []

        async def both(call: CallTool) -> None:
            done.append(single_text(await session.request(call)))

        # Both pipes are full at once: ours with half a megabyte, the server's with 5 MB of notifications.
        group.start_soon(both, CallTool("write without reading", {"count": 500}))
        group.start_soon(both, CallTool("echo", {"text": "y" * 500_000}))
        await wait_until(lambda: len(done) == 2)
    assert sorted(done, key=len) == ["read", "y" * 500_000]


async def test_processes_that_left_the_group_of_a_dead_server_do_not_block_its_calls(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    async with open_stdio_session(faulty_server_config(note=str(note), era="handshake")) as session:
        started_at = time.monotonic()
        with pytest.raises(ConnectionLost, match="exited with status 5"):
            await session.request(CallTool("daemon"), deadline=20)
        assert time.monotonic() - started_at < 15
        started_at = time.monotonic()
    assert time.monotonic() - started_at < 15
    (line,) = [line for line in note.read_text().splitlines() if line.startswith("daemon ")]
    daemon = psutil.Process(int(line.split()[1]))
    assert daemon.is_running()  # it detached itself, which is allowed
    daemon.kill()


async def test_writes_to_a_full_pipe_end_with_the_server_even_if_the_pipe_stays_open(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    calls = [CallTool("leave input open"), CallTool("echo", {"text": "x" * 5_000_000}), CallTool("echo", {"text": "y"})]
    ended: list[ServerError] = []
    async with open_stdio_session(faulty_server_config(note=str(note), era="handshake")) as session:

        async def fails(call: CallTool) -> None:
            with pytest.raises(ServerError) as exc_info:
                await session.request(call, deadline=30)
            ended.append(exc_info.value)

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(fails, call)
                await anyio.wait_all_tasks_blocked()
            await wait_until(lambda: note.exists() and "daemon" in note.read_text())
            await anyio.Path(f"{note}.go").touch()
    (line,) = [line for line in note.read_text().splitlines() if line.startswith("daemon ")]
    psutil.Process(int(line.split()[1])).kill()
    assert [type(error) for error in ended] == [ConnectionLost] * 3


async def test_a_server_that_does_not_read_its_input_ends_with_all_calls_before_their_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "UNREAD_INPUT_TIMEOUT", 0.3)
    ended: list[ServerError] = []
    async with open_stdio_session(faulty_server_config(era="handshake")) as session, anyio.create_task_group() as group:

        async def fails(call: CallTool) -> None:
            with pytest.raises(ConnectionLost, match="does not read its input") as exc_info:
                await session.request(call, deadline=30)
            ended.append(exc_info.value)

        for call in (CallTool("stop reading"), CallTool("echo", {"text": "x" * 2_000_000}), CallTool("echo")):
            group.start_soon(fails, call)
            await anyio.wait_all_tasks_blocked()
    # A request that was sent may have run; one that was not is not sent to the next process either.
    assert sorted((type(error).__name__, error.may_have_run) for error in ended) == [
        ("ConnectionLost", True),
        ("ConnectionLost", True),
        ("RequestNotSent", False),
    ]


async def test_a_call_to_a_full_pipe_ends_at_its_own_deadline_and_delays_no_other_server() -> None:
    ended: list[RequestTimeout] = []
    async with (
        open_stdio_session(faulty_server_config(era="handshake")) as session,
        open_stdio_session(faulty_server_config(era="handshake")) as other,
        anyio.create_task_group() as group,
    ):

        async def fill_pipe() -> None:
            with pytest.raises(ServerError):
                await session.request(CallTool("stop reading"), deadline=60)

        async def wait_for_room(text: str) -> None:
            with pytest.raises(RequestTimeout) as exc_info:
                await session.request(CallTool("echo", {"text": text}), deadline=0.5)
            ended.append(exc_info.value)

        group.start_soon(fill_pipe)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                for size in (2_000_000, 1):
                    calls.start_soon(wait_for_room, "x" * size)
                    await anyio.wait_all_tasks_blocked()
                assert single_text(await other.request(CallTool("echo", {"text": "hi"}), deadline=10)) == "hi"
        group.cancel_scope.cancel()
    begun, unsent = sorted(ended, key=lambda error: error.message)
    assert "did not answer tools/call within" in begun.message
    assert re.search(r"does not read its input: tools/call waited \d+ s and was not sent\.", unsent.message)
    assert "has not read all that was sent to it" in begun.hint
    assert begun.hint == unsent.hint
    assert (begun.may_have_run, unsent.may_have_run) == (True, False)


async def test_a_server_that_prints_while_its_input_waits_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "UNREAD_INPUT_TIMEOUT", 1.0)
    async with open_stdio_session(faulty_server_config(era="handshake")) as session, anyio.create_task_group() as group:
        group.start_soon(session.request, CallTool("print before reading", {"count": 30}))
        await anyio.wait_all_tasks_blocked()
        long = "y" * 500_000
        assert single_text(await session.request(CallTool("echo", {"text": long}), deadline=30)) == long


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("dies at start", r"exited with status 3; it last said: cannot read licence\.key"),
        ("dies of discover always", "exited with status 9; it last said: unknown method, giving up"),
    ],
)
@pytest.mark.req("stdio.spawn-failure")
async def test_an_exit_at_start_is_reported_before_the_connect_limit(fault: str, text: str) -> None:
    started_at = time.monotonic()
    with pytest.raises(StartupError, match=text):
        async with open_stdio_session(faulty_server_config(fault, era="stateless")):
            pass
    assert time.monotonic() - started_at < 15  # no wait of the connect limit, 30 s


async def test_a_server_that_prints_a_banner_instead_of_an_answer_is_reported_with_the_banner() -> None:
    program = "import sys; print('Loading the index', flush=True); sys.stdin.read()"
    server = ServerConfig(name="peer", command=sys.executable, args=("-c", program), era="handshake")
    with pytest.raises(RequestTimeout, match=r"it printed a line .* not a message: 'Loading the index'\.") as exc_info:
        async with open_stdio_session(server, limits=Limits(connect_timeout=1.5)):
            pass
    assert "belong on standard error" in exc_info.value.hint


async def test_a_killed_server_is_reported_with_its_signal() -> None:
    children = set(psutil.Process().children())
    async with open_stdio_session(faulty_server_config(era="handshake")) as session:
        (child,) = set(psutil.Process().children()) - children
        os.kill(child.pid, signal.SIGTERM)
        with anyio.fail_after(20):
            assert "SIGTERM" in (await session.wait_closed()).message
        with pytest.raises(ServerError) as exc_info:
            await call_echo(session)
        assert not exc_info.value.may_have_run  # it was not even sent


@pytest.mark.req("stdio.no-oauth")
async def test_a_program_is_never_signed_in_to_and_gets_its_credentials_from_its_environment(tmp_path: Path) -> None:
    class UnusedRegistry(OAuthRegistry):
        def get_provider(self, server: ServerConfig, **more: Any) -> OAuthProvider | None:
            raise AssertionError("a program was signed in to")

    note = tmp_path / "seen"
    server = faulty_server_config(note=str(note), era="handshake", env={"THE_TOKEN": "t-0-k-e-n"})
    identities = UnusedRegistry.__new__(UnusedRegistry)
    async with ClientSessionOpener(accounts=identities).open(
        server, FakeRequestHandler(), RecordingObserver()
    ) as session:
        assert await call_echo(session) == "hi"
        (child,) = (child for child in psutil.Process().children() if str(note) in child.cmdline())
        assert child.environ()["THE_TOKEN"] == "t-0-k-e-n"
    assert "t-0-k-e-n" not in note.read_text()


@pytest.mark.req("stdio.framing")
async def test_line_breaks_in_our_messages_are_escaped(tmp_path: Path) -> None:
    note = tmp_path / "seen"
    hostile = 'a\nb\r\n"jsonrpc"\u2028\x00\x7f'
    async with open_stdio_session(faulty_server_config(note=str(note), era="handshake")) as session:
        assert await call_echo(session, hostile) == hostile
    calls: list[dict[str, Any]] = [json.loads(line) for line in note.read_text(encoding="utf-8").split("\n") if line]
    assert [call["params"]["arguments"]["text"] for call in calls if call["method"] == "tools/call"] == [hostile]
