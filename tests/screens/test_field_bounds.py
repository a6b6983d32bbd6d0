"""Tests that the bounds of every field of a form can be seen, and that lists of options can be told from texts."""

import pytest
from textual.color import Color
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mcphost.tui import themes
from mcphost.tui.app import McpHostApp
from mcphost.tui.forms.choice_list import ChoiceList
from mcphost.tui.forms.field_widgets import TristateCheckbox
from tests.contrast import contrast
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import AppDriver, Run
from tests.screens.screenshots import ENTER_CLIENT, FORM
from tests.screens.setup_screens import SETUP_SCREENS

pytestmark = pytest.mark.anyio
LEAST = 3.0
FIELDS = (Input, TextArea, ChoiceList, TristateCheckbox)


def visible_fields(app: McpHostApp) -> list[Widget]:
    """Return the fields of the form on the screen."""
    return [widget for kind in FIELDS for widget in app.screen.query(kind).results(Widget) if widget.region]


def edge_contrasts(app: McpHostApp, field: Widget) -> list[float]:
    """Return the contrast of each cell at the left and the right edge of *field* with its form."""
    strips = app.screen._compositor.render_strips()
    region = field.region
    found = []
    for y in range(region.y, region.bottom):
        for x, outside in ((region.x, region.x - 1), (region.right - 1, region.right)):
            edge, form = (next(iter(strips[y].crop(at, at + 1))) for at in (x, outside))
            assert edge.style is not None
            assert form.style is not None
            assert edge.style.color is not None
            assert form.style.bgcolor is not None
            colors = (Color.from_rich_color(edge.style.color), Color.from_rich_color(form.style.bgcolor))
            found.append(round(contrast(*colors), 2) if edge.text.strip() else 1.0)
    return found


async def judge_fields(driver: AppDriver) -> None:
    """Check every field on the screen in a dark and in a light theme."""
    await driver.until(lambda: visible_fields(driver.app), "the fields")
    fields = visible_fields(driver.app)
    for theme in (themes.DEFAULT_LIGHT, themes.DEFAULT):
        driver.app.theme_choice.choose(theme)
        await driver.until(lambda theme=theme: driver.app.theme == theme, theme)
        await driver.pilot.pause()
        for field in fields:
            assert min(edge_contrasts(driver.app, field)) >= LEAST, (theme, field)


@pytest.mark.parametrize("question", [FORM, ENTER_CLIENT], ids=["form", "client"])
async def test_the_bounds_of_the_fields_of_a_question_can_be_seen(run: Run, question: object) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        await driver.pilot.press("tab" if question is FORM else "e")
        await driver.until(lambda: isinstance(driver.app.focused, FIELDS), "a field")
        await judge_fields(driver)


@pytest.mark.parametrize("name", ["model_form", "profile_form", "server_form", "model_key"])
async def test_the_bounds_of_the_fields_of_a_small_form_can_be_seen(run: Run, name: str) -> None:
    async with run(size=(80, 24)) as driver:
        await SETUP_SCREENS[name](driver.pilot, driver.host)
        await judge_fields(driver)


async def test_the_field_with_the_focus_has_edges_in_another_color(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, FORM)
        await driver.enter_question()
        await driver.pilot.press("tab")
        await driver.until(lambda: isinstance(driver.app.focused, TextArea), "a field")
        focused, *others = visible_fields(driver.app)
        assert focused.has_focus
        colors = [field.styles.outline_left[1] for field in (focused, *others)]
        assert colors[0] not in colors[1:]


async def test_a_closed_list_of_options_shows_that_it_opens(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, FORM)
        await driver.enter_question()
        await driver.until(lambda: "labels" in driver.text(), "the form")
        rows = {
            name: row
            for row in driver.text().splitlines()
            for name in ("Your name", "priority", "labels", "watch")
            if f" {name}" in row
        }
        assert [name for name, row in rows.items() if "▾" in row] == ["priority", "labels"]
        await driver.pilot.press("tab", "tab", "tab")
        await driver.until(lambda: isinstance(driver.app.focused, ChoiceList), "the list")
        await driver.until(lambda: "○ urgent" in driver.text(), "its options")
        assert driver.text().count("▾") == 1


async def test_a_screen_reader_is_given_no_edges_of_fields(run: Run) -> None:
    async with run(size=(100, 40), reader=True) as driver:
        PendingQuestion(driver, FORM)
        await driver.enter_question()
        await driver.pilot.press("tab")
        await driver.until(lambda: isinstance(driver.app.focused, TextArea), "a field")
        assert not set("▌▐") & set(driver.text())
