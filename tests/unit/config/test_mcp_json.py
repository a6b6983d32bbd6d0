"""Tests for mcp.json: what is read, what is ignored, and the message for each mistake."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import describe_server, diff_lines
from mcphost.config.json_files import parse_json
from mcphost.config.loader import find_server_problem, load_config, read_project_file
from mcphost.config.schema import ConfigWarning, HostConfig, ServerConfig
from mcphost.errors import ConfigError
from mcphost.protocol.revisions import Revision
from mcphost.serialization import replace


def read_servers(folder: Path, content: Any) -> HostConfig:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "mcp.json").write_text(text, encoding="utf-8")
    (folder / "mcp.json").chmod(0o600)
    return load_config(folder)


def read_server(folder: Path, entry: Any) -> ServerConfig:
    config = read_servers(folder, {"mcpServers": {"x": entry}})
    assert config.problems == ()
    return config.servers[0]


def entry_problem(folder: Path, entry: Any, name: str = "x") -> str:
    """Return the only problem reported for a broken entry; the valid entry next to it must be loaded."""
    config = read_servers(folder, {"mcpServers": {name: entry, "good": {"command": "true"}}})
    assert [server.name for server in config.servers] == ["good"]
    assert len(config.problems) == 1
    assert str(folder / "mcp.json") in config.problems[0]
    return config.problems[0]


@pytest.mark.req("stdio.env-config")
def test_stdio_server_with_everything(tmp_path: Path) -> None:
    server = read_server(tmp_path, {
        "command": "node", "args": ["a", "b"], "env": {"A": "1", "PORT": 8080}, "cwd": "/tmp", "type": "stdio",
        "mcphost": {"era": "handshake", "revision": "2025-06-18", "timeout": 5, "disabled": True, "logLevel": "notice"},
        "somebodyElses": {"key": 1},
    })  # fmt: skip
    assert server == ServerConfig(
        name="x",
        command="node",
        args=("a", "b"),
        env={"A": "1", "PORT": "8080"},
        cwd="/tmp",
        era="handshake",
        revision=Revision.V2025_06_18,
        timeout=5.0,
        log_level="notice",
        disabled=True,
        source="user",
        file=str(tmp_path / "mcp.json"),
    )


@pytest.mark.parametrize(
    ("kind", "transport"),
    [("http", "auto"), ("streamable-http", "streamable-http"), ("streamableHttp", "streamable-http"), ("sse", "sse")],
)
def test_http_server_by_the_names_other_hosts_use(tmp_path: Path, kind: str, transport: str) -> None:
    server = read_server(tmp_path, {"type": kind, "url": "https://h/mcp", "headers": {"X-A": "b"}})
    assert (server.url, server.transport, server.headers) == ("https://h/mcp", transport, {"X-A": "b"})


def test_headers_of_the_transport_are_left_out_and_reported(tmp_path: Path) -> None:
    headers = {"Host": "other.example", "transfer-encoding": "chunked", "Content-Length": "5", "X-A": "b"}
    text = json.dumps({"mcpServers": {"x": {"url": "https://h/mcp", "headers": headers}}})
    config = read_servers(tmp_path, text)
    assert config.servers[0].headers == {"X-A": "b"}
    assert "sets Host, transfer-encoding, Content-Length itself" in config.problems[0]


def test_servers_key_of_vs_code_is_read_with_comments_and_last_commas(tmp_path: Path) -> None:
    config = read_servers(tmp_path, '{ // mine\n "servers": {"x": {"url": "http://h//a,]", /* b */ }, },\n}')
    assert config.problems == ()
    assert config.servers[0].url == "http://h//a,]"


def test_disabled_of_other_hosts_counts(tmp_path: Path) -> None:
    assert read_server(tmp_path, {"command": "x", "disabled": True}).disabled


def test_the_certificates_of_an_authority_are_named_beside_the_file_they_are_named_in(tmp_path: Path) -> None:
    entry = {"url": "https://a.example/mcp", "mcphost": {"caFile": "keys/ca.pem"}}
    assert read_server(tmp_path, entry).ca_file == str(tmp_path / "keys" / "ca.pem")
    assert read_server(tmp_path, {**entry, "mcphost": {"caFile": "/etc/ca.pem"}}).ca_file == "/etc/ca.pem"
    assert read_server(tmp_path, {"url": "https://a.example/mcp"}).ca_file == ""


@pytest.mark.parametrize(
    "entry",
    [{"url": "https://a.example/", "mcphost": {"caFile": 5}}, {"command": "x", "mcphost": {"caFile": "y"}}],
)
def test_certificates_that_cannot_be_meant_are_reported(tmp_path: Path, entry: Any) -> None:
    assert "caFile" in entry_problem(tmp_path, entry)


def test_tilde_is_the_home_folder(tmp_path: Path) -> None:
    assert read_server(tmp_path, {"command": "~/bin/x", "cwd": "~"}).cwd == str(Path.home())


def test_byte_order_mark_and_empty_file_are_fine(tmp_path: Path) -> None:
    assert read_servers(tmp_path, '\ufeff{"mcpServers": {"x": {"command": "y"}}}').servers[0].name == "x"
    assert read_servers(tmp_path, " \n") == HostConfig(settings_file=str(tmp_path / "config.toml"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "is a list, not an object"),
        ({}, 'neither "command" nor "url"'),
        ({"command": "x", "url": "http://y"}, 'both "command" and "url"'),
        ({"command": 5}, '"command" is a number'),
        ({"command": "x", "args": "a b"}, '"args" is text, not a list'),
        ({"command": "x", "args": ["a", None]}, '"args" number 2 is null'),
        ({"command": "x", "env": {"A": True}}, '"env.A" is true or false'),
        ({"command": "x", "env": {"A=B": "c"}}, "unusable"),
        ({"command": "x\0"}, "NUL"),
        ({"url": "ftp://h"}, "not an http or https address"),
        ({"url": "http://"}, "not an http or https address"),
        ({"url": "http://[::1"}, "not an http or https address"),
        ({"url": "http://a b"}, "not an http or https address"),
        ({"url": "http://h", "headers": {"A": "b\r\nC: d"}}, "cannot be sent"),
        ({"url": "http://h", "headers": {"A B": "c"}}, "cannot be sent"),
        ({"url": "http://h", "type": "stdio"}, "Make them match"),
        ({"command": "x", "type": "http"}, "Make them match"),
        ({"command": "x", "type": "carrier pigeon"}, "carrier pigeon"),
        ({"command": "x", "mcphost": {"era": "old"}}, "mcphost.era"),
        ({"command": "x", "mcphost": {"revision": "2025-01-01"}}, "2025-03-26, 2025-06-18"),
        ({"command": "x", "mcphost": {"revision": 5}}, "mcphost.revision"),
        ({"command": "x", "mcphost": {"revision": "2025-06-18", "era": "stateless"}}, "not of the era"),
        ({"command": "x", "mcphost": 1}, '"mcphost" is a'),
        ({"command": "x", "mcphost": {"logLevel": "loud"}}, "mcphost.logLevel"),
        ({"command": "x", "mcphost": {"logLevel": 5}}, "mcphost.logLevel"),
        ({"command": "x", "mcphost": {"logLevel": ["info"]}}, "mcphost.logLevel"),
        ({"command": "x", "mcphost": {"timeout": 0}}, "mcphost.timeout"),
        ({"command": "x", "mcphost": {"timeout": True}}, "mcphost.timeout"),
        ({"command": "x", "disabled": "yes"}, '"disabled" is text'),
        ({"command": "x", "mcphost": {"disabled": "yes"}}, '"mcphost.disabled" is text, not true or false'),
        ({"command": "x", "mcphost": {"disabledTools": ["a", 5]}}, '"mcphost.disabledTools" number 2 is a number'),
        ({"command": "x", "mcphost": {"timeout": 1e9}}, '"mcphost.timeout" is not above 0 and at most 86400'),
        ({"url": "http://h", "mcphost": {"oauth": {"port": "80"}}}, '"mcphost.oauth.port" is text, not a whole number'),
        ({"url": "http://h", "mcphost": {"oauth": {"port": 80_000}}}, "not between 0 and 65535"),
        ({"url": "http://h", "mcphost": {"oauth": {"grant": "mine"}}}, "not one of person, client_credentials"),
    ],
)
def test_broken_entry_costs_itself_only_and_is_named(tmp_path: Path, entry: Any, message: str) -> None:
    text = entry_problem(tmp_path, entry)
    assert 'server "x"' in text
    assert message in text


@pytest.mark.parametrize("name", ["", " x", "-x", "a\x1b[31m", "a\u202eb", "n" * 200])
def test_name_that_cannot_be_shown_or_typed_is_refused(tmp_path: Path, name: str) -> None:
    text = entry_problem(tmp_path, {"command": "y"}, name)
    assert "name" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_reason_why_a_server_cannot_be_used_is_not_a_warning_about_its_entry(tmp_path: Path) -> None:
    entry = {"command": "y", "env": {"API_KEY": "sk-1234567890abcdef"}, "mcphost": {"era": 5}}
    config = read_servers(tmp_path, json.dumps({"mcpServers": {"x": entry}}))
    warnings = [problem for problem in config.problems if isinstance(problem, ConfigWarning)]
    assert [("looks like a secret" in warning) for warning in warnings] == [True]
    assert config.problems[0] is warnings[0]
    assert '"mcphost.era" is not one of' in find_server_problem(config, "x")


def test_two_servers_of_one_name_are_reported_and_the_first_counts(tmp_path: Path) -> None:
    config = read_servers(tmp_path, '{"mcpServers": {"x": {"command": "first"}, "x": {"command": "second"}}}')
    assert [server.command for server in config.servers] == ["first"]
    assert "two servers of this name" in find_server_problem(config, "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "mcpServers": {\n  "x": {"command": }\n }\n}', "line 3, column 20"),
        ("[]", "contains a list"),
        ('{"mcpServers": []}', '"mcpServers" is a list'),
        ('{"other": 1}', 'no "mcpServers"'),
        ("[" * 100_000, "nested too deep"),
        ("[" * 5_000 + "]" * 5_000, "nested too deep"),
        ('{"mcpServers": {"x": ' + '{"command":' * 5_000 + "1" + "}" * 5_002, "nested too deep"),
        ('{"a": ' + "1" * 5000 + "}", "not valid JSON"),
        ('{"a": 1', "line 1"),
        (f'{{"a": "{"x" * 256_001}"}}', "over 256 kB"),
    ],
)
def test_broken_file_is_named_with_its_place_and_costs_its_servers_only(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.toml").write_text('theme = "paper"')
    config = read_servers(tmp_path, text)
    assert config.servers == ()
    assert config.theme == "paper"
    assert len(config.problems) == 1
    assert message in config.problems[0]
    assert str(tmp_path / "mcp.json") in config.problems[0]


def test_text_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_bytes(b'{"mcpServers":\n{"x": {"command": "\xff"}}}')
    assert "line 2: not UTF-8" in load_config(tmp_path).problems[0]


def test_directory_fifo_and_link_loop_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.mkdir()
    assert "is not a file" in load_config(tmp_path).problems[0]
    path.rmdir()
    os.mkfifo(path)
    assert "is not a file" in load_config(tmp_path).problems[0]
    path.unlink()
    path.symlink_to(path)
    assert "loop of symbolic links" in load_config(tmp_path).problems[0]


def test_missing_folder_is_an_empty_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "no" / "such"
    assert load_config(folder) == HostConfig(settings_file=str(folder / "config.toml"))


def test_plain_secret_is_reported_without_showing_it_and_still_works(tmp_path: Path) -> None:
    entry = {"url": "https://h", "headers": {"Authorization": "Bearer abcdef123456"}}
    config = read_servers(tmp_path, {"mcpServers": {"x": entry}})
    assert config.servers[0].headers == entry["headers"]
    assert "plain text" in config.problems[0]
    assert "${env:AUTHORIZATION}" in config.problems[0]
    assert "abcdef" not in config.problems[0]
    assert "mode" not in config.problems[0]
    (tmp_path / "mcp.json").chmod(0o644)
    assert "mode 0644" in load_config(tmp_path).problems[0]


def test_reference_we_do_not_fill_in_is_reported(tmp_path: Path) -> None:
    config = read_servers(tmp_path, {"mcpServers": {"x": {"command": "y", "env": {"A": "${input:key}"}}}})
    assert "${input:key}" in config.problems[0]
    assert config.servers


def test_command_with_its_arguments_in_one_text_is_reported(tmp_path: Path) -> None:
    config = read_servers(tmp_path, {"mcpServers": {"x": {"command": "npx -y thing"}}})
    assert '"command": "npx", "args": ["-y", "thing"]' in config.problems[0]


def test_named_files_replace_the_users_and_approve_their_servers(tmp_path: Path) -> None:
    read_servers(tmp_path, {"mcpServers": {"mine": {"command": "x"}}})
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    second.write_text('{"mcpServers": {"a": {"command": "y"}, "b": {"command": "y"}}}')
    config = load_config(tmp_path, files=[str(first), str(second)])
    assert [(server.name, server.command, server.source) for server in config.servers] == [
        ("a", "x", "flag"), ("b", "y", "flag"),
    ]  # fmt: skip
    assert str(second) in find_server_problem(config, "a")


def test_broken_named_file_is_an_error_when_strict_and_a_problem_otherwise(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    with pytest.raises(ConfigError, match="line 1, column 2"):
        load_config(tmp_path, files=[str(bad)], strict=True)
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path, files=[str(tmp_path / "none.json")], strict=True)
    assert "line 1, column 2" in load_config(tmp_path, files=[str(bad)]).problems[0]


def test_project_file_counts_only_when_handed_over_and_never_takes_a_users_name(tmp_path: Path) -> None:
    read_servers(tmp_path, {"mcpServers": {"mine": {"command": "safe"}}})
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"mine": {"command": "evil"}, "its": {"command": "x"}}}')
    project = read_project_file(tmp_path)
    assert project is not None
    assert [server.name for server in load_config(tmp_path).servers] == ["mine"]
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"later": {"command": "z"}}}')
    config = load_config(tmp_path, project=project)  # exactly the content that was trusted
    assert [(server.name, server.command, server.source) for server in config.servers] == [
        ("mine", "safe", "user"), ("its", "x", "project"),
    ]  # fmt: skip
    assert read_project_file(tmp_path) != project


def test_folder_without_project_file_has_none(tmp_path: Path) -> None:
    assert read_project_file(tmp_path) is None


def test_an_approval_of_a_projects_server_applies_in_that_project_only(tmp_path: Path) -> None:
    digests: set[str] = set()
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / ".mcp.json").write_text('{"mcpServers": {"s": {"command": "./server.sh", "cwd": "src"}}}')
        server = load_config(tmp_path, project=read_project_file(folder)).servers[0]
        assert server.cwd == str(folder / "src")
        digests.add(server_digest(server))
    assert len(digests) == 2


def user_server(folder: Path, **entry: object) -> ServerConfig:
    folder.mkdir(exist_ok=True)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {"command": "npx", **entry}}}))
    return load_config(folder).servers[0]


def test_a_users_server_runs_in_the_folder_of_its_file_in_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, hostile = tmp_path / "config", tmp_path / "hostile"
    hostile.mkdir()
    monkeypatch.chdir(hostile)
    assert user_server(config).cwd == str(config)
    assert user_server(config, cwd="sub").cwd == str(config / "sub")
    assert user_server(config, cwd="/srv").cwd == "/srv"
    assert user_server(config, cwd="~").cwd == str(Path.home())


def test_a_users_server_may_run_where_mcphost_is_started_and_is_then_approved_for_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests: set[str] = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        server = user_server(tmp_path / "config", cwd="${workspaceFolder}/src")
        assert server.cwd == str(tmp_path / name / "src")
        digests.add(server_digest(server))
    assert len(digests) == 2


def test_the_same_entry_in_another_configuration_folder_is_approved_separately(tmp_path: Path) -> None:
    assert server_digest(user_server(tmp_path / "one")) != server_digest(user_server(tmp_path / "other"))
    assert server_digest(user_server(tmp_path / "one", cwd="/srv")) == server_digest(
        user_server(tmp_path / "other", cwd="/srv")
    )


def test_a_folder_is_resolved_through_its_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert user_server(tmp_path / "config", cwd=str(tmp_path / "link" / "src")).cwd == str(tmp_path / "real" / "src")
    (tmp_path / "loop").symlink_to("loop")
    assert user_server(tmp_path / "config", cwd=str(tmp_path / "loop")).cwd == str(tmp_path / "loop")


def test_a_folder_with_a_nul_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"s": {"command": "x", "cwd": "a\0b"}}}))
    config = load_config(tmp_path)
    assert not config.servers
    assert '"cwd" has a NUL character' in config.problems[0]


@pytest.mark.parametrize(
    "entry",
    [
        '{"command": "\\ud800"}',
        '{"command": "x", "args": ["a", "\\udfff.py"]}',
        '{"command": "x", "cwd": "/\\ud800"}',
        '{"command": "x", "args": "\\ud800"}',
        '{"command": "x", "mcphost": {"era": "\\ud800"}}',
        '{"command": "x", "env": {"A": "\\ud800"}}',
        '{"command": "x", "env": {"\\ud800": "a"}}',
        '{"command": "x", "envFile": "\\ud800"}',
        '{"url": "https://h/", "headers": {"A": "\\ud800"}}',
        '{"url": "https://h/", "mcphost": {"caFile": "\\ud800"}}',
    ],
)
def test_an_entry_with_half_of_a_surrogate_pair_is_refused_and_the_others_are_used(tmp_path: Path, entry: str) -> None:
    (tmp_path / "mcp.json").write_text(f'{{"mcpServers": {{"s": {entry}, "t": {{"command": "x"}}}}}}')
    config = load_config(tmp_path)
    assert [server.name for server in config.servers] == ["t"]
    assert "half of a surrogate pair" in config.problems[0]


def test_a_byte_that_is_not_utf_8_may_be_written_as_a_surrogate(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"s": {"command": "x", "args": ["\\udcff.py"]}}}')
    (server,) = load_config(tmp_path).servers
    assert server.args == ("\udcff.py",)


def test_a_server_that_depends_on_the_working_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "config"
    assert user_server(config, env={"A": "${env:PWDS}"}).startup_folder == ""
    for entry in ({"cwd": "${workspaceFolder}/src"}, {"env": {"PYTHONPATH": "${env: PWD }/lib"}}):
        server = user_server(config, **entry)
        assert server.startup_folder == str(tmp_path)
        (tmp_path / "other").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "other")
        assert server_digest(user_server(config, **entry)) != server_digest(server)
        assert describe_server(user_server(config, **entry)) != describe_server(server)
        monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"command": "npx2"},
        {"args": ("a",)},
        {"args": ("a b", "c")},
        {"args": ("a", "b c")},
        {"args": ("a", "b", "c", "")},
        {"env": {"A": "1", "B": "2"}},
        {"env": {"A": "2"}},
        {"env": {"a": "1"}},
        {"cwd": "/elsewhere"},
    ],
)
def test_every_change_of_the_command_changes_the_digest(change: dict[str, Any]) -> None:
    server = ServerConfig(name="s", command="npx", args=("a", "b", "c"), env={"A": "1"}, cwd="/x")
    assert server_digest(replace(server, **change)) != server_digest(server)
    assert describe_server(replace(server, **change)) != describe_server(server)


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://a/mcp/"},
        {"url": "http://a/mcp"},
        {"headers": {"B": "x"}},
        {"headers": {"A": "y"}},
        {"headers": {}},
        {"ca_file": "/c"},
    ],
)
def test_every_change_of_the_target_changes_the_digest(change: dict[str, Any]) -> None:
    server = ServerConfig(name="s", url="https://a/mcp", headers={"A": "x"})
    assert server_digest(replace(server, **change)) != server_digest(server)
    assert describe_server(replace(server, **change)) != describe_server(server)


def test_a_new_secret_is_the_same_server_in_the_users_file_and_another_in_a_projects() -> None:
    before, after = (
        ServerConfig(name="s", url="https://a/mcp", headers={"Authorization": f"Bearer {text}", "A": "x"})
        for text in ("first-token", "second-token")
    )
    assert server_digest(before) == server_digest(after)
    assert describe_server(before)[1:] == ("header A: x", "header Authorization: Bearer [hidden]")
    theirs = [replace(item, source="project") for item in (before, after)]
    assert server_digest(theirs[0]) != server_digest(theirs[1])
    assert describe_server(theirs[0]) != describe_server(theirs[1])
    assert not any("-token" in line for item in theirs for line in describe_server(item))


def test_private_addresses_and_wider_resources_of_a_sign_in_count_only_in_the_users_own_file(tmp_path: Path) -> None:
    entry = {"url": "https://a/mcp", "mcphost": {"oauth": {"private": True, "resource": "https://a", "clientId": "c"}}}
    text = json.dumps({"mcpServers": {"s": entry}})
    (tmp_path / "mcp.json").write_text(text)
    own = load_config(tmp_path)
    assert own.servers[0].oauth.private
    assert own.servers[0].oauth.resource == "https://a"
    assert not own.problems
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".mcp.json").write_text(text)
    (folder / "named.json").write_text(text)
    for config in (
        load_config(folder, project=read_project_file(folder)),
        load_config(folder, files=[str(folder / "named.json")]),
    ):
        assert config.servers[0].oauth == replace(own.servers[0].oauth, private=False, resource="")
        assert '"mcphost.oauth.private" is ignored: it applies only in your own mcp.json' in config.problems[0]
        assert '"mcphost.oauth.resource" is ignored: it applies only in your own mcp.json' in config.problems[1]


def test_spaces_and_private_use_characters_of_a_command_are_marked_in_its_description() -> None:
    server = ServerConfig(
        name="s", command="node", args=("server.js\u00a0--safe", "a\u3000b", "x\ue000y", "中\u3000文")
    )
    assert describe_server(server)[1:] == (
        'argument 1: "server.js‹U+00A0›--safe"',
        'argument 2: "a‹U+3000›b"',
        'argument 3: "x‹U+E000›y"',
        "argument 4: 中\u3000文",
    )


def test_a_diff_shows_removed_and_added_lines() -> None:
    before = ServerConfig(name="s", command="npx", args=("-y", "thing@1.0.15"), cwd="/x")
    after = replace(before, args=("-y", "thing@1.0.16", "--bcc"))
    assert diff_lines(describe_server(before), describe_server(after)) == (
        "  command: npx", "  argument 1: -y", "- argument 2: thing@1.0.15", "+ argument 2: thing@1.0.16",
        "+ argument 3: --bcc", "  folder: /x",
    )  # fmt: skip


def test_the_difference_of_huge_commands_is_reported() -> None:
    lines = diff_lines(["a"] * 50_000, ["b"] * 50_000)
    assert (len(lines), lines[0], lines[-1]) == (100_000, "- a", "+ b")


def test_repeated_lines_do_not_make_a_difference_expensive() -> None:
    before, after = ["a"] * 250, ["a", "e"] * 125
    began = time.process_time()
    lines = diff_lines(before, after)
    assert time.process_time() - began < 0.15
    assert [line[2:] for line in lines if line[0] in " -"] == before
    assert [line[2:] for line in lines if line[0] in " +"] == after


def test_claims_are_trusted_only_if_the_users_own_file_allows_it(tmp_path: Path) -> None:
    entry = {"mcphost": {"trustAnnotations": True}}
    assert user_server(tmp_path / "config", **entry).trust_annotations is True
    assert user_server(tmp_path / "config").trust_annotations is False
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"s": {"command": "x", **entry}}}))
    for config in (
        load_config(tmp_path, project=read_project_file(tmp_path)),
        load_config(tmp_path, files=[str(file)]),
    ):
        assert config.servers[0].trust_annotations is False
        assert "trustAnnotations" in config.problems[0]


def test_results_are_reviewed_in_every_configuration_of_the_server(tmp_path: Path) -> None:
    entry = {"mcphost": {"reviewResults": True}}
    assert user_server(tmp_path / "config", **entry).review_results is True
    assert user_server(tmp_path / "config").review_results is False
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"s": {"command": "x", **entry}}}))
    for config in (
        load_config(tmp_path, project=read_project_file(tmp_path)),
        load_config(tmp_path, files=[str(file)]),
    ):
        assert config.servers[0].review_results is True
    with pytest.raises(IndexError):
        user_server(tmp_path / "config", mcphost={"reviewResults": "sometimes"})


def test_tools_are_switched_off_under_our_key_and_under_that_of_other_hosts(tmp_path: Path) -> None:
    entry = {"disabledTools": ["a"], "mcphost": {"disabledTools": ["b*"]}}
    assert user_server(tmp_path / "config", **entry).disabled_tools == ("a", "b*")
    assert user_server(tmp_path / "config").disabled_tools == ()
    with pytest.raises(IndexError):
        user_server(tmp_path / "config", mcphost={"disabledTools": "a"})


@pytest.mark.parametrize("value", ["true", 1, None, {}])
def test_an_invalid_trust_setting_leaves_the_server_out(tmp_path: Path, value: object) -> None:
    with pytest.raises(IndexError):
        user_server(tmp_path / "config", mcphost={"trustAnnotations": value})


@pytest.mark.parametrize("text", ["//\n" * 11_000 + "{}", "/**/" * 11_000 + "{}", '"' * 101_000])
def test_a_file_of_very_many_comments_or_texts_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match="the file has too many comments or strings"):
        parse_json(text, "the file")


@pytest.mark.parametrize(
    ("entry", "key", "meant"),
    [
        ({"mcphost": {"reviewResult": True}}, "mcphost.reviewResult", "mcphost.reviewResults"),
        ({"mcphost": {"timeuot": 5}}, "mcphost.timeuot", "mcphost.timeout"),
        ({"disabledTool": ["x"]}, "disabledTool", "disabledTools"),
        ({"disabled_tools": ["x"]}, "disabled_tools", "disabledTools"),
        ({"arg": ["x"]}, "arg", "args"),
        ({"reviewResults": True}, "reviewResults", "mcphost.reviewResults"),
        ({"watch": ["*.py"]}, "watch", "mcphost.watch"),
        ({"sampling": {}}, "sampling", "mcphost.sampling"),
    ],
)
def test_a_misspelt_key_is_a_warning(tmp_path: Path, entry: dict[str, Any], key: str, meant: str) -> None:
    config = read_servers(tmp_path, {"mcpServers": {"x": {"command": "true", **entry}}})
    (problem,) = config.problems
    assert problem == f'{tmp_path}/mcp.json: server "x": "{key}" is unknown: did you mean "{meant}"?'
    assert isinstance(problem, ConfigWarning)
    assert len(config.servers) == 1


def test_an_unlike_key_is_unknown_only_in_the_mcphost_object(tmp_path: Path) -> None:
    entry = {"command": "true", "autoApprove": [], "mcphost": {"blue\u202e": 1}}
    (problem,) = read_servers(tmp_path, {"mcpServers": {"x": entry}}).problems
    assert '"mcphost.blue' in problem
    assert "\u202e" not in problem
    assert problem.endswith("is unknown: it does nothing.")


def test_keys_of_other_hosts_are_no_misspellings(tmp_path: Path) -> None:
    keys = ("autoApprove", "alwaysAllow", "trust", "enabled", "enabledTools", "headersHelper", "gallery",
            "version", "description", "transportType", "includeTools", "excludeTools", "serverUrl",
            "httpUrl", "startup_timeout_sec", "tools", "sandbox", "name", "http_headers")  # fmt: skip
    read_server(tmp_path, {"command": "true", **dict.fromkeys(keys, "x")})


@pytest.mark.parametrize("key", ["timeout", "oauth"])
def test_a_key_that_other_hosts_read_beside_the_command_is_reported_in_the_users_own_file(
    tmp_path: Path, key: str
) -> None:
    entry = {"command": "true", key: 5}
    (problem,) = read_servers(tmp_path, {"mcpServers": {"x": entry}}).problems
    text = f'"{key}" does nothing here: mcphost reads "mcphost.{key}".'
    assert problem == f'{tmp_path}/mcp.json: server "x": {text}'
    assert isinstance(problem, ConfigWarning)
    shared = tmp_path / ".mcp.json"
    shared.write_text(json.dumps({"mcpServers": {"y": entry}}))
    project = read_project_file(tmp_path)
    assert load_config(tmp_path / "none", project=project).problems == ()  # the other hosts read it


@pytest.mark.parametrize(
    "args",
    [
        ["--token", "sk-abcdefghijklmnop123456"],
        ["--api-key=0123456789abcdef0"],
        ["--token", "0123456789abcdef0"],
        ["postgresql://ada:hunter2@db.example/x"],
    ],
)
def test_a_secret_in_an_argument_is_a_warning_that_does_not_quote_it(tmp_path: Path, args: list[str]) -> None:
    (problem,) = read_servers(tmp_path, {"mcpServers": {"x": {"command": "true", "args": args}}}).problems
    assert f'"args[{len(args) - 1}]" looks like a secret' in problem
    assert "${env:NAME}" in problem
    assert "--env NAME" in problem
    assert not any(argument in problem for argument in args)
    assert isinstance(problem, ConfigWarning)


def test_an_argument_that_names_a_file_or_a_variable_is_no_secret(tmp_path: Path) -> None:
    args = ["--token-file=/run/secrets/token", "--key", "/etc/ssl/0123456789abcdef0.pem", "--token", "${env:TOKEN}",
            "--auth", "none", "-m", "mcphost.demo.server", "--max-tokens", "4096"]  # fmt: skip
    read_server(tmp_path, {"command": "true", "args": args})


def test_an_unknown_key_of_the_files_own_mcphost_object_is_a_warning(tmp_path: Path) -> None:
    (problem,) = read_servers(tmp_path, {"mcpServers": {}, "mcphost": {"root": ["/a"]}}).problems
    assert problem == f'{tmp_path}/mcp.json: "mcphost.root" is unknown: did you mean "mcphost.roots"?'
