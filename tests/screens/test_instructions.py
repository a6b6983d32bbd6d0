"""Tests for AGENTS.md files: the approval question shows the whole text, and a page lists the files in use."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.project_texts import ProjectPlaces
from mcphost.config.schema import HookSettings
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.conversation.instructions import Instructions
from mcphost.host.event_bus import EventBus
from mcphost.host.project_file_approvals import ProjectApprovals
from mcphost.host.questions.questions import ShownText, TrustProject
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from mcphost.tui.screens.instructions import InstructionsScreen
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.fixture
async def project_grants(tmp_path: Path) -> AsyncIterator[GrantStore]:
    database = Database(tmp_path / "s.db")
    yield GrantStore(database)
    await database.close()


def use_project(driver: Any, grants: GrantStore, folder: Path, text: str) -> None:
    """Write an AGENTS.md to *folder*, and let the host use this folder as its project."""
    (folder / "AGENTS.md").write_text(text)
    places = ProjectPlaces(config_dir=folder / "config", folder=folder)
    approvals = ProjectApprovals(grants, driver.frontend, create_in_memory_log(), "ask")
    driver.host.instructions = Instructions(places, approvals, EventBus())


async def test_the_question_shows_the_text_with_hidden_characters_marked(
    run: Run, project_grants: GrantStore, tmp_path: Path
) -> None:
    async with run() as driver:
        use_project(driver, project_grants, tmp_path, "Use tabs.\nBe\u202e kind.\nSay\u2028hello.\n")
        await driver.type("/instructions")
        await driver.pilot.press("escape", "enter")
        dialog = await driver.enter_question()
        assert dialog.focused.id == "refuse"
        shown = driver.text()
        assert "Follow the instructions of this project?" in shown
        assert "│ Use tabs." in shown
        assert "│ Be‹U+202E› kind." in shown
        assert "│ Say‹U+2028›hello." in shown
        assert "hidden or deceptive" in shown
        await driver.pilot.press("A")
        await driver.until(lambda: "approved until it changes" in driver.text(), "the page")
        assert "Use tabs." in driver.text()


async def test_a_refused_file_is_asked_about_again_on_request_and_can_be_revoked(
    run: Run, project_grants: GrantStore, tmp_path: Path
) -> None:
    async with run() as driver:
        use_project(driver, project_grants, tmp_path, "Use tabs.")
        await driver.app.run_action("instructions")
        await driver.enter_question()
        await driver.pilot.press("d")
        await driver.until(lambda: "refused in this session" in driver.text(), "the refusal")
        await driver.pilot.press("a")
        await driver.enter_question()
        await driver.pilot.press("s")
        await driver.until(lambda: "approved for this session" in driver.text(), "the approval")
        await driver.pilot.press("x", "x")
        await driver.until(lambda: "refused in this session" in driver.text(), "the revocation")
        assert isinstance(driver.app.screen, InstructionsScreen)


async def test_a_long_text_can_be_approved_only_after_it_was_read(
    run: Run, project_grants: GrantStore, tmp_path: Path
) -> None:
    async with run() as driver:
        use_project(driver, project_grants, tmp_path, "\n".join(f"Rule {number}" for number in range(600)))
        await driver.app.run_action("instructions")
        dialog = await driver.enter_question()
        await driver.pilot.press("end", "A")
        await driver.until(lambda: "not everything is shown" in driver.text(), "the reminder")
        assert driver.app.screen is dialog
        await driver.pilot.press("v")
        await driver.until(lambda: driver.app.screen is not dialog, "the viewer")
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.reminder() == "", "the end")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog, "the dialog")
        await driver.pilot.press("end", "A")
        await driver.until(lambda: isinstance(driver.app.screen, InstructionsScreen), "the page")


async def test_the_question_about_hooks_says_what_the_approval_does_not_cover(run: Run) -> None:
    async with run() as driver:
        text = ShownText("/repo/.mcphost/hooks.toml", '[[hooks]]\ncommand = ["./check.sh"]\n')
        asked = TrustProject(server="", why="they would start programs", purpose="hooks", texts=(text,))
        driver.app.run_worker(partial(driver.frontend.ask, asked))
        await driver.enter_question()
        shown = " ".join(driver.text().replace("│", " ").split())
        assert "It does not apply to the files that these commands run" in shown
        await driver.pilot.press("d")


async def test_the_question_about_hooks_shows_the_programs_as_they_are_started(run: Run) -> None:
    async with run() as driver:
        escaped = '[[hooks]]\nevent = "before_call"\ncommand = ["\\u0073\\u0068", "-c", "\\u0072m x\\n# tidy"]\n'
        hook = HookSettings(event="before_call", command=("sh", "-c", "rm x\n# tidy"), match=("files/*",))
        text = ShownText("/repo/.mcphost/hooks.toml", escaped, hooks=(hook,))
        asked = TrustProject(server="", why="they would start programs", purpose="hooks", texts=(text,))
        driver.app.run_worker(partial(driver.frontend.ask, asked))
        await driver.enter_question()
        shown = driver.text()
        assert "sh -c 'rm x⏎# tidy'" in shown
        assert "files/*" in shown
        await driver.pilot.press("d")
