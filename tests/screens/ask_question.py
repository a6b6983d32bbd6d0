"""Ask the user a question on the screen, and answer it with keys."""

from functools import partial
from typing import Any

import pytest

from mcphost.host.questions.questions import ApproveTool, TrustServer
from mcphost.serialization import Raw, encode
from tests.screens.example_questions import EXAMPLE_QUESTIONS


def tool_question(**more: Any) -> ApproveTool:
    arguments = more.pop("arguments", {"path": "/tmp/x", "text": "hello"})
    return ApproveTool(
        server="files",
        why="asked by the model, turn 3",
        call=more.pop("call", "c1"),
        tool="write_file",
        arguments=arguments,
        **more,
    )


def trust_question(**more: Any) -> TrustServer:
    return TrustServer(server="files", why="It was never used before.", **more)


class PendingQuestion:
    """A question to the user, asked in a background task; `answer` is None until the user answers."""

    def __init__(self, driver: Any, question: Any) -> None:
        self.answer: Any = None
        # A function, not its coroutine, which would never be awaited if the app ended first.
        self.worker = driver.app.run_worker(
            partial(self._ask, driver.frontend, question), group="ask", exit_on_error=False
        )

    async def _ask(self, frontend: Any, question: Any) -> None:
        self.answer = await frontend.ask(question)


async def ask_and_press(driver: Any, question: Any, *keys: str) -> Any:
    pending = PendingQuestion(driver, question)
    await driver.enter_question()
    await driver.pilot.press(*keys)
    await driver.until(lambda: pending.answer is not None, "an answer")
    return pending.answer


each_example_question = pytest.mark.parametrize("question", EXAMPLE_QUESTIONS, ids=lambda question: question.KIND)


async def open_guarded_dialog(driver: Any, question: Any) -> tuple[Any, Any]:
    """Ask a question, and return it with its dialog, which is visible but does not accept keys yet."""
    pending = PendingQuestion(driver, question)
    await driver.until(
        lambda: getattr(driver.app.screen, "guard", None) is not None and driver.app.screen.guard.is_shown, "the dialog"
    )
    return pending, driver.app.screen


EDITABLE_SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 2, "pattern": "^(/|\\./)"},
        "limit": {"type": "integer", "maximum": 100, "default": 10, "description": "How many"},
        "mode": {"type": "string", "enum": ["r", "w"]},
        "deep": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "sort": {"type": "array", "items": {"type": "object", "properties": {"by": {"type": "string"}}}},
    },
    "required": ["path"],
}


EDITABLE_ARGUMENTS = {"path": "/tmp/x", "sort": [{"by": "name"}], "extra": None}


async def open_argument_editor(
    driver: Any, arguments: dict[str, Any] | None = None, schema: Any = EDITABLE_SCHEMA
) -> Any:
    """Ask for consent to a call, and open the editor for the call's arguments; return the pending question."""
    driver.host.schema = Raw(encode(schema))
    pending = PendingQuestion(
        driver,
        tool_question(arguments=EDITABLE_ARGUMENTS if arguments is None else arguments, schema=driver.host.schema),
    )
    question = await driver.enter_question()
    await driver.pilot.press("e")
    await driver.until(lambda: driver.app.screen is not question, "the editor")
    await driver.pilot.pause()
    return pending


LONG_ARGUMENTS = {"body": "\n".join(f"line {n}" for n in range(60))}
