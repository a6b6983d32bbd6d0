"""Run the complete program without a terminal, with its own configuration files."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcphost.cli.build_host import open_host
from mcphost.cli.parser import Options
from mcphost.tui.app import McpHostApp
from mcphost.tui.frontend import TuiFrontend
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import AppDriver
from tests.screens.rendering import frames_on_demand

DEMO_SERVER = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
Opened = AbstractAsyncContextManager[AppDriver]


class Files:
    """The configuration files of the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, home: Path, monkeypatch: pytest.MonkeyPatch) -> "Files":
        """Create the program's folders below *home*, and make *home* the working directory."""
        for kind in ("DATA", "STATE", "CACHE"):
            monkeypatch.setenv(f"MCPHOST_{kind}_DIR", str(home / kind.lower()))
        monkeypatch.chdir(home)
        (home / "config").mkdir()
        (home / "config" / "mcp.json").write_text("{}")
        return cls(home / "config")

    def write_servers(self, **entries: dict[str, Any]) -> None:
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}))

    def read_servers(self) -> dict[str, Any]:
        """Return the server entries in the user's mcp.json."""
        return json.loads((self.folder / "mcp.json").read_text())["mcpServers"]

    def write_settings(self, text: str) -> None:
        (self.folder / "config.toml").write_text(text)

    def open(
        self, size: tuple[int, int] = (80, 24), *, approved: bool = True, model: str = "demo"
    ) -> AbstractAsyncContextManager[AppDriver]:
        """Run the program; with *approved*, its servers come from a command-line flag and need no approval.

        With *model* "", the configuration decides about the model.
        """
        named = (str(self.folder / "mcp.json"),) if approved else ()
        return _open_app(Options(config_dir=str(self.folder), mcp_config=named, model=model), size)


@asynccontextmanager
async def _open_app(options: Options, size: tuple[int, int]) -> AsyncIterator[AppDriver]:
    frontend, app = TuiFrontend(), McpHostApp()
    with frames_on_demand():
        async with app.run_test(size=size) as pilot:
            await app.first_frame_drawn.wait()
            async with open_host(options, frontend) as host:
                app.attach(host, frontend)
                driver = AppDriver(app, host, frontend, pilot)  # type: ignore[arg-type]
                await driver.until(lambda: hasattr(app.chat, "presenter"), "the start")
                yield driver
                app.request_quit()


def composer_text(driver: AppDriver) -> str:
    """Return the text in the composer (the input field of the chat)."""
    return driver.app.query_one(Composer).composer_input.text


async def run_command(driver: AppDriver, command: str) -> None:
    """Type a slash command and run it."""
    await driver.type(command)
    await driver.pilot.press("escape", "enter")
