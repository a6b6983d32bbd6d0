"""Tests that the server files of other MCP hosts, in each documented format, give valid entries for mcp.json."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcphost.config.host_formats import HOSTS, MAX_PROFILES, Places, find_places
from mcphost.config.mcp_json import parse_servers
from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.other_hosts import find_foreign_servers, read_named_file
from mcphost.config.variable_references import expand_target
from mcphost.config.windows_hosts import WindowsPaths
from mcphost.errors import ConfigError

STDIO = {"command": "npx", "args": ["-y", "pkg"], "env": {"MODE": "fast"}}
TOKEN = {"Authorization": "Bearer ${env:TOKEN}"}


class Case(NamedTuple):
    """A file of another MCP host: its path below the home folder, its content, and the entries expected from it."""

    path: str
    content: Any
    entries: dict[str, dict[str, Any]]


CASES: dict[str, Case] = {
    "claude-desktop": Case(
        ".config/Claude/claude_desktop_config.json",
        {"globalShortcut": "", "mcpServers": {"a": STDIO}},
        {"a": STDIO},
    ),
    "claude-code": Case(
        ".claude.json",
        {
            "numStartups": 3,
            "mcpServers": {
                "a": {"type": "stdio", **STDIO, "env": {"KEY": "${KEY}", "MODE": "${MODE:-fast}"}},
                "b": {"type": "http", "url": "https://b.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "c": {"type": "sse", "url": "https://c.example/sse"},
            },
            "projects": {"FOLDER": {"mcpServers": {"mine": {"command": "mine"}}}, "/other": {"mcpServers": {"x": {}}}},
        },
        {
            "a": {**STDIO, "env": {"KEY": "${env:KEY}", "MODE": "${env:MODE:-fast}"}},
            "b": {"url": "https://b.example/mcp", "headers": TOKEN},
            "c": {"url": "https://c.example/sse", "type": "sse"},
            "mine": {"command": "mine", "cwd": "FOLDER"},
        },
    ),
    "cursor": Case(
        ".cursor/mcp.json",
        {"mcpServers": {"a": {**STDIO, "env": {"KEY": "${env:KEY}"}}, "b": {"url": "https://b.example/mcp"}}},
        {"a": {**STDIO, "env": {"KEY": "${env:KEY}"}}, "b": {"url": "https://b.example/mcp"}},
    ),
    "vscode": Case(
        ".config/Code/User/mcp.json",
        '{\n  // servers\n  "servers": {"a": {"type": "stdio", "command": "npx", "args": ["-y", "pkg"], '
        '"env": {"MODE": "fast"}}, "b": {"type": "http", "url": "https://b.example/mcp", '
        '"headers": {"Authorization": "Bearer ${env:TOKEN}"}},},\n  "inputs": []\n}',
        {"a": STDIO, "b": {"url": "https://b.example/mcp", "headers": TOKEN}},
    ),
    "cline": Case(
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        {
            "mcpServers": {
                "a": {**STDIO, "disabled": True, "autoApprove": ["read"]},
                "b": {"type": "streamableHttp", "url": "https://b.example/mcp", "timeout": 60},
            }
        },
        {"a": STDIO, "b": {"url": "https://b.example/mcp"}},
    ),
    "windsurf": Case(
        ".codeium/windsurf/mcp_config.json",
        {"mcpServers": {"a": STDIO, "b": {"serverUrl": "https://b.example/mcp", "headers": TOKEN}}},
        {"a": STDIO, "b": {"url": "https://b.example/mcp", "headers": TOKEN}},
    ),
    "gemini-cli": Case(
        ".gemini/settings.json",
        {
            "theme": "x",
            "mcpServers": {
                "a": {**STDIO, "env": {"KEY": "$KEY", "B": "${B}", "C": "${C:-c}"}, "trust": True, "timeout": 5000},
                "b": {"httpUrl": "https://b.example/mcp", "headers": {"Authorization": "Bearer $TOKEN"}},
                "c": {"url": "https://c.example/sse", "excludeTools": ["rm"]},
            },
        },
        {
            "a": {**STDIO, "env": {"KEY": "${env:KEY}", "B": "${env:B}", "C": "${env:C:-c}"}},
            "b": {"url": "https://b.example/mcp", "headers": TOKEN},
            "c": {"url": "https://c.example/sse", "type": "sse", "disabledTools": ["rm"]},
        },
    ),
    "codex": Case(
        ".codex/config.toml",
        """
