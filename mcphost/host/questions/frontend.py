"""Base class of questions to the user, the frontends that answer questions, and limits on open questions."""

from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import ClassVar, Generic, Protocol, TypeVar

import anyio

from mcphost.errors import ConsentDenied, StoreError
from mcphost.serialization import Struct

A = TypeVar("A")
MAX_SERVER_BYTES = 32_000_000
MAX_TOTAL_BYTES = 64_000_000
MAX_SERVER_QUESTIONS = 50
MAX_TOTAL_QUESTIONS = 200
POLL_SECONDS = 1.0
"""Seconds between checks of whether another process has made the decision that the user is asked for."""


A_co = TypeVar("A_co", covariant=True)


class Question(Struct, Generic[A_co], frozen=True, kw_only=True):
    """Base class of questions to the user.

    - `server`: the server that caused the question, "" for mcphost itself.
    - `why`: the reason for the question, as a short phrase.
    - `account`: the account in use at the server, "" for none.
    - `number`: the number of the tool call, or other request to the server, during which the question arose; 0 for
      none. The CallEnded event for that request has the same number.
    """

    KIND: ClassVar[str]
    server: str
    why: str
    account: str = ""
    number: int = 0

    @property
    def is_retry(self) -> bool:
        """Whether the question is asked again because the user's last entry, such as a passphrase, was wrong.

        A frontend then opens the question's text input immediately, so that a passphrase that the user types again does
        not end up in another input. If the user has typed in another input since the wrong entry, the frontend waits
        until the user opens the question.
        """
        return False

    def refusal(self) -> A_co:
        """Return the answer that refuses the request; it is used if the user gives no answer."""
        raise NotImplementedError


class Frontend(Protocol):
    """A user interface or program that answers questions.

    Cancelling `ask` withdraws the question. After its user interface is closed, a frontend answers every question
    with its refusal (see `Question.refusal`).
    """

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of questions that this frontend can ask.

        Client capabilities that need other kinds of questions are not declared to servers.
        """
        ...

    @property
    def who(self) -> str:
        """The source of the last answer: "person", "program", "rules", or "nobody" for an automatic refusal."""
        ...

    async def ask(self, question: Question[A]) -> A:
        """Ask the question and return the answer; wait for it without a time limit."""
        ...


async def ask_until_decided(
    frontend: Frontend, question: Question[A], is_decided: Callable[[], Awaitable[bool]]
) -> A | None:
    """Ask the question and return the answer; withdraw it and return None once *is_decided* returns True.

    *is_decided* is called every POLL_SECONDS; a StoreError that it raises is ignored.
    """
    answer: A | None = None
    failure: Exception | None = None
    scope = anyio.CancelScope()

    async def cancel_when_decided() -> None:
        is_done = False
        while not is_done:
            await anyio.sleep(POLL_SECONDS)
            with suppress(StoreError):
                is_done = await is_decided()
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_when_decided)
        with scope:
            try:
                answer = await frontend.ask(question)
            except Exception as error:  # noqa: BLE001 - raised below, because a task group would wrap it
                failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return answer


class FrontendWrapper(Frontend):
    """Base class of frontends that forward questions to another frontend."""

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
    """Frontend without a user, which answers every question with a refusal."""

    kinds: frozenset[str] = frozenset()
    who = "nobody"

    async def ask(self, question: Question[A]) -> A:
        """Return the question's refusal."""
        return question.refusal()


class TooManyQuestions(ConsentDenied):
    """Raised when a question would exceed the limit on the number or size of open questions."""


class QuestionBudget:
    """Limits on the number and size of open questions, per server and in total."""

    def __init__(self) -> None:
        self._bytes: Counter[str] = Counter()
        self._count: Counter[str] = Counter()

    @contextmanager
    def reserve(self, server: str, size: int) -> Generator[None]:
        """Reserve room for a question of *size* bytes during the `with` block, or raise TooManyQuestions."""
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
