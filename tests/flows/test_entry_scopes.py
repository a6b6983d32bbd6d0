"""Tests for `--scope` of the commands that change one of several entries of a server's name."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import DEMO, Program

ARGV: tuple[str, ...] = (str(DEMO["command"]), *map(str, DEMO["args"]))


def entries(program: Program) -> dict[str, dict[str, Any]]:
    """Return the entries of each scope's file."""
    config = program.home / "config"
    local = json.loads((config / "local.json").read_text())["folders"][str(program.work.resolve())]
    files = {"user": config / "mcp.json", "project": program.work / ".mcp.json"}
    found: dict[str, Any] = {
        scope: json.loads(path.read_text()) if path.exists() else {} for scope, path in files.items()
    }
    return {scope: document.get("mcpServers", {}) for scope, document in {**found, "local": local}.items()}


def path_of(program: Program, scope: str) -> Path:
    files = {"user": "config/mcp.json", "project": "work/.mcp.json", "local": "config/local.json"}
    return program.home / files[scope]


@pytest.fixture
def twice(program: Program) -> Program:
    """Return a program with a server `demo` of the user and another one of this folder, which is in use."""
    program.text("servers", "add", "demo", "-s", "user", "--", *ARGV)
    program.text("servers", "add", "demo", "-s", "local", "--", *ARGV)
    return program


@pytest.mark.parametrize("scope", ["user", "local"])
def test_the_entry_that_scope_names_is_changed_and_no_other(twice: Program, scope: str) -> None:
    other = "local" if scope == "user" else "user"
    before = entries(twice)[other]
    twice.text("servers", "edit", "demo", "--scope", scope, "--env", "MODE=quiet")
    assert entries(twice)[scope]["demo"]["env"] == {"MODE": "quiet"}
    twice.text("servers", "disable", "demo", "--scope", scope)
    assert entries(twice)[scope]["demo"]["disabled"] is True
    twice.text("servers", "enable", "demo", "--scope", scope)
    assert "disabled" not in entries(twice)[scope]["demo"]
    assert entries(twice)[other] == before
    twice.text("servers", "remove", "demo", "--scope", scope, "--yes")
    assert (entries(twice)[scope], entries(twice)[other]) == ({}, before)


def test_without_scope_the_entry_in_use_is_changed_and_the_other_file_is_named(twice: Program) -> None:
    done = twice.run("servers", "disable", "demo")
    assert done.returncode == 0
    told = done.stdout.decode() + done.stderr.decode()
    assert f"Disabled demo in {path_of(twice, 'local')}" in told
    assert f"The name is also in: {path_of(twice, 'user')} (--scope user)." in told
    assert "disabled" not in entries(twice)["user"]["demo"]


def test_a_change_of_an_entry_that_is_not_used_says_so(twice: Program) -> None:
    told = twice.run("servers", "edit", "demo", "--scope", "user", "--env", "A=b").stderr.decode()
    assert f"{path_of(twice, 'user')}, which is not used here" in told
    assert f"{path_of(twice, 'local')} (--scope local)" in told


def test_a_server_in_several_files_is_not_removed_before_one_is_chosen(twice: Program) -> None:
    before = entries(twice)
    told = twice.error("servers", "remove", "demo", "--yes", code=2)
    assert "Nothing was removed. Say which one with --scope." in told
    for scope in ("user", "local"):
        assert f"{path_of(twice, scope)} (--scope {scope})" in told
    assert entries(twice) == before


def test_a_removal_says_which_entry_of_the_name_is_left(twice: Program) -> None:
    told = twice.run("servers", "remove", "demo", "-s", "local", "--yes").stderr.decode()
    assert f"{path_of(twice, 'user')} still has an entry named demo." in told


def test_a_restart_is_asked_for_the_entry_that_was_chosen(twice: Program) -> None:
    twice.text("servers", "restart", "demo", "--scope", "user")
    requests = json.loads(next((twice.home / "state").glob("*restart*.json")).read_text())["requests"]
    assert [one["file"] for one in requests] == [str(path_of(twice, "user"))]


