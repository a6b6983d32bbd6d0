"""Tests that the style sheet is applied to a widget once when a screen opens, and again only for changes."""

from collections import Counter
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.widget import Widget

from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import Run
from tests.screens.rendering import outdated_styles

pytestmark = pytest.mark.anyio


@pytest.fixture
def styled(monkeypatch: pytest.MonkeyPatch) -> Counter[Widget]:
    """Return how often the style sheet was applied to each widget."""
    counts: Counter[Widget] = Counter()
    apply = Stylesheet.apply

    def count(sheet: Stylesheet, node: DOMNode, **options: Any) -> None:
        if isinstance(node, Widget):
            counts[node] += 1
        apply(sheet, node, **options)

    monkeypatch.setattr(Stylesheet, "apply", count)
    return counts


async def test_the_chat_styles_each_widget_once_and_the_input_again_when_it_gets_the_focus(
    run: Run, styled: Counter[Widget]
) -> None:
    async with run() as driver:
        widgets = set(driver.app.chat.walk_children(with_self=True))
        prompt = driver.app.chat.composer_input
        assert {styled[widget] for widget in widgets - {prompt}} == {1}
        assert styled[prompt] == 2


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
async def test_a_question_styles_each_widget_once_and_a_button_again_when_it_is_unlocked_or_focused(
    run: Run, styled: Counter[Widget], size: tuple[int, int]
) -> None:
    async with run(size=size) as driver:
        PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        buttons = set(dialog.query("Button"))
        assert {styled[widget] for widget in set(dialog.walk_children(with_self=True)) - buttons} == {1}
        assert {styled[button] for button in buttons} == {1, 2}


async def test_a_list_in_a_narrow_terminal_styles_its_frame_once(run: Run, styled: Counter[Widget]) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: driver.app.screen.query("#side"), "the servers")
        await driver.pilot.pause()
        assert driver.app.screen.has_class("narrow")
        assert styled[driver.app.screen.query_one("#side")] == 1


async def test_a_widget_whose_styles_are_outdated_is_found(run: Run) -> None:
    async with run() as driver:
        assert not outdated_styles(driver.app)
        driver.app.chat.set_class(not driver.app.chat.has_class("sidebar"), "sidebar", update=False)
        assert [name.partition("(")[0] for name in outdated_styles(driver.app)] == ["ServerList"]
