"""Decoding and scaling of untrusted images in a worker process, with limits on time and memory."""

import base64
from importlib.util import find_spec

from mcphost.errors import MalformedMessage
from mcphost.sandbox.image_formats import DecodedImage
from mcphost.sandbox.process import SandboxProcess
from mcphost.serialization import Struct, decode

DECODE_TIMEOUT = 5.0
"""Maximum seconds for one image; less than the six seconds after which the worker ends itself."""
IMAGE_QUEUE_TIMEOUT = 30.0
MAX_IMAGE_BYTES = 8 * 1024 * 1024
MAX_SIDE = 400
"""Maximum width and height of a decoded image in pixels, more than the columns of a wide terminal."""
_MAX_RESPONSE_SIZE = 1024 * 1024
INSTALL_HINT = "To see them, install mcphost with its extra: uv tool install 'mcphost[images]'"


class _WorkerResponse(Struct, frozen=True):
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    why: str = ""
    whole: bool = True


def is_installed() -> bool:
    """Return whether Pillow is installed (optional dependency `images`), without importing it."""
    return find_spec("PIL") is not None


class ImageDecoder(SandboxProcess):
    """Image decoder that runs in its own worker process and decodes one image at a time."""

    def __init__(self, timeout: float = DECODE_TIMEOUT) -> None:
        super().__init__(
            "mcphost.sandbox.image_worker",
            timeout=timeout,
            max_response_size=_MAX_RESPONSE_SIZE,
            queue_timeout=IMAGE_QUEUE_TIMEOUT,
        )

    async def decode(self, data: str, width: int, height: int, colors: int = 0) -> DecodedImage | str:
        """Return the first frame of a base64 image, scaled down to fit *width* by *height* pixels.

        Images are never enlarged. If *colors* is not 0, the result has at most that number of colors, and each pixel is
        either opaque or fully transparent. If decoding fails, the result is an error message such as "it is not valid
        base64". Never raises an error; safe to cancel.
        """
        if len(data) > MAX_IMAGE_BYTES * 4 // 3 + 4:
            return f"it is over {MAX_IMAGE_BYTES // 1024**2} MB"
        if not data.isascii():
            return "it is not valid base64"
        width, height = (max(1, min(MAX_SIDE, side)) for side in (width, height))
        body = data.encode("ascii")
        line = await self.request(b"%d %d %d 0 %d\n" % (len(body), width, height, colors) + body)
        if isinstance(line, str):
            return {
                "busy": "too many images are waiting",
                "slow": f"decoding it took over {self._timeout:g} s",
                "ended": "it crashed the decoder",
                "silent": "the decoder did not respond",
            }[line]
        try:
            answer = decode(line, _WorkerResponse, "answer of the picture decoder")
        except MalformedMessage:
            answer = _WorkerResponse()
        if answer.why:
            return answer.why[:200]
        if not (0 < answer.width <= width and 0 < answer.height <= height):
            answer = _WorkerResponse()
        if not answer.pixels or len(answer.pixels) != answer.width * answer.height * 4:
            await self.close()  # a worker with an invalid response cannot be trusted
            return "the decoder did not respond"
        return DecodedImage(answer.width, answer.height, answer.pixels, answer.whole)


MAX_SOURCE_BYTES = 32 * 1024 * 1024


class ScaledImage(Struct, frozen=True):
    """An image that was scaled down and encoded as JPEG or PNG.

    - `data`: the encoded image as base64.
    - `why`: the reason why the image could not be scaled, or "" if it was scaled.
    - `whole`: False if the original is damaged or truncated, and only part of it could be read.
    """

    width: int = 0
    height: int = 0
    mime_type: str = ""
    data: str = ""
    why: str = ""
    whole: bool = True


class ImageScaler(SandboxProcess):
    """Image scaler that runs in its own worker process and scales one image at a time."""

    def __init__(self, timeout: float = DECODE_TIMEOUT) -> None:
        super().__init__(
            "mcphost.sandbox.image_worker",
            timeout=timeout,
            max_response_size=16 * 1024 * 1024,
            queue_timeout=IMAGE_QUEUE_TIMEOUT,
        )

    async def scale(self, data: str, max_side: int, max_bytes: int) -> ScaledImage | str:
        """Return the first frame of a base64 image, with at most *max_side* pixels per side and *max_bytes* bytes.

        If that fails, the result is an error message such as "it is damaged". Never raises an error; safe to cancel.
        """
        if len(data) > MAX_SOURCE_BYTES * 4 // 3 + 4:
            return f"it is over {MAX_SOURCE_BYTES // 1024**2} MB"
        if not data.isascii():
            return "it is not valid base64"
        body = data.encode("ascii")
        line = await self.request(b"%d %d %d %d 0\n" % (len(body), max_side, max_side, max_bytes) + body)
        if isinstance(line, str):
            return {
                "busy": "too many images are waiting",
                "slow": f"scaling it took over {self._timeout:g} s",
                "ended": "it crashed the decoder",
                "silent": "the decoder did not respond",
            }[line]
        try:
            answer = decode(line, ScaledImage, "answer of the image scaler")
        except MalformedMessage:
            answer = ScaledImage()
        if answer.why:
            return answer.why[:200]
        is_valid = 0 < answer.width <= max_side and 0 < answer.height <= max_side and len(answer.data) > 0
        if not is_valid or len(answer.data) > max_bytes * 4 // 3 + 4 or not _is_base64(answer.data):
            await self.close()  # a worker with an invalid response cannot be trusted
            return "the decoder did not respond"
        return answer


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False
