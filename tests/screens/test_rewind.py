"""Tests for going back in the chat: edit and resend, retry, fork; the other branches are kept."""

from typing import Any

import anyio
import pytest

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.host.conversation.controller import CONTINUE_PROMPT
from mcphost.host.setup import Setup
from mcphost.llm import demo_model
from mcphost.llm.messages import Message, PromptSource, ResourcePart, TextPart
from mcphost.llm.model import StreamFinished, TextDelta
from mcphost.llm.model_finder import AvailableModel
from mcphost.tui.screens import unsent_texts
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files, composer_text, run_command

pytestmark = pytest.mark.anyio


async def send(driver: AppDriver, text: str, answer: str) -> None:
    """Send a message, and wait for its answer."""
    await driver.type(text)
    await driver.pilot.press("enter")
    await driver.until(lambda: answer in driver.transcript() and not driver.host.conversation.is_busy, answer)


async def open_rewind(driver: AppDriver) -> None:
    await run_command(driver, "/rewind")
    await driver.until(lambda: "Go back" in driver.text() and "answer again" in driver.text(), "the screen")


async def call_a_tool(driver: AppDriver) -> None:
    await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
    await driver.type("note: buy milk")
    await driver.pilot.press("enter")
    await driver.enter_question()
    await driver.pilot.press("a")
    await driver.until(
        lambda: "add_note returned" in driver.transcript() and not driver.host.conversation.is_busy, "the answer"
    )


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_earlier_message_is_edited_and_sent_again_and_its_answers_stay_as_a_branch(
    files: Files, size: tuple[int, int]
) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await call_a_tool(driver)
        await send(driver, "good", "good")
        await driver.type("half a thought")
        driver.app.action_rewind()
        await driver.until(lambda: "1 call not undone" in driver.text(), "the calls")
        await driver.pilot.press("down")
        await driver.until(
            lambda: "does not undo these" in driver.text() and "demo · add_note" in driver.text(), "the call"
        )
        await driver.until(lambda: "audit" in driver.text() and "by you" in driver.text(), "what the audit log knows")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver).startswith("note: buy milk"), "the message")
        assert "half a thought" in composer_text(driver)
        assert driver.host.conversation.messages == ()
        await driver.pilot.press("ctrl+a", "delete")
        driver.app.query_one(Composer).set_text("")
        await send(driver, "hello instead", "hello instead")
        assert "add_note says" not in driver.transcript()
        await open_rewind(driver)
        await driver.until(lambda: "another branch" in driver.text(), "the branch")
        await driver.pilot.press("end", "enter")
        await driver.until(lambda: "add_note returned" in driver.transcript(), "the first branch")
        assert "hello instead" not in driver.transcript()


