"""Tests of what is sent to a page while it is open and when mcphost quits: changes of the theme, and the teardown."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.host.app_pages import page_bridge, pages
from tests.unit.apps.browser import Browser
from tests.unit.host.page_server import PageFrontend, browser_for, create_page_peer, initialize, open_page
from tests.unit.host.scripted_host import open_host_with

pytestmark = pytest.mark.anyio


async def test_a_page_is_told_when_the_theme_changes(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (host, browser, _, _):
        host.pages.use_theme("dark")  # not sent, because the page is not initialized
        assert (await initialize(browser))["hostContext"]["theme"] == "dark"
        assert [(await browser.read())["method"] for _ in range(2)] == [
            "ui/notifications/tool-input", "ui/notifications/tool-result",
        ]  # fmt: skip
        host.pages.use_theme("dark")
        host.pages.use_theme("light")
        changed = await browser.read()
        assert changed == {
            "jsonrpc": "2.0", "method": "ui/notifications/host-context-changed", "params": {"theme": "light"},
        }  # fmt: skip


async def test_a_page_is_torn_down_before_mcphost_ends(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def read_end(browser: Browser) -> None:
        seen.append(down := await browser.read())
        await browser.post({"jsonrpc": "2.0", "id": down["id"], "result": {}})
        seen.append(await browser.read())
        await browser.close()

    async with (
        anyio.create_task_group() as tasks,
        open_host_with(tmp_path, create_page_peer(), frontend=PageFrontend(True)) as host,
    ):
        await host.tools.call("peer", "show", {})
        browser = browser_for((await host.pages.open())[0])
        await browser.load()
        await browser.connect()
        await initialize(browser)
        assert [(await browser.read())["method"] for _ in range(2)]
        tasks.start_soon(read_end, browser)
    assert (seen[0]["method"], seen[0]["params"]) == ("ui/resource-teardown", {"reason": "mcphost ended"})
    assert seen[1] == "end"


async def test_a_page_that_does_not_answer_does_not_keep_mcphost_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "END_SECONDS", 0.05)
    with anyio.fail_after(20):
        async with open_page(tmp_path) as (_, browser, _, _):
            await initialize(browser)


async def test_a_page_that_no_browser_shows_ends_without_waiting_for_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_bridge, "TEARDOWN_SECONDS", 1_000.0)
    async with open_page(tmp_path) as (host, browser, _, _):
        await initialize(browser)
        await browser.close()
        with anyio.fail_after(20):
            while host.pages.list_open()[0].is_shown:
                await anyio.lowlevel.checkpoint()
            assert host.pages.close(1)
            while host.pages.list_open():
                await anyio.lowlevel.checkpoint()
