"""Tests for the tasks screen: which calls and tasks run, their progress, and how to end them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import anyio
import pytest

from mcphost.host.events import ToolProgress
from mcphost.host.servers.running_calls import ActiveCall, RunningCallCancelled
from mcphost.store.tasks import StoredTask
from mcphost.tui.screens.tasks import TasksScreen
from tests.screens.conftest import AppDriver, Run
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio


async def open_tasks(driver: AppDriver) -> None:
    await driver.type("/tasks")
    await driver.pilot.press("escape", "enter")
    await driver.until(lambda: isinstance(driver.app.screen, TasksScreen), "the screen")


def begin_call(host: FakeHost, stack: ExitStack, call: str = "c1", tool: str = "index_files") -> ActiveCall:
    return stack.enter_context(host.running_calls.track(call, "files", tool, "once"))


async def test_a_running_call_is_shown_with_its_progress_and_how_long_it_runs(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        with ExitStack() as stack:
            active = begin_call(driver.host, stack)
            await open_tasks(driver)
            await driver.until(
                lambda: re.search(r"index_files\b.*files · \d+ s\b", driver.text(), re.DOTALL), "the row"
            )
            active.progress = ToolProgress("c1", "files", 3, 14, "file 3\x1b[31m")
            await driver.until(lambda: "3/14  file 3␛[31m" in driver.text(), "the progress")
        await driver.until(lambda: "Nothing is running." in driver.text(), "the end")


async def test_a_running_call_names_its_caller_and_offers_only_the_keys_that_work_for_it(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        with ExitStack() as stack:
            begin_call(driver.host, stack)
            await open_tasks(driver)
            await driver.until(lambda: re.search(r"\bby +the model\b", driver.text()), "the caller")
            assert "b run in background" in driver.text()
            assert "address" not in driver.text()


async def test_the_progress_bars_of_several_calls_stand_in_one_column(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        with ExitStack() as stack:
            first, second = begin_call(driver.host, stack), begin_call(driver.host, stack, "c2", "a_tool")
            begin_call(driver.host, stack, "c3", "without_total")
            first.progress = ToolProgress("c1", "files", 4, 8, "half")
            second.progress = ToolProgress("c2", "files", 8_000, 8_000, "all")
            await open_tasks(driver)
            await driver.until(lambda: "100%  files" in driver.text(), "the rows")
            lines = driver.text().splitlines()
            rows = [line for line in lines if "  files · " in line]
            assert "━━━━────  50%  files · " in rows[0]
            assert rows[0].index("files · ") == rows[1].index("files · ")
            name = next(line for line in lines if "without_total" in line)
            assert rows[2].index("files · ") == name.index("without_total")  # no gap where it has no bar


async def test_many_reports_of_progress_are_drawn_at_most_twice_a_second(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(size=(120, 30)) as driver:
        with ExitStack() as stack:
            active = begin_call(driver.host, stack)
            await open_tasks(driver)
            drawn: list[str] = []
            render_row = TasksScreen.render_row
            monkeypatch.setattr(
                TasksScreen, "render_row", lambda screen, row: drawn.append(row.detail) or render_row(screen, row)
            )
            for number in range(10_000):
                active.progress = ToolProgress("c1", "files", number, 10_000)
                if number % 500 == 0:
                    await asyncio.sleep(0)
            await driver.until(lambda: "9999/10000" in driver.text(), "the last one")
            assert len(drawn) <= 3


async def hold_call(host: FakeHost, outcomes: list[str]) -> None:
    """Run a call that never ends, and append to *outcomes* when it is cancelled."""
    try:
        with host.running_calls.track("c1", "files", "index_files", "once"):
            await anyio.sleep_forever()
    except RunningCallCancelled:
        outcomes.append("cancelled")


async def press_cancel_key(driver: AppDriver) -> None:
    await driver.pilot.press("x")


async def click_cancel_key(driver: AppDriver) -> None:
    lines = driver.text().splitlines()
    row = next(y for y, line in enumerate(lines) if "x cancel (twice)" in line)
    await driver.pilot.click(offset=(lines[row].index("x cancel (twice)"), row))


@pytest.mark.parametrize("cancel", [press_cancel_key, click_cancel_key])
async def test_the_selected_call_is_cancelled_by_the_second_press_or_click(
    run: Run, cancel: Callable[[AppDriver], Awaitable[None]]
) -> None:
    async with run(size=(120, 30)) as driver:
        outcomes: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold_call, driver.host, outcomes)
            await open_tasks(driver)
            await driver.until(
                lambda: "index_files" in driver.text() and "x cancel (twice)" in driver.text(), "the row"
            )
            await cancel(driver)
            await driver.until(lambda: "Press x again to cancel the call" in driver.text(), "the warning")
            assert not outcomes
            await cancel(driver)
        assert outcomes == ["cancelled"]


@pytest.mark.parametrize("width", [76, 78, 79, 80, 81])
async def test_the_warning_before_a_call_is_cancelled_is_shown_whole_at_every_width(run: Run, width: int) -> None:
    async with run(size=(width, 24)) as driver:
        with ExitStack() as stack:
            begin_call(driver.host, stack)
            await open_tasks(driver)
            await driver.until(lambda: "x cancel (twice)" in driver.text(), "the row")
            await driver.pilot.press("x")
            await driver.until(lambda: "Press x again" in driver.text(), "the warning")
            await driver.until(lambda: "you cancelled it." in " ".join(driver.text().split()), "all of it")


async def press_background_key(driver: AppDriver) -> None:
    await driver.pilot.press("b")


async def click_background_key(driver: AppDriver) -> None:
    lines = driver.text().splitlines()
    row = next(y for y, line in enumerate(lines) if "b run in background" in line)
    await driver.pilot.click(offset=(lines[row].index("b run in"), row))


@pytest.mark.parametrize("send", [press_background_key, click_background_key])
async def test_the_answer_continues_without_the_selected_call_which_stays_listed(
    run: Run, send: Callable[[AppDriver], Awaitable[None]]
) -> None:
    async with run(size=(120, 30)) as driver:
        with ExitStack() as stack:
            begin_call(driver.host, stack)
            await open_tasks(driver)
            await driver.until(lambda: "b run in background" in driver.text(), "the key")
            await send(driver)
            await driver.until(lambda: "in the background; its result enters" in driver.text(), "the state")
            (call,) = driver.host.running_calls.list()
            assert call.is_in_background
            await send(driver)
            await driver.until(
                lambda: any("Nothing is waiting" in one.message for one in driver.app._notifications),
                "the second press",
            )


async def test_a_task_of_an_earlier_run_is_listed_and_can_be_forgotten(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        await driver.host.task_store.save(StoredTask("builds", "d", "t-9", "compile_all"), 999_999_999)
        await open_tasks(driver)
        await driver.until(lambda: "compile_all" in driver.text(), "the row")
        assert "waits for its server" in driver.text()
        await driver.pilot.press("x", "x")
        await driver.until(lambda: "Nothing is running." in driver.text(), "the empty list")
        assert not await driver.host.task_store.list_all()


async def test_a_subscription_is_listed_and_ended(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        await driver.host.features.subscribe("files", "file:///project/README.md")
        await open_tasks(driver)
        await driver.until(lambda: "README.md" in driver.text(), "the row")
        await driver.pilot.press("x", "x")
        await driver.until(lambda: not driver.host.features.watching, "the end")


async def test_the_sidebar_counts_running_calls_and_opens_the_tasks_by_a_click(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        with ExitStack() as stack:
            begin_call(driver.host, stack)
            driver.app.chat.refresh_status()
            await driver.until(lambda: "1 running" in driver.text(), "the count")
            row = next(y for y, line in enumerate(driver.text().splitlines()) if "1 running" in line)
            await driver.pilot.click(offset=(4, row))
            await driver.until(lambda: isinstance(driver.app.screen, TasksScreen), "the screen")