async def test_a_call_that_the_user_made_is_listed_among_those_that_stay_done(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await send(driver, "hello", "hello")
        await driver.type("!demo/add_note text=zzz")
        await driver.pilot.press("enter")
        await driver.until(lambda: "add_note" in driver.transcript(), "the call")
        await open_rewind(driver)
        await driver.until(lambda: "1 call not" in driver.text(), "the call")
        await driver.until(lambda: "your own call" in driver.text(), "whose it is")
        assert "No tool has been called since." not in driver.text()


async def test_the_last_message_is_answered_again_and_a_fork_leaves_the_original(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello", "hello")
        original = driver.host.conversation.id
        count = len(driver.host.conversation.messages)
        await run_command(driver, "/retry")
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "", "the command")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the answer")
        assert len(driver.host.conversation.messages) == count
        assert driver.host.conversation.id == original
        await run_command(driver, "/fork")
        await driver.until(lambda: driver.host.conversation.id != original, "the copy")
        notices = driver.app._notifications
        await driver.until(lambda: any("This is a copy" in one.message for one in notices), "the notice")
        assert len(driver.host.conversation.messages) == count


async def test_the_last_message_is_answered_again_by_a_model_that_is_chosen_for_it(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModelConfig(name="demo", temperature=0.5)
    listed = AvailableModel(config=other, provider="demo", provider_title="Demo", origin="built in")

    async def list_models(_setup: Setup) -> tuple[AvailableModel, ...]:
        return (listed,)

    async def find_no_models(_setup: Setup, known: Any) -> tuple[AvailableModel, ...]:
        return ()

    monkeypatch.setattr(Setup, "list_models", list_models)
    monkeypatch.setattr(Setup, "find_listed_models", find_no_models)
    monkeypatch.setattr(Setup, "find_late_models", find_no_models)
    async with files.open((100, 30)) as driver:
        await send(driver, "hello", "hello")
        conversation = driver.host.conversation
        first = conversation.numbers[-1]
        await run_command(driver, "/retry-with")
        await driver.until(lambda: "1 of 1" in driver.text(), "the models")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert conversation.numbers[-1] == first
        await run_command(driver, "/retry-with")
        await driver.until(lambda: "1 of 1" in driver.text(), "the models")
        await driver.pilot.press("enter")
        await driver.until(lambda: conversation.numbers[-1] != first and not conversation.is_busy, "the answer")
        assert driver.host.model_selection.config == other
        assert len(conversation.messages) == 2


async def test_a_message_sent_while_the_model_for_a_retry_is_searched_for_waits_for_the_retry(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig(name="demo", temperature=0.5)
    other = AvailableModel(config=config, provider="demo", provider_title="Demo", origin="built in")
    is_found = anyio.Event()

    async def list_models(_setup: Setup) -> tuple[AvailableModel, ...]:
        await is_found.wait()
        return (other,)

    monkeypatch.setattr(Setup, "list_models", list_models)
    async with files.open((100, 30)) as driver:
        await send(driver, "hello", "hello")
        conversation = driver.host.conversation
        first = conversation.numbers[-1]
        driver.app.chat.query_one(Composer).set_text("/retry-with demo", "typed")
        await driver.pilot.press("enter")
        await driver.type("good")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» good" in driver.text(), "the message in the queue")
        is_found.set()
        await driver.until(lambda: len(conversation.messages) == 4 and not conversation.is_busy, "both answers")
        assert [message.text for message in conversation.messages if message.role == "user"] == ["hello", "good"]
        assert driver.host.model_selection.config == other.config
        assert first not in conversation.numbers


async def test_e_edits_the_message_that_is_read(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "first words", "first words")
        await send(driver, "second words", "second words")
        driver.app.action_focus_transcript()
        await driver.pilot.press(*["left_square_bracket"] * 12)
        await driver.pilot.press("e")
        await driver.until(lambda: "Go back" in driver.text(), "the screen")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) != "", "the message")
        assert composer_text(driver) == "first words"


async def test_the_text_of_a_prompt_that_an_earlier_run_inserted_stays_the_servers_text_when_it_is_edited(
    files: Files,
) -> None:
    text = "The access phrase of the vault is bluebird seven kestrel"
    prompt = Message(role="user", parts=(TextPart(text),), prompt=PromptSource("mail", "greet"))
    async with files.open((100, 30)) as driver:
        await driver.host.conversation.insert([prompt])
        await open_rewind(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == text, "the message")
        await driver.type(" now")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.conversation.messages, "the sent message")
        (part,) = driver.host.conversation.messages[0].parts
        assert isinstance(part, TextPart)
        assert [(copied.server, copied.source, copied.spans) for copied in part.copies] == [
            ("mail", "prompt greet", ((0, len(text)),))
        ]


