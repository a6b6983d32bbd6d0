"""Tests for the audit log's checkpoint file: it only moves forward, is private to the user, and follows no links."""

import fcntl
from pathlib import Path
from threading import Thread

import pytest

from mcphost.store.audit_store import AuditCheckpoint, AuditPosition

ONE, TWO = AuditPosition(1, "a" * 64), AuditPosition(2, "b" * 64)


def test_the_checkpoint_moves_forward_and_back_only_on_request(tmp_path: Path) -> None:
    head = AuditCheckpoint(tmp_path / "state" / "head")
    assert head.read() is None
    head.advance(TWO)
    head.advance(ONE)
    head.advance(AuditPosition(2, "c" * 64))
    assert head.read() == TWO
    head.advance(ONE, allow_backward=True)
    assert head.read() == ONE
    assert (tmp_path / "state" / "head").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_it_is_the_users_alone_also_in_a_folder_that_is_there(tmp_path: Path) -> None:
    AuditCheckpoint(tmp_path / "head").advance(ONE)
    assert (tmp_path / "head").stat().st_mode & 0o777 == 0o600


def test_no_link_is_followed_neither_to_read_nor_to_write(tmp_path: Path) -> None:
    AuditCheckpoint(tmp_path / "real").advance(TWO)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="link"):
        AuditCheckpoint(tmp_path / "link").read()
    with pytest.raises(OSError, match="link"):
        AuditCheckpoint(tmp_path / "link").advance(ONE, allow_backward=True)
    assert AuditCheckpoint(tmp_path / "real").read() == TWO


def test_a_writer_of_the_checkpoint_waits_for_another(tmp_path: Path) -> None:
    head = AuditCheckpoint(tmp_path / "head")
    head.advance(ONE)
    thread = Thread(target=head.advance, args=(TWO,))
    with (tmp_path / "head").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.05)
        assert head.read() == ONE
    thread.join()
    assert head.read() == TWO


@pytest.mark.parametrize("text", [b"", b"no head", b"1 " + b"a" * 64 + b"\n", b"%020d " % 1 + b"A" * 64 + b"\n"])
def test_an_invalid_checkpoint_is_ignored_and_rewritten(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "head").write_bytes(text)
    assert AuditCheckpoint(tmp_path / "head").read() is None
    AuditCheckpoint(tmp_path / "head").advance(ONE)
    assert AuditCheckpoint(tmp_path / "head").read() == (ONE if len(text) <= 86 else None)
