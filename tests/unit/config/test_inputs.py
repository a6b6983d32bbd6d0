"""Tests for `${input:ID}`: definitions in VS Code's format, stored values, and their effect on approvals."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.loader import load_config
from mcphost.config.pasted_servers import parse_pasted_servers
from mcphost.config.schema import HostConfig, ServerConfig, ServerInput
from mcphost.config.secrets import expand_server, list_references
from mcphost.config.server_export import export_entry
from mcphost.config.server_inputs import (
    INPUTS_FILE,
    MAX_INPUTS,
    add_input_definitions,
    check_input_value,
    save_input_value,
)
from mcphost.config.variable_references import expand_target
from mcphost.errors import ConfigError
from mcphost.host.servers.server_approval import make_question
from mcphost.redact import redact
from mcphost.serialization import replace

TOKEN = {"id": "token", "type": "promptString", "description": "The token", "password": True}
REGION = {"id": "region", "type": "pickString", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"}
ENTRY = {"command": "x", "args": ["--region", "${input:region}"], "env": {"TOKEN": "${input:token}"}}


def load_file(folder: Path, servers: dict[str, Any], inputs: Any = (TOKEN, REGION), **more: Any) -> HostConfig:
    listed = list(inputs) if isinstance(inputs, tuple) else inputs
    (folder / "mcp.json").write_text(json.dumps({"inputs": listed, "servers": servers, **more}))
    return load_config(folder)


def only_server(folder: Path, entry: Any = ENTRY, inputs: Any = (TOKEN, REGION)) -> ServerConfig:
    config = load_file(folder, {"x": entry}, inputs)
    assert config.problems == ()
    return config.servers[0]


def test_an_entry_gets_the_definitions_of_the_inputs_it_refers_to(tmp_path: Path) -> None:
    region, token = only_server(tmp_path).inputs
    assert (region.id, region.options, region.default, region.password) == ("region", ("eu", "us"), "eu", False)
    assert (token.id, token.description, token.password, token.stored_value) == ("token", "The token", True, None)
    assert token.keyring_entry.startswith("input-x-token-")
    assert only_server(tmp_path, {"command": "x"}).inputs == ()


def test_a_definition_may_be_in_the_entry_itself_and_comes_before_that_of_the_file(tmp_path: Path) -> None:
    own = {"id": "region", "type": "promptString"}
    server = only_server(tmp_path, {**ENTRY, "mcphost": {"inputs": [own]}})
    assert [(one.id, one.options, one.is_shared) for one in server.inputs] == [
        ("region", (), False),
        ("token", (), True),
    ]


def test_a_stored_value_is_filled_in_where_the_entry_refers_to_it(tmp_path: Path) -> None:
    server = only_server(tmp_path)
    save_input_value(tmp_path, server, "region", "us")
    server = only_server(tmp_path)
    assert expand_target(server, {}).args == ("--region", "us")
    secrets = {server.inputs[1].keyring_entry: "hunter2-of-the-input"}
    assert expand_server(server, {}, secrets.get)[0] == {"TOKEN": "hunter2-of-the-input"}
    assert "hunter2-of-the-input" not in redact("it said hunter2-of-the-input")
    save_input_value(tmp_path, server, "region", None)
    assert only_server(tmp_path).inputs[0].stored_value is None
    assert (tmp_path / INPUTS_FILE).stat().st_mode & 0o777 == 0o600


def test_another_server_cannot_refer_to_the_stored_password(tmp_path: Path) -> None:
    entry = only_server(tmp_path).inputs[1].keyring_entry
    thief = replace(only_server(tmp_path), inputs=(), env={}, headers={"X-Cache": f"${{keyring:{entry}}}"})
    with pytest.raises(ConfigError, match="holds the input of one server"):
        expand_server(thief, {}, {entry: "hunter2-of-the-input"}.get)
    plain = replace(thief, headers={"X-Cache": "${keyring:input-authorization}"})
    assert expand_server(plain, {}, {"input-authorization": "own"}.get)[1] == {"X-Cache": "own"}


def test_an_unset_input_names_the_command_that_sets_it(tmp_path: Path) -> None:
    server = replace(only_server(tmp_path), name="my server")
    for expand in (lambda: expand_target(server, {}), lambda: expand_server(server, {}, {}.get)):
        with pytest.raises(ConfigError, match="which is not set") as exc_info:
            expand()
        assert "mcphost servers input 'my server' " in exc_info.value.hint


@pytest.mark.parametrize("key", ["command", "cwd", "envFile"])
def test_a_password_is_refused_where_other_programs_can_see_it(tmp_path: Path, key: str) -> None:
    entry: dict[str, Any] = {"command": "x", key: "https://${input:token}"}
    config = load_file(tmp_path, {"x": entry})
    assert not config.servers
    assert "${input:token}, which is for secrets" in config.problems[0]


def test_a_value_belongs_to_one_server_of_one_file(tmp_path: Path) -> None:
    config = load_file(tmp_path, {"x": ENTRY, "other": ENTRY})
    save_input_value(tmp_path, config.servers[0], "region", "us")
    config = load_file(tmp_path, {"x": ENTRY, "other": ENTRY})
    assert [server.inputs[0].stored_value for server in config.servers] == ["us", None]
    (tmp_path / "named.json").write_text((tmp_path / "mcp.json").read_text())
    named = load_config(tmp_path, files=[str(tmp_path / "named.json")])
    assert named.servers[0].inputs[0].stored_value is None
    entries = {server.inputs[1].keyring_entry for server in (*config.servers, *named.servers)}
    assert len(entries) == 4


def test_a_stored_value_that_no_longer_fits_its_definition_is_not_used(tmp_path: Path) -> None:
    save_input_value(tmp_path, only_server(tmp_path), "region", "us")
    save_input_value(tmp_path, only_server(tmp_path), "token", "never in a file")
    fewer = {**REGION, "options": ["eu"]}
    assert [one.stored_value for one in only_server(tmp_path, inputs=(TOKEN, fewer)).inputs] == [None, None]


@pytest.mark.parametrize("content", ["[]", "{oops", '{"%s": []}', '{"%s": {"x": {"region": 3}}}'])
def test_a_broken_file_of_values_counts_as_no_values(tmp_path: Path, content: str) -> None:
    (tmp_path / INPUTS_FILE).write_text(content.replace("%s", str(tmp_path / "mcp.json")))
    config = load_file(tmp_path, {"x": ENTRY})
    assert config.servers[0].inputs[0].stored_value is None
    assert bool(config.problems) == (content == "{oops")


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"id": "a"}, '"inputs" is an object, not a list'),
        ((3,), 'number 1 of "inputs" has no usable "id"'),
        (({"id": "a\u202eb", "type": "promptString"},), 'no usable "id"'),
        (({"id": "a}", "type": "promptString"},), 'no usable "id"'),
        (({"id": "a" * 200, "type": "promptString"},), 'no usable "id"'),
        (({"id": "a", "type": "command", "command": "x"},), 'is not of the type "promptString"'),
        (({"id": "a", "type": "pickString"},), 'has no "options"'),
        (({"id": "a", "type": "pickString", "options": [3]},), 'has no "options"'),
        (({"id": "a", "type": "promptString", "default": 3},), "that is not text"),
        (tuple({"id": f"a{number}", "type": "promptString"} for number in range(MAX_INPUTS + 1)), "more than 100"),
    ],
)
def test_a_definition_that_cannot_be_used_is_reported(tmp_path: Path, inputs: Any, problem: str) -> None:
    config = load_file(tmp_path, {"x": {"command": "x"}}, inputs)
    assert problem in config.problems[0]
    assert len(config.servers) == 1


def test_an_input_without_a_definition_is_reported_and_never_filled_in(tmp_path: Path) -> None:
    config = load_file(tmp_path, {"x": {"command": "x", "args": ["${input:gone}"]}})
    assert "${input:gone}, and no such input is defined" in config.problems[0]
    with pytest.raises(ConfigError, match="no such input is defined"):
        expand_target(config.servers[0], {})


def test_values_are_checked_before_they_are_stored() -> None:
    pick = ServerInput(id="a", options=("eu", "us"))
    check_input_value(pick, "eu")
    for one, value in ((pick, "mars"), (ServerInput(id="a"), "x" * 20_000), (ServerInput(id="a"), "a\0")):
        with pytest.raises(ConfigError):
            check_input_value(one, value)


def test_an_approval_of_a_project_covers_the_values_in_its_command_and_names_the_references(tmp_path: Path) -> None:
    server = replace(only_server(tmp_path), source="project")
    region, token = server.inputs
    digests = {
        server_digest(replace(server, inputs=(replace(region, stored_value=value), token)))
        for value in (None, "eu", "us")
    }
    assert len(digests) == 3
    asked = make_question(replace(server, inputs=(replace(region, stored_value="us"), token)), None)
    assert asked.expansion == {"${input:region}": "us"}
    assert list_references(server) == (("argument 2", "${input:region}"), ("environment TOKEN", "${input:token}"))


def test_a_password_that_a_project_sends_to_its_address_is_pointed_out(tmp_path: Path) -> None:
    entry = {"url": "https://h.example/mcp", "headers": {"X-A": "${input:token}", "X-B": "${input:region}"}}
    warned = make_question(replace(only_server(tmp_path, entry), source="project"), None).warnings
    assert warned == ("It sends your ${input:token} to h.example (header X-A), and its owner can keep it.",)


@pytest.mark.parametrize("wrap", [lambda document: document, lambda document: {"mcp": document}])
def test_pasted_files_of_vs_code_bring_the_definitions_of_their_inputs(wrap: Any) -> None:
    plain = {"command": "y"}
    document = wrap({"inputs": [TOKEN, {**REGION, "id": "unused"}, "odd"], "servers": {"x": ENTRY, "y": plain}})
    entries = parse_pasted_servers(json.dumps(document))
    assert entries == {"x": {**ENTRY, "mcphost": {"inputs": [TOKEN]}}, "y": plain}


def test_an_export_has_the_definitions_of_the_file_and_no_value(tmp_path: Path) -> None:
    save_input_value(tmp_path, only_server(tmp_path), "region", "us")
    exported = export_entry(only_server(tmp_path), ENTRY)
    region = {**REGION, "options": ["eu", "us"]}
    assert exported == {**ENTRY, "mcphost": {"inputs": [region, TOKEN]}}
    own = {**ENTRY, "mcphost": {"inputs": [TOKEN, REGION]}}
    assert export_entry(only_server(tmp_path, own), own) == own


def test_an_entry_keeps_the_definitions_that_it_has(tmp_path: Path) -> None:
    own = {**ENTRY, "mcphost": {"inputs": [REGION]}}
    assert add_input_definitions(own, [TOKEN]) == own
    assert add_input_definitions(ENTRY, None) == ENTRY
    assert add_input_definitions(ENTRY, [{**TOKEN, "more": 1, "default": "s3cret"}])["mcphost"] == {"inputs": [TOKEN]}


def test_servers_of_single_folders_have_values_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = {name: str(tmp_path / name) for name in ("one", "two")}
    part = {"inputs": [TOKEN, REGION], "mcpServers": {"x": ENTRY}}
    (tmp_path / "local.json").write_text(json.dumps({"folders": dict.fromkeys(folders.values(), part)}))
    entries: set[str] = set()
    for name, folder in folders.items():
        Path(folder).mkdir()
        monkeypatch.chdir(folder)
        (server,) = load_config(tmp_path).servers
        assert server.inputs[0].stored_value is None
        save_input_value(tmp_path, server, "region", {"one": "eu", "two": "us"}[name])
        entries.add(server.inputs[1].keyring_entry)
    assert load_config(tmp_path).servers[0].inputs[0].stored_value == "us"
    assert len(entries) == 2


def test_the_file_of_values_does_not_outgrow_what_is_read(tmp_path: Path) -> None:
    server = only_server(tmp_path)
    for number in range(28):
        save_input_value(tmp_path, server, f"a{number}", "x" * 9_000)
    with pytest.raises(ConfigError, match="would be over 256 kB"):
        save_input_value(tmp_path, server, "one more", "x" * 9_000)
    assert load_file(tmp_path, {"x": ENTRY}).problems == ()
