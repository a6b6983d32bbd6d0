"""Tests for the context page and the meter in the top line, which show how full the model's context window is."""

import pytest
from textual.widgets import OptionList

from mcphost.host import events
from mcphost.host.conversation.context_report import ContextReport
from mcphost.llm.messages import Message, TextPart, Usage
from mcphost.llm.model import TokenShare
from mcphost.serialization import replace
from mcphost.tui.chat.status import ChatStatus
from mcphost.tui.screens.context import ContextScreen
from mcphost.tui.widgets.status_bars import KeyBar, TopBar, TopBarStatus, build_meter
from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_records import example_context

pytestmark = pytest.mark.anyio
ANSWER = Message(role="assistant", parts=(TextPart("ok"),), usage=Usage(input_tokens=61_000, output_tokens=1_000))


async def open_context(driver: AppDriver, report: ContextReport) -> ContextScreen:
    driver.host.context.report = report
    await driver.type("/context")
    await driver.pilot.press("enter")
    await driver.until(lambda: isinstance(driver.app.screen, ContextScreen) and driver.app.screen.entries, "the parts")
    screen = driver.app.screen
    assert isinstance(screen, ContextScreen)
    return screen


def select(screen: ContextScreen, title: str) -> None:
    at = next(at for at, row in enumerate(screen.visible_rows) if row.title == title)
    screen.query_one(OptionList).highlighted = at


