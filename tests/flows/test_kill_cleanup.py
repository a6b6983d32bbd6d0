"""Tests that no process of a server remains when mcphost is killed without a chance to clean up."""

import time
from pathlib import Path

import psutil

from tests.flows.conftest import inline_server
from tests.flows.inline_servers import HANDSHAKE_SERVER
from tests.flows.program import Program
from tests.processes import is_alive, kill

STUBBORN = """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                          " time.sleep(300)"])
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
"""


def test_killing_mcphost_with_nine_ends_servers_that_ignore_everything(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = HANDSHAKE_SERVER.format(call="pass", start=STUBBORN.format(pids=str(pids))) + "\ntime.sleep(300)"
    server = inline_server("stubborn", code)
    program = Program(tmp_path)
    file = program.servers(stubborn={"command": server.command, "args": list(server.args)})
    with program.pipe("--mcp-config", file) as pipe:
        made = pipe.result(pipe.send("connect", server="stubborn"))
        assert made["ok"], made
        started = [int(pid) for pid in pids.read_text().split()]
        started += [child.pid for child in psutil.Process(pipe.process.pid).children()]
        assert all(is_alive(pid) for pid in started)
        pipe.process.kill()
        until = time.monotonic() + 10
        while any(is_alive(pid) for pid in started) and time.monotonic() < until:
            time.sleep(0.05)
    assert not [pid for pid in started if is_alive(pid)]


def test_the_next_start_ends_leftovers_if_the_watchdog_was_killed_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = HANDSHAKE_SERVER.format(call="pass", start=STUBBORN.format(pids=str(pids))) + "\ntime.sleep(300)"
    server = inline_server("stubborn", code)
    quiet = inline_server("quiet", HANDSHAKE_SERVER.format(call="pass", start=""))
    program = Program(tmp_path)
    file = program.servers(
        stubborn={"command": server.command, "args": list(server.args)},
        quiet={"command": quiet.command, "args": list(quiet.args)},
    )
    with program.pipe("--mcp-config", file) as pipe:
        assert pipe.result(pipe.send("connect", server="stubborn"))["ok"]
        stubborn = [int(pid) for pid in pids.read_text().split()]
        others = [child for child in psutil.Process(pipe.process.pid).children() if child.pid not in stubborn]
        pipe.process.kill()
        kill(others)  # the watchdog is one of them
    assert all(is_alive(pid) for pid in stubborn)
    with program.pipe("--mcp-config", file) as pipe:
        assert pipe.result(pipe.send("connect", server="quiet"))["ok"]
        until = time.monotonic() + 5
        while any(is_alive(pid) for pid in stubborn) and time.monotonic() < until:
            time.sleep(0.05)
    assert not [pid for pid in stubborn if is_alive(pid)]
