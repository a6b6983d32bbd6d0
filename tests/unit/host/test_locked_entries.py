"""Tests for what the lock file records of a server: everything that decides what runs, but no possible secret."""

from pathlib import Path
from typing import Any, cast

import pytest

from mcphost.config.lock_file import LockedServer
from mcphost.config.mcp_json import parse_servers
from mcphost.host.servers.lock_drift import compare_entries
from mcphost.host.servers.locked_entries import NOT_LOCKED, lock_entry
from mcphost.host.servers.project_lock import ProjectLock
from mcphost.serialization import replace

RANDOM = "Zk3vQ9xLw2Tb8RyUe5Hd"


def locked(**entry: Any) -> LockedServer:
    problems: list[str] = []
    (server,) = parse_servers({"mcpServers": {"s": entry}}, "/p/.mcp.json", "project", problems.append)
    return lock_entry(server, entry)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--token", "abc"], ["--token", "[hidden]"]),
        (["--api-key=abc"], ["--api-key=[hidden]"]),
        (["--token", "${env:TOKEN}"], ["--token", "${env:TOKEN}"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--auth", "./auth.json"], ["--auth", "./auth.json"]),
        (["--header", "Authorization: Bearer ${env:A}"], ["--header", "Authorization: Bearer ${env:A}"]),
        (["https://ada:${env:A}@db.example.com"], ["https://[secret]@db.example.com (${env:A})"]),
        (["--password=a", "token=${env:A}"], ["--password=[hidden]", "token=[secret] (${env:A})"]),
        (["--db", "https://ada:pass@db.example.com"], ["--db", "https://[secret]@db.example.com"]),
        (["-y", "files@1.0.0", "."], ["-y", "files@1.0.0", "."]),
    ],
)
def test_secrets_in_arguments_are_hidden(arguments: list[str], shown: list[str]) -> None:
    assert list(locked(command="run", args=arguments).command[1:]) == shown


def test_a_random_word_is_hidden_and_its_change_is_still_drift() -> None:
    before, after = locked(command="run", args=[RANDOM]), locked(command="run", args=[RANDOM[::-1]])
    assert RANDOM not in str(before)
    assert before.command[1].startswith("[hidden] (")
    assert [drift.kind for drift in compare_entries("s", before, after)] == ["command"]
    assert locked(command="run", args=[RANDOM]) == before


def test_an_image_is_shown_with_its_digest() -> None:
    image = f"ghcr.io/ada/files:1.0@sha256:{'0123456789abcdef' * 4}"
    server = locked(command="docker", args=["run", "-i", "--rm", "-e", "TOKEN", image])
    assert server.command[-1] == image
    assert server.package is not None
    assert server.package.digest == f"sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("MODE", "fast", NOT_LOCKED),
        ("TOKEN", "${env:TOKEN}", "${env:TOKEN}"),
        ("TOKEN", "${TOKEN:-abcdef}", "${TOKEN}"),
        ("TOKEN", "x${env:TOKEN}", f"{NOT_LOCKED}${{env:TOKEN}}"),
        ("TOKEN", "${odd!text}", NOT_LOCKED),
        ("AUTHORIZATION", "Bearer ${env:TOKEN}", "Bearer ${env:TOKEN}"),
        ("API", "https://api.example.com/v1", "https://api.example.com/v1"),
        ("API", "https://ada:${env:TOKEN}@api.example.com", "https://[secret]@api.example.com (${env:TOKEN})"),
        ("NODE_OPTIONS", "${env:NO_SUCH:---require ./x.js}", "${env:NO_SUCH:---require ./x.js}"),
        ("NODE_OPTIONS", "--require ./x.js", "--require ./x.js"),
        ("HTTPS_PROXY", "http://ada:pass@proxy.example.com", "http://[secret]@proxy.example.com"),
    ],
)
def test_only_references_and_values_that_decide_what_runs_are_recorded(name: str, value: str, shown: str) -> None:
    assert locked(command="run", env={name: value}).env == {name: shown}


