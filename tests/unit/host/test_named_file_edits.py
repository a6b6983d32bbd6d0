"""Tests for editing the servers of `--mcp-config` files, and of a profile, while the host runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.questions.questions import DoNotTrust
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.host.setup_host import open_setup

pytestmark = pytest.mark.anyio


def write_servers(file: Path, **entries: Any) -> str:
    """Write *entries* as the servers of *file*, and return its path."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"mcpServers": entries}))
    return str(file)


def read_servers(file: Path) -> dict[str, Any]:
    """Return the entries of the servers in *file*."""
    return json.loads(file.read_text())["mcpServers"]


async def test_an_edit_in_the_chat_approves_no_server_that_a_named_file_got_after_the_start(tmp_path: Path) -> None:
    file = tmp_path / "config" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"one": {"command": "run"}}}))
    frontend = ScriptedFrontend(*[DoNotTrust()] * 4)
    async with open_setup(tmp_path, frontend=frontend, named_files=[str(file)]) as (host, setup):
        assert await host.servers.is_approved("one")
        file.write_text(json.dumps({"mcpServers": {"one": {"command": "evil"}}}))
        assert host.config_change_detector is not None
        host.config_change_detector.apply(await host.config_change_detector.check())
        assert not await host.servers.is_approved("one")
        saved = await setup.server_editor.change("one", {"command": "evil", "args": ["x"]}, is_approved=True)
        assert not saved.is_approved
        assert not await host.servers.is_approved("one")


async def test_a_server_of_a_named_file_elsewhere_stays_in_the_list_when_it_is_edited(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "servers.json"
    named = [write_servers(file, one={"command": "run", "disabled": True})]
    async with open_setup(tmp_path, named_files=named) as (host, setup):
        editor = setup.server_editor
        saved = await editor.change("one", {"command": "run", "args": ["x"], "disabled": True}, is_approved=True)
        assert saved.server is not None
        assert [(view.name, view.config.args, view.config.source) for view in host.servers.views()] == [
            ("one", ("x",), "flag")
        ]
        await editor.undo()
        assert [(view.name, view.config.args) for view in host.servers.views()] == [("one", ())]
        await editor.remove("one")
        assert host.servers.views() == ()
        await editor.undo()
        assert [view.name for view in host.servers.views()] == ["one"]


async def test_a_server_added_beside_a_named_file_is_used_and_replaces_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "servers.json"
    named = [write_servers(file, one={"command": "run", "disabled": True})]
    async with open_setup(tmp_path, named_files=named) as (host, setup):
        editor = setup.server_editor
        (other,) = await editor.add({"other": {"command": "b", "disabled": True}})
        (same,) = await editor.add({"one": {"command": "b", "disabled": True}})
        assert other.server is not None
        assert same.server is None  # the one of the named file is used instead
        assert {view.name: view.config.command for view in host.servers.views()} == {"one": "run", "other": "b"}
        await editor.undo()
        await editor.remove("other")
        assert [view.name for view in host.servers.views()] == ["one"]


async def test_an_edit_deletes_no_secret_that_another_named_file_refers_to(tmp_path: Path) -> None:
    backend = MemoryBackend()
    await backend.set("one-token", "kept")
    entry = {"command": "run", "env": {"TOKEN": "${keyring:one-token}"}, "disabled": True}
    named = [write_servers(tmp_path / "elsewhere" / name, one=entry) for name in ("a.json", "b.json")]
    async with open_setup(tmp_path, backend=backend, named_files=named) as (_, setup):
        saved = await setup.server_editor.change("one", {"command": "run", "disabled": True})
        assert saved.notes == (f"Kept, because {named[1]} refers to it: keyring: one-token.",)
    assert await backend.get("one-token") == "kept"


async def test_an_edited_server_stays_left_out_by_the_profile_in_use(tmp_path: Path) -> None:
    file = tmp_path / "config" / "mcp.json"
    write_servers(file, one={"command": "run"}, two={"command": "run", "disabled": True})
    (tmp_path / "config" / "config.toml").write_text("[profiles.p]\nservers = ['two']\n")
    async with open_setup(tmp_path, frontend=ScriptedFrontend(*[DoNotTrust()] * 4)) as (host, setup):
        assert host.config_change_detector is not None
        await host.config_change_detector.use_profile("p")
        await setup.server_editor.change("one", {"command": "run", "args": ["x"]})
        assert read_servers(file)["one"] == {"command": "run", "args": ["x"]}
        assert (host.servers.view("one").config.args, host.servers.view("one").config.excluded_by) == (("x",), "p")
        (tmp_path / "config" / "config.toml").write_text("")  # without the profile, the edit is used all the same
        await setup.server_editor.change("one", {"command": "run", "args": ["y"], "disabled": True})
        assert host.servers.view("one").config.args == ("y",)
