"""What a picture is by its own first bytes: its kind, and how many pixels it claims; nothing of it is decoded."""

import struct

from mcphost.serialization import Data

MOST_PIXELS = 40_000_000
"""Beyond this a small file may become gigabytes for whoever decodes it; no model is sent it."""
HEAD = 256 * 1024
"""Bytes of a picture that are looked at."""
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Picture(Data, frozen=True):
    """Its true type; width and height in pixels, 0 when the beginning does not say."""

    mime_type: str
    width: int = 0
    height: int = 0

    @property
    def is_too_big(self) -> bool:
        """Whether it claims more pixels than anybody should decode unasked."""
        return self.width * self.height > MOST_PIXELS


def picture(body: bytes) -> Picture | None:
    """A PNG, JPEG, GIF or WebP judged by its beginning; None for everything else. Never raises."""
    body = body[:HEAD]
    try:
        if body.startswith(b"\x89PNG\r\n\x1a\n"):
            return Picture("image/png", *_sides(">II", body, 16))
        if body.startswith((b"GIF87a", b"GIF89a")):
            return Picture("image/gif", *_sides("<HH", body, 6))
        if body.startswith(b"\xff\xd8\xff"):
            return Picture("image/jpeg", *_jpeg(body))
        if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
            return Picture("image/webp", *_webp(body))
    except (struct.error, IndexError):
        pass
    return None


def _sides(form: str, body: bytes, at: int) -> tuple[int, int]:
    if len(body) < at + struct.calcsize(form):
        return 0, 0
    first, second = struct.unpack_from(form, body, at)
    return int(first), int(second)


def _jpeg(body: bytes) -> tuple[int, int]:
    """From the frame header (ITU T.81, B.2.2): the segments before it are stepped over."""
    at = 2
    while at + 4 <= len(body) and body[at] == 0xFF:
        marker = body[at + 1]
        if marker == 0xFF:  # fill
            at += 1
        elif marker in _SOF:
            height, width = _sides(">HH", body, at + 5)
            return width, height
        else:
            at += 2 + max(2, _sides(">HH", body, at + 2)[0] or 2)
    return 0, 0


def _webp(body: bytes) -> tuple[int, int]:
    """From its first chunk (RFC 9649, 2.5 to 2.7)."""
    kind = body[12:16]
    if kind == b"VP8X" and len(body) >= 30:
        return 1 + int.from_bytes(body[24:27], "little"), 1 + int.from_bytes(body[27:30], "little")
    if kind == b"VP8L" and len(body) >= 25:
        bits = int.from_bytes(body[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = _sides("<HH", body, 26)
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


class Drawing(Data, frozen=True):
    """A picture made small: `pixels` row by row, four bytes each (red, green, blue, opacity).

    Not `whole`: it is damaged or cut short, and this is what could be read of it.
    """

    width: int
    height: int
    pixels: bytes
    whole: bool = True


def fitted(width: int, height: int, most_width: int, most_height: int) -> tuple[int, int]:
    """The sides of a picture that has room in a box: never larger than it is, never without a pixel."""
    scale = min(1.0, most_width / max(1, width), most_height / max(1, height))
    return max(1, round(width * scale)), max(1, round(height * scale))
