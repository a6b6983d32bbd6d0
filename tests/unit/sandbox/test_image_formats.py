"""Tests for detecting image formats and sizes from the first bytes, also of hostile files."""

import base64
import struct

import pytest

from mcphost.host.content_rendering import RenderedResult, render
from mcphost.protocol.tools import CallToolResult
from mcphost.sandbox.image_formats import ImageInfo, has_one_scan, identify_image
from mcphost.serialization import decode, encode


def png_header(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


FRAME = b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", 30, 40) + bytes(9)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(10) + FRAME
PICTURES = {
    "png": (png_header(640, 480), ImageInfo("image/png", 640, 480)),
    "gif": (b"GIF89a" + struct.pack("<HH", 7, 9), ImageInfo("image/gif", 7, 9)),
    "jpeg": (JPEG, ImageInfo("image/jpeg", 40, 30)),
    "webp": (
        b"RIFF\0\0\0\0WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\x01\0\0\x02\0\0",
        ImageInfo("image/webp", 2, 3),
    ),
    "lossless": (
        b"RIFF\0\0\0\0WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 4 | 5 << 14),
        ImageInfo("image/webp", 5, 6),
    ),
    "lossy": (
        b"RIFF\0\0\0\0WEBPVP8 " + bytes(7) + b"\x9d\x01\x2a" + struct.pack("<HH", 8, 9),
        ImageInfo("image/webp", 8, 9),
    ),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_kind_and_size_are_read_from_the_first_bytes(kind: str) -> None:
    body, expected = PICTURES[kind]
    assert identify_image(body) == expected
    for end in range(len(body)):  # truncated anywhere, it never fails
        cut = identify_image(body[:end])
        assert cut is None or cut.mime_type == expected.mime_type


def render_image(body: bytes, claimed: str) -> RenderedResult:
    block = {"type": "image", "data": base64.b64encode(body).decode(), "mimeType": claimed}
    return render(decode(encode({"content": [block]}), CallToolResult))


def test_a_media_type_that_does_not_match_is_reported() -> None:
    assert render_image(png_header(640, 480), "image/png").text == "[image: image/png, 640 × 480 pixels, 29 bytes]"
    told = render_image(png_header(640, 480), "image/jpeg")
    assert told.text.endswith("29 bytes; declared as image/jpeg]")
    assert told.images[0].mime_type == "image/png"


def test_an_image_with_too_many_pixels_is_sent_to_no_model() -> None:
    bomb = render_image(png_header(100_000, 100_000), "image/png")
    assert bomb.images == ()
    assert "100,000 × 100,000 pixels" in bomb.text
    assert "too many pixels" in bomb.text


def jpeg_with_scan(frame: int, components: int, in_scan: int) -> bytes:
    body = bytes(components * 3)
    head = b"\xff" + bytes([frame]) + struct.pack(">HBHHB", 8 + len(body), 8, 30, 40, components) + body
    return b"\xff\xd8\xff\xe0\x00\x04JF" + head + b"\xff\xda" + struct.pack(">HB", 6 + 2 * in_scan, in_scan) + bytes(16)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (jpeg_with_scan(0xC0, 3, 3), True),
        (jpeg_with_scan(0xC1, 1, 1), True),
        (jpeg_with_scan(0xC2, 3, 3), False),
        (jpeg_with_scan(0xC0, 3, 1), False),
        (jpeg_with_scan(0xC9, 3, 3), False),
        (jpeg_with_scan(0xC0, 3, 3)[:24], False),
        (b"\xff\xd8" + b"\xff" * 1_000, False),
        (b"", False),
    ],
)
def test_a_jpeg_is_decoded_row_by_row_only_if_all_its_components_are_in_one_scan(body: bytes, expected: bool) -> None:
    assert has_one_scan(body) is expected
