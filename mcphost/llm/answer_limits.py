"""Limits on a model's answer, which the worker process enforces and the host checks again before storing it."""

MAX_ANSWER_LENGTH = 1_000_000
"""Maximum number of characters in one answer, including tool arguments and reasoning."""
MAX_DELTAS = 250_000
"""Maximum number of events in one answer, including empty ones."""
MAX_ANSWER_BYTES = 32_000_000
"""Maximum total size in bytes of the lines that the worker sends for one answer."""
MAX_LINE_BYTES = 8_000_000
"""Maximum size in bytes of a line that the worker sends."""
MAX_TOOL_CALLS = 256
"""Maximum number of tool calls in one answer."""
MAX_ANSWER_SECONDS = 3_600.0
"""Maximum total time for one answer, in seconds."""
MAX_TOKEN_COUNT = 10**12
"""A larger token count is treated as an error of the provider."""


class AnswerTooLong(Exception):
    """Raised when the model's answer exceeds a limit; the message is written for the user."""


class ErrorInAnswer(Exception):
    """Raised when a successful response contains the provider's error message instead of an answer.

    `status_code` is the status in the error, or None if it has none.
    """

    def __init__(self, message: str, status_code: object) -> None:
        super().__init__(message)
        self.status_code = status_code


class CompressionRefused(Exception):
    """Raised when the provider sends a compressed answer that cannot be read; the message is written for the user."""


class RedirectRefused(Exception):
    """Raised when the provider sends a redirect; the message is written for the user."""


class ProxyUnusable(Exception):
    """Raised when the environment sets a proxy that cannot be used; the message, with the fix, is for the user."""


class AnswerMeter:
    """Counter for the lines and chunks of one answer; its methods raise AnswerTooLong if a limit is exceeded."""

    def __init__(self) -> None:
        self._bytes = 0
        self._deltas = 0
        self._chunks = 0

    def add_line(self, line_bytes: int) -> None:
        """Count one line of *line_bytes* bytes that the worker has sent."""
        self._bytes += line_bytes
        self._deltas += 1
        if line_bytes > MAX_LINE_BYTES or self._bytes > MAX_ANSWER_BYTES:
            raise AnswerTooLong(f"The answer exceeded {MAX_ANSWER_BYTES // 1000000} MB and was stopped.")
        self._check(self._deltas)

    def add_chunk(self) -> None:
        """Count one chunk that the provider has sent; it may contain any number of deltas."""
        self._chunks += 1
        self._check(self._chunks)

    def _check(self, count: int) -> None:
        if count > MAX_DELTAS:
            raise AnswerTooLong(f"The answer came in more than {MAX_DELTAS:,} pieces and was stopped.")


def parse_token_count(value: object) -> int:
    """Return a token count from a provider's usage report, or 0 if *value* is not a valid count."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKEN_COUNT:
        return 0
    return int(value)
