"""Tests that the JSON Schemas of the configuration files accept exactly what the parsers accept."""

import json
import tomllib
from typing import Any

import jsonschema_rs
import pytest

from mcphost.config.entry_keys import ENTRY_KEYS, OWN_KEYS
from mcphost.config.json_schemas import config_toml_schema, mcp_json_schema
from mcphost.config.mcp_json import parse_servers
from mcphost.errors import ConfigError
from tests.parsed_settings import parse_settings

PROGRAM = {"command": "uvx", "args": ["mcp-server-time"]}
REMOTE = {"url": "https://example.com/mcp"}

GOOD_ENTRIES: list[dict[str, Any]] = [
    PROGRAM,
    REMOTE,
    {**PROGRAM, "env": {"A": "${env:B}"}, "envFile": ".env", "cwd": "${workspaceFolder}", "type": "stdio"},
    {**REMOTE, "type": "http", "headers": {"X": "${keyring:y}"}, "mcphost": {"timeout": 5, "era": "stateless"}},
    {**PROGRAM, "disabled": True, "disabledTools": ["a*"], "autoApprove": ["a key of another host"]},
    {**PROGRAM, "dev": {"watch": "src/**"}, "mcphost": {"watch": ["*.py"], "logLevel": "info"}},
    {**REMOTE, "mcphost": {"oauth": {"clientId": "a", "port": 8080, "scopes": ["b"], "grant": "person"}}},
    {**PROGRAM, "mcphost": {"sampling": {"depth": 1}, "revision": "2025-11-25", "reviewResults": True}},
]
BAD_ENTRIES: list[Any] = [
    [],
    "uvx",
    {},
    {**PROGRAM, **REMOTE},
    {"command": ["uvx"]},
    {**PROGRAM, "args": "mcp-server-time"},
    {**PROGRAM, "args": [1]},
    {**PROGRAM, "env": {"A": True}},
    {**PROGRAM, "env": ["A=1"]},
    {**REMOTE, "headers": {"A": True}},
    {**REMOTE, "type": "websocket"},
    {**PROGRAM, "disabled": "yes"},
    {**PROGRAM, "disabledTools": "all"},
    {**PROGRAM, "mcphost": []},
    {**PROGRAM, "mcphost": {"timeout": 0}},
    {**PROGRAM, "mcphost": {"timeout": "5"}},
    {**PROGRAM, "mcphost": {"era": "modern"}},
    {**PROGRAM, "mcphost": {"revision": "2020-01-01"}},
    {**PROGRAM, "mcphost": {"logLevel": "loud"}},
    {**PROGRAM, "mcphost": {"sampling": {"deep": 1}}},
    {**PROGRAM, "mcphost": {"sampling": {"depth": -1}}},
    {**REMOTE, "mcphost": {"oauth": {"client": "a"}}},
    {**REMOTE, "mcphost": {"oauth": {"port": 70_000}}},
    {**REMOTE, "mcphost": {"oauth": {"grant": "robot"}}},
]
GOOD_SETTINGS = [
    "",
    'model = "openai/gpt-5"\ntheme = "dark"',
    '[model]\nname = "openai/gpt-5"\ntemperature = 0.5\ntools = "always"\nheaders = {X = "y"}',
    "[limits]\nrequest_timeout = 5\nmax_rounds = 3",
    'roots = ["~/a", {path = "/b", name = "b"}]',
    '[secrets]\nstore = "keyring"\n[consent]\nnever = ["fs/delete*"]\n[audit]\ncontent = true',
    '[sampling]\ndepth = 1\nmodels = ["openai/a", {name = "openai/b"}]',
    '[profiles.a]\nmodel = "openai/b"\nservers = ["c"]\n[profiles.d]\nmodel = {temperature = 0}',
    '[results]\ndays = 3\n[registry]\nurl = "file.json"',
    '[notifications]\nmode = "osc"\nafter_seconds = 5\ntitle = false',
]
BAD_SETTINGS = [
    "them = 1",
    "theme = 1",
    "model = 1",
    '[model]\nnam = "a"',
    "[model]\ntemperature = 3",
    "[model]\ntop_p = 0",
    '[model]\ntools = "maybe"',
    "[limits]\nmax_rounds = 0",
    "[limits]\nmax_rounds = 1.5",
    "[limits]\nincludes_user_time = true",
    "[roots]\na = 1",
    "roots = [1]",
    '[secrets]\nstore = "disk"',
    "[consent]\nalways = []",
    "[consent]\nnever = 1",
    "[audit]\ncontent = 1",
    "[sampling]\ndepth = -1",
    "[sampling]\nmodels = [1]",
    "[results]\nyears = 1",
    "[registry]\nurl = 1",
    '[notifications]\nmode = "mail"',
    "profiles = 1",
    "[profiles.a]\nmodels = 1",
    "[profiles.a]\nservers = 1",
]


