"""Tests for the lines that `mcphost pipe` reads and writes, over real file descriptors."""

import json
import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcphost.headless import line_io
from mcphost.headless.line_io import InputLines, LineWriter, OversizedLine
from mcphost.sanitize import is_sanitized

pytestmark = pytest.mark.anyio


async def collect_lines(descriptor: int) -> list[bytes | OversizedLine]:
    return [line async for line in InputLines(descriptor)]


async def test_lines_of_a_file_are_read_and_the_last_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"one\n\ntwo\r\nthree")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    assert await collect_lines(descriptor) == [b"one", b"", b"two\r", b"three"]
    os.close(descriptor)


async def test_many_lines_and_lines_over_many_reads_arrive_intact(tmp_path: Path) -> None:
    expected = [b"x" * (number * 37 % 5000) for number in range(1000)] + [b"y" * 1_000_000, b"end"]
    (tmp_path / "f").write_bytes(b"\n".join(expected) + b"\n")
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    assert await collect_lines(descriptor) == expected
    os.close(descriptor)


async def test_line_over_the_limit_is_thrown_away_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_io, "MAX_LINE_BYTES", 100_000)
    (tmp_path / "f").write_bytes(b"a\n" + b"z" * 500_000 + b"\nb\n" + b"z" * 100_001)
    descriptor = os.open(tmp_path / "f", os.O_RDONLY)
    received = await collect_lines(descriptor)
    os.close(descriptor)
    assert [line if isinstance(line, bytes) else "too long" for line in received] == [
        b"a",
        "too long",
        b"b",
        "too long",
    ]


async def test_lines_of_a_pipe_come_as_they_are_written() -> None:
    reader, writer = os.pipe()
    source = InputLines(reader)
    os.write(writer, b"first\nsec")
    with anyio.fail_after(20):
        assert await anext(source) == b"first"
        os.write(writer, b"ond\n")
        assert await anext(source) == b"second"
        os.close(writer)
        with pytest.raises(StopAsyncIteration):
            await anext(source)
    os.close(reader)


async def test_a_cancelled_read_loses_no_line() -> None:
    reader, writer = os.pipe()
    source = InputLines(reader)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anext(source)
    os.write(writer, b"first\nsecond\n")
    with anyio.fail_after(20):
        assert await anext(source) == b"first"
    os.close(writer)
    with anyio.fail_after(20):
        assert [line async for line in source] == [b"second"]
        assert [line async for line in source] == []
    os.close(reader)


async def test_lines_read_ahead_can_be_discarded() -> None:
    reader, writer = os.pipe()
    source = InputLines(reader)
    os.write(writer, b"".join(b"old %d\n" % number for number in range(10)))
    with anyio.fail_after(20):
        assert await anext(source) == b"old 0"
        source.discard()
        os.write(writer, b"new\n")
        os.close(writer)
        assert [line async for line in source] == [b"new"]
    os.close(reader)


async def test_writer_keeps_order_and_ends_after_everything_is_written() -> None:
    reader, descriptor = os.pipe()
    writer = LineWriter(descriptor)
    for number in range(100):
        writer.put(str(number).encode())
    writer.close()
    with anyio.fail_after(20):
        await writer.finished.wait()
    os.close(descriptor)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"".join(b"%d\n" % number for number in range(100))


async def test_text_of_a_server_cannot_break_a_line_in_programs_that_split_at_other_separators() -> None:
    reader, descriptor = os.pipe()
    writer = LineWriter(descriptor)
    events = [{"text": f"a{mark}b"} for mark in "\x85\u2028\u2029\x0b\x1c"]
    for event in events:
        writer.put(json.dumps(event, ensure_ascii=False).encode())
    writer.close()
    with anyio.fail_after(20):
        await writer.finished.wait()
    os.close(descriptor)
    with os.fdopen(reader, "rb") as file:
        assert [json.loads(line) for line in file.read().decode().splitlines()] == events


async def test_a_slow_reader_delays_no_other_output_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_io, "MAX_BACKLOG_BYTES", 1_000_000)
    reader, descriptor = os.pipe()
    writer = LineWriter(descriptor)
    with anyio.fail_after(20):
        for _ in range(40):
            writer.put(b"x" * 50_000)
            await anyio.lowlevel.checkpoint()
    assert writer.is_full
    assert not writer.is_reader_closed()
    os.close(reader)
    with anyio.fail_after(20):
        await writer.finished.wait()
    assert writer.is_reader_closed()
    os.close(descriptor)


async def test_a_terminal_gets_no_characters_that_it_could_obey_or_hide() -> None:
    reader, descriptor = os.openpty()
    writer = LineWriter(descriptor)
    value = {"text": "a\x9b31m\u202eb\U000e0041é"}
    writer.put(json.dumps(value, ensure_ascii=False).encode())
    writer.close()
    with anyio.fail_after(20):
        await writer.finished.wait()
    shown = os.read(reader, 1000).decode()
    assert is_sanitized(shown.strip())
    assert "é" in shown
    assert json.loads(shown) == value
    os.close(descriptor)
    os.close(reader)
