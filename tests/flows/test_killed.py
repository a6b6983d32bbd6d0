"""mcphost killed without a chance to clean up: nothing it started stays."""

import time
from pathlib import Path

import psutil

from tests.flows.conftest import script
from tests.flows.program import Program
from tests.flows.test_servers import BASE

STUBBORN = """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                          " time.sleep(300)"])
open({pids!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_killing_mcphost_with_nine_ends_servers_that_ignore_everything(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = BASE.format(call="pass", start=STUBBORN.format(pids=str(pids))) + "\ntime.sleep(300)"
    server = script("stubborn", code)
    program = Program(tmp_path)
    file = program.servers(stubborn={"command": server.command, "args": list(server.args)})
    with program.pipe("--mcp-config", file) as pipe:
        made = pipe.result(pipe.send("connect", server="stubborn"))
        assert made["ok"], made
        started = [int(pid) for pid in pids.read_text().split()]
        started += [child.pid for child in psutil.Process(pipe.process.pid).children()]
        assert all(alive(pid) for pid in started)
        pipe.process.kill()
        until = time.monotonic() + 10
        while any(alive(pid) for pid in started) and time.monotonic() < until:
            time.sleep(0.05)
    assert not [pid for pid in started if alive(pid)]
