"""Tests for searching the conversation while typing: folded parts, both directions, and speed."""

import asyncio
from time import perf_counter

import anyio
import pytest
from textual.widgets import Input, Static

from mcphost.tui.transcript.blocks import MarkdownBlock, ThinkingBlock, TranscriptBlock, UserMessage
from mcphost.tui.transcript.find import FindQuery, FindResult
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.find_bar import FindBar
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


def blocks() -> list[TranscriptBlock]:
    card = ToolCard("c", "files", "search_files", {"pattern": "needle"})
    card.finish("ok", "\n".join(f"line {n}" for n in range(1, 200)) + "\nthe Needle is here", 1)
    return [
        UserMessage("find the needle, the NEEDLE"),
        ThinkingBlock("perhaps a needle is in the hay"),
        card,
        *(MarkdownBlock(f"paragraph {n}") for n in range(60)),
        MarkdownBlock("no **needle** any more"),
    ]


async def open_bar(driver: AppDriver) -> Transcript:
    transcript = driver.app.chat.query_one(Transcript)
    transcript.load(blocks())
    await driver.pilot.press("ctrl+f")
    await driver.until(lambda: isinstance(driver.app.focused, Input), "the find bar")
    return transcript


def count(driver: AppDriver) -> str:
    return str(driver.app.chat.query_one("#find-count", Static).content)


def rows(transcript: Transcript) -> str:
    return "\n".join(transcript.render_line(y).text for y in range(transcript.size.height))


def current_text(transcript: Transcript) -> list[str]:
    """Return the highlighted texts that belong to the current match."""
    strips = [transcript.render_line(y) for y in range(transcript.size.height)]
    return [s.text for strip in strips for s in strip if s.style and s.style.meta.get("found")]


async def test_matches_are_counted_while_typing_and_reached_in_both_directions(run: Run) -> None:
    async with run() as driver:
        transcript = await open_bar(driver)
        await driver.pilot.press(*"needle")
        await driver.until(lambda: count(driver) == "6 of 6", "the match in view")
        assert current_text(transcript) == ["needle"]
        await driver.pilot.press("enter")
        await driver.until(lambda: count(driver) == "1 of 6", "the first match")
        assert transcript.blocks[transcript.current_index].copy_text() == "find the needle, the NEEDLE"
        await driver.pilot.press("down")
        await driver.until(lambda: count(driver) == "2 of 6", "the second match")
        assert current_text(transcript) == ["NEEDLE"]
        await driver.pilot.press("up", "up")
        await driver.until(lambda: count(driver) == "6 of 6", "the last match")
        await driver.pilot.press("x")
        await driver.until(lambda: count(driver) == "no match", "no match")
        assert current_text(transcript) == []


async def test_a_match_in_folded_reasoning_or_in_a_long_result_is_shown(run: Run) -> None:
    async with run() as driver:
        transcript = await open_bar(driver)
        await driver.pilot.press(*"hay")
        await driver.until(lambda: count(driver) == "1 of 1", "the match in the reasoning")
        assert "perhaps a needle is in the hay" in rows(transcript)
        await driver.pilot.press(*["backspace"] * 3, *"eedle is here")
        await driver.until(lambda: "line 200: the Needle is here" in rows(transcript), "the line of the result")


async def test_closing_the_bar_removes_the_highlight_and_returns_to_the_message(run: Run) -> None:
    async with run() as driver:
        transcript = await open_bar(driver)
        await driver.pilot.press(*"needle")
        await driver.until(lambda: bool(current_text(transcript)), "the highlight")
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.app.chat.query(FindBar), "the end of the bar")
        assert current_text(transcript) == []
        assert driver.app.focused is driver.app.chat.composer_input


async def test_new_content_is_found_by_the_next_step(run: Run) -> None:
    async with run() as driver:
        transcript = await open_bar(driver)
        await driver.pilot.press(*"needle")
        await driver.until(lambda: count(driver) == "6 of 6", "the match in view")
        transcript.add(MarkdownBlock("one more needle"))
        await driver.pilot.press("enter")
        await driver.until(lambda: count(driver) == "7 of 7", "the new match")


async def test_a_hundred_thousand_messages_are_searched_in_slices() -> None:
    many: list[TranscriptBlock] = [
        MarkdownBlock(f"message {n}: " + "some words of an answer " * 8) for n in range(99_999)
    ]
    many.append(MarkdownBlock("the needle"))
    result = FindResult(FindQuery("needle"))
    longest, taken, done = 0.0, 0.0, False

    async def other_work() -> None:
        nonlocal longest
        while not done:
            begun = perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, perf_counter() - begun)

    begun = perf_counter()
    async with anyio.create_task_group() as group:
        group.start_soon(other_work)
        await result.search(many)
        taken, done = perf_counter() - begun, True
    assert [match.block for match in result.matches] == [many[-1]]
    assert longest < 0.5  # a slice is 4 ms; this machine may be busy
    assert taken < 20


def test_a_count_of_matches_is_bounded() -> None:
    result = FindResult(FindQuery("a"))
    asyncio.run(result.search([MarkdownBlock("a" * 1000) for _ in range(100)]))
    assert result.is_full
    assert len(result.matches) == 10_000


def test_special_characters_are_text_and_case_does_not_matter() -> None:
    assert FindQuery("a.b[").count("A.B[ axb[ a.b[") == 2
    assert FindQuery("ÄÖ").count("äö ÄÖ") == 2


async def test_letters_that_arrive_together_with_escape_are_typed_into_the_message(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_bar(driver)
        driver.press_together("escape", "h", "e", "l", "l", "o")
        await driver.until(lambda: not driver.app.chat.query(FindBar), "the end of the bar")
        await driver.until(lambda: driver.app.query_one(Composer).composer_input.text == "hello", "the message")
