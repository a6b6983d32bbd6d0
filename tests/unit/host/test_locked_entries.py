"""Tests for what the lock file records of a server: everything that decides what runs, but no possible secret."""

from typing import Any

import pytest

from mcphost.config.lock_file import LockedServer
from mcphost.config.mcp_json import parse_servers
from mcphost.host.servers.lock_drift import compare_entries
from mcphost.host.servers.locked_entries import NOT_LOCKED, lock_entry

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
        ("TOKEN", "x${env:TOKEN}", NOT_LOCKED),
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
