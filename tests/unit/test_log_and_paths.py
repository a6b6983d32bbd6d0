"""Tests for mcphost's folders, and for its log: private to the user, without secrets, and never blocking."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcphost import log, paths


@pytest.fixture
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MCPHOST_STATE_DIR", str(tmp_path / "state"))
    root, before, raising = logging.getLogger(), list(logging.getLogger().handlers), logging.raiseExceptions
    level = root.level
    yield tmp_path / "state"
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)
    logging.raiseExceptions = raising


def test_variables_move_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"MCPHOST_{kind}_DIR", str(tmp_path / kind))
    places = [paths.config_dir(), paths.data_dir(), paths.state_dir(), paths.cache_dir()]
    assert [place.name for place in places] == ["CONFIG", "DATA", "STATE", "CACHE"]
    assert paths.config_dir(str(tmp_path / "flag")).name == "flag"
    assert list(tmp_path.iterdir()) == []


def test_programs_in_relative_folders_of_path_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("bin", "node_modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "helper").touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"./node_modules{os.pathsep}{os.pathsep}{tmp_path / 'bin'}")
    assert paths.find_program("helper") == str(tmp_path / "bin" / "helper")
    assert paths.find_program("helper", "./node_modules") is None
    assert paths.find_program("helper", "") is None
    assert paths.find_program("./bin/helper") == "./bin/helper"


def test_a_record_shows_invisible_characters_and_sends_no_control_sequences(state_folder: Path) -> None:
    log.configure_logging("info")
    logging.getLogger("mcphost.x").info("a\x1b]0;t\x07 b\u202ec \u2800 d\re\nf")
    assert log.log_file().read_text().endswith("a␛]0;t␇ b‹U+202E›c ‹U+2800› d␍e\n    f\n")


def test_folders_are_made_private(tmp_path: Path) -> None:
    made = paths.make_private_directory(tmp_path / "a" / "b")
    assert made.stat().st_mode & 0o777 == 0o700
    assert made.parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        paths.make_private_directory(tmp_path / "file")


def test_import_creates_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    code = "import mcphost.paths, mcphost.log, mcphost.cli.main; mcphost.paths.config_dir(); mcphost.log.log_file()"
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("auth.token.storage")
def test_log_is_private_redacted_and_one_record_cannot_fake_another(state_folder: Path) -> None:
    path = log.configure_logging("debug")
    assert path == state_folder / "mcphost.log"
    logging.getLogger("mcphost.x").debug("Authorization: Bearer abcdefghijkl\n2026-01-01 ERROR fake")
    text = path.read_text()
    assert "abcdefgh" not in text
    assert "\n    2026-01-01 ERROR fake" in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_log_is_rotated_and_the_newest_three_are_kept(
    state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_FILE_BYTES", 100)
    path = log.configure_logging("info")
    assert path is not None
    for number in range(12):
        logging.getLogger("mcphost.x").info(f"record {number} {'.' * 60}")
    kept = [path, *(state_folder / f"mcphost.log.{number}" for number in (1, 2, 3))]
    assert sorted(state_folder.iterdir()) == sorted(kept)
    assert [[line.split()[-2] for line in item.read_text().splitlines()] for item in kept] == [
        ["11"],
        ["10"],
        ["9"],
        ["8"],
    ]
    assert {item.stat().st_mode & 0o777 for item in kept} == {0o600}


def test_a_log_rotated_by_another_process_is_started_again(state_folder: Path) -> None:
    path = log.configure_logging("info")
    assert path is not None
    logging.getLogger("mcphost.x").info("before")
    path.rename(state_folder / "mcphost.log.1")
    path.touch()
    logging.getLogger("mcphost.x").info("after")
    path.rename(state_folder / "mcphost.log.2")
    logging.getLogger("mcphost.x").info("alone")
    texts = [(state_folder / name).read_text() for name in ("mcphost.log.1", "mcphost.log.2", "mcphost.log")]
    assert [text.split()[-1] for text in texts] == ["before", "after", "alone"]


def test_levels_apply_and_a_second_set_up_logs_once(state_folder: Path) -> None:
    log.configure_logging("debug")
    path = log.configure_logging("warning")
    assert path is not None
    logging.getLogger("mcphost.x").info("quiet")
    logging.getLogger("mcphost.x").warning("loud")
    text = path.read_text()
    assert "quiet" not in text
    assert text.count("loud") == 1


def test_an_unwritable_log_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_folder: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCPHOST_STATE_DIR", str(tmp_path / "file"))
    assert log.configure_logging() is None
    logging.getLogger("mcphost.x").error("nowhere")


@pytest.mark.parametrize("kind", ["link", "dangling link", "fifo", "folder"])
def test_only_a_regular_file_is_a_log_and_nothing_else_is_written_or_blocks(state_folder: Path, kind: str) -> None:
    state_folder.mkdir()
    other = state_folder.parent / "other"
    if kind == "link":
        other.write_text("mine\n")
    match kind:
        case "fifo":
            os.mkfifo(log.log_file())
        case "folder":
            log.log_file().mkdir()
        case _:
            log.log_file().symlink_to(other)
    assert log.configure_logging() is None
    logging.getLogger("mcphost").warning("text")
    assert not other.exists() or other.read_text() == "mine\n"


def test_a_log_that_becomes_a_link_while_the_program_runs_is_not_followed(state_folder: Path) -> None:
    log.configure_logging()
    other = state_folder.parent / "other"
    other.write_text("mine\n")
    logging.getLogger("mcphost").info("one")
    log.log_file().unlink()
    log.log_file().symlink_to(other)
    logging.getLogger("mcphost").info("two")
    assert other.read_text() == "mine\n"


def test_a_state_folder_that_is_deleted_ends_the_log_and_no_program(state_folder: Path) -> None:
    path = log.configure_logging()
    assert path is not None
    path.unlink()
    state_folder.rmdir()
    logging.getLogger("mcphost").info("one")
    assert not state_folder.exists()


def test_huge_record_is_cut(state_folder: Path) -> None:
    path = log.configure_logging()
    assert path is not None
    logging.getLogger("mcphost.x").error("y" * 100_000)
    assert path.stat().st_size < 9_000
