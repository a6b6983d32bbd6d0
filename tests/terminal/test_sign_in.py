"""Signing in on the screen of the real program: with a browser that comes back, and with one that cannot."""

import sys
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import Program
from tests.flows.test_sign_in import Talking
from tests.terminal.terminal import Terminal
from tests.unit.auth.peer import peer, query

pytestmark = pytest.mark.anyio
MCPHOST = str(Path(sys.executable).with_name("mcphost"))
HEED = 1.0  # a question ignores what is typed in its first 300 ms


def browser(folder: Path, body: str) -> str:
    """A browser that runs this; `url` is what it was given."""
    program = folder / "browser"
    program.write_text(f"#!{sys.executable}\nimport sys\nurl = sys.argv[1]\n{body}\n")
    program.chmod(0o755)
    return str(program)


def opened(folder: Path, config: str, program: str) -> Terminal:
    terminal = Terminal(folder, environment={"BROWSER": program})
    terminal.__enter__()
    terminal.run(MCPHOST, "--mcp-config", config)
    terminal.wait_for("Sign in to tracker?", "tools:read", "o open the browser", seconds=20)
    terminal.pause(HEED)
    return terminal


@pytest.mark.req("auth.401-starts", "auth.scope.shown")
async def test_the_browser_comes_back_and_the_server_is_ready(tmp_path: Path) -> None:
    visit = "import urllib.request as u\nu.build_opener(u.ProxyHandler({})).open(url)"

    def drive(config: str) -> None:
        terminal = opened(tmp_path, config, browser(tmp_path, visit))
        try:
            terminal.press("o")
            terminal.wait_until(lambda screen: "Sign in to" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
        finally:
            terminal.__exit__()

    async with peer(kind=Talking) as one:
        config = Program(tmp_path).servers(tracker={"url": one.url})
        await anyio.to_thread.run_sync(drive, config)
    assert len(one.asked) == 1


@pytest.mark.req("auth.callback.manual")
async def test_a_browser_on_another_machine_is_helped_by_pasting(tmp_path: Path) -> None:
    told = tmp_path / "told"

    def drive(config: str) -> None:
        terminal = opened(tmp_path, config, browser(tmp_path, f"open({str(told)!r}, 'w').write(url)"))
        try:
            terminal.press("o")
            terminal.wait_for("Your browser has the address")
            terminal.pause(HEED)
            terminal.press("p")
            terminal.wait_for("enter takes the address")
            asked = query(told.read_text())
            one.codes["typed"] = asked
            terminal.type(f"{asked['redirect_uri']}?code=typed&state={asked['state']}")
            terminal.press("Enter")
            terminal.wait_until(lambda screen: "Sign in to" not in screen and "1/1 server" in screen, "ready")
            terminal.press("C-q")
        finally:
            terminal.__exit__()

    async with peer(kind=Talking) as one:
        config = Program(tmp_path).servers(tracker={"url": one.url})
        await anyio.to_thread.run_sync(partial(drive, config))
    assert [form["code"] for form in one.forms] == ["typed"]
