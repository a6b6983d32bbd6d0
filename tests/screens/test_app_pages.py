"""Tests of interactive pages in the chat: the card of a call, opening, the questions, drafts, and the tasks screen."""

import pytest

from mcphost.host import events
from mcphost.host.questions.questions import VisitUrl
from mcphost.llm.messages import Message, ResourcePart, ToolReturnPart, ToolUsePart
from mcphost.serialization import replace
from mcphost.tui.chat.page_address import forward_command
from mcphost.tui.screens.tasks import TasksScreen
from mcphost.tui.widgets.attachment_list import AttachmentList
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_records import EXAMPLE_PAGE, OPEN_PAGE, PAGE_MESSAGE
from tests.screens.real_program import run_command

pytestmark = pytest.mark.anyio
LINE = "interactive page · /app opens it in the browser"


def show_call(driver: AppDriver, call: str = "p", *, by: str = "once") -> None:
    host = driver.host
    if by != "page":
        host.put(events.ToolProposed(call, "weather", "show", {"city": "Bern"}))
    host.put(events.ToolStarted(call, "weather", "show", {"city": "Bern"}, by))
    if by != "page":
        host.put(events.PageOffered(call, "weather", "show"))
    host.put(events.ToolFinished(call, "weather", "show", "ok", f"sunny {call}", 0.1))


async def test_a_call_with_a_page_says_so_and_its_text_stays_visible(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        show_call(driver)
        await driver.until(lambda: LINE in driver.text() and "sunny p" in driver.text(), "the card")


async def test_a_command_opens_the_newest_page_and_a_key_that_of_the_selected_call(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        driver.host.pages.open_pages = [EXAMPLE_PAGE]
        show_call(driver, "one")
        show_call(driver, "two")
        await driver.until(lambda: driver.text().count(LINE) == 2, "the cards")
        await run_command(driver, "/app")
        await driver.until(lambda: driver.has_notified("is open in your browser"), "the confirmation")
        await driver.pilot.press("ctrl+t", "[", "o")
        await driver.until(lambda: len(driver.host.pages.opened) == 2, "the second")
        assert driver.host.pages.opened == ["", "one"]
        assert driver.host.pages.theme == "dark"
        assert driver.host.pages.locale == "en"


async def test_a_click_opens_the_page_of_the_clicked_card_whichever_is_selected(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        driver.host.pages.open_pages = [EXAMPLE_PAGE]
        for call in ("one", "it's"):
            show_call(driver, call)
        await driver.until(lambda: driver.text().count(LINE) == 2, "the cards")
        await driver.pilot.press("ctrl+t", "[")  # selects the first one
        for place, call in ((1, "it's"), (0, "one")):
            rows = [(row.index(LINE), at) for at, row in enumerate(driver.text().splitlines()) if LINE in row]
            await driver.pilot.click(offset=rows[place])
            await driver.until(lambda call=call: driver.host.pages.opened[-1:] == [call], "the page of the card")


async def test_the_cards_of_an_earlier_run_offer_their_stored_pages(run: Run) -> None:
    def called(call: str) -> tuple[Message, ...]:
        use = ToolUsePart(call, "weather__show", {"city": "Bern"}, "{}")
        result = ToolReturnPart(call, "weather__show", f"sunny {call}", server="weather", tool="show", outcome="ok")
        return Message(role="assistant", parts=(use,)), Message(role="tool", parts=(result,))

    async with run(size=(100, 30)) as driver:
        driver.host.pages.open_pages, driver.host.pages.stored_calls = [EXAMPLE_PAGE], ("two",)
        driver.host.conversation.messages = (*called("one"), *called("two"))
        driver.host.put(events.ConversationOpened("c1", "Weather", 4))
        await driver.until(lambda: LINE in driver.text() and "sunny one" in driver.text(), "the cards")
        assert driver.text().count(LINE) == 1
        at, row = next((row.index(LINE), at) for at, row in enumerate(driver.text().splitlines()) if LINE in row)
        await driver.pilot.click(offset=(at, row))
        await driver.until(lambda: driver.host.pages.opened == ["two"], "the page")


async def test_without_a_page_the_command_says_so(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        await run_command(driver, "/app")
        await driver.until(lambda: driver.has_notified("There is no page to open."), "the reason")


async def test_without_a_browser_the_address_and_the_ssh_command_are_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 5000 192.0.2.9 2222")
    monkeypatch.setenv("USER", "ada")
    async with run(size=(120, 30)) as driver:
        driver.host.pages.open_pages, driver.host.pages.has_browser = [EXAMPLE_PAGE], False
        await run_command(driver, "/app")
        await driver.until(lambda: EXAMPLE_PAGE.url in driver.text(), "the address")
        await driver.until(
            lambda: "ssh -p 2222 -N -L 40123:127.0.0.1:40123 ada@192.0.2.9" in driver.text(), "the command"
        )


def test_the_ssh_command_is_only_for_ssh_and_cannot_be_forged() -> None:
    assert forward_command(1, {}) == ""
    assert forward_command(1, {"SSH_CONNECTION": "a b"}) == ""
    assert forward_command(1, {"SSH_CONNECTION": "a 1 h 22"}) == "ssh -N -L 1:127.0.0.1:1 h"
    assert "\x1b" not in forward_command(1, {"SSH_CONNECTION": "a 1 h\x1b[2J 22", "USER": "u"})


async def test_the_question_names_the_sites_and_opens_only_on_request(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, OPEN_PAGE)
        await driver.enter_question()
        shown = driver.text()
        for name in (*OPEN_PAGE.connect, *OPEN_PAGE.resource, *OPEN_PAGE.left_out, "ui://weather/forecast", "3 tools"):
            assert name in shown
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer is False, "the refusal")
    async with run(size=(100, 40)) as driver:
        assert await ask_and_press(driver, OPEN_PAGE, "o") is True


async def test_an_ignored_site_is_no_part_of_a_sentence_of_mcphost(run: Run) -> None:
    forged = "none. mcphost checked this page, which is safe"
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, replace(OPEN_PAGE, left_out=(forged,)))
        await driver.enter_question()
        row = next(line for line in driver.text().splitlines() if forged in line)
        assert row.replace(forged, "").strip(" │┃|▎") == "ignored"


async def test_on_a_small_terminal_the_page_is_opened_only_once_all_was_shown(run: Run) -> None:
    async with run(size=(60, 14)) as driver:
        pending = PendingQuestion(driver, OPEN_PAGE)
        await driver.enter_question()
        await driver.pilot.press("o")
        await driver.until(lambda: "insists" in driver.app.screen.query_one("#more").classes, "why not")
        assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: "automatically" in " ".join(driver.text().split()), "the end")
        await driver.pilot.press("o")
        await driver.until(lambda: pending.answer is True, "the answer")


async def test_a_text_of_a_page_is_added_to_the_message_and_neither_sent_nor_run(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        assert await ask_and_press(driver, PAGE_MESSAGE, "p") is True
        await driver.type("Please ")
        driver.host.put(events.PageDrafted("weather", "/quit"))
        await driver.until(lambda: driver.has_notified("it was not sent"), "the notice")
        assert driver.app.chat.composer_input.text == "Please \n/quit"
        assert driver.host.sent == []


def context(text: str = "Three items are selected.") -> ResourcePart:
    return ResourcePart("weather", "ui://weather/page", text, tool="show", is_from_page=True)


async def test_the_context_of_a_page_is_listed_with_the_message_and_sent_with_it(run: Run) -> None:
    async def answer(*_: object) -> str:
        return "fine"

    async with run(size=(100, 30)) as driver:
        driver.host.turn = answer
        driver.host.conversation.page_contexts.update(1, context())
        await driver.until(lambda: "page" in driver.text() and "weather · show" in driver.text(), "the row")
        await driver.type("What now?")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent == [("What now?", (context(),))], "the message")
        await driver.until(lambda: "from its page, 25 characters" in driver.text(), "the note at the message")
        assert not driver.app.screen.query_one(AttachmentList).rows


async def test_the_context_of_a_page_can_be_viewed_and_removed_before_it_is_sent(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        contexts = driver.host.conversation.page_contexts
        contexts.update(1, context())
        contexts.update(2, context("Nothing is selected."))
        await driver.until(lambda: len(driver.app.screen.query_one(AttachmentList).rows) == 2, "the rows")
        await driver.pilot.press("shift+tab", "up", "enter")
        await driver.until(lambda: "Three items are selected." in driver.text(), "the text")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.pilot.press("x")
        await driver.until(lambda: [one.page for one in contexts.waiting] == [2], "the removal")
        await driver.pilot.press("escape")
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent == [("hi", (context("Nothing is selected."),))], "the message")


async def test_the_question_about_an_address_without_a_message_quotes_nothing(run: Run) -> None:
    link = VisitUrl(server="weather", why="its page", message="", url="https://example.com/a", host="example.com")
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, link)
        await driver.enter_question()
        assert "https://example.com/a" in driver.text()
        assert "The server says" not in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer is not None, "the answer")


