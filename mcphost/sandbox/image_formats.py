"""Detection of an image's format and size from its first bytes, without decoding the image."""

import struct

from mcphost.serialization import Struct

MAX_PIXELS = 40_000_000
"""Maximum number of pixels of an image to decode or to send to a model; a larger image may take gigabytes of memory."""
HEADER_BYTES = 256 * 1024
"""Number of bytes that are examined at the beginning of an image."""
_START_OF_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageInfo(Struct, frozen=True):
    """MIME type and size of an image; `width` and `height` are in pixels, or 0 if unknown.

    The size is unknown if it is not in the image's first bytes.
    """

    mime_type: str
    width: int = 0
    height: int = 0

    @property
    def is_too_big(self) -> bool:
        """Whether the image has too many pixels to be decoded or sent to a model."""
        return self.width * self.height > MAX_PIXELS


def identify_image(body: bytes) -> ImageInfo | None:
    """Identify a PNG, JPEG, GIF or WebP image by its first bytes; return None for any other data. Never raises."""
    body = body[:HEADER_BYTES]
    try:
        if body.startswith(b"\x89PNG\r\n\x1a\n"):
            return ImageInfo("image/png", *_read_size(">II", body, 16))
        if body.startswith((b"GIF87a", b"GIF89a")):
            return ImageInfo("image/gif", *_read_size("<HH", body, 6))
        if body.startswith(b"\xff\xd8\xff"):
            return ImageInfo("image/jpeg", *_jpeg_size(body))
        if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
            return ImageInfo("image/webp", *_webp_size(body))
    except (struct.error, IndexError):
        pass
    return None


def _read_size(form: str, body: bytes, at: int) -> tuple[int, int]:
    if len(body) < at + struct.calcsize(form):
        return 0, 0
    first, second = struct.unpack_from(form, body, at)
    return int(first), int(second)


def _jpeg_size(body: bytes) -> tuple[int, int]:
    """Return the width and height from the frame header (ITU T.81, B.2.2), skipping the segments before it."""
    at = 2
    while at + 4 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _START_OF_FRAME_MARKERS:
            height, width = _read_size(">HH", body, at + 5)
            return width, height
        else:
            at += 2 + max(2, _read_size(">HH", body, at + 2)[0] or 2)
    return 0, 0


def has_one_scan(body: bytes) -> bool:
    """Return whether a JPEG file stores all its components in a single sequential scan (ITU T.81, B.2).

    Only a file with one scan is decoded row by row. To decode any other JPEG file, all its coefficients are held in
    memory.
    """
    at, components = 2, 0
    while at + 10 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
            continue
        if marker == 0xDA:
            return components > 0 and body[at + 4] == components
        if marker in _START_OF_FRAME_MARKERS:
            components = body[at + 9] if marker in (0xC0, 0xC1) else 0
        at += 2 + max(2, int.from_bytes(body[at + 2 : at + 4]))
    return False


def _webp_size(body: bytes) -> tuple[int, int]:
    """Return the width and height from the first chunk of a WebP file (RFC 9649, 2.5 to 2.7)."""
    kind = body[12:16]
    if kind == b"VP8X" and len(body) >= 30:
        return 1 + int.from_bytes(body[24:27], "little"), 1 + int.from_bytes(body[27:30], "little")
    if kind == b"VP8L" and len(body) >= 25:
        bits = int.from_bytes(body[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = _read_size("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


class DecodedImage(Struct, frozen=True):
    """A decoded and scaled image; `pixels` has four bytes for each pixel (red, green, blue, alpha), row by row.

    If `is_complete` is False, the image is damaged or truncated, and only part of it could be read.
    """

    width: int
    height: int
    pixels: bytes
    is_complete: bool = True


def fit_size(width: int, height: int, max_width: int, max_height: int) -> tuple[int, int]:
    """Return the size of an image after scaling it down to fit a box; each side has at least one pixel.

    An image that already fits keeps its size.
    """
    scale = min(1.0, max_width / max(1, width), max_height / max(1, height))
    return max(1, round(width * scale)), max(1, round(height * scale))
