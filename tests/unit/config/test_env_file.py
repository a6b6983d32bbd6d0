"""Tests for `envFile` in a server's entry: syntax, location, limits, and which part of it an approval covers."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_digest import server_digest, with_file_digests
from mcphost.config.approval_text import describe_server
from mcphost.config.description_lines import translate_line
from mcphost.config.env_file import (
    MAX_ENV_FILE_BYTES,
    MAX_ENV_FILE_LINES,
    MAX_ENV_FILE_VARIABLES,
    parse_env_file,
    read_env_file,
)
from mcphost.config.loader import load_config
from mcphost.config.schema import ServerConfig, Source
from mcphost.config.secrets import expand_server
from mcphost.errors import ConfigError
from mcphost.host.servers.server_approval import make_question
from mcphost.redact import redact, redact_identifier

SECRET = "hunter2-of-the-file-7"


def make_server(folder: Path, content: str | None = "", *, source: Source = "user", **more: Any) -> ServerConfig:
    if content is not None:
        (folder / ".env").write_text(content)
    more = {"env_file": ".env", **more}
    return ServerConfig(name="x", command="run", file=str(folder / "mcp.json"), source=source, **more)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A=b", "b"),
        ("  export A = b  ", "b"),
        ("A=", ""),
        ("A=a b", "a b"),
        ("A=b # why", "b"),
        ("A=b#c", "b"),
        ("A='b # c'", "b # c"),
        ('A="b # c" # why', "b # c"),
        ("A=`b`", "b"),
        (r'A="b\nc\rd"', "b\nc\rd"),
        (r"A='b\nc'", r"b\nc"),
        ("A=b=c", "b=c"),
        ("A=$B ${HOME} ~", "$B ${HOME} ~"),
        ("A=it's # not", "it's # not"),
        ("A=1\nA=2", "2"),
        ("\ufeff# first\r\n\r\nA=b\r", "b"),
    ],
)
def test_lines_are_read_as_vs_code_reads_them(line: str, expected: str) -> None:
    assert parse_env_file(line.removeprefix("\ufeff"), "f") == {"A": expected}


@pytest.mark.parametrize(
    "line", ["no separator", "=value", "A B=c", "A\x1b=c", "Ä=c", 'A="open', "A=\"open'", "A=b\0c"]
)
def test_a_line_that_is_not_understood_is_named_by_its_number_and_never_quoted(line: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        parse_env_file(f"# first\nGOOD=1\n{line}{SECRET}", "/f/.env")
    assert "/f/.env, line 3" in exc_info.value.message
    assert SECRET not in str(exc_info.value) + exc_info.value.hint


def test_too_many_lines_variables_and_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lines"):
        parse_env_file("#\n" * MAX_ENV_FILE_LINES, "f")
    with pytest.raises(ConfigError, match="variables"):
        parse_env_file("\n".join(f"A{number}=" for number in range(MAX_ENV_FILE_VARIABLES + 1)), "f")
    with pytest.raises(ConfigError, match="over 64 kB"):
        read_env_file(make_server(tmp_path, "#" * (MAX_ENV_FILE_BYTES + 1)), {})


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("pipe", "is not a file"),
        (".", "is not a file"),
        ("none", "does not exist"),
        ("/dev/zero", "is not a file"),
    ):
        with pytest.raises(ConfigError, match=reason) as exc_info:
            read_env_file(make_server(tmp_path, env_file=name), {})
        assert f'{tmp_path}/mcp.json: server "x": "envFile"' in exc_info.value.message
    (tmp_path / ".env").write_bytes(b"A=\xff")
    with pytest.raises(ConfigError, match="line 1: not UTF-8"):
        read_env_file(make_server(tmp_path, None), {})


@pytest.mark.parametrize("path", [".env", "./.env", "${FOLDER}/.env", "${env:FOLDER}/.env", "${GONE:-.env}"])
def test_its_path_is_relative_to_the_file_and_may_have_references(tmp_path: Path, path: str) -> None:
    assert read_env_file(make_server(tmp_path, "A=b", env_file=path), {"FOLDER": str(tmp_path)}) == {"A": "b"}


def test_its_path_may_begin_at_home_or_at_the_folder_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/.env", "${userHome}/.env", "${workspaceFolder}/.env"):
        assert read_env_file(make_server(tmp_path, "A=b", env_file=path), {}) == {"A": "b"}
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {"x": {"command": "run", "envFile": "${workspaceFolder}/.env"}}})
    )
    assert load_config(tmp_path).servers[0].startup_folder == str(tmp_path)


def test_a_missing_variable_of_its_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'"envFile" needs the environment variable GONE'):
        read_env_file(make_server(tmp_path, env_file="${GONE}/.env"), {})


def test_variables_of_the_entry_come_before_those_of_the_file_and_nothing_is_expanded_twice(tmp_path: Path) -> None:
    server = make_server(tmp_path, "A=file\nB=${A}\nSOME_PASS=open-sesame-1", env={"A": "${B:-entry}"})
    env, _ = expand_server(server, {}, {}.get, read_env_file(server, {}))
    assert env == {"A": "entry", "B": "${A}", "SOME_PASS": "open-sesame-1"}
    assert "open-sesame-1" not in redact("it said open-sesame-1 today")


def test_a_file_of_a_project_hides_no_words_of_its_choice(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "own.env").write_text("OWN_PASSWORD=open-sesame-2")
    words = "A_TOKEN=filesystem\nB_PASSWORD=approved\nC_KEY=${keyring:declined}\nD_TOKEN=k3y-0f-th3-pr0j3ct"
    expand_all = (
        make_server(project, words, source="project"),
        make_server(project, None, source="project", env_file="../own.env"),
    )
    for server in expand_all:
        expand_server(server, {}, {}.get, read_env_file(server, {}))
    assert (
        redact("the filesystem approved it, ${keyring:declined}") == "the filesystem approved it, ${keyring:declined}"
    )
    assert redact("k3y-0f-th3-pr0j3ct") == "[secret]"
    assert redact("open-sesame-2") == "[secret]"  # the user's own file
    assert redact_identifier("k3y-0f-th3-pr0j3ct") == "k3y-0f-th3-pr0j3ct"


@pytest.mark.parametrize("source", ["user", "project"])
def test_an_approval_covers_its_path_names_and_content_and_shows_no_secret(tmp_path: Path, source: Source) -> None:
    contents = [f"API_TOKEN={SECRET}", f"API_TOKEN={SECRET}2", f"API_TOKEN={SECRET}\nPATH=/x", ""]
    digests: set[str] = set()
    for content in contents:
        server = with_file_digests(make_server(tmp_path, content, source=source))
        digests.add(server_digest(server))
        shown = (make_question(server, None), describe_server(server))
        assert SECRET not in repr(shown)
    assert len(digests) == len(contents)
    server = make_server(tmp_path, contents[2], source=source, env={"API_TOKEN": "x"})
    asked = make_question(server, None)
    path = "[in the environment file]" + (" /x" if source == "project" else "")
    assert asked.environment["PATH"] == path
    assert asked.environment["API_TOKEN"] != "[in the environment file]"
    assert asked.env_file.startswith(f"{tmp_path}/.env (content ")
    assert "It sets PATH: that decides which code its program loads." in asked.warnings
    assert f"environment file: {asked.env_file}" in describe_server(server)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".env").write_text(contents[2])
    assert server_digest(make_server(tmp_path, None, source=source, env_file="other/.env")) not in digests


def test_what_a_project_writes_into_its_file_to_load_code_is_shown(tmp_path: Path) -> None:
    content = f"NODE_OPTIONS='--require ./helper.js'\nHTTPS_PROXY=http://me:{SECRET}@p.example\nAPI_TOKEN={SECRET}\n"
    server = with_file_digests(make_server(tmp_path, content, source="project"))
    asked = make_question(server, None)
    assert asked.environment["NODE_OPTIONS"] == "[in the environment file] --require ./helper.js"
    assert asked.environment["HTTPS_PROXY"] == "[in the environment file] http://[hidden]@p.example"
    assert asked.environment["API_TOKEN"] == "[in the environment file]"
    assert f"environment NODE_OPTIONS: {asked.environment['NODE_OPTIONS']}" in describe_server(server)
    (tmp_path / ".env").write_text(content.replace("./helper.js", "./other.js"))
    assert "other.js" not in repr(make_question(server, None))  # another content than the approval would cover


def test_a_file_outside_of_the_project_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "own.env").write_text("PATH=/my/tools\n")
    server = make_server(tmp_path / "project", None, source="project", env_file="../own.env")
    assert make_question(server, None).environment == {"PATH": "[in the environment file]"}


def test_the_line_of_the_file_differs_from_that_of_a_variable_named_file(tmp_path: Path) -> None:
    server = make_server(tmp_path, "A=b", env={"file": "x", "NAME": "y"})
    path = make_question(server, None).env_file
    lines = [translate_line(line) for line in describe_server(server)]
    assert f"file with environment variables: {path}" in lines
    assert 'environment "file": x' in lines
    assert "environment NAME: y" in lines


def test_a_file_that_changed_after_its_approval_is_not_used(tmp_path: Path) -> None:
    server = with_file_digests(make_server(tmp_path, "A=b"))
    assert read_env_file(server, {}) == {"A": "b"}
    (tmp_path / ".env").write_text("A=c")
    with pytest.raises(ConfigError, match="has changed since it was approved"):
        read_env_file(server, {})


@pytest.mark.parametrize("source", ["project", "user"])
def test_the_file_of_a_project_hides_neither_a_word_nor_a_name_in_the_audit_log(tmp_path: Path, source: Source) -> None:
    variables = {"A_TOKEN": "filesystem", "B_TOKEN": "delete_all_files_v2", "C_TOKEN": "hunter2"}
    expand_server(make_server(tmp_path, source=source), {}, lambda _: None, variables)
    assert ("filesystem" in redact("the filesystem is full")) == (source == "project")
    assert (redact_identifier("delete_all_files_v2") == "delete_all_files_v2") == (source == "project")
    assert "delete_all" not in redact("it printed delete_all_files_v2")
    assert "hunter2" not in redact("it printed hunter2")


def test_a_missing_file_is_an_error_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        with_file_digests(make_server(tmp_path, None))
    assert "environment file: " + f"{tmp_path}/.env (content cannot be read)" in describe_server(
        make_server(tmp_path, None)
    )


def test_a_program_of_a_project_found_through_the_file_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    server = make_server(tmp_path, f"PYTHONPATH={tmp_path}/lib", source="project")
    assert any(
        "sets PYTHONPATH to places in the project's folder" in text for text in make_question(server, None).warnings
    )


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"url": "https://h.example", "envFile": ".env"}, 'is for servers with a "command"'),
        ({"command": "x", "envFile": ["a"]}, '"envFile" is a list'),
        ({"command": "x", "envFile": "a\0"}, "NUL character"),
        ({"command": "x", "envFile": "${keyring:a}"}, "is for secrets"),
    ],
)
def test_a_wrong_setting_is_reported(tmp_path: Path, entry: dict[str, Any], problem: str) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}))
    assert problem in load_config(tmp_path).problems[0]
