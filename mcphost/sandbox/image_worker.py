"""Worker process that decodes base64 images and scales them down; the only module that imports Pillow.

Run as `python -m mcphost.sandbox.image_worker`. A request is a line with five numbers, followed by the base64 data:

- the size of the base64 data in bytes
- the maximum width of the result in pixels
- the maximum height of the result in pixels
- the maximum size of a JPEG or PNG file with the result, in bytes; 0 requests the pixels instead
- the maximum number of colors, or 0 for no limit

A response is one line of JSON.

Before the process decodes the first image, it prevents itself from opening files and sockets. The parent process kills
the worker if it takes too long. If the parent process has exited, an alarm signal ends the worker.
"""

import base64
import binascii
import io
import json
import signal
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from mcphost.sandbox.image_formats import MAX_PIXELS, fit_size, has_one_scan, identify_image
from mcphost.sandbox.process_limits import apply_worker_limits, forbid_opening_files

ALARM_SECONDS = 6
"""Seconds after which the kernel ends this process if it is still busy with one image."""
MAX_MEMORY = 1024**3
MAX_JPEG_PIXELS = 120_000_000
"""Maximum number of pixels of a JPEG file, which can be decoded at a reduced size; phones take up to 108 million."""
MAX_WEBP_PIXELS = 16_000_000
"""Maximum number of pixels of a WebP file; the decoder holds several copies of the image in memory."""
_MAX_COEFFICIENTS = 100_000_000
"""Maximum number of coefficients (two bytes each) of a JPEG file that must be held in memory; see `has_one_scan`."""
_BAND_PIXELS = 1_000_000
"""Pixels that are converted to another mode at once."""
_REDUCING_GAP = 1.25
"""The fast reduction leaves an image at least this many times as large as the result; the slow, exact one follows."""
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_OPAQUE_OR_NOT = [0] * 128 + [255] * 128
"""Table that maps each opacity to 0 or 255, for results with a limited number of colors."""
_ORIENTATION = 0x0112
_TRANSPOSITIONS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM"}
_SIDEWAYS_TRANSPOSITIONS = {5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}


def main() -> None:
    """Handle requests from standard input until the end of the input."""
    apply_worker_limits(MAX_MEMORY)
    from PIL import Image, ImageFile

    _preload_plugins(Image)
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    Image.MAX_IMAGE_PIXELS = MAX_JPEG_PIXELS
    out, source = sys.stdout.buffer, sys.stdin.buffer
    out.write(b"{}\n")
    out.flush()
    forbid_opening_files()
    while head := source.readline(64):
        size, width, height, max_bytes, colors = map(int, head.split())
        body = source.read(size)
        signal.alarm(ALARM_SECONDS)
        if max_bytes:
            render = partial(_encode_small, Image, width, height, max_bytes)
        else:
            render = partial(_render_pixels, Image, width, height, colors)
        answer = _decode_image(Image, ImageFile, body, render)
        signal.alarm(0)
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


def _preload_plugins(library: Any) -> None:
    """Import modules that Pillow would otherwise import on demand.

    After `forbid_opening_files` is called, importing is no longer possible.
    """
    library.preinit()
    for name in (".ImageOps", ".TiffImagePlugin", ".WebPImagePlugin"):  # the second module reads EXIF
        import_module(name, library.__package__)
    import_module("copy")


