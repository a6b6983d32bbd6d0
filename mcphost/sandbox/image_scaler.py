"""Scaling of untrusted images that are too large for a model, in a sandboxed worker process."""

import base64

from mcphost.errors import MalformedMessage
from mcphost.sandbox.image_decoder import DECODE_TIMEOUT, IMAGE_QUEUE_TIMEOUT
from mcphost.sandbox.process import SandboxProcess
from mcphost.serialization import Struct, decode

MAX_SOURCE_BYTES = 32 * 1024 * 1024


class ScaledImage(Struct, frozen=True):
    """An image scaled down and encoded as JPEG or PNG; `data` is base64."""

    width: int = 0
    height: int = 0
    mime_type: str = ""
    data: str = ""
    why: str = ""
    whole: bool = True


class ImageScaler:
    """Image scaler that runs in its own worker process and scales one image at a time.

    After `close`, the next call of `scale` starts a new process.
    """

    def __init__(self, timeout: float = DECODE_TIMEOUT) -> None:
        self._timeout = timeout
        self._process = SandboxProcess(
            "mcphost.sandbox.image_worker",
            timeout=timeout,
            max_response_size=16 * 1024 * 1024,
            queue_timeout=IMAGE_QUEUE_TIMEOUT,
        )

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None if it is not running."""
        return self._process.pid

    async def scale(self, data: str, max_side: int, max_bytes: int) -> ScaledImage | str:
        """Return the first frame of a base64 image, with at most *max_side* pixels a side and *max_bytes*.

        If that fails, returns an error message, which is a clause like "it is damaged". Never raises an error, but may
        be cancelled.
        """
        if len(data) > MAX_SOURCE_BYTES * 4 // 3 + 4:
            return f"it is over {MAX_SOURCE_BYTES // 1024**2} MB"
        if not data.isascii():
            return "it is not valid base64"
        body = data.encode("ascii")
        line = await self._process.request(b"%d %d %d %d 0\n" % (len(body), max_side, max_side, max_bytes) + body)
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
            await self._process.close()  # a worker with an invalid response cannot be trusted
            return "the decoder did not respond"
        return answer

    async def close(self) -> None:
        """End the worker process and the image in progress, if any. Idempotent."""
        await self._process.close()


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False
