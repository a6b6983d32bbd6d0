"""The base class of questions, the frontends that answer them, and the limits on open ones."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import ClassVar, Generic, Protocol, TypeVar

from mcphost.errors import ConsentDenied
from mcphost.serialization import Struct

A = TypeVar("A")
MAX_SERVER_BYTES = 32_000_000
MAX_TOTAL_BYTES = 64_000_000
MAX_SERVER_QUESTIONS = 50
MAX_TOTAL_QUESTIONS = 200


A_co = TypeVar("A_co", covariant=True)


class Question(Struct, Generic[A_co], frozen=True, kw_only=True):
    """A question of `server` ("" is mcphost); `why` is the reason in one short phrase.

    `account` is the account used with the server, "" when nobody is signed in. `number` is the same for all requests
    that belong to one call, 0 without a call; see CallEnded.
    """

    KIND: ClassVar[str]
    server: str
    why: str
    account: str = ""
    number: int = 0

    def refusal(self) -> A_co:
        """Return the answer to use when nobody answers."""
        raise NotImplementedError


class Frontend(Protocol):
    """An interface that asks the user and waits for the answer.

    Cancelling the call of `ask` withdraws the question; a frontend that is gone answers with refusal().
    """

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of question that can be answered; capabilities without one are not declared to servers."""
        ...

    @property
    def who(self) -> str:
        """The source of the last answer: "person", "program", "rules", or "nobody" for a mere refusal."""
        ...

    async def ask(self, question: Question[A]) -> A:
        """Return the user's answer."""
        ...


class FrontendWrapper(Frontend):
    """A frontend that changes questions or answers on the way to another one."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the wrapped frontend."""
        return self._frontend.kinds

    @property
    def who(self) -> str:
        """The source of the last answer, from the wrapped frontend."""
        return self._frontend.who


class RefusingFrontend:
    """A frontend that answers every question with its refusal."""

    kinds: frozenset[str] = frozenset()
    who = "nobody"

    async def ask(self, question: Question[A]) -> A:
        """Return the refusal at once."""
        return question.refusal()


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
