"""Frontends: the interface that answers questions, wrappers, and one that refuses."""

from typing import Protocol, TypeVar

from mcphost.host.questions.questions import Question

A = TypeVar("A")


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
