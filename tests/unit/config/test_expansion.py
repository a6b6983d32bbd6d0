"""Tests for references such as `${env:NAME}` in a server's entry, and for the digests of servers."""

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import describe_server
from mcphost.config.oauth_settings import FIELD_BY_KEY
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.config.secrets import expand_server, list_references
from mcphost.errors import ConfigError
from mcphost.host.servers.server_approval import make_question
from mcphost.redact import redact
from mcphost.serialization import replace
from mcphost.store.grants import TrustedServer

HTTP = ServerConfig(
    name="x",
    url="https://h",
    file="/f/mcp.json",
    headers={"Authorization": "Bearer ${keyring:work}", "X-Mode": "${env:MODE}-${env:MODE}"},
)
STDIO = ServerConfig(name="x", command="run", args=("a", ""), env={"KEY": "1"}, cwd="/w")


def test_references_are_filled_in_and_secrets_known_to_redact() -> None:
    _, headers = expand_server(HTTP, {"MODE": "fast"}, {"work": "hunter2-and-more"}.get)
    assert headers == {"Authorization": "Bearer hunter2-and-more", "X-Mode": "fast-fast"}
    assert "hunter2" not in redact("it said hunter2-and-more today")


def test_the_value_of_a_header_with_any_name_is_known_to_redact() -> None:
    headers = {
        "X-Team": "hunter2zz",
        "X-Sig": "Own a1b2c3d4e5f6",
        "X-Page": "https://h.example/page1",
        "Accept": "a/b1c2d3",
    }
    expand_server(replace(HTTP, headers=headers), {}, {}.get)
    echo = "it sent hunter2zz, a1b2c3d4e5f6, https://h.example/page1 and a/b1c2d3"
    assert redact(echo) == "it sent [secret], [secret], https://h.example/page1 and a/b1c2d3"


@pytest.mark.parametrize(
    "value",
    ["us-east-1", "eu-west-1a", "gpt-4o-mini", "localhost:8080", "v2.1.0-beta", "application/vnd.github.v3+json"],
)
def test_a_header_does_not_hide_the_name_of_a_region_a_model_or_a_host(value: str) -> None:
    expand_server(replace(HTTP, headers={"X-Choice": value}), {}, {}.get)
    assert redact(f"it failed in {value}.") == f"it failed in {value}."


@pytest.mark.parametrize(
    "value",
    [
        "hunter2-zz99x9",
        "team-a1b2c3d4",
        "k9-1234567",
        "correct-horse-battery-staple-42",
        "Ab1-Cd2-Ef3-Gh4-Jk5",
        "abc12345",
    ],
)
def test_the_value_of_a_header_that_may_be_a_key_is_redacted(value: str) -> None:
    expand_server(replace(HTTP, headers={"X-Choice": value}), {}, {}.get)
    assert redact(f"it sent {value}.") == "it sent [secret]."


def test_a_project_cannot_hide_a_word_by_a_header_with_any_name() -> None:
    expand_server(replace(HTTP, source="project", headers={"X-Team": "delete-v2"}), {}, {}.get)
    assert redact("the tool delete-v2") == "the tool delete-v2"


def test_filled_in_value_is_not_expanded_again() -> None:
    server = replace(STDIO, env={"A": "${env:B}"})
    assert expand_server(server, {"B": "${env:C}", "C": "no"}, {}.get)[0] == {"A": "${env:C}"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("${env:GONE}", "environment variable GONE"),
        ("${keyring:gone}", "keyring entry gone"),
        ("${env:}", "without a name"),
    ],
)
def test_missing_reference_names_server_key_and_name(value: str, text: str) -> None:
    server = replace(STDIO, env={"TOKEN": value}, file="/f/mcp.json")
    with pytest.raises(ConfigError) as exc_info:
        expand_server(server, {}, {}.get)
    assert text in exc_info.value.message
    assert '/f/mcp.json: server "x": "env.TOKEN"' in exc_info.value.message
    assert exc_info.value.exit_code == 3


def test_header_that_got_a_line_break_is_refused() -> None:
    with pytest.raises(ConfigError, match="line break"):
        expand_server(HTTP, {"MODE": "a\r\nEvil: 1"}, {"work": "w"}.get)


def test_references_of_a_server_are_listed() -> None:
    assert list_references(HTTP) == (("header Authorization", "${keyring:work}"), ("header X-Mode", "${env:MODE}"))


ASKED = {"headers": {"Authorization": "Bearer ${keyring:work}", "X-Mode": "fast"}}
SECRET = OAuthConfig(issuer="https://as.example", client_secret="${keyring:work}")
OTHER_REFERENCES = [
    {"headers": {"Authorization": "Bearer ${keyring:other}", "X-Mode": "fast"}},
    {"headers": {"Authorization": "Bearer ${env:work}", "X-Mode": "fast"}},
    {"headers": {"Authorization": "Bearer", "X-Mode": "${keyring:work}"}},
    {"headers": {"Authorization": "Bearer ${keyring:work}", "X-Mode": "${env:AWS_SECRET_ACCESS_KEY}"}},
    {**ASKED, "oauth": SECRET},
    {**ASKED, "oauth": replace(SECRET, issuer="https://evil.example")},
    {**ASKED, "oauth": replace(SECRET, client_secret="${env:OTHER}")},
    {**ASKED, "oauth": replace(SECRET, idp_token_endpoint="https://evil.example/token")},
    {**ASKED, "oauth": replace(SECRET, client_secret="", idp_token="${keyring:work}")},
]


