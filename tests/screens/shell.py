"""An app without a host, and a host that is attached later."""

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
    """An app without a host, and a host that is not attached yet."""
    front = TuiFrontend()
    host = FakeHost(front, **options)
    app = McpHostApp()
    with frames_on_demand():
        async with app.run_test(size=(100, 30)) as pilot:
            await app.first_frame_drawn.wait()
            yield AppDriver(app, host, front, pilot)
            app.request_quit()


def attach_host(it: AppDriver) -> None:
    it.app.attach(it.host, it.front)  # type: ignore[arg-type]


async def attach_and_start(it: AppDriver) -> None:
    attach_host(it)
    await it.until(lambda: it.host.started, "the start")
