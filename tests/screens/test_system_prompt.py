"""Tests for the form of a conversation's system prompt: show, change, undo and reset."""

import pytest

from mcphost.host.conversation.model_request import DEFAULT_PROMPT
from mcphost.tui.screens.system_prompt import SystemPromptForm
from mcphost.tui.widgets.text_inputs import OrderedTextArea
from tests.screens.conftest import AppDriver, Run
from tests.screens.real_program import Files, run_command

pytestmark = pytest.mark.anyio


async def open_form(driver: AppDriver) -> OrderedTextArea:
    await run_command(driver, "/system")
    await driver.until(lambda: isinstance(driver.app.screen, SystemPromptForm), "the form")
    return driver.app.screen.query_one("#text", OrderedTextArea)


async def replace_text(driver: AppDriver, area: OrderedTextArea, text: str) -> None:
    area.select_all()
    await driver.type(text)
    await driver.pilot.press("ctrl+s")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_it_is_changed_and_undone_in_the_program(files: Files, size: tuple[int, int]) -> None:
    async with files.open(size) as driver:
        area = await open_form(driver)
        assert area.text == DEFAULT_PROMPT
        assert "This is the default system prompt." in driver.text()
        assert "Undo the last change" not in driver.text()
        assert str(driver.app.screen.query("#buttons Button").first().label) == "Back"
        await replace_text(driver, area, "be brief")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        told = "The model gets it with your next message. /system can undo it."
        await driver.until(lambda: driver.has_notified(told), "the notice")
        assert driver.host.conversation.system_prompt == "be brief"
        area = await open_form(driver)
        assert area.text == "be brief"
        assert "This conversation has its own system prompt." in driver.text()
        await driver.pilot.press("tab", "tab", "tab", "enter")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.until(lambda: driver.has_notified("The last change of the system prompt was undone"), "the notice")
        assert driver.host.conversation.system_prompt == ""


async def test_the_configured_one_is_shown_and_used_again(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.model_selection.system_prompt = "answer in verse"
        area = await open_form(driver)
        assert area.text == "answer in verse"
        assert "of the configuration or profile" in driver.text()
        await replace_text(driver, area, "prose")
        await driver.until(lambda: driver.host.conversation.system_prompt == "prose", "the change")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await open_form(driver)
        await driver.pilot.press("tab", "tab", "tab", "tab", "enter")
        await driver.until(lambda: driver.host.conversation.system_prompts == ["prose", ""], "the reset")


async def test_what_changes_nothing_or_is_empty_is_not_saved(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_form(driver)
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        area = await open_form(driver)
        area.clear()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "needs at least one character" in driver.text(), "the reason")
        await driver.pilot.press("escape")
        await driver.until(lambda: "Press Esc again to discard them." in driver.text(), "the question")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert not driver.host.conversation.system_prompts


async def test_during_an_answer_the_form_keeps_the_text_and_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(size=(120, 40)) as driver:
        area = await open_form(driver)
        monkeypatch.setattr(type(driver.host.conversation), "is_busy", property(lambda _: True))
        await replace_text(driver, area, "be brief")
        await driver.until(
            lambda: "The model is still answering. Press Esc to stop it first." in driver.text(), "the reason"
        )
        assert area.text == "be brief"
        monkeypatch.undo()
