"""Tests for server startup: its time limit, its progress messages, and the reported cause of a failure."""

import sys
import threading
from pathlib import Path

import anyio
import pytest

from mcphost.cli import server_session_opener
from mcphost.config import server_restrictions
from mcphost.config.schema import HostConfig, Limits, ServerConfig
from mcphost.config.settings import Overrides, apply_overrides
from mcphost.errors import RequestTimeout, StartupError
from mcphost.host.events import ServerState
from mcphost.host.servers import connection
from mcphost.serialization import replace
from tests.flows.conftest import OpenHost, inline_server, read_events

pytestmark = pytest.mark.anyio


def fake_npx(folder: Path, code: str) -> ServerConfig:
    """Return a server whose command is a fake npx that runs the Python source *code*."""
    path = folder / "npx"
    path.write_text(f"#!{sys.executable}\n{code}\n")
    path.chmod(0o700)
    return ServerConfig(name="fetched", command=str(path), args=("server",), source="flag")


async def test_the_last_three_lines_of_a_failed_start_are_in_the_error(open_host: OpenHost) -> None:
    code = "import sys; print('one\\n\\ntwo\\n\\x1b[31mthree\\nBearer abcdefghijkl', file=sys.stderr); sys.exit(1)"
    async with open_host(servers=(inline_server("dying", code),)) as host:
        with anyio.fail_after(20), pytest.raises(StartupError) as exc_info:
            await host.servers.ensure_ready("dying")
        cause = "exited with status 1; it last said: two | ␛[31mthree | Bearer [secret]."
        assert exc_info.value.message.endswith(cause)
        assert host.servers.view("dying").detail.endswith(cause)


@pytest.mark.parametrize(
    ("output", "message", "hint"),
    [("Missing v1 code.", "it last said: Missing v1 code.", "Its error output"), ("", "exited with status 1.", "")],
)
async def test_the_end_of_a_server_names_its_error_output_only_if_there_is_some(
    open_host: OpenHost, output: str, message: str, hint: str
) -> None:
    code = f"import sys; print({output!r}, file=sys.stderr); sys.exit(1)"
    async with open_host(servers=(inline_server("dying", code),)) as host:
        with anyio.fail_after(20), pytest.raises(StartupError) as exc_info:
            await host.servers.ensure_ready("dying")
        assert exc_info.value.message.endswith(message)
        assert ".." not in exc_info.value.message
        assert ("Its error output" in exc_info.value.hint) == bool(hint)


async def test_a_failed_server_with_watched_files_says_that_saving_one_restarts_it(open_host: OpenHost) -> None:
    server = replace(inline_server("dying", "raise SystemExit(1)"), watched_files=("*.py",), watched_folder="/tmp")
    async with open_host(servers=(server,)) as host:
        with anyio.fail_after(20), pytest.raises(StartupError):
            await host.servers.ensure_ready("dying")
        assert host.servers.view("dying").hint.startswith("It restarts when you save one of its watched files.")


async def test_the_error_of_a_failed_start_has_no_part_of_a_private_key_of_several_lines(open_host: OpenHost) -> None:
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MC4CAQAwBQYDK2Vw",
        "BCIEINTuctv5E1hK",
        "1bbY8fdp",
        "-----END PRIVATE KEY-----",
    ]
    code = f"import sys; print({lines!r}, file=sys.stderr, sep='\\n'); sys.exit(1)".replace("print([", "print(*[")
    async with open_host(servers=(inline_server("dying", code),)) as host:
        with anyio.fail_after(20), pytest.raises(StartupError) as exc_info:
            await host.servers.ensure_ready("dying")
        assert exc_info.value.message.endswith("exited with status 1; it last said: [secret] | [secret] | [secret].")
        assert [line.text for line in host.servers.view("dying").log if line.source == "stderr"] == ["[secret]"] * 5


async def test_a_server_that_never_answers_is_reported_with_its_last_output(open_host: OpenHost) -> None:
    code = "import sys; print('waiting for the database', file=sys.stderr, flush=True); sys.stdin.read()"
    async with open_host(servers=(inline_server("stuck", code),), limits=Limits(connect_timeout=2)) as host:
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match="it last said: waiting for the database"):
            await host.servers.ensure_ready("stuck")