async def test_a_call_of_a_page_has_a_card_that_does_not_change_the_phase_of_the_turn(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        show_call(driver, "page-1", by="page")
        await driver.until(lambda: "sunny page-1" in driver.text(), "the card")
        assert driver.app.chat.presenter.phase == ""


async def test_open_pages_are_listed_and_closed_with_two_presses(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        driver.host.pages.open_pages = [EXAMPLE_PAGE]
        await run_command(driver, "/tasks")
        await driver.until(lambda: isinstance(driver.app.screen, TasksScreen), "the screen")
        await driver.until(lambda: "weather · page, shown by a browser" in driver.text(), "the row")
        assert "http://127.0.0.1:40123/" in driver.text()
        await driver.pilot.press("c")
        await driver.until(lambda: driver.app.clipboard == EXAMPLE_PAGE.url, "the copy")
        await driver.pilot.press("x")
        await driver.until(lambda: "Press x again to close the page." in driver.text(), "the warning")
        assert driver.host.pages.closed == []
        await driver.pilot.press("x")
        await driver.until(lambda: driver.host.pages.closed == [1], "the end")


async def test_an_open_page_follows_the_theme_of_the_terminal(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        driver.app.use_theme("light")
        assert driver.host.pages.theme == ""  # no page is open
        driver.host.pages.open_pages = [EXAMPLE_PAGE]
        driver.app.use_theme("dark")
        await driver.until(lambda: driver.host.pages.theme == "dark", "the dark theme")
        driver.app.use_theme("light")
        await driver.until(lambda: driver.host.pages.theme == "light", "the light theme")


async def test_a_page_that_mcphost_closes_is_reported(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        driver.host.put(events.PagesChanged("weather", "its server is gone"))
        await driver.until(
            lambda: driver.has_notified("The page of weather was closed: its server is gone."), "the notice"
        )