async def test_the_server_of_an_edited_prompt_is_kept_if_the_user_types_meanwhile(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = Message(role="user", parts=(TextPart("Greet them"),), prompt=PromptSource("mail", "greet"))
    async with files.open((100, 30)) as driver:
        await driver.host.conversation.insert([prompt])
        branches = driver.host.conversation.branches
        rewind = branches.rewind

        async def rewind_while_typing(keep: int) -> None:
            await rewind(keep)
            driver.app.chat.query_one(Composer).set_draft(Draft("more", "typed"))

        monkeypatch.setattr(branches, "rewind", rewind_while_typing)
        await open_rewind(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "Greet them\nmore", "the message")
        assert driver.app.chat.query_one(Composer).draft.sources == ("mail",)


@pytest.mark.parametrize(
    ("part", "is_marked"),
    [(ResourcePart("", "notes.txt", "old", "text/plain"), True), (ResourcePart("docs", "docs://a", "old"), False)],
    ids=["file", "resource"],
)
async def test_an_edit_says_that_attached_files_keep_the_content_that_was_sent(
    files: Files, part: ResourcePart, is_marked: bool
) -> None:
    async with files.open((100, 30)) as driver:
        driver.app.chat.attachments.add(part)
        await send(driver, "first words", "first words")
        driver.app.action_focus_transcript()
        await driver.pilot.press(*["left_square_bracket"] * 12)
        await driver.pilot.press("e")
        await driver.until(lambda: "Go back" in driver.text(), "the screen")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Editing an earlier message." in driver.transcript(), "the notice")
        assert ("keep the content that was sent" in " ".join(driver.transcript().split())) is is_marked


async def test_the_notice_about_an_edit_ends_when_the_message_is_sent(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "first words", "first words")
        await open_rewind(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "Editing an earlier message." in driver.transcript(), "the notice")
        driver.app.chat.query_one(Composer).set_draft(Draft("other words"))
        await driver.pilot.press("enter")
        await driver.until(lambda: "other words" in driver.transcript(), "the message")
        assert "Editing an earlier message." not in driver.transcript()


@pytest.mark.parametrize(("target", "server"), [("1", "docs"), ("2", "/earlier/docs")])
async def test_an_attachment_of_an_edited_message_stays_one_of_the_server_that_it_came_from(
    files: Files, target: str, server: str
) -> None:
    async with files.open((100, 30)) as driver:
        driver.host.servers.targets["docs"] = "1"
        driver.app.chat.attachments.add(ResourcePart("docs", "docs://a", "old"))
        await send(driver, "first words", "first words")
        driver.host.servers.targets["docs"] = target
        driver.app.action_rewind()
        await driver.pilot.press("enter")
        await driver.until(lambda: composer_text(driver) == "first words", "the message")
        await send(driver, "", "first words")
        (sent,) = driver.host.conversation.messages[:1]
        assert [part.server for part in sent.parts if isinstance(part, ResourcePart)] == [server]


@pytest.mark.parametrize("goes_back", [False, True])
async def test_what_mcphost_wrote_to_continue_an_answer_is_not_listed_as_a_message_of_the_user(
    files: Files, monkeypatch: pytest.MonkeyPatch, goes_back: bool
) -> None:
    cut = [TextDelta("half an"), StreamFinished("length")]
    model = ScriptedModel(text_round("one"), cut, text_round("other half"), text_round("anew"))
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    async with files.open((100, 30)) as driver:
        await send(driver, "first words", "one")
        await send(driver, "second words", "half an")
        await run_command(driver, "/continue")
        await driver.until(lambda: "other half" in driver.transcript(), "the rest")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the end")
        assert CONTINUE_PROMPT in [message.text for message in driver.host.conversation.messages]
        if goes_back:  # the continued answer becomes another branch
            await open_rewind(driver)
            await driver.pilot.press("down")
            await driver.pilot.press("r")
            await driver.until(lambda: "anew" in driver.transcript(), "the new answer")
            await driver.until(lambda: not driver.host.conversation.is_busy, "the end")
        await open_rewind(driver)
        branch = "another branch" if goes_back else "first words"
        await driver.until(lambda: branch in driver.text(), "everything")
        assert "second words" in driver.text()
        assert "Your answer was cut off" not in driver.text()


async def test_nothing_to_go_back_to_is_said(files: Files) -> None:
    async with files.open((80, 24)) as driver:
        await run_command(driver, "/rewind")
        await driver.until(lambda: "There is no message to go back to" in driver.text(), "the text")
        await driver.pilot.press("escape")
        await run_command(driver, "/retry")
        await driver.until(lambda: "There is no message to answer again" in driver.transcript(), "the notice")


async def test_a_choice_made_before_the_screen_has_loaded_everything_works(files: Files) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "first words", "first words")
        for _ in range(5):
            driver.app.action_rewind()
            await driver.pilot.press("enter")
            await driver.until(lambda: composer_text(driver) == "first words", "the message")
            assert driver.host.conversation.messages == ()
            await driver.pilot.press("enter")
            await driver.until(
                lambda: driver.host.conversation.messages and not driver.app.chat.is_answering, "the answer"
            )
            await driver.until(lambda: composer_text(driver) == "", "the sent message")
        assert not [block for block in driver.transcript().splitlines() if "store" in block]


