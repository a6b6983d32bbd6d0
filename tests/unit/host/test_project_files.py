"""Tests that the approval of a project's server shows the project files it uses, and covers the caFile's content."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import describe_server
from mcphost.config.schema import ServerConfig, Source
from mcphost.errors import ConfigError
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustServer
from mcphost.host.servers.server_approval import RunApprovals, ServerApprovals, approve, make_question
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio


def project_server(clone: Path, *, source: Source = "project", **entry: Any) -> ServerConfig:
    return ServerConfig(name="x", source=source, file=str(clone / ".mcp.json"), cwd=str(clone), **entry)


def write_program(folder: Path, name: str = "its-server") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def warnings_of(config: ServerConfig) -> str:
    return "\n".join(make_question(config, None).warnings)


def test_a_path_entry_inside_the_project_and_the_program_in_it_are_pointed_out(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    write_program(clone / "bin")
    (tmp_path / "x").mkdir()
    for path in (f"{clone}/bin:/usr/bin", "/usr/bin:bin", f"/usr/bin:{tmp_path}/x/../clone/bin"):
        told = warnings_of(project_server(clone, command="its-server", env={"PATH": path}))
        assert "sets PATH to places in the project's folder, where files can change without a new approval" in told
        assert "runs a program in the project's folder (" in told
        assert "clone/bin/its-server)" in told
    assert "project's folder" not in warnings_of(project_server(clone, command="ls", env={"PATH": "/usr/bin:/bin"}))
    own = project_server(clone, source="user", command="its-server", env={"PATH": f"{clone}/bin"})
    assert "project's folder" not in warnings_of(own)


def test_a_project_program_found_through_path_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    write_program(clone / "node_modules" / ".bin")
    monkeypatch.setenv("PATH", f"{clone}/node_modules/.bin:/usr/bin:/bin")
    assert "runs a program in the project's folder" in warnings_of(project_server(clone, command="its-server"))
    assert "runs a program in the project's folder" in warnings_of(project_server(clone, command="./run.sh"))
    assert "project's folder" not in warnings_of(project_server(clone, command="ls"))


def test_a_link_out_of_the_project_and_one_into_it_are_both_pointed_out(tmp_path: Path) -> None:
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    write_program(clone / "bin")
    write_program(elsewhere)
    (clone / "out").symlink_to(elsewhere)
    (elsewhere / "into").symlink_to(clone / "bin")
    for path in (clone / "out", elsewhere / "into"):
        assert "sets PATH to places" in warnings_of(project_server(clone, command="ls", env={"PATH": str(path)}))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("NODE_EXTRA_CA_CERTS", "{clone}/ca.pem", True),
        ("SSL_CERT_FILE", "{clone}/ca.pem", True),
        ("NODE_OPTIONS", "--require=./evil.js", True),
        ("GIT_SSH_COMMAND", "ssh -F {clone}/config", True),
        ("PYTHONPATH", "${env:CLONE}/lib", True),
        ("DATA_FOLDER", "{clone}/data", False),
        ("NODE_OPTIONS", "--max-old-space-size=4096", False),
        ("HTTPS_PROXY", "http://proxy.example:3128", False),
        ("SSL_CERT_FILE", "/etc/ssl/cert.pem", False),
    ],
)
def test_a_risky_variable_that_points_into_the_project_is_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: bool
) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    monkeypatch.setenv("CLONE", str(clone))
    one = project_server(clone, command="ls", env={name: value.replace("{clone}", str(clone))})
    assert (f"sets {name} to places in the project's folder" in warnings_of(one)) is told


def test_another_content_of_a_projects_ca_file_is_another_server(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("first")
    web = project_server(tmp_path, url="https://mcp.example/mcp", ca_file=str(file))
    own = project_server(tmp_path, source="user", url="https://mcp.example/mcp", ca_file=str(file))
    before, shown, mine = server_digest(web), describe_server(web), server_digest(own)
    assert "trusts certificates in the project's folder" in warnings_of(web)
    file.write_text("second")
    assert server_digest(web) != before
    assert describe_server(web) != shown
    assert make_question(web, None).ca_file.startswith(f"{file} (content ")
    assert server_digest(own) == mine, "the user's own file of certificates is renewed by the user"
    after = server_digest(web)
    file.unlink()
    assert server_digest(web) not in (before, after)


def test_an_oversized_change_is_pointed_out(tmp_path: Path) -> None:
    value = " ".join(["/x/y"] * 200_000)
    many = {f"NAME_{n}_OPTS": "/a /b /c" for n in range(10_000)}
    for env in ({"NODE_OPTIONS": value}, {"PATH": value.replace(" ", ":")}, many):
        assert "to places in the project's folder" in warnings_of(project_server(tmp_path, command="ls", env=env))


async def test_a_ca_file_that_changes_while_the_question_is_open_is_asked_about_again(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("first")
    web = project_server(tmp_path, url="https://mcp.example/mcp", ca_file=str(file))

    def swapped(_: TrustServer) -> TrustAlways:
        file.write_text("second")
        return TrustAlways()

    database = Database(tmp_path / "s.db")
    frontend = ScriptedFrontend(swapped, DoNotTrust())
    trusting = ServerApprovals(GrantStore(database), frontend, create_in_memory_log(), RunApprovals())
    assert not await trusting.ask_approval(web)
    assert not await trusting.is_approved(web)
    shown = [question.ca_file for question in frontend.asked if isinstance(question, TrustServer)]
    assert len(set(shown)) == 2
    await database.close()


@pytest.mark.parametrize("content", ["x" * 4_000_001, None])
async def test_unreadable_certificates_are_refused_before_a_question(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    web = project_server(tmp_path, url="https://mcp.example/mcp", ca_file=str(file))
    database = Database(tmp_path / "s.db")
    frontend = ScriptedFrontend(TrustAlways())
    grants, audit_log = GrantStore(database), create_in_memory_log()
    trusting = ServerApprovals(grants, frontend, audit_log, RunApprovals())
    for refused in (trusting.ask_approval(web), trusting.authorize(web), approve(grants, audit_log, web)):
        with pytest.raises(ConfigError) as exc_info:
            await refused
        assert str(file) in exc_info.value.message
        assert content is None or "over 4000 kB" in exc_info.value.message
    assert not frontend.asked
    assert not await trusting.is_approved(web)
    assert f"certificates: {file} (content cannot be read)" in describe_server(web)
    await database.close()


async def test_certificates_of_any_length_up_to_the_limit_are_bound_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    web = project_server(tmp_path, url="https://mcp.example/mcp", ca_file=str(file))
    database = Database(tmp_path / "s.db")
    frontend = ScriptedFrontend(TrustAlways(), DoNotTrust())
    trusting = ServerApprovals(GrantStore(database), frontend, create_in_memory_log(), RunApprovals())
    file.write_text("x" * 3_999_999 + "1")
    assert await trusting.authorize(web) is not None
    file.write_text("x" * 3_999_999 + "2")
    assert await trusting.authorize(web) is None
    assert len(frontend.asked) == 2
    await database.close()
