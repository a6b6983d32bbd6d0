"""Tests for `mcphost servers secure`, which moves a secret from mcp.json to the keyring; the server still gets it."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.flows.program import CANARY, Program
from tests.flows.secret_service import secret_service

SERVER = """
import os, runpy, sys
open(sys.argv[1], "w").write(os.environ["THE_TOKEN"])
runpy.run_module("mcphost.demo.server", run_name="__main__")
"""


def write_commented_config(program: Program, told: Path) -> Path:
    """Write an mcp.json that contains a secret and a comment and has an unusual file mode; return its path."""
    path = program.configure()
    arguments = json.dumps(["-c", SERVER, str(told)])
    path.write_text(
        f'{{"mcpServers": {{ // mine\n  "demo": {{"command": {json.dumps(sys.executable)}, "args": {arguments},\n'
        f'    "env": {{"THE_TOKEN": "{CANARY}", "MODE": "x"}}, }},\n}}}}\n'
    )
    path.chmod(0o640)
    return path


@pytest.mark.req("auth.token.storage")
def test_a_secret_is_moved_and_the_server_gets_it_from_the_keyring(tmp_path: Path) -> None:
    program, told_file = Program(tmp_path), tmp_path / "told"
    path = write_commented_config(program, told_file)
    before = path.read_text()
    with secret_service(tmp_path) as env:
        program.text("servers", "trust", "demo", "--yes", **env)
        warned = program.run("servers", "list", **env).stderr.decode()
        assert "mcphost servers secure demo" in warned
        assert "0640" in warned
        document = json.loads(program.text("servers", "secure", "demo", "--yes", "--json", **env))
        assert document == {
            "server": "demo",
            "moved": [{"value": "env.THE_TOKEN", "reference": "${keyring:demo-the_token}"}],
        }
        assert path.read_text() == before.replace(CANARY, "${keyring:demo-the_token}")
        assert path.stat().st_mode & 0o777 == 0o640
        assert "secret" not in program.run("servers", "list", **env).stderr.decode()
        program.text("tools", "demo", **env)  # the approval remains
        assert told_file.read_text() == CANARY
        assert "has no plaintext secret" in program.text("servers", "secure", "demo", "--yes", **env)
    stored = b"".join(
        item.read_bytes() for kind in ("config", "data", "state") for item in (tmp_path / kind).rglob("*.*")
    )
    assert CANARY.encode() not in stored


def test_secrets_in_arguments_and_the_address_are_moved_and_the_file_keeps_its_layout(tmp_path: Path) -> None:
    program, told_file = Program(tmp_path), tmp_path / "told"
    path = program.configure()
    server = SERVER.replace('os.environ["THE_TOKEN"]', "sys.argv[2]")
    text = (
        f'{{"mcpServers": {{ // mine\n  "demo": {{"command": {json.dumps(sys.executable)}, "args": [\n'
        f'    "-c", {json.dumps(server)}, {json.dumps(str(told_file))}, // where\n    "--token={CANARY}",\n  ]}},\n'
        f'  "u": {{"url": "https://me:{CANARY}@127.0.0.1:1/?key={CANARY}"}}\n}}}}\n'
    )
    path.write_text(text)
    with secret_service(tmp_path) as env:
        program.text("servers", "trust", "demo", "--yes", **env)
        listed = program.run("servers", "list", **env)
        assert CANARY.encode() not in listed.stdout + listed.stderr
        assert "mcphost servers secure demo" in listed.stderr.decode()
        assert "stays approved" in program.text("servers", "secure", "demo", "--yes", **env)
        program.text("servers", "secure", "u", "--yes", **env)
        expected = text.replace(f"--token={CANARY}", "--token=${keyring:demo-token}")
        expected = expected.replace(f"me:{CANARY}@", "me:${keyring:u-password}@")
        assert path.read_text() == expected.replace(f"key={CANARY}", "key=${keyring:u-key}")
        program.text("tools", "demo", **env)
    assert told_file.read_text() == f"--token={CANARY}"


def test_without_a_keyring_nothing_is_moved(tmp_path: Path) -> None:
    program = Program(tmp_path)
    path = write_commented_config(program, tmp_path / "told")
    before = path.read_bytes()
    error_text = program.error("servers", "secure", "demo", code=3, DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent")
    assert "Nothing was moved" in error_text
    assert "${env:NAME}" in error_text
    assert path.read_bytes() == before


def test_where_sign_ins_are_kept_in_a_file_by_choice_secrets_are_too(tmp_path: Path) -> None:
    program, told_file = Program(tmp_path), tmp_path / "told"
    path = write_commented_config(program, told_file)
    (path.parent / "config.toml").write_text('[secrets]\nstore = "file"\n')
    env = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    program.text("servers", "trust", "demo", "--yes", **env)
    assert "demo stays approved" in program.text("servers", "secure", "demo", "--yes", **env)
    assert "carried" in program.text("audit", "--json", **env)
    assert CANARY not in path.read_text()
    assert (tmp_path / "data" / "secrets.json").stat().st_mode & 0o777 == 0o600
    program.text("tools", "demo", **env)
    assert told_file.read_text() == CANARY


@pytest.mark.parametrize("as_argument", [True, False])
def test_a_secret_is_moved_out_of_the_entry_of_one_folder(tmp_path: Path, as_argument: bool) -> None:
    program, told_file = Program(tmp_path), tmp_path / "told"
    path = program.configure().with_name("local.json")
    command = ["-c", SERVER, str(told_file)]
    entry = {"command": sys.executable, "args": command, "env": {"THE_TOKEN": CANARY}}
    if as_argument:
        entry = {"command": sys.executable, "args": [*command, f"--token={CANARY}"], "env": {"THE_TOKEN": "x"}}
    folders = {folder: {"mcpServers": {"demo": entry}} for folder in (str(program.work.resolve()), "/elsewhere")}
    path.write_text(json.dumps({"folders": folders}))
    (path.parent / "config.toml").write_text('[secrets]\nstore = "file"\n')
    env = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    program.text("servers", "trust", "demo", "--yes", **env)
    assert "stays approved" in program.text("servers", "secure", "demo", "--yes", **env)
    after = json.loads(path.read_text())["folders"]
    assert CANARY not in json.dumps(after[str(program.work.resolve())])
    assert after["/elsewhere"] == folders["/elsewhere"]
    program.text("tools", "demo", **env)
    assert told_file.read_text() == ("x" if as_argument else CANARY)


def test_an_approval_survives_only_if_nothing_but_the_secret_changed(tmp_path: Path) -> None:
    program, told_file = Program(tmp_path), tmp_path / "told"
    path = write_commented_config(program, told_file)
    (path.parent / "config.toml").write_text('[secrets]\nstore = "file"\n')
    env = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    assert "stays approved" not in program.text("servers", "secure", "demo", "--yes", **env)
    program.error("tools", "demo", code=5, **env)
    # Approved as it was; an argument is added; then its secret is moved.
    path.write_text(path.read_text().replace("${keyring:demo-the_token}", CANARY))
    program.text("servers", "trust", "demo", "--yes", **env)
    path.write_text(path.read_text().replace('"env"', '"cwd": "/", "env"'))
    assert "stays approved" not in program.text("servers", "secure", "demo", "--yes", **env)
    program.error("tools", "demo", code=5, **env)
    assert not told_file.exists()
    assert "carried" not in program.text("audit", "--json", **env)


def test_a_link_is_not_followed_for_writing_and_a_foreign_file_not_changed(tmp_path: Path) -> None:
    program = Program(tmp_path)
    path = write_commented_config(program, tmp_path / "told")
    elsewhere = tmp_path / "dotfiles.json"
    os.rename(path, elsewhere)
    path.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with secret_service(tmp_path) as env:
        assert "symbolic link" in program.error("servers", "secure", "demo", "--yes", code=3, **env)
        flag = program.error("servers", "secure", "demo", "--mcp-config", str(elsewhere), code=2, **env)
    assert "not your own mcp.json" in flag
    assert elsewhere.read_bytes() == before


def test_a_configuration_cannot_refer_to_a_sign_in(tmp_path: Path) -> None:
    program = Program(tmp_path)
    (tmp_path / "data").mkdir()
    secrets = tmp_path / "data" / "secrets.json"
    secrets.write_text(json.dumps({"version": 1, "secrets": {"sign-in-tokens-1": CANARY, "mine": "x-1234567"}}))
    secrets.chmod(0o600)
    file = program.servers(
        thief={"command": "true", "env": {"A": "${keyring:sign-in-tokens-1}"}},
        fine={"command": sys.executable, "args": ["-m", "mcphost.demo.server"], "env": {"A": "${keyring:mine}"}},
    )
    env = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    assert "which does not exist" in program.error("tools", "thief", "--mcp-config", file, code=3, **env)
    program.text("tools", "fine", "--mcp-config", file, **env)
