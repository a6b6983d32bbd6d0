"""Tests for how list screens use the rows of a small terminal, and for what they show while they are empty."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
from textual.widgets import Input

from mcphost.tui.screens.list_screen import ListRow, ListScreen
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.status_bars import KeyBar
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


class NumberedList(ListScreen):
    """List of numbered entries, with details of one line."""

    TITLE_TEXT: ClassVar[str] = "Numbers"

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.add_class("bare")

    def load(self) -> Sequence[ListRow]:
        return [ListRow(number, f"entry {number:02}", "its detail") for number in range(self.count)]

    def show_details(self, row: ListRow) -> None:
        self.show_about([("number", str(row.value))])


async def open_list(driver: AppDriver, count: int) -> NumberedList:
    screen = NumberedList(count)
    await driver.app.push_screen(screen)
    await driver.pilot.pause()
    return screen


async def test_a_list_uses_the_rows_of_a_small_terminal_and_counts_the_entries_below_them(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_list(driver, 9)
        await driver.until(lambda: "entry 00" in driver.text(), "the list")
        assert driver.text().count("entry ") == 6
        assert "↓ 3 more" in driver.text()
        assert "↑" not in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: "↑ 3 more" in driver.text() and "↓" not in driver.text(), "the end of the list")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_nothing_is_counted_if_all_entries_are_visible(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        await open_list(driver, 5)
        await driver.until(lambda: "entry 04" in driver.text(), "the list")
        assert " more" not in driver.text()


async def test_a_wide_list_counts_the_entries_below_it_as_well(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_list(driver, 100)
        await driver.until(lambda: "↓ " in driver.text(), "the count")
        shown = driver.text().count("entry ")
        assert f"↓ {100 - shown} more" in driver.text()


async def test_the_details_get_more_rows_while_they_are_read_with_the_keyboard(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_list(driver, 9)
        screen = driver.app.screen
        screen.remove_class("bare")
        await driver.pilot.resize_terminal(80, 25)
        await driver.until(lambda: screen.query_one("#side").size.height, "the details")
        side = screen.query_one("#side")
        before = side.size.height
        await driver.pilot.press("tab")
        await driver.until(lambda: side.size.height > before, "more rows")
        assert "entry 00" in driver.text()
        await driver.pilot.press("shift+tab")
        await driver.until(lambda: side.size.height == before, "the rows of the list")


async def test_details_without_a_text_use_its_rows(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_list(driver, 9)
        screen.remove_class("bare")
        screen.query_one(LongText).show("")
        screen.show_about([(f"name {number}", "value") for number in range(5)])
        await driver.until(lambda: "name 4" in driver.text(), "all pairs")
        screen.query_one(LongText).show("the text")
        await driver.until(lambda: "the text" in driver.text(), "the text")


async def test_an_empty_list_has_no_search_line(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_list(driver, 0)
        await driver.until(lambda: "Nothing here yet." in driver.text(), "the empty list")
        assert "Search" not in driver.text()
        assert not isinstance(screen.focused, Input)
        screen.count = 3
        screen.reload()
        await driver.until(lambda: "Search" in driver.text(), "the search line")
        await driver.until(lambda: screen.focused is screen.query_one("#entries"), "the focus")


async def test_a_search_without_matches_keeps_its_line(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_list(driver, 3)
        await driver.pilot.press("ctrl+f", *"none")
        await driver.until(lambda: "No matches." in driver.text(), "the empty result")
        assert screen.focused is screen.query_one("#search")
        assert "none" in driver.text()


@pytest.mark.parametrize(("cells", "common"), [
    (5, ["ctrl+f search"]), (6, ["tab read"]), (10, ["tab read"]), (11, []), (20, []),
    (21, ["tab read", "ctrl+f search"]),
])  # fmt: skip
async def test_the_keys_of_every_list_are_left_out_if_the_others_then_fit_into_one_row(
    run: Run, monkeypatch: pytest.MonkeyPatch, cells: int, common: list[str]
) -> None:
    keys = tuple((letter, "w" * 9, "screen.choose") for letter in "abcd")
    monkeypatch.setattr(NumberedList, "KEY_ROWS", (*keys, ("e", "w" * cells, "screen.choose")))
    async with run(size=(86, 24)) as driver:
        screen = await open_list(driver, 3)
        await driver.until(lambda: "entry 02" in driver.text(), "the list")
        shown = screen.query_one(KeyBar).render().plain.splitlines()
        assert len(shown) == (2 if cells == 21 else 1)
        assert shown[-1].endswith("  ".join([*common, "esc back"]))
        assert ("tab read" in "".join(shown)) == ("tab read" in common)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_one_blank_line_is_between_the_details_and_the_text(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "# A project" in driver.text(), "the text")
        about, text = (driver.app.screen.query_one(name).region for name in ("#about", "#text"))
        assert text.y == about.bottom + 1
