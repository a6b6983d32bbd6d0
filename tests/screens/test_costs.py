"""Tests for showing the costs of model requests: on the costs page, in the top line, and next to each answer."""

import re
from time import time

import pytest
from textual.widgets import OptionList

from mcphost.config.schema import BudgetConfig
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart, ToolUsePart, Usage
from mcphost.store.spending import SpendingEntry
from mcphost.tui.screens.costs import CostsScreen
from mcphost.tui.transcript.message_blocks import build_blocks, format_time
from mcphost.tui.widgets.status_bars import TopBar
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_records import example_spending
from tests.screens.fake_host import FakeHost, echo_reply

pytestmark = pytest.mark.anyio


async def open_costs(driver: AppDriver) -> CostsScreen:
    await driver.type("/cost")
    await driver.pilot.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, CostsScreen) and driver.app.screen.entries, "costs")
    screen = driver.app.screen
    assert isinstance(screen, CostsScreen)
    return screen


async def test_the_costs_page_shows_the_turn_the_conversation_today_and_each_day(run: Run) -> None:
    async with run(size=(120, 40), turn=echo_reply) as driver:
        driver.host.settings.budget = BudgetConfig(per_turn=0.5)
        await driver.host.conversation.send("hi")
        for entry in example_spending(driver.host.conversation.id, time()):
            await driver.host.spending_store.add(entry)
        screen = await open_costs(driver)
        await driver.until(lambda: "tools of github" in driver.text(), "what it was for")
        rows = {row.title: row.detail for row in screen.entries}
        assert rows["This turn"] == "$0.14 · 2 requests"
        assert rows["This conversation"] == rows["This turn"]
        assert rows["Today"] == "$0.14 + unknown · 3 requests"
        assert rows["Last 30 days"] == "$1.22 + unknown · 6 requests"
        assert len(screen.entries) == 4 + 4
        text = driver.text()
        assert "$0.50 (per turn)" in text
        assert re.search(r"tools of github *\n.* 54%  \$0.0780     62,400", text)
        assert re.search(r"share of the cost {13}cost {5}tokens", text)
        assert "from the cache" in text
        assert re.search(r"saved by the cache +\$0\.0270", text)
        screen.query_one(OptionList).highlighted = 2
        await driver.until(lambda: "48,900 tokens of unknown price" in driver.text(), "today")
        assert "x/new" in driver.text()


async def test_the_costs_page_says_how_to_set_unknown_prices_and_counts_their_tokens(run: Run) -> None:
    async with run(size=(120, 40), turn=echo_reply) as driver:
        await driver.host.conversation.send("hi")
        conversation = driver.host.conversation.id
        entry = SpendingEntry(at=time(), conversation=conversation, turn="t", model="openai/own", input_tokens=4_000)
        await driver.host.spending_store.add(entry)
        screen = await open_costs(driver)
        rows = {row.title: row.detail for row in screen.entries}
        assert rows["This conversation"] == "unknown · 4,000 tokens · 1 request"
        await driver.until(lambda: "input_price and output_price" in " ".join(driver.text().split()), "how to set them")


async def test_the_costs_page_says_when_there_is_nothing(run: Run) -> None:
    async with run() as driver:
        await driver.type("/cost")
        await driver.pilot.press("enter")
        await driver.until(lambda: "No request was sent yet" in driver.text(), "the empty page")


async def test_the_top_line_counts_branches_that_were_left(run: Run) -> None:
    async with run(size=(120, 40), turn=echo_reply) as driver:
        conversation = "c1"
        await driver.host.spending_store.add(SpendingEntry(at=time(), conversation=conversation, cost=2.5))
        await driver.host.conversation.send("hi")
        driver.app.chat.load_conversation()
        await driver.until(lambda: driver.app.chat.query_one(TopBar).status.cost == 2.5, "the whole cost")
        driver.host.put(events.SpendingChanged(conversation, 0.25, 2.75))
        await driver.until(lambda: driver.app.chat.query_one(TopBar).status.cost == 2.75, "the new cost")


def answer(cost: float | None) -> Message:
    return Message(role="assistant", parts=(TextPart("Yes."),), at=time(), usage=Usage(input_tokens=5, cost=cost))


@pytest.mark.parametrize(
    ("costs", "shown"), [((0.25,), "$0.25"), ((0.01, 0.0023), "$0.0123"), ((None,), ""), ((0.0,), "")]
)
def test_the_cost_of_an_answer_with_all_its_requests_is_beside_it(costs: tuple[float | None, ...], shown: str) -> None:
    question = Message(role="user", parts=(TextPart("?"),), at=time())
    heading = build_blocks([question, *map(answer, costs)], show_costs=True)[1].render(80)[0].content.plain
    assert ("$" in heading) == bool(shown)
    assert shown in heading
    assert "$" not in build_blocks([question, *map(answer, costs)])[1].render(80)[0].content.plain


async def test_the_cost_appears_when_the_answer_ends_unless_it_is_switched_off(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: "$0.0120" in driver.transcript(), "the cost")
    async with run(turn=echo_reply) as driver:
        driver.app.chat.presenter.show_costs = False
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: not driver.host.conversation.is_busy and driver.host.sent, "the answer")
        assert "$0.0120" not in driver.transcript()


async def test_the_cost_and_time_of_a_response_with_only_a_call_are_beside_the_running_answer(run: Run) -> None:
    called = Message(role="assistant", parts=(ToolUsePart("c1", "look", {}),), at=time())

    async def call_first(host: FakeHost, turn: int, _text: str) -> str:
        host.put(events.MessageFinished(turn, called, Usage(input_tokens=5, cost=0.3)))
        host.put(events.ToolProposed("c1", "files", "look", {}))
        return "Done."

    async with run(turn=call_first) as driver:
        await driver.type("look")
        await driver.pilot.press("enter")
        await driver.until(lambda: "$0.31" in driver.transcript(), "the cost of both requests")
        heading = next(line for line in driver.transcript().splitlines() if "$0.31" in line)
        assert heading.rstrip().endswith(format_time(called.at))
