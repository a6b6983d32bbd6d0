"""Tests for the export of servers without secrets."""

import json
from pathlib import Path
from typing import Any

from mcphost.config.mcp_json import parse_servers
from mcphost.config.server_export import ExportedNames, export_entry

TOKEN = "ghp_" + "a1" * 18
OTHER = "ghp_" + "b2" * 18


def export(**entries: Any) -> dict[str, Any]:
    """Return the exported entries of a file with these servers."""
    servers = parse_servers({"mcpServers": entries}, "/x/mcp.json", "user", lambda _: None)
    names = ExportedNames(servers)
    return {server.name: export_entry(server, entries[server.name], names) for server in servers}


def test_secrets_in_keys_that_are_not_ours_are_not_exported() -> None:
    entry: dict[str, Any] = {
        "url": "https://x.example/mcp",
        "oauth": {"clientId": "app", "clientSecret": "quite-secret-1", "scopes": ["a"]},
        "apiKey": TOKEN,
        "x-notes": ["plain", TOKEN, {"password": "hunter2hunter2", "port": 8080, "on": True}],
        "description": "Ask for a token",
    }
    exported = export(web=entry)["web"]
    assert exported == {
        "url": "https://x.example/mcp",
        "oauth": {"clientId": "app", "clientSecret": "${env:CLIENTSECRET}", "scopes": ["a"]},
        "apiKey": "${env:APIKEY}",
        "x-notes": ["plain", "[secret]", {"password": "${env:PASSWORD}", "port": 8080, "on": True}],
        "description": "Ask for a token",
    }


def test_secrets_in_lists_and_objects_are_found_by_the_name_of_their_key() -> None:
    entry: dict[str, Any] = {
        "command": "x",
        "apiKey": ["hunter2hunter2", "hunter3hunter3"],
        "apiKeys": {"prod": "hunter4hunter4", "test": "hunter5hunter5", "on": True},
        "passwords": [["hunter6hunter6"]],
        "auth": {"type": "client_credentials", "CLIENT_SECRET": "hunter7hunter7", "scopes": ["read:repo:all"]},
    }
    assert export(x=entry)["x"] == {
        "command": "x",
        "apiKey": ["[secret]", "[secret]"],
        "apiKeys": {"prod": "${env:PROD_APIKEY}", "test": "${env:TEST_APIKEY}", "on": True},
        "passwords": [["[secret]"]],
        "auth": {"type": "client_credentials", "CLIENT_SECRET": "${env:CLIENT_SECRET}", "scopes": ["read:repo:all"]},
    }


def test_a_secret_that_is_the_default_of_a_reference_is_not_exported() -> None:
    entry = {"command": "x", "args": ["--t", f"${{TOK:-{TOKEN}}}", "${REGION:-eu}"]}
    assert export(x=entry)["x"]["args"] == ["--t", "${TOK}", "${REGION:-eu}"]
    entry = {"url": f"https://x.example/${{TOK:-{TOKEN}}}/mcp"}
    assert TOKEN not in json.dumps(export(x=entry))


def test_different_secrets_get_different_variables() -> None:
    exported = export(
        one={"url": "https://1.example/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
        two={"url": "https://2.example/mcp", "headers": {"Authorization": f"Bearer {OTHER}"}},
        same={"url": "https://3.example/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}},
        **{"key-ring": {"command": "x", "env": {"API_KEY": "${keyring:key-ring-api_key}"}}},
        written={"command": "x", "env": {"API_KEY": "${env:API_KEY}"}},
        args={"command": "x", "args": ["--api-key", TOKEN]},
    )
    assert {name: entry.get("headers", entry.get("env", entry.get("args"))) for name, entry in exported.items()} == {
        "one": {"Authorization": "Bearer ${env:AUTHORIZATION}"},
        "two": {"Authorization": "Bearer ${env:TWO_AUTHORIZATION}"},
        "same": {"Authorization": "Bearer ${env:AUTHORIZATION}"},
        "key-ring": {"API_KEY": "${env:KEY_RING_API_KEY}"},
        "written": {"API_KEY": "${env:API_KEY}"},
        "args": ["--api-key", "${env:ARGS_API_KEY}"],
    }


def test_values_that_look_random_are_not_exported_whatever_they_are_called() -> None:
    random = "Zk3vQ9xLm2Tt8RwPy5Hd7NsJb4Gc6Fa1Ue0Io"
    shown = export(
        local={"command": "x", "env": {"NEUTRAL": random, "MODE": "quiet", "REF": "${env:REF}"}},
        web={"url": f"https://x.example/s/{random}/mcp", "headers": {"X-Neutral": random, "X-Team": "a team"}},
        plain={"url": "https://x.example/api/model-context-protocol-server-2/mcp"},
    )
    assert random not in json.dumps(shown)
    assert shown["local"]["env"] == {"NEUTRAL": "${env:NEUTRAL}", "MODE": "quiet", "REF": "${env:REF}"}
    assert shown["web"] == {
        "url": "https://x.example/s/${env:URL}/mcp", "headers": {"X-Neutral": "${env:X_NEUTRAL}", "X-Team": "a team"},
    }  # fmt: skip
    assert shown["plain"]["url"] == "https://x.example/api/model-context-protocol-server-2/mcp"


def test_lists_numbers_and_json_in_arguments_are_exported_without_secrets() -> None:
    shown = export(
        x={"command": "x", "args": ['--config={"password":["hunter2x"],"max_tokens":400}'], "x-own": {"pin": 83749123}}
    )
    assert shown["x"] == {
        "command": "x", "args": ['--config={"password":["[secret]"],"max_tokens":400}'], "x-own": {"pin": "[secret]"},
    }  # fmt: skip


def test_an_exported_entry_without_secrets_is_the_entry(tmp_path: Path) -> None:
    entry: dict[str, Any] = {
        "type": "stdio",
        "command": "~/bin/x",
        "args": ["${HOME}/d", "${V:-d}"],
        "env": {"MODE": "x"},
        "envFile": ".env",
        "cwd": str(tmp_path),
        "disabled": True,
        "autoApprove": ["a"],
        "timeout": 30,
        "description": "D",
        "x-own": {"k": [1, 2.5, None]},
        "mcphost": {"timeout": 5, "watch": ["*.py"]},
    }
    assert export(x=entry)["x"] == entry
