"""Tests for the account index: unreadable files are moved aside and reported, never overwritten."""

import os
from pathlib import Path

import pytest

from mcphost.auth.accounts import INDEX_FILE, Account, AccountIndex
from mcphost.auth.token_store import TokenStore
from tests.fakes.memory_backend import MemoryBackend

pytestmark = pytest.mark.anyio
URL = "https://mcp.example/mcp"
ENTRY = Account(server="peer", url=URL, issuer="https://as.example")


def damaged_copies(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{INDEX_FILE}.damaged-*"))


@pytest.mark.parametrize(
    "content", [b"{", b"", b"[]", b'{"accounts": 7}', b'{"accounts": [' + b" " * 5_000_000 + b"]}"]
)
async def test_a_damaged_list_is_moved_aside_intact_before_a_new_one_is_written(tmp_path: Path, content: bytes) -> None:
    (tmp_path / INDEX_FILE).write_bytes(content)
    messages: list[str] = []
    index = AccountIndex(tmp_path, messages.append)
    assert (await index.read()).accounts == ()
    assert (tmp_path / INDEX_FILE).read_bytes() == content, "reading moves nothing"
    assert "is damaged" in messages[0]
    await index.update(ENTRY.identity, ENTRY)
    assert (await index.read()).accounts == (ENTRY,)
    (kept,) = damaged_copies(tmp_path)
    assert kept.read_bytes() == content
    assert f"was moved to {kept.name}" in messages[-1]
    await index.choose_account(URL, "work")
    assert len(damaged_copies(tmp_path)) == 1
    assert (await index.read()).accounts == (ENTRY,)


async def test_a_pipe_in_place_of_the_list_is_reported_and_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / INDEX_FILE)
    messages: list[str] = []
    assert (await AccountIndex(tmp_path, messages.append).read()).accounts == ()
    assert "cannot be read, so earlier sign-ins are unknown: it is not a regular file" in messages[0]


async def test_a_list_that_cannot_be_opened_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / INDEX_FILE).mkdir()
    messages: list[str] = []
    index = AccountIndex(tmp_path, messages.append)
    assert (await index.read()).accounts == ()
    assert "cannot be read" in messages[0]
    with pytest.raises(OSError, match="directory"):
        await index.update(ENTRY.identity, ENTRY)
    assert (tmp_path / INDEX_FILE).is_dir()
    assert damaged_copies(tmp_path) == []


async def test_a_list_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    index = AccountIndex(tmp_path)
    await index.update(ENTRY.identity, ENTRY)
    before = (tmp_path / INDEX_FILE).read_bytes()
    huge = Account(server="peer", url=f"{URL}/2", issuer="https://as.example", scopes=("x" * 5_000_000,))
    with pytest.raises(OSError, match="over 4 MiB"):
        await index.update(huge.identity, huge)
    assert (tmp_path / INDEX_FILE).read_bytes() == before


async def test_a_damaged_list_is_reported_to_the_user_once(tmp_path: Path) -> None:
    (tmp_path / INDEX_FILE).write_bytes(b"{")
    messages: list[str] = []
    token_store = TokenStore(MemoryBackend(), tmp_path, messages.append)
    for _ in range(3):
        assert await token_store.accounts() == ()
    assert len(messages) == 1
    assert "earlier sign-ins are unknown" in messages[0]