model = "x"
[mcp_servers.a]
command = "npx"
args = ["-y", "pkg"]
env_vars = ["KEY", { name = "PLAIN", source = "local" }, { name = "FAR", source = "remote" }]
[mcp_servers.a.env]
MODE = "fast"
[mcp_servers.b]
url = "https://b.example/mcp"
bearer_token_env_var = "TOKEN"
env_http_headers = { "X-Key" = "KEY" }
disabled_tools = ["rm"]
""",
        {
            "a": {**STDIO, "env": {"MODE": "fast", "KEY": "${env:KEY}", "PLAIN": "${env:PLAIN}", "FAR": "${env:FAR}"}},
            "b": {
                "url": "https://b.example/mcp",
                "headers": {"X-Key": "${env:KEY}", **TOKEN},
                "disabledTools": ["rm"],
            },
        },
    ),
    "zed": Case(
        ".config/zed/settings.json",
        {
            "context_servers": {
                "a": {"source": "custom", **STDIO},
                "old": {"command": {"path": "npx", "args": ["-y", "pkg"], "env": {"MODE": "fast"}}, "settings": {}},
                "b": {"url": "https://b.example/mcp"},
            }
        },
        {"a": STDIO, "old": STDIO, "b": {"url": "https://b.example/mcp"}},
    ),
    "goose": Case(
        ".config/goose/config.yaml",
        """
GOOSE_PROVIDER: anthropic
extensions:
  a:
    type: stdio
    enabled: true
    cmd: npx
    args: ["-y", "pkg"]
    envs: {MODE: fast}
    env_keys: [KEY]
    timeout: 300
  b:
    type: streamable_http
    uri: https://b.example/mcp
""",
        {
            "a": {**STDIO, "env": {"KEY": "${env:KEY}", "MODE": "fast"}, "mcphost": {"timeout": 300}},
            "b": {"url": "https://b.example/mcp"},
        },
    ),
    "opencode": Case(
        ".config/opencode/opencode.jsonc",
        '{"mcp": {"a": {"type": "local", "command": ["npx", "-y", "pkg"], "environment": {"MODE": "fast"}},\n'
        '// remote\n"b": {"type": "remote", "url": "https://b.example/mcp", "enabled": false, '
        '"headers": {"Authorization": "Bearer {env:TOKEN}"}}}}',
        {"a": STDIO, "b": {"url": "https://b.example/mcp", "headers": TOKEN}},
    ),
    "oterm": Case(
        ".local/share/oterm/config.json",
        {"theme": "x", "mcpServers": {"a": {**STDIO, "env": {"KEY": "${KEY:-none}"}}}},
        {"a": {**STDIO, "env": {"KEY": "${env:KEY:-none}"}}},
    ),
}


def write(home: Path, path: str, content: Any) -> Path:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "project").mkdir()
    return find_places(tmp_path, tmp_path / "project", {}, "linux")


@pytest.mark.parametrize("host", CASES)
def test_the_servers_of_a_host_become_entries_that_are_loaded(host: str, tmp_path: Path, places: Places) -> None:
    case = CASES[host]
    text = case.content if isinstance(case.content, str) else json.dumps(case.content)
    write(tmp_path, case.path, text.replace("FOLDER", places.folder))
    found = find_foreign_servers(places)
    assert {server.host for server in found} == {next(one.title for one in HOSTS if one.id == host)}
    expected = json.loads(json.dumps(case.entries).replace("FOLDER", places.folder))
    assert {server.name: server.entry for server in found} == expected
    problems: list[str] = []
    loaded = parse_servers({"mcpServers": case.entries}, "mcp.json", "user", problems.append)
    assert [server.name for server in loaded] == list(case.entries)


@pytest.mark.parametrize("host", [one.id for one in HOSTS])
def test_every_host_has_a_case(host: str) -> None:
    assert host in CASES


ROAMING = "AppData/Roaming"
SUPPORT = "Library/Application Support"
CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
USERS_FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "linux": {
        "claude-desktop": (".config/Claude/claude_desktop_config.json",),
        "claude-code": (".claude.json",),
        "cursor": (".cursor/mcp.json",),
        "vscode": (".config/Code/User/mcp.json",),
        "cline": (
            f".config/Code/User/{CLINE}",
            f".config/Cursor/User/{CLINE}",
            f".config/Windsurf/User/{CLINE}",
            ".cline/data/settings/cline_mcp_settings.json",
        ),
        "windsurf": (".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        "gemini-cli": (".gemini/settings.json",),
        "codex": (".codex/config.toml",),
        "zed": (".config/zed/settings.json",),
        "goose": (".config/goose/config.yaml",),
        "opencode": (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        "oterm": (".local/share/oterm/config.json",),
    },
    "darwin": {
        "claude-desktop": (f"{SUPPORT}/Claude/claude_desktop_config.json",),
        "claude-code": (".claude.json",),
        "cursor": (".cursor/mcp.json",),
        "vscode": (f"{SUPPORT}/Code/User/mcp.json", f"{SUPPORT}/Code/User/profiles/5a/mcp.json"),
        "cline": (f"{SUPPORT}/Code/User/{CLINE}", ".cline/data/settings/cline_mcp_settings.json"),
        "windsurf": (".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        "gemini-cli": (".gemini/settings.json",),
        "codex": (".codex/config.toml",),
        "zed": (".config/zed/settings.json",),
        "goose": (".config/goose/config.yaml",),
        "opencode": (".config/opencode/opencode.json",),
        "oterm": (f"{SUPPORT}/oterm/config.json",),
    },
    "windows": {
        "claude-desktop": (f"{ROAMING}/Claude/claude_desktop_config.json",),
        "claude-code": (".claude.json",),
        "cursor": (".cursor/mcp.json",),
        "vscode": (f"{ROAMING}/Code/User/mcp.json", f"{ROAMING}/Code/User/profiles/5a/mcp.json"),
        "cline": (f"{ROAMING}/Code/User/{CLINE}", ".cline/data/settings/cline_mcp_settings.json"),
        "windsurf": (".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        "gemini-cli": (".gemini/settings.json",),
        "codex": (".codex/config.toml",),
        "zed": (f"{ROAMING}/Zed/settings.json",),
        "goose": (f"{ROAMING}/Block/goose/config/config.yaml",),
        "opencode": (".config/opencode/opencode.json",),
        "oterm": (f"{ROAMING}/oterm/config.json",),
    },
}
"""The user's own files of each host, below the home folder, as its documentation lists them for each platform."""


