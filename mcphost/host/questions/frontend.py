"""The base class of questions, the frontends that answer them, and limits on the number of open questions."""

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
    """A question to the user, caused by `server` ("" for mcphost itself); `why` is the reason as a short phrase.

    `account` is the account in use at the server, "" for none. `number` identifies the call that caused the question,
    so that CallEnded can refer to it; 0 if no call did.
    """

    KIND: ClassVar[str]
    server: str
    why: str
    account: str = ""
    number: int = 0

    def refusal(self) -> A_co:
        """Return the answer that refuses, which is used when the user gives none."""
        raise NotImplementedError


class Frontend(Protocol):
    """A user interface that answers questions.

    Cancelling a call of `ask` withdraws the question. A frontend whose user interface has closed returns refusals.
    """

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of questions that can be asked; a capability that needs another kind is not declared to servers."""
        ...

    @property
    def who(self) -> str:
        """The source of the last answer: "person", "program", "rules", or "nobody" if it is an automatic refusal."""
        ...

    async def ask(self, question: Question[A]) -> A:
        """Ask the user and return the answer; wait as long as necessary."""
        ...


class FrontendWrapper(Frontend):
    """Base class of frontends that pass questions on to another frontend."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of questions that the wrapped frontend can ask."""
        return self._frontend.kinds

    @property
    def who(self) -> str:
        """The source of the wrapped frontend's last answer."""
        return self._frontend.who


class RefusingFrontend:
    """Frontend without a user: refuses every question."""

    kinds: frozenset[str] = frozenset()
    who = "nobody"

    async def ask(self, question: Question[A]) -> A:
        """Return the question's refusal."""
        return question.refusal()


class TooManyQuestions(ConsentDenied):
    """A question was not asked, because the number or the size of open questions reached a limit."""


class QuestionBudget:
    """Limits on the number and the size in bytes of open questions, for each server and in total."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._count: Counter[str] = Counter()

    @contextmanager
    def reserve(self, server: str, size: int) -> Generator[None]:
        """Count a question of *size* bytes as open during the block. Raises TooManyQuestions at a limit."""
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
