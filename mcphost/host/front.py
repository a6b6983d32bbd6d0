"""Front: whoever answers questions; and the one that refuses everything when nobody is there."""

from typing import Protocol, TypeVar

from mcphost.host.questions import Question

A = TypeVar("A")


class Front(Protocol):
    """One method: ask and wait. Cancelling the asker withdraws the question; a vanished front means refusal()."""

    async def ask(self, question: Question[A]) -> A:
        """The user's answer."""
        ...


class RefusingFront:
    """Answers every question with its refusal."""

    async def ask(self, question: Question[A]) -> A:
        """The refusal, at once."""
        return question.refusal()
