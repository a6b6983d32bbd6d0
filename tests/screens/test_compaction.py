"""Tests for summaries of messages: compared with the messages, edited, used and undone, but never by accident."""

import re
from typing import Any, cast

import pytest
from textual.widgets import OptionList

from mcphost.host.conversation import summarizer
from mcphost.host.events import TurnStarted
from mcphost.host.host import Host
from mcphost.host.questions.compaction import KeepMessages, ReviewCompaction, SummarySource, UseSummary
from mcphost.llm import demo_model
from mcphost.llm.messages import Message
from mcphost.llm.model import ModelEvent, ModelRequest
from mcphost.serialization import replace
from mcphost.store.compactions import SummarySentence
from mcphost.tui.chat import status as chat_status
from mcphost.tui.chat.status import ChatStatus
from tests.fakes.model import HANG, ScriptedModel, text_round
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_records import OFFER, REVIEW
from tests.screens.real_program import Files, run_command

pytestmark = pytest.mark.anyio
FIRST, SECOND, THIRD = REVIEW.sentences
LONG = "word " * 300


@pytest.mark.parametrize(
    ("keys", "answer"), [(("escape",), False), (("d",), False), (("enter",), False), (("m",), True)], ids=str
)
async def test_an_offer_is_taken_only_by_its_key(run: Run, keys: tuple[str, ...], answer: bool) -> None:
    async with run() as driver:
        assert await ask_and_press(driver, OFFER, *keys) is answer


async def test_an_offer_shows_the_size_now_and_afterwards_and_the_window(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, OFFER)
        await driver.enter_question()
        assert "about 180,000 of 200,000 tokens" in driver.text()
        assert "about 94,000 tokens" in driver.text()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), KeepMessages()),
        (("d",), KeepMessages()),
        (("enter",), KeepMessages()),
        (("u",), UseSummary(REVIEW.sentences)),
        (("down", "down", "x", "u"), UseSummary((FIRST, THIRD))),
        (("down", "x", "x", "u"), UseSummary(REVIEW.sentences)),
        (("n", *"Mine", "enter", "u"), UseSummary((*REVIEW.sentences, SummarySentence("Mine", (), by_user=True)))),
        (("n", *"Mine", "escape", "u"), UseSummary(REVIEW.sentences)),
        (
            ("down", "e", "end", *"!!", "enter", "u"),
            UseSummary((replace(FIRST, text=f"{FIRST.text}!!", by_user=True), SECOND, THIRD)),
        ),
        (("down", "e", "enter", "u"), UseSummary(REVIEW.sentences)),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
async def test_each_key_of_the_review_gives_its_answer(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(100, 40)) as driver:
        assert await ask_and_press(driver, REVIEW, *keys) == answer


async def test_a_summary_without_a_sentence_cannot_be_used(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        asked = PendingQuestion(driver, REVIEW)
        await driver.enter_question()
        for _ in REVIEW.sentences:
            await driver.pilot.press("down", "x")
        await driver.pilot.press("u")
        assert "no sentence is left" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: asked.answer is not None)
        assert asked.answer == KeepMessages()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_sentence_leads_to_the_messages_it_stands_for(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        PendingQuestion(driver, REVIEW)
        await driver.enter_question()
        assert "messages 1-2" in driver.text()
        assert "source unknown" in driver.text()
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: "message 1, user" in driver.text(), "the messages")
        assert "Our budget is 300 euros" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen.query(OptionList), "the dialog")


async def test_hostile_sentences_and_messages_stay_text(run: Run) -> None:
    hostile = "[red]a[/]\x1b[2J\u202eb"
    question = ReviewCompaction(
        server="", why="", sentences=(SummarySentence(hostile, (1,)),), numbers=(1,),
        sources=(SummarySource(1, "user", hostile),), messages=1, model=hostile,
    )  # fmt: skip
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        assert "\x1b" not in driver.text()
        assert "[red]a[/]" in driver.text()


def summary_round(request: ModelRequest) -> list[ModelEvent]:
    """Answer a request for a summary with one sentence about the first two messages."""
    assert "1" in request.messages[-1].text
    return text_round("Ada wrote a lot, and got an answer. [1, 2]")


async def send(driver: AppDriver, text: str, answer: str) -> None:
    driver.app.chat.composer_input.insert(text)
    await driver.pilot.press("enter")
    await driver.until(lambda: answer in driver.transcript() and not driver.host.conversation.is_busy, answer)


