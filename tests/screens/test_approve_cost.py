"""Tests for the question about a request's cost: shown in full, refused by default, never answered by accident."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Button

from mcphost.host.questions.cost import (
    CompactConversation,
    DeferTools,
    RaiseBudget,
    SendOnce,
    StopTurn,
    UseCheaperModel,
)
from mcphost.serialization import replace
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import Run
from tests.screens.example_records import COST

pytestmark = pytest.mark.anyio
TALL = (100, 50)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), StopTurn()),
        (("d",), StopTurn()),
        (("enter",), StopTurn()),
        (("a",), SendOnce()),
        (("r",), RaiseBudget()),
        (("1",), SendOnce(3_200)),
        (("2",), CompactConversation()),
        (("3",), UseCheaperModel("groq/llama-3.3-70b")),
        (("5",), DeferTools("github")),
        (("6",), DeferTools("files")),
        (("9", "d"), StopTurn()),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else type(value).__name__,
)
async def test_each_key_of_the_cost_dialog_gives_its_answer(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=TALL) as driver:
        assert await ask_and_press(driver, COST, *keys) == answer


async def test_the_status_says_that_a_request_waits_for_the_answer(run: Run) -> None:
    is_answered, may_end = asyncio.Event(), asyncio.Event()

    async def turn(host: Any, number: int, text: str) -> str:
        del number, text
        await host.frontend.ask(COST)
        is_answered.set()
        await may_end.wait()
        return "yes"

    async with run(size=TALL, turn=turn) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.chat.presenter.phase == "waiting for you", "the status")
        await driver.enter_question()
        await driver.pilot.press("escape")
        await driver.until(is_answered.is_set, "the answer")
        await driver.until(lambda: driver.app.chat.presenter.phase == "waiting for the model", "the former status")
        may_end.set()


async def test_the_dialog_shows_the_estimate_the_limits_and_what_makes_the_request_big(run: Run) -> None:
    async with run(size=TALL) as driver:
        PendingQuestion(driver, COST)
        await driver.enter_question()
        text = driver.text()
        assert driver.app.focused.id == "refuse"
    for part in (
        "Send a request for up to $0.23?",
        "about $0.0679 for 54,300 tokens, 12,000 of them cached",
        "up to $0.16 for 16,000 tokens",
        "of $0.20 (per request): would exceed",
        "$0.0312 spent of $0.50 (per turn)",
        "$4.91 + up to $0.23 of $5.00 (per day): would exceed",
        "57%  $0.0390  tools of github",
        "results of files · search_files",
        "continue with groq/llama-3.3-70b · up to $0.0334",
        "leave the tools of github to the search · saves $0.0390",
    ):
        assert part in text


async def test_sending_is_refused_until_everything_was_read(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, COST)
        await driver.enter_question()
        for key in ("a", "1", "r"):
            await driver.pilot.press(key)
            await driver.until(lambda: "read to the end first" in driver.text(), "why nothing was sent")
            assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: driver.dialog.is_read, "the end")
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == SendOnce(), "the answer")


async def test_a_choice_is_made_with_the_mouse_too(run: Run) -> None:
    async with run(size=TALL) as driver:
        pending = PendingQuestion(driver, COST)
        await driver.enter_question()
        await driver.pilot.click("#choice-3")
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert pending.answer == UseCheaperModel("groq/llama-3.3-70b")


async def test_the_raise_button_names_the_new_limit(run: Run) -> None:
    one = replace(COST, budgets=COST.budgets[:2])
    async with run(size=TALL) as driver:
        PendingQuestion(driver, one)
        await driver.enter_question()
        assert "Raise to $0.40 in this conversation" in str(driver.app.screen.query_one("#raise", Button).label)
        assert "Raise to $0.40" in driver.text()


async def test_a_request_of_unknown_price_says_so(run: Run) -> None:
    unknown = replace(COST, input_cost=None, output_cost=None, cheaper=(), shorter_output_tokens=0, can_compact=False)
    async with run(size=TALL) as driver:
        PendingQuestion(driver, unknown)
        await driver.enter_question()
        text = driver.text()
    assert "Send another request?" in text
    assert "unknown: the model has no known price" in text
    assert "leave the tools of github to the search · saves 31,200 tokens" in text
    assert "1 to 2 cheaper" in text


async def test_names_of_servers_and_models_cannot_draw_on_the_screen(run: Run) -> None:
    evil = "get\x1b[2J\u202e[/bold]"
    shares = tuple(replace(share, server=evil, tool=evil) for share in COST.shares)
    cheaper = tuple(replace(offer, name=evil) for offer in COST.cheaper)
    async with run(size=TALL) as driver:
        PendingQuestion(driver, replace(COST, shares=shares, cheaper=cheaper, label=evil))
        await driver.enter_question()
        text = driver.text()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[/bold]" in text