def test_a_restart_of_an_entry_that_is_not_used_does_not_claim_that_every_chat_restarts(twice: Program) -> None:
    told = twice.text("servers", "restart", "demo", "--scope", "user")
    assert "Every running chat" not in told
    assert told.startswith("Running chats that use this entry restart demo within seconds.")
    assert "Every running chat restarts demo" in twice.text("servers", "restart", "demo", "--scope", "local")


def test_each_action_says_what_scope_chooses(program: Program) -> None:
    for action, text in (("edit", "change"), ("disable", "change"), ("remove", "remove"), ("restart", "restart")):
        assert f"which entry to {text}" in " ".join(program.text("servers", action, "--help").split())


def test_a_scope_without_such_a_server_names_the_file_that_has_it(program: Program) -> None:
    program.text("servers", "add", "demo", "--", *ARGV)
    told = program.error("servers", "disable", "demo", "--scope", "project", code=2)
    assert f"{path_of(program, 'project')} has no server named 'demo'" in told
    assert f"{path_of(program, 'user')} (--scope user)" in told


def test_an_entry_of_a_projects_file_that_is_not_approved_can_be_removed(program: Program) -> None:
    path = path_of(program, "project")
    path.write_text(json.dumps({"mcpServers": {"theirs": {"command": "x"}, "other": {"command": "y"}}}))
    program.text("servers", "remove", "theirs", "--yes")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["other"]
    listed = json.loads(program.text("servers", "list", "--json"))
    assert listed["servers"] == []


def test_an_invalid_entry_is_removed_and_corrected_like_others(program: Program) -> None:
    path = program.configure(bad={"command": 5}, worse={"args": ["x"]})
    told = program.error("servers", "disable", "worse", code=3)
    assert "worse" in told
    program.text("servers", "edit", "bad", "--", *ARGV)
    program.text("servers", "remove", "worse", "--yes")
    left = json.loads(path.read_text())["mcpServers"]
    assert list(left) == ["bad"]
    assert left["bad"]["command"] == ARGV[0]


def test_an_entry_that_is_no_object_is_named_as_such_and_can_be_removed(program: Program) -> None:
    entry: Any = "https://x.example/mcp"
    path = program.configure(plain=entry, kept={"command": "x"})
    for command in ("edit", "disable"):
        told = program.error("servers", command, "plain", *(("--", "x") if command == "edit" else ()), code=3)
        assert "not an object" in told
        assert "no server named" not in told
    program.text("servers", "remove", "plain", "--yes")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["kept"]


def test_an_entry_whose_name_begins_with_a_dash_is_named_after_two_dashes(program: Program) -> None:
    path = program.configure(**{"-x": {"command": "x"}, "kept": {"command": "y"}})
    for action in ("disable", "enable", "restart"):
        assert "a name cannot begin with a dash" in program.error("servers", action, "--", "-x", code=3)
    told = program.error("servers", "edit", "--env", "A=b", "--", "-x", code=3)
    assert "a name cannot begin with a dash" in told
    told = program.error("servers", "add", "--", "-y", "--", "command", code=3)
    assert "a name cannot begin with a dash" in told
    program.text("servers", "remove", "--yes", "--", "-x")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["kept"]


def test_what_a_hidden_entry_of_the_name_uses_is_not_deleted(program: Program) -> None:
    program.configure_secret_store("file")
    env: dict[str, Any] = {"MCPHOST_SECRETS_PASSPHRASE": "correct horse"}
    secret = "sk-proj-abcdefghijklmnop0123456789abcdefghijklmnop"
    for scope in ("user", "local"):
        program.text("servers", "add", "demo", "-s", scope, "-e", f"API_KEY={secret}", "--", *ARGV, **env)
    used = entries(program)["user"]["demo"]["env"]["API_KEY"]
    assert entries(program)["local"]["demo"]["env"]["API_KEY"] == used
    said = program.text("servers", "remove", "demo", "-s", "local", "--forget", "--yes", **env)
    assert "deleted" not in said
    assert entries(program)["user"]["demo"]["env"]["API_KEY"] == used
