"""Tests for secrets in a file: private to its owner, intact after failures, and encrypted with a passphrase."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from mcphost.auth.file_backend import EncryptedFileBackend, FileBackend, PassphraseKey, SecretsLocked
from mcphost.errors import ConfigError, McpHostError

pytestmark = pytest.mark.anyio
QUICK = 14
"""The cheapest scrypt that is accepted: these tests are not about its cost."""


def files_starting_with(folder: Path, start: str) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(start)]


def create_file_backend(path: Path) -> EncryptedFileBackend:
    return EncryptedFileBackend(path, log_n=QUICK)


def test_the_pass_phrase_derivation_uses_the_recommended_cost() -> None:
    # OWASP Password Storage Cheat Sheet: scrypt with N = 2^17, r = 8, p = 1.
    assert PassphraseKey.derive("a phrase", b"0" * 16).log_n >= 17


@pytest.mark.req("auth.token.storage-fallback", "auth.token.storage")
async def test_an_encrypted_file_is_unreadable_without_its_passphrase(tmp_path: Path) -> None:
    path = tmp_path / "data" / "sealed.json"
    backend = create_file_backend(path)
    with pytest.raises(SecretsLocked):
        await backend.set("name-of-it", "tweety-4711")
    assert not path.exists()
    assert await backend.unlock("a passphrase")
    await backend.set("name-of-it", "tweety-4711")
    raw = path.read_bytes()
    assert b"tweety" not in raw
    assert b"name-of-it" not in raw
    assert b"passphrase" not in raw
    assert path.stat().st_mode & 0o777 == 0o600
    other = create_file_backend(path)
    with pytest.raises(SecretsLocked):
        await other.get("name-of-it")
    assert not await other.unlock("wrong")
    assert not other.is_unlocked
    assert await other.unlock("a passphrase")
    assert await other.get("name-of-it") == "tweety-4711"
    await other.delete("name-of-it")
    assert await backend.get("name-of-it") is None
    assert "passphrase" not in repr(backend.__dict__)


async def test_every_write_is_encrypted_again(tmp_path: Path) -> None:
    backend = create_file_backend(tmp_path / "s")
    await backend.unlock("p")
    nonces: set[str] = set()
    for number in range(3):
        await backend.set("a", str(number))
        nonces.add(json.loads(backend.path.read_bytes())["nonce"])
    assert len(nonces) == 3


@pytest.mark.parametrize("part", ["sealed", "nonce"])
async def test_a_sealed_file_that_was_changed_is_not_believed(tmp_path: Path, part: str) -> None:
    messages: list[str] = []
    backend = EncryptedFileBackend(tmp_path / "s", messages.append, log_n=QUICK)
    await backend.unlock("p")
    await backend.set("a", "secret")
    document = json.loads(backend.path.read_bytes())
    first = document[part][0]
    document[part] = ("B" if first != "B" else "C") + document[part][1:]
    backend.path.write_text(json.dumps(document))
    assert await backend.get("a") is None
    assert "damaged" in messages[0]
    (aside,) = files_starting_with(tmp_path, "s.damaged-")
    assert json.loads(aside.read_bytes()) == document
    await backend.set("a", "again")
    assert await backend.get("a") == "again"


async def test_the_cost_of_key_derivation_is_not_read_from_a_foreign_file(tmp_path: Path) -> None:
    backend = create_file_backend(tmp_path / "s")
    await backend.unlock("p")
    await backend.set("a", "secret")
    document = json.loads(backend.path.read_bytes()) | {"log_n": 40}
    backend.path.write_text(json.dumps(document))
    with anyio.fail_after(20):
        assert await create_file_backend(tmp_path / "s").unlock("p"), "a new file begins"
    assert files_starting_with(tmp_path, "s.damaged-")


async def test_a_plain_file_is_private_and_reports_when_it_was_not(tmp_path: Path) -> None:
    messages: list[str] = []
    backend = FileBackend(tmp_path / "new" / "f.json", messages.append)
    assert await backend.get("a") is None
    await backend.set("a", "tök€n")
    assert backend.path.stat().st_mode & 0o777 == 0o600
    assert backend.path.parent.stat().st_mode & 0o777 == 0o700
    backend.path.chmod(0o644)
    assert await backend.get("a") == "tök€n"
    assert await backend.get("a") == "tök€n"
    assert len(messages) == 1
    assert "0644" in messages[0]
    await backend.set("b", "x")
    assert backend.path.stat().st_mode & 0o777 == 0o600


async def test_a_link_in_its_place_is_neither_read_nor_written(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text('{"version": 1, "secrets": {"a": "theirs"}}')
    (tmp_path / "f.json").symlink_to(target)
    backend = FileBackend(tmp_path / "f.json")
    for use in (backend.get("a"), backend.set("a", "mine"), backend.delete("a")):
        with pytest.raises(ConfigError, match="symbolic link"):
            await use
    assert "theirs" in target.read_text()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 1}', b"\xff\xfe", b'{"version": 1, "secrets": {"a": 1}}']
)
async def test_a_damaged_file_is_moved_aside_and_reported(tmp_path: Path, content: bytes) -> None:
    messages: list[str] = []
    backend = FileBackend(tmp_path / "f.json", messages.append)
    backend.path.write_bytes(content)
    await backend.set("a", "new")
    assert await backend.get("a") == "new"
    (aside,) = files_starting_with(tmp_path, "f.json.damaged-")
    assert aside.read_bytes() == content
    assert any(aside.name in text for text in messages)


async def test_the_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "f.json")
    backend.path.write_text('{"version": 2, "secrets": {}}')
    with pytest.raises(McpHostError, match="version 2"):
        await backend.set("a", "x")
    assert "2" in backend.path.read_text()


async def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(McpHostError):
        await FileBackend(tmp_path / "file" / "f.json").set("a", "x")


async def test_a_file_that_would_grow_without_bound_is_not_written(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "f.json")
    await backend.set("a", "x")
    with pytest.raises(McpHostError, match="would be over"):
        await backend.set("b", "y" * 5_000_000)
    assert await backend.get("a") == "x"


WRITER = """
import anyio, sys
from pathlib import Path
from mcphost.auth.file_backend import FileBackend
async def main():
    backend = FileBackend(Path(sys.argv[1]))
    for number in range(15):
        await backend.set(f"{sys.argv[2]}-{number}", "x")
anyio.run(main)
"""


async def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.json"

    async def write(name: str) -> None:
        await anyio.run_process([sys.executable, "-c", WRITER, str(path), name], stderr=subprocess.PIPE)

    async with anyio.create_task_group() as tasks:
        for name in "abc":
            tasks.start_soon(write, name)
    assert len(json.loads(path.read_bytes())["secrets"]) == 45
    assert sorted(os.listdir(tmp_path)) == ["f.json", "f.lock"]


def test_a_sign_out_also_deletes_the_copy_that_a_killed_process_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    die = """
import anyio, os, signal, sys
from pathlib import Path
from mcphost.auth.file_backend import FileBackend
backend = FileBackend(Path(sys.argv[1]))
anyio.run(backend.set, "a", "tweety-4711")
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
anyio.run(backend.set, "b", "more")
"""
    killed = subprocess.run([sys.executable, "-c", die, str(path)], check=False)
    assert killed.returncode == -9
    (copy,) = files_starting_with(tmp_path, ".f.json.")
    assert b"tweety-4711" in copy.read_bytes()
    (tmp_path / ".f.json.notes").write_text("of the user")
    anyio.run(FileBackend(path).delete, "a")
    assert [one.name for one in files_starting_with(tmp_path, ".f.json.")] == [".f.json.notes"]
