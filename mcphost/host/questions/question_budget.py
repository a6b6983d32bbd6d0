"""Limits on the number and size of open questions, per server and in total."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from mcphost.errors import ConsentDenied

MAX_SERVER_BYTES = 32_000_000
MAX_TOTAL_BYTES = 64_000_000
MAX_SERVER_QUESTIONS = 50
MAX_TOTAL_QUESTIONS = 200


class TooManyQuestions(ConsentDenied):
    """A question that is not asked because the open ones reach a limit."""


class QuestionBudget:
    """Counter of open questions and of the bytes that servers put in them."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._count: Counter[str] = Counter()

    @contextmanager
    def reserve(self, server: str, size: int) -> Generator[None]:
        """Count a question of *size* bytes during the block. Raises TooManyQuestions."""
        if reason := self._limit_error(server, size):
            raise TooManyQuestions(reason, "Answer the open questions first.")
        self._bytes[server] += size
        self._count[server] += 1
        try:
            yield
        finally:
            self._bytes[server] -= size
            self._count[server] -= 1
            if not self._count[server]:
                del self._bytes[server], self._count[server]

    def _limit_error(self, server: str, size: int) -> str:
        if self._count[server] >= MAX_SERVER_QUESTIONS:
            return f"This server already has {MAX_SERVER_QUESTIONS} open questions."
        if self._bytes[server] + size > MAX_SERVER_BYTES:
            return f"The open questions of this server would exceed {MAX_SERVER_BYTES // 1_000_000} MB with this one."
        if self._count.total() >= MAX_TOTAL_QUESTIONS:
            return f"{MAX_TOTAL_QUESTIONS} questions are already open."
        if self._bytes.total() + size > MAX_TOTAL_BYTES:
            return f"All open questions would exceed {MAX_TOTAL_BYTES // 1_000_000} MB with this one."
        return ""
