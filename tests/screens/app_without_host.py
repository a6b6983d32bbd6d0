"""An app that starts without a Host; the test attaches one later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcphost.tui.app import McpHostApp
from mcphost.tui.frontend import TuiFrontend
from tests.screens.conftest import AppDriver
from tests.screens.fake_host import FakeHost
from tests.screens.rendering import frames_on_demand


@asynccontextmanager
async def open_shell(**options: Any) -> AsyncIterator[AppDriver]:
    """Open an app without a host, and create a fake host that the test can attach later."""
    frontend = TuiFrontend()
    host = FakeHost(frontend, **options)
    app = McpHostApp()
    with frames_on_demand():
        async with app.run_test(size=(100, 30)) as pilot:
            await app.first_frame_drawn.wait()
            yield AppDriver(app, host, frontend, pilot)
            app.request_quit()


def attach_host(driver: AppDriver) -> None:
    driver.app.attach(driver.host, driver.frontend)  # type: ignore[arg-type]


async def attach_and_start(driver: AppDriver) -> None:
    attach_host(driver)
    await driver.until(lambda: driver.host.started, "the start")
