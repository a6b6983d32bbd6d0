"""Tests for the contrast of all text in every theme, and for reloading edited themes."""

from pathlib import Path

import pytest
from textual.color import Color
from textual.selection import Selection
from textual.widgets import Input, TextArea

from mcphost.tui import themes
from mcphost.tui.themes import ThemeOptions
from mcphost.tui.transcript.blocks import MarkdownBlock, NoticeBlock, SpeakerHeading, ThinkingBlock, UserMessage
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.composer import Composer
from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import AppDriver, Run
from tests.screens.rendering import weak_texts
from tests.screens.setup_screens import SETUP_SCREENS

pytestmark = pytest.mark.anyio
SOURCE = """# Title

A [link](https://example.com), `code`, *words* and **more**.

| a | b |
|---|--:|
| 1 | 2 |

```python
# a comment
@decorator
def call(name: str = "text", number=12) -> None: ...
```
"""


def show_everything(driver: AppDriver) -> None:
    cards = []
    for state in ("ok", "error", "failed", "declined", "stopped", "waiting"):
        card = ToolCard(state, "files", "search_files", {"pattern": "x", "long": "y" * 300})
        card.finish(state, "a result\n" * 20, 1)
        cards.append(card)
    driver.app.chat.query_one(Transcript).load(
        [
            UserMessage("a question", ("files · notes",), "10:41"),
            SpeakerHeading("Assistant", "model", "10:42"),
            ThinkingBlock("words"),
            MarkdownBlock(SOURCE),
            *cards,
            *(NoticeBlock(level, "a notice", "and a hint") for level in ("info", "warning", "error")),
        ]
    )


def weak_question_texts(driver: AppDriver) -> list[tuple[str, float]]:
    """Return the weak texts of the open question; the chat behind it is dimmed."""
    return weak_texts(driver.app, driver.app.screen.query_one("#box").region)


@pytest.mark.parametrize("name", themes.names())
async def test_the_selected_one_of_the_waiting_calls_can_be_read(run: Run, name: str) -> None:
    async with run(size=(120, 40)) as driver:
        driver.app.theme_choice.choose(name)
        for number in range(3):
            PendingQuestion(driver, tool_question(call=f"c{number}"))
        await driver.until(lambda: "3 calls are waiting" in driver.text(), "the list")
        await driver.enter_question()
        assert weak_question_texts(driver) == []


@pytest.mark.parametrize("name", themes.names())
@pytest.mark.parametrize("kind", [TextArea, Input])
async def test_the_character_under_the_text_cursor_can_be_read(
    run: Run, name: str, kind: type[TextArea | Input]
) -> None:
    async with run(size=(120, 40)) as driver:
        driver.app.theme_choice.choose(name)
        if kind is Input:
            await driver.pilot.press("ctrl+f")
        field = driver.app.focused
        assert isinstance(field, kind)
        field.cursor_blink = False
        await driver.type("words")
        await driver.pilot.press("home")
        await driver.until(lambda: "words" in driver.text(), "the text")
        assert weak_texts(driver.app, field.region) == []


@pytest.mark.parametrize("name", themes.names())
async def test_every_selected_text_can_be_read(run: Run, name: str) -> None:
    async with run(size=(120, 120)) as driver:
        driver.app.theme_choice.choose(name)
        show_everything(driver)
        await driver.until(lambda: "and a hint" in driver.text(), "the conversation")
        transcript = driver.app.chat.query_one(Transcript)
        driver.app.screen.selections = {transcript: Selection(None, None)}
        await driver.pilot.pause()
        assert weak_texts(driver.app) == []
        prompt = driver.app.chat.query_one(Composer).composer_input
        await driver.type("words")
        prompt.select_all()
        await driver.pilot.pause()
        assert weak_texts(driver.app, prompt.region) == []
        await driver.pilot.press("f6", "ctrl+f")
        await driver.type("words")
        field = driver.app.focused
        assert isinstance(field, Input)
        field.select_all()
        await driver.pilot.pause()
        assert weak_texts(driver.app, field.region) == []


@pytest.mark.parametrize("name", themes.names())
async def test_every_text_that_is_drawn_can_be_read(run: Run, name: str) -> None:
    async with run(size=(120, 120)) as driver:
        driver.app.theme_choice.choose(name)
        show_everything(driver)
        await driver.until(lambda: "and a hint" in driver.text(), "the conversation")
        assert weak_texts(driver.app) == []
        await driver.pilot.press("ctrl+f", "a")
        await driver.until(lambda: " of " in driver.text(), "matches")
        assert weak_texts(driver.app) == []
        await driver.pilot.press("escape")
        for key, what in (("f1", "HelpScreen"), ("f3", "ServersScreen"), ("f7", "GrantsScreen")):
            await driver.pilot.press(key)
            await driver.until(lambda what=what: type(driver.app.screen).__name__ == what, what)
            assert weak_texts(driver.app) == [], what


@pytest.mark.parametrize("name", SETUP_SCREENS)
async def test_every_text_of_the_set_up_can_be_read_in_every_theme(run: Run, name: str) -> None:
    async with run(size=(80, 24)) as driver:
        await SETUP_SCREENS[name](driver.pilot, driver.host)
        for area in driver.app.screen.query(TextArea):
            area.cursor_blink = False  # so that the letter under the cursor is judged too
        for theme in themes.names():
            driver.app.theme_choice.choose(theme)
            await driver.until(lambda theme=theme: driver.app.theme == theme, theme)
            await driver.pilot.pause()
            assert weak_texts(driver.app) == [], theme


async def test_a_theme_is_read_again_while_it_is_edited(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(themes, "WATCH_SECONDS", 0.02)
    text = (themes.find_file("fjord") or tmp_path).read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text)
    async with run(theme=ThemeOptions(configured="mine", user_folder=tmp_path)) as driver:
        assert driver.app.chat.styles.background == Color.parse("#2b303b")
        file.write_text(text.replace("#2b303b", "#102030"))
        await driver.until(lambda: driver.app.chat.styles.background == Color.parse("#102030"), "the new color")
        file.write_text("not a theme")
        await driver.until(lambda: str(file)[-20:] in notices(driver), "the problem")
        assert driver.app.chat.styles.background == Color.parse("#102030")


async def test_a_theme_file_that_cannot_be_used_is_reported_once_and_the_default_is_shown(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[colors]\nbackground = '\\e[31m'\n" + "x = 1\n" * 9)
    async with run(theme=ThemeOptions(configured="mine", user_folder=tmp_path)) as driver:
        await driver.until(lambda: "mine.toml" in driver.transcript(), "the problem")
        assert driver.transcript().count("mine.toml") == 1
        assert "default colors" in driver.transcript().replace("\n", " ")
        dark, _ = themes.load("dark")
        assert driver.app.chat.styles.background == Color.parse(dark.background or "")


def notices(driver: AppDriver) -> str:
    return " ".join(notice.message for notice in driver.app._notifications)


async def test_the_answer_of_the_terminal_decides_only_while_nothing_is_chosen(run: Run) -> None:
    async with run() as driver:
        driver.app.theme_choice.use_background(False)
        assert driver.app.theme == "light"
        driver.app.theme_choice.choose("ember")
        driver.app.theme_choice.use_background(True)
        assert driver.app.theme == "ember"
        driver.app.theme_choice.choose(themes.AUTO)
        assert driver.app.theme == "dark"
