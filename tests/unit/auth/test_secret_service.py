"""Tests for a Secret Service that is locked, stopped or killed: bounded waits, no hang, clear errors."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.flows.secret_service import secret_service

START = """
import os, signal, sys, time
import anyio
from mcphost.auth.keyring_backend import KeyringBackend
from mcphost.errors import McpHostError
async def tried(use):
    began = time.monotonic()
    try:
        print("ok", await use())
    except McpHostError as error:
        print("error", error.message)
    assert time.monotonic() - began < 15, time.monotonic() - began
async def main():
    backend = KeyringBackend()
    await backend.set("a", "before")
    pid = int(sys.argv[1])
"""
LOCKED = """
    import secretstorage
    secretstorage.get_default_collection(secretstorage.dbus_init()).lock()
    await tried(lambda: backend.get("a"))
    await tried(lambda: backend.set("a", "after"))
    await tried(backend.describe)
"""
STOPPED = """
    os.kill(pid, signal.SIGSTOP)
    await tried(lambda: backend.set("a", "after"))
    began = time.monotonic()
    await tried(lambda: backend.get("a"))
    assert time.monotonic() - began < 4, "the second one does not wait again"
    os.kill(pid, signal.SIGCONT)
    with anyio.fail_after(20):
        while True:
            try:
                found = await backend.get("a")
                break
            except McpHostError:
                await anyio.sleep(0.05)
    print(found)
    os.kill(pid, signal.SIGSTOP)
    with anyio.move_on_after(0.1):
        await backend.get("a")
"""
KILLED = """
    os.kill(pid, signal.SIGKILL)
    await tried(lambda: backend.get("a"))
    await tried(lambda: backend.set("a", "after"))
"""
LARGE = """
    await backend.set("a", "x" * 200_000)
    assert await backend.get("a") == "x" * 200_000
    await backend.delete("a")
    print(await backend.get("a"))
    await tried(lambda: backend.set("a", "x" * 300_000))
"""


def run_script(folder: Path, body: str) -> tuple[list[str], float]:
    """Run the lines *body* in a process with its own Secret Service; return its output lines and the seconds used."""
    with secret_service(folder) as env:
        (daemon,) = [
            child for child in psutil.Process().children(recursive=True) if child.name().startswith("gnome-keyring-d")
        ]
        started_at = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", f"{START}{body}\nanyio.run(main)", str(daemon.pid)],
            env={**env, "PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), time.monotonic() - started_at


@pytest.mark.req("auth.token.storage-fallback")
def test_a_keyring_that_stays_locked_times_out_with_an_error(tmp_path: Path) -> None:
    lines, _ = run_script(tmp_path, LOCKED)
    assert len(lines) == 3
    assert all(line.startswith("error The keyring ") for line in lines), lines


def test_a_hanging_keyring_is_skipped_used_again_once_it_answers_and_does_not_delay_the_exit(tmp_path: Path) -> None:
    lines, seconds = run_script(tmp_path, STOPPED)
    given_up = ["error The keyring did not respond within 5 s.", "error The keyring still does not respond."]
    assert lines == [*given_up, "after"]
    assert seconds < 30  # five seconds and the start of a program, on a busy machine


def test_a_keyring_that_dies_is_an_error(tmp_path: Path) -> None:
    lines, _ = run_script(tmp_path, KILLED)
    assert lines[1].startswith("error The keyring "), lines
    assert lines[0] == "ok None" or lines[0].startswith("error The keyring "), lines


def test_a_large_secret_is_stored_whole_and_an_oversized_one_is_refused(tmp_path: Path) -> None:
    lines, _ = run_script(tmp_path, LARGE)
    assert lines == ["None", "error The secret is over 262144 characters, too long for a keyring."]
