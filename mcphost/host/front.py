"""Front: whoever answers questions; and the one that refuses everything when nobody is there."""

from typing import Protocol, TypeVar

from mcphost.host.questions import Question

A = TypeVar("A")


class Front(Protocol):
    """Ask and wait. Cancelling the asker withdraws the question; a vanished front means refusal()."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of question somebody can really answer here; what no kind covers is not declared to servers."""
        ...

    async def ask(self, question: Question[A]) -> A:
        """The user's answer."""
        ...


class RefusingFront:
    """Answers every question with its refusal."""

    kinds: frozenset[str] = frozenset()

    async def ask(self, question: Question[A]) -> A:
        """The refusal, at once."""
        return question.refusal()