async def test_a_summary_is_made_used_shown_and_undone_by_commands(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [text_round(f"{word} {LONG}") for word in ("one", "two", "three", "four")]
    model = ScriptedModel(*answers, summary_round, text_round("five"), text_round("six"))
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    monkeypatch.setattr(summarizer, "MAX_INSTRUCTIONS", 20)
    files.write_settings("[compaction]\nkeep_messages = 2\n")
    async with files.open((100, 40)) as driver:
        for word in ("one", "two", "three", "four"):
            await send(driver, f"say {word}", f"{word} word")
        await run_command(driver, "/summary")
        await driver.until(lambda: any("No summary" in one.message for one in driver.app._notifications), "the hint")
        await run_command(driver, "/compact keep the names")
        await driver.enter_question()
        assert "Additional instructions from the user: keep the names" in model.requests[-1].system
        assert "keep the names" in driver.text()
        assert "Ada wrote a lot" in driver.text()
        await driver.pilot.press("u")
        await driver.until(lambda: "The model gets messages 1 to 6 as 1 sentence" in driver.transcript(), "the notice")
        await run_command(driver, "/summary")
        await driver.until(lambda: "message 1, user" in driver.text(), "the sources")
        await driver.pilot.press("escape")
        await send(driver, "next", "five")
        sent = model.requests[-1].messages
        assert "Ada wrote a lot" in sent[0].text
        assert not any("say one" in message.text for message in sent)
        assert len(driver.host.conversation.messages) == 10
        before = driver.transcript()
        await driver.host.conversation.open(driver.host.conversation.id)
        await driver.until(lambda: "Summarizing" not in driver.transcript(), "the conversation opened again")
        places = [driver.transcript().index(text) for text in ("four word", "The model gets messages 1 to 6", "next")]
        assert places == sorted(places)
        assert before.count("1 sentence") == driver.transcript().count("1 sentence") == 1
        await run_command(driver, "/undo-summary")
        await driver.until(lambda: "gets the messages themselves again" in driver.transcript(), "the undo")
        await send(driver, "last", "six")
        assert re.search("say one$", model.requests[-1].messages[0].text)
        await run_command(driver, f"/compact {'x' * 21}")
        await driver.until(lambda: any("20 characters" in one.message for one in driver.app._notifications), "limit")


async def test_the_end_of_summarizing_and_a_refused_summary_are_reported(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [text_round(f"{word} {LONG}") for word in ("one", "two", "three", "four")]
    model = ScriptedModel(*answers, summary_round, [HANG])
    monkeypatch.setattr(demo_model, "DemoModel", lambda: model)
    files.write_settings("[compaction]\nkeep_messages = 2\n")
    async with files.open((100, 40)) as driver:
        for word in ("one", "two", "three", "four"):
            await send(driver, f"say {word}", f"{word} word")
        await run_command(driver, "/compact")
        await driver.enter_question()
        assert "A summary of 6 messages was written." in driver.transcript()
        await driver.pilot.press("escape")
        await driver.until(lambda: "The summary is not used" in driver.transcript(), "the refusal")
        assert "Summarizing" not in driver.transcript()
        await run_command(driver, "/compact")
        await driver.until(lambda: "Summarizing 6 messages…" in driver.transcript(), "the second summary")
        await driver.pilot.press("escape")
        await driver.until(lambda: "Summarizing 6 messages was stopped" in driver.transcript(), "the end")
        assert "Esc stops it" not in driver.transcript()


async def test_dropping_and_adding_sentences_changes_the_size_of_the_summary(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, REVIEW)
        await driver.enter_question()
        assert "about 420 instead of 31,000 tokens" in driver.text()
        await driver.pilot.press("down", "x")
        await driver.until(
            lambda: re.search(r"about 4[01]\d instead of 31,000 tokens", driver.text()), "a smaller size"
        )
        await driver.pilot.press("x")
        await driver.until(lambda: "about 420 instead of 31,000 tokens" in driver.text(), "the size before")


@pytest.mark.parametrize("question", [OFFER, REVIEW], ids=["offer", "review"])
async def test_the_top_line_says_that_a_question_about_a_summary_waits_for_the_user(run: Run, question: Any) -> None:
    async with run(size=(100, 40)) as driver:
        driver.app.chat.presenter.phase = "asking the model"
        PendingQuestion(driver, question)
        await driver.until(lambda: driver.app.chat.presenter.phase == "waiting for you", "the phase")
        await driver.enter_question()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.chat.presenter.phase == "asking the model", "the phase before")


async def test_the_seconds_of_a_summary_do_not_begin_at_the_turn_before_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(chat_status, "monotonic", lambda: now)
    async with run() as driver:
        host, status = driver.host, ChatStatus()
        busy = False
        monkeypatch.setattr(type(host.conversation), "is_busy", property(lambda _: busy))

        def activity() -> str:
            shown = status.build_status(cast("Host", host), (), phase="summarizing", pending_questions=0, demo=False)
            return shown.activity

        status.event_handlers[TurnStarted](TurnStarted(1, Message(role="user", parts=())))
        busy, now = True, 105.0
        assert activity() == "summarizing · 5 s"
        busy = False
        assert activity() == ""
        busy, now = True, 160.0
        assert activity() == "summarizing"
        now = 162.0
        assert activity() == "summarizing · 2 s"
