"""The page of a server's tools: what each is, whether the model has it, and its switch."""

import pytest

from mcphost.serialization import replace
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.mark.req("ui.expose-tools")
async def test_each_tool_of_a_server_is_switched_off_and_on_by_one_key(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f3", "t")
        await it.until(lambda: "enabled" in it.text(), "the page")
        assert "search_files" in it.text()
        await it.pilot.press("down", "space")
        await it.until(lambda: "no: turned off by you" in it.text(), "off")
        assert it.host.servers.view("files").disabled_tools == ("create_issue",)
        assert any("○ create_issue" in line for line in it.text().splitlines())
        await it.pilot.press("space")
        await it.until(lambda: "no: turned off by you" not in it.text(), "on")
        assert it.host.servers.view("files").disabled_tools == ()


@pytest.mark.req("ui.expose-tools")
async def test_lists_say_how_many_are_off_and_the_top_line_counts_what_the_model_has(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.until(lambda: "4 tools" in it.text(), "the count at the start")
        await it.host.servers.set_tool_enabled("files", "create_issue", enabled=False)
        await it.until(lambda: "3 tools" in it.text(), "the count")
        await it.pilot.press("f3")
        await it.until(lambda: "2 tools, 1 off" in it.text(), "the row")
        assert "create_issue (off)" in it.text()


async def test_what_a_file_switched_off_says_so_and_stays_off(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        view = it.host.servers.view("files")
        config = replace(view.config, disabled_tools=("search_files",))
        off = replace(view, config=config, disabled_tools=("search_files",))
        it.host.views = (off, *it.host.views[1:])
        await it.pilot.press("f3", "t")
        await it.until(lambda: 'no: "disabledTools" in' in it.text(), "the reason")
        await it.pilot.press("space")
        await it.until(lambda: any("Take it out there" in one.message for one in it.app._notifications), "the refusal")
        assert it.host.servers.view("files").disabled_tools == ("search_files",)
