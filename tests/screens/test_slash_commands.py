"""Tests for slash commands that take a value, for names known from other programs, and for /export."""

import os
import time
from pathlib import Path

import pytest
from textual.widgets import OptionList

from mcphost.llm.messages import Message, TextPart
from mcphost.store.conversations import ConversationStore
from mcphost.tui.screens.help import HelpScreen
from mcphost.tui.screens.history import HistoryScreen
from mcphost.tui.screens.servers import ServersScreen
from mcphost.tui.screens.theme_picker import ThemePicker
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


async def enter(driver: AppDriver, text: str) -> Composer:
    """Enter a line that counts as typed, without the completion popup."""
    composer = driver.app.chat.query_one(Composer)
    composer.set_text(text, "typed")
    await driver.pilot.press("enter")
    return composer


async def test_a_theme_is_chosen_by_its_name(run: Run) -> None:
    async with run() as driver:
        composer = await enter(driver, "/theme fjord")
        await driver.until(lambda: driver.app.theme == "fjord", "the theme")
        assert driver.app.theme_choice.wanted == "fjord"
        assert composer.composer_input.text == ""
        assert driver.host.sent == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/theme fjrod", ('There is no theme "fjrod"', "fjord")),
        ("/theme xyz", ('There is no theme "xyz"', "dark", "light", "fjord")),
        ("/servers gihtub", ('There is no server "gihtub"', "github")),
        ("/clear the table", ("/clear takes no arguments",)),
        ("/help me", ("/help takes no arguments",)),
    ],
)
async def test_a_wrong_value_is_refused_with_near_names_and_keeps_the_text(
    run: Run, text: str, said: tuple[str, ...]
) -> None:
    async with run() as driver:
        composer = await enter(driver, text)
        await driver.until(lambda: all(driver.has_notified(part) for part in said), "the error")
        assert composer.composer_input.text == text
        assert driver.host.sent == []
        assert driver.app.theme == "dark"


async def test_the_names_of_a_command_are_completed_and_enter_then_runs_it(run: Run) -> None:
    async with run() as driver:
        await driver.type("/theme tide-l")
        await driver.until(lambda: "tide-light" in driver.text(), "the completion")
        await driver.pilot.press("enter")
        composer = driver.app.chat.query_one(Composer)
        await driver.until(lambda: composer.composer_input.text == "/theme tide-light", "the name")
        assert composer.draft.origin == "typed"
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.theme == "tide-light", "the theme")


async def test_a_completely_typed_name_is_not_replaced_by_a_longer_one(run: Run) -> None:
    async with run() as driver:
        await driver.type("/servers files")
        await driver.until(lambda: driver.app.query(OptionList), "the popup")
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the page")
        assert driver.app.screen.current_row().value == "files"


async def test_a_pasted_command_with_a_value_is_sent_as_a_message(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.query_one(Composer).set_text("/theme fjord")
        await driver.until(lambda: "Not typed: enter sends it as a message" in driver.text(), "the hint")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent == [("/theme fjord", ())], "the message")
        assert driver.app.theme == "dark"


@pytest.mark.parametrize(
    ("text", "page"),
    [("/resume", HistoryScreen), ("/mcp", ServersScreen), ("/themes", ThemePicker), ("/keys", HelpScreen)],
)
async def test_a_name_known_from_other_programs_opens_our_page(run: Run, text: str, page: type) -> None:
    async with run() as driver:
        await enter(driver, text)
        await driver.until(lambda: isinstance(driver.app.screen, page), "the page")


async def test_clear_starts_a_new_conversation_and_exit_quits(run: Run) -> None:
    async with run() as driver:
        driver.host.conversation.messages = (Message(role="user", parts=(TextPart("earlier"),)),)
        driver.app.chat.load_conversation()
        await driver.until(lambda: "earlier" in driver.text(), "the conversation")
        await enter(driver, "/clear")
        await driver.until(lambda: "earlier" not in driver.transcript(), "the new conversation")
        await enter(driver, "/exit")
        await driver.until(lambda: not driver.app.is_running or driver.app.return_code is not None, "the end")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/settings", "config.toml"),
        ("/tools", "To list a server's tools, press F3, then t"),
        ("/language zh", "under [screen] in"),
    ],
)
async def test_a_command_that_mcphost_does_not_have_names_what_to_use(run: Run, text: str, said: str) -> None:
    async with run() as driver:
        driver.host.config = type(driver.host.config)(settings_file="/etc/me/config.toml")
        await enter(driver, text)
        await driver.until(lambda: driver.has_notified(said), "the hint")
        assert driver.host.sent == []


async def test_a_typed_alias_is_offered_once_it_begins_so(run: Run) -> None:
    async with run() as driver:
        await driver.type("/")
        await driver.until(lambda: "/help" in driver.text(), "the commands")
        assert "/clear" not in driver.text()
        await driver.type("cle")
        await driver.until(lambda: "/clear" in driver.text(), "the alias")


async def store_conversation(driver: AppDriver) -> None:
    message = Message(role="user", parts=(TextPart("Which way north?"),), at=time.time())
    await ConversationStore(driver.host.database).append("c1", message, title="Which way north?", model="m")
    driver.host.conversation.messages = (message,)


@pytest.mark.parametrize(("name", "begins"), [("talk.md", "# Which way"), ("talk.html", "<!"), ("talk.json", "{")])
async def test_export_writes_the_conversation_in_the_format_of_the_name_and_tells_the_whole_path(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    async with run() as driver:
        await store_conversation(driver)
        await enter(driver, f"/export {name}")
        await driver.until(lambda: driver.has_notified(f"Wrote {tmp_path / name}."), "the notice")
        assert (tmp_path / name).read_text().startswith(begins)
        assert "Which way north?" in (tmp_path / name).read_text()


async def test_export_never_replaces_a_file_and_gives_the_text_back(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "mine.md"
    target.write_text("mine")
    async with run() as driver:
        await store_conversation(driver)
        composer = await enter(driver, f"/export {target}")
        await driver.until(lambda: driver.has_notified(f"{target} exists"), "the refusal")
        assert target.read_text() == "mine"
        await driver.until(lambda: composer.composer_input.text == f"/export {target}", "the text")
        await enter(driver, f"/export {tmp_path / 'talk.txt'}")
        await driver.until(lambda: driver.has_notified("must end with .md, .html or .json"), "the refusal")
        assert "talk.txt" not in os.listdir(tmp_path)


async def test_export_without_a_name_suggests_one_and_an_empty_conversation_is_not_exported(run: Run) -> None:
    async with run() as driver:
        await enter(driver, "/export")
        await driver.until(lambda: driver.has_notified("nothing to export"), "the refusal")
        await store_conversation(driver)
        await enter(driver, "/export")
        await driver.until(lambda: "which-way-north-c1.md" in driver.text(), "the form")
