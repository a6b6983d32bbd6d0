"""Tests for the page that diagnoses a server, with the complete program and real servers."""

import re
from typing import Any

import pytest

from mcphost.translation import set_language
from mcphost.tui.key_table import build_key_table
from mcphost.tui.screens.diagnosis import draw_sparkline
from tests.screens.conftest import Run
from tests.screens.real_program import Files
from tests.screens.setup_screens import SETUP_SCREENS
from tests.unit.host.setup_host import DEMO_ENTRY

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_broken_server_shows_the_failing_step_and_what_to_do(
    files: Files, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(files.folder))
    files.write_servers(time={"command": "uvx", "args": ["mcp-server-time"], "env": {"PATH": "/nowhere"}})
    async with files.open(size) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "i check" in driver.text(), "the page of servers")
        await driver.pilot.press("i")
        await driver.until(lambda: "'uvx' was not found" in driver.text(), "the failing step")
        assert "Diagnosis of time" in driver.text()
        assert "uvx comes with uv" in driver.text()


async def test_a_working_server_shows_its_steps_and_its_latency(files: Files) -> None:
    files.write_servers(demo=DEMO_ENTRY)
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the start")
        await driver.pilot.press("f3")
        await driver.until(lambda: "i check" in driver.text(), "the page of servers")
        await driver.pilot.press("i")
        await driver.until(lambda: " ms" in driver.text() and "latency" in driver.text(), "the latency")
        for name in ("configuration", "command", "protocol", "lists"):
            assert name in driver.text()
        assert re.search(r"[▁▂▃▄▅▆▇█]+  \d+\.\d ms", driver.text())
        await driver.pilot.press("r")
        await driver.until(lambda: "latency" in driver.text(), "the second diagnosis")


async def test_a_result_that_is_no_sentence_is_separated_from_the_advice(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await SETUP_SCREENS["diagnosis"](driver.pilot, driver.host)
        await driver.pilot.press("up")
        rows = [row.detail for row in driver.app.screen.visible_rows]  # type: ignore[attr-defined]
        assert "in quarantine, because they changed: read_file · Review them: /servers, then c." in rows
    async with run(size=(120, 40)) as driver:
        await SETUP_SCREENS["diagnosis_failed"](driver.pilot, driver.host)
        rows = [row.detail for row in driver.app.screen.visible_rows]  # type: ignore[attr-defined]
        assert "'uvx' was not found in PATH. uvx comes with uv: https://docs.astral.sh/uv/" in rows


async def test_the_advice_of_a_step_has_the_changed_keys(run: Run) -> None:
    table, _problems = build_key_table({"servers-changes": ["v"]})
    async with run(keys=table, size=(120, 40)) as driver:
        await SETUP_SCREENS["diagnosis"](driver.pilot, driver.host)
        rows = [row.detail for row in driver.app.screen.visible_rows]  # type: ignore[attr-defined]
        assert any(row.endswith("Review them: /servers, then v.") for row in rows)


async def test_the_failing_step_is_in_view_in_a_small_terminal(files: Files) -> None:
    files.write_servers(remote={"url": "http://127.0.0.1:9/mcp"})
    async with files.open((80, 24)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "i check" in driver.text(), "the page of servers")
        await driver.pilot.press("i")
        await driver.until(lambda: "✕ port" in driver.text(), "the failing step in the list")


async def test_the_steps_are_shown_in_the_language_of_the_user(files: Files) -> None:
    files.write_servers(demo=DEMO_ENTRY, remote={"url": "http://127.0.0.1:9/mcp"})
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the start")
        await driver.pilot.press("f3")
        await driver.until(lambda: "i check" in driver.text(), "the page of servers")
        set_language("zh-CN")
        try:
            await driver.pilot.press("i")
            await driver.until(lambda: " ms" in driver.text(), "the latency")
            for text in ("（无状态）", "工具、资源、提示词", "10 个工具、2 个资源、1 个提示词", "列表"):
                assert text in driver.text()
            await driver.pilot.press("escape", "down", "i")
            await driver.until(lambda: "✕ 端口" in driver.text(), "the failing step")
        finally:
            set_language("en")


@pytest.mark.parametrize(
    ("values", "drawn"), [([], ""), ([0.0], ""), ([1, 2, 4, 8], "▂▃▅█"), ([5, 5], "██"), ([0.001, 1000], "▁█")]
)
def test_a_sparkline_is_relative_to_its_maximum(values: list[Any], drawn: str) -> None:
    assert draw_sparkline(values) == drawn