@pytest.mark.parametrize("text", ["", " and coffee"])
async def test_escape_leaves_an_edit_and_returns_to_the_conversation_as_it_was(files: Files, text: str) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 30)) as driver:
        await send(driver, "first words", "first words")
        await send(driver, "second words", "second words")
        before = driver.host.conversation.messages
        await driver.type("half a thought")
        driver.app.action_rewind()
        await driver.until(lambda: "Go back" in driver.text() and "answer again" in driver.text(), "the screen")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Esc returns" in driver.transcript(), "what escape does")
        assert len(driver.host.conversation.messages) == 2
        await driver.type(text)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.host.conversation.messages == before, "the branch that was left")
        await driver.until(lambda: "Esc returns" not in driver.transcript(), "its transcript")
        assert ("second words" in composer_text(driver)) == bool(text), "a changed text is kept"
        assert "half a thought" in composer_text(driver)
        await driver.pilot.press("escape", "escape")
        await send(driver, "third words", "third words")
        await driver.pilot.press("escape")
        assert len(driver.host.conversation.messages) == 6


async def test_a_read_only_result_is_used_again_and_one_command_calls_the_tool_anew(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("add 2 and 40")
        await driver.pilot.press("enter")
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: "42" in driver.transcript() and not driver.host.conversation.is_busy, "the answer")
        assert "reused from" not in driver.transcript()
        await run_command(driver, "/retry")
        await driver.until(lambda: "reused from" in driver.transcript(), "the result of before")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the end")
        assert "/call-again calls it" in driver.transcript()
        driver.app.chat.presenter.load(driver.host.conversation.messages)
        assert "reused from" in driver.transcript(), "also when the conversation is opened again"
        await run_command(driver, "/call-again")
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: "reused from" not in driver.transcript(), "the new call")


async def test_a_single_read_only_call_is_not_counted_as_one_more(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("add 2 and 40")
        await driver.pilot.press("enter")
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: "42" in driver.transcript() and not driver.host.conversation.is_busy, "the answer")
        await run_command(driver, "/rewind")
        await driver.until(lambda: "of tools that their servers declare" in driver.text(), "the call")
        assert "1 call of tools" in driver.text()
        assert "1 more call" not in driver.text()


