"""Tests for a server that is started through another program, which drops privileges."""

import os
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from mcphost.config.schema import ServerConfig
from tests.conftest import skip_or_fail
from tests.flows.conftest import OpenHost
from tests.processes import command_line

pytestmark = pytest.mark.anyio


def server_process() -> psutil.Process:
    """Return the process of the demo server, a descendant of this process."""
    below = psutil.Process().children(recursive=True)
    return next(item for item in below if "mcphost.demo.server" in command_line(item))


def kernel_status(process: psutil.Process) -> str:
    """Return the content of /proc/PID/status."""
    return Path(f"/proc/{process.pid}/status").read_text()


@pytest.mark.req("sec.local.sandbox")
@pytest.mark.skipif(sys.platform != "linux", reason="the wrapper of this test is there on Linux only")
async def test_a_server_runs_behind_a_wrapper_with_few_rights_and_variables_and_ends_with_it(
    open_host: OpenHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = shutil.which("setpriv") or skip_or_fail("setpriv is not installed")
    monkeypatch.setenv("OF_OURS", "hidden")
    behind = ("--no-new-privs", sys.executable, "-m", "mcphost.demo.server")
    config = ServerConfig(name="boxed", command=wrapper, args=behind, env={"GIVEN": "yes"}, source="flag")
    async with open_host(servers=(config,)) as host:
        assert (await host.tools.call("boxed", "add", {"a": 2, "b": 40})).text.endswith("42")
        process = server_process()
        assert "NoNewPrivs:\t1" in kernel_status(process)
        seen = process.environ()
        assert seen["GIVEN"] == "yes"
        assert "OF_OURS" not in seen
        assert os.getpgid(process.pid) != os.getpgid(0)
    assert not process.is_running()
