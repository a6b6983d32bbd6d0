"""Tests for named secrets after the user has changed where they are stored: no copy stays in the other place."""

from pathlib import Path

import anyio
import pytest

from mcphost.auth.file_backend import PLAIN_FILE, FileBackend
from mcphost.auth.secret_store import NamedSecrets, resolve_reference
from mcphost.errors import McpHostError
from tests.fakes.memory_backend import MemoryBackend

pytestmark = pytest.mark.anyio


class LockedKeyring(MemoryBackend):
    async def get(self, name: str) -> str | None:
        raise McpHostError("The keyring is locked.")

    async def delete(self, name: str) -> None:
        raise McpHostError("The keyring is locked.")


async def test_a_new_value_replaces_the_one_in_the_other_place(tmp_path: Path) -> None:
    file, keyring = FileBackend(tmp_path / PLAIN_FILE), MemoryBackend()
    await file.set("work", "old")
    in_keyring = NamedSecrets(keyring, tmp_path, is_file=False)
    assert await in_keyring.get("work") == "old", "as references do"
    await in_keyring.set("work", "new")
    assert (await file.get("work"), await resolve_reference(keyring, tmp_path, "work")) == (None, "new")
    await NamedSecrets(keyring, tmp_path, is_file=True).set("work", "newest")
    assert (await file.get("work"), await keyring.get("work")) == ("newest", None)


@pytest.mark.parametrize("is_file", [True, False])
async def test_a_removed_secret_is_in_neither_place(tmp_path: Path, is_file: bool) -> None:
    file, keyring = FileBackend(tmp_path / PLAIN_FILE), MemoryBackend()
    for place in (file, keyring):
        await place.set("work", "x")
        await place.set("other", "y")
    await NamedSecrets(keyring, tmp_path, is_file=is_file).delete("work")
    assert [await place.get("work") for place in (file, keyring)] == [None, None]
    assert [await place.get("other") for place in (file, keyring)] == ["y", "y"]


async def test_a_copy_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    await NamedSecrets(LockedKeyring(), tmp_path, is_file=True, warn=told.append).delete("work")
    assert told == ["A copy of the secret work may still be in the keyring. The keyring is locked."]


async def test_the_place_in_use_takes_precedence_over_an_older_copy(tmp_path: Path) -> None:
    file, keyring = FileBackend(tmp_path / PLAIN_FILE), MemoryBackend()
    await file.set("work", "old")
    await keyring.set("work", "new")
    assert await NamedSecrets(keyring, tmp_path, is_file=False).get("work") == "new"
    assert await NamedSecrets(LockedKeyring(), tmp_path, is_file=False).get("work") == "old"
    with pytest.raises(McpHostError):
        await NamedSecrets(LockedKeyring(), tmp_path, is_file=False).get("other")


async def test_a_secret_is_removed_from_the_file_also_if_the_keyring_is_locked(tmp_path: Path) -> None:
    file = FileBackend(tmp_path / PLAIN_FILE)
    await file.set("work", "old")
    with pytest.raises(McpHostError):
        await NamedSecrets(LockedKeyring(), tmp_path, is_file=False).delete("work")
    assert await file.get("work") is None


async def test_storing_a_new_secret_in_the_file_says_nothing_about_a_locked_keyring(tmp_path: Path) -> None:
    told: list[str] = []
    await NamedSecrets(LockedKeyring(), tmp_path, is_file=True, warn=told.append).set("work", "x")
    assert told == []


def test_the_file_is_not_created_where_it_is_not_used(tmp_path: Path) -> None:
    secrets = NamedSecrets(MemoryBackend(), tmp_path / "data", is_file=False)

    async def store_and_remove() -> None:
        await secrets.set("work", "x")
        await secrets.delete("work")

    anyio.run(store_and_remove)
    assert list(tmp_path.iterdir()) == []