def test_a_thousand_hidden_words_take_no_time() -> None:
    server = locked(command="run", args=[f"{RANDOM}{number:04}" for number in range(999)])
    assert all(word.startswith("[hidden] (") for word in server.command[1:])


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"args": ["b"]}, "command"),
        ({"cwd": "sub"}, "command"),
        ({"env": {"A": "${env:B}"}}, "environment"),
        ({"envFile": ".env"}, "environment"),
    ],
)
def test_every_part_of_an_entry_has_its_kind_of_drift(changed: dict[str, Any], kind: str) -> None:
    entry: dict[str, Any] = {"command": "run", "args": ["a"], "env": {"A": "${env:A}"}}
    drifts = compare_entries("s", locked(**entry), locked(**{**entry, **changed}))
    assert [drift.kind for drift in drifts] == [kind]
    assert compare_entries("s", locked(**entry), locked(**entry)) == ()


def locked_file(folder: Path, content: str) -> LockedServer:
    (folder / "settings.env").write_text(content)
    entry = {"command": "run", "envFile": "settings.env"}
    (server,) = parse_servers({"mcpServers": {"s": entry}}, str(folder / ".mcp.json"), "project", list[str]().append)
    return lock_entry(server, entry)


def test_variables_of_the_environment_file_are_recorded_like_those_of_env(tmp_path: Path) -> None:
    content = f"TOKEN={RANDOM}\nMODE=a${{env:B}}\nLD_PRELOAD=/lib/x.so\nAPI=https://ada:pass@api.example.com\n"
    assert locked_file(tmp_path, content).env_file_variables == {
        "TOKEN": NOT_LOCKED,
        "MODE": NOT_LOCKED,
        "LD_PRELOAD": "/lib/x.so",
        "API": "https://[secret]@api.example.com",
    }


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        ("TOKEN=other\nPATH=/bin\n", []),
        ("TOKEN=one\nPATH=/tmp\n", ["environment"]),
        ("TOKEN=one\nPATH=/bin\nLD_PRELOAD=/lib/x.so\n", ["environment"]),
        ("PATH=/bin\n", ["environment"]),
        ("", ["environment"]),
        ("not a variable", []),
    ],
)
def test_variables_of_the_environment_file_are_compared(tmp_path: Path, content: str, kinds: list[str]) -> None:
    before = locked_file(tmp_path, "TOKEN=one\nPATH=/bin\n")
    drifts = compare_entries("s", before, locked_file(tmp_path, content))
    assert [drift.kind for drift in drifts] == kinds


def test_a_lock_without_variables_of_the_file_differs_only_if_one_decides_what_runs(tmp_path: Path) -> None:
    old = replace(locked_file(tmp_path, ""), env_file_variables=None)
    assert compare_entries("s", old, locked_file(tmp_path, "TOKEN=one\n")) == ()
    (drift,) = compare_entries("s", old, locked_file(tmp_path, "TOKEN=one\nLD_PRELOAD=/lib/x.so\n"))
    assert drift.lines[0].endswith("lock again.")
    assert "+ envFileVariables.LD_PRELOAD: /lib/x.so" in drift.lines


HTTP: dict[str, Any] = {"url": "https://mcp.example.com/mcp", "headers": {"X-A": "Bearer ${env:A}"}}
OAUTH = {"clientId": "c", "issuer": "https://sign-in.example.com", "clientSecret": "${env:S}", "scopes": ["read"]}
INPUTS = [{"id": "t", "type": "promptString", "password": True}, {"id": "u", "type": "promptString"}]
WITH_INPUT = {**HTTP, "headers": {"X-A": "${input:t}"}, "mcphost": {"inputs": INPUTS}}


