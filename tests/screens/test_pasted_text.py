"""Tests that pasted text is always a message: it never runs a command or calls a tool."""

import json
from typing import Any

import pytest
from textual.events import Key, Paste

from mcphost.llm.messages import Message, TextPart
from mcphost.protocol.prompts import GetPromptResult, PromptMessage
from mcphost.serialization import Raw
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from mcphost.tui.widgets.pasted_text import describe_origin
from tests.fakes.clock import ManualClock
from tests.screens.app_without_host import attach_and_start, open_shell
from tests.screens.conftest import GUARD_SECONDS, Run
from tests.screens.fake_host import FakeServerFeatures, echo_reply

pytestmark = pytest.mark.anyio
LINE = "!files/search_files pattern=x"
LONG = '!files/search_files pattern=/ note="' + "\n".join(f"Please review paragraph {n}." for n in range(25)) + '"'


def composer_input(driver: Any) -> Any:
    return driver.app.chat.query_one(Composer).composer_input


async def paste(driver: Any, text: str) -> None:
    before = composer_input(driver).text
    driver.app.post_message(Paste(text))
    await driver.until(lambda: composer_input(driver).text != before, "the paste")
    await driver.pilot.pause(0.02)


async def assert_sent_as_message(driver: Any, text: str) -> None:
    """Check that Enter sends this text as a message and calls no tool."""
    await driver.pilot.press("enter")
    await driver.until(lambda: driver.host.sent or driver.host.called, "what enter does")
    assert driver.host.called == []
    assert [sent for sent, _ in driver.host.sent] == [text]


async def assert_not_sent(driver: Any, text: str) -> None:
    """Check that Enter does not send this text."""
    await driver.pilot.press("enter")
    await driver.pilot.pause()
    assert (driver.host.called, driver.host.sent, composer_input(driver).text) == ([], [], text)


async def assert_sent_only_after_a_second_enter(driver: Any, clock: ManualClock, text: str) -> None:
    """Check that Enter asks, and that another Enter, but not one right after it, sends this text as a message."""
    await driver.until(lambda: "Perhaps pasted, so not run." in driver.text(), "the hint")
    await assert_not_sent(driver, text)
    assert "it arrived as fast as a paste" in shown_notices(driver)
    await assert_not_sent(driver, text)
    clock.now += GUARD_SECONDS * 1.1
    await assert_sent_as_message(driver, text)


def shown_notices(driver: Any) -> str:
    return " ".join(notification.message for notification in driver.app._notifications)


async def insert_prompt(driver: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user insert a server's prompt with this text into the composer."""

    async def gets(host: FakeServerFeatures, *_: Any) -> GetPromptResult:
        del host
        content = Raw(json.dumps({"type": "text", "text": text}).encode())
        return GetPromptResult(messages=(PromptMessage(role="user", content=content),))

    monkeypatch.setattr(FakeServerFeatures, "get_prompt", gets)
    await driver.type("/files:gre")
    await driver.pilot.press("enter")
    await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
    await driver.pilot.press("enter")
    await driver.until(lambda: composer_input(driver).text.endswith(text), "the filled prompt")


@pytest.mark.parametrize("text", [LINE, LONG, "/auto-approve", "/new"])
async def test_the_text_of_a_prompt_is_sent_as_a_message_with_a_notice(
    run: Run, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    async with run(turn=echo_reply) as driver:
        await insert_prompt(driver, text, monkeypatch)
        await driver.pilot.pause(0.02)
        lines = ", 25 lines" if text == LONG else ""
        assert f"Text from files{lines}: enter sends it as a message." in driver.text()
        await assert_sent_as_message(driver, text)
        assert "Sent as a message" in shown_notices(driver)
        assert "Text from files" not in driver.text()


@pytest.mark.parametrize("text", ["!f/s", "/folders"])
@pytest.mark.parametrize("origin", ["mixed", "inserted"])
def test_the_action_of_enter_fits_into_80_cells(text: str, origin: Any) -> None:
    assert 0 < len(describe_origin(Draft(text, origin), 1)) <= 74


@pytest.mark.parametrize("text", [LINE, LONG, "/auto-approve", "/new"])
async def test_a_pasted_call_or_command_is_sent_as_a_message_with_a_notice(run: Run, text: str) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, text)
        assert not driver.app.query("OptionList")
        assert "enter sends it as a message. Type the c" in driver.text()
        await assert_sent_as_message(driver, text)
        assert "Sent as a message" in shown_notices(driver)


async def test_enter_does_nothing_right_after_an_insertion_or_while_it_is_held_down(
    run: Run, clock: ManualClock
) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, "hello")
        for _ in range(5):
            clock.now += GUARD_SECONDS * 0.9
            await assert_not_sent(driver, "hello")
        assert "press Enter again" in shown_notices(driver)
        clock.now += GUARD_SECONDS * 1.1
        await assert_sent_as_message(driver, "hello")


async def test_letters_typed_after_an_insertion_do_not_block_enter(run: Run, clock: ManualClock) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, "hello")
        for _ in range(5):
            clock.now += GUARD_SECONDS * 0.3
            await driver.pilot.press("y")
        await assert_sent_as_message(driver, "helloyyyyy")


async def test_a_paste_with_its_own_end_bracket_runs_nothing(run: Run, clock: ManualClock) -> None:
    async with run(turn=echo_reply) as driver:
        driver.app.post_message(Paste("x"))
        for key in ("ctrl+u", *LINE):
            driver.app.post_message(Key({" ": "space"}.get(key, key), key if len(key) == 1 else None))
        await driver.until(lambda: composer_input(driver).text == LINE, "the text")
        clock.now += 1
        await assert_sent_only_after_a_second_enter(driver, clock, LINE)


