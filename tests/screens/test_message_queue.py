"""Tests for messages sent during an answer: queued, taken back on request, and added to the turn after a tool call."""

from collections.abc import Sequence

import pytest

from mcphost.llm.messages import Part, ResourcePart, TextPart
from mcphost.tui.message_queue import MessageQueue, QueuedMessage
from mcphost.tui.widget_messages import QueueRecallRequested, QueueRow
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files, composer_text

pytestmark = pytest.mark.anyio


def sent(driver: AppDriver) -> list[str]:
    """Return the texts of the user's messages that are part of the conversation."""
    return [message.text for message in driver.host.conversation.messages if message.role == "user"]


async def start_slow_answer(driver: AppDriver) -> None:
    """Begin a turn in which a tool call waits for the user's consent."""
    await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
    await driver.type("note: buy milk")
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.app.chat.pending_question_count, "the question")


def submit(driver: AppDriver, text: str) -> None:
    """Send text as if it had been typed, although a question has the focus."""
    driver.app.chat.submit(Draft(text, "typed"))


async def allow(driver: AppDriver) -> None:
    await driver.enter_question()
    await driver.pilot.press("a")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_messages_wait_for_the_answer_and_are_sent_in_order(files: Files, size: tuple[int, int]) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await start_slow_answer(driver)
        submit(driver, "first")
        submit(driver, "second")
        await driver.until(lambda: "» first" in driver.text() and "» second" in driver.text(), "the queue")
        assert "up edits · shift+tab selects · ctrl+s after next tool" in driver.text()
        assert sent(driver) == ["note: buy milk"]
        await allow(driver)
        await driver.until(lambda: len(sent(driver)) == 3 and not driver.app.chat.is_answering, "the messages")
        assert sent(driver) == ["note: buy milk", "first", "second"]
        await driver.until(lambda: "»" not in driver.text(), "an empty queue")


