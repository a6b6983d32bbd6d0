"""Tests for lists whose entries are below a heading for each server."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
from textual.widgets import OptionList

from mcphost.tui.screens.list_screen import ListRow, ListScreen
from mcphost.tui.widgets.entry_list import Entries, EntryList
from tests.screens.conftest import AppDriver, Run
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio


class ServerEntries(ListScreen):
    """List with entries of several servers; `opened` contains the entries that the user opened."""

    TITLE_TEXT: ClassVar[str] = "Entries"

    def __init__(self, **sizes: int) -> None:
        super().__init__()
        self.sizes, self.opened = sizes, list[str]()
        self.add_class("bare")

    def load(self) -> Sequence[ListRow]:
        return [
            ListRow(number, f"{server} entry {number:04}", "its detail", group=server)
            for server, size in self.sizes.items()
            for number in range(size)
        ]

    def show_details(self, row: ListRow) -> None:
        self.show_about([("shown", row.title)])

    def open_row(self, row: ListRow) -> None:
        self.opened.append(row.title)

    @property
    def selected(self) -> str:
        """The title of the entry under the cursor."""
        row = self.current_row()
        return row.title if row else ""


async def open_entries(driver: AppDriver, **sizes: int) -> ServerEntries:
    screen = ServerEntries(**sizes)
    await driver.app.push_screen(screen)
    await driver.until(lambda: "Entries" in driver.text() and screen.selected, "the list")
    await driver.pilot.pause()
    return screen


def rows(driver: AppDriver) -> list[str]:
    """Return the rows of the list, without the details beside it."""
    region = driver.app.screen.query_one(EntryList).region
    lines = driver.text().splitlines()[region.y : region.bottom]
    return [line[region.x : region.right].strip(" █▄▁▔") for line in lines]


@pytest.mark.parametrize(("key", "entries"), [("f4", 3), ("f5", 2)])
async def test_resources_and_prompts_stand_below_a_heading_for_each_server(run: Run, key: str, entries: int) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: f"github  {entries}" in rows(driver), "the second heading")
        shown = rows(driver)
        assert shown.index(f"files  {entries}") < shown.index(f"github  {entries}")
        assert "files ·" not in driver.text()


@pytest.mark.parametrize("key", ["f4", "f5"])
async def test_the_entries_of_a_single_server_have_no_heading(run: Run, key: str) -> None:
    async with run(size=(120, 40), views=(sample_server("files"),)) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: "files ·" in driver.text(), "the server of an entry")
        assert not any(row.startswith("files  ") for row in rows(driver))


async def test_the_cursor_skips_headings(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        screen = await open_entries(driver, files=2, mail=2)
        visited = [screen.selected]
        for key in ("down", "down", "down", "down", "up", "up", "up", "home", "end"):
            await driver.pilot.press(key)
            visited.append(screen.selected)
        assert visited == [
            *("files entry 0000", "files entry 0001", "mail entry 0000", "mail entry 0001"),
            *("files entry 0000", "mail entry 0001", "mail entry 0000", "files entry 0001"),
            *("files entry 0000", "mail entry 0001"),
        ]  # fmt: skip
        await driver.pilot.press("enter")
        await driver.until(lambda: screen.opened, "the opened entry")
        assert screen.opened == ["mail entry 0001"]
        await driver.until(lambda: "shown  mail entry 0001" in driver.text(), "its details")


async def test_page_keys_stay_on_entries_and_reach_both_ends(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_entries(driver, files=9, mail=1, maps=9)
        visited = list[str]()
        for key in (*["pagedown"] * 6, *["pageup"] * 6):
            await driver.pilot.press(key)
            visited.append(screen.selected)
        assert all(visited)
        assert visited[5] == "maps entry 0008"
        assert visited[-1] == "files entry 0000"


async def test_a_click_on_a_heading_does_nothing_and_a_click_on_an_entry_opens_it(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        screen = await open_entries(driver, files=2, mail=2)
        entries = screen.query_one(OptionList)
        for line in (4, -1):  # the heading in the list, and the one above it
            await driver.pilot.click(offset=(entries.region.x + 5, entries.region.y + line))
        assert (screen.opened, screen.selected) == ([], "files entry 0000")
        await driver.pilot.click(offset=(entries.region.x + 5, entries.region.y + 5))
        await driver.until(lambda: screen.opened, "the opened entry")
        assert screen.opened == ["mail entry 0000"]


async def test_a_search_removes_the_headings_of_servers_without_matches(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        screen = await open_entries(driver, files=3, mail=12, maps=2)
        await driver.pilot.press("ctrl+f", *"mail 001")
        await driver.until(lambda: len(screen.visible_rows) == 3, "the matches")
        await driver.until(lambda: "mail  3 of 12" in rows(driver), "the heading")
        assert not any(row.startswith(("files", "maps")) for row in rows(driver))
        await driver.pilot.press("down", "enter", "enter")
        await driver.until(lambda: screen.opened, "the opened entry")
        assert screen.opened == ["mail entry 0010"]


async def test_a_search_without_matches_has_no_heading(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_entries(driver, files=3, mail=12)
        await driver.pilot.press("ctrl+f", *"none")
        await driver.until(lambda: "No matches." in driver.text(), "the empty result")
        assert not any(row.startswith(("files", "mail")) for row in rows(driver))


async def test_only_entries_are_counted_above_and_below_the_list(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_entries(driver, files=5, mail=5, maps=5)
        await driver.until(lambda: "↓ " in driver.text(), "the count")
        whole = sum(row == "its detail" for row in rows(driver))
        assert f"↓ {15 - whole} more" in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: "↑ " in driver.text() and "↓" not in driver.text(), "the end of the list")
        assert screen.selected == "maps entry 0004"


async def test_the_server_of_the_topmost_entry_is_always_shown(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_entries(driver, files=30, mail=30)
        for _ in range(4):
            await driver.pilot.press("pagedown")
        assert screen.selected.startswith("files")
        await driver.until(lambda: "files  30" in rows(driver), "the heading of the topmost entry")
        await driver.pilot.press("end")
        await driver.until(lambda: "mail  30" in rows(driver), "the heading of the last entries")
        assert "files  30" not in rows(driver)


async def test_every_server_is_listed_although_one_has_more_entries_than_a_list_shows(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        screen = await open_entries(driver, files=10_000, mail=3)
        await driver.until(lambda: "files  first 497 of 10,000" in rows(driver), "the number of listed entries")
        await driver.pilot.press("end")
        await driver.until(lambda: "mail  3" in rows(driver), "the other server")
        assert screen.selected == "mail entry 0002"
        assert len(screen.visible_rows) == 500


async def test_the_cursor_stays_on_the_same_entry_of_the_same_server_after_a_change(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f4", "down", "down", "down", "down")
        screen = driver.app.screen
        assert isinstance(screen, ListScreen)
        row = screen.current_row()
        assert row
        assert (row.group, row.title) == ("github", "data.json")
        driver.host.views = (sample_server("added"), *driver.host.views)
        screen.reload()
        row = screen.current_row()
        assert row
        assert (row.group, row.title) == ("github", "data.json")


async def test_a_screen_reader_gets_the_server_with_each_entry(run: Run) -> None:
    async with run(reader=True, size=(90, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "github · file:///project/data.json" in driver.text(), "the server of an entry")


async def test_a_single_server_with_more_entries_than_are_listed_says_so(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_entries(driver, one=10_000)
        assert "first 500 of 10,000: search to find the others" in driver.text()
        await driver.pilot.press("ctrl+f", *"entry 000")
        await driver.until(lambda: "19 of 10000" in driver.text(), "the matches")
        assert "first" not in driver.text()


async def test_the_cursor_of_an_empty_list_stays_on_no_entry(run: Run) -> None:
    async with run() as driver:
        await driver.app.push_screen(ServerEntries())
        await driver.pilot.pause()
        entries = driver.app.screen.query_one(Entries)
        entries.cursor = 0
        assert entries.cursor is None
