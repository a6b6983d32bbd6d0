"""Tests for custom slash commands: completed, filled in and sent; those of a project need the user's consent."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.project_texts import ProjectPlaces
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.conversation.custom_commands import CustomCommands
from mcphost.host.event_bus import EventBus
from mcphost.host.project_file_approvals import ProjectApprovals
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from mcphost.tui.screens.command_form import CommandArgumentsForm
from mcphost.tui.screens.instructions import InstructionsScreen
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio

REVIEW = "---\ndescription: Review a file\narguments: [path]\n---\nReview {path} with care.\n"
ASK = "---\nsend: true\narguments: [{name: topic, default: tests}]\n---\nWhat about {topic}?\n"


@pytest.fixture
async def approvals_store(tmp_path: Path) -> AsyncIterator[GrantStore]:
    database = Database(tmp_path / "s.db")
    yield GrantStore(database)
    await database.close()


async def use_commands(driver: Any, store: GrantStore, folder: Path, **files: str) -> None:
    """Write command files, and let the host use them; names with the prefix `project_` belong to the project."""
    for name, text in files.items():
        place = folder / (".mcphost/commands" if name.startswith("project_") else "config/commands")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name.removeprefix('project_')}.md").write_text(text)
    places = ProjectPlaces(config_dir=folder / "config", folder=folder)
    approvals = ProjectApprovals(store, driver.frontend, create_in_memory_log(), "ask")
    driver.host.commands = CustomCommands(places, approvals, EventBus())
    await driver.host.commands.refresh()


async def say_yes(host: Any, turn: int, text: str) -> str:
    del host, turn, text
    return "yes"


def composer_text(driver: Any) -> str:
    return driver.app.chat.query_one(Composer).draft.text


async def test_a_command_is_completed_and_its_text_put_into_the_composer(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, review=REVIEW)
        await driver.type("/rev")
        await driver.until(lambda: "Review a file · path" in driver.text(), "the completion")
        await driver.pilot.press("tab")
        await driver.until(lambda: composer_text(driver) == "/review ", "the name")
        await driver.type("a.py")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "Review a.py with care.", "the text")
        assert driver.host.sent == []
        assert "Text from /review" in driver.text()


async def test_a_command_named_like_an_alias_of_ours_is_offered_and_run_instead_of_it(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, clear="Tidy the folder up.")
        await driver.type("/clea")
        await driver.until(lambda: "/clear" in driver.text(), "the completion")
        assert driver.text().count("/clear") == 1
        driver.app.chat.query_one(Composer).set_text("/clear", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "Tidy the folder up.", "the text")


async def test_a_command_that_is_sent_keeps_what_is_written_meanwhile(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, ask=ASK)
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/ask", "typed")
        composer.submit()
        composer.set_text("and then", "typed")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0][0] == "What about tests?"
        assert composer_text(driver) == "and then"


async def test_a_command_whose_model_cannot_be_used_now_is_not_sent_to_another_model(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    is_over = anyio.Event()

    async def answer_late(host: Any, turn: int, text: str) -> str:
        del host, turn, text
        await is_over.wait()
        return "yes"

    async with run(turn=answer_late) as driver:
        private = "---\nmodel: ollama/local\nsend: true\n---\nWhat does this diagnosis mean?\n"
        await use_commands(driver, approvals_store, tmp_path, private=private)
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("hello", "typed")
        composer.submit()
        await driver.until(lambda: driver.host.sent, "the first message")
        composer.set_text("/private", "typed")
        composer.submit()
        await driver.until(lambda: composer_text(driver) == "What does this diagnosis mean?", "the text")
        notices = driver.app._notifications  # pyright: ignore[reportPrivateUsage]
        await driver.until(lambda: any("not sent" in one.message for one in notices), "the notice")
        is_over.set()
        await driver.until(lambda: not driver.app.chat.is_answering, "the end of the answer")
        assert [text for text, *_ in driver.host.sent] == ["hello"]


async def test_missing_arguments_are_asked_for_in_a_form(run: Run, approvals_store: GrantStore, tmp_path: Path) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, review=REVIEW)
        driver.app.chat.query_one(Composer).set_text("/review", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, CommandArgumentsForm), "the form")
        await driver.pilot.press("enter", "enter")
        await driver.until(lambda: "path is required" in driver.text(), "the error")
        await driver.type("b.py")
        await driver.pilot.press("enter", "enter")
        await driver.until(lambda: composer_text(driver) == "Review b.py with care.", "the text")


async def test_a_command_of_the_project_is_shown_before_it_is_used(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, project_ask=ASK)
        driver.app.chat.query_one(Composer).set_text("/ask", "typed")
        await driver.pilot.press("enter")
        await driver.enter_question()
        assert "Use this command of the project?" in driver.text()
        assert "│ What about {topic}?" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the refusal")
        await driver.until(lambda: all(one.group != "commands-run" for one in driver.app.workers), "the end")
        assert driver.host.sent == []
        driver.app.chat.query_one(Composer).set_text("/ask", "typed")
        await driver.pilot.press("enter")
        await driver.enter_question()
        await driver.pilot.press("end", "A")
        await driver.until(lambda: driver.host.sent, "the message")
        driver.app.chat.query_one(Composer).set_text("/ask", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: len(driver.host.sent) == 2, "the message without a question")


async def test_an_inserted_text_never_runs_a_command(run: Run, approvals_store: GrantStore, tmp_path: Path) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, ask=ASK)
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/ask", "inserted")
        composer.submit()
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0][0] == "/ask"


async def test_the_approval_of_a_projects_command_can_be_revoked(
    run: Run, approvals_store: GrantStore, tmp_path: Path
) -> None:
    async with run(turn=say_yes) as driver:
        await use_commands(driver, approvals_store, tmp_path, project_ask="What about tests?", own="Mine.")
        await driver.app.run_action("instructions")
        await driver.until(lambda: isinstance(driver.app.screen, InstructionsScreen), "the page")
        assert "ask.md" not in driver.text(), "nobody was asked about it"
        await driver.pilot.press("escape")
        await driver.type("/ask")
        await driver.pilot.press("escape", "enter")
        await driver.enter_question()
        await driver.pilot.press("A")
        await driver.until(lambda: composer_text(driver) == "What about tests?", "the text")
        await driver.app.run_action("instructions")
        await driver.until(lambda: "approved until it changes" in driver.text(), "the approval")
        assert "own.md" not in driver.text()
        await driver.pilot.press("x", "x")
        await driver.until(lambda: "refused in this session" in driver.text(), "the revocation")
        assert await approvals_store.find_trusted(str(tmp_path / ".mcphost" / "commands" / "ask.md")) is None
