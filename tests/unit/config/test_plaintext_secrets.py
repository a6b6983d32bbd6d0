"""Tests for finding plaintext secrets in mcp.json, and replacing them without changing any other byte."""

import json

import pytest

from mcphost.config.json_files import parse_json
from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import ServerConfig, Source
from mcphost.config.secrets import (
    find_plaintext_secrets,
    keyring_entry_name,
    replace_in_config,
    replace_in_text,
)
from mcphost.errors import ConfigError

TEXT = """{
  // "mcpServers": {"gh": {"headers": {"Authorization": "Bearer decoy-decoy"}}},
  "other": {"gh": {"headers": {"Authorization": "Bearer decoy-decoy"}}},\t
  "mcpServers": {
    "x": {"command": "run", "env": {"A_TOKEN": "first-tokén-😀", "PORT": "80",}},
    "gh" : {
      "url": "https://h/mcp", /* "headers": {} */
      "headers": {"X-Any": "v", "Authori\\u007aation" :\t"Bearer abc\\u002ddefgh", "Accept": "*/*"},
      "mcphost": {"oauth": {"clientId": "c", "clientSecret": "hush-hush-1"}},
    },
    "gh": {"headers": {"Authorization": "Bearer second-second"}},
  },
}
"""


def parse_by_name(text: str) -> dict[str, ServerConfig]:
    found = parse_servers(parse_json(text, "mcp.json"), "mcp.json", "user", lambda problem: None)
    return {server.name: server for server in found}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_value_changes_and_the_scheme_stays(end: str) -> None:
    text = TEXT.replace("\n", end)
    gh = parse_by_name(text)["gh"]
    header, secret = find_plaintext_secrets(gh)
    assert (header.location, header.secret) == ("headers.Authorization", "abc-defgh")
    assert secret.location == "mcphost.oauth.clientSecret"
    replaced = replace_in_text(text, "mcp.json", ("mcpServers", "gh"), header, "n")
    assert replaced == text.replace('"Bearer abc\\u002ddefgh"', '"Bearer ${keyring:n}"')
    replaced = replace_in_text(replaced, "mcp.json", ("mcpServers", "gh"), secret, "m")
    # The approval that replaces it is exactly for the new content of the file.
    assert replace_in_config(replace_in_config(gh, header, "n"), secret, "m") == parse_by_name(replaced)["gh"]
    assert parse_by_name(replaced)["gh"].oauth.client_secret == "${keyring:m}"
    assert find_plaintext_secrets(parse_by_name(replaced)["gh"]) == ()


def test_a_passphrase_in_the_environment_is_a_secret() -> None:
    server = ServerConfig(name="x", command="run", env={"PASSPHRASE": "hunter2 and more"})
    (literal,) = find_plaintext_secrets(server)
    assert literal.location == "env.PASSPHRASE"


def test_an_environment_variable_is_moved_as_a_whole() -> None:
    (literal,) = find_plaintext_secrets(parse_by_name(TEXT)["x"])
    assert literal.secret == "first-tokén-😀"
    replaced = replace_in_text(TEXT, "mcp.json", ("mcpServers", "x"), literal, keyring_entry_name("x", literal))
    assert replaced == TEXT.replace('"first-tokén-😀"', '"${keyring:x-a_token}"')


def test_a_number_in_place_of_a_text_is_moved_too() -> None:
    text = '{"servers": {"x": {"command": "r", "env": {"API_KEY": 12345678}}}}'
    (literal,) = find_plaintext_secrets(parse_by_name(text)["x"])
    assert '"${keyring:n}"' in replace_in_text(text, "mcp.json", ("servers", "x"), literal, "n")


@pytest.mark.parametrize("change", ['"a-b-c-d-e-f"', "null"])
def test_a_value_that_changed_meanwhile_is_not_replaced(change: str) -> None:
    (literal,) = find_plaintext_secrets(parse_by_name(TEXT)["x"])
    with pytest.raises(ConfigError, match="changed by another program"):
        replace_in_text(TEXT.replace('"first-tokén-😀"', change), "mcp.json", ("mcpServers", "x"), literal, "n")
    with pytest.raises(ConfigError):
        replace_in_text(
            json.dumps({"mcpServers": {"x": {"command": "r"}}}), "mcp.json", ("mcpServers", "x"), literal, "n"
        )


def test_the_name_of_an_entry_is_never_one_of_a_sign_in_and_never_ends_the_reference() -> None:
    (literal,) = find_plaintext_secrets(parse_by_name(TEXT)["x"])
    for server in ("sign-in-tokens-1", "a}b ${c}", "中文", "x" * 120):
        name = keyring_entry_name(server, literal)
        assert not name.startswith("sign-in")
        assert not set(name) & set("{}$ ")
        assert 0 < len(name) <= 90


@pytest.mark.parametrize(("source", "is_own"), [("user", True), ("project", False), ("flag", False)])
def test_the_warning_recommends_only_references_that_the_file_may_contain(source: Source, is_own: bool) -> None:
    def read(url: str) -> tuple[int, list[str]]:
        problems: list[str] = []
        document = {"mcpServers": {"x": {"url": url}}}
        return len(parse_servers(document, "f", source, problems.append)), problems

    _, (warning,) = read("https://h.example/mcp?token=hunter2-9")
    assert "${env:NAME}" in warning
    assert ("${keyring:NAME}" in warning) == is_own
    assert (read("https://h.example/mcp?token=${keyring:NAME}") == (1, [])) == is_own
    assert read("https://h.example/mcp?token=${env:NAME}") == (1, [])


def test_the_warning_explains_moving_it_only_where_that_is_possible() -> None:
    for source, hint in (("user", True), ("project", False), ("flag", False)):
        problems: list[str] = []
        parse_servers(parse_json(TEXT, "f"), "f", source, problems.append)  # type: ignore[arg-type]
        secret = [problem for problem in problems if "looks like a secret" in problem]
        assert len(secret) == 3
        assert all(("mcphost servers secure" in problem) == hint for problem in secret)
        assert not any("hush" in problem or "abc-" in problem for problem in secret)


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("abc${$}{FOO}def-1234", True),
        ("pa${$}${$}word-1234", True),
        ("${$}{API_TOKEN}", False),  # a placeholder that the other host passed on
        ("Bearer ${$}{API_TOKEN}", False),
        ("abc${env:FOO}${$}def-1234", False),
    ],
)
def test_a_secret_with_an_escaped_dollar_sign_is_found_and_stored_as_the_server_gets_it(
    value: str, *, is_secret: bool
) -> None:
    entry = {"command": "run", "env": {"API_TOKEN": value}}
    remote = {"url": "https://h/mcp", "mcphost": {"oauth": {"clientId": "c", "clientSecret": value}}}
    servers = parse_by_name(json.dumps({"mcpServers": {"a": entry, "b": remote}}))
    found = [[one.expanded for one in find_plaintext_secrets(servers[name])] for name in "ab"]
    expected = [value.replace("${$}", "$")] if is_secret else []
    assert found[0] == expected
    assert found[1] == expected or value.startswith("Bearer")  # which is no scheme in a client secret
