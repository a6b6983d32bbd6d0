"""Tests for disabling a project's AGENTS.md in config.toml, with the complete program."""

import os
from pathlib import Path

import pytest

from tests.screens.conftest import AppDriver
from tests.screens.real_program import Files, run_command

pytestmark = pytest.mark.anyio
OFF = "[context]\nproject_instructions = false\n"


def write_instructions(files: Files) -> Path:
    """Write an AGENTS.md for the user and one for the project; return the path of the project's."""
    (files.folder / "AGENTS.md").write_text("Answer in French.")
    project = files.folder.parent / "AGENTS.md"
    project.write_text("Use tabs.")
    return project


async def send(driver: AppDriver, text: str) -> None:
    before = len(driver.host.conversation.messages)
    await driver.type(text)
    await driver.pilot.press("enter")
    await driver.until(
        lambda: len(driver.host.conversation.messages) > before + 1 and not driver.host.conversation.is_busy,
        "the answer",
    )


async def test_without_project_instructions_a_projects_file_is_neither_read_nor_asked_about(files: Files) -> None:
    os.mkfifo(files.folder.parent / "AGENTS.md")  # reading it would not end
    (files.folder / "AGENTS.md").write_text("Answer in French.")
    files.write_settings(OFF)
    async with files.open((120, 40)) as driver:
        await send(driver, "hello")
        report = await driver.host.context.measure()
        assert "Answer in French." in report.system
        await run_command(driver, "/context")
        await driver.until(lambda: "project AGENTS.md off" in driver.text(), "the row")
        await driver.pilot.press("down")
        await driver.until(lambda: "not read: project_instructions" in driver.text(), "the details")
        await driver.pilot.press("escape")
        await run_command(driver, "/instructions")
        await driver.until(lambda: "not read: project_instructions is false" in driver.text(), "the page")


async def test_project_instructions_are_switched_on_and_off_while_the_chat_runs(files: Files) -> None:
    write_instructions(files)
    files.write_settings(OFF)
    async with files.open((120, 40)) as driver:
        await send(driver, "hello")
        files.write_settings("")
        await driver.until(lambda: "use the project's instructions" in driver.text(), "the notice")
        await run_command(driver, "/reload")
        await driver.until(lambda: "are used once approved" in driver.text(), "the page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Applied from" in driver.text(), "the notice")
        await driver.type("again")
        await driver.pilot.press("enter")
        await driver.enter_question()
        assert "Use tabs." in driver.text()
        await driver.pilot.press("s")
        await driver.until(lambda: all(one.is_used for one in driver.host.instructions.statuses), "the approval")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the answer")
        assert "Use tabs." in (await driver.host.context.measure()).system
        files.write_settings(OFF)
        await run_command(driver, "/reload")
        await driver.until(lambda: "are no longer read" in driver.text(), "the page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: not driver.host.instructions.uses_project, "the change")
        assert "Use tabs." not in (await driver.host.context.measure()).system
