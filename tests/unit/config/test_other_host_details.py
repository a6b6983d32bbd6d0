"""Tests that less common settings of other MCP hosts' servers are carried over by the rules of their host."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.host_formats import Places, find_places
from mcphost.config.mcp_json import parse_servers
from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.other_hosts import find_foreign_servers
from mcphost.config.pasted_servers import parse_pasted_servers
from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import find_plaintext_secrets
from mcphost.config.variable_references import expand_target
from mcphost.host.servers.import_plan import plan_import

CLAUDE_DESKTOP = ".config/Claude/claude_desktop_config.json"
CLINE = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
GEMINI = ".gemini/settings.json"
GOOSE = ".config/goose/config.yaml"
OPENCODE = ".config/opencode/opencode.json"
OTERM = ".local/share/oterm/config.json"
SECRET = "hunter2-is-a-secret"
URL = "https://x.example/mcp"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places(tmp_path, tmp_path / "project", {}, "linux")


def find(places: Places, path: str, content: Any) -> dict[str, ForeignServer]:
    """Write the file of another host, and return the servers found, keyed by name."""
    file = Path(places.home, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return {server.name: server for server in find_foreign_servers(places)}


def find_one(places: Places, path: str, entry: dict[str, Any], key: str = "mcpServers") -> ForeignServer:
    return find(places, path, {key: {"a": entry}})["a"]


def load(server: ForeignServer) -> ServerConfig:
    """Return the server that mcphost loads from the converted entry."""
    problems: list[str] = []
    (loaded,) = parse_servers({"mcpServers": {"a": server.entry}}, "mcp.json", "user", problems.append)
    return loaded


MCP_REMOTE = ["mcp-remote", URL, "--header", "Authorization: Bearer ${AUTH_TOKEN}"]
"""As in the README of mcp-remote, which fills in the variable itself."""


@pytest.mark.parametrize("path", [CLAUDE_DESKTOP, ".cursor/mcp.json", ".claude.json", CLINE, GEMINI])
def test_a_variable_of_the_server_itself_is_left_to_the_program(path: str, places: Places) -> None:
    server = find_one(places, path, {"command": "npx", "args": MCP_REMOTE, "env": {"AUTH_TOKEN": SECRET}})
    assert (server.problem, server.notes) == ("", ())
    loaded = load(server)
    assert list(expand_target(loaded, {}).args) == MCP_REMOTE


def test_a_variable_of_the_user_is_filled_in_though_the_server_gets_it_too(places: Places) -> None:
    entry = {"command": "x", "args": ["${KEY}", "${OTHER}"], "env": {"KEY": "${KEY}"}}
    assert find_one(places, ".claude.json", entry).entry["args"] == ["${env:KEY}", "${env:OTHER}"]


def test_pasted_text_leaves_the_variables_of_the_server_to_the_program() -> None:
    entry = {"command": "npx", "args": MCP_REMOTE, "env": {"AUTH_TOKEN": "<token>"}}
    pasted = parse_pasted_servers(json.dumps({"mcpServers": {"a": entry}}))["a"]
    assert pasted == {**entry, "args": [*MCP_REMOTE[:3], "Authorization: Bearer ${$}{AUTH_TOKEN}"]}
    kept = {"command": "x", "args": ["${HOME}", "${KEY}"], "env": {"KEY": "${KEY}", "N": "1"}}
    assert parse_pasted_servers(json.dumps({"mcpServers": {"a": kept}}))["a"] == kept


def test_cline_fills_in_variables_with_the_prefix_env(places: Places) -> None:
    entry = {"command": "x", "env": {"KEY": "${env:KEY}", "HOME_FOLDER": "${userHome}"}}
    assert find_one(places, CLINE, entry).entry["env"] == {"KEY": "${env:KEY}", "HOME_FOLDER": "${$}{userHome}"}


def test_a_whole_command_line_of_cursor_becomes_a_program_and_its_arguments(places: Places, tmp_path: Path) -> None:
    line = f"npx mcp-remote {URL} --header 'X-Key: ${{AUTH_TOKEN}}'"
    server = find_one(places, ".cursor/mcp.json", {"command": line, "env": {"AUTH_TOKEN": SECRET}})
    assert (server.entry["command"], server.entry["args"]) == (
        "npx",
        ["mcp-remote", URL, "--header", "X-Key: ${$}{AUTH_TOKEN}"],
    )
    for path in (f"{tmp_path}/My Programs/server", "it's broken"):
        assert find_one(places, ".cursor/mcp.json", {"command": path}).entry == {"command": path}


def test_a_variable_that_vs_code_removes_is_left_out(places: Places) -> None:
    entry = {"type": "stdio", "command": "x", "env": {"GONE": None, "KEPT": 1}}
    path = ".config/Code/User/mcp.json"
    assert find_one(places, path, entry, "servers").entry == {"command": "x", "env": {"KEPT": "1"}}


@pytest.mark.parametrize("url", ["unix:///tmp/server.sock", "wss://host/mcp"])
def test_an_address_that_is_not_http_is_named_as_such(url: str, places: Places) -> None:
    server = find_one(places, OTERM, {"url": url})
    assert server.problem == (
        f"Its address begins with {url.partition(':')[0]}:, and mcphost connects over http and https only."
    )


def test_the_lists_of_gemini_cli_disable_servers_by_name(places: Places) -> None:
    servers = {name: {"command": name} for name in ("first", "second", "third")}
    found = find(
        places, GEMINI, {"mcp": {"allowed": ["first", "second"], "excluded": ["second"]}, "mcpServers": servers}
    )
    assert {name: server.is_disabled for name, server in found.items()} == {
        "first": False, "second": True, "third": True,
    }  # fmt: skip


def test_a_server_that_claude_code_disables_in_its_project_stays_disabled(places: Places) -> None:
    section = {
        "mcpServers": {"mine": {"command": "mine"}, "on": {"command": "on"}},
        "disabledMcpServers": ["mine", "own"],
    }
    found = find(
        places, ".claude.json", {"mcpServers": {"own": {"command": "own"}}, "projects": {places.folder: section}}
    )
    assert {name: server.is_disabled for name, server in found.items()} == {"own": False, "mine": True, "on": False}


GOOSE_REMOTE = """
extensions:
  a:
    type: streamable_http
    enabled: true
    uri: https://x.example/mcp
    envs: {REGION: eu, API_KEY: %s}
    env_keys: [TOKEN]
    headers: {Authorization: "Bearer $TOKEN", X-Region: "in ${REGION}", X-Other: "${OTHER} $", X-Api-Key: "$API_KEY",
      X-Plain: "$API_KEY"}
