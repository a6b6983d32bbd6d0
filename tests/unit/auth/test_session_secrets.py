"""Tests for secrets that are kept in memory when no storage works."""

import pytest

from mcphost.auth.session_secrets import SessionSecrets
from mcphost.errors import KeyringMissing, McpHostError
from tests.fakes.memory_backend import MemoryBackend

pytestmark = pytest.mark.anyio


class MissingBackend(MemoryBackend):
    """A secret store that cannot be used."""

    async def describe(self) -> str:
        """Raise McpHostError, as without a keyring."""
        raise McpHostError("There is no keyring.")


class LockedBackend(MemoryBackend):
    """A secret store whose secrets cannot be deleted."""

    async def delete(self, name: str) -> None:
        """Raise McpHostError, as a locked keyring would."""
        raise McpHostError("The keyring is locked.")


async def test_a_secret_in_memory_remains_if_the_storage_fails_to_delete_it() -> None:
    secrets = SessionSecrets(LockedBackend)
    await secrets.set("KEY", "old")
    secrets.keep_for_session("KEY", "new")
    with pytest.raises(McpHostError, match="locked"):
        await secrets.delete("KEY")
    assert await secrets.get("KEY") == "new"


async def test_a_deleted_secret_is_gone_from_memory_and_storage() -> None:
    secrets = SessionSecrets(MemoryBackend)
    await secrets.set("KEY", "old")
    secrets.keep_for_session("KEY", "new")
    await secrets.delete("KEY")
    assert await secrets.get("KEY") is None


async def test_a_secret_is_announced_for_the_place_in_which_it_will_be_stored() -> None:
    assert await SessionSecrets(MemoryBackend).find_place() == "keyring"
    assert await SessionSecrets(MemoryBackend, "file").find_place() == "file"
    assert await SessionSecrets(MissingBackend).find_place() == "session"


class NoKeyring(MemoryBackend):
    """A secret store without a keyring."""

    async def describe(self) -> str:
        """Raise KeyringMissing."""
        raise KeyringMissing("No keyring service is responding.")


@pytest.mark.parametrize("is_chosen", [False, True])
async def test_without_a_keyring_the_user_is_asked_once_for_a_file(is_chosen: bool) -> None:
    file, asked = MemoryBackend(), list[tuple[str, str]]()

    async def ask(server: str, reason: str) -> MemoryBackend | None:
        asked.append((server, reason))
        return file if is_chosen else None

    secrets = SessionSecrets(NoKeyring)
    secrets.ask_file = ask
    places = [await secrets.prepare(name) for name in ("a", "b")]
    assert asked == [("a", "No keyring service is responding.")]
    assert places == (["file", "file"] if is_chosen else ["session", "session"])
    await secrets.set("KEY", "value")
    assert await file.get("KEY") == ("value" if is_chosen else None)


async def test_nobody_is_asked_if_the_keyring_works_or_the_frontend_cannot_ask() -> None:
    async def ask(server: str, reason: str) -> None:
        raise AssertionError(server)

    secrets = SessionSecrets(MemoryBackend)
    secrets.ask_file = ask
    assert await secrets.prepare("a") == "keyring"
    assert await SessionSecrets(NoKeyring).prepare("a") == "session"
