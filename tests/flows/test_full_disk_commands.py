"""Tests that commands that only read still print what is stored when the disk is full."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import skip_or_fail
from tests.flows.program import MCPHOST, Program

_FILL = """
set -e
mount -t tmpfs -o size=4m tmpfs "$0"
cp "$1"/* "$0"
cat /dev/zero > "$0/fill" 2>/dev/null || true
shift
exec "$@"
"""
"""A script that puts a data folder on a full disk of its own, and then runs a command."""


def run_on_full_disk(
    program: Program, stored: Path, *arguments: str, command: Sequence[str | Path] = MCPHOST
) -> "subprocess.CompletedProcess[str]":
    """Run a command with the files of the folder *stored* as its data, on a file system without space."""
    command = ["unshare", "-rm", "sh", "-c", _FILL, str(program.home / "data"), str(stored), *command, *arguments]
    return subprocess.run(
        command, env=program.env, cwd=program.work, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


def require_mount_namespaces() -> None:
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
        skip_or_fail("no mount namespaces: unshare -rm failed")


def test_stored_data_is_listed_searched_and_shown_on_a_full_disk_and_a_change_is_refused(program: Program) -> None:
    require_mount_namespaces()
    program.text("servers", "add", "demo", "--", "python", "-c", "pass")
    program.text("run", "--model", "demo", "hello there")
    (conversation,) = json.loads(program.text("sessions", "list", "--json"))["sessions"]
    stored = program.home / "stored"
    shutil.copytree(program.home / "data", stored)
    for arguments, expected in (
        (("sessions", "list"), "hello there"),
        (("sessions", "search", "hello"), "hello there"),
        (("sessions", "show", conversation["id"]), "hello there"),
        (("servers", "list"), "demo  approved  python -c pass"),
        (("audit",), "approved  demo"),
        (("costs",), "demo"),
        (("--help",), "usage: mcphost"),
    ):
        done = run_on_full_disk(program, stored, *arguments)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout, (arguments, done.stdout, done.stderr)
    done = run_on_full_disk(program, stored, "sessions", "rename", conversation["id"], "new")
    assert done.returncode != 0
    assert "The disk is full: the conversation store" in done.stderr


def test_a_store_that_cannot_be_read_on_a_full_disk_is_not_listed_as_empty(program: Program) -> None:
    require_mount_namespaces()
    program.text("run", "--model", "demo", "hello there")
    stored = program.home / "stored"
    shutil.copytree(program.home / "data", stored)
    with (stored / "mcphost.db").open("r+b") as file:
        file.seek(100)  # the schema follows the header
        file.write(b"\xff" * 1_000)
    done = run_on_full_disk(program, stored, "sessions", "list")
    assert done.returncode != 0, done.stdout
    assert "The disk is full: the conversation store" in done.stderr


def test_a_damaged_store_on_a_full_disk_is_one_clear_error(program: Program) -> None:
    require_mount_namespaces()
    program.text("run", "--model", "demo", "hello there")
    stored = program.home / "stored"
    shutil.copytree(program.home / "data", stored)
    (stored / "mcphost.db").write_bytes(b"no database " * 1_000)
    done = run_on_full_disk(program, stored, "sessions", "list")
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    assert done.stderr.count("The disk is full: the conversation store") == 1
    assert "mcphost sessions salvage" in done.stderr  # the damaged file was set aside


_READS = """
import sys
from pathlib import Path
import anyio
from mcphost.store.database import Database
from mcphost.errors import StoreError

copies, copy = [], Database._copy_to_memory
Database._copy_to_memory = lambda database: copies.append(1) or copy(database)
folder = Path(sys.argv[1])


def count(db):
    return db.execute("SELECT count(*) FROM messages").fetchone()[0]


async def main():
    database = Database(folder / "mcphost.db")
    found = [await database.run(count), await database.read(count, seconds=9), await database.run(count)]
    print(found, len(copies))
    try:
        await database.run(lambda db: db.execute("DELETE FROM messages"))
    except StoreError as error:
        print("full" if "disk is full" in error.message else error.message)
    print(await database.run(count))
    (folder / "fill").unlink()
    await database.run(lambda db: db.execute("DELETE FROM messages"))
    print(await database.run(count))
    await database.close()


anyio.run(main)
"""


def test_several_reads_on_a_full_disk_copy_the_store_once(program: Program) -> None:
    require_mount_namespaces()
    program.text("run", "--model", "demo", "hello there")
    stored = program.home / "stored"
    shutil.copytree(program.home / "data", stored)
    python = (sys.executable, "-c", _READS)
    done = run_on_full_disk(program, stored, str(program.home / "data"), command=python)
    assert done.stdout.splitlines() == ["[2, 2, 2] 1", "full", "2", "0"], done.stderr
