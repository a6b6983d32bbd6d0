"""Tests for references such as `${env:NAME}` in a server's entry, which are filled in when the server is started."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import CANARY, Program
from tests.flows.secret_service import secret_service

REPORTS = """
import json, os, runpy, sys
json.dump({"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}, open(REPORT, "w"))
runpy.run_module('mcphost.demo.server', run_name='__main__')
"""


@pytest.fixture
def report(program: Program) -> Path:
    """Return the file to which the server `reports.py` writes its arguments and environment."""
    path = program.home / "report.json"
    (program.home / "reports.py").write_text(REPORTS.replace("REPORT", repr(str(path))))
    return path


def reporting_server(program: Program, *arguments: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(program.home / "reports.py"), *arguments], **more}


def call(program: Program, *options: str, code: int = 0, **env: str) -> str:
    arguments = (*options, "call", "its", "add", "a=1", "b=2")
    return program.error(*arguments, code=code, **env) if code else program.text(*arguments, **env)


def test_command_arguments_folder_and_variables_are_filled_in(program: Program, report: Path) -> None:
    (program.home / "sub").mkdir()
    entry = reporting_server(
        program, "${HERE:-a}", "~/b", "${env:REGION:-eu}", "${userHome}", "$HOME ${1}",
        cwd="${userHome}/${SUB}", env={"A": "${REGION}/${HERE:-x}", "B": "${env:REGION}"},
    )  # fmt: skip
    file = program.servers(its={**entry, "command": "${PYTHON}"})
    assert call(program, "--mcp-config", file, PYTHON=sys.executable, SUB="sub", REGION="${HOME}") == "1 + 2 = 3\n"
    told = json.loads(report.read_text())
    home = str(program.home)
    assert told["args"] == ["a", f"{home}/b", "${HOME}", home, "$HOME ${1}"]
    assert told["cwd"] == f"{home}/sub"
    assert (told["env"]["A"], told["env"]["B"]) == ("${HOME}/x", "${HOME}")


@pytest.mark.parametrize(
    ("key", "value"),
    [("command", "${GONE_1}"), ("args", ["${GONE_1}"]), ("cwd", "${GONE_1}"), ("env", {"A": "${GONE_1}"})],
)
def test_an_unset_variable_names_server_field_and_variable(program: Program, key: str, value: Any) -> None:
    file = program.servers(its={**reporting_server(program), key: value})
    error_text = call(program, "--mcp-config", file, code=3)
    where = {"args": "args[0]", "env": "env.A"}.get(key, key)
    assert f'"{where}" needs the environment variable GONE_1, which is not set' in error_text
    assert "'its' was not started" in error_text
    assert "Set GONE_1" in error_text


def test_an_address_is_filled_in_and_checked_afterwards(program: Program) -> None:
    file = program.servers(its={"url": "${BASE}/mcp"})
    error_text = call(program, "--mcp-config", file, code=3, BASE="file:///etc")
    assert '"url" is not an http or https address' in error_text
    error_text = call(program, "--mcp-config", file, code=4, BASE="http://127.0.0.1:9")
    assert "127.0.0.1:9" in error_text


def test_a_changed_variable_asks_again_about_a_projects_server(program: Program, report: Path) -> None:
    entry = reporting_server(program, "${TARGET}")
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": entry}}))
    output = program.text("servers", "trust", ".mcp.json", "--yes", TARGET="one")
    assert "value of ${TARGET}: one" in output
    program.text("servers", "trust", "its", "--yes", TARGET="one")
    assert call(program, TARGET="one") == "1 + 2 = 3\n"
    report.unlink()
    assert "not approved" in call(program, code=5, TARGET="two")
    assert not report.exists()
    output = program.text("servers", "trust", "its", "--yes", TARGET="two")
    assert "- value of ${TARGET}: one" in output
    assert "+ value of ${TARGET}: two" in output
    call(program, TARGET="two")
    assert json.loads(report.read_text())["args"] == ["two"]


def test_an_environment_file_is_read_and_a_changed_one_asks_again(program: Program, report: Path) -> None:
    env_file = program.work / ".env"
    env_file.write_text(f"export MODE='from file'\nAPI_TOKEN={CANARY}\n")
    entry = reporting_server(program, envFile="${workspaceFolder}/.env", env={"MODE": "entry"})
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": entry}}))
    program.text("servers", "trust", ".mcp.json", "--yes")
    output = program.text("servers", "trust", "its", "--yes")
    assert "environment API_TOKEN: [in the environment file]" in output
    assert call(program) == "1 + 2 = 3\n"
    told = json.loads(report.read_text())["env"]
    assert (told["MODE"], told["API_TOKEN"]) == ("entry", CANARY)
    report.unlink()
    env_file.write_text("LD_PRELOAD=/evil.so\n")
    assert "not approved" in call(program, code=5)
    assert not report.exists()
    output += program.text("servers", "trust", "its", "--yes")
    assert "- environment API_TOKEN: [in the environment file]" in output
    assert "+ environment LD_PRELOAD: [in the environment file] /evil.so" in output
    env_file.unlink()
    assert f"{env_file} does not exist" in call(program, code=3)
    stored = [path for kind in ("data", "state") for path in (program.home / kind).rglob("*") if path.is_file()]
    assert not [path for path in stored if CANARY.encode() in path.read_bytes()]
    assert CANARY not in output


def test_a_server_whose_environment_file_is_missing_is_not_added(program: Program) -> None:
    entry = json.dumps({"command": "x", "envFile": "none.env"})
    assert "none.env does not exist" in program.error("servers", "add", "its", "--json", entry, "--yes", code=3)
    assert not (program.home / "config" / "mcp.json").exists()


INPUTS = [
    {"id": "token", "type": "promptString", "description": "Your token", "password": True},
    {"id": "region", "type": "pickString", "options": ["eu", "us"]},
]


def test_inputs_of_a_pasted_file_are_stored_in_the_keyring_and_the_settings(tmp_path: Path) -> None:
    program = Program(tmp_path)
    path = program.home / "report.json"
    (program.home / "reports.py").write_text(REPORTS.replace("REPORT", repr(str(path))))
    entry = reporting_server(program, "${input:region}", env={"API_TOKEN": "${input:token}"})
    pasted = json.dumps({"servers": {"its": entry}, "inputs": INPUTS})
    with secret_service(tmp_path) as env:
        done = program.run("servers", "add", "--json", "-", "--yes", stdin=pasted, **env)
        assert done.returncode == 0, done.stderr
        assert "its needs the input token. Set it: mcphost servers input its token" in done.stderr.decode()
        assert "mcphost servers input its region" in call(program, code=3, **env)
        assert "Choose one of: eu, us." in program.error(
            "servers", "input", "its", "region", code=3, stdin="mars\n", **env
        )
        program.text("servers", "input", "its", "region", stdin="us\n", **env)
        assert "mcphost servers input its token" in call(program, code=3, **env)
        program.text("servers", "input", "its", "token", stdin=f"{CANARY}\n", **env)
        assert call(program, **env) == "1 + 2 = 3\n"
        told = json.loads(path.read_text())
        assert (told["args"], told["env"]["API_TOKEN"]) == (["us"], CANARY)
        path.unlink()
        stored = b"".join(
            item.read_bytes() for kind in ("config", "data", "state") for item in (tmp_path / kind).rglob("*.*")
        )
        assert CANARY.encode() not in stored
        program.text("servers", "input", "its", "--delete", **env)
        assert "which is not set" in call(program, code=3, **env)


def test_servers_of_one_file_of_the_user_share_its_inputs(program: Program, report: Path) -> None:
    entry = reporting_server(program, "${input:region}")
    file = program.configure(its=entry, other=entry)
    file.write_text(json.dumps({**json.loads(file.read_text()), "inputs": INPUTS}))
    program.text("servers", "input", "other", "region", stdin="eu")
    program.text("servers", "trust", "its", "--yes")
    assert call(program) == "1 + 2 = 3\n"
    assert json.loads(report.read_text())["args"] == ["eu"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("its", "gone"), "refers to no input 'gone'"),
        (("plain",), "refers to no input"),
        (("its",), "Which input?"),
        (("its", "region"), "region has no value"),
        (("nobody",), "no server named 'nobody'"),
    ],
)
def test_a_wrong_command_about_inputs_says_what_is_missing(
    program: Program, arguments: tuple[str, ...], said: str
) -> None:
    its = {"command": "x", "args": ["${input:region}"], "env": {"A": "${input:token}"}, "mcphost": {"inputs": INPUTS}}
    program.configure(its=its, plain={"command": "x"})
    assert said in program.error("servers", "input", *arguments, code=2)
    assert not (program.home / "config" / "inputs.json").exists()


def test_an_input_in_the_secrets_file_is_not_said_to_be_in_the_keyring(program: Program, report: Path) -> None:
    program.configure_secret_store("file")
    file = program.configure(its=reporting_server(program, "${input:token}"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "inputs": INPUTS}))
    command = ("servers", "input", "its", "token")
    assert program.text(*command, stdin=CANARY) == "token is stored in the secrets file\n"
    assert program.text(*command, "--delete") == "token was removed from the secrets file\n"
    assert program.text(*command, "--delete") == "token has no value in the secrets file; nothing was removed\n"
    rows = json.loads(program.text("audit", "--json", "--server", "its"))["rows"]
    told = [(row["event"], row["subject"]) for row in rows if row["kind"] == "file"]
    assert sorted(told) == [("changed", "secrets file: input token"), ("removed", "secrets file: input token")]


def test_a_removal_in_the_secrets_file_names_the_file_and_says_first_what_it_would_delete(program: Program) -> None:
    program.configure_secret_store("file")
    program.text("servers", "add", "its", "--env", f"THE_TOKEN={CANARY}", "--", "sleep", "9")
    refused = program.run("servers", "remove", "its", "--forget").stdout.decode()
    assert "  would also delete: secrets file: its-the_token\n" in refused
    assert "deleted" not in refused
    said = program.text("servers", "remove", "its", "--forget", "--yes")
    assert "\n  deleted: secrets file: its-the_token\n" in said
    rows = json.loads(program.text("audit", "--json", "--server", "its"))["rows"]
    assert "secrets file: its-the_token" in [row["subject"] for row in rows if row["event"] == "removed"]