"""


def test_goose_fills_in_the_variables_of_the_extension_in_headers(places: Places) -> None:
    server = find(places, GOOSE, GOOSE_REMOTE % SECRET)["a"]
    assert server.entry["headers"] == {
        "Authorization": "Bearer ${env:TOKEN}",
        "X-Region": "in eu",
        "X-Other": "${$}{OTHER} $",
        "X-Api-Key": SECRET,
        "X-Plain": "${env:API_KEY}",  # where it would not be noticed as a secret
    }
    loaded = load(server)
    assert [secret.location for secret in find_plaintext_secrets(loaded)] == ["headers.X-Api-Key"]


@pytest.mark.parametrize(
    ("path", "entry", "seconds"),
    [
        (CLINE, {"command": "x", "timeout": 600}, 600),
        (CLINE, {"command": "x", "timeout": 60}, None),
        (GEMINI, {"command": "x", "timeout": 600_000}, 600),
        (GEMINI, {"command": "x", "timeout": 30_000}, None),
        (".claude.json", {"command": "x", "timeout": 90_500}, 90.5),
        (".cursor/mcp.json", {"command": "x", "timeout": 600}, None),
        (CLINE, {"command": "x", "timeout": True}, None),
        (CLINE, {"command": "x", "timeout": 1e300}, None),
    ],
)
def test_a_longer_time_limit_of_a_call_is_carried_over(
    path: str, entry: dict[str, Any], seconds: float | None, places: Places
) -> None:
    found = find_one(places, path, entry).entry
    assert found == {"command": "x", **({"mcphost": {"timeout": seconds}} if seconds else {})}


def test_time_limits_of_codex_and_goose_are_carried_over(places: Places) -> None:
    codex = '[mcp_servers.a]\ncommand = "x"\nstartup_timeout_sec = 400\ntool_timeout_sec = 300.0\n'
    assert find(places, ".codex/config.toml", codex)["a"].entry == {"command": "x", "mcphost": {"timeout": 300}}
    Path(places.home, ".codex/config.toml").unlink()
    goose = "extensions: {a: {type: stdio, cmd: x, timeout: 300}}"
    assert find(places, GOOSE, goose)["a"].entry == {"command": "x", "mcphost": {"timeout": 300}}


def test_a_server_of_two_hosts_with_different_time_limits_is_listed_once(places: Places, tmp_path: Path) -> None:
    find_one(places, CLAUDE_DESKTOP, {"command": "x"})
    find_one(places, CLINE, {"command": "x", "timeout": 600})
    (candidate,) = plan_import(find_foreign_servers(places), (), tmp_path / "mcp.json", tmp_path)
    assert candidate.hosts == ("Claude Desktop", "Cline")


@pytest.mark.parametrize(
    ("path", "settings", "key", "oauth"),
    [
        (".claude.json", {"oauth": {"clientId": "id", "callbackPort": 8080}}, "mcpServers", {"port": 8080}),
        (
            ".cursor/mcp.json",
            {"auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "${env:MCP_SECRET}", "scopes": ["read"]}},
            "mcpServers",
            {"clientSecret": "${env:MCP_SECRET}"},
        ),
        (GEMINI, {"oauth": {"clientId": "id", "clientSecret": SECRET}}, "mcpServers", {"clientSecret": SECRET}),
        (
            OPENCODE,
            {"type": "remote", "oauth": {"clientId": "id", "clientSecret": "{env:MCP_SECRET}"}},
            "mcp",
            {"clientSecret": "${env:MCP_SECRET}"},
        ),
    ],
)
def test_a_registered_client_is_carried_over_with_a_hint(
    path: str, settings: dict[str, Any], key: str, oauth: dict[str, Any], places: Places
) -> None:
    server = find_one(places, path, {"url": URL, **settings}, key)
    assert server.entry["mcphost"] == {"oauth": {"clientId": "id", **oauth}}
    assert server.notes == (
        f"Its client ID was registered for {server.host}. If the sign-in is refused, register mcphost's address, too.",
    )
    loaded = load(server)
    found = [secret.location for secret in find_plaintext_secrets(loaded)]
    assert found == (["mcphost.oauth.clientSecret"] if SECRET in oauth.values() else [])


def test_a_client_id_that_is_a_reference_is_left_out_with_a_reason(places: Places) -> None:
    auth = {"CLIENT_ID": "${env:MCP_CLIENT_ID}", "CLIENT_SECRET": SECRET}
    server = find_one(places, ".cursor/mcp.json", {"url": URL, "auth": auth})
    assert server.entry == {"url": URL}
    assert server.notes == ("Its client ID was left out: it is a reference, which mcphost fills in only in secrets.",)


@pytest.mark.parametrize(
    "settings",
    [
        {"oauth": False},
        {"oauth": {"clientId": 3}},
        {"auth": "x"},
        {"auth": {"type": "bearer", "token": 1}},
        {"oauth": {"enabled": True}},
    ],
)
def test_sign_in_settings_of_other_shapes_are_no_problem(settings: dict[str, Any], places: Places) -> None:
    server = find_one(places, GEMINI, {"httpUrl": URL, **settings})
    assert (server.entry, server.notes, server.problem) == ({"url": URL}, (), "")


def test_a_bearer_token_of_oterm_is_sent_and_goes_to_the_keyring(places: Places) -> None:
    server = find_one(places, OTERM, {"url": URL, "auth": {"type": "bearer", "token": SECRET}})
    assert server.entry == {"url": URL, "headers": {"Authorization": f"Bearer {SECRET}"}}
    loaded = load(server)
    (secret,) = find_plaintext_secrets(loaded)
    assert (secret.location, secret.secret) == ("headers.Authorization", SECRET)


def test_a_program_or_account_that_gives_the_headers_is_named(places: Places) -> None:
    helper = find_one(places, ".claude.json", {"type": "http", "url": URL, "headersHelper": "/opt/get-token.sh"})
    assert helper.notes == ("Its headersHelper was left out: Claude Code runs this program to get the headers.",)
    Path(places.home, ".claude.json").unlink()
    google = find_one(places, GEMINI, {"httpUrl": URL, "authProviderType": "google_credentials"})
    assert google.notes == ("Its authProviderType was left out: Gemini CLI signs in with an account of Google.",)
