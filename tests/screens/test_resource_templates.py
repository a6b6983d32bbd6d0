"""A resource that is only described by a template: its address is asked for, then it is attached like any other."""

import asyncio
from typing import Any

import pytest

from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.mark.req("res.app-driven")
async def test_a_template_is_filled_in_and_its_resource_attached(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        await it.pilot.press("f4")
        await it.until(lambda: "any file" in it.text(), "the list")
        await it.pilot.press("down", "down")
        await it.until(lambda: "enter fills in the URI" in it.text(), "what to do")
        await it.pilot.press("enter")
        await it.until(lambda: type(it.app.screen).__name__ == "ResourceTemplateForm", "the form")
        await it.pilot.press("enter")
        await it.until(lambda: "path is required" in it.text(), "a refusal")
        await it.type("a.md")
        await it.until(lambda: "file:///a.md" in it.text(), "the address")
        await it.pilot.press("enter")
        await it.until(lambda: it.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///a.md" in it.app.query_one(Composer).attachment_names[0]
        assert it.app.screen is it.app.chat


async def test_a_preview_that_comes_late_does_not_appear_under_another_entry(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        read, gate = it.host.features.read_resource, asyncio.Event()

        async def slow(server: str, uri: str) -> Any:
            await gate.wait()
            return await read(server, uri)

        it.host.features.read_resource = slow
        await it.pilot.press("f4")
        await it.until(lambda: "reading" in it.text(), "the wait")
        await it.pilot.press("down", "down")
        await it.until(lambda: "enter fills in the URI" in it.text(), "the template")
        gate.set()
        await it.pilot.pause(0.1)
        assert "It reads files." not in it.text()
        assert '"a"' not in it.text()