def _decode_image(
    library: Any, image_file: Any, body: bytes, render: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return {"why": "it is not valid base64"}
    found = identify_image(raw)
    if found is None:
        return {"why": "its format is not supported"}
    for whole in (True, False):
        # Wrong checksums outside pixel data are common: the color profile in the reference server's own image has one.
        image_file.LOAD_TRUNCATED_IMAGES = True
        try:
            # Only the reader for the detected format is used; otherwise Pillow would try all of them.
            with library.open(io.BytesIO(raw), formats=(_FORMATS[found.mime_type],)) as image:
                if _has_too_many_pixels(image, raw):
                    return {"why": "it has too many pixels"}
                image_file.LOAD_TRUNCATED_IMAGES = not whole
                return {"whole": whole, **render(image)}
        except (library.DecompressionBombError, library.DecompressionBombWarning):
            return {"why": "it has too many pixels"}
        except MemoryError:
            return {"why": "decoding it takes too much memory"}
        except Exception:  # noqa: BLE001, S112 - a damaged image can raise almost any error inside the library
            continue
    return {"why": "it is damaged"}


def _has_too_many_pixels(image: Any, body: bytes) -> bool:
    """Return whether decoding an image could take more than about 300 MB of memory."""
    pixels = image.width * image.height
    if image.format != "JPEG":
        return pixels > (MAX_WEBP_PIXELS if image.format == "WEBP" else MAX_PIXELS)
    if has_one_scan(body):
        return pixels > MAX_JPEG_PIXELS
    horizontal, vertical = ([layer[at] for layer in image.layer] for at in (1, 2))
    samples = sum(across * down for across, down in zip(horizontal, vertical, strict=True))
    return pixels * samples > _MAX_COEFFICIENTS * max(horizontal) * max(vertical)


def _resize(library: Any, image: Any, width: int, height: int, method: Any) -> Any:
    """Scale an image down to fit a box, rotate it according to its metadata, and convert it to RGB or RGBA."""
    held = image.getexif().get(_ORIENTATION, 1) if image.format in ("JPEG", "WEBP") else 1
    turn = _TRANSPOSITIONS.get(held) or _SIDEWAYS_TRANSPOSITIONS.get(held)
    if held in _SIDEWAYS_TRANSPOSITIONS:
        width, height = height, width
    sides = fit_size(image.width, image.height, width, height)
    # Decoding a JPEG at a fraction of its size costs less.
    image.draft("RGB", (int(sides[0] * _REDUCING_GAP), int(sides[1] * _REDUCING_GAP)))
    image.load()
    # Palette colors cannot be interpolated, and invisible pixels must not bleed into others.
    mode = "RGBA" if image.mode in ("RGBA", "LA", "PA", "P") or "transparency" in image.info else "RGB"
    box = (image.width, image.height)
    factors = [max(1, int(side / end / _REDUCING_GAP)) for side, end in zip(box, sides, strict=True)]
    small = image if image.mode == mode and factors == [1, 1] else _reduce(library, image, mode, *factors)
    small = small.resize(sides, method, box=(0, 0, box[0] / factors[0], box[1] / factors[1]))
    return small if turn is None else small.transpose(library.Transpose[turn])


def _reduce(library: Any, image: Any, mode: str, factor_x: int, factor_y: int) -> Any:
    """Convert an image to *mode*, and reduce its width by *factor_x* and its height by *factor_y*.

    The image is processed in horizontal bands, to save memory.
    """
    width, height = image.size
    reduced = library.new(mode, (-(-width // factor_x), -(-height // factor_y)))
    rows = max(1, _BAND_PIXELS // (width * factor_y)) * factor_y
    for top in range(0, height, rows):
        band = image.crop((0, top, width, min(top + rows, height)))
        reduced.paste(band.convert(mode).reduce((factor_x, factor_y)), (0, top // factor_y))
    return reduced


def _render_pixels(library: Any, width: int, height: int, colors: int, image: Any) -> dict[str, Any]:
    small = _resize(library, image, width, height, library.Resampling.BOX).convert("RGBA")
    if colors:
        mask = small.getchannel("A").point(_OPAQUE_OR_NOT)
        small = small.convert("RGB").quantize(colors, dither=library.Dither.NONE).convert("RGB")
        small.putalpha(mask)
    pixels = base64.b64encode(small.tobytes()).decode()
    return {"width": small.width, "height": small.height, "pixels": pixels}


def _encode_small(library: Any, width: int, height: int, max_bytes: int, image: Any) -> dict[str, Any]:
    """Encode the image in at most *max_bytes* bytes, as JPEG or, if it has transparency, as PNG.

    If that is not possible, return a dict that contains only the reason (`why`).
    """
    small = _resize(library, image, width, height, library.Resampling.LANCZOS)
    for quality in (85, 60, 60, 60, 60):
        body = io.BytesIO()
        is_opaque = small.mode == "RGB" or small.getchannel("A").getextrema()[0] == 255
        if is_opaque:
            small.convert("RGB").save(body, "JPEG", quality=quality)
        else:
            small.save(body, "PNG")
        if len(body.getvalue()) <= max_bytes:
            kind = "image/jpeg" if is_opaque else "image/png"
            data = base64.b64encode(body.getvalue()).decode()
            return {"width": small.width, "height": small.height, "mime_type": kind, "data": data}
        if quality < 85 or not is_opaque:
            sides = (max(1, small.width // 2), max(1, small.height // 2))
            small = small.resize(sides, library.Resampling.LANCZOS)
    return {"why": "it cannot be made small enough"}


if __name__ == "__main__":
    main()
