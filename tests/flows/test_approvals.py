"""Tests that a server's approval covers exactly what was shown; a changed command needs a new approval."""

import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import Program

SERVES = "import runpy; runpy.run_module('mcphost.demo.server', run_name='__main__')\n"


def write_server(folder: Path, mark: Path | None = None) -> None:
    """Write a server to the module `its_server`; with *mark*, it creates this file when it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    planted = "" if mark is None else f"open({str(mark)!r}, 'w').close()\n"
    (folder / "its_server.py").write_text(planted + SERVES)


def write_project(program: Program, **entry: Any) -> None:
    """Write a `.mcp.json` with a server, and approve the file, but not the server."""
    entry = {"command": sys.executable, "args": ["-P", "-m", "its_server"], **entry}
    (program.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"its": entry}}))
    program.text("servers", "trust", ".mcp.json", "--yes")


def test_a_changed_environment_value_asks_again(program: Program) -> None:
    mark = program.home / "planted-code-ran"
    write_server(program.work / "good")
    write_server(program.work / "planted", mark)
    write_project(program, env={"PYTHONPATH": str(program.work / "good")})
    program.text("servers", "trust", "its", "--yes")
    assert "ok" in program.text("servers", "check", "its")
    write_project(program, env={"PYTHONPATH": str(program.work / "planted")})
    assert "not approved" in program.error("call", "its", "add", "a=1", "b=2", code=5)
    assert not mark.exists()
    output = program.text("servers", "trust", "its", "--yes")
    assert f"- environment PYTHONPATH: {program.work}/good" in output
    assert f"+ environment PYTHONPATH: {program.work}/planted" in output
    assert "It sets PYTHONPATH: that decides which code its program loads." in output
    assert "ok" in program.text("servers", "check", "its")
    assert mark.exists(), "the planted code runs once somebody approved it"


def test_an_open_question_is_withdrawn_once_the_server_is_approved_on_the_command_line(program: Program) -> None:
    write_server(program.work)
    write_project(program, env={"PYTHONPATH": str(program.work)})
    with program.pipe() as pipe:
        connect = pipe.send("connect", server="its")
        question = pipe.event("question", kind="trust_server")["question"]
        program.text("servers", "trust", "its", "--yes")
        assert pipe.event("question_withdrawn")["question"] == question
        assert pipe.event("told", level="info")["text"] == (
            "The server 'its' was approved elsewhere, so its question was withdrawn."
        )
        assert pipe.result(connect)["result"]["state"] == "ready"


def test_the_command_is_repeated_right_above_the_question(program: Program) -> None:
    many = {f"NAME_{number:03}": "x" for number in range(100)}
    for words in (["-P", "-m", "its_server"], ["-P", "-m", "its_server", "x" * 1000]):
        write_project(program, env=many, args=words)
        (*_, last, done) = program.text("servers", "trust", "its", "--yes").splitlines()
        command = shlex.join([sys.executable, *words])
        assert done.startswith("Approved")
        if len(command) > 400:
            command = f"{command[:400]}… ({len(command) - 400} more characters, see above)"
        assert last == f"Command: {command}"


def test_a_changed_hidden_value_asks_again_and_is_never_shown_in_clear(program: Program) -> None:
    write_server(program.work)
    secrets = ["hunter2-is-the-first", "hunter2-is-the-second"]
    for secret in secrets:
        write_project(program, env={"API_TOKEN": secret, "PYTHONPATH": str(program.work)})
        assert "not approved" in program.error("call", "its", "add", "a=1", "b=2", code=5)
        output = program.text("servers", "trust", "its", "--yes")
        assert "environment API_TOKEN: [hidden] (fingerprint " in output
        assert "hunter2" not in output
        assert "ok" in program.text("servers", "check", "its")
    assert "- environment API_TOKEN: [hidden] (fingerprint " in output
    assert "+ environment API_TOKEN: [hidden] (fingerprint " in output
    kept = [path for kind in ("data", "state") for path in (program.home / kind).rglob("*") if path.is_file()]
    assert any(path.suffix == ".db" for path in kept)
    assert not [path for path in kept if b"hunter2" in path.read_bytes()]


def test_another_configuration_folder_runs_its_code_only_when_it_is_approved_there(program: Program) -> None:
    entry = {"mcpServers": {"its": {"command": sys.executable, "args": ["-m", "its_server"]}}}
    mark = program.home / "planted-code-ran"
    for name, planted in (("mine", None), ("clone", mark)):
        write_server(program.home / name, planted)
        (program.home / name / "mcp.json").write_text(json.dumps(entry))
    mine, clone = (("--config-dir", str(program.home / name)) for name in ("mine", "clone"))
    program.text("servers", "trust", "its", "--yes", *mine)
    assert "ok" in program.text("servers", "check", "its", *mine)
    assert "not approved" in program.error("call", "its", "add", "a=1", "b=2", *clone, code=5)
    assert not mark.exists()


def test_a_named_file_never_runs_code_of_the_folder_that_mcphost_is_started_in(program: Program) -> None:
    mark = program.home / "planted-code-ran"
    write_server(program.home)
    write_server(program.work, mark)
    module = {"command": sys.executable, "args": ["-m", "its_server"]}
    script = {"command": sys.executable, "args": ["its_server.py"]}
    here = {**module, "cwd": "${workspaceFolder}"}
    filled = {"command": sys.executable, "args": ["-P", "-m", "its_server"], "env": {"PYTHONPATH": "${env:PWD}"}}
    file = program.servers(module=module, script=script, here=here, filled=filled)
    pwd = {"PWD": str(program.work)}
    for name in ("module", "script"):
        assert program.text("call", name, "add", "a=1", "b=2", "--mcp-config", file).strip() == "1 + 2 = 3"
    for name in ("here", "filled"):
        error_text = program.error("call", name, "add", "a=1", "b=2", "--mcp-config", file, code=5, **pwd)
        assert "not approved" in error_text
    assert not mark.exists()
    program.text("servers", "trust", "here", "--yes", "--mcp-config", file)
    assert program.text("call", "here", "add", "a=1", "b=2", "--mcp-config", file).strip() == "1 + 2 = 3"
    assert mark.exists(), "approved for this folder"


def test_a_named_file_of_the_current_folder_approves_its_servers(program: Program) -> None:
    write_server(program.work)
    entry = {"command": sys.executable, "args": ["-m", "its_server"], "cwd": "${workspaceFolder}"}
    (program.work / "mcp.json").write_text(json.dumps({"mcpServers": {"its": entry}}))
    assert program.text("call", "its", "add", "a=1", "b=2", "--mcp-config", "mcp.json").strip() == "1 + 2 = 3"


def test_a_link_that_points_elsewhere_later_is_another_folder(program: Program) -> None:
    mark = program.home / "planted-code-ran"
    write_server(program.home / "good")
    write_server(program.home / "planted", mark)
    link = program.home / "link"
    link.symlink_to("good")
    program.configure(its={"command": sys.executable, "args": ["-m", "its_server"], "cwd": str(link)})
    program.text("servers", "trust", "its", "--yes")
    assert "ok" in program.text("servers", "check", "its")
    link.unlink()
    link.symlink_to("planted")
    assert "not approved" in program.error("call", "its", "add", "a=1", "b=2", code=5)
    assert not mark.exists()


def test_a_program_is_never_looked_for_where_mcphost_is_started(program: Program) -> None:
    mark = program.home / "planted-code-ran"
    config = program.configure(its={"command": "its-server"}, own={"command": "its-server", "env": {"PATH": "bin"}})
    for folder, planted in ((program.work, f"touch {mark}\n"), (config.parent, "")):
        (folder / "bin").mkdir()
        run = folder / "bin" / "its-server"
        run.write_text(f"#!/bin/sh\n{planted}exec {sys.executable} -P -m mcphost.demo.server\n")
        run.chmod(0o700)
    path = {"PATH": f"bin::.:{program.work.name}/bin:{program.env['PATH']}"}
    for name in ("its", "own"):
        program.text("servers", "trust", name, "--yes")
    error_text = program.error("call", "its", "add", "a=1", "b=2", code=4, **path)
    assert "The command 'its-server' was not found." in error_text
    assert program.text("call", "own", "add", "a=1", "b=2", **path).strip() == "1 + 2 = 3"
    assert not mark.exists()


def test_signing_out_contacts_no_unapproved_server(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        program.configure(its={"url": f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"})
        assert "not approved" in program.error("logout", "its", "--forget-client", code=5)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_projects_entry_for_a_users_server_keeps_the_users_restrictions(program: Program) -> None:
    write_server(program.work)
    entry = {"command": sys.executable, "args": ["-P", "-m", "its_server"], "env": {"PYTHONPATH": str(program.work)}}
    program.configure(mine={**entry, "mcphost": {"reviewResults": True}, "disabledTools": ["add_note"]})
    (program.home / "config" / "config.toml").write_text('[consent]\nnever = ["mine/add"]\n')
    write_project(program, **{**entry, "args": ["-P", "-u", "-m", "its_server"]})
    output = program.text("servers", "trust", "its", "--yes")
    for line in ("same server as yours: mine", "results: reviewed by you", "disabled tool: add_note", "never: its/add"):
        assert f"  {line}" in output
    assert "never allows this: its/add" in program.error("call", "its", "add", "a=1", "b=2", code=5)
    tools = json.loads(program.text("tools", "its", "--json"))["tools"]
    assert [tool["name"] for tool in tools if tool.get("off")] == ["add_note"]
    # A different restriction of the user is a different subject of approval.
    (program.home / "config" / "config.toml").write_text("")
    assert "not approved" in program.error("call", "its", "add", "a=1", "b=2", code=5)
