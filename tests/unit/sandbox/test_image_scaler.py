"""Tests for scaling images down in a sandbox process, with bounded cost for hostile files."""

import base64
import io
import random
import struct
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image

from mcphost.sandbox.image_scaler import MAX_SOURCE_BYTES, ImageScaler, ScaledImage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def scaler() -> AsyncIterator[ImageScaler]:
    scaler = ImageScaler()
    yield scaler
    await scaler.close()


def to_base64(image: Image.Image, kind: str = "PNG", **options: Any) -> str:
    body = io.BytesIO()
    image.save(body, kind, **options)
    return base64.b64encode(body.getvalue()).decode()


def noise(width: int, height: int) -> Image.Image:
    return Image.frombytes("RGB", (width, height), random.Random(3).randbytes(width * height * 3))


async def scale(scaler: ImageScaler, data: str, side: int = 400, limit: int = 1_000_000) -> tuple[ScaledImage, Any]:
    found = await scaler.scale(data, side, limit)
    assert isinstance(found, ScaledImage), found
    return found, Image.open(io.BytesIO(base64.b64decode(found.data)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_opaque_image_becomes_a_small_jpeg_in_proportion(scaler: ImageScaler, kind: str) -> None:
    found, image = await scale(scaler, to_base64(Image.new("RGB", (1600, 800), (200, 10, 10)), kind))
    assert (found.mime_type, image.format, image.size) == ("image/jpeg", "JPEG", (400, 200))
    assert abs(image.getpixel((200, 100))[0] - 200) < 8


async def test_transparency_is_preserved_in_a_png(scaler: ImageScaler) -> None:
    image = Image.new("RGBA", (1600, 800), (200, 10, 10, 255))
    image.paste((0, 0, 0, 0), (0, 0, 800, 800))
    found, small = await scale(scaler, to_base64(image))
    assert (found.mime_type, small.mode, small.size) == ("image/png", "RGBA", (400, 200))
    assert small.getpixel((10, 10))[3] == 0
    assert small.getpixel((390, 10))[3] == 255


async def test_an_image_is_made_smaller_until_it_has_few_enough_bytes(scaler: ImageScaler) -> None:
    found, image = await scale(scaler, to_base64(noise(900, 600)), 800, 30_000)
    assert len(base64.b64decode(found.data)) <= 30_000
    assert image.width < 800


async def test_a_turned_photo_stands_upright(scaler: ImageScaler) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found, _ = await scale(scaler, to_base64(Image.new("RGB", (1600, 800)), "JPEG", exif=exif))
    assert (found.width, found.height) == (200, 400)


async def test_a_photo_of_108_megapixels_is_scaled(scaler: ImageScaler) -> None:
    found, _ = await scale(scaler, to_base64(Image.new("L", (12_000, 9_000), 90), "JPEG"), 2_048)
    assert (found.width, found.height) == (2_048, 1_536)


async def test_damaged_giant_and_endless_images_are_told_and_the_next_one_is_scaled(scaler: ImageScaler) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    rows = zlib.compress(bytes(1_000))
    chunk += struct.pack(">I", len(rows)) + b"IDAT" + rows + struct.pack(">I", zlib.crc32(b"IDAT" + rows))
    giant = base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk).decode()
    assert await scaler.scale(giant, 400, 1_000) == "it has too many pixels"
    assert await scaler.scale("iVBORw0KGgo=", 400, 1_000) == "it is damaged"
    assert await scaler.scale("é", 400, 1_000) == "it is not valid base64"
    assert await scaler.scale("A" * (MAX_SOURCE_BYTES * 4 // 3 + 8), 400, 1_000) == "it is over 32 MB"
    assert await scaler.scale(to_base64(noise(64, 64)), 400, 100) == "it cannot be made small enough"
    await scale(scaler, to_base64(noise(64, 64)))