async def test_a_waiting_message_is_taken_back_with_up(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        chat = driver.app.chat
        submit(driver, "a typo")
        await driver.until(lambda: "» a typo" in driver.text(), "the queue")
        chat.on_queue_recall_requested(QueueRecallRequested())
        await driver.until(lambda: composer_text(driver) == "a typo", "the text")
        assert "»" not in driver.text()
        await allow(driver)
        await driver.until(lambda: not chat.is_answering, "the end")
        assert sent(driver) == ["note: buy milk"]


async def test_stopping_the_answer_puts_waiting_messages_back(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        for text in ("one", "two"):
            submit(driver, text)
        driver.host.conversation.stop()
        await driver.until(lambda: composer_text(driver) == "one\ntwo", "the texts")
        assert sent(driver) == ["note: buy milk"]


async def test_a_message_joins_the_answer_after_the_next_tool_result(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        chat = driver.app.chat
        submit(driver, "thank you")
        chat.on_steer_requested()
        await driver.until(lambda: "after the next tool: thank you" in driver.text(), "the mark")
        await allow(driver)
        await driver.until(lambda: not chat.is_answering and len(sent(driver)) == 2, "the answer")
        roles = [message.role for message in driver.host.conversation.messages]
        assert roles[:4] == ["user", "assistant", "tool", "user"]
        await driver.until(lambda: "»" not in driver.text(), "an empty queue")


async def test_enter_queues_up_takes_back_and_ctrl_s_steers_while_a_tool_runs(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("count slowly to 10")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.chat.pending_question_count, "the question")
        await allow(driver)
        await driver.until(lambda: "▁" in driver.text() or "of 10" in driver.transcript(), "the running tool")
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» hello" in driver.text(), "the queue")
        await driver.pilot.press("up")
        await driver.until(lambda: composer_text(driver) == "hello" and "»" not in driver.text(), "the text")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "after the next tool: hello" in driver.text(), "the mark")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end")
        assert sent(driver) == ["count slowly to 10", "hello"]


async def test_ctrl_s_sends_the_text_that_is_being_typed_before_older_waiting_messages(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        chat = driver.app.chat
        submit(driver, "older")
        driver.app.query_one(Composer).set_draft(Draft("typed now", "typed"))
        chat.on_steer_requested()
        await driver.until(lambda: "after the next tool: typed now" in driver.text(), "the mark")
        assert "after the next tool: older" not in driver.text()
        chat.on_steer_requested()
        await driver.until(lambda: "after the next tool: older" in driver.text(), "the oldest, without a typed text")
        await allow(driver)
        await driver.until(lambda: not chat.is_answering and len(sent(driver)) == 3, "the answer")
        assert sent(driver) == ["note: buy milk", "typed now", "older"]
        await driver.until(lambda: "»" not in driver.text(), "an empty queue")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_any_waiting_message_is_selected_and_taken_back_or_removed(files: Files, size: tuple[int, int]) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("count slowly to 30")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.chat.pending_question_count, "the question")
        await allow(driver)
        await driver.until(lambda: "▁" in driver.text() or "of 30" in driver.transcript(), "the running tool")
        for text in ("one", "two", "three"):
            submit(driver, text)
        await driver.until(lambda: "» three" in driver.text() and "shift+tab selects" in driver.text(), "the queue")
        await driver.pilot.press("shift+tab", "up")
        await driver.until(lambda: "› two" in driver.text() and "x removes" in driver.text(), "the cursor")
        await driver.pilot.press("x")
        await driver.until(lambda: "two" not in driver.text(), "one less")
        await driver.pilot.press("up", "enter")
        await driver.until(lambda: composer_text(driver) == "one" and "» three" in driver.text(), "the text")
        await driver.type("!")
        await driver.until(lambda: composer_text(driver) == "one!", "the focus")
        await driver.pilot.click("#queue", offset=(4, 0))
        await driver.until(lambda: composer_text(driver) == "three\none!", "the clicked message")
        assert "»" not in driver.text()


def test_a_message_is_not_taken_back_after_the_queue_has_moved_on() -> None:
    queue = MessageQueue()
    for text in ("one", "two"):
        queue.add(QueuedMessage(Draft(text)))
    queue.take_next()
    assert queue.take((1, "two")) is None
    assert queue.take((0, "one")) is None
    assert queue.describe() == [QueueRow("two")]
    queue.steer(lambda _text, _parts: True)
    assert queue.take((0, "two")) is None, "it is on its way"


def test_messages_that_no_tool_result_came_for_wait_for_the_next_answer() -> None:
    queue = MessageQueue()
    for text in ("one", "two"):
        queue.add(QueuedMessage(Draft(text)))
        queue.steer(lambda _text, _parts: True)
    assert queue.describe() == [QueueRow("one", is_steering=True), QueueRow("two", is_steering=True)]
    assert queue.take_last() is None, "both are on their way"
    first = queue.take_next()
    assert first is not None
    assert first.draft.text == "one"
    assert queue.describe() == [QueueRow("two")]
    queue.mark_delivered()
    assert queue.describe() == [QueueRow("two")], "nothing was on its way"


def test_a_message_is_passed_on_with_its_attachments() -> None:
    queue, passed = MessageQueue(), list[tuple[str, Sequence[Part]]]()

    def send(text: str, attachments: Sequence[Part]) -> bool:
        passed.append((text, attachments))
        return True

    queue.add(QueuedMessage(Draft("older")))
    queue.add(QueuedMessage(Draft("with a file"), (TextPart("file"),)))
    queue.steer(send, newest=True)
    assert passed == [("with a file", (TextPart("file"),))]
    assert queue.describe() == [
        QueueRow("with a file", is_steering=True, has_attachments=True), QueueRow("older"),
    ]  # fmt: skip


async def test_a_message_with_attachments_joins_the_answer_after_the_next_tool_result(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    file = ResourcePart("", "notes.txt", "milk and bread")
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        driver.app.chat.attachments.add(file)
        driver.app.query_one(Composer).set_draft(Draft("look at it"))
        driver.app.chat.on_steer_requested()
        await driver.until(
            lambda: "» after the next tool, with its attachments: look at it" in driver.text(), "the row"
        )
        await allow(driver)
        await driver.until(lambda: not driver.app.chat.is_answering and len(sent(driver)) == 2, "the answer")
        roles = [message.role for message in driver.host.conversation.messages]
        assert roles[:4] == ["user", "assistant", "tool", "user"]
        assert file in driver.host.conversation.messages[3].parts
        await driver.until(lambda: "»" not in driver.text() and "notes.txt" in driver.text(), "the sent message")


async def test_stopping_puts_a_message_that_was_passed_on_back_with_its_attachments(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    file = ResourcePart("", "notes.txt", "milk and bread")
    async with files.open((100, 30)) as driver:
        await start_slow_answer(driver)
        driver.app.chat.attachments.add(file)
        submit(driver, "look at it")
        await driver.until(lambda: "» with its attachments: look at it" in driver.text(), "the queued row")
        driver.app.chat.on_steer_requested()
        await driver.until(lambda: "» after the next tool, with" in driver.text(), "the row")
        driver.host.conversation.stop()
        await driver.until(lambda: not driver.app.chat.is_answering, "the end")
        await driver.until(lambda: composer_text(driver) == "look at it", "the text")
        assert driver.app.chat.attachments.parts == [file]
