"""Fixtures for the demo tests: a demo server running as a process."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.unit.demo.demo_client import DemoClient


@pytest.fixture
def peer() -> Iterator[DemoClient]:
    """Run a demo server and return a client of it."""
    command = [sys.executable, "-m", "mcphost.demo.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield DemoClient(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(5) == 0
