"""Limits of a model's answer, checked in the worker before a line is sent, and in the host before it is stored."""

MAX_ANSWER_LENGTH = 1_000_000
"""Characters of one answer, tool arguments and reasoning included."""
MAX_DELTAS = 250_000
"""Events of one answer, empty ones included."""
MAX_ANSWER_BYTES = 32_000_000
"""Bytes of all lines that the worker sends for one answer."""
MAX_LINE_BYTES = 8_000_000
"""Bytes of one such line."""
MAX_TOOL_CALLS = 256
"""Tool calls of one answer."""
MAX_ANSWER_SECONDS = 3_600.0
"""Total time of one answer."""
MAX_TOKEN_COUNT = 10**12
"""A larger number of tokens is taken as an error of the provider."""


class AnswerTooLong(Exception):
    """The model's answer exceeds a limit; the message is a sentence for the user."""


class AnswerMeter:
    """Meter of one answer; both methods raise AnswerTooLong when it exceeds a limit."""

    def __init__(self) -> None:
        self._bytes = 0
        self._deltas = 0
        self._chunks = 0

    def add_line(self, line_bytes: int) -> None:
        """Count one line of *line_bytes* bytes."""
        self._bytes += line_bytes
        self._deltas += 1
        if line_bytes > MAX_LINE_BYTES or self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLong(f"The answer passed {MAX_ANSWER_BYTES // 1_000_000} MB and was stopped.")
        self._check(self._deltas)

    def add_chunk(self) -> None:
        """Count one event of the provider, which may have any number of deltas."""
        self._chunks += 1
        self._check(self._chunks)

    def _check(self, count: int) -> None:
        if count > MAX_DELTAS:
            raise AnswerTooLong(f"The answer came in more than {MAX_DELTAS:,} pieces and was stopped.")


def parse_token_count(value: object) -> int:
    """Return a number of tokens that a provider reported, or 0 if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKEN_COUNT:
        return 0
    return int(value)
