"""Tests for the configuration files of MCP hosts on the Windows side of WSL."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.host_formats import Places, find_host, find_places
from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.other_hosts import find_foreign_servers, read_named_file
from mcphost.config.schema import HostConfig
from mcphost.config.windows_hosts import MAX_WINDOWS_USERS, WindowsPaths
from mcphost.host.servers.import_plan import plan_import

RELEASE = "5.15.167.4-microsoft-standard-WSL2\n"


def make_windows(root: Path, release: str = RELEASE, users: tuple[str, ...] = ("Ada",)) -> WindowsPaths:
    """Create the folders of Windows users and the file that names the kernel."""
    (root / "osrelease").write_text(release)
    for name in users:
        (root / "Users" / name).mkdir(parents=True)
    return WindowsPaths(root / "osrelease", root / "Users")


def make_places(root: Path, windows: WindowsPaths, platform: str = "linux") -> Places:
    home = root / "home"
    home.mkdir(exist_ok=True)
    return find_places(home, home, {}, platform, windows)


def write(root: Path, path: str, entries: Any, key: str = "mcpServers") -> Path:
    file = root / "Users" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({key: entries}))
    return file


def find_one(root: Path, entry: dict[str, Any]) -> ForeignServer:
    """Return the server with this entry in Claude Desktop's file of a Windows user."""
    windows = make_windows(root)
    write(root, "Ada/AppData/Roaming/Claude/claude_desktop_config.json", {"a": entry})
    (server,) = find_foreign_servers(make_places(root, windows))
    return server


def test_the_hosts_on_windows_are_found_in_wsl_and_named_as_such(tmp_path: Path) -> None:
    places = make_places(tmp_path, make_windows(tmp_path, users=("Ada", "Bob")))
    write(tmp_path, "Ada/AppData/Roaming/Claude/claude_desktop_config.json", {"a": {"command": "x"}})
    write(tmp_path, "Ada/.cursor/mcp.json", {"b": {"command": "x"}})
    write(tmp_path, "Bob/AppData/Roaming/Code/User/mcp.json", {"c": {"command": "x"}}, "servers")
    found = find_foreign_servers(places)
    assert [(one.name, one.host, one.entry) for one in found] == [
        ("a", "Claude Desktop (Windows)", {"command": "x"}),
        ("b", "Cursor (Windows)", {"command": "x"}),
        ("c", "VS Code (Windows)", {"command": "x"}),
    ]
    assert not any(one.is_own for one in found)
    cursor = find_host("cursor")
    assert cursor is not None
    assert [one.name for one in find_foreign_servers(places, [cursor], with_folder=True)] == ["b"]


@pytest.mark.parametrize(("release", "platform"), [("6.8.0-45-generic\n", "linux"), (RELEASE, "darwin")])
def test_outside_of_wsl_no_folder_of_windows_is_read(tmp_path: Path, release: str, platform: str) -> None:
    windows = make_windows(tmp_path, release)
    write(tmp_path, "Ada/.cursor/mcp.json", {"b": {"command": "x"}})
    assert find_foreign_servers(make_places(tmp_path, windows, platform)) == ()


def test_without_the_files_of_wsl_nothing_is_found(tmp_path: Path) -> None:
    assert make_places(tmp_path, WindowsPaths(tmp_path / "none", tmp_path / "none")).windows_homes == ()
    (tmp_path / "osrelease").write_text(RELEASE)
    assert make_places(tmp_path, WindowsPaths(tmp_path / "osrelease", tmp_path / "none")).windows_homes == ()


def test_folders_that_belong_to_nobody_and_links_are_left_out(tmp_path: Path) -> None:
    windows = make_windows(tmp_path, users=("Ada", "Public", "Default", "Default User", "All Users"))
    (tmp_path / "Users" / "link").symlink_to(tmp_path / "Users" / "Ada")
    (tmp_path / "Users" / "desktop.ini").write_text("")
    assert make_places(tmp_path, windows).windows_homes == (str(tmp_path / "Users" / "Ada"),)