def is_accepted(schema: dict[str, Any], document: Any) -> bool:
    """Return whether a document conforms to a schema, that is, whether an editor would report no problem."""
    return jsonschema_rs.validator_for(schema).is_valid(document)


def entry_problems(entry: Any) -> list[str]:
    """Return the problems that mcphost's parser reports for a server's entry in mcp.json."""
    problems: list[str] = []
    parse_servers({"mcpServers": {"time": entry}}, "mcp.json", "user", problems.append)
    return problems


def settings_problems(text: str) -> list[str]:
    """Return the problems that mcphost's parser reports for the text of a config.toml."""
    problems: list[str] = []
    try:
        parse_settings(text, "config.toml", problems.append)
    except ConfigError as error:
        problems.append(str(error))
    return problems


@pytest.mark.parametrize("entry", GOOD_ENTRIES, ids=json.dumps)
@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_the_schema_accepts_entries_that_are_read_without_a_problem(key: str, entry: dict[str, Any]) -> None:
    assert entry_problems(entry) == []
    assert is_accepted(mcp_json_schema(), {"$schema": "x", key: {"time": entry}})


@pytest.mark.parametrize("entry", BAD_ENTRIES, ids=json.dumps)
def test_the_schema_marks_entries_that_the_program_reports(entry: Any) -> None:
    assert entry_problems(entry)
    assert not is_accepted(mcp_json_schema(), {"mcpServers": {"time": entry}})


@pytest.mark.parametrize("text", GOOD_SETTINGS)
def test_the_schema_accepts_settings_that_are_read_without_a_problem(text: str) -> None:
    assert settings_problems(text) == []
    assert is_accepted(config_toml_schema(), tomllib.loads(text))


@pytest.mark.parametrize("text", BAD_SETTINGS)
def test_the_schema_marks_settings_that_the_program_reports(text: str) -> None:
    assert settings_problems(text)
    assert not is_accepted(config_toml_schema(), tomllib.loads(text))


def test_inputs_and_roots_of_a_file_have_a_schema() -> None:
    good = {
        "inputs": [
            {"id": "key", "type": "promptString", "password": True},
            {"id": "place", "type": "pickString", "options": ["a", {"label": "B", "value": "b"}]},
        ],
        "mcphost": {"roots": ["docs", {"path": "/a"}]},
    }
    assert is_accepted(mcp_json_schema(), good)
    no_type, no_id = {"id": "key"}, {"id": "", "type": "promptString"}
    for bad in ({"inputs": [no_type]}, {"inputs": [no_id]}, {"mcphost": {"roots": [1]}}):
        assert not is_accepted(mcp_json_schema(), bad)


def test_both_schemas_are_valid_schemas() -> None:
    for schema in (mcp_json_schema(), config_toml_schema()):
        assert jsonschema_rs.meta.is_valid(schema)


def test_the_schema_has_exactly_the_keys_that_the_parser_knows() -> None:
    server = mcp_json_schema()["definitions"]["server"]
    assert set(server["properties"]) == set(ENTRY_KEYS)
    own = server["properties"]["mcphost"]
    assert set(own["properties"]) == set(OWN_KEYS)
    assert own["additionalProperties"] is False
    assert mcp_json_schema()["properties"]["mcphost"]["additionalProperties"] is False
