"""Tests for storing tool results that are too big for a model: private files, limited in size and age."""
# ruff: noqa: ASYNC240 - the test looks at small files of its own

import os
import time
from pathlib import Path

import pytest

from mcphost.config.schema import ResultsConfig
from mcphost.errors import StoreError
from mcphost.store.large_results import ResultStore

pytestmark = pytest.mark.anyio


async def test_a_stored_result_is_complete_and_private_to_the_user(tmp_path: Path) -> None:
    results = ResultStore(tmp_path / "results")
    path = Path(await results.save("héllo\ud800 \x1b[2J" * 1000))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert (await results.read(path.stem)).text == "héllo\ufffd \x1b[2J" * 1000
    assert [item.suffix for item in path.parent.iterdir()] == [".txt"]


@pytest.mark.parametrize("limit", [4, 5, 6, 7])
async def test_parts_join_to_the_original_and_no_character_is_cut(tmp_path: Path, limit: int) -> None:
    results = ResultStore(tmp_path / "results")
    text = "aé語😀" * 20
    name = Path(await results.save(text)).stem
    result, offset = "", 0
    while offset < len(text.encode()):
        part = await results.read(name, offset, limit)
        assert part.offset == offset
        result, offset = result + part.text, part.end
    assert result == text
    assert (await results.read(name, 10**9)).text == ""
    assert "\ufffd" not in (await results.read(name, 2, 9)).text


@pytest.mark.parametrize("name", ["", "../store", "a" * 16 + "/..", "A" * 16, "a" * 15, "a" * 16])
async def test_a_name_from_outside_reaches_no_other_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "store.txt").write_text("secret")
    with pytest.raises(StoreError):
        await ResultStore(tmp_path / "results").read(name)


async def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "results" / f"{'a' * 16}.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(StoreError):
        await ResultStore(tmp_path / "results").read("a" * 16)


async def test_old_and_surplus_files_are_deleted_and_foreign_ones_stay(tmp_path: Path) -> None:
    results = ResultStore(tmp_path, ResultsConfig(megabytes=1, days=30))
    old, early = [Path(await results.save("x" * 400_000)) for _ in range(2)]
    for path, days in ((old, 31), (early, 1)):
        os.utime(path, (time.time() - days * 86_400,) * 2)
    (tmp_path / "mine.txt").write_text("mine")
    await results.delete_expired()
    assert [old.exists(), early.exists()] == [False, True]
    late = Path(await results.save("y" * 700_000))
    assert [early.exists(), late.exists(), (tmp_path / "mine.txt").exists()] == [False, True, True]
    with pytest.raises(StoreError, match="1 MB"):
        await results.save("z" * 1_000_001)


async def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("a file")
    with pytest.raises(StoreError, match="results"):
        await ResultStore(tmp_path / "results").save("x")
    with pytest.raises(StoreError, match="not stored in this run"):
        await ResultStore(None).save("x")
    await ResultStore(None).delete_expired()