@pytest.mark.parametrize("platform", USERS_FILES)
@pytest.mark.parametrize("host", [one.id for one in HOSTS])
def test_each_file_of_a_host_is_found_on_each_platform(host: str, platform: str, tmp_path: Path) -> None:
    home = tmp_path / "Users" / "Ada" if platform == "windows" else tmp_path
    (tmp_path / "release").write_text("5.15-microsoft-standard-WSL2" if platform == "windows" else "6.8")
    windows = WindowsPaths(tmp_path / "release", tmp_path / "Users")
    content = CASES[host].content
    for path in USERS_FILES[platform][host]:
        file = write(home, path, content)
        places = find_places(tmp_path, tmp_path / "none", {}, "darwin" if platform == "darwin" else "linux", windows)
        (title,) = {server.host for server in find_foreign_servers(places)}
        assert title.removesuffix(" (Windows)") == next(one.title for one in HOSTS if one.id == host)
        assert title.endswith(" (Windows)") == (platform == "windows")
        assert {server.file for server in find_foreign_servers(places)} == {str(file)}
        file.unlink()


# As VS Code 1.104 writes it for a server from its gallery; MCP: Open User Configuration opens the profile's file.
VSCODE_PROFILE = """{
\t"servers": {
\t\t"%s": {
\t\t\t"type": "stdio",
\t\t\t"command": "npx",
\t\t\t"args": [
\t\t\t\t"-y",
\t\t\t\t"pkg"
\t\t\t],
\t\t\t"env": {
\t\t\t\t"MODE": "fast"
\t\t\t},
\t\t\t"gallery": true,
\t\t\t"version": "1.0.0"
\t\t}
\t},
\t"inputs": []
}"""


@pytest.mark.parametrize(
    "user",
    [
        ".config/Code/User",
        ".config/Code - Insiders/User",
        ".config/VSCodium/User",
        ".vscode-server/data/User",
        ".vscode-server-insiders/data/User",
        ".vscodium-server/data/User",
    ],
)
def test_the_profiles_of_vs_code_are_searched_here_and_on_a_remote_machine(
    user: str, tmp_path: Path, places: Places
) -> None:
    for path in ("mcp.json", "profiles/-1f3a/mcp.json", "profiles/764943d8/mcp.json"):
        write(tmp_path, f"{user}/{path}", VSCODE_PROFILE % path.partition("/mcp")[0].replace("/", "_"))
    write(tmp_path, f"{user}/profiles/764943d8/settings.json", "{}")
    write(tmp_path, f"{user}/profiles/empty/extensions.json", "[]")
    write(tmp_path, f"{user}/profiles/not-a-folder", "")
    found = find_foreign_servers(places)
    assert [server.name for server in found] == ["mcp.json", "profiles_-1f3a", "profiles_764943d8"]
    assert {server.host for server in found} == {"VS Code"}
    assert [server.entry for server in found] == [STDIO] * 3
    assert found[-1].file == f"{tmp_path}/{user}/profiles/764943d8/mcp.json"


