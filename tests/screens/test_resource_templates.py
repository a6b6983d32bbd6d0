"""Tests for resource templates: the user fills in the variables, then attaches the resource like any other."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Input

from mcphost.protocol.resources import ResourceTemplate
from mcphost.serialization import replace
from mcphost.tui.screens.resources import ResourceTemplateForm
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.mark.req("res.app-driven")
async def test_a_template_is_filled_in_and_its_resource_attached(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "any file" in driver.text(), "the list")
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "what to do")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ResourceTemplateForm", "the form")
        await driver.pilot.press("enter")
        await driver.until(lambda: "path is required" in driver.text(), "a refusal")
        await driver.type("a.md")
        await driver.until(lambda: "file:///a.md" in driver.text(), "the address")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///a.md" in driver.app.query_one(Composer).attachment_names[0]
        assert driver.app.screen is driver.app.chat


@pytest.mark.parametrize("key", ["enter", "tab"])
async def test_text_typed_right_after_a_variable_goes_into_the_next_one(run: Run, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        template = ResourceTemplate(uri_template="file:///{folder}/{file}", name="a file")
        view = driver.host.views[0]
        driver.host.views = (replace(view, catalog=replace(view.catalog, resources=(), templates=(template,))),)
        await driver.pilot.press("f4")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "the template")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ResourceTemplateForm", "the form")
        driver.press_together(*"docs", key, *"a.md", "enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///docs/a.md" in driver.app.query_one(Composer).attachment_names[0]


async def test_a_long_address_leaves_the_error_and_the_keys_in_sight_and_is_read_with_page_down(run: Run) -> None:
    template = ResourceTemplate(uri_template="file:///{folder}/{file}", name="a file", description="word " * 400)
    async with run(size=(80, 24)) as driver:
        form = ResourceTemplateForm(driver.host, "files", template)  # type: ignore[arg-type]
        driver.app.push_screen(form)
        await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
        form.query_one("#value-0", Input).value = "long/" * 300 + "end"
        await driver.until(lambda: "long%2Flong" in driver.text(), "the address")
        await driver.pilot.press("enter", "enter")
        await driver.until(lambda: "file is required." in driver.text(), "the error in sight")
        box = form.query_one("#box").content_region
        for name in ("#description", "#value-1", "#fault", "#keys"):
            assert box.contains_region(form.query_one(name).region), name
        assert "page up/down" in driver.text()
        assert "Fend/" not in driver.text()
        for _step in range(100):
            await driver.pilot.press("pagedown")
        await driver.until(lambda: "Fend/" in driver.text(), "the end of the address")
        assert "file is required." in driver.text()


async def test_a_late_preview_does_not_appear_under_another_entry(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        read, gate = driver.host.features.read_resource, asyncio.Event()

        async def slow(server: str, uri: str) -> Any:
            await gate.wait()
            return await read(server, uri)

        driver.host.features.read_resource = slow
        await driver.pilot.press("f4")
        await driver.until(lambda: "reading" in driver.text(), "the wait")
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "the template")
        gate.set()
        await driver.pilot.pause(0.1)
        assert "It reads files." not in driver.text()
        assert '"a"' not in driver.text()
