"""Tests that a crash writes no memory, which holds tokens and passphrases, to a file."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.program import MCPHOST, Program


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.req("auth.token.storage")
def test_core_files_are_switched_off_although_the_shell_allows_them(tmp_path: Path) -> None:
    program = Program(tmp_path)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("this machine never writes core files")
    shell = 'ulimit -Sc "$(ulimit -Hc)"; exec "$@"'
    command = ["sh", "-c", shell, "sh", *MCPHOST, "pipe", "--mcp-config", program.servers()]
    with subprocess.Popen(
        command, env=program.env, cwd=program.work, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        process.stdin.close()
        process.stdout.read()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max core file size"))
    soft_limit = line.split()[4]
    assert soft_limit == "0"
