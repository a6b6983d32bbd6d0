"""Tests for the question for an OAuth client ID: it names the recipient, defaults to Cancel, and hides the secret."""

import pytest

from mcphost.host.questions.sign_in import DeclineClient, EnteredClient
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import Run
from tests.screens.example_fields import CLIENT_ID_QUESTION

pytestmark = pytest.mark.anyio


async def test_who_gets_it_for_which_address_and_why_are_shown(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, CLIENT_ID_QUESTION)
        await driver.enter_question()
        shown = driver.text()
        for text in (
            "Enter a client ID for tracker?",
            CLIENT_ID_QUESTION.issuer,
            CLIENT_ID_QUESTION.redirect_uri,
            "work",
            "registers",
        ):
            assert text in shown, text
        assert "\x1b" not in shown


@pytest.mark.parametrize("keys", [("escape",), ("enter",), ("d",), ("e", "escape", "escape")])
async def test_nothing_is_entered_by_accident(run: Run, keys: tuple[str, ...]) -> None:
    async with run(size=(100, 40)) as driver:
        assert await ask_and_press(driver, CLIENT_ID_QUESTION, *keys) == DeclineClient()


async def test_an_id_and_a_hidden_secret_are_typed(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, CLIENT_ID_QUESTION)
        await driver.enter_question()
        await driver.pilot.press("e", "enter")
        assert pending.answer is None, "there is no id yet"
        await driver.pilot.press(*"my-id", "enter", *"hush")
        assert "my-id" in driver.text()
        assert "hush" not in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == EnteredClient("my-id", "hush")
        assert "hush" not in repr(pending.answer)


async def test_an_id_without_a_secret_is_enough(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        assert await ask_and_press(driver, CLIENT_ID_QUESTION, "e", *"my-id", "enter", "enter") == EnteredClient(
            "my-id"
        )
