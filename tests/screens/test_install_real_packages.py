"""Tests that a real npm server and a real PyPI server are found, installed, called and removed on the screen."""

from pathlib import Path

import pytest

from mcphost.tui import input_guard
from tests.fakes.real_packages import real_entry, serve_real_package
from tests.screens.real_program import Files

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("kind", "runner", "answer"), [("npm", "npx", "node"), ("pypi", "uvx", "python")])
@pytest.mark.req("market.one-click", "market.update-remove")
async def test_a_real_package_is_found_installed_called_updated_and_removed(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, runner: str, answer: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with serve_real_package(kind, home) as (registry, path):
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PATH", path)
        files.write_servers()
        files.write_settings(f'[registry]\nurl = "{registry.url}"\n')
        async with files.open((120, 40), approved=False) as driver:
            await driver.pilot.press("f3", "b")
            await driver.until(lambda: " of " in driver.text() and "publisher" in driver.text(), "the first servers")
            await driver.pilot.press("ctrl+f")
            await driver.type("real")
            await driver.pilot.press("enter")
            await driver.until(lambda: "server      io.github.ada/real" in driver.text(), "the server")
            await driver.pilot.press("enter")
            await driver.until(lambda: "real-mcp@1.0.0" in driver.text(), "the plan")
            if f"runs: {runner} " not in driver.text():
                await driver.pilot.press("ctrl+o")
                await driver.until(lambda: f"runs: {runner} " in driver.text(), "the plan of the other kind")
            await driver.until(lambda: "sha512-" in driver.text() or "sha256:" in driver.text(), "the digest")
            await driver.pilot.press("pagedown", "pagedown")
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "1 tool" in driver.text(), "the server that works")
            assert files.read_servers()["real"]["command"] == runner

            await driver.pilot.press("escape")
            await driver.type("!real/say")
            await driver.pilot.press("enter")
            await driver.until(lambda: f"said by {answer}" in driver.text(), "the tool's answer")

            registry.entries.append(real_entry("1.1.0"))
            await driver.pilot.press("f3")
            await driver.until(lambda: "real 1.0.0" in driver.text(), "the servers")
            await driver.pilot.press("b")
            await driver.until(lambda: "publisher" in driver.text(), "the first servers")
            await driver.pilot.press("ctrl+f")
            await driver.type("real")
            await driver.pilot.press("enter")
            await driver.until(lambda: "1.0.0, as real" in driver.text(), "the installed version")
            await driver.pilot.press("enter")
            await driver.until(lambda: "1.0.0 -> 1.1.0" in driver.text(), "what changes")
            await driver.until(lambda: "sha512-" in driver.text() or "sha256:" in driver.text(), "the digest")
            await driver.pilot.press("pagedown", "pagedown")
            await driver.pilot.pause(input_guard.GUARD_SECONDS)
            await driver.pilot.press("ctrl+s")
            await driver.until(lambda: "implementation  real 1.1.0" in driver.text(), "the updated server")
            await driver.pilot.press("x", "x")
            await driver.until(lambda: files.read_servers() == {}, "the removal")
