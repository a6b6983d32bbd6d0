"""Tests for the lock file of a project that has no servers, or no longer has any."""

import json

import pytest

from tests.flows.locked_project import LockedProject
from tests.flows.program import Program


@pytest.fixture
def locked(program: Program) -> LockedProject:
    return LockedProject(program)


def test_after_the_last_server_was_removed_the_lock_is_empty_and_agrees(locked: LockedProject) -> None:
    locked.lock()
    locked.program.text("servers", "remove", "files", "--scope", "project", "--yes")
    assert locked.drift().keys() == {("server_removed", "")}
    said = locked.lock()
    assert "server removed" in said
    assert f"Locked: 0 servers, 0 tools in {locked.lock_path}" in said
    assert json.loads(locked.lock_path.read_text()) == {"lockVersion": 3, "servers": {}}
    assert locked.verify() == f"Unchanged: there is no server in {locked.lock_path}\n"
    assert "Unchanged: 0 servers" in locked.lock()


def test_a_project_without_servers_gets_no_lock(locked: LockedProject) -> None:
    locked.file.write_text("{}")
    told = locked.program.error("--mcp-config", ".mcp.json", "servers", "lock", code=3)
    assert f"{locked.file} has no servers." in told
    assert not locked.lock_path.exists()
    told = locked.program.error("--mcp-config", ".mcp.json", "servers", "lock", "files", code=2)
    assert "has no server named 'files'. It has none." in told
