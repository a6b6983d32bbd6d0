"""Tests for opening a long conversation: the newest messages appear first, and older ones before they are needed."""

import gc
from collections.abc import Sequence

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.selection import Selection
from textual.widgets import Static

from mcphost.host import events
from mcphost.llm.messages import Message, TextPart, ToolReturnPart, ToolUsePart, Usage
from mcphost.serialization import replace
from mcphost.store.compactions import Compaction, SummarySentence
from mcphost.tui import themes
from mcphost.tui.transcript import opened_conversation
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, UserMessage
from mcphost.tui.transcript.last_answer import find_last_answer
from mcphost.tui.transcript.message_blocks import build_blocks
from mcphost.tui.transcript.opened_conversation import NEWEST_MESSAGES
from mcphost.tui.transcript.presenter import TranscriptPresenter
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widget_messages import EditRequested
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio
QUESTIONS = 1_200


def make_messages(name: str = "talk", questions: int = QUESTIONS) -> tuple[Message, ...]:
    """Return numbered messages; for each of *questions*, a question, a call, a result and an answer."""
    made: list[Message] = []
    for number in range(questions):
        call = f"{name}{number}"
        made += (
            Message(role="user", parts=(TextPart(f"{name} question {number}."),)),
            Message(role="assistant", parts=(ToolUsePart(call, "look", {"n": number}),)),
            Message(role="tool", parts=(ToolReturnPart(call, "look", "seen", server="s", tool="look"),)),
            Message(
                role="assistant",
                parts=(TextPart(f"{name} answer {number}.\n\nIts second paragraph."),),
                usage=Usage(input_tokens=number + 1, output_tokens=1, cost=0.5),
            ),
        )
    return tuple(made)


def open_conversation(driver: AppDriver, messages: tuple[Message, ...] | None = None) -> Transcript:
    """Open a conversation in the chat, as the chat does after a ConversationOpened event."""
    driver.host.conversation.messages = make_messages() if messages is None else messages
    driver.app.chat.load_conversation()
    return driver.app.chat.query_one(Transcript)


