"""Tests for tool results whose structured content repeats their other content: the model gets it only once."""

import base64
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.base64_runs import BASE64_LENGTH
from mcphost.host.content_rendering import make_parts
from mcphost.protocol.tools import CallToolResult
from mcphost.serialization import Raw, decode
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


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "spread": lambda text: text.replace('", "', '"  ,\n\t\r "'),
    "slashes": lambda text: text.replace("/", "\\/"),
    "escapes": lambda text: text.replace("A", "\\u0041").replace("+", "\\u002B").replace("/", "\\u002f"),
}


def raw_result(structure: str, *blocks: dict[str, Any]) -> Raw:
    return Raw(f'{{"content":{json.dumps(blocks)},"structuredContent":{structure}}}'.encode())


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("size", [20_000, 1_500_000])
@pytest.mark.parametrize("width", [76, 400, 1_020])
def test_base64_in_pieces_is_named_by_its_size_however_large_and_escaped_it_is(
    width: int, size: int, spelling: str
) -> None:
    data = base64.b64encode(random_bytes(size)).decode()
    pieces = [data[at : at + width] for at in range(0, len(data), width)]
    note = "é and \\\\/ stay"
    structure = SPELLINGS[spelling](
        json.dumps({"a": "b", "chunks": [{"x": 1}, *pieces, 7], "end": note}, ensure_ascii=False)
    )
    (part,) = make_parts(decode(raw_result(structure), CallToolResult))
    shown = json.loads(part.text)
    assert shown["chunks"] == [{"x": 1}, f"[base64 left out: {size:,} bytes]", 7]
    assert (shown["a"], shown["end"]) == ("b", note)


@pytest.mark.parametrize("size", [9_000, 900_000])
def test_an_image_repeated_in_pieces_refers_to_the_image(size: int) -> None:
    data = random_png(size)
    pieces = [data[at : at + 600] for at in range(0, len(data), 600)]
    _image, part = make_parts(decode(raw_result(json.dumps({"n": 1, "p": pieces}), image_part(data)), CallToolResult))
    assert json.loads(part.text) == {"n": 1, "p": ["[the data above]"]}


@pytest.mark.parametrize("size", [9_000, 900_000])
def test_a_text_of_a_resource_or_block_that_a_member_repeats_goes_once(size: int) -> None:
    said = 'line of "a" file\n' * (size // 17)
    resource = {"type": "resource", "resource": {"uri": "file:///a", "text": said}}
    for block in (resource, {"type": "text", "text": said}):
        parts = make_parts(decode(raw_result(json.dumps({"path": "/a", "content": said}), block), CallToolResult))
        assert json.loads(parts[-1].text) == {"path": "/a", "content": "[the text above]"}
        assert len(make_parts(decode(raw_result(json.dumps({"content": said}), block), CallToolResult))) == 1


@pytest.mark.parametrize(
    "odd",
    [
        {"names": {"k" * 400: "v" * 400, "A1b" * 200: "B2c" * 200}},
        {"keys": ["Ab1d" * 20 + f"{n:04}" for n in range(5_000)]},
        {"in": ['"' + "Ab1d" * 100 + '","' + "Ab1d" * 100 + '","' + "Ab1d" * 100] * 900},
        {"words": ["Ab1d" * 100 + "!"] * 900},
    ],
)  # fmt: skip
def test_what_is_no_base64_in_pieces_stays_in_large_content(odd: dict[str, Any]) -> None:
    large = {**odd, "filling": ["some words"] * 40_000}
    (part,) = make_parts(decode(raw_result(json.dumps(large)), CallToolResult))
    assert json.loads(part.text) == large
