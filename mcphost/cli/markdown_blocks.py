"""Division of streamed Markdown into blocks that are complete."""

_HEAD_LENGTH = 1_000
"""Characters at the start of a line that tell what it is."""


class MarkdownBlocks:
    """Buffer of streamed Markdown that releases blocks once they are complete.

    A block is complete at a blank line that is outside fenced code, once unindented text follows. Each character is
    examined once, so that a long block takes linear time.
    """

    def __init__(self, tail_length: int) -> None:
        """Create an empty buffer; *tail_length* is the maximum length of `tail`."""
        self._tail_length = tail_length
        self._clear()

    def _clear(self) -> None:
        self._finished: list[str] = []
        self._open: list[str] = []
        self._open_length = 0
        self._recent = ""
        self._head = ""
        self._line_length = 0
        self._fence = ""
        self._is_after_blank = False

    @property
    def tail(self) -> str:
        """The end of the text that was not released yet."""
        return self._recent[-self._open_length :] if self._open_length else ""

    def add(self, text: str) -> str:
        """Add text, and return the blocks that it completes, or "" if there are none."""
        self._recent = (self._recent + text)[-self._tail_length :]
        for number, part in enumerate(text.split("\n")):
            if number:
                self._end_line()
            if part:
                self._head += part[: _HEAD_LENGTH - len(self._head)]
                self._append(part)
                self._line_length += len(part)
                self._release_before_line()
        blocks, self._finished = "".join(self._finished), []
        return blocks

    def take_rest(self) -> str:
        """Return the text that was not released yet, and empty the buffer."""
        rest = "".join(self._open)
        self._clear()
        return rest

    def _append(self, part: str) -> None:
        self._open.append(part)
        self._open_length += len(part)

    def _release_before_line(self) -> None:
        """Release the text before the current line if this line begins another block."""
        if self._is_after_blank and self._head.strip():
            self._is_after_blank = False
            if not self._head[0].isspace():
                whole = "".join(self._open)
                at = len(whole) - self._line_length
                self._finished.append(whole[:at])
                self._open, self._open_length = [whole[at:]], self._line_length

    def _end_line(self) -> None:
        stripped = self._head.strip()
        if self._fence:
            if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
                self._fence = ""
        elif stripped.startswith(("```", "~~~")):
            self._fence = stripped[: len(stripped) - len(stripped.lstrip(stripped[0]))]
        self._is_after_blank = not stripped and not self._fence
        self._append("\n")
        self._head, self._line_length = "", 0
