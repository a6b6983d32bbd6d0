"""Tests for decoding and scaling images in a sandbox process: correct pixels, and limited cost for hostile files."""

import base64
import io
import os
import random
import signal
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import anyio
import psutil
import pytest
from PIL import Image

from mcphost.sandbox.image_formats import DecodedImage, fit_size
from mcphost.sandbox.images import MAX_IMAGE_BYTES, MAX_SOURCE_BYTES, ImageDecoder, ImageScaler, ScaledImage

pytestmark = pytest.mark.anyio

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture
async def decoder() -> AsyncIterator[ImageDecoder]:
    decoder = ImageDecoder()
    yield decoder
    await decoder.close()


@pytest.fixture
async def scaler() -> AsyncIterator[ImageScaler]:
    scaler = ImageScaler()
    yield scaler
    await scaler.close()


def to_base64(body: bytes) -> str:
    return base64.b64encode(body).decode()


def save_image(image: Image.Image, kind: str, **options: Any) -> bytes:
    body = io.BytesIO()
    image.save(body, kind, **options)
    return body.getvalue()


def two_colour_image(width: int = 40, height: int = 20) -> Image.Image:
    """Return an image that is red on the left and blue on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def encode_png(width: int, height: int, rows: bytes, *, depth: int = 8, color: int = 0, chunks: bytes = b"") -> bytes:
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)) + chunks
    return b"\x89PNG\r\n\x1a\n" + head + png_chunk(b"IDAT", rows) + png_chunk(b"IEND", b"")


def pixel_at(drawing: DecodedImage, x: int, y: int) -> tuple[int, ...]:
    at = (y * drawing.width + x) * 4
    return tuple(drawing.pixels[at : at + 4])


def is_near_colour(found: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return all(abs(item - other) < 12 for item, other in zip(found, expected, strict=False))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_each_kind_is_decoded_small_with_its_sides_in_proportion(decoder: ImageDecoder, kind: str) -> None:
    drawing = await decoder.decode(to_base64(save_image(two_colour_image(400, 200), kind)), 40, 40)
    assert isinstance(drawing, DecodedImage), drawing
    assert (drawing.width, drawing.height) == (40, 20)
    assert is_near_colour(pixel_at(drawing, 3, 10), (*RED, 255))
    assert is_near_colour(pixel_at(drawing, 36, 10), (*BLUE, 255))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
async def test_every_way_of_holding_colours_is_read(decoder: ImageDecoder, mode: str) -> None:
    drawing = await decoder.decode(to_base64(save_image(two_colour_image().convert("L").convert(mode), "PNG")), 40, 40)
    assert isinstance(drawing, DecodedImage), drawing


async def test_invisible_characters_stay_invisible_and_a_small_image_is_not_enlarged(decoder: ImageDecoder) -> None:
    image = Image.new("RGBA", (6, 4), (0, 0, 0, 0))
    image.putpixel((1, 2), (*GREEN, 255))
    drawing = await decoder.decode(to_base64(save_image(image, "PNG")), 100, 100)
    assert isinstance(drawing, DecodedImage)
    assert (drawing.width, drawing.height) == (6, 4)
    assert (pixel_at(drawing, 0, 0)[3], pixel_at(drawing, 1, 2)) == (0, (*GREEN, 255))


async def test_the_first_frame_of_an_animated_image_is_drawn(decoder: ImageDecoder) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (GREEN, RED, BLUE)]
    for kind in ("GIF", "WEBP", "PNG"):
        body = save_image(frames[0], kind, save_all=True, append_images=frames[1:])
        drawing = await decoder.decode(to_base64(body), 8, 8)
        assert isinstance(drawing, DecodedImage), drawing
        assert is_near_colour(pixel_at(drawing, 4, 4), GREEN)


async def test_a_rotated_photograph_is_shown_upright(decoder: ImageDecoder) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # it is upright
    drawing = await decoder.decode(to_base64(save_image(two_colour_image(400, 200), "JPEG", exif=exif)), 40, 40)
    assert isinstance(drawing, DecodedImage), drawing
    assert (drawing.width, drawing.height) == (20, 40)
    assert is_near_colour(pixel_at(drawing, 10, 4), RED)
    assert is_near_colour(pixel_at(drawing, 10, 36), BLUE)


async def test_the_existing_part_of_a_truncated_image_is_drawn(decoder: ImageDecoder) -> None:
    body = save_image(two_colour_image(400, 200), "PNG", compress_level=0)
    drawing = await decoder.decode(to_base64(body[: len(body) // 2]), 40, 40)
    assert isinstance(drawing, DecodedImage), drawing
    assert is_near_colour(pixel_at(drawing, 3, 2), RED)
    assert is_near_colour(pixel_at(drawing, 36, 2), BLUE)
    assert not drawing.is_complete


async def test_a_wrong_checksum_outside_the_pixels_does_not_prevent_drawing(decoder: ImageDecoder) -> None:
    """The image of the MCP reference server has such a checksum."""
    body = save_image(two_colour_image(), "PNG")
    profile = png_chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(b"x" * 300))
    drawing = await decoder.decode(to_base64(body[:33] + profile[:-1] + b"!" + body[33:]), 40, 40)
    assert isinstance(drawing, DecodedImage), drawing
    assert drawing.is_complete
    assert is_near_colour(pixel_at(drawing, 3, 10), RED)


@cache
def decompression_bomb() -> bytes:
    """Return a PNG file of 35 kB with 36 million pixels; it is made on demand, since every test worker imports this."""
    return encode_png(6000, 6000, zlib.compress(bytes(6001 * 6000), 9))


MUCH = "much more in it than it claims"
HOSTILE = {
    "more pixels than anybody should decode": (encode_png(50_000, 50_000, b""), "too many pixels"),
    "the most a header can say": (encode_png(2**31 - 1, 2**31 - 1, b""), "too many pixels"),
    "cut in the middle": (save_image(two_colour_image(400, 200), "JPEG")[:900], "is_complete=False"),
    "rows that are no rows": (encode_png(100, 100, b"\x00" * 50), "is_complete=False"),
    "no pixels": (encode_png(0, 5, b""), "damaged"),
    "another kind inside": (b"\x89PNG\r\n\x1a\n" + save_image(two_colour_image(), "GIF"), "damaged"),
    "a kind nobody asked for": (save_image(two_colour_image(), "TIFF"), "not supported"),
    "a program to be run by another": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not supported"),
    "markup": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not supported"),
    "nothing": (b"", "not supported"),
}


@pytest.mark.parametrize("what", [MUCH, *HOSTILE])
async def test_a_hostile_image_is_refused_with_a_reason_and_the_next_one_is_drawn(
    decoder: ImageDecoder, what: str
) -> None:
    much = encode_png(10, 10, zlib.compress(bytes(200_000_000), 9)) if what == MUCH else b""
    body, said = (much, "height=10") if what == MUCH else HOSTILE[what]
    with anyio.fail_after(20):
        found = await decoder.decode(to_base64(body), 60, 60)
    assert said in str(found)
    assert isinstance(await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 20, 20), DecodedImage)


async def test_many_pixels_in_few_bytes_are_decoded_within_the_bounds(decoder: ImageDecoder) -> None:
    with anyio.fail_after(20):
        assert isinstance(await decoder.decode(to_base64(decompression_bomb()), 60, 60), DecodedImage | str)
    assert isinstance(await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 20, 20), DecodedImage)


def palette_bomb(side: int) -> bytes:
    """Return a PNG file of a few kB with one transparent color and *side* times *side* pixels of one bit."""
    row = bytes(1 + (side + 7) // 8)
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    chunks = png_chunk(b"PLTE", b"\0\0\0\xff\xff\xff") + png_chunk(b"tRNS", b"\x80")
    return encode_png(side, side, rows, depth=1, color=3, chunks=chunks)


BOMBS: dict[str, Callable[[], bytes]] = {
    "palette of 119 megapixels": lambda: palette_bomb(10_900),
    "palette of 40 megapixels": lambda: palette_bomb(6_300),
    "gray with opacity": lambda: encode_png(6_000, 6_000, zlib.compress(bytes(12_001 * 6_000), 9), color=4),
    "16 bits": lambda: encode_png(6_000, 6_000, zlib.compress(bytes(12_001 * 6_000), 9), depth=16),
    "WebP": lambda: save_image(Image.new("RGB", (4_500, 4_500)), "WEBP", method=0),
    "progressive JPEG": lambda: save_image(Image.new("L", (11_000, 10_000)), "JPEG", progressive=True),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("what", BOMBS)
async def test_a_small_file_with_many_pixels_takes_little_memory(
    decoder: ImageDecoder, scaler: ImageScaler, what: str
) -> None:
    data = to_base64(BOMBS[what]())
    await decoder.decode(data, 400, 400)
    await scaler.scale(data, 2_048, 4_000_000)
    for pid in filter(None, (decoder.pid, scaler.pid)):
        status = await anyio.Path(f"/proc/{pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 300_000


async def test_a_photo_of_48_megapixels_is_drawn_and_scaled(decoder: ImageDecoder, scaler: ImageScaler) -> None:
    data = to_base64(save_image(two_colour_image(8_000, 6_000), "JPEG"))
    drawing = await decoder.decode(data, 400, 400)
    assert isinstance(drawing, DecodedImage), drawing
    assert (drawing.width, drawing.height) == (400, 300)
    assert is_near_colour(pixel_at(drawing, 100, 150), RED)
    assert is_near_colour(pixel_at(drawing, 300, 150), BLUE)
    found, _ = await scale(scaler, data, 2_048)
    assert (found.width, found.height) == (2_048, 1_536)


@pytest.mark.parametrize("mode", ["P", "RGBA", "L", "RGB"])
async def test_an_image_that_is_reduced_in_parts_has_every_part_in_its_place(decoder: ImageDecoder, mode: str) -> None:
    shades = [0, 60, 120, 180, 240]
    image = Image.new("L", (1_999, 3_001))
    for number, shade in enumerate(shades):
        image.paste(shade, (0, number * 601, 1_999, 3_001))
    body = save_image(image.convert("RGB").quantize(8) if mode == "P" else image.convert(mode), "PNG")
    drawing = await decoder.decode(to_base64(body), 200, 300)
    assert isinstance(drawing, DecodedImage), drawing
    assert (drawing.width, drawing.height) == (200, 300)
    for number, shade in enumerate(shades):
        for y in (number * 60 + 5, number * 60 + 54):
            assert is_near_colour(pixel_at(drawing, 100, y), (shade, shade, shade, 255))


async def test_slow_decoding_is_killed_and_the_next_one_works() -> None:
    quick = ImageDecoder(timeout=0.05)
    while (child := quick.pid) is None:  # on a busy machine a small image takes too long as well
        await quick.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8)
    assert await quick.decode(to_base64(decompression_bomb()), 60, 60) == "decoding it took over 0.05 s"
    assert not psutil.pid_exists(child)
    while not isinstance(await quick.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8), DecodedImage):
        assert quick.pid is None
    await quick.close()


async def test_oversized_or_invalid_base64_starts_nothing_or_is_refused(decoder: ImageDecoder) -> None:
    assert "8 MB" in str(await decoder.decode("A" * (MAX_IMAGE_BYTES * 2), 9, 9))
    assert "base64" in str(await decoder.decode("ééé", 9, 9))
    assert decoder.pid is None
    assert "base64" in str(await decoder.decode("not base64\n 3 3 3\n", 9, 9))


async def test_a_child_that_dies_costs_at_most_one_image(decoder: ImageDecoder) -> None:
    await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8)
    assert decoder.pid is not None
    os.kill(decoder.pid, signal.SIGKILL)
    await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8)
    assert isinstance(await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8), DecodedImage)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_child_has_little_memory_and_opens_no_file_and_no_socket(decoder: ImageDecoder) -> None:
    await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8)
    limits = await anyio.Path(f"/proc/{decoder.pid}/limits").read_text()
    said = {line[:25].strip(): line[26:46].strip() for line in limits.splitlines()}
    assert said["Max open files"] == said["Max file size"] == said["Max core file size"] == "0"
    assert said["Max address space"] == str(1024**3)


async def test_closing_ends_the_child(decoder: ImageDecoder) -> None:
    await decoder.decode(to_base64(save_image(two_colour_image(), "PNG")), 8, 8)
    child = decoder.pid
    await decoder.close()
    assert child is not None
    assert not psutil.pid_exists(child)


def test_an_image_is_fitted_completely_and_never_enlarged() -> None:
    assert fit_size(400, 200, 100, 100) == (100, 50)
    assert fit_size(10, 5, 100, 100) == (10, 5)
    assert fit_size(1, 100_000, 80, 24) == (1, 24)
    assert fit_size(0, 0, 80, 24) == (1, 1)


def encode_image(image: Image.Image, kind: str = "PNG", **options: Any) -> str:
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
    found, image = await scale(scaler, encode_image(Image.new("RGB", (1600, 800), (200, 10, 10)), kind))
    assert (found.mime_type, image.format, image.size) == ("image/jpeg", "JPEG", (400, 200))
    assert abs(image.getpixel((200, 100))[0] - 200) < 8


async def test_transparency_is_preserved_in_a_png(scaler: ImageScaler) -> None:
    image = Image.new("RGBA", (1600, 800), (200, 10, 10, 255))
    image.paste((0, 0, 0, 0), (0, 0, 800, 800))
    found, small = await scale(scaler, encode_image(image))
    assert (found.mime_type, small.mode, small.size) == ("image/png", "RGBA", (400, 200))
    assert small.getpixel((10, 10))[3] == 0
    assert small.getpixel((390, 10))[3] == 255


async def test_an_image_is_made_smaller_until_it_has_few_enough_bytes(scaler: ImageScaler) -> None:
    found, image = await scale(scaler, encode_image(noise(900, 600)), 800, 30_000)
    assert len(base64.b64decode(found.data)) <= 30_000
    assert image.width < 800


async def test_a_rotated_photo_is_shown_upright(scaler: ImageScaler) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found, _ = await scale(scaler, encode_image(Image.new("RGB", (1600, 800)), "JPEG", exif=exif))
    assert (found.width, found.height) == (200, 400)


async def test_a_photo_of_108_megapixels_is_scaled(scaler: ImageScaler) -> None:
    found, _ = await scale(scaler, encode_image(Image.new("L", (12_000, 9_000), 90), "JPEG"), 2_048)
    assert (found.width, found.height) == (2_048, 1_536)


async def test_damaged_giant_and_endless_images_are_reported_and_the_next_one_is_scaled(scaler: ImageScaler) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    rows = zlib.compress(bytes(1_000))
    chunk += struct.pack(">I", len(rows)) + b"IDAT" + rows + struct.pack(">I", zlib.crc32(b"IDAT" + rows))
    giant = base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk).decode()
    assert await scaler.scale(giant, 400, 1_000) == "it has too many pixels"
    assert await scaler.scale("iVBORw0KGgo=", 400, 1_000) == "it is damaged"
    assert await scaler.scale("é", 400, 1_000) == "it is not valid base64"
    assert await scaler.scale("A" * (MAX_SOURCE_BYTES * 4 // 3 + 8), 400, 1_000) == "it is over 32 MB"
    assert await scaler.scale(encode_image(noise(64, 64)), 400, 100) == "it cannot be made small enough"
    await scale(scaler, encode_image(noise(64, 64)))