@pytest.mark.parametrize(
    ("entry", "changed", "kind"),
    [
        (HTTP, {"headers": {"X-A": "Bearer ${env:B}"}}, "headers"),
        (HTTP, {"headers": {"X-A": "Basic ${env:A}"}}, "headers"),
        (HTTP, {"mcphost": {"oauth": OAUTH}}, "sign_in"),
        (HTTP, {"url": "https://mcp.example.com/mcp?token=${env:A}"}, "address"),
        (WITH_INPUT, {"mcphost": {"inputs": [{"id": "t", "type": "promptString"}]}}, "inputs"),
        (WITH_INPUT, {"mcphost": {"inputs": [{**INPUTS[0], "description": "Your other token"}]}}, "inputs"),
    ],
)
def test_whatever_decides_who_gets_a_secret_is_compared(
    entry: dict[str, Any], changed: dict[str, Any], kind: str
) -> None:
    assert compare_entries("s", locked(**entry), locked(**entry)) == ()
    assert [drift.kind for drift in compare_entries("s", locked(**entry), locked(**{**entry, **changed}))] == [kind]


@pytest.mark.parametrize(
    "changed",
    [
        {"clientId": "d"},
        {"issuer": "https://other.example.com"},
        {"clientSecret": "${env:AWS_SECRET_ACCESS_KEY}"},
        {"clientSecret": "${env:S}x"},
        {"clientSecret": RANDOM},
        {"scopes": ["read", "write"]},
        {"grant": "enterprise"},
        {"idpTokenEndpoint": "https://other.example.com"},
        {"idToken": "${env:T}"},
        {"account": "ada"},
    ],
)
def test_every_sign_in_setting_is_compared(changed: dict[str, Any]) -> None:
    before = locked(**HTTP, mcphost={"oauth": OAUTH})
    after = locked(**HTTP, mcphost={"oauth": {**OAUTH, **changed}})
    assert [drift.kind for drift in compare_entries("s", before, after)] == ["sign_in"]
    assert RANDOM not in str(after)


def test_a_secret_of_the_sign_in_is_hidden_and_its_change_is_still_drift() -> None:
    before, after = (locked(**HTTP, mcphost={"oauth": {"key": key}}) for key in (RANDOM, RANDOM[::-1]))
    assert before.oauth["key"].startswith("[hidden] (")
    assert [drift.kind for drift in compare_entries("s", before, after)] == ["sign_in"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("host=a.example.com password=${env:P}", "host=b.example.com password=${env:P}"),
        ("${env:HOST:-a.example.com}", "${env:HOST:-b.example.com}"),
    ],
)
def test_text_beside_a_reference_is_not_in_the_lock_but_compared(before: str, after: str) -> None:
    one, other = (locked(command="run", env={"DSN": text}) for text in (before, after))
    assert "example.com" not in str(one)
    assert [drift.kind for drift in compare_entries("s", one, other)] == ["environment"]


def test_a_default_of_a_password_input_is_hidden() -> None:
    inputs = [{**INPUTS[0], "default": RANDOM}]
    server = locked(**{**WITH_INPUT, "mcphost": {"inputs": inputs}})
    assert server.inputs["t"].password
    assert RANDOM not in str(server)


def test_an_unchanged_server_equals_its_record_when_it_connects(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text("one")
    entry = {**WITH_INPUT, "mcphost": {"inputs": INPUTS, "oauth": OAUTH, "caFile": "ca.pem"}}
    (server,) = parse_servers({"mcpServers": {"s": entry}}, str(tmp_path / ".mcp.json"), "project", list[str]().append)
    lock = ProjectLock(server)
    lock.locked = lock_entry(server, entry)
    facts = cast("Any", None)  # not read, because the record has no tools
    assert lock.locked.ca_file == "ca.pem"
    assert lock.read_server(facts, {}) == lock.locked
    authorities.write_text("two")
    drifts = compare_entries("s", lock.locked, lock.read_server(facts, {}))
    assert [drift.kind for drift in drifts] == ["certificates"]