def test_the_number_of_profiles_that_are_searched_is_bounded(tmp_path: Path, places: Places) -> None:
    for number in range(MAX_PROFILES + 3):
        write(tmp_path, f".config/Code/User/profiles/p{number}/mcp.json", VSCODE_PROFILE % f"s{number}")
    assert len(find_foreign_servers(places)) == MAX_PROFILES


def test_folders_that_the_environment_names_are_searched(tmp_path: Path) -> None:
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "CODEX_HOME": str(tmp_path / "cdx"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "cld"),
    }
    write(tmp_path, "xdg/goose/config.yaml", CASES["goose"].content)
    write(tmp_path, "cdx/config.toml", CASES["codex"].content)
    write(tmp_path, "cld/.claude.json", {"mcpServers": {"a": STDIO}})
    found = find_foreign_servers(find_places(tmp_path, tmp_path, environ, "linux"))
    assert {server.host for server in found} == {"goose", "Codex", "Claude Code"}


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_folders_configured_for_oterm_and_opencode_are_searched(platform: str, tmp_path: Path) -> None:
    write(tmp_path, "data/oterm/config.json", {"mcpServers": {"a": STDIO}})
    write(tmp_path, "own/config.json", {"mcpServers": {"b": STDIO}})
    write(tmp_path, "open/opencode.json", {"mcp": {"c": {"type": "local", "command": ["x"]}}})

    def find(**environ: str) -> list[str]:
        places = find_places(tmp_path, tmp_path / "none", environ, platform)
        return [server.name for server in find_foreign_servers(places)]

    assert find(XDG_DATA_HOME=str(tmp_path / "data")) == ["a"]
    assert find(XDG_DATA_HOME=str(tmp_path / "data"), OTERM_DATA_DIR=str(tmp_path / "own")) == ["b"]
    assert find(OPENCODE_CONFIG_DIR=str(tmp_path / "open")) == ["c"]


def test_both_forms_of_opencode_are_read(places: Places) -> None:
    path = ".config/opencode/opencode.json"
    local = {"type": "local", "command": ["npx", "-y", "pkg"], "environment": {"MODE": "fast"}, "disabled": True}
    servers = {"a": local, "b": {"type": "remote", "url": "https://b.example/mcp"}}
    write(Path(places.home), path, {"mcp": {"timeout": {"startup": 5000}, "servers": servers}})
    first, second = find_foreign_servers(places)
    assert (first.name, first.entry, first.is_disabled) == ("a", STDIO, True)
    assert (second.name, second.entry) == ("b", {"url": "https://b.example/mcp"})
    assert one(places, {"mcp": {"servers": {"type": "local", "command": ["x"]}}}, path).entry == {"command": "x"}


def test_what_a_host_leaves_out_of_the_tools_is_carried_over_or_named(places: Places) -> None:
    windsurf = one(places, {"mcpServers": {"a": {**STDIO, "disabledTools": ["rm"]}}}, ".codeium/mcp_config.json")
    assert windsurf.entry == {**STDIO, "disabledTools": ["rm"]}
    Path(places.home, ".codeium/mcp_config.json").unlink()
    codex = one(places, '[mcp_servers.a]\ncommand = "x"\nenabled_tools = ["open", "close"]\n', ".codex/config.toml")
    gemini_file = {"mcpServers": {"a": {"command": "x", "includeTools": ["open", "close"]}}}
    Path(places.home, ".codex/config.toml").unlink()
    gemini = one(places, gemini_file, ".gemini/settings.json")
    assert codex.notes == ("Codex gives the model only open, close; mcphost gives it every tool of the server.",)
    assert gemini.notes == ("Gemini CLI gives the model only open, close; mcphost gives it every tool of the server.",)


