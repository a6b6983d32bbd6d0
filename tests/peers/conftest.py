"""Fixtures for the third-party servers that several tests use."""

from pathlib import Path

import pytest

from tests.flows.program import Program
from tests.peers import node


@pytest.fixture
def everything_config(program: Program, npm_peers: Path) -> str:
    """Return the path of an --mcp-config file with server-everything over stdio."""
    command, *arguments = node.everything_command()
    return program.servers(everything={"command": command, "args": arguments})
