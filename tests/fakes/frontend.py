"""A front end with prepared answers, which records questions and blocks when no answer is left."""

import inspect
from collections.abc import Callable
from typing import Any, get_args

import anyio

from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import AnyQuestion


class ScriptedFrontend:
    """A front end whose prepared answers are values or functions of the question, also asynchronous ones."""

    kinds = frozenset(kind.KIND for kind in get_args(AnyQuestion))
    who = "person"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Question[Any]] = []
        self.waiting = 0
        self.asked_now = anyio.Event()

    async def ask(self, question: Question[Any]) -> Any:
        self.asked.append(question)
        self.asked_now.set()
        self.asked_now = anyio.Event()
        if not self.answers:
            self.waiting += 1
            try:
                await anyio.sleep_forever()
            finally:
                self.waiting -= 1
        answer = self.answers.pop(0)
        answer = answer(question) if isinstance(answer, Callable) else answer
        return await answer if inspect.isawaitable(answer) else answer
