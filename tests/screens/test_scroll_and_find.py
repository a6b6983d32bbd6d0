"""Tests for reading and searching: no text is cut off at an edge, the conversation scrolls, names can be found."""

from typing import Any

import pytest

from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio


async def long_answer(host: FakeHost, turn: int, text: str) -> str:
    said = "\n\n".join(f"Paragraph {number} of the answer to {text}." for number in range(60))
    host.say(turn, said, 500)
    return said


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_no_character_of_a_long_line_hides_under_the_scrollbar(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        line = "".join(chr(ord("a") + number % 26) for number in range(400))
        driver.app.on_text_view_requested(_wanted(line))
        await driver.until(lambda: "1 line · 400 characters" in driver.text(), "the viewer")
        await driver.pilot.pause()
        seen = "".join(row.strip(" ▁▂▃▄▅▆▇█") for row in driver.text().split("\n")[1:])
        assert line in seen


def _wanted(text: str) -> Any:
    from mcphost.tui.widget_messages import TextViewRequested

    return TextViewRequested("a title", text)


async def test_page_up_and_down_scroll_the_conversation_while_a_message_is_written(run: Run) -> None:
    async with run(turn=long_answer) as driver:
        view = driver.app.query_one(Transcript)
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: "Paragraph 59" in driver.text() and not driver.host.conversation.is_busy, "the answer"
        )
        await driver.type("next")
        end = view.scroll_offset.y
        await driver.pilot.press("pageup")
        await driver.until(lambda: view.scroll_offset.y < end - 10, "a page back")
        assert not view.is_following
        assert "Paragraph 59" not in driver.text()
        await driver.pilot.press("pagedown")
        await driver.until(lambda: "Paragraph 59" in driver.text(), "the end")
        assert view.is_following
        assert driver.app.query_one(Composer).composer_input.text == "next"


@pytest.mark.parametrize("words", ["theme", "light theme", "color THEME"])
async def test_the_palette_finds_an_action_by_any_of_its_names(run: Run, words: str) -> None:
    async with run() as driver:
        await driver.pilot.press("ctrl+p")
        await driver.pilot.pause(0.3)
        await driver.type(words)
        await driver.pilot.pause(0.3)
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ThemePicker", "the list of themes")


async def test_each_offer_of_a_popup_is_one_row_on_a_narrow_screen(run: Run) -> None:
    async with run(size=(60, 24)) as driver:
        await driver.type("/")
        await driver.until(lambda: "/help" in driver.text(), "the popup")
        rows = [row for row in driver.text().split("\n") if row.strip().startswith("/")]
        assert len(rows) == 9, "eight offers and what is typed"


@pytest.mark.parametrize(("key", "words"), [("f3", "mcpServers"), ("f4", "F3 shows"), ("f6", "No conversations yet")])
async def test_empty_lists_show_on_a_small_screen_how_to_fill_them(run: Run, key: str, words: str) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.views = ()
        await driver.pilot.press(key)
        await driver.until(lambda: words in " ".join(driver.text().split()), words)
        assert "servers add" not in driver.text(), "no such command"


async def test_all_arguments_of_a_prompt_are_listed_on_a_small_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f5")
        await driver.until(
            lambda: "What to review" in driver.text() and "What to look at" in driver.text(), "both arguments"
        )


async def test_reading_marks_one_block_with_a_bar_and_shows_its_own_keys(run: Run) -> None:
    async with run(turn=long_answer, size=(80, 24)) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: "Paragraph 59" in driver.text() and not driver.host.conversation.is_busy, "the answer"
        )
        assert "▌" not in driver.text()
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "▌" in driver.text(), "the bar")
        assert "[ ] step" in driver.text()
        assert "F1 help" not in driver.text()
        marked = driver.app.query_one(Transcript).current_index
        await driver.pilot.press("left_square_bracket")
        await driver.until(lambda: driver.app.query_one(Transcript).current_index < marked, "the block before")
        await driver.pilot.press("escape")
        await driver.until(lambda: "▌" not in driver.text() and "F1 help" in driver.text(), "the message again")
