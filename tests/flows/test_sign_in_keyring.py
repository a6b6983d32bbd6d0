"""Tests for sign-ins in a real Secret Service: the next command finds and lists them, and logout deletes them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.conftest import skip_or_fail
from tests.flows.program import MCPHOST, Program
from tests.flows.sign_in_program import SignedInServer
from tests.unit.auth.oauth_peer import run_peer

pytestmark = pytest.mark.anyio
NEEDED = ("dbus-run-session", "gnome-keyring-daemon")
# Each line is a command of the program; its output goes to a file of its own.
COMMANDS = """
import json, os, subprocess, sys
config, *mcphost = sys.argv[1:]
for command in (["login", "tracker", "--yes"], ["tools", "tracker"], ["accounts"], ["logout", "tracker"], ["accounts"]):
    more = [] if command[0] == "accounts" else ["--mcp-config", config]
    full = [*mcphost, *command, "--json", *more]
    done = subprocess.run(full, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(json.dumps([command[0], done.returncode, done.stdout, done.stderr]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a Secret Service exists on Linux only")
@pytest.mark.req("auth.token.storage", "auth.signout")
async def test_the_next_command_finds_the_sign_in_until_logout(tmp_path: Path) -> None:
    if absent := [name for name in NEEDED if shutil.which(name) is None]:
        skip_or_fail(f"not installed: {absent}")
    program = Program(tmp_path)
    visit = tmp_path / "browser"
    visit.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request as u\nu.build_opener(u.ProxyHandler({{}})).open(sys.argv[1])\n"
    )
    visit.chmod(0o755)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    env = {**program.env, "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(runtime), "BROWSER": str(visit)}
    script = 'printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null; exec "$@"'
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(tracker={"url": peer.url})
        command = ["timeout", "45", "dbus-run-session", "--", "sh", "-c", script, "sh", sys.executable, "-c", COMMANDS]
        done = await anyio.run_process(
            [*command, config, *MCPHOST], env=env, cwd=program.work, stderr=subprocess.PIPE, check=False
        )
        tokens = (*peer.valid, *peer.families)
    messages: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(name, code) for name, code, _, _ in messages] == [
        ("login", 0), ("tools", 0), ("accounts", 0), ("logout", 0), ("accounts", 0),
    ], messages  # fmt: skip
    login, tools, listed, logout, after = (json.loads(out) for _, _, out, _ in messages)
    assert login["kept"]
    assert [tool["name"] for tool in tools["tools"]] == ["hello"]
    assert [account["server"] for account in listed["accounts"]] == ["tracker"]
    assert logout == {"server": "tracker", "signed_out": True, "revoked": True}
    assert after == {"accounts": []}
    assert len(peer.asked) == 1
    assert not any(token.encode() in done.stdout for token in tokens)
