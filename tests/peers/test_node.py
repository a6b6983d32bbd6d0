"""Tests that the npm programs of the tests start, in the versions pinned by the lock file."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.peers import node

pytestmark = pytest.mark.peer


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((node.HERE / "package-lock.json").read_text())
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
    assert all("integrity" in entry for name, entry in lock["packages"].items() if name)


def test_server_everything_is_the_pinned_one_and_answers(npm_peers: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
    }
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(node.everything_command(), **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        process.terminate()
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    manifest = npm_peers / "node_modules/@modelcontextprotocol/server-everything/package.json"
    assert json.loads(manifest.read_text())["version"] == "2026.8.31"


def test_aimock_starts(npm_peers: Path) -> None:
    help_text = subprocess.run(node.aimock_command("--help"), capture_output=True, check=True, timeout=20).stdout
    assert b"--fixtures" in help_text
    manifest = npm_peers / "node_modules/@copilotkit/aimock/package.json"
    assert json.loads(manifest.read_text())["version"] == "1.43.0"
