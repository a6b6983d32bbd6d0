"""Tests that the user's restrictions on a server also apply when a project configures it under another name."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.build_host import DEMO_SERVER
from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import describe_server
from mcphost.config.loader import load_config, read_project_file
from mcphost.config.rule_syntax import format_rule
from mcphost.config.schema import HostConfig, ServerConfig
from mcphost.config.server_restrictions import find_aliases, has_same_target, target_digest
from mcphost.host.config_change_detector import _format_rules as describe_rules  # pyright: ignore[reportPrivateUsage]
from mcphost.host.servers.server_approval import make_question
from mcphost.serialization import replace

FILES = {"command": "npx", "args": ["-y", "@mcp/files", "/home/me"]}
OWN = {**FILES, "disabledTools": ["delete*"], "mcphost": {"reviewResults": True, "sampling": {"depth": 1}}}


def load_layers(folder: Path, own: Any, theirs: Any, never: str = '"files/move*", "web/*?n=1"') -> HostConfig:
    home, clone = folder / "home", folder / "clone"
    home.mkdir(parents=True)
    clone.mkdir()
    (home / "mcp.json").write_text(json.dumps({"mcpServers": own}))
    (home / "config.toml").write_text(f"[consent]\nnever = [{never}]\n")
    (clone / ".mcp.json").write_text(json.dumps({"mcpServers": theirs}))
    return load_config(home, project=read_project_file(clone))


def test_an_alias_in_a_project_keeps_reviews_disabled_tools_limits_and_never_rules(tmp_path: Path) -> None:
    theirs = {"innocent": {**FILES, "disabledTools": ["x"]}, "other": {"command": "o"}}
    config = load_layers(tmp_path, {"files": OWN}, theirs)
    own, alias, other = config.servers
    assert (alias.matching_servers, alias.review_results, alias.disabled_tools) == (("files",), True, ("x", "delete*"))
    assert alias.sampling_limits == {"depth": 1}
    assert any(rule.covers("innocent", "move_file") for rule in config.never_rules)
    assert not any(rule.covers("other", "move_file") for rule in config.never_rules)
    assert (other.matching_servers, other.review_results, other.disabled_tools, other.never_rules) == (
        (),
        False,
        (),
        (),
    )
    assert own.matching_servers == ()
    lines = describe_server(alias)
    assert lines[-5:] == (
        "same server as yours: files",
        "results: reviewed by you before the model gets them",
        "disabled tool: x",
        "disabled tool: delete*",
        "never: innocent/move*",
    )
    assert make_question(alias, None).restrictions == lines[-5:]


def test_a_never_rule_about_text_from_a_server_is_about_its_alias_in_a_project_as_well(tmp_path: Path) -> None:
    load_layers(tmp_path, {"files": OWN}, {"innocent": FILES, "other": {"command": "o"}})
    (tmp_path / "home" / "config.toml").write_text('[consent]\nnever = ["web/* never-from:files", "shell"]\n')
    config = load_config(tmp_path / "home", project=read_project_file(tmp_path / "clone"))
    assert [format_rule(rule) for rule in config.never_rules] == ["web/*?from:files,innocent", "shell"]


def test_rules_that_a_project_entry_changes_are_not_described_as_they_were_written(tmp_path: Path) -> None:
    before = load_layers(tmp_path / "one", {"web": FILES}, {}, '"web/*?n=1", "x/y never-from:web"').never_rules
    after = load_layers(tmp_path / "two", {"web": FILES}, {"theirs": FILES}, '"web/*?n=1", "x/y never-from:web"')
    assert describe_rules(after.never_rules, before) == ("x/y?from:web,theirs", "theirs/*?n=1")
    assert describe_rules(before, after.never_rules) == ("x/y?from:web",)


def test_the_other_names_of_a_server_are_those_of_a_projects_entry_and_of_an_equal_entry() -> None:
    def entry(name: str, **more: Any) -> ServerConfig:
        return ServerConfig(name=name, command="npx", args=("-y", "@mcp/mail"), **more)

    servers = (
        entry("mail", env={"TOKEN": "a"}),
        entry("mail-2", env={"TOKEN": "a"}, disabled=True),
        entry("work", env={"TOKEN": "b"}),
        entry("innocent", source="project"),
        ServerConfig(name="other", command="npx", args=("-y", "@mcp/other")),
    )
    assert find_aliases("mail", servers) == {"mail-2", "innocent"}
    assert find_aliases("work", servers) == {"innocent"}
    assert find_aliases("innocent", servers) == {"mail", "mail-2", "work"}
    assert find_aliases("other", servers) == frozenset()
    assert find_aliases("gone", servers) is None


def test_the_settings_of_a_projects_entry_are_bound_and_those_of_the_users_own_are_not() -> None:
    server = ServerConfig(name="x", command="run", cwd="/w", source="project")
    changes: list[dict[str, Any]] = [{"review_results": True}, {"disabled_tools": ("a",)}, {"never_rules": ("x/a",)}]
    digests = {server_digest(replace(server, **change)) for change in ({}, *changes)}
    assert len(digests) == 4
    own = replace(server, source="user")
    assert {server_digest(replace(own, **change)) for change in ({}, *changes)} == {server_digest(own)}


def test_an_address_is_the_same_however_it_is_written(tmp_path: Path) -> None:
    own = {"web": {"url": "https://mcp.example/a/mcp", "mcphost": {"reviewResults": True}}}
    theirs = {
        "slash": {"url": "https://MCP.example:443/a/mcp/?x=1"},
        "coded": {"url": "https://mcp.example./a//%6dcp"},
        "port": {"url": "https://mcp.example:444/a/mcp"},
        "path": {"url": "https://mcp.example/b/mcp"},
    }
    config = load_layers(tmp_path, own, theirs)
    assert {server.name: server.review_results for server in config.servers} == {
        "web": True, "slash": True, "coded": True, "port": False, "path": False,
    }  # fmt: skip
    (rule,) = (rule for rule in config.never_rules if rule.server == "slash")
    assert rule.conditions


@pytest.mark.parametrize(
    ("own", "other", "same"),
    [
        ("http://localhost:3000/mcp", "http://127.0.0.1:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://127.9.9.9:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://[::1]:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://[::ffff:127.0.0.1]:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://127.1:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://0x7f000001:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://0.0.0.0:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://mcp.localhost.:3000/mcp", True),
        ("http://localhost:3000/mcp", "http://localhost:3000/./mcp", True),
        ("http://localhost:3000/mcp", "http://localhost:3000/x/%2e%2e/mcp", True),
        ("http://localhost:3000/mcp", "http://localhost:3000/mcp;v=1", True),
        ("http://localhost:3000/mcp", "http://localhost:3001/mcp", False),
        ("http://localhost:3000/mcp", "http://128.0.0.1:3000/mcp", False),
        ("http://localhost:3000/mcp", "http://localhost:3000/mcp/x", False),
        ("http://localhost/mcp", "HTTP://LOCALHOST:80/mcp", True),
        ("https://b\u00fccher.example/mcp", "https://xn--bcher-kva.example/mcp", True),
        ("https://[2001:db8::1]/mcp", "https://[2001:0DB8:0:0::1]/mcp", True),
    ],
)
def test_an_address_is_the_same_in_every_spelling_of_host_and_path(own: str, other: str, same: bool) -> None:
    servers = [ServerConfig(name="x", url=url) for url in (own, other)]
    assert has_same_target(servers[0], servers[1]) is same


@pytest.mark.parametrize(
    ("own", "other", "same"),
    [
        (("npx", "-y", "@mcp/files", "/a"), ("npx", "@mcp/files@2.0", "/b"), True),
        (("npx", "-y", "@mcp/files"), ("bunx", "@mcp/files"), True),
        (("npx", "-y", "@mcp/files"), ("npx", "-y", "@mcp/other"), False),
        (("uvx", "server==1"), ("uvx", "server"), True),
        (("python3", "-m", "server"), ("/usr/bin/python3.11", "-u", "-m", "server"), True),
        (("python", "-m", "server"), ("python", "-m", "other"), False),
        (("node", "/srv/index.js"), ("node", "--inspect", "../srv/index.js"), True),
        (("node", "/srv/index.js"), ("node", "./index.js"), False),
        (("docker", "run", "-e", "TOKEN", "ghcr.io/x/y"), ("docker", "run", "--rm", "ghcr.io/x/y"), True),
        (("docker", "run", "ghcr.io/x/y"), ("docker", "run", "ghcr.io/x/z"), False),
        (("files-server",), ("/opt/files-server", "--root", "/"), True),
        (("files-server",), ("other-server",), False),
        (("python3", "-m", "mailserver"), ("python3", "-mmailserver"), True),
        (("python3", "-m", "mailserver"), ("python3", "-um", "mailserver"), True),
        (("python3", "-m", "mailserver"), ("python", "-Iummailserver"), True),
        (("python3", "-mmailserver"), ("python3", "-mother"), False),
        (("npx", "-y", "@mcp/files"), ("npx", "--package=@mcp/files@2", "files"), True),
        (("npx", "-y", "@mcp/files"), ("npx", "-p=@mcp/files", "files"), True),
        (("npx", "-y", "@mcp/files"), ("npx", "-p", "@mcp/files", "files"), True),
        (("npx", "-y", "@mcp/files"), ("npx", "--package=@mcp/other", "other"), False),
        (("uvx", "mail-server"), ("uvx", "--from=mail-server[tls]>=2", "mail"), True),
        (("uvx", "mail-server"), ("uvx", "--from", "Mail_Server", "mail"), True),
        (("uvx", "mail-server"), ("uvx", "--from=another", "mail"), False),
    ],
)
def test_a_program_is_the_same_with_other_options(own: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    def server(argv: tuple[str, ...]) -> ServerConfig:
        return ServerConfig(name="x", command=argv[0], args=argv[1:], cwd="/clone")

    assert has_same_target(server(own), server(other)) is same


def test_all_of_hundreds_of_entries_are_compared(tmp_path: Path) -> None:
    def entries(start: int, count: int) -> dict[str, Any]:
        scripts = [f"./folder/{n}.py" for n in range(20)]
        return {f"{start}-{n}": {"command": "python", "args": [*scripts, f"{start}.py"]} for n in range(count)}

    config = load_layers(tmp_path, entries(1, 500), entries(2, 47))
    assert len(config.servers) == 547


def test_surplus_in_a_projects_file_is_dropped_and_reported(tmp_path: Path) -> None:
    many = {"command": "x", "args": ["a.py"] * 600}
    env = {f"N{n}": "1" for n in range(501)}
    config = load_layers(tmp_path, {}, {"a": many, "b": many, "c": {"command": "x", "env": env}, "d": {"command": "x"}})
    assert [server.name for server in config.servers] == ["a", "d"]
    told = "\n".join(config.problems)
    assert 'server "b": the servers of the file have more than 1,000 arguments.' in told
    assert 'server "c": "env" has more than 500 entries.' in told
    few = {f"{n}": {"command": "x"} for n in range(1_001)}
    told = "\n".join(load_layers(tmp_path / "second", {}, few).problems)
    assert "it has 1,001 servers; only the first 1,000 are read" in told


def test_a_server_is_recognized_later_by_its_program_or_url_and_not_by_its_name() -> None:
    own = ServerConfig(name="db", command="npx", args=("-y", "@mcp/db@1.2"), env={"A": "1"})
    assert target_digest(own) == target_digest(replace(own, name="x", args=("-y", "@mcp/db@1.3"), env={}))
    assert target_digest(own) != target_digest(replace(own, args=("-y", "@evil/db")))
    web = ServerConfig(name="db", url="https://h.example/mcp?key=1")
    assert target_digest(web) == target_digest(replace(web, url="https://H.example:443/mcp", source="project"))
    assert target_digest(web) != target_digest(replace(web, url="https://h.example/other"))


def test_equal_commands_of_two_projects_are_different_servers(tmp_path: Path) -> None:
    one = ServerConfig(name="db", command="./server", source="project", file=str(tmp_path / "a" / ".mcp.json"))
    other = replace(one, file=str(tmp_path / "b" / ".mcp.json"))
    assert target_digest(one) == target_digest(replace(one, name="x"))
    assert len({target_digest(server) for server in (one, other, replace(one, source="user"))}) == 3


def test_the_demo_is_the_same_server_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[str] = set()
    for folder in (tmp_path / "one", tmp_path / "other"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        found.add(target_digest(DEMO_SERVER))
    (tmp_path / "other").rmdir()  # a folder that is gone does not end the start of the server either
    assert found == {target_digest(DEMO_SERVER)}


@pytest.mark.parametrize("url", ["https://[${env:NOT_A_HOST}/mcp", "https://h:9${env:NOT_A_HOST}/mcp"])
@pytest.mark.parametrize("is_own", [True, False])
def test_a_url_that_a_variable_makes_invalid_does_not_keep_the_other_servers_from_being_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, is_own: bool
) -> None:
    monkeypatch.setenv("NOT_A_HOST", "99999:x")
    odd = {"odd": {"url": url}}
    config = load_layers(tmp_path, {"files": OWN, **(odd if is_own else {})}, {} if is_own else odd)
    assert {server.name for server in config.servers} == {"files", "odd"}
    assert find_aliases("odd", config.servers) == frozenset()
