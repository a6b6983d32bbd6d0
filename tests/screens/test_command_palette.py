"""Tests for the command palette: one line for each action, in groups, with its key at the right edge."""

import pytest
from textual.command import CommandList
from textual.content import Content

from mcphost.tui.actions import ACTIONS
from mcphost.tui.command_palette import GROUPS, layout_action
from mcphost.tui.key_table import build_key_table
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


async def open_palette(driver: AppDriver) -> CommandList:
    await driver.pilot.press("ctrl+p")
    await driver.until(lambda: "History  " in driver.text() and "Ctrl+F" in driver.text(), "the palette")
    return driver.app.screen.query_one(CommandList)


def rows(driver: AppDriver) -> list[str]:
    """Return the rows of the palette's list."""
    region = driver.app.screen.query_one(CommandList).region
    lines = driver.text().splitlines()[region.y : region.bottom]
    return [line[region.x : region.right - 1].strip() for line in lines]


def test_every_action_except_the_palette_is_in_one_group() -> None:
    listed = [name for _group, names in GROUPS for name in names]
    assert sorted(listed) == sorted(action.name for action in ACTIONS if action.name != "palette")


@pytest.mark.parametrize("size", [(60, 24), (80, 24), (120, 40)])
async def test_an_action_is_one_line_with_its_key_at_the_right_edge(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        await open_palette(driver)
        shown = rows(driver)
        assert shown[0] == "Conversation"
        assert shown[1].startswith("History   ")
        assert shown[1].endswith("F6")
        assert ("Open an earlier conversation" in shown[1]) is (size[0] >= 80)
        assert shown[2].startswith("Find in the conversation  ")
        assert shown[2].endswith("Ctrl+F")
        assert len({len(row) for row in shown[1:6]}) == 1


@pytest.mark.parametrize("size", [(60, 24), (80, 24)])
async def test_what_the_action_under_the_cursor_does_is_shown_whole(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        await open_palette(driver)
        assert "Find text in messages, reasoning" not in driver.text()
        await driver.pilot.press("down")
        whole = "Find text in messages, reasoning and results, also in folded ones"
        await driver.until(lambda: whole in " ".join(driver.text().split()), "what it does")
        await driver.type("zzzz")
        await driver.until(lambda: "No matches found" in driver.text(), "no action")
        assert "Find text in messages, reasoning" not in driver.text()


async def test_the_cursor_skips_the_names_of_groups_and_enter_runs_an_action(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        commands = await open_palette(driver)
        last = next(at for at, (_group, names) in enumerate(GROUPS) if "servers" in names)
        await driver.pilot.press(*["down"] * sum(len(names) for _group, names in GROUPS[:last]))
        assert not commands.options[commands.highlighted or 0].disabled
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ServersScreen", "the first action of a group")


async def test_matches_are_not_grouped_and_keep_their_keys(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_palette(driver)
        await driver.type("audit log")
        await driver.until(lambda: "Audit log" in rows(driver)[0], "the match")
        assert rows(driver)[0].endswith("F10")


async def test_the_lines_fit_after_the_terminal_was_made_narrower(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_palette(driver)
        await driver.pilot.resize_terminal(70, 30)
        await driver.until(lambda: rows(driver)[1].startswith("History") and rows(driver)[1].endswith("F6"), "its key")
        assert not rows(driver)[2].startswith("F6")


@pytest.mark.parametrize("width", [10, 40, 41, 50, 69, 70, 95])
def test_a_line_has_exactly_the_width_of_the_palette(width: int) -> None:
    line = layout_action(
        Content("选择模型 and a long title of an action"), "a text that is too long " * 9, "F12", width
    )
    assert line.cell_length == width
    assert line.plain.endswith("F12")
    assert layout_action(Content("short"), "text", "Ctrl+B", 95).cell_length == 95


async def test_actions_that_only_work_in_the_chat_are_not_offered_on_other_pages(run: Run) -> None:
    async with run(size=(120, 60)) as driver:
        await open_palette(driver)
        assert any(row.startswith("Continue or retry") for row in rows(driver))
        await driver.pilot.press("escape", "f3")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ServersScreen", "the servers")
        await driver.pilot.press("ctrl+p")
        await driver.until(lambda: driver.app.screen.query(CommandList) and "History  " in driver.text(), "the palette")
        assert not any(row.startswith(("Continue or retry", "Find in the conversation")) for row in rows(driver))
        await driver.type("Continue or retry")
        await driver.until(lambda: "No matches found" in driver.text(), "no match")


@pytest.mark.parametrize("size", [(60, 20), (120, 40)])
async def test_the_actions_of_a_page_are_listed_first_with_their_keys_and_run_on_it(
    run: Run, size: tuple[int, int]
) -> None:
    async with run(size=size) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "file:///project/README.md" in driver.text(), "the resources")
        await driver.pilot.press("ctrl+p")
        await driver.until(lambda: driver.app.screen.query(CommandList) and "This page" in driver.text(), "the palette")
        shown = rows(driver)
        assert shown[0] == "This page"
        assert [row.split("  ")[0] for row in shown[1:5]] == ["Attach to the message", "Preview", "Watch", "Save"]
        assert shown[4].endswith("s")
        await driver.type("save")
        await driver.until(lambda: rows(driver)[0].startswith("Save"), "the match")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Save the resource" in driver.text(), "the form")


async def test_a_changed_key_of_a_page_is_shown_in_the_palette(run: Run) -> None:
    async with run(size=(120, 40), keys=build_key_table({"servers-restart": ["R"]})[0]) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "restart" in driver.text(), "the servers")
        await driver.pilot.press("ctrl+p")
        await driver.until(lambda: driver.app.screen.query(CommandList) and "This page" in driver.text(), "the palette")
        (row,) = [row for row in rows(driver) if row.startswith("Restart")]
        assert row.endswith("R")
