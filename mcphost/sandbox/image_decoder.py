"""Decoder: a hostile picture made small within seconds and a bounded part of memory, or why that could not be."""

from importlib.util import find_spec

from mcphost.errors import MalformedMessage
from mcphost.sandbox.image_formats import Drawing
from mcphost.sandbox.process import Child
from mcphost.serialization import Data, decode

SECONDS = 5.0
"""What decoding one may take, at most the six seconds after which the child ends itself."""
QUEUE_SECONDS = 30.0
MOST_BYTES = 8 * 1024 * 1024
MOST_SIDE = 400
"""Pixels of a drawing in each direction: more than a wide terminal has columns."""
_ANSWER_SIZE = 1024 * 1024
HINT = "To see them, install mcphost with its extra: uv tool install 'mcphost[images]'"


class _Answer(Data, frozen=True):
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    why: str = ""
    whole: bool = True


def is_installed() -> bool:
    """Whether the extra `images` is there; loads nothing of it."""
    return find_spec("PIL") is not None


class Decoder:
    """Owns the child that decodes; one picture at a time. `close` ends it, the next picture would start another."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child = Child(
            "mcphost.sandbox.image_worker", seconds=seconds, answer_size=_ANSWER_SIZE, queue_seconds=QUEUE_SECONDS
        )

    @property
    def pid(self) -> int | None:
        """The child's process id while it lives."""
        return self._child.pid

    async def draw(self, data: str, width: int, height: int) -> Drawing | str:
        """The first frame of a picture (base64), fitted into so many pixels; or half a sentence that says why not.

        Never enlarged. Raises nothing but cancellation.
        """
        if len(data) > MOST_BYTES * 4 // 3 + 4:
            return f"it is over {MOST_BYTES // 1024**2} MB"
        if not data.isascii():
            return "it is not valid base64"
        width, height = (max(1, min(MOST_SIDE, side)) for side in (width, height))
        body = data.encode("ascii")
        line = await self._child.ask(b"%d %d %d\n" % (len(body), width, height) + body)
        if isinstance(line, str):
            return {
                "busy": "too many pictures wait",
                "slow": f"decoding it took over {self._seconds:g} s",
                "ended": "it was too much for the process that decodes",
                "silent": "decoding it gave no answer",
            }[line]
        try:
            answer = decode(line, _Answer, "answer of the picture decoder")
        except MalformedMessage:
            answer = _Answer()
        if answer.why:
            return answer.why[:200]
        if not (0 < answer.width <= width and 0 < answer.height <= height):
            answer = _Answer()
        if not answer.pixels or len(answer.pixels) != answer.width * answer.height * 4:
            await self._child.close()  # whoever answers such a thing is not to be trusted any longer
            return "decoding it gave no answer"
        return Drawing(answer.width, answer.height, answer.pixels, answer.whole)

    async def close(self) -> None:
        """End the child; what it decodes ends with it. Idempotent."""
        await self._child.close()