def test_an_approval_is_bound_to_which_secrets_of_the_machine_a_server_is_given() -> None:
    servers = [replace(HTTP, **change) for change in (ASKED, *OTHER_REFERENCES)]
    assert len({server_digest(server) for server in servers}) == len(servers)
    assert len({describe_server(server) for server in servers}) == len(servers)


def test_an_approval_names_the_references_of_a_server_and_never_a_value() -> None:
    server = replace(HTTP, headers={"Authorization": "Bearer ${keyring: work }", "X-Key": "hunter2"}, oauth=SECRET)
    assert describe_server(server)[1:] == (
        "header Authorization: Bearer ${keyring: work }",
        "header X-Key: [hidden]",
        "sign-in clientSecret: ${keyring:work}",
        "sign-in issuer: https://as.example",
    )
    assert make_question(server, None).filled_in == (
        "header Authorization: ${keyring:work}",
        "sign-in clientSecret: ${keyring:work}",
        "sign-in issuer: https://as.example",
    )


def test_a_changed_reference_is_shown_next_to_the_earlier_one() -> None:
    before, after = (replace(STDIO, env={"KEY": text}) for text in ("${env:MINE}", "${env:AWS_SECRET_ACCESS_KEY}"))
    earlier = TrustedServer("x", server_digest(before), "\n".join(describe_server(before)))
    assert make_question(after, earlier).changed[-2:] == (
        "- environment KEY: ${env:MINE}",
        "+ environment KEY: ${env:AWS_SECRET_ACCESS_KEY}",
    )


def test_digest_changes_with_the_command_and_not_with_the_name() -> None:
    same = [replace(STDIO, name="y"), replace(STDIO, file="/other", timeout=3.0)]
    assert {server_digest(server) for server in same} == {server_digest(STDIO)}
    others = [
        replace(STDIO, command="ran"),
        replace(STDIO, args=("a",)),
        replace(STDIO, args=("a ", "")),
        replace(STDIO, cwd=""),
        replace(STDIO, startup_folder="/w"),
        replace(STDIO, env={"KEY": "2"}),
        replace(STDIO, env={"KEY": "1", "LD_PRELOAD": "x"}),
        HTTP,
        replace(HTTP, url="https://h2"),
        replace(HTTP, headers={}),
        replace(HTTP, headers={"Authorization": "Bearer ${keyring:work}", "X-Mode": "slow"}),
    ]
    assert len({server_digest(server) for server in [STDIO, *others]}) == 1 + len(others)


def test_every_member_of_a_sign_in_is_described_and_bound() -> None:
    full = OAuthConfig(
        client_id="c", client_secret="s3cret-one", issuer="https://as.example", port=4000, client_metadata_url="https://d.example",
        resource="https://mcp.example",
        account="work", seconds=9, private=True, grant="workload", scopes=("a", "b"), key="k3y-one", algorithm="RS256",
        assertion="${env:JWT}", idp_token="${keyring:idp}", idp_client_id="i", idp_token_endpoint="https://idp.example/t",
    )  # fmt: skip
    server = replace(HTTP, headers={}, oauth=full, source="project")
    signing_in = [line for line in describe_server(server) if line.startswith("sign-in ")]
    assert len(signing_in) == len(FIELD_BY_KEY)
    assert "sign-in issuer: https://as.example" in signing_in
    assert "sign-in assertion: ${env:JWT}" in signing_in
    assert not any("s3cret" in line or "k3y" in line for line in signing_in)
    assert make_question(server, None).sign_in["scopes"] == "a b"
    usual = OAuthConfig()
    less = [replace(server, oauth=replace(full, **{field: getattr(usual, field)})) for field in FIELD_BY_KEY.values()]
    rotated = [replace(server, oauth=replace(full, **{field: "s3cret-two"})) for field in ("client_secret", "key")]
    every = [server, *less, *rotated]
    assert len({server_digest(item) for item in every}) == len({describe_server(item) for item in every}) == len(every)


def test_description_shows_everything_untruncated_and_nothing_secret() -> None:
    server = replace(STDIO, args=("-c", "a\nb\x1b[31m", "", "z" * 500))
    lines = describe_server(server)
    assert lines[:4] == ("command: run", "argument 1: -c", 'argument 2: "a⏎b␛[31m"', 'argument 3: ""')
    assert lines[4] == f"argument 4: {'z' * 500}"
    assert lines[5:] == ("folder: /w", "environment KEY: 1")
    assert describe_server(HTTP) == (
        "address: https://h",
        "header Authorization: Bearer ${keyring:work}",
        "header X-Mode: ${env:MODE}-${env:MODE}",
    )
