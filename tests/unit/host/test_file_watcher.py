"""Tests that servers under development restart when their files change, with real files and processes."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.loader import load_config
from mcphost.config.mcp_json import parse_servers
from mcphost.host.questions.questions import TrustOnce
from mcphost.host.servers import file_watcher
from mcphost.host.servers.file_watcher import read_signature, watch_files
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.setup_host import DEMO_ENTRY, open_setup

pytestmark = pytest.mark.anyio


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def test_patterns_select_files_below_the_folder_but_not_in_hidden_or_installed_ones(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.txt", "src/c.py", "src/deep/d.js", ".git/e.py", "node_modules/f.py", "build/g.js")
    assert set(read_signature(str(tmp_path), ("*.py",))) == {"a.py", "src/c.py"}
    assert set(read_signature(str(tmp_path), ("build/*.js", "src/*.js"))) == {"build/g.js", "src/deep/d.js"}
    assert read_signature(str(tmp_path / "gone"), ("*",)) == {}


def test_absolute_patterns_and_those_of_the_home_folder_or_a_parent_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path, "mine/a.py", "common/b.py", "common/deep/c.py", "common/d.txt", ".conf/e.json", ".conf/node_modules/f"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = str(tmp_path / "mine")
    assert set(read_signature(folder, (f"{tmp_path}/mine/*.py",))) == {"a.py"}
    assert set(read_signature(folder, (f"{tmp_path}/common/**/*.py",))) == {
        f"{tmp_path}/common/b.py",
        f"{tmp_path}/common/deep/c.py",
    }
    assert set(read_signature(folder, ("~/common/d.txt", "~/.conf/*.json"))) == {
        f"{tmp_path}/common/d.txt",
        f"{tmp_path}/.conf/e.json",
    }
    assert set(read_signature(folder, ("*.py", "../common/*.txt", "./a.*"))) == {"a.py", f"{tmp_path}/common/d.txt"}
    assert set(read_signature(f"{tmp_path}/", (".conf/*.json", "common/**/*.txt"))) == {".conf/e.json", "common/d.txt"}
    assert set(read_signature(folder, ("~/common/",))) == {
        f"{tmp_path}/common/{name}" for name in ("b.py", "deep/c.py", "d.txt")
    }


def test_all_folders_together_are_watched_in_part_if_they_are_huge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "MAX_ENTRIES", 10)
    write(tmp_path, *(f"{folder}/{number}.py" for folder in "abc" for number in range(8)))
    patterns = tuple(f"{tmp_path}/{folder}/*.py" for folder in "abc")
    assert 8 <= len(read_signature(str(tmp_path / "mine"), patterns)) <= 16


def test_links_to_other_folders_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "outside", "a.py")
    (tmp_path / "inside").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "inside" / "link")
    os.symlink(tmp_path / "inside", tmp_path / "inside" / "loop")
    assert read_signature(str(tmp_path / "inside"), ("*",)) == {}


def test_a_huge_tree_is_watched_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_watcher.MAX_ENTRIES == 20_000
    monkeypatch.setattr(file_watcher, "MAX_ENTRIES", 200)  # creating 30,000 files takes seconds
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in range(100):
            (folder / f"{name}.py").touch()
    assert 100 <= len(read_signature(str(tmp_path), ("*.py",))) <= 299


async def test_a_change_is_reported_once_with_its_name(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.py")
    seen: list[str] = []
    changed = anyio.Event()

    def note(name: str) -> None:
        seen.append(name)
        changed.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_files, str(tmp_path), ("**/*.py",), note)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            write(tmp_path, "new.py")
            await changed.wait()
        tasks.cancel_scope.cancel()
    assert seen == ["new.py"]


async def test_a_server_restarts_when_its_files_change(tmp_path: Path) -> None:
    write(tmp_path / "source", "server.py")
    entry = {**DEMO_ENTRY, "cwd": str(tmp_path / "source"), "mcphost": {"watch": ["*.py"]}}
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce(), TrustOnce())) as (host, setup):
        await setup.server_editor.add({"mine": entry})
        connection = host.servers.find("mine")
        with anyio.fail_after(30):
            first = await connection.session()
            (tmp_path / "source" / "server.py").write_text("longer")
            await first.wait_closed()
            second = await connection.session()
        assert second is not first
        assert any("Restarting, because server.py changed." in line.text for line in connection.view().log)


@pytest.mark.parametrize(
    ("entry", "patterns"),
    [
        ({"command": "x", "mcphost": {"watch": ["a", "b"]}}, ("a", "b")),
        ({"command": "x", "dev": {"watch": "build/**/*.js", "debug": {"type": "node"}}}, ("build/**/*.js",)),
        ({"command": "x", "dev": {"watch": 3}}, ()),
        ({"url": "https://x.example", "mcphost": {"watch": ["a"]}}, ()),
        ({"command": "x", "mcphost": {"watch": ["a"] * 100}}, ("a",) * 20),
    ],
)
def test_patterns_come_from_our_key_and_that_of_vs_code(entry: dict[str, object], patterns: tuple[str, ...]) -> None:
    (server,) = parse_servers({"mcpServers": {"s": entry}}, "/home/me/mcp.json", "user", lambda _: None)
    assert server.watched_files == patterns


@pytest.mark.parametrize(
    ("source", "entry", "is_own"),
    [
        ("user", {"command": "x", "mcphost": {"watch": ["a"]}}, True),
        ("user", {"command": "x", "dev": {"watch": "a"}}, False),
        ("project", {"command": "x", "mcphost": {"watch": ["a"]}}, False),
        ("flag", {"command": "x", "mcphost": {"watch": ["a"]}}, False),
    ],
)
def test_only_our_key_in_the_own_file_of_the_user_marks_a_server_as_theirs(
    source: Any, entry: dict[str, object], is_own: bool
) -> None:
    (server,) = parse_servers({"mcpServers": {"s": entry}}, "/home/me/mcp.json", source, lambda _: None)
    assert server.has_own_watch is is_own


def test_the_folder_is_that_of_the_server_or_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"a": {"command": "x", "cwd": "/somewhere", "dev": {"watch": "*"}},'
        ' "b": {"command": "x", "dev": {"watch": "*"}},'
        ' "c": {"command": "x", "cwd": "${env:HOME}/x", "dev": {"watch": "*"}}}}'
    )
    folders = [server.watched_folder for server in load_config(tmp_path).servers]
    assert folders == ["/somewhere", str(tmp_path), str(tmp_path)]
