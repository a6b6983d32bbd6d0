"""Tests for recalling the user's earlier messages from all conversations, with a real store."""

import time
from collections.abc import Iterable

import pytest
from textual.widgets import Input

from mcphost.host.conversation.unsent_texts import UnsentTexts
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import CopiedText, Message, TextPart
from mcphost.store.conversations import ConversationStore
from mcphost.tui.screens.chat import ChatScreen
from mcphost.tui.screens.input_history_search import InputHistoryScreen
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import AppDriver, Run
from tests.screens.real_program import DEMO_SERVER, Files, composer_text

pytestmark = pytest.mark.anyio


async def fill(driver: AppDriver, *texts: str) -> None:
    """Store each text as the first message of its own conversation; the first text is the newest."""
    now = time.time()
    for age, text in enumerate(texts):
        message = Message(role="user", parts=(TextPart(text),), at=now - age * 60)
        await ConversationStore(driver.host.database).append(str(age), message, title=f"talk {age}", model="m")  # type: ignore[arg-type]


async def open_recall(driver: AppDriver, text: str) -> None:
    await driver.pilot.press("ctrl+up")
    await driver.until(lambda: isinstance(driver.app.screen, InputHistoryScreen) and text in driver.text())


def draft(driver: AppDriver) -> str:
    return driver.app.chat.query_one(Composer).draft.text


async def test_enter_puts_a_searched_message_into_the_composer_where_it_counts_as_not_typed(run: Run) -> None:
    async with run() as driver:
        await fill(driver, "apples and pears", "!files/delete path=x", "修复数据库")
        await open_recall(driver, "3 messages")
        await driver.pilot.press(*"dele")
        await driver.until(lambda: "1 message " in driver.text())
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ChatScreen))
        assert draft(driver) == "!files/delete path=x"
        assert driver.app.chat.query_one(Composer).draft.origin == "inserted"
        await driver.until(lambda: "Not typed" in driver.text())


class NotedCopies:
    """Copy finder that only records what it is told to remember."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str]] = []

    async def find_copies(self, text: str) -> tuple[CopiedText, ...]:
        return ()

    def note_copies(self, text: str, copies: Iterable[CopiedText]) -> None:
        self.noted += [(copied.server, text[start:end]) for copied in copies for start, end in copied.spans]


async def test_copied_parts_of_a_recalled_message_stay_those_of_their_server(run: Run) -> None:
    async with run() as driver:
        finder = NotedCopies()
        driver.host.history.unsent = UnsentTexts(driver.host.database, Lazy(lambda: finder))  # type: ignore[arg-type]
        parts = (TextPart("Please: "), TextPart("number 88-1234 now", (CopiedText("crm", "prompt x", ((0, 14),)),)))
        message = Message(role="user", parts=parts, at=time.time())
        await ConversationStore(driver.host.database).append("0", message, title="talk", model="m")  # type: ignore[arg-type]
        await open_recall(driver, "1 message ")
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ChatScreen))
        assert finder.noted == [("crm", "number 88-1234")]


async def test_enter_before_the_search_has_ended_takes_the_first_match_of_what_was_typed(run: Run) -> None:
    async with run() as driver:
        await fill(driver, "the newest one", "pears only")
        await open_recall(driver, "2 messages")
        driver.press_together(*"pear", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, ChatScreen) and draft(driver) == "pears only")


async def test_unsent_text_is_kept_and_up_brings_it_back(run: Run) -> None:
    async with run() as driver:
        await fill(driver, "the newest one")
        await driver.type("not sent yet")
        await open_recall(driver, "1 message ")
        await driver.pilot.press("enter")
        await driver.until(lambda: draft(driver) == "the newest one")
        await driver.pilot.press("up")
        await driver.until(lambda: draft(driver) == "not sent yet")


async def test_down_selects_an_older_message_and_escape_changes_nothing(run: Run) -> None:
    async with run() as driver:
        await fill(driver, "first", "second")
        await open_recall(driver, "2 messages")
        await driver.pilot.press("down")
        await driver.until(lambda: "conversation  talk 1" in driver.text())
        await driver.pilot.press("enter")
        await driver.until(lambda: draft(driver) == "second")
        await open_recall(driver, "2 messages")
        await driver.pilot.press("escape")
        await driver.until(lambda: isinstance(driver.app.screen, ChatScreen))
        assert draft(driver) == "second"


async def test_a_search_without_a_match_and_an_empty_store_say_so(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_recall(driver, "No messages yet.")
        await driver.pilot.press("escape")
        await fill(driver, "first")
        await driver.type("/recall")
        await driver.pilot.press("enter")
        await driver.until(lambda: "1 message " in driver.text())
        driver.app.screen.query_one("#search", Input).value = "nowhere"
        await driver.until(lambda: "Nothing found." in driver.text())
        await driver.pilot.press("enter")
        assert isinstance(driver.app.screen, InputHistoryScreen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_ctrl_r_searches_earlier_messages_after_a_complete_answer(files: Files, size: tuple[int, int]) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await driver.type("hello there")
        await driver.pilot.press("enter")
        messages = driver.host.conversation
        await driver.until(lambda: len(messages.messages) == 2 and not driver.app.chat.is_answering, "the answer")
        await driver.pilot.press("ctrl+r")
        await driver.until(lambda: isinstance(driver.app.screen, InputHistoryScreen) and "1 message" in driver.text())
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "hello there", "the text")
        assert len(messages.messages) == 2, "nothing was sent"


async def test_ctrl_r_searches_earlier_messages_in_a_new_conversation(run: Run) -> None:
    async with run() as driver:
        await fill(driver, "from another day")
        await driver.pilot.press("ctrl+r")
        await driver.until(lambda: isinstance(driver.app.screen, InputHistoryScreen) and "1 message" in driver.text())
        assert not driver.host.gone_on
