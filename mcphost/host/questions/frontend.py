"""Front: whoever answers questions; what stands before one; and the one that refuses when nobody is there."""

from typing import Protocol, TypeVar

from mcphost.host.questions.questions import Question

A = TypeVar("A")


class Frontend(Protocol):
    """Ask and wait. Cancelling the asker withdraws the question; a vanished front means refusal()."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of question somebody can really answer here; what no kind covers is not declared to servers."""
        ...

    @property
    def who(self) -> str:
        """Who gave the last answer: "person", "program", "rules", or "nobody" when it was only the refusal."""
        ...

    async def ask(self, question: Question[A]) -> A:
        """The user's answer."""
        ...


class FrontendWrapper(Frontend):
    """Does something to a question or its answer on the way to another front, and is that one in all else."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    @property
    def kinds(self) -> frozenset[str]:
        """Those of the other front."""
        return self._frontend.kinds

    @property
    def who(self) -> str:
        """That of the other front."""
        return self._frontend.who


class RefusingFrontend:
    """Answers every question with its refusal."""

    kinds: frozenset[str] = frozenset()
    who = "nobody"

    async def ask(self, question: Question[A]) -> A:
        """The refusal, at once."""
        return question.refusal()
