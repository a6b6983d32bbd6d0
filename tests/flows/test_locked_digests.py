"""Tests of package digests in the lock file: `servers lock` records them, and `servers verify` asks again."""

import json
from hashlib import sha256
from typing import Any

import pytest

from tests.fakes.package_tools import INTEGRITY, OTHER_INTEGRITY
from tests.flows.locked_project import LockedProject
from tests.flows.program import Program

NPM = {"command": "npx", "args": ["-y", "@ada/files@1.0.0"], "disabled": True}
PYPI = {"command": "uvx", "args": ["--from", "ada-files==1.0.0", "files"], "disabled": True}


@pytest.fixture
def project(program: Program) -> LockedProject:
    found = LockedProject(program)
    found.configure(files=NPM)
    found.tools.answer_npm("@ada/files", "1.0.0")
    return found


def locked_package(project: LockedProject) -> dict[str, Any]:
    """Return the package that the lock file records for the server `files`."""
    return json.loads(project.lock_path.read_text())["servers"]["files"]["package"]


def test_the_digest_of_an_npm_package_is_locked_and_compared(project: LockedProject) -> None:
    assert "Locked: 1 server" in project.lock()
    assert locked_package(project) == {
        "type": "npm", "name": "@ada/files", "version": "1.0.0", "digest": INTEGRITY,
    }  # fmt: skip
    assert "files: the entry is unchanged" in project.verify()
    assert "Unchanged: 1 server" in project.lock()
    project.tools.answer_npm("@ada/files", "1.0.0", OTHER_INTEGRITY)
    drift = project.drift()
    assert drift.keys() == {("package", "")}
    assert f"- package.digest: {INTEGRITY}" in drift[("package", "")]
    assert f"+ package.digest: {OTHER_INTEGRITY}" in drift[("package", "")]
    assert "It was not started, because its package differs from the locked one." in project.verify(code=9)
    assert f"+ package.digest: {OTHER_INTEGRITY}" in project.lock()
    assert "files: the entry is unchanged" in project.verify()


def test_the_digest_of_a_python_package_is_locked_and_compared(project: LockedProject) -> None:
    project.configure(files=PYPI)
    project.tools.answer_uv("ada-files", "1.0.0", "1" * 64)
    project.lock()
    digest = sha256(f"sha256:{'1' * 64}\n".encode()).hexdigest()
    assert locked_package(project)["digest"] == f"sha256:{digest}"
    assert "files: the entry is unchanged" in project.verify()
    project.tools.answer_uv("ada-files", "1.0.0", "1" * 64, "2" * 64)
    assert project.drift().keys() == {("package", "")}


def test_offline_asks_nobody_and_a_locked_digest_is_no_difference(project: LockedProject) -> None:
    project.lock()
    project.tools.answer_npm("@ada/files", "1.0.0", OTHER_INTEGRITY)
    before = project.tools.started
    assert project.verify("--offline") == "files: the entry is unchanged; not started\n"
    assert project.tools.started == before


def test_without_an_answer_the_lock_is_written_without_a_digest_and_says_so(project: LockedProject) -> None:
    project.tools.answer("npm", "", error="npm error code ENOTFOUND", code=1)
    done = project.program.run("--mcp-config", ".mcp.json", "servers", "lock")
    assert done.returncode == 0
    told = "files: locked without a digest of @ada/files. npm ended with code 1: npm error code ENOTFOUND."
    assert told in done.stderr.decode()
    assert "digest" not in locked_package(project)
    started = project.tools.started
    assert "files: the entry is unchanged" in project.verify()
    assert project.tools.started == started  # there is nothing to compare


def test_a_locked_digest_stays_if_nobody_answers_when_the_version_is_locked_again(project: LockedProject) -> None:
    project.lock()
    project.tools.answer("npm", "", error="npm error code ENOTFOUND", code=1)
    done = project.program.run("--mcp-config", ".mcp.json", "servers", "lock")
    assert "so the one in the lock file stays. npm ended with code 1" in done.stderr.decode()
    assert locked_package(project)["digest"] == INTEGRITY
    report = json.loads(project.lock("--json"))
    assert report["digest_problems"]["files"].startswith("npm ended with code 1")
    project.configure(files={**NPM, "args": ["-y", "@ada/files@1.0.1"]})
    project.lock()
    assert "digest" not in locked_package(project)


def test_a_locked_digest_that_cannot_be_asked_for_is_an_error_and_starts_nothing(project: LockedProject) -> None:
    project.lock()
    project.configure(files={**NPM, "disabled": False})
    project.tools.answer("npm", "null")
    told = project.program.run("--mcp-config", ".mcp.json", "servers", "verify")
    assert told.returncode == 4
    assert b"files: Not started, because the digest of its package could not be compared. npm did not" in told.stderr
    assert b"servers verify --offline" in told.stderr
    report = json.loads(project.verify("--json", code=4))["servers"][0]
    assert (report["ok"], report["connected"], report["error"]["exit"]) == (False, False, 4)


def test_a_changed_package_is_not_started(project: LockedProject) -> None:
    npx = project.tools.folder / "npx"
    npx.write_text(f"#!/bin/sh\necho x >> '{project.started}'\n")
    npx.chmod(0o755)
    project.lock()
    project.configure(files={**NPM, "disabled": False})
    project.tools.answer_npm("@ada/files", "1.0.0", OTHER_INTEGRITY)
    assert project.drift().keys() == {("package", "")}
    assert not project.started.exists()


def test_a_command_without_a_version_is_reported_once_and_not_asked_about(project: LockedProject) -> None:
    project.configure(files={**NPM, "args": ["-y", "@ada/files"]})
    done = project.program.run("--mcp-config", ".mcp.json", "servers", "lock")
    told = done.stderr.decode().splitlines()
    assert len(told) == 1
    assert "the command does not pin a version of @ada/files" in told[0]
    assert project.tools.started == []
