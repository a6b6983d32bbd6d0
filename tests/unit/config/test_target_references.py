"""Tests for references such as `${env:NAME}` in a server's command or URL: parsing, restrictions and approval."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import describe_server
from mcphost.config.loader import load_config, read_project_file
from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import HostConfig, ServerConfig, Source
from mcphost.config.server_restrictions import has_same_target
from mcphost.config.variable_references import resolve_target
from mcphost.host.servers.server_approval import make_question
from mcphost.serialization import replace

SECRET = "hunter2-of-the-variable-9"


def load_entry(folder: Path, **entry: Any) -> HostConfig:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}))
    return load_config(folder)


def only_server(folder: Path, **entry: Any) -> ServerConfig:
    config = load_entry(folder, **entry)
    assert config.problems == ()
    return config.servers[0]


def make_server(source: Source = "project", **entry: Any) -> ServerConfig:
    return ServerConfig(name="x", source=source, file="/f/.mcp.json", **entry)


def test_an_entry_keeps_what_is_written_until_it_is_started(tmp_path: Path) -> None:
    server = only_server(tmp_path, command="${BIN:-/bin}/run", args=["~/a", "${env:B}"], cwd="${userHome}/w")
    assert (server.argv, server.cwd) == (("${BIN:-/bin}/run", "~/a", "${env:B}"), "${userHome}/w")
    assert server.cwd_has_references
    address = only_server(tmp_path, url="${BASE:-https://h.example}/mcp")
    assert address.url == "${BASE:-https://h.example}/mcp"
    assert resolve_target(address).url == "https://h.example/mcp"


def test_the_folder_of_the_start_followed_by_a_path_is_resolved_at_once(tmp_path: Path) -> None:
    server = only_server(tmp_path, command="x", cwd="${workspaceFolder}/a")
    assert (server.cwd, server.cwd_has_references) == (os.path.realpath("a"), False)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "${keyring:a}"},
        {"command": "x", "cwd": "${keyring:a}"},
    ],
)
def test_the_keyring_in_a_command_or_address_is_refused_when_the_file_is_read(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    config = load_entry(tmp_path, **entry)
    assert not config.servers
    assert "${keyring:…}, which is for secrets" in config.problems[0]
    assert '"env" or "headers"' in config.problems[0]


@pytest.mark.parametrize(
    "entry",
    [{"command": "x", "args": ["--token=${keyring: a }"]}, {"url": "https://h.example/mcp?key=${keyring:a}"}],
)
def test_a_projects_file_cannot_put_the_keyring_into_arguments_or_the_address(entry: dict[str, Any]) -> None:
    problems: list[str] = []
    assert not parse_servers({"mcpServers": {"x": entry}}, "/f/.mcp.json", "project", problems.append)
    assert "${keyring:…}, which is for secrets" in problems[0]


@pytest.mark.parametrize("key", ["command", "url", "cwd", "args", "env", "headers"])
def test_a_reference_inside_a_default_is_refused_when_the_file_is_read(tmp_path: Path, key: str) -> None:
    text = "https://${A:-${B}}"
    entry: dict[str, Any] = {"url": "https://h.example"} if key in ("url", "headers") else {"command": "x"}
    value = {"args": [text], "env": {"A": text}, "headers": {"A": text}}.get(key, text)
    config = load_entry(tmp_path, **{**entry, key: value})
    assert not config.servers
    assert "inside the default" in config.problems[0]


def test_variables_of_other_hosts_are_reported_and_forms_of_shells_are_not(tmp_path: Path) -> None:
    config = load_entry(tmp_path, command="sh", args=["-c", "echo ${1} ${x%.*}", "${command:pick}"])
    assert len(config.problems) == 1
    assert '"args[2]" has ${command:pick}, which is passed on unchanged' in config.problems[0]
    assert config.servers[0].args[2] == "${command:pick}"


def test_a_secret_as_the_default_of_a_reference_is_reported_and_not_quoted(tmp_path: Path) -> None:
    config = load_entry(tmp_path, command="x", env={"API_TOKEN": f"${{API_TOKEN:-{SECRET}}}"})
    assert '"env.API_TOKEN" looks like a secret in plain text' in config.problems[0]
    assert SECRET not in config.problems[0] + repr(make_question(config.servers[0], None))


def test_an_entry_and_a_projects_file_with_too_many_references_are_refused(tmp_path: Path) -> None:
    for entry in ({"command": "x", "args": ["${A:-b}" * 1_001]}, {"url": "https://h", "headers": {"A": "${" * 1_001}}):
        assert "has more than 1,000 references" in load_entry(tmp_path, **entry).problems[0]
    servers = {f"s{number}": {"url": "https://h/" + "${A:-b}" * 900} for number in range(7)}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    config = load_config(tmp_path / "config", project=read_project_file(tmp_path))
    assert len(config.servers) == 5
    assert 'server "s5": the servers of the file have more than 5,000 references' in config.problems[0]


@pytest.mark.parametrize("entry", [{"command": "${PWD}/x"}, {"command": "x", "args": ["${workspaceFolder}"]}])
def test_a_server_that_names_the_folder_of_the_start_is_approved_for_each_folder(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    assert only_server(tmp_path, **entry).startup_folder == os.getcwd()


def test_the_same_server_is_recognized_through_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNNER", "npx")
    own = make_server("user", command="npx", args=("-y", "@mcp/files"))
    assert has_same_target(own, make_server(command="${RUNNER}", args=("${GONE:--y}", "${GONE:-@mcp/files}")))
    web = make_server("user", url="https://h.example/mcp")
    assert has_same_target(web, make_server(url="${BASE:-https://h.example}/mcp"))
    assert not has_same_target(web, make_server(url="${BASE:-https://other.example}/mcp"))


FORMS: list[dict[str, Any]] = [
    {"command": "${TARGET}"},
    {"command": "x", "args": ("a", "--to=${env:TARGET}")},
    {"command": "x", "cwd": "${TARGET:-y}", "cwd_has_references": True},
    {"url": "https://${TARGET}/mcp"},
]


@pytest.mark.parametrize("entry", FORMS)
def test_a_changed_variable_asks_again_about_a_projects_server_only(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]
) -> None:
    digests: dict[Source, set[str]] = {"project": set(), "user": set()}
    lines: set[tuple[str, ...]] = set()
    for value in ("one.example", "two.example", None):
        if value is None:
            monkeypatch.delenv("TARGET")
        else:
            monkeypatch.setenv("TARGET", value)
        for source, seen in digests.items():
            seen.add(server_digest(make_server(source, **entry)))
        lines.add(describe_server(make_server(**entry)))
    assert [len(digests["project"]), len(digests["user"]), len(lines)] == [3, 1, 3]


def test_the_question_shows_the_text_as_written_and_what_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET", "one.example")
    monkeypatch.delenv("GONE", raising=False)
    server = make_server(command="${TARGET}", args=("~/a", "${GONE}"))
    asked = make_question(server, None)
    home = os.path.expanduser("~")
    assert asked.command == ("${TARGET}", "~/a", "${GONE}")
    assert asked.expansion == {"${TARGET}": "one.example", "~": home, "${GONE}": "not set"}
    assert "command: ${TARGET}" in asked.filled_in
    assert describe_server(server)[3:] == (
        "value of ${TARGET}: one.example",
        f"value of ~: {home}",
        "value of ${GONE}: not set",
    )


def test_a_project_is_asked_about_again_if_the_value_of_a_variable_that_decides_what_runs_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYTHONPATH", "node_options", "UV_INDEX_URL", "HTTPS_PROXY", "HOME", "GIT_SSH_COMMAND"):
        server = make_server(command="x", args=(), env={name: "${env:PLACE:-/good}/code", "OTHER": "${env:THEME}"})
        digests: set[str] = set()
        for value in (None, "/good", "/planted"):
            monkeypatch.delenv("PLACE", raising=False)
            if value is not None:
                monkeypatch.setenv("PLACE", value)
            digests.add(server_digest(server))
        assert len(digests) == 3, name
        assert make_question(server, None).expansion == {"${env:PLACE}": "/planted"}
        assert "value of ${env:PLACE}: /planted" in describe_server(server)
        monkeypatch.setenv("THEME", f"dark-{name}")
        assert server_digest(server) in digests
        digests = {server_digest(replace(server, source="user"))}
        monkeypatch.setenv("PLACE", "/good")
        assert server_digest(replace(server, source="user")) in digests


@pytest.mark.parametrize("name", ["HOME", "PATH", "SHELL", "TMPDIR"])
def test_a_project_that_extends_a_variable_of_the_user_is_not_asked_about_again_in_another_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server(command="x", args=(), env={name: f"${{env:{name}:-/planted}}:/opt/x"})
    monkeypatch.setenv(name, "/one")
    digest = server_digest(server)
    monkeypatch.setenv(name, "/venv:/one")
    assert server_digest(server) == digest
    assert server_digest(replace(server, env={name: f"${{env:{name}:-/planted}}:/opt/y"})) != digest
    monkeypatch.delenv(name)
    assert server_digest(server) != digest  # the default of the project counts now


@pytest.mark.parametrize("source", ["project", "user"])
def test_a_secret_is_never_shown_and_a_changed_one_asks_again_in_a_project(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    server = make_server(source, command="x", args=("--token", "${env:API_TOKEN}"))
    digests: set[str] = set()
    for value in (SECRET, f"{SECRET}-renewed"):
        monkeypatch.setenv("API_TOKEN", value)
        asked = make_question(server, None)
        digests.add(server_digest(server))
        assert SECRET not in repr(asked)
        assert asked.expansion["${env:API_TOKEN}"].startswith("[hidden]")
        assert "It gets your ${env:API_TOKEN} in its command line, which other programs can read." in asked.warnings
    assert len(digests) == (2 if source == "project" else 1)


def test_warnings_are_about_what_the_references_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARGET", "sudo")
    warned = make_question(make_server(command="${TARGET}", args=("x",)), None).warnings
    assert any("administrator rights" in warning for warning in warned)
    monkeypatch.setenv("TARGET", "h.example")
    monkeypatch.setenv("MY_TOKEN", SECRET)
    warned = make_question(make_server(url="http://${TARGET}/mcp?t=${MY_TOKEN}"), None).warnings
    assert any("without encryption" in warning for warning in warned)
    assert "It sends your ${MY_TOKEN} to h.example (address), and its owner can keep it." in warned
    asked = make_question(make_server(url="https://${MY_TOKEN}.evil.example/mcp"), None)
    assert "It sends your ${MY_TOKEN} to [hidden].evil.example (address), and its owner can keep it." in asked.warnings
    assert SECRET not in repr(asked)


def test_a_link_in_the_folder_of_a_projects_server_that_points_elsewhere_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "link")
    (tmp_path / "link").symlink_to("good")
    server = replace(
        make_server(command="x", cwd="${PLACE}", cwd_has_references=True), file=str(tmp_path / ".mcp.json")
    )
    before, lines = server_digest(server), describe_server(server)
    assert f"value of folder: {tmp_path}/good" in lines
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("evil")
    assert server_digest(server) != before
    assert describe_server(server) != lines
