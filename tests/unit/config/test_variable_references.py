"""Tests for references such as `${env:NAME}` in a server's entry: accepted forms, expansion, and refused forms."""

import os
import time

import pytest

from mcphost.config.mcp_json import parse_servers
from mcphost.config.schema import OAuthConfig, ServerConfig, Source
from mcphost.config.secrets import expand_oauth, expand_server, list_references
from mcphost.config.variable_references import (
    MAX_EXPANDED_TEXT,
    ReferenceExpander,
    expand_home,
    expand_target,
    find_references,
    has_nested_reference,
    is_host_variable,
    resolve_target,
    target_values,
    uses_workspace,
)
from mcphost.errors import ConfigError
from mcphost.redact import redact
from mcphost.serialization import replace

ENVIRON = {"HOST": "h.example", "EMPTY": "", "AGAIN": "${HOST}"}
STDIO = ServerConfig(name="x", command="run", file="/f/mcp.json")
HTTP = ServerConfig(name="x", url="https://${HOST}/mcp", file="/f/mcp.json")


def expand(text: str, environ: dict[str, str] = ENVIRON) -> str:
    return ReferenceExpander(environ, {"work": "s3cret-of-work"}.get).expand(text, '"env.A"')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${HOST}", "h.example"),
        ("${env:HOST}", "h.example"),
        ("a${env: HOST }b${HOST}c", "ah.examplebh.examplec"),
        ("${HOST:-other}", "h.example"),
        ("${env:HOST:-other}", "h.example"),
        ("${GONE:-other}", "other"),
        ("${GONE:-}", ""),
        ("${env:GONE:-a:-b c}", "a:-b c"),
        ("${GONE:-pa$$w0rd}", "pa$$w0rd"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", ""),
        ("${env:-other}", "other"),
        ("${keyring: work }", "s3cret-of-work"),
        ("${workspaceFolder}/a", f"{os.getcwd()}/a"),
        ("${workspaceFolderBasename}", os.path.basename(os.getcwd())),
        ("${userHome}${pathSeparator}a${/}b", f"{os.path.expanduser('~')}/a/b"),
        ("$HOST ${1} ${x%.*} ${ ${HOST", "$HOST ${1} ${x%.*} ${ ${HOST"),
        ("${command:pick}", "${command:pick}"),
        ("${ ${HOST}", "${ h.example"),
        ("${AGAIN}", "${HOST}"),
        ("${$}{HOST}", "${HOST}"),
        ("a${$}{HOST:-${$}{env:GONE}}${HOST}", "a${HOST:-${env:GONE}}h.example"),
        ("${$}${$}", "$$"),
        ("$$ $${HOST} \\${HOST} ${$HOST}", "$$ $h.example \\h.example ${$HOST}"),
        ("${GONE:-~}", "~"),
    ],
)
def test_each_form_is_expanded_by_the_rules_of_other_hosts(text: str, expected: str) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("${GONE}", "environment variable GONE", "${GONE:-VALUE}"),
        ("${env: GONE }", "environment variable GONE", "${env:GONE:-VALUE}"),
        ("${keyring:gone}", "keyring entry gone", "uvx keyring set mcphost gone"),
        ("${env:}", "has ${env:} without a name", "${env:NAME}"),
        ("${keyring:}", "has ${keyring:} without a name", "${keyring:NAME}"),
        ("${GONE:-${HOST}}", "inside the default", "plain text"),
        ("${env:GONE:-a${keyring:work}}", "inside the default", "plain text"),
    ],
)
def test_what_cannot_be_expanded_is_named_with_its_fix(text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        expand(text)
    assert '"env.A"' in exc_info.value.message
    assert message in exc_info.value.message
    assert hint in exc_info.value.hint


def test_an_escaped_reference_reaches_the_program_and_the_server_as_it_is_written() -> None:
    literal, written = "${HOST}", "${$}{HOST}"
    server = replace(STDIO, command=written, args=(written,), env={"A": written}, source="project")
    target = expand_target(server, {})
    assert target.argv == (literal, literal)
    assert expand_server(server, {}, {}.get)[0] == {"A": literal}
    assert resolve_target(server).argv == (literal, literal)
    assert target_values(server) == ()
    assert list_references(server) == ()
    remote = replace(HTTP, url=f"https://a.example/{written}", headers={"X": written})
    assert expand_target(remote, {}).url == f"https://a.example/{literal}"
    assert expand_server(remote, {}, {}.get)[1] == {"X": literal}


def test_an_escape_is_read_without_a_warning() -> None:
    problems: list[str] = []
    entry = {"command": "run", "args": ["${$}{A}"], "env": {"B": "${$}{env:C}"}, "cwd": "/tmp"}
    (server,) = parse_servers({"mcpServers": {"x": entry}}, "/f/mcp.json", "user", problems.append)
    assert server.args == ("${$}{A}",)
    assert problems == []


def test_a_name_with_control_characters_is_made_visible() -> None:
    with pytest.raises(ConfigError) as exc_info:
        expand("${env:A\x1b[2J}")
    assert "\x1b" not in str(exc_info.value) + exc_info.value.hint


def test_an_expansion_is_bounded_for_each_text_and_for_the_entry() -> None:
    big = {"A": "x" * 40_000}
    with pytest.raises(ConfigError, match=f"over {MAX_EXPANDED_TEXT:,} characters"):
        expand("${A}" * 4, big)
    expander = ReferenceExpander(big)
    assert sum(len(expander.expand("${A}${A}", "x")) for _ in range(12)) == 960_000
    with pytest.raises(ConfigError, match="over 40,000 characters"):
        expander.expand("${A}${A}", "x")


@pytest.mark.parametrize("text", ["${" * 100_000, "${A:-" * 50_000, "${" + "a" * 200_000, "${A:-$" * 50_000 + "}"])
def test_hostile_text_is_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    find_references(text)
    has_nested_reference(text)
    assert time.process_time() - began < 1


def test_values_of_variables_that_hold_secrets_are_redacted_from_then_on() -> None:
    assert expand("${env:MY_API_TOKEN}", {"MY_API_TOKEN": "hunter2-of-variable"}) == "hunter2-of-variable"
    assert "hunter2-of-variable" not in redact("it printed hunter2-of-variable")


PROJECT_TEXTS = {
    "env": {"API_KEY": "${X_KEY:-approved}"},
    "headers": {"Authorization": "Bearer ${X_KEY:-approved}", "X-Api-Key": "approved", "X-Note": "${NOTE:-approved}"},
    "oauth": OAuthConfig(client_secret="${X_SECRET:-approved}"),
}


@pytest.mark.parametrize("source", ["project", "user"])
def test_a_default_in_the_file_of_a_project_is_no_secret_of_the_user_and_hides_no_word(source: Source) -> None:
    server = ServerConfig(name="s", url="https://h.example/mcp", source=source, **PROJECT_TEXTS)
    env, headers = expand_server(server, {}, {}.get)
    secret = expand_oauth(server, {}, {}.get).client_secret
    assert (env["API_KEY"], headers["Authorization"], secret) == ("approved", "Bearer approved", "approved")
    assert ("approved" in redact("the call was approved")) == (source == "project")


def test_an_empty_variable_beside_the_text_of_a_project_makes_it_no_secret_of_the_user() -> None:
    server = ServerConfig(name="s", command="s", env={"API_KEY": "${EMPTY}filesystem"}, source="project")
    expand_server(server, {"EMPTY": ""}, {}.get)
    assert redact("the filesystem is full") == "the filesystem is full"


def test_a_variable_or_a_key_in_the_default_of_a_projects_file_is_redacted_as_before() -> None:
    server = ServerConfig(name="s", url="https://h.example/mcp", source="project", **PROJECT_TEXTS)
    expand_server(server, {"X_KEY": "hunter2-of-variable"}, {}.get)
    assert "hunter2" not in redact("it printed hunter2-of-variable")
    key = replace(server, headers={"X-Api-Key": "${X_KEY:-f0e1d2c3b4a5968778695a4b3c2d1e0f}"})
    expand_server(key, {}, {}.get)
    assert "f0e1d2c3" not in redact("it printed f0e1d2c3b4a5968778695a4b3c2d1e0f")


def test_unknown_forms_of_hosts_differ_from_those_of_shells() -> None:
    forms = find_references("${command:pick} ${config:a.b} ${1} ${x:0:3} ${x:?gone} ${HOST}")
    assert [is_host_variable(reference) for reference in forms] == [True, True, False, False, False, False]


def test_a_reference_is_listed_without_its_default_and_white_space() -> None:
    texts = [
        reference.short_text for reference in find_references("${A:-s3cret}${env: B :-c}${keyring: d }${userHome}")
    ]
    assert texts == ["${A}", "${env:B}", "${keyring:d}", "${userHome}"]


def test_only_a_leading_tilde_of_the_user_is_the_home_folder() -> None:
    home = os.path.expanduser("~")
    assert [expand_home(text) for text in ("~", "~/a", "~root", "a~", "")] == [home, f"{home}/a", "~root", "a~", ""]


@pytest.mark.parametrize(
    "text", ["${workspaceFolder}", "${PWD}", "${env: PWD }", "${PWD:-x}", "${workspaceFolderBasename}"]
)
def test_references_to_the_folder_of_the_start_are_noticed(text: str) -> None:
    assert uses_workspace(["a", f"b{text}"])
    assert not uses_workspace(["${PWDS}", "${userHome}", "$PWD"])


def test_the_command_its_arguments_and_its_folder_are_expanded() -> None:
    server = replace(
        STDIO, command="${BIN}/run", args=("~/a", "--x=~", "${GONE:-b}"), cwd="${SUB}", cwd_has_references=True
    )
    expanded = expand_target(server, {"BIN": "/opt", "SUB": "sub"})
    assert expanded.argv == ("/opt/run", f"{os.path.expanduser('~')}/a", "--x=~", "b")
    assert (expanded.cwd, expanded.cwd_has_references) == ("/f/sub", False)


def test_a_resolved_folder_is_never_expanded_again() -> None:
    server = replace(STDIO, cwd="/odd/${HOME}/name")
    assert expand_target(server, {"HOME": "/h"}) == server


@pytest.mark.parametrize("key", ["command", "args", "cwd", "url"])
def test_a_missing_variable_names_server_field_and_variable(key: str) -> None:
    server = {
        "command": replace(STDIO, command="${GONE}"),
        "args": replace(STDIO, args=("a", "${GONE}")),
        "cwd": replace(STDIO, cwd="${GONE}", cwd_has_references=True),
        "url": replace(HTTP, url="https://${GONE}/mcp"),
    }[key]
    with pytest.raises(ConfigError) as exc_info:
        expand_target(server, {})
    assert f'/f/mcp.json: server "x": "{"args[1]" if key == "args" else key}"' in exc_info.value.message
    assert "GONE" in exc_info.value.message


@pytest.mark.parametrize("key", ["command", "args", "cwd", "url"])
def test_the_keyring_is_never_read_for_what_other_programs_can_see(key: str) -> None:
    text = "${keyring:work}"
    server = {
        "command": replace(STDIO, command=text),
        "args": replace(STDIO, args=(text,)),
        "cwd": replace(STDIO, cwd=text, cwd_has_references=True),
        "url": replace(HTTP, url=f"https://h.example/{text}"),
    }[key]
    with pytest.raises(ConfigError, match="is for secrets"):
        expand_target(server, {})


@pytest.mark.parametrize("value", ["file:///etc", "http:///x", "https://a b", "javascript:x", "", "https://h:0/"])
def test_an_address_is_checked_after_it_was_expanded(value: str) -> None:
    with pytest.raises(ConfigError, match="not an http or https address"):
        expand_target(replace(HTTP, url="${ADDRESS}"), {"ADDRESS": value})


@pytest.mark.parametrize("value", ["", "  "])
def test_a_command_that_becomes_empty_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="is empty"):
        expand_target(replace(STDIO, command="${BIN}"), {"BIN": value})


def test_the_current_values_are_listed_and_a_missing_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIN", "/opt")
    monkeypatch.delenv("GONE", raising=False)
    server = replace(STDIO, command="${BIN:-b}/a", args=("~/x", "${GONE}", "${GONE:-y}", "${1}"))
    home = os.path.expanduser("~")
    listed = [(value.text, value.value) for value in target_values(server)]
    assert listed == [("${BIN}", "/opt"), ("~", home), ("${GONE}", None), ("${GONE:-y}", "y")]
    assert resolve_target(server).args == (f"{home}/x", "${GONE}", "y", "${1}")
    monkeypatch.setenv("GONE", "z")
    assert resolve_target(server).argv == ("/opt/a", f"{home}/x", "z", "z", "${1}")
    assert [value.text for value in target_values(server)] == ["${BIN}", "~", "${GONE}"]


def test_a_text_that_cannot_be_expanded_hides_no_other_from_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONG", "x" * 5_000)
    monkeypatch.delenv("GONE", raising=False)
    server = replace(STDIO, command="${GONE:-npx}", args=("${LONG}${LONG}", "${GONE}", "${GONE:-a}"))
    assert resolve_target(server).argv == ("npx", "${LONG}${LONG}", "${GONE}", "a")
