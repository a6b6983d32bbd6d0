"""Tests for reading PDF files in a sandbox process: the text of the pages, and limited cost for hostile files."""

import os
import random
import signal
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from time import monotonic

import psutil
import pytest

from mcphost.sandbox.pdf_reader import MAX_PDF_BYTES, PdfReader, PdfText
from tests.fakes.pdf_files import encrypt_pdf, make_pdf, make_pdf_of

pytestmark = pytest.mark.anyio

LIMIT = 256 * 1024


@pytest.fixture
async def reader() -> AsyncIterator[PdfReader]:
    reader = PdfReader()
    yield reader
    await reader.close()


async def read(reader: PdfReader, body: bytes, limit: int = LIMIT) -> PdfText:
    text = await reader.read(body, limit)
    assert isinstance(text, PdfText), text
    return text


async def test_the_text_of_each_page_is_read_with_its_number(reader: PdfReader) -> None:
    found = await read(reader, make_pdf("The tide is high", "Second page"))
    assert found.text == "[Page 1]\nThe tide is high\n\n[Page 2]\nSecond page\n\n"
    assert (found.pages, found.read, found.unread) == (2, 2, 0)


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
async def test_an_encrypted_file_without_a_password_is_read_and_one_with_a_password_is_reported(
    reader: PdfReader, algorithm: str
) -> None:
    plain = make_pdf("Hidden words")
    assert "Hidden words" in (await read(reader, encrypt_pdf(plain, "", algorithm))).text
    assert await reader.read(encrypt_pdf(plain, "sesame", algorithm), LIMIT) == "it is protected with a password"


async def test_a_long_text_is_cut_at_a_page_and_the_read_pages_are_counted(reader: PdfReader) -> None:
    found = await read(reader, make_pdf(*[f"page {number} " + "x" * 80 for number in range(50)]), 1_000)
    assert len(found.text.encode()) <= 1_000
    assert (found.pages, found.read) == (50, 10)
    assert found.text.endswith("\n\n")
    alone = await read(reader, make_pdf("y" * 5_000), 1_000)
    assert (len(alone.text), alone.read) == (1_000, 1)


async def test_a_damaged_page_does_not_lose_the_others(reader: PdfReader) -> None:
    body = make_pdf_of(b"BT /F1 12 Tf (first) Tj ET", b"BT /F1 12 Tf (last) Tj ET", filters="/Filter /FlateDecode")
    damaged = body.replace(zlib.compress(b"BT /F1 12 Tf (first) Tj ET", 9), b"\x00" * 31, 1)
    found = await read(reader, damaged)
    assert "last" in found.text
    assert found.pages == 2


@pytest.mark.parametrize("body", [b"", b"%PDF-1.7", b"%PDF-1.7\n%%EOF", b"%PDF-1.7\n" + bytes(range(256)) * 40])
async def test_what_is_no_pdf_file_is_reported_in_one_clause(reader: PdfReader, body: bytes) -> None:
    said = await reader.read(body, LIMIT)
    assert isinstance(said, str), said
    assert said == "it is damaged"


async def test_files_with_random_damage_never_end_the_reader(reader: PdfReader) -> None:
    chance = random.Random(14)
    whole = make_pdf("One", "Two", "Three")
    await read(reader, whole)
    pid = reader.pid
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        said = await reader.read(bytes(body[: chance.randint(10, len(body))]), LIMIT)
        assert isinstance(said, PdfText) or said.startswith("it ")
    assert "Three" in (await read(reader, whole)).text
    assert reader.pid == pid


def zlib_bomb() -> bytes:
    bomb = zlib.compress(zlib.compress(b"\0" * 200_000_000, 9), 9)
    return make_pdf_of(bomb, compress=False, filters="/Filter [/FlateDecode /FlateDecode]")


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nested": lambda: make_pdf_of(b"[" * 200_000 + b"]" * 200_000),
    "loop": lambda: make_pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"),
    "count": lambda: make_pdf("x").replace(b"/Count 1", b"/Count 999999999"),
    "bomb": zlib_bomb,
    "operators": lambda: make_pdf("x", extra=b"(a) Tj " * 1_500_000),
    "state": lambda: make_pdf("x", extra=b"q " * 1_000_000),
    "length": lambda: make_pdf("x").replace(b"/Length ", b"/Length 99999999"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
async def test_a_hostile_file_is_reported_or_read_within_the_bounds(reader: PdfReader, name: str) -> None:
    body = HOSTILE[name]()
    began = monotonic()
    said = await reader.read(body, LIMIT)
    assert monotonic() - began < 60, "the bound is 10 s, and the machine may be busy"
    assert isinstance(said, PdfText) or said.startswith(("it ", "reading it ")), said
    assert "still here" in (await read(reader, make_pdf("still here"))).text


async def test_a_file_over_the_limit_is_not_sent_to_the_process(reader: PdfReader) -> None:
    assert await reader.read(b"%PDF-" + b"x" * MAX_PDF_BYTES, LIMIT) == "it is over 32 MB"
    assert reader.pid is None


async def test_reading_that_takes_too_long_is_reported_and_the_next_file_is_read() -> None:
    reader = PdfReader(timeout=0.2)
    try:
        slow = HOSTILE["operators"]()
        assert await reader.read(slow, LIMIT) == "reading it took over 0.2 s"
    finally:
        await reader.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_process_can_open_no_files_and_ends_with_the_reader(reader: PdfReader) -> None:
    await read(reader, make_pdf("x"))
    assert reader.pid is not None
    process = psutil.Process(reader.pid)
    assert process.rlimit(psutil.RLIMIT_NOFILE)[0] == 0
    assert process.rlimit(psutil.RLIMIT_AS)[0] == 1024**3
    os.kill(reader.pid, signal.SIGKILL)
    assert await reader.read(make_pdf("x"), LIMIT) in ("it crashed the reader", "the reader did not respond")
    await read(reader, make_pdf("x"))
    await reader.close()
    assert reader.pid is None