async def test_a_paste_that_ends_itself_and_then_stalls_runs_nothing(run: Run, clock: ManualClock) -> None:
    async with run(turn=echo_reply) as driver:
        driver.app.post_message(Paste("x"))
        await driver.until(lambda: composer_input(driver).text == "x", "the paste")
        clock.now += 1
        await driver.pilot.press("ctrl+u")
        for key in LINE:
            driver.app.post_message(Key({" ": "space"}.get(key, key), key))
        await driver.until(lambda: composer_input(driver).text == LINE, "the text")
        clock.now += 1
        await assert_sent_only_after_a_second_enter(driver, clock, LINE)


async def test_a_call_typed_after_an_earlier_paste_is_a_call(run: Run, clock: ManualClock) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, "hello")
        clock.now += GUARD_SECONDS * 1.1
        await assert_sent_as_message(driver, "hello")
        await driver.until(lambda: not driver.app.chat.is_answering, "the answer")
        for key in LINE:
            clock.now += 0.1
            await driver.type(key)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.called, "the call")


async def test_a_call_typed_on_a_slow_connection_after_a_paste_is_not_sent_to_the_model(
    run: Run, clock: ManualClock
) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, "hello")
        clock.now += GUARD_SECONDS * 1.1
        await assert_sent_as_message(driver, "hello")
        await driver.until(lambda: not driver.app.chat.is_answering, "the answer")
        driver.host.sent.clear()
        clock.now += 60
        await driver.type(LINE)  # the keys arrive at once
        await driver.until(lambda: composer_input(driver).text == LINE, "the text")
        clock.now += 1
        await assert_not_sent(driver, LINE)
        composer_input(driver).text = ""
        for key in LINE:
            clock.now += 0.1
            await driver.type(key)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.called, "the call")


async def test_a_partly_pasted_call_stays_with_a_hint(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("!files/search_files pattern=")
        await paste(driver, "x")
        assert "type the call to run it" in driver.text()
        await assert_not_sent(driver, LINE)
        assert "Start with a space to send it as a message." in shown_notices(driver)
        await driver.pilot.press("home", "space")
        await assert_sent_as_message(driver, f" {LINE}")


async def test_a_typed_mark_before_a_pasted_call_does_not_run_it(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, LINE[1:])
        await driver.pilot.press("home", "exclamation_mark")
        await assert_sent_as_message(driver, LINE)


async def test_undo_does_not_make_a_pasted_call_a_typed_one(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, LINE)
        await driver.pilot.press("ctrl+u")
        await driver.until(lambda: not composer_input(driver).text)
        await driver.pilot.press("ctrl+z")
        await driver.until(lambda: composer_input(driver).text == LINE)
        await assert_sent_as_message(driver, LINE)


async def test_a_call_typed_after_a_paste_was_deleted_runs(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, "hello")
        await driver.pilot.press("ctrl+u")
        await driver.pilot.pause(0.02)
        await driver.type(LINE)
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: driver.host.called == [("files", "search_files", {"pattern": "x"})], "the call")


async def test_a_typed_call_is_called_again_from_the_history(run: Run) -> None:
    async with run(no_model=True) as driver:
        await driver.type(LINE)
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: driver.host.called and not composer_input(driver).text, "the call")
        await driver.pilot.press("up", "enter")
        await driver.until(lambda: len(driver.host.called) == 2, "the second call")


async def test_an_earlier_message_that_reads_like_a_call_is_a_message_again(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        answer = Message(role="assistant", parts=(TextPart("No."),))
        driver.host.conversation.messages = (Message(role="user", parts=(TextPart(LINE),)), answer)
        driver.app.chat.load_conversation()
        await driver.pilot.press("up")
        await driver.until(lambda: composer_input(driver).text == LINE)
        assert "enter sends it as a message" in driver.text()
        await assert_sent_as_message(driver, LINE)


async def test_a_pasted_call_returns_from_the_history_as_a_message(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await paste(driver, LINE)
        await assert_sent_as_message(driver, LINE)
        await driver.until(lambda: not driver.host.conversation.is_busy)
        await driver.pilot.press("up", "enter")
        await driver.until(lambda: len(driver.host.sent) == 2, "the second message")
        assert driver.host.called == []


async def test_a_draft_with_a_pasted_call_is_still_a_message_after_looking_into_the_history(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        driver.host.conversation.messages = (Message(role="user", parts=(TextPart("one"),)),)
        driver.app.chat.load_conversation()
        await paste(driver, LINE)
        await driver.pilot.press("up", "down")
        await assert_sent_as_message(driver, LINE)


async def test_a_typed_call_of_several_lines_is_not_run(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("!files/search_files pattern=a\nb=c")
        await assert_not_sent(driver, "!files/search_files pattern=a\nb=c")
        assert "A manual call is one line." in driver.transcript()


@pytest.mark.parametrize("text", [" !files/search_files pattern=x", " /new"])
async def test_a_space_before_it_makes_a_typed_call_or_command_a_message(run: Run, text: str) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type(text)
        await assert_sent_as_message(driver, text)


async def test_a_call_pasted_before_there_is_a_host_is_a_message() -> None:
    async with open_shell() as driver:
        await paste(driver, LINE)
        await driver.pilot.press("enter")
        await driver.until(lambda: not composer_input(driver).text, "the message")
        await attach_and_start(driver)
        await driver.until(lambda: driver.host.sent or driver.host.called, "the message")
        assert driver.host.called == []