@pytest.fixture
def slow_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load earlier messages in small batches with pauses, so that keys can arrive in between."""
    monkeypatch.setattr(opened_conversation, "SLICE_SECONDS", 0)
    monkeypatch.setattr(opened_conversation, "PAUSE_SECONDS", 0.03)


def is_loading(transcript: Transcript) -> bool:
    """Return whether some older messages are not loaded yet."""
    return len(list_questions(transcript)) < QUESTIONS


def list_questions(transcript: Transcript) -> list[str]:
    return [block.text for block in transcript.blocks if isinstance(block, UserMessage)]


def rows(transcript: Transcript) -> list[str]:
    return [transcript.render_line(y).text.strip() for y in range(transcript.size.height)]


async def test_only_the_newest_messages_are_built_before_they_are_drawn(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        built = len(list_questions(transcript))
        assert 0 < built * 4 <= NEWEST_MESSAGES + 4
        assert any("talk answer 1199." in row for row in rows(transcript))
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        assert list_questions(transcript) == [f"talk question {number}." for number in range(QUESTIONS)]


async def test_the_whole_is_the_same_as_if_it_were_built_at_once(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        expected = build_blocks(make_messages(), show_costs=True)
        assert [type(block) for block in transcript.blocks] == [type(block) for block in expected]
        assert [block.search_text() for block in transcript.blocks] == [block.search_text() for block in expected]
        assert all(block.state == "ok" for block in transcript.blocks if isinstance(block, ToolCard))
        assert transcript.virtual_size.height >= len(transcript.blocks)


async def test_the_earlier_messages_come_in_many_small_parts(run: Run) -> None:
    async with run() as driver:
        parts: list[int] = []
        messages = make_messages()
        transcript = driver.app.chat.query_one(Transcript)
        driver.app.chat.presenter.load(messages, lambda part: parts.append(len(part)))
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        assert sum(parts) == len(messages)
        assert max(parts[1:]) < NEWEST_MESSAGES


async def test_a_part_of_long_answers_has_few_messages(run: Run) -> None:
    async with run() as driver:
        parts: list[int] = []
        answer = Message(role="assistant", parts=(TextPart("> long answer\n" * 3_000),))
        turn = (Message(role="user", parts=(TextPart("Again"),)), answer)
        driver.app.chat.presenter.load(turn * 20, lambda part: parts.append(len(part)))
        transcript = driver.app.chat.query_one(Transcript)
        await driver.until(lambda: len(list_questions(transcript)) == 20, "the earlier messages")
        assert parts == [2] * 20


@pytest.mark.usefixtures("slow_loading")
async def test_the_text_in_view_stays_while_the_earlier_messages_are_added(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        await driver.pilot.press("pageup", "pageup", "pageup")
        before = rows(transcript)
        assert is_loading(transcript)
        assert not transcript.is_following
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        assert rows(transcript) == before


async def test_at_the_top_of_the_newest_messages_one_can_scroll_on(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        transcript.scroll_to(y=0, animate=False)
        top = rows(transcript)
        assert is_loading(transcript)
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        assert rows(transcript) == top
        await driver.pilot.press("pageup")
        assert rows(transcript) != top


async def test_the_beginning_is_reached_at_once(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        assert is_loading(transcript)
        transcript.action_jump(False)
        assert any("talk question 0." in row for row in rows(transcript))


async def test_stepping_reaches_the_oldest_message_at_once(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        for _ in range(QUESTIONS):
            transcript.action_step_message(-1)
        block = transcript.blocks[transcript.current_index]
        assert isinstance(block, UserMessage)
        assert block.text == "talk question 0."


@pytest.mark.usefixtures("slow_loading")
async def test_find_reaches_the_oldest_message_right_after_opening(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        await driver.pilot.press("ctrl+f")
        assert is_loading(transcript)
        await driver.type("question 0.")
        found = driver.app.chat.query_one("#find-count", Static)
        await driver.until(lambda: str(found.content) == "1 of 1", "the oldest question")
        assert any("talk question 0." in row for row in rows(transcript))


class EditApp(App[None]):
    """An app with only a transcript, which records the messages that the user asks to edit."""

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(themes.load("dark")[0])
        self.theme = "dark"
        self.edits: list[int] = []

    def compose(self) -> ComposeResult:
        yield Transcript()

    def on_edit_requested(self, message: EditRequested) -> None:
        self.edits.append(message.index)


async def test_an_edit_asked_for_while_loading_is_of_the_right_message() -> None:
    app = EditApp()
    async with app.run_test() as pilot:
        transcript = app.query_one(Transcript)
        TranscriptPresenter(transcript).load(make_messages())
        assert is_loading(transcript)
        transcript.action_edit()
        await pilot.pause()
        assert app.edits == [QUESTIONS - 1]


async def test_selecting_everything_includes_what_is_not_loaded_yet(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        assert is_loading(transcript)
        selected = transcript.get_selection(Selection(None, None))
        assert selected is not None
        assert "talk question 0." in selected[0]


async def test_a_selection_never_moves_to_other_text(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        line = (len(transcript.blocks) - 1) * 1_000_000
        driver.app.screen.selections = {transcript: Selection(Offset(0, line), Offset(11, line))}
        assert driver.app.screen.get_selected_text() == "talk answer"
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        assert not driver.app.screen.get_selected_text()


async def test_another_conversation_stops_the_loading(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        earlier = transcript.earlier
        assert earlier is not None
        open_conversation(driver, make_messages("other", 2))
        await earlier.wait()
        await driver.until(lambda: transcript.earlier is None)
        await driver.pilot.pause(0.1)
        assert list_questions(transcript) == ["other question 0.", "other question 1."]
        open_conversation(driver)
        await driver.until(lambda: not is_loading(transcript), "the first one again")
        assert list_questions(transcript)[0] == "talk question 0."


async def test_the_garbage_collector_searches_nothing_while_messages_are_added(run: Run) -> None:
    async with run() as driver:
        collected: list[int] = []

        def note(phase: str, info: dict[str, int]) -> None:
            collected.append(info["generation"])

        transcript = open_conversation(driver)
        gc.callbacks.append(note)
        gc.set_threshold(50, 2, 2)
        try:
            await driver.until(lambda: not gc.isenabled(), "the earlier messages begin")
            collected.clear()
            await driver.until(lambda: not is_loading(transcript), "the earlier messages")
            assert collected == []
            await driver.until(gc.isenabled, "the end")
        finally:
            gc.callbacks.remove(note)
            gc.set_threshold(50_000, 20, 50)


async def test_the_garbage_collector_is_on_again_if_the_loading_is_stopped(run: Run) -> None:
    async with run() as driver:
        open_conversation(driver)
        await driver.until(lambda: not gc.isenabled(), "the earlier messages begin")
        open_conversation(driver, make_messages("other", 2))
        await driver.until(gc.isenabled, "the collector")


async def test_messages_that_arrive_while_loading_stay_at_the_end(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver)
        assert is_loading(transcript)
        driver.host.put(events.MessagesInserted((Message(role="user", parts=(TextPart("a new one"),)),)))
        await driver.until(lambda: len(list_questions(transcript)) == QUESTIONS + 1, "all messages")
        assert list_questions(transcript)[-2:] == [f"talk question {QUESTIONS - 1}.", "a new one"]


async def test_tokens_and_costs_are_those_of_all_messages(run: Run) -> None:
    async with run() as driver:
        messages = make_messages()
        transcript = open_conversation(driver, messages)
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        await transcript.wait_loaded()
        status = driver.app.chat.status.build_status(driver.host, (), phase="", pending_questions=0, demo=False)  # type: ignore[arg-type]
        usages: Sequence[Usage] = [message.usage for message in messages if message.usage]
        assert status.tokens == sum(one.input_tokens + one.output_tokens for one in usages)
        assert status.cost == pytest.approx(0.5 * QUESTIONS)


async def test_the_last_answer_is_found_before_all_is_loaded(run: Run) -> None:
    async with run() as driver:
        many_calls = tuple(message for message in make_messages() if message.usage is None)
        transcript = open_conversation(driver, (*make_messages("first", 1), *many_calls))
        assert not any(isinstance(block, MarkdownBlock) for block in transcript.blocks)
        assert find_last_answer(driver.app.chat.presenter.transcript).startswith("first answer 0.")


@pytest.mark.parametrize(
    ("at", "before"),
    [(5_000.0, "talk answer 1199."), (4_690.0, "s · look"), (2.0, "s · look"), (0.5, "talk question 0.")],
    ids=["the end", "the newest", "the earlier ones", "the beginning"],
)
async def test_the_notice_of_a_summary_is_where_it_was_shown(run: Run, at: float, before: str) -> None:
    async with run() as driver:
        messages = tuple(replace(message, at=float(place)) for place, message in enumerate(make_messages()))
        sentences = (SummarySentence("One.", (1,)), SummarySentence("Two."))
        driver.host.conversation.compaction = Compaction(last=6, messages=6, sentences=sentences, at=at)
        transcript = open_conversation(driver, messages)
        await driver.until(lambda: not is_loading(transcript), "the earlier messages")
        notices = [at for at, block in enumerate(transcript.blocks) if isinstance(block, NoticeBlock)]
        texts = [block.search_text() for block in transcript.blocks]
        assert len(notices) == 1
        assert "The model gets messages 1 to 6 as 2 sentences, 1 of unknown source." in texts[notices[0]]
        assert texts[notices[0] - 1].startswith(before)


async def test_an_unanswered_message_is_named_when_opened_and_not_repeated_when_answered(run: Run) -> None:
    async with run() as driver:
        transcript = open_conversation(driver, (Message(role="user", parts=(TextPart("Are you there?"),)),))
        assert "There is no answer yet. Press Ctrl+Down" in driver.transcript()
        await driver.pilot.press("ctrl+down")
        await driver.until(lambda: driver.host.gone_on, "the request")
        await driver.until(lambda: "There is no answer yet" not in driver.transcript(), "no notice")
        assert list_questions(transcript) == ["Are you there?"]
