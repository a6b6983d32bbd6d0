"""Tests for the page of a server's tools: details, use by the model, and the on/off switch."""

import pytest

from mcphost.serialization import replace
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.mark.req("ui.expose-tools")
async def test_each_tool_of_a_server_is_disabled_and_enabled_by_one_key(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3", "t")
        await driver.until(lambda: "enabled" in driver.text(), "the page")
        assert "search_files" in driver.text()
        await driver.pilot.press("down", "space")
        await driver.until(lambda: "no: turned off by you" in driver.text(), "off")
        assert driver.host.servers.view("files").disabled_tools == ("create_issue",)
        assert any("○ create_issue" in line for line in driver.text().splitlines())
        await driver.pilot.press("space")
        await driver.until(lambda: "no: turned off by you" not in driver.text(), "on")
        assert driver.host.servers.view("files").disabled_tools == ()


@pytest.mark.req("ui.expose-tools")
async def test_lists_show_how_many_tools_are_disabled_and_the_top_line_counts_the_enabled_ones(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.until(lambda: "4 tools" in driver.text(), "the count at the start")
        await driver.host.servers.set_tool_enabled("files", "create_issue", enabled=False)
        await driver.until(lambda: "3 tools" in driver.text(), "the count")
        await driver.pilot.press("f3")
        await driver.until(lambda: "2 tools, 1 off" in driver.text(), "the row")
        assert "create_issue (off)" in driver.text()


async def test_a_tool_disabled_by_a_file_is_labelled_and_stays_disabled(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        view = driver.host.servers.view("files")
        config = replace(view.config, disabled_tools=("search_files",))
        off = replace(view, config=config, disabled_tools=("search_files",))
        driver.host.views = (off, *driver.host.views[1:])
        await driver.pilot.press("f3", "t")
        await driver.until(lambda: 'no: "disabledTools" in' in driver.text(), "the reason")
        await driver.pilot.press("space")
        await driver.until(
            lambda: any("Take it out there" in notification.message for notification in driver.app._notifications),
            "the refusal",
        )
        assert driver.host.servers.view("files").disabled_tools == ("search_files",)
