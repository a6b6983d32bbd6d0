"""Tests for suggestions in forms: shown when the user pauses, accepted with keys, never in the way of typing."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Input, OptionList

from mcphost.errors import ConnectionLost
from mcphost.protocol.prompts import Completion, PromptReference, ResourceTemplateReference
from mcphost.tui.forms import suggestion_input
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
PATHS = ["src/a.py", "src/b.py", "setup.cfg"]


def visible_suggestions(driver: Any) -> list[str]:
    """Return the suggestions that are visible."""
    return [str(option.prompt).strip() for popup in driver.app.screen.query(OptionList) for option in popup.options]


async def open_prompt_form(driver: Any) -> None:
    """Open the form for the arguments of the first prompt."""
    await driver.pilot.press("f5", "enter")
    await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")


@pytest.mark.req("comp.request")
@pytest.mark.req("comp.context")
async def test_suggestions_are_chosen_by_keys_and_the_next_request_includes_the_filled_in_values(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.features.suggestions = {"path": PATHS, "focus": ["tests"]}
        await open_prompt_form(driver)
        await driver.until(lambda: visible_suggestions(driver) == PATHS, "all of them before anything is typed")
        await driver.type("sr")
        await driver.until(lambda: visible_suggestions(driver) == PATHS[:2], "what begins like that")
        await driver.pilot.press("down", "down", "enter")
        assert driver.app.screen.query_one("#argument-0", Input).value == "src/b.py"
        assert visible_suggestions(driver) == []
        await driver.pilot.press("enter")
        await driver.until(lambda: visible_suggestions(driver) == ["tests"], "the next field's")
        assert driver.host.features.asked[-1] == (PromptReference("review"), "focus", "", {"path": "src/b.py"})
        await driver.pilot.press("down", "tab", "enter", "enter")
        await driver.until(
            lambda: "focus tests" in driver.app.query_one(Composer).composer_input.text, "the filled prompt"
        )


@pytest.mark.req("comp.debounce")
async def test_twenty_keys_cost_one_request_and_a_late_answer_is_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestion_input, "SUGGEST_DELAY", 1.0)  # a busy machine may need longer for a key than usual
    async with run(size=(80, 24)) as driver:
        answers: list[tuple[str, asyncio.Event]] = []

        async def late(server: str, ref: Any, argument: str, value: str, context: dict[str, str]) -> Completion:
            gate = asyncio.Event()
            answers.append((value, gate))
            await gate.wait()
            return Completion((f"{value} completed",))

        driver.host.features.complete = late
        await open_prompt_form(driver)
        await driver.until(lambda: len(answers) == 1, "the question of the empty field")
        await driver.type("abcdefghijklmnopqrst")
        await driver.until(lambda: len(answers) == 2, "one more question")
        for value, gate in answers:
            del value
            gate.set()
        await driver.until(
            lambda: visible_suggestions(driver) == ["abcdefghijklmnopqrst completed"], "the newest answer"
        )
        assert [value for value, _ in answers] == ["", "abcdefghijklmnopqrst"]


@pytest.mark.req("comp.partial")
@pytest.mark.parametrize("fault", [ConnectionLost("gone"), None])
async def test_a_form_works_without_suggestions(run: Run, fault: Exception | None) -> None:
    async with run(size=(80, 24)) as driver:
        asked = 0

        async def fails(*_: Any) -> Completion:
            nonlocal asked
            asked += 1
            if fault is not None:
                raise fault
            return Completion()

        driver.host.features.complete = fails
        await open_prompt_form(driver)
        await driver.until(lambda: asked > 0, "a question")
        await driver.type("main.py")
        assert visible_suggestions(driver) == []
        await driver.pilot.press("enter", "enter", "enter")
        await driver.until(
            lambda: driver.app.query_one(Composer).composer_input.text == "Please review path main.py", "the prompt"
        )


@pytest.mark.req("comp.capability")
async def test_a_server_without_completion_is_asked_once_for_each_field(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_prompt_form(driver)
        await driver.until(lambda: len(driver.host.features.asked) == 1, "the question")
        await driver.type("a")
        await driver.pilot.pause(0.3)
        assert len(driver.host.features.asked) == 1


async def test_escape_closes_the_suggestions_first_and_then_the_form(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.features.suggestions = {"path": PATHS}
        await open_prompt_form(driver)
        await driver.until(lambda: visible_suggestions(driver) == PATHS, "suggestions")
        await driver.pilot.press("escape")
        await driver.until(lambda: visible_suggestions(driver) == [], "none")
        assert type(driver.app.screen).__name__ == "PromptArgumentsForm"
        await driver.pilot.press("escape")
        await driver.until(lambda: type(driver.app.screen).__name__ != "PromptArgumentsForm", "the end")


@pytest.mark.req("comp.max-100")
async def test_hidden_suggestions_are_counted_and_not_offered(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.features.suggestions = {"path": ["bad\x1b[31m", "rtl\u202e", "", *(f"p{n}" for n in range(150))]}
        await open_prompt_form(driver)
        await driver.until(lambda: bool(visible_suggestions(driver)), "suggestions")
        rows = visible_suggestions(driver)
        assert rows[0] == "p0"
        assert "and more" in rows[-1]
        assert len(rows) == 98


@pytest.mark.req("res.templates.expand")
async def test_the_address_of_a_template_is_seen_before_it_is_used(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.features.suggestions = {"path": PATHS}
        await driver.pilot.press("f4", "down", "down", "enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ResourceTemplateForm", "the form")
        await driver.until(lambda: visible_suggestions(driver) == PATHS, "suggestions")
        assert driver.host.features.asked[-1] == (ResourceTemplateReference("file:///{path}"), "path", "", {})
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: "file:///src%2Fa.py" in driver.text(), "the address, encoded")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///src%2Fa.py" in driver.app.query_one(Composer).attachment_names[0]
