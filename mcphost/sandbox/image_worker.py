"""The process that decodes pictures: base64 in, a small picture out; the only importer of Pillow.

Run as `python -m mcphost.sandbox.image_worker`. A request is a line with three numbers, the size of the base64 in
bytes and the box to fit the picture into in pixels, and then the base64; an answer is one line of JSON. Before the
first picture is decoded, the process gives up opening files and sockets. The parent process kills it when it takes too
long; an interval timer does that if the parent is gone.
"""

import base64
import binascii
import io
import json
import signal
import sys
import warnings
from importlib import import_module
from typing import Any

from mcphost.sandbox.image_formats import MOST_PIXELS, fitted, picture
from mcphost.sandbox.limits import confine, shut_out

LAST_RESORT = 6
"""Seconds of one picture after which the kernel ends this process, if nobody else did."""
MEMORY = 1024**3
_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_ORIENTATION = 0x0112
_TURNED = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM"}
_ON_ITS_SIDE = {5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}


def main() -> None:
    """Answer until the input ends."""
    confine(MEMORY)
    from PIL import Image, ImageFile

    _load_all(Image)
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    out, source = sys.stdout.buffer, sys.stdin.buffer
    out.write(b"{}\n")
    out.flush()
    shut_out()
    while head := source.readline(64):
        size, width, height = map(int, head.split())
        body = source.read(size)
        signal.alarm(LAST_RESORT)
        answer = _answer(Image, ImageFile, body, width, height)
        signal.alarm(0)
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


def _load_all(library: Any) -> None:
    """What the library would load when it needs it: after `shut_out` nothing can be loaded any more."""
    library.preinit()
    for name in (".ImageOps", ".TiffImagePlugin", ".WebPImagePlugin"):  # the second reads EXIF
        import_module(name, library.__package__)
    import_module("copy")


def _answer(library: Any, reading: Any, body: bytes, width: int, height: int) -> dict[str, Any]:
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return {"why": "it is not valid base64"}
    found = picture(raw)
    if found is None:
        return {"why": "it is no picture mcphost knows"}
    for whole in (True, False):
        # Wrong checksums of what is no pixel are common: the reference server's own picture has such a colour profile.
        reading.LOAD_TRUNCATED_IMAGES = True
        try:
            # Only the reader of what its first bytes say; the library would try them all.
            with library.open(io.BytesIO(raw), formats=(_FORMATS[found.mime_type],)) as image:
                if image.width * image.height > MOST_PIXELS:
                    return {"why": "it has too many pixels"}
                reading.LOAD_TRUNCATED_IMAGES = not whole
                return {"whole": whole, **_small(library, image, width, height)}
        except (library.DecompressionBombError, library.DecompressionBombWarning):
            return {"why": "it has too many pixels"}
        except MemoryError:
            return {"why": "decoding it takes too much memory"}
        except Exception:  # noqa: BLE001, S112 - a damaged picture raises nearly anything inside the library
            continue
    return {"why": "it is damaged"}


def _small(library: Any, image: Any, width: int, height: int) -> dict[str, Any]:
    held = image.getexif().get(_ORIENTATION, 1) if image.format in ("JPEG", "WEBP") else 1
    turn = _TURNED.get(held) or _ON_ITS_SIDE.get(held)
    if held in _ON_ITS_SIDE:
        width, height = height, width
    image.draft("RGB", (width * 2, height * 2))  # a JPEG decodes to a fraction of its size for less
    image.load()
    # Colours of a palette cannot be mixed, and of a pixel that cannot be seen none should be.
    mode = "RGBA" if image.mode in ("RGBA", "LA", "PA", "P") or "transparency" in image.info else "RGB"
    sides = fitted(image.width, image.height, width, height)
    small = image.convert(mode).resize(sides, library.Resampling.BOX, reducing_gap=2.0).convert("RGBA")
    if turn is not None:
        small = small.transpose(library.Transpose[turn])
    pixels = base64.b64encode(small.tobytes()).decode()
    return {"width": small.width, "height": small.height, "pixels": pixels}


if __name__ == "__main__":
    main()