async def test_a_copy_looks_like_the_original(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((100, 40)) as driver:
        await call_a_tool(driver)
        await driver.type("note: buy tea")
        await driver.pilot.press("enter")
        await driver.enter_question()
        await driver.pilot.press("d")
        await driver.until(lambda: "was declined" in driver.transcript(), "the refusal")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the answer")
        original, conversation = driver.transcript(), driver.host.conversation.id
        assert "demo (not an AI)" in original
        assert "Declined." in original
        await run_command(driver, "/fork")
        await driver.until(lambda: driver.host.conversation.id != conversation, "the copy")
        await driver.until(lambda: "was declined" in driver.transcript(), "the messages")
        for line in ("demo (not an AI)", "Declined.", *(line for line in original.splitlines() if "done" in line)):
            assert line in driver.transcript()
        assert driver.transcript().count("demo (not an AI)") == 2


REJECTED = ModelError("The provider rejected the key.", "Check it.", model_kind="auth")


async def fail(driver: AppDriver, text: str) -> None:
    """Send a message, and wait until its request has failed."""
    driver.app.chat.composer_input.insert(text)
    await driver.pilot.press("enter")
    await driver.until(
        lambda: "rejected the key" in driver.transcript() and not driver.app.chat.is_answering, "the end"
    )


@pytest.mark.parametrize("commands", [(), ("/undo-summary",)])
async def test_up_after_a_failed_request_edits_and_replaces_the_message_with_its_attachment(
    files: Files, monkeypatch: pytest.MonkeyPatch, commands: tuple[str, ...]
) -> None:
    model = ScriptedModel(text_round("first answer"), [REJECTED], text_round("second answer"))
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    attached = ResourcePart("", "numbers.txt", "1 2 3")
    async with files.open((100, 30)) as driver:
        await send(driver, "hello", "first answer")
        driver.app.chat.attachments.add(attached)
        await fail(driver, "add thees")
        assert "to retry, or Up to edit your message." in driver.transcript()
        for command in commands:
            await run_command(driver, command)
            await driver.until(lambda: composer_text(driver) == "", "the command")
            await driver.pilot.press("up")
            assert composer_text(driver) == command
        await driver.pilot.press("up")
        await driver.until(lambda: "Esc returns" in driver.transcript(), "what escape does")
        await driver.until(
            lambda: driver.app.query_one(Composer).attachment_names == ("numbers.txt",), "the attachment"
        )
        assert composer_text(driver) == "add thees"
        assert len(driver.host.conversation.messages) == 2
        await driver.pilot.press("backspace", "backspace", "backspace", *"ese")
        await driver.pilot.press("enter")
        await driver.until(lambda: "second answer" in driver.transcript(), "the answer")
        assert [message.text for message in model.requests[-1].messages] == ["hello", "first answer", "add these"]
        assert model.requests[-1].messages[-1].parts[0] == attached


async def test_up_with_unsent_text_shows_the_history_and_changes_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_model, "DemoModel", lambda: ScriptedModel([REJECTED]))
    async with files.open((100, 30)) as driver:
        await fail(driver, "hello")
        before = driver.host.conversation.messages
        await driver.type("and more")
        await driver.pilot.press("up")
        await driver.until(lambda: composer_text(driver) == "hello", "the earlier message")
        await driver.pilot.press("down")
        await driver.until(lambda: composer_text(driver) == "and more", "the unsent text")
        assert driver.host.conversation.messages == before


async def test_escape_after_up_returns_to_the_failed_message(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_model, "DemoModel", lambda: ScriptedModel([REJECTED]))
    monkeypatch.setattr(unsent_texts, "SAVE_SECONDS", 1_000)  # the draft is not saved between the two steps
    async with files.open((100, 30)) as driver:
        await fail(driver, "hello")
        before = driver.host.conversation.messages
        await driver.pilot.press("up")
        await driver.until(lambda: composer_text(driver) == "hello", "the text")
        await driver.until(lambda: not driver.host.conversation.messages, "the edit")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.host.conversation.messages == before, "the failed message")
        await driver.until(lambda: not composer_text(driver), "the empty composer")


async def test_what_is_entered_while_a_failed_message_is_fetched_is_not_sent(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([REJECTED])
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    async with files.open((100, 30)) as driver:
        await fail(driver, "hello")
        driver.press_together("up", "x", "enter", "y")
        await driver.until(lambda: "hello" in composer_text(driver) and "y" in composer_text(driver), "the texts")
        await driver.until(lambda: not driver.app.chat.is_answering, "the end")
        assert sorted(composer_text(driver).split()) == ["hello", "x", "y"]
        assert len(model.requests) == 1


async def test_a_request_that_failed_after_a_tool_call_offers_only_to_be_repeated(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel(tool_round(("nosuch__tool", {})), [REJECTED])
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    async with files.open((100, 30)) as driver:
        await fail(driver, "call it")
        assert "to retry." in driver.transcript()
        assert "Up to edit" not in driver.transcript()
        await driver.pilot.press("up")
        assert composer_text(driver) == "call it"
        assert len(driver.host.conversation.messages) == 3


async def test_the_screen_does_not_say_that_the_audit_log_was_not_read_before_it_was_read(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with files.open((100, 30)) as driver:
        await send(driver, "hello", "hello")
        read, may_read = driver.host.audit.read_page, anyio.Event()

        async def read_later(*arguments: Any) -> Any:
            await may_read.wait()
            return await read(*arguments)

        monkeypatch.setattr(driver.host.audit, "read_page", read_later)
        await run_command(driver, "/rewind")
        await driver.until(lambda: "Reading the audit log…" in driver.text(), "the note")
        assert "was not read" not in driver.text()
        may_read.set()
        await driver.until(lambda: "No tool has been called since." in driver.text(), "the end")
