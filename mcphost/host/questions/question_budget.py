"""How much the questions that are not answered yet may hold, for one server and for all servers together."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from mcphost.errors import Declined

SERVER_BYTES = 32_000_000
ALL_BYTES = 64_000_000
SERVER_QUESTIONS = 50
ALL_QUESTIONS = 200


class TooManyQuestions(Declined):
    """A question that is not asked, because those that are open hold too much already."""


class OpenQuestions:
    """Counts questions and the bytes that servers put into them; what comes beyond the bounds is refused unasked."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._count: Counter[str] = Counter()

    @contextmanager
    def hold(self, server: str, size: int) -> Generator[None]:
        """Count a question of `size` bytes while the block lasts. Raises TooManyQuestions."""
        if reason := self._too_much(server, size):
            raise TooManyQuestions(reason, "Answer the questions that are open.")
        self._bytes[server] += size
        self._count[server] += 1
        try:
            yield
        finally:
            self._bytes[server] -= size
            self._count[server] -= 1
            if not self._count[server]:
                del self._bytes[server], self._count[server]

    def _too_much(self, server: str, size: int) -> str:
        if self._count[server] >= SERVER_QUESTIONS:
            return f"{SERVER_QUESTIONS} questions of this server are open already."
        if self._bytes[server] + size > SERVER_BYTES:
            return f"The open questions of this server hold more than {SERVER_BYTES // 1_000_000} MB with this one."
        if self._count.total() >= ALL_QUESTIONS:
            return f"{ALL_QUESTIONS} questions are open already."
        if self._bytes.total() + size > ALL_BYTES:
            return f"All open questions hold more than {ALL_BYTES // 1_000_000} MB with this one."
        return ""