async def test_a_local_server_is_starting_until_its_time_is_over(
    open_host: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "INSTALL_SECONDS", 0.05)
    stuck = inline_server("stuck", "import sys; sys.stdin.read()")
    async with open_host(servers=(stuck,), limits=Limits(connect_timeout=1)) as host:
        feed = host.events.subscribe()
        host.start()
        with anyio.fail_after(20):
            read = await read_events(feed, lambda event: isinstance(event, ServerState) and event.state == "failed")
    assert {event.state for event in read if isinstance(event, ServerState)} <= {"waiting", "connecting", "failed"}


async def test_an_installer_has_more_time_and_is_not_called_silent(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "INSTALL_SECONDS", 0.2)
    gate = tmp_path / "fetched"
    fetched = fake_npx(
        tmp_path,
        f"import os, runpy, sys, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\n"
        "sys.argv = ['demo']; runpy.run_module('mcphost.demo.server', run_name='__main__')",
    )
    async with open_host(servers=(fetched,)) as host:
        feed = host.events.subscribe()
        host.start()
        with anyio.fail_after(20):
            events = await read_events(feed, lambda event: isinstance(event, ServerState) and bool(event.detail))
            assert (events[-1].state, events[-1].detail) == (  # type: ignore[attr-defined]
                "connecting", f"{fetched.command} may still be downloading the program.",
            )  # fmt: skip
            assert host.servers.view("fetched").starting_seconds > 0
            gate.touch()
            await host.servers.ensure_ready("fetched")
        assert host.servers.view("fetched").starting_seconds == 0


@pytest.mark.parametrize(("chosen", "text"), [(Limits(), "within 1 s"), (Limits(connect_timeout=2), "within 2 s")])
async def test_a_connect_timeout_of_the_user_applies_to_installers_too(
    open_host: OpenHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Limits, text: str
) -> None:

    assert server_restrictions.INSTALLER_START_TIMEOUT == 120
    monkeypatch.setattr(server_session_opener, "INSTALLER_START_TIMEOUT", 1.0)
    async with open_host(servers=(fake_npx(tmp_path, "import sys; sys.stdin.read()"),), limits=chosen) as host:
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match=text):
            await host.servers.ensure_ready("fetched")


async def test_the_hard_limit_of_the_command_line_applies_to_installers_too(
    open_host: OpenHost, tmp_path: Path
) -> None:
    usual = Limits()
    config = apply_overrides(HostConfig(limits=usual), Overrides(timeout=60), {})
    assert config.limits.connect_timeout == usual.connect_timeout, "so it is not what the user chose for starting"
    hard = replace(config.limits, request_timeout=1.0)
    async with open_host(servers=(fake_npx(tmp_path, "import sys; sys.stdin.read()"),), limits=hard) as host:
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match="within 1 s"):
            await host.servers.ensure_ready("fetched")


async def test_the_hint_of_a_start_that_fails_names_the_file_that_was_read(open_host: OpenHost, tmp_path: Path) -> None:
    file = str(tmp_path / "servers.json")
    absent = ServerConfig(name="absent", command="no-such-program-here", source="flag", file=file)
    nowhere = ServerConfig(name="nowhere", command="ls", cwd="/no/such/folder", source="flag", file=file)
    async with open_host(servers=(absent, nowhere)) as host:
        for name in ("absent", "nowhere"):
            with anyio.fail_after(20), pytest.raises(StartupError) as exc_info:
                await host.servers.ensure_ready(name)
            assert f"in {file}." in exc_info.value.hint


async def test_ten_servers_that_start_at_once_need_no_thread_each(open_host: OpenHost) -> None:
    code = "import runpy, sys; sys.argv = ['demo']; runpy.run_module('mcphost.demo.server', run_name='__main__')"
    before = set(threading.enumerate())
    async with open_host(servers=tuple(inline_server(f"s{number}", code) for number in range(10))) as host:
        host.start()
        with anyio.fail_after(60):
            for view in host.servers.views():
                await host.servers.ensure_ready(view.name)
        started = sorted(thread.name for thread in set(threading.enumerate()) - before)
        assert len(started) <= 4, started
    assert not [thread for thread in threading.enumerate() if "waitpid" in thread.name]


async def test_auto_approval_waits_for_the_tools_of_a_server_that_is_starting(open_host: OpenHost) -> None:
    async with open_host(servers=(inline_server("slow", "import time; time.sleep(60)"),)) as host:
        host.start()
        assert host.auto_approval.candidates() == ()
        with anyio.fail_after(20):
            while not host.auto_approval.is_waiting_for_servers:
                await anyio.lowlevel.checkpoint()
