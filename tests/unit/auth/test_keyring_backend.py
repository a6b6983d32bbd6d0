"""Tests for the keyring: only encrypting backends are used, a real Secret Service works, and errors are clear."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcphost.auth.keyring_backend import KeyringBackend
from mcphost.errors import McpHostError
from tests.fakes.memory_backend import MemoryBackend

DAEMONS = ("dbus-run-session", "gnome-keyring-daemon")
ROUND_TRIP = """
import anyio
from mcphost.auth.keyring_backend import KeyringBackend
async def main():
    backend = KeyringBackend()
    print(await backend.describe())
    await backend.set("A_KEY", "tök€n" * 800)
    assert await KeyringBackend().get("A_KEY") == "tök€n" * 800
    await backend.delete("A_KEY")
    await backend.delete("A_KEY")
    print(await backend.get("A_KEY"))
anyio.run(main)
"""
NOTHING = """
import anyio
from mcphost.auth.keyring_backend import KeyringBackend
from mcphost.errors import McpHostError
async def main():
    backend = KeyringBackend()
    print(await backend.get("A_KEY"))
    for use in (backend.describe, lambda: backend.set("A_KEY", "x")):
        try:
            await use()
        except McpHostError as error:
            print(error)
anyio.run(main)
"""


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    kept = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime), "LANG": "C.UTF-8"}
    return {**kept, **more}


@pytest.mark.anyio
async def test_memory_keeps_secrets_until_the_end() -> None:
    backend = MemoryBackend()
    await backend.set("a", "1")
    assert await backend.get("a") == "1"
    await backend.delete("a")
    await backend.delete("a")
    assert await backend.get("a") is None
    assert "memory" in await backend.describe()


@pytest.mark.skipif(sys.platform != "linux", reason="a Secret Service exists on Linux only")
def test_a_real_secret_service_keeps_and_forgets(tmp_path: Path) -> None:
    if missing := [name for name in DAEMONS if shutil.which(name) is None]:
        if os.environ.get("CI"):
            pytest.fail(f"not installed: {missing}")
        pytest.skip(f"PEER MISSING: {missing} not installed")
    script = 'printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null; exec "$0" -c "$1"'
    result = subprocess.run(
        ["timeout", "40", "dbus-run-session", "--", "sh", "-c", script, sys.executable, ROUND_TRIP],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert result.stdout.splitlines() == ["Secret Service", "None"], result.stderr


def run_code(code: str, environ: dict[str, str]) -> str:
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a keyring")
def test_without_a_keyring_reading_finds_nothing_and_writing_reports_the_reason(tmp_path: Path) -> None:
    lines = run_code(NOTHING, environment(tmp_path, DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent")).splitlines()
    assert lines[0] == "None"
    assert len(lines) == 3
    assert all("no keyring" in line for line in lines[1:])


def test_a_back_end_that_keeps_plain_text_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "plaintext.py").write_text(
        "import keyring.backend\n"
        "class Keyring(keyring.backend.KeyringBackend):\n"
        "    priority = 9\n"
        "    def get_password(self, service, name): return 'LEAK'\n"
        "    def set_password(self, service, name, value): open('LEAK', 'w').write(value)\n"
    )
    environ = environment(tmp_path, PYTHONPATH=str(tmp_path), PYTHON_KEYRING_BACKEND="plaintext.Keyring")
    shown = run_code(NOTHING, environ)
    assert shown.splitlines()[0] == "None"
    assert "plaintext" in shown


@pytest.mark.skipif(sys.platform == "darwin", reason="the Keychain is looked for there")
def test_looking_for_a_keyring_runs_no_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "gcc"
    compiler.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\nexit 1\n")
    compiler.chmod(0o755)
    environ = environment(tmp_path, DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent")
    lines = run_code(NOTHING, environ | {"PATH": f"{tmp_path}:{environ['PATH']}"}).splitlines()
    assert lines[0] == "None"
    assert not (tmp_path / "was-run").exists()


class ShorteningKeyring:
    """A keyring that stores at most *limit* characters of each secret; 0 means that it ignores new secrets."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries = {"A_KEY": "before"}

    def get_password(self, service: str, name: str) -> str | None:
        return self.entries.get(name)

    def set_password(self, service: str, name: str, secret: str) -> None:
        if self.limit:
            self.entries[name] = secret[: self.limit]

    def delete_password(self, service: str, name: str) -> None:
        del self.entries[name]


@pytest.mark.anyio
@pytest.mark.parametrize(("limit", "stored"), [(4, None), (0, "before")])
async def test_an_incomplete_secret_does_not_stay_in_the_keyring(limit: int, stored: str | None) -> None:
    keyring = ShorteningKeyring(limit)
    backend = KeyringBackend(find_backend=lambda: keyring)
    with pytest.raises(McpHostError, match="did not store"):
        await backend.set("A_KEY", "sk-the-whole-key")
    assert keyring.entries.get("A_KEY") == stored
