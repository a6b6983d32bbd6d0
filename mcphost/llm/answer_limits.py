"""Bounds of one answer of a model, checked in the worker before a line is sent and in the host before it is kept."""

MAX_ANSWER_LENGTH = 1_000_000
"""Characters of one answer, tool arguments and reasoning included."""
MAX_DELTAS = 250_000
"""Pieces in which it may come, empty ones included."""
MAX_ANSWER_BYTES = 32_000_000
"""Bytes of all lines about it from the worker."""
MAX_LINE_BYTES = 8_000_000
"""Bytes of one such line."""
MAX_TOOL_CALLS = 256
"""Tool calls of one answer."""
MAX_ANSWER_SECONDS = 3_600.0
"""Seconds that it may take, however steadily it comes."""
MAX_TOKEN_COUNT = 10**12
"""A larger number of tokens is none."""


class AnswerTooLong(Exception):
    """The model's answer passes a bound; the message says which, as a sentence for the user."""


class AnswerMeter:
    """Counts one answer; `add` and `chunk` raise AnswerTooLong when it passes a bound."""

    def __init__(self) -> None:
        self._bytes = 0
        self._deltas = 0
        self._chunks = 0

    def add_line(self, line_bytes: int) -> None:
        """Count one line of so many bytes."""
        self._bytes += line_bytes
        self._deltas += 1
        if line_bytes > MAX_LINE_BYTES or self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLong(f"The answer passed {MAX_ANSWER_BYTES // 1_000_000} MB and was stopped.")
        self._check(self._deltas)

    def add_chunk(self) -> None:
        """Count one event of the provider, which may hold several pieces or none."""
        self._chunks += 1
        self._check(self._chunks)

    def _check(self, count: int) -> None:
        if count > MAX_DELTAS:
            raise AnswerTooLong(f"The answer came in more than {MAX_DELTAS:,} pieces and was stopped.")


def parse_token_count(value: object) -> int:
    """Return a number of tokens as a provider reports it; 0 for what makes no sense."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKEN_COUNT:
        return 0
    return int(value)
