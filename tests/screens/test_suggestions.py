"""Forms with suggestions of the server: shown when typing pauses, taken with the keys, never in the way."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Input, OptionList

from mcphost.errors import ConnectionLost
from mcphost.protocol.completion import Completion, PromptReference, ResourceTemplateReference
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
PATHS = ["src/a.py", "src/b.py", "setup.cfg"]


def visible_suggestions(it: Any) -> list[str]:
    """The suggestions on the screen."""
    return [str(option.prompt).strip() for popup in it.app.screen.query(OptionList) for option in popup.options]


async def form(it: Any) -> None:
    """Open the form of the first prompt."""
    await it.pilot.press("f5", "enter")
    await it.until(lambda: type(it.app.screen).__name__ == "PromptArgumentsForm", "the form")


@pytest.mark.req("comp.request")
@pytest.mark.req("comp.context")
async def test_suggestions_are_chosen_with_the_keys_and_the_next_question_knows_what_is_filled_in(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.host.features.suggestions = {"path": PATHS, "focus": ["tests"]}
        await form(it)
        await it.until(lambda: visible_suggestions(it) == PATHS, "all of them before anything is typed")
        await it.type("sr")
        await it.until(lambda: visible_suggestions(it) == PATHS[:2], "what begins like that")
        await it.pilot.press("down", "down", "enter")
        assert it.app.screen.query_one("#argument-0", Input).value == "src/b.py"
        assert visible_suggestions(it) == []
        await it.pilot.press("enter")
        await it.until(lambda: visible_suggestions(it) == ["tests"], "the next field's")
        assert it.host.features.asked[-1] == (PromptReference("review"), "focus", "", {"path": "src/b.py"})
        await it.pilot.press("down", "tab", "enter", "enter")
        await it.until(lambda: "focus tests" in it.app.query_one(Composer).composer_input.text, "the filled prompt")


@pytest.mark.req("comp.debounce")
async def test_twenty_keys_cost_one_question_and_a_late_answer_is_not_shown(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        answers: list[tuple[str, asyncio.Event]] = []

        async def late(server: str, ref: Any, argument: str, value: str, context: dict[str, str]) -> Completion:
            gate = asyncio.Event()
            answers.append((value, gate))
            await gate.wait()
            return Completion((f"{value} completed",))

        it.host.features.complete = late
        await form(it)
        await it.until(lambda: len(answers) == 1, "the question of the empty field")
        await it.type("abcdefghijklmnopqrst")
        await it.until(lambda: len(answers) == 2, "one more question")
        for value, gate in answers:
            del value
            gate.set()
        await it.until(lambda: visible_suggestions(it) == ["abcdefghijklmnopqrst completed"], "the newest answer")
        assert [value for value, _ in answers] == ["", "abcdefghijklmnopqrst"]


@pytest.mark.req("comp.partial")
@pytest.mark.parametrize("fault", [ConnectionLost("gone"), None])
async def test_a_form_works_without_suggestions(run: Run, fault: Exception | None) -> None:
    async with run(size=(80, 24)) as it:
        asked = 0

        async def fails(*_: Any) -> Completion:
            nonlocal asked
            asked += 1
            if fault is not None:
                raise fault
            return Completion()

        it.host.features.complete = fails
        await form(it)
        await it.until(lambda: asked > 0, "a question")
        await it.type("main.py")
        assert visible_suggestions(it) == []
        await it.pilot.press("enter", "enter", "enter")
        await it.until(
            lambda: it.app.query_one(Composer).composer_input.text == "Please review path main.py", "the prompt"
        )


@pytest.mark.req("comp.capability")
async def test_a_server_without_completion_is_asked_once_for_each_field(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        await form(it)
        await it.until(lambda: len(it.host.features.asked) == 1, "the question")
        await it.type("a")
        await it.pilot.pause(0.3)
        assert len(it.host.features.asked) == 1


async def test_escape_closes_the_suggestions_first_and_then_the_form(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.host.features.suggestions = {"path": PATHS}
        await form(it)
        await it.until(lambda: visible_suggestions(it) == PATHS, "suggestions")
        await it.pilot.press("escape")
        await it.until(lambda: visible_suggestions(it) == [], "none")
        assert type(it.app.screen).__name__ == "PromptArgumentsForm"
        await it.pilot.press("escape")
        await it.until(lambda: type(it.app.screen).__name__ != "PromptArgumentsForm", "the end")


@pytest.mark.req("comp.max-100")
async def test_hidden_suggestions_are_counted_and_not_offered(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.host.features.suggestions = {"path": ["bad\x1b[31m", "rtl\u202e", "", *(f"p{n}" for n in range(150))]}
        await form(it)
        await it.until(lambda: bool(visible_suggestions(it)), "suggestions")
        rows = visible_suggestions(it)
        assert rows[0] == "p0"
        assert "and more" in rows[-1]
        assert len(rows) == 98


@pytest.mark.req("res.templates.expand")
async def test_the_address_of_a_template_is_seen_before_it_is_used(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.host.features.suggestions = {"path": PATHS}
        await it.pilot.press("f4", "down", "down", "enter")
        await it.until(lambda: type(it.app.screen).__name__ == "ResourceTemplateForm", "the form")
        await it.until(lambda: visible_suggestions(it) == PATHS, "suggestions")
        assert it.host.features.asked[-1] == (ResourceTemplateReference("file:///{path}"), "path", "", {})
        await it.pilot.press("down", "enter")
        await it.until(lambda: "file:///src%2Fa.py" in it.text(), "the address, encoded")
        await it.pilot.press("enter")
        await it.until(lambda: it.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///src%2Fa.py" in it.app.query_one(Composer).attachment_names[0]