async def test_the_parts_of_the_window_add_up_and_name_the_largest_tools(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        screen = await open_context(driver, example_context())
        rows = {row.title: row.detail for row in screen.entries}
        assert list(rows) == [
            "Next request", "System prompt", "Tools of github", "Tools of files", "Tools of mcphost", "Attachments",
            "Tool results", "Messages", "Free",
        ]  # fmt: skip
        assert rows["Next request"] == "62,610 tokens"
        assert rows["Tools of github"] == "2,130 tokens · 2 of 8 sent"
        assert rows["Free"] == "137,390 tokens"
        parts = [row.value.tokens for row in screen.entries[1:]]
        assert sum(parts) == 200_000
        await driver.until(lambda: "Largest tools" in driver.text(), "the largest tools")
        text = driver.text()
        assert "━━━───────  31%  Next request" in text
        assert "share of the window:  ● tools  ● results  ● messages" in text
        assert "━─────────   1%  Tools of github  2 of 8 sent" in text
        assert "22,590  11%  github · search_code" in text
        assert "61,820 tokens by the provider" in text
        assert "30 earlier messages" in text


async def test_a_server_shows_its_tools_and_the_user_chooses_how_they_are_sent(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        screen = await open_context(driver, example_context())
        assert "leave to search" not in str(screen.query_one(KeyBar).render())
        select(screen, "Tools of github")
        await driver.until(lambda: "640  by search    merge_pull_request" in driver.text(), "its tools")
        assert "leave to search" in str(screen.query_one(KeyBar).render())
        await driver.pilot.press("d", "p", "a")
        assert driver.host.context.chosen == [
            ("github", "", "deferred"), ("github", "", "pinned"), ("github", "", "auto"),
        ]  # fmt: skip
        select(screen, "Messages")
        await driver.until(lambda: "48" in driver.text(), "the messages")
        await driver.pilot.press("d")
        assert len(driver.host.context.chosen) == 3


async def test_a_window_that_is_not_known_is_said_to_be_assumed(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_context(driver, replace(example_context(), is_assumed=True))
        await driver.until(lambda: "200,000 tokens, assumed" in driver.text(), "the assumption")
        assert "context_window under [model]" in driver.text()


async def test_names_of_servers_and_tools_cannot_imitate_other_lines(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        wrapped = f"{'x' * 30}{' ' * 12}99,999  40%  files · read"
        shares = (
            TokenShare("results", "evil", "a\n   99,999  40%  files · read", 500),
            TokenShare("results", "evil", wrapped, 400),
        )
        await open_context(driver, ContextReport(window=1_000, shares=shares))
        await driver.until(lambda: "evil" in driver.text(), "the tool")
        assert not any(line.strip(" │").startswith("99,999") for line in driver.text().splitlines())


async def test_the_meter_shows_what_the_provider_counted_and_opens_the_page(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.put(events.RoundStarted(1, 1, "m", "m", example_context().shares))
        driver.host.put(events.MessageFinished(1, ANSWER, ANSWER.usage or Usage()))
        bar = driver.app.chat.query_one(TopBar)
        await driver.until(lambda: bar.status.context > 0, "the meter")
        assert bar.status.context == 62_000 / 200_000
        text = str(bar.render())
        assert "ctx ━━────── 31%" in text
        at = text.index("ctx")
        assert await driver.pilot.click(TopBar, offset=(at + 2, 0))
        await driver.until(lambda: isinstance(driver.app.screen, ContextScreen), "the context page")


@pytest.mark.parametrize(
    ("used", "tokens", "cells"),
    [
        (0.5, (100, 200, 100), [1, 2, 1]),
        (0.5, (0, 0, 0), [4]),
        (0.01, (10, 0, 0), [1]),
        (1.4, (1, 1, 2), [2, 2, 4]),
        (0.75, (0, 600, 0), [6]),
    ],
)
def test_the_cells_of_the_meter_are_divided_by_the_kinds_of_content(
    used: float, tokens: tuple[int, int, int], cells: list[int]
) -> None:
    meter = build_meter(used, tokens)
    filled = [(span.end - span.start) for span in meter.spans if set(meter.plain[span.start : span.end]) == {"━"}]
    assert filled == cells
    assert meter.plain.count("━") + meter.plain.count("─") == 8


def test_another_conversation_begins_with_an_empty_meter() -> None:
    model = ChatStatus()
    model.event_handlers[events.RoundStarted](events.RoundStarted(1, 1, "m", "m", example_context().shares))
    assert model.context_parts == (4_910, 48_300, 9_400)
    model.reset()
    assert model.context_parts == (0, 0, 0)


def test_for_a_screen_reader_the_meter_is_a_number() -> None:
    assert build_meter(0.31, (1, 2, 3), has_bar=False).plain == "ctx 31%"


@pytest.mark.parametrize(("count", "shown"), [(0, "· 0 tools"), (1, "· 1 tool"), (2, "· 2 tools")])
async def test_the_top_line_counts_one_tool_in_the_singular(run: Run, count: int, shown: str) -> None:
    async with run() as driver:
        bar = driver.app.query_one(TopBar)
        bar.status = TopBarStatus(ready=1, servers=1, tools=count)
        assert bar.render().plain.endswith(f"1/1 server {shown}")


async def test_the_top_bar_is_redrawn_behind_a_question_and_its_editor(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        bar = driver.app.chat.query_one(TopBar)
        PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await driver.pilot.press("e")
        await driver.until(lambda: "Edit the arguments" in driver.text(), "the editor")
        driver.app.export_screenshot()

        def shows_activity() -> bool:
            bar.status = bar.status._replace(activity="later")
            return "later" in driver.app.export_screenshot()

        await driver.until(shows_activity, "the activity")


async def test_a_longer_activity_leaves_the_number_of_servers_in_the_top_bar(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        bar = driver.app.chat.query_one(TopBar)
        status = TopBarStatus(model_state="ready", ready=1, servers=2, tools=10, pending_questions=1, demo=True)
        bar.status = status._replace(activity="waiting for you · 9 s")
        assert "1/2 servers · 10 tools" in bar.render().plain
        bar.status = status._replace(activity="waiting for you · 10 s")
        assert "1/2 servers  ◆ 1 waiting for you: F8" in bar.render().plain


async def test_what_the_colors_mean_fits_on_a_small_terminal(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_context(driver, example_context())
        await driver.until(lambda: "● tools  ● results  ● messages" in driver.text(), "the colors")
