"""Tests for typing while questions of every kind open and close: none is answered, and no letter is lost."""

import asyncio
from random import Random
from string import ascii_letters
from typing import Any

import pytest
from textual import events

from mcphost.serialization import replace
from mcphost.tui import input_guard
from mcphost.tui.dialogs.waiting_calls import WaitingCallsDialog
from mcphost.tui.input_guard import Guarded
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import GUARD_SECONDS, Run
from tests.screens.example_questions import CALL, EXAMPLE_QUESTIONS
from tests.screens.rendering import wait_settled

pytestmark = pytest.mark.anyio
RUNS, SENTENCES, MOST_OPEN = 10, 50, 3


class Typist:
    """A simulated user who types while questions open and close; `typed` contains every character except Enter."""

    def __init__(self, driver: Any, clock: ManualClock, random: Random) -> None:
        self.driver, self.clock, self.random = driver, clock, random
        self.typed = ""
        self.asked: list[PendingQuestion] = []
        self.open: list[PendingQuestion] = []
        self.opened = self.aside = 0
        kinds = [*EXAMPLE_QUESTIONS, CALL, CALL]
        random.shuffle(kinds)
        self.kinds = iter(kinds * 100)

    async def press(self, key: str, character: str) -> None:
        """Press one key and pause at random, as a typist does; sometimes a question opens or closes meanwhile."""
        self.driver.app.post_message(events.Key(key, character))
        if self.random.random() < 0.1:
            return  # the next key arrives together with this one
        await self.heard()
        pauses = self.random.random() < 0.05
        self.clock.now += self.random.uniform(1.5, 9) if pauses else self.random.uniform(0.02, 0.7)
        if pauses:
            await wait_settled()
        elif self.random.random() < 0.06:
            await self.something_happens()

    async def heard(self) -> None:
        """Wait until the app has handled all keys pressed so far."""
        app, prompt = self.driver.app, self.driver.app.chat.composer_input
        while not (app._message_queue.empty() and prompt._message_queue.empty()):  # noqa: ASYNC110 - Textual's queues
            await asyncio.sleep(0)

    async def something_happens(self) -> None:
        """Open a question, or withdraw an open one, at random."""
        if len(self.open) < MOST_OPEN and self.random.random() < 0.6:
            self.ask()
        elif self.open:
            self.open.pop(self.random.randrange(len(self.open))).worker.cancel()
        if self.random.random() < 0.8:
            await wait_settled()
        self.clock.now += self.random.choice((0.0, 0.0, 0.5))
        self.opened += isinstance(self.driver.app.screen, Guarded)
        self.aside += self.driver.app._minimized is not None

    def ask(self) -> None:
        """Open a question of the next kind in a random order."""
        question = next(self.kinds)
        one = PendingQuestion(self.driver, replace(CALL, call=f"c{len(self.asked)}") if question is CALL else question)
        self.asked.append(one)
        self.open.append(one)

    async def rest(self) -> None:
        """Stop typing while a question opens, sometimes long enough for the question to take the focus."""
        while self.open and self.random.random() < 0.8:
            self.open.pop().worker.cancel()
        await wait_settled()
        self.clock.now += self.random.uniform(1.5, 4)
        self.ask()
        await wait_settled()
        self.opened += isinstance(self.driver.app.screen, Guarded)
        self.clock.now += self.random.choice((0.0, 0.2, 0.5, 5.0))

    async def sentence(self) -> None:
        """Type random letters and spaces, which answer questions that have the focus, and then Enter."""
        for _ in range(self.random.randint(2, 18)):
            letter = self.random.choice((*ascii_letters, *"asdorkgAAae", " ", " ", " "))
            self.typed += letter
            await self.press("space" if letter == " " else letter, letter)
        await self.press("enter", "\r")

    @property
    def arrived(self) -> str:
        """The text in the sent messages and in the composer."""
        return "".join(text for text, _ in self.driver.host.sent) + str(self.driver.app.chat.composer_input.text)


@pytest.mark.req("ui.confirm", "ui.dialog-queue")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(RUNS))
async def test_typing_answers_no_question_and_loses_no_letter(
    run: Run, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(input_guard, "clock", clock)
    monkeypatch.setattr(input_guard, "GUARD_SECONDS", GUARD_SECONDS)

    async def quiet(*_: Any) -> str:
        return "yes"

    async with run(turn=quiet, size=(80, 24)) as driver:
        typist = Typist(driver, clock, Random(seed))
        for _ in range(SENTENCES):
            await typist.sentence()
            await driver.until(lambda: typist.arrived == typist.typed, f"all letters of {typist.typed[-60:]!r}")
            assert [question.answer for question in typist.asked if question.answer is not None] == []
            if typist.random.random() < 0.5:
                await typist.rest()
        assert len(typist.asked) > len(EXAMPLE_QUESTIONS), "questions of every kind came"
        assert typist.opened, "some opened as dialogs"
        assert typist.aside, "some waited beside the message"
        assert driver.host.sent
        clock.now += 60
        last = PendingQuestion(driver, EXAMPLE_QUESTIONS[0]) if not typist.open else typist.open[0]
        await driver.until(lambda: driver.frontend.pending_questions, "a question")
        await driver.pilot.press("f8")
        await driver.until(
            lambda: isinstance(driver.app.screen, Guarded) and driver.app.screen.guard.is_shown, "the dialog"
        )
        clock.now += 60
        # A question that corrects an entry opens with its input, which the first Escape closes. A list of calls asks
        # for a second Escape, because the first would deny all of them.
        asks_twice = driver.app.screen.is_retry or isinstance(driver.app.screen, WaitingCallsDialog)
        await driver.pilot.press(*["escape"] * (2 if asks_twice else 1))
        await driver.until(lambda: any(item.answer is not None for item in (last, *typist.open)), "a refusal by Escape")
