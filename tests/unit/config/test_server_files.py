"""Tests for edits of the files that configure servers, which are planned before anything is written."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.file_edits import read_snapshot, replace_if_unchanged
from mcphost.config.loader import load_config
from mcphost.config.secrets import find_plaintext_secrets
from mcphost.config.server_files import (
    SCOPES,
    Scope,
    ServerFile,
    find_server_file,
    plan_remove,
    plan_set,
    plan_set_disabled,
    read_entry,
    replace_secret_in_text,
    scope_file,
)
from mcphost.errors import ConfigError, UsageError

TIME: dict[str, Any] = {"command": "uvx", "args": ["mcp-server-time"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return mcphost's working directory; the configuration folder `config` is next to it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def server_file(scope: Scope, folder: Path) -> ServerFile:
    return scope_file(scope, folder.parent / "config", folder)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_server_is_added_disabled_enabled_and_removed_in_every_scope(scope: Scope, folder: Path) -> None:
    file = server_file(scope, folder)
    plan_set(file, "time", TIME).apply()
    assert read_entry(file, "time") == TIME
    edit = plan_set_disabled(file, "time", disabled=True)
    edit.apply()
    assert edit.server is not None
    assert edit.server.disabled
    plan_set_disabled(file, "time", disabled=False).apply()
    assert read_entry(file, "time") == TIME
    plan_remove(file, "time").apply()
    with pytest.raises(ConfigError, match="no server named 'time'"):
        read_entry(file, "time")


@pytest.mark.parametrize(("scope", "mode"), [("user", 0o600), ("local", 0o600), ("project", 0o644)])
def test_a_new_file_is_private_unless_it_is_the_projects(scope: Scope, mode: int, folder: Path) -> None:
    file = server_file(scope, folder)
    plan_set(file, "time", TIME).apply()
    assert file.path.stat().st_mode & 0o777 == mode


def test_undo_restores_the_file_byte_for_byte_or_removes_a_new_one(folder: Path) -> None:
    file = server_file("user", folder)
    first = plan_set(file, "time", TIME)
    first.apply()
    before = file.path.read_bytes()
    second = plan_set(file, "other", {"url": "https://other.example/mcp"})
    second.apply()
    second.undo()
    assert file.path.read_bytes() == before
    first.undo()
    assert not file.path.exists()


def test_a_file_that_changed_meanwhile_is_neither_written_nor_undone(folder: Path) -> None:
    file = server_file("user", folder)
    plan_set(file, "time", TIME).apply()
    edit = plan_set(file, "other", TIME)
    changed = json.dumps({"mcpServers": {"mine": TIME}})
    file.path.write_text(changed)
    with pytest.raises(ConfigError, match="changed by another program; nothing was written"):
        edit.apply()
    with pytest.raises(ConfigError, match="changed by another program; nothing was undone"):
        edit.undo()
    assert file.path.read_text() == changed


def test_no_change_is_lost_between_writers_at_the_same_time(folder: Path) -> None:
    path = folder / "shared.json"
    path.write_text("")

    def write(writer: int) -> None:
        for number in range(25):
            while True:
                before = read_snapshot(path)
                with suppress(ConfigError):  # changed by another writer
                    replace_if_unchanged(path, before, before.content + f"{writer} {number}\n".encode())
                    break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    lines = path.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 100


def test_a_taken_name_is_refused_unless_the_entry_is_to_be_replaced(folder: Path) -> None:
    file = server_file("user", folder)
    plan_set(file, "time", TIME).apply()
    with pytest.raises(UsageError, match="already has a server named 'time'"):
        plan_set(file, "time", {"command": "other"})
    plan_set(file, "time", {"command": "other"}, replace=True).apply()
    assert read_entry(file, "time") == {"command": "other"}


@pytest.mark.parametrize(
    ("name", "entry", "said"),
    [
        ("time", {}, 'neither "command" nor "url"'),
        ("-time", TIME, "cannot begin with a dash"),
        ("/srv/a/AGENTS.md", TIME, "cannot begin with a dash or a slash"),
        ("@file", TIME, "has a meaning of its own in rules"),
        ("\uff20File", TIME, "has a meaning of its own in rules"),
        ("*", TIME, "has a meaning of its own in rules"),
        ("ti\u200bme", TIME, "invisible characters"),
        ("time", {"url": "ftp://x"}, "not an http or https address"),
        ("time", {"command": "a", "env": {"A": [1]}}, '"env.A" is a list'),
    ],
)
def test_an_entry_that_would_not_be_loaded_is_not_written(
    name: str, entry: dict[str, Any], said: str, folder: Path
) -> None:
    file = server_file("user", folder)
    with pytest.raises(ConfigError, match=said):
        plan_set(file, name, entry)
    assert not file.path.exists()


def test_a_file_that_names_its_servers_like_vs_code_keeps_doing_so(folder: Path) -> None:
    file = server_file("user", folder)
    file.path.parent.mkdir()
    file.path.write_text('{"servers": {"a": {"command": "a"}}}')
    plan_set(file, "time", TIME).apply()
    assert set(json.loads(file.path.read_text())["servers"]) == {"a", "time"}


def test_a_symbolic_link_is_not_written_through(folder: Path) -> None:
    target = folder / "target.json"
    target.write_text("{}")
    (folder / ".mcp.json").symlink_to(target)
    with pytest.raises(ConfigError, match="symbolic link"):
        plan_set(server_file("project", folder), "time", TIME)
    assert target.read_text() == "{}"


def test_a_local_server_is_loaded_in_its_folder_only_and_hides_the_users_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_dir = folder.parent / "config"
    plan_set(server_file("user", folder), "time", {"command": "global"}).apply()
    plan_set(server_file("local", folder), "time", TIME).apply()
    here = load_config(config_dir)
    assert [(server.name, server.command, server.source) for server in here.servers] == [("time", "uvx", "user")]
    assert not here.problems
    assert find_server_file(here.servers[0], config_dir, folder) == server_file("local", folder)
    monkeypatch.chdir(folder.parent)
    assert [server.command for server in load_config(config_dir).servers] == ["global"]


def test_the_folder_of_a_local_server_is_known_by_its_real_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    plan_set(server_file("local", link), "time", TIME).apply()
    monkeypatch.chdir(link)
    assert [server.name for server in load_config(folder.parent / "config").servers] == ["time"]
    assert os.path.realpath(folder) in (folder.parent / "config" / "local.json").read_text()


COMMENTED = """{
  "mcpServers": {
    // The clock.
    "time": {
      "command": "uvx", // installed with uv
      "args": [ "mcp-server-time", /* where */ "--tz", "UTC" ],
      "env": {
        // needed at work
        "PROXY": "a", "KEEP": 1,
      },
    },
  },
}
"""


def test_only_the_members_that_change_are_written_and_comments_inside_the_entry_stay(folder: Path) -> None:
    file = server_file("user", folder)
    file.path.parent.mkdir()
    file.path.write_text(COMMENTED)
    entry = read_entry(file, "time")
    changed = {**entry, "args": ["mcp-server-time", "--tz", "CET"], "env": {"PROXY": "b", "KEEP": 1}, "cwd": "/"}
    edit = plan_set(file, "time", changed, replace=True)
    expected = COMMENTED.replace('"UTC"', '"CET"').replace('"PROXY": "a"', '"PROXY": "b"')
    assert edit.content.decode() == expected.replace("      },\n    },", '      },\n      "cwd": "/",\n    },')
    edit.apply()
    assert read_entry(file, "time") == changed
    without = {key: value for key, value in entry.items() if key != "env"}
    assert "// installed with uv" in plan_set(file, "time", without, replace=True).content.decode()
    longer = {**entry, "args": ["mcp-server-time"]}
    assert plan_set(file, "time", longer, replace=True).entry == longer


def test_a_member_that_occurs_twice_in_an_entry_does_not_prevent_its_change(folder: Path) -> None:
    file = server_file("user", folder)
    file.path.parent.mkdir()
    file.path.write_text('{"mcpServers": {"a": {"command": "x", "command": "y"}}}')
    assert plan_set(file, "a", {"command": "z"}, replace=True).entry == {"command": "z"}


def test_a_secret_in_an_argument_is_replaced_in_the_file_and_nothing_else(folder: Path) -> None:
    text = COMMENTED.replace('"UTC"', '"--token=hunter2-9"')
    file = server_file("user", folder)
    file.path.parent.mkdir()
    file.path.write_text(text)
    (server,) = load_config(file.path.parent).servers
    (secret,) = find_plaintext_secrets(server)
    replaced = replace_secret_in_text(text, file, "time", secret, "n")
    assert replaced == text.replace("hunter2-9", "${keyring:n}")
    with pytest.raises(ConfigError, match="changed by another program"):
        replace_secret_in_text(COMMENTED, file, "time", secret, "n")


@pytest.mark.parametrize("command", ["echo hi there", "/bin/sh -c x"])
def test_a_command_with_its_arguments_in_one_text_is_refused_with_the_correct_entry(command: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match="without its arguments") as caught:
        plan_set(server_file("user", folder), "s3", {"command": command})
    assert '"args": [' in caught.value.hint


def test_a_path_with_spaces_that_does_not_exist_yet_is_saved(folder: Path) -> None:
    edit = plan_set(server_file("user", folder), "app", {"command": "/opt/My App/run"})
    assert edit.entry == {"command": "/opt/My App/run"}
