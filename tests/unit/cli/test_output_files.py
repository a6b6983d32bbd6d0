"""Tests for `-o FILE`: a file gets its name only once it is complete, and no file is ever replaced."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcphost.cli.printing import create_output_file, write_output_file
from mcphost.errors import UsageError

KILLED = """
import os, signal, sys
from mcphost.cli.printing import create_output_file
with create_output_file(sys.argv[1]) as file:
    file.write(b"a part")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_file_appears_when_it_is_complete_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    with create_output_file(str(target)) as file:
        file.write(b"all")
        assert not target.exists()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"all", 0o600)
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_killed_program_leaves_no_part_of_a_file_under_its_name(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    assert (done.returncode, target.exists()) == (-signal.SIGKILL, False)


def test_a_full_disk_leaves_no_file_at_all(tmp_path: Path) -> None:
    def fill_disk() -> None:
        with create_output_file(str(tmp_path / "out.json")) as file:
            file.write(b"a part")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UsageError, match="No space left") as told:
        fill_disk()
    assert "enough space" in told.value.hint
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("none/out.json", "Create its folder first, or choose another file."),
        ("taken/out.json", "Create its folder first, or choose another file."),
        ("x" * 300, "Choose another file."),
        ("taken", "Choose a file that does not exist yet."),
    ],
)
def test_the_hint_is_about_why_the_file_cannot_be_written(tmp_path: Path, name: str, hint: str) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(UsageError, match="cannot be written") as told:
        write_output_file(str(tmp_path / name), b"x")
    assert told.value.hint == hint


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_another_program_created_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    target = tmp_path / "out.json"
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)

    def write_while_another_does() -> None:
        with create_output_file(str(target)) as file:
            file.write(b"ours")
            target.write_text("theirs")

    with pytest.raises(UsageError, match="File exists"):
        write_while_another_does()
    assert (target.read_text(), os.listdir(tmp_path)) == ("theirs", ["out.json"])
    with pytest.raises(UsageError, match="File exists"):
        write_output_file(str(target), b"ours")


def test_a_file_is_written_where_the_file_system_has_no_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", refuse_links)
    write_output_file(str(tmp_path / "out.json"), b"all")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.json", b"all")]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="File exists"):
        write_output_file(str(tmp_path / "out.json"), b"ours")
    assert not (tmp_path / "elsewhere").exists()


def refuse_links(*_args: object, **_options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))
