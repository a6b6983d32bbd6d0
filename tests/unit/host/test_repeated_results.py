"""Tests for tool results whose structured content repeats their other content: the model gets it only once."""

import base64
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.base64_runs import BASE64_LENGTH
from tests.unit.host.scripted_host import text_result
from tests.unit.host.tool_results import call_tool_once

pytestmark = pytest.mark.anyio


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def random_png(size: int) -> str:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 20, 10) + b"\x08\x02\0\0\0"
    return base64.b64encode(head + random_bytes(size - len(head))).decode()


def image_part(data: str) -> dict[str, Any]:
    return {"type": "image", "data": data, "mimeType": "image/png"}


@pytest.mark.parametrize("size", [100, 1_000_000])
async def test_an_image_repeated_in_structured_content_is_sent_once_and_never_as_text(
    tmp_path: Path, size: int
) -> None:
    block = image_part(random_png(size))
    part, finished = await call_tool_once(tmp_path, {"content": [block], "structuredContent": {"content": [block]}})
    assert [image.data for image in part.images] == [block["data"]]
    assert [image.data for image in finished.images] == [block["data"]]
    assert part.text == finished.text == f"[image: image/png, 20 × 10 pixels, {_size(size)}]"


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1_000:,} kB"


@pytest.mark.parametrize("size", [0, 1, 92_000, 700_000])
async def test_a_text_wrapped_in_structured_content_is_sent_once(tmp_path: Path, size: int) -> None:
    said = "one\n" + "line of a file\n" * (size // 15)
    part, finished = await call_tool_once(tmp_path, text_result(said, structuredContent={"content": said}))
    assert part.text.count("one") == 1
    assert finished.text == said


async def test_a_member_that_repeats_a_text_refers_to_it_and_the_others_stay(tmp_path: Path) -> None:
    said = "line of a file\n" * 100
    structure = {"path": "/a", "content": said, "short": "a", "lines": [100, {"again": said}]}
    part, finished = await call_tool_once(tmp_path, text_result(said, structuredContent=structure))
    assert part.text == finished.text
    _, _, shown = part.text.partition("structured content:")
    assert json.loads(shown) == {
        "path": "/a", "content": "[the text above]", "short": "a", "lines": [100, {"again": "[the text above]"}],
    }  # fmt: skip


async def test_the_text_and_the_bytes_of_an_embedded_resource_are_not_repeated_either(tmp_path: Path) -> None:
    said, blob = "words " * 50, random_png(5_000)
    content = [
        {"type": "resource", "resource": {"uri": "demo://a", "text": said}},
        {"type": "resource", "resource": {"uri": "demo://b", "blob": blob, "mimeType": "image/png"}},
    ]
    part, _ = await call_tool_once(tmp_path, {"content": content, "structuredContent": {"a": said, "b": blob, "n": 1}})
    assert part.text.count(said) == 1
    assert blob[:50] not in part.text
    assert '"n": 1' in part.text


@pytest.mark.parametrize("size", [2_000, 1_500_000])
@pytest.mark.parametrize("prefix", ["", "data:application/zip;base64,"])
async def test_base64_that_only_the_structured_content_has_is_named_by_its_size(
    tmp_path: Path, size: int, prefix: str
) -> None:
    data = prefix + base64.b64encode(random_bytes(size)).decode()
    part, finished = await call_tool_once(
        tmp_path, {"content": [], "structuredContent": {"name": "a.zip", "data": data}}
    )
    assert part.text == finished.text
    assert json.loads(part.text) == {"name": "a.zip", "data": f"{prefix}[base64 left out: {size:,} bytes]"}


def wrapped(data: bytes, width: int, end: str) -> str:
    """Return base64 in lines of this width, as in e-mails and PEM files."""
    text = base64.b64encode(data).decode()
    return "".join(f"{text[at : at + width]}{end}" for at in range(0, len(text), width))


@pytest.mark.parametrize("size", [6_000, 1_500_000])
@pytest.mark.parametrize(("width", "end"), [(76, "\n"), (76, "\r\n"), (72, "\n"), (64, "\n"), (60, "\r\n")])
async def test_base64_with_line_breaks_is_named_by_its_size(tmp_path: Path, size: int, width: int, end: str) -> None:
    data = wrapped(random_bytes(size), width, end)
    content = [
        {"type": "text", "text": f"Attachment:\n\n{data}\nThe end."},
        {"type": "resource", "resource": {"uri": "demo://a", "text": data}},
    ]
    part, finished = await call_tool_once(tmp_path / "text", {"content": content})
    note = f"[base64 left out: {size:,} bytes]"
    assert part.text == finished.text
    assert part.text.count(note) == 2
    assert data[:50] not in part.text
    assert "Attachment:" in part.text
    assert "The end." in part.text
    structured: dict[str, Any] = {"content": [], "structuredContent": {"name": "a.zip", "data": data}}
    part, finished = await call_tool_once(tmp_path / "structured", structured)
    assert part.text == finished.text
    shown = json.loads(part.text)
    assert shown == {"name": "a.zip", "data": note + shown["data"].removeprefix(note)}
    assert shown["data"].removeprefix(note) in ("\n", "\r\n")


@pytest.mark.parametrize("size", [6_000, 1_000_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_an_image_repeated_with_line_breaks_is_sent_once(tmp_path: Path, size: int, end: str) -> None:
    data = random_png(size)
    repeated = wrapped(base64.b64decode(data), 76, end)
    for number, structure in enumerate(({"data": repeated}, {"content": [image_part(repeated)]})):
        result = {"content": [image_part(data)], "structuredContent": structure}
        part, _ = await call_tool_once(tmp_path / str(number), result)
        assert part.text == f"[image: image/png, 20 × 10 pixels, {_size(size)}]"


async def test_base64_inside_texts_and_unknown_blocks_is_named_by_its_size(tmp_path: Path) -> None:
    data = base64.b64encode(random_bytes(3_000)).decode()
    content = [
        {"type": "text", "text": f'{{"data": "{data}"}} and more'},
        {"type": "video", "data": data},
        {"type": "resource", "resource": {"uri": "demo://a", "text": f"<image href='data:image/png;base64,{data}'/>"}},
    ]
    part, finished = await call_tool_once(tmp_path, {"content": content})
    assert part.text == finished.text
    assert data[:100] not in part.text
    assert part.text.count("[base64 left out: 3,000 bytes]") == 3
    assert '"} and more' in part.text


@pytest.mark.parametrize(
    "kept",
    [
        "0123456789abcdef" * 500,
        "x" * 5_000,
        base64.b64encode(random_bytes(BASE64_LENGTH * 3 // 4 - 3)).decode(),
        "Words with 1 number. " * 500,
        base64.encodebytes(random_bytes(3_000)).decode(),
        "".join(f"/srv/Data2026/{'folder/' * 7}{number:04}-{'x' * (number % 30)}\n" for number in range(300)),
        "".join(f"{'ACGT' * 19}\n" for _ in range(300)),
        f"{'Ab3' * 19}d,\n" * 300,
    ],
    ids=["hexadecimal", "repeated", "short", "prose", "lines", "paths", "letters", "rows"],
)
async def test_text_that_is_no_long_base64_stays_complete(tmp_path: Path, kept: str) -> None:
    part, finished = await call_tool_once(tmp_path, text_result(kept))
    assert part.text == finished.text == kept
    part, _ = await call_tool_once(tmp_path / "structured", {"content": [], "structuredContent": {"kept": kept}})
    assert json.loads(part.text) == {"kept": kept}


async def test_structured_content_too_large_to_be_compared_is_named_with_its_size(tmp_path: Path) -> None:
    rows = {"rows": [f"row {number}" for number in range(30_000)]}
    size = len(json.dumps(rows, separators=(",", ":")))
    part, finished = await call_tool_once(
        tmp_path, {"content": [{"type": "text", "text": "30,000 rows"}], "structuredContent": rows}
    )
    told = f"30,000 rows\nstructured content:\n[structured content of {size:,} bytes is too large: left out]"
    assert part.text == finished.text == told


async def test_duplicate_structured_content_is_not_reported(tmp_path: Path) -> None:
    rows = {"rows": [f"row {number}" for number in range(30_000)]}
    same = json.dumps(rows, separators=(",", ":"))
    part, _ = await call_tool_once(tmp_path, {"content": [{"type": "text", "text": same}], "structuredContent": rows})
    assert "structured content" not in part.text