def test_the_number_of_windows_users_is_bounded(tmp_path: Path) -> None:
    windows = make_windows(tmp_path, users=tuple(f"u{number}" for number in range(MAX_WINDOWS_USERS + 5)))
    assert len(make_places(tmp_path, windows).windows_homes) == MAX_WINDOWS_USERS


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ("cmd", ["/c", "npx", "-y", "thing"], {"command": "npx", "args": ["-y", "thing"]}),
        ("CMD.EXE", ["/C", "npx.cmd", "-y", "thing"], {"command": "npx", "args": ["-y", "thing"]}),
        ("C:\\Windows\\System32\\cmd.exe", ["/c", "uvx", "x"], {"command": "uvx", "args": ["x"]}),
        ("npx.cmd", ["-y", "thing"], {"command": "npx", "args": ["-y", "thing"]}),
        ("cmd", ["/c", "thing"], {"command": "thing"}),
    ],
)
def test_a_program_started_through_cmd_is_started_directly(
    tmp_path: Path, command: str, args: list[str], expected: dict[str, Any]
) -> None:
    server = find_one(tmp_path, {"command": command, "args": args})
    assert server.entry == expected
    assert server.notes == (f"In Windows it is started through a command script; here it runs {expected['command']}.",)


@pytest.mark.parametrize("args", [["/c", "npx -y thing & calc"], ["/k", "npx"], ["/c"], ["/c", "%COMSPEC%"]])
def test_a_command_of_cmd_that_is_not_clear_is_kept_and_named(tmp_path: Path, args: list[str]) -> None:
    server = find_one(tmp_path, {"command": "cmd", "args": args})
    assert server.entry == {"command": "cmd", "args": args}
    assert server.notes == ("It is started by cmd, which is not in WSL. Change its command with mcphost servers edit.",)


def test_a_windows_path_is_kept_and_named_with_its_place_in_wsl(tmp_path: Path) -> None:
    entry = {"command": "C:\\Program Files\\nodejs\\node.exe", "args": ["--dir=D:/data", "C:\\x.js", "a:b", "/c:/x"]}
    server = find_one(tmp_path, entry)
    assert server.entry == entry
    places = [note.partition(" in WSL")[0] for note in server.notes]
    assert places == [
        "It has the Windows path C:\\Program Files\\nodejs\\node.exe, which is /mnt/c/Program Files/nodejs/node.exe",
        "It has the Windows path D:/data, which is /mnt/d/data",
        "It has the Windows path C:\\x.js, which is /mnt/c/x.js",
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r"C:\Program Files\nodejs\node.exe", {"command": r"C:\Program Files\nodejs\node.exe"}),
        (r"%APPDATA%\npm\x.cmd -y y", {"command": r"%APPDATA%\npm\x.cmd -y y"}),
        (r"cmd /c npx -y x C:\Data", {"command": "npx", "args": ["-y", "x", r"C:\Data"]}),
    ],
)
def test_the_backslashes_of_a_path_in_a_whole_command_line_are_kept(
    command: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert find_one(tmp_path, {"command": command}).entry == expected


def test_a_file_of_windows_that_the_user_names_is_read_as_one(tmp_path: Path) -> None:
    places = make_places(tmp_path, make_windows(tmp_path))
    file = write(tmp_path, "Ada/.cursor/mcp.json", {"a": {"command": "cmd", "args": ["/c", "npx", "x"]}})
    (server,) = read_named_file(file, places)
    assert (server.host, server.entry) == ("Cursor (Windows)", {"command": "npx", "args": ["x"]})


def test_a_server_of_both_sides_is_listed_once_and_another_gets_the_hosts_name(tmp_path: Path) -> None:
    places = make_places(tmp_path, make_windows(tmp_path))
    here = Path(places.home, ".cursor")
    here.mkdir()
    (here / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}))
    write(tmp_path, "Ada/.cursor/mcp.json", {"a": {"command": "cmd", "args": ["/c", "npx", "x"]}})
    write(tmp_path, "Ada/.codeium/windsurf/mcp_config.json", {"a": {"command": "y"}})
    found = find_foreign_servers(places)
    first, second = plan_import(found, HostConfig().servers, tmp_path / "mcp.json", tmp_path)
    assert (first.name, first.hosts) == ("a", ("Cursor", "Cursor (Windows)"))
    assert (second.name, second.hosts) == ("a-windsurf-windows", ("Windsurf (Windows)",))