def one(places: Places, content: Any, path: str = ".cursor/mcp.json") -> ForeignServer:
    write(Path(places.home), path, content)
    (server,) = find_foreign_servers(places)
    return server


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ('{"mcpServers": {"a": 3}}', "not an object"),
        ('{"mcpServers": {"a": {}}}', "neither a command nor a URL"),
        ('{"mcpServers": {"a": {"command": ["x"]}}}', '"command" is not text'),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', '"args" is not a list'),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": {}}}}}', '"env" is not text'),
        ("[" * 100_000, "nested too deep"),
        ('{"mcpServers": ' + "[" * 5_000 + "]" * 5_000 + "}", "nested too deep"),
        ('{"history": ' + '{"a":' * 5_000 + "1" + "}" * 5_001 + " // a comment", "nested too deep"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_reason(content: str, said: str, places: Places) -> None:
    server = one(places, content)
    assert said in server.problem
    assert not server.entry


def test_files_without_servers_and_of_other_shapes_are_no_problem(places: Places) -> None:
    write(Path(places.home), ".gemini/settings.json", {"theme": "x"})
    write(Path(places.home), ".cursor/mcp.json", {"mcpServers": []})
    write(Path(places.home), ".claude.json", "")
    assert find_foreign_servers(places) == ()


def test_a_server_that_the_other_host_does_not_start_is_marked(places: Places) -> None:
    assert one(places, {"mcpServers": {"a": {**STDIO, "disabled": True}}}).is_disabled


def test_what_cannot_be_carried_over_is_named(places: Places) -> None:
    env = {"K": "${input:key}", "C": "${command:pick}", "F": "{file:x}", "B": "${BARE}"}
    server = one(places, {"mcpServers": {"a": {**STDIO, "env": env, "envFile": ".env"}}})
    assert server.notes == (
        "mcphost does not fill in ${input:key}.",
        "mcphost does not fill in ${command:pick}.",
        "mcphost does not fill in {file:x}.",
        "Its envFile was left out: the path is relative, or the server is not a program.",
    )


def test_references_that_the_other_host_passes_on_are_passed_on_by_mcphost_too(places: Places) -> None:
    env = {"S": "${keyring:github-token}", "V": "${env:AWS_SECRET_ACCESS_KEY}", "H": "${userHome}/x", "D": "${$}"}
    entry = {"command": "x", "args": ["${A}", "${A:-${B}}"], "env": env}
    desktop = one(places, {"mcpServers": {"a": entry}}, ".config/Claude/claude_desktop_config.json")
    assert (desktop.notes, desktop.entry["args"]) == ((), ["${$}{A}", "${$}{A:-${$}{B}}"])
    assert desktop.entry["env"] == {name: text.replace("${", "${$}{") for name, text in env.items()}
    problems: list[str] = []
    (loaded,) = parse_servers({"mcpServers": {"a": desktop.entry}}, "mcp.json", "user", problems.append)
    assert expand_target(loaded, {"A": "secret"}).args == ("${A}", "${A:-${B}}")
    write(Path(places.home), ".config/Claude/claude_desktop_config.json", {})
    cursor = one(places, {"mcpServers": {"a": {**entry, "args": []}}})
    assert cursor.entry["env"] == {**env, "S": "${$}{keyring:github-token}", "D": "${$}{$}"}


@pytest.mark.parametrize(
    ("text", "converted"),
    [
        ("$A/x", "${env:A}/x"),
        ("${A:-/tmp/}", "${env:A:-/tmp/}"),
        ("${A:-}", "${env:A:-}"),
        ("{$A}", "{${env:A}}"),
        ("$A:-x", "${env:A}:-x"),
        ("${A", "${A"),
        ("${keyring:a}", "${$}{keyring:a}"),
    ],
)
def test_references_of_gemini_cli_keep_what_is_around_them(places: Places, text: str, converted: str) -> None:
    content = {"mcpServers": {"a": {"command": "x", "args": [text]}}}
    assert one(places, content, ".gemini/settings.json").entry["args"] == [converted]


def test_references_inputs_and_the_environment_file_of_vs_code_are_carried_over_as_written(places: Places) -> None:
    token = {"id": "token", "type": "promptString", "password": True}
    entry = {
        "command": "${userHome}/bin/run",
        "args": ["${workspaceFolder}/a", "${env:REGION}"],
        "env": {"TOKEN": "${input:token}"},
        "envFile": "${workspaceFolder}/.env",
    }
    document = {"servers": {"a": entry, "b": STDIO}, "inputs": [token, {"id": "unused", "type": "promptString"}]}
    write(Path(places.home), ".config/Code/User/mcp.json", document)
    first, second = find_foreign_servers(places)
    assert first.entry == {**entry, "mcphost": {"inputs": [token]}}
    assert (first.notes, second.entry) == ((), STDIO)


def test_yaml_with_aliases_is_not_expanded(places: Places) -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nextensions: {c: {type: stdio, cmd: x, args: *b}}\n"
    assert "aliases" in one(places, bomb, ".config/goose/config.yaml").problem


def test_names_and_numbers_that_no_host_writes_do_not_end_the_import(places: Places) -> None:
    document = "extensions:\n  1: {type: stdio, cmd: x}\n  2026-01-01: {type: stdio, cmd: x}\n"
    write(Path(places.home), ".config/goose/config.yaml", document)
    assert [server.name for server in find_foreign_servers(places)] == ["1", "2026-01-01"]
    hexadecimal = f"0x{'f' * 6_000}"
    yaml = f"extensions: {{a: {{type: stdio, cmd: x, envs: {{A: {hexadecimal}}}}}}}\n"
    assert "is not text" in one(places, yaml, ".config/goose/config.yaml").problem
    (Path(places.home) / ".config/goose/config.yaml").unlink()
    toml = f"[mcp_servers.a]\ncommand = 'x'\nenv = {{A = {hexadecimal}}}\n"
    assert "is not text" in one(places, toml, ".codex/config.toml").problem


def test_a_name_cannot_hide_anything(places: Places) -> None:
    assert "\u202e" not in one(places, {"mcpServers": {"a\u202eb": STDIO}}).name


def test_a_file_that_the_user_names_is_read_by_its_form(tmp_path: Path, places: Places) -> None:
    for host, case in CASES.items():
        if host in ("claude-code", "gemini-cli"):
            continue  # these are told apart by their folders only
        file = write(tmp_path / host, Path(case.path).name, case.content)
        names = [server.name for server in read_named_file(file, places) if server.entry]
        assert names == list(case.entries), host


def test_a_named_file_without_servers_is_an_error(tmp_path: Path, places: Places) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_named_file(tmp_path / "none.json", places)
    with pytest.raises(ConfigError, match="has no servers"):
        read_named_file(write(tmp_path, "empty.json", {}), places)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (".cursor/mcp.json", "mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".gemini/settings.json", "mcpServers"),
        (".zed/settings.json", "context_servers"),
        ("opencode.json", "mcp"),
        (".opencode/opencode.jsonc", "mcp"),
        (".mcp.json", "mcpServers"),
    ],
)
def test_the_servers_of_a_projects_file_keep_its_folder(path: str, key: str, tmp_path: Path, places: Places) -> None:
    command = ["./server.py"] if key == "mcp" else "./server.py"
    entries = {
        "plain": {"command": command},
        "below": {"command": command, "cwd": "tools"},
        "fixed": {"command": command, "cwd": "/srv"},
        "home": {"command": command, "cwd": "~/x"},
        "web": {"url": "https://x.example/mcp"},
    }
    file = write(tmp_path, f"project/{path}", {key: entries})
    folder = places.folder
    expected = {"plain": folder, "below": f"{folder}/tools", "fixed": "/srv", "home": "~/x", "web": None}
    assert {server.name: server.entry.get("cwd") for server in read_named_file(file, places)} == expected
    if path != ".mcp.json":  # mcphost reads this file itself
        found = find_foreign_servers(places, with_folder=True)
        assert {server.name: server.entry.get("cwd") for server in found} == expected


def test_a_projects_file_of_codex_keeps_its_folder(tmp_path: Path, places: Places) -> None:
    file = write(tmp_path, "project/.codex/config.toml", '[mcp_servers.a]\ncommand = "./server.py"\n')
    wanted = {"command": "./server.py", "cwd": places.folder}
    assert [server.entry for server in read_named_file(file, places)] == [wanted]
    assert [server.entry for server in find_foreign_servers(places, with_folder=True)] == [wanted]
    assert find_foreign_servers(places) == ()


def test_the_servers_of_the_users_own_file_get_no_folder(tmp_path: Path, places: Places) -> None:
    for path in (".cursor/mcp.json", ".gemini/settings.json"):
        file = write(tmp_path, path, {"mcpServers": {"a": STDIO}})
        assert [server.entry for server in read_named_file(file, places)] == [STDIO]


def test_a_project_folder_that_reads_like_a_reference_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "${HOME}"
    folder.mkdir()
    write(folder, ".cursor/mcp.json", {"mcpServers": {"a": STDIO}})
    (server,) = find_foreign_servers(find_places(tmp_path, folder, {}, "linux"), with_folder=True)
    assert server.entry == {}
    assert "reads as a reference" in server.problem
