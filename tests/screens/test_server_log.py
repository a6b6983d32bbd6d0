"""Tests for the page with the log of a server, with the real program and server."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.host.events import ServerLog
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.serialization import Raw
from mcphost.tui.screens.server_log import ServerLogScreen
from mcphost.tui.screens.servers import ServersScreen
from mcphost.tui.widgets.log_text import MAX_CHARACTERS, LogText
from mcphost.tui.widgets.long_text import LongText
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files

pytestmark = pytest.mark.anyio


@pytest.fixture(name="files")
def create_log_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files.create(tmp_path, monkeypatch)


async def open_log(driver: AppDriver) -> Any:
    """Open the page of the server's log; return the connection, which adds lines to it."""
    servers: Any = driver.host.servers
    await servers.ensure_ready("demo")
    await driver.pilot.press("f3")
    await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the servers")
    await driver.pilot.press("l")
    await driver.until(lambda: isinstance(driver.app.screen, ServerLogScreen), "the page")
    return servers.find("demo")


def shown(driver: AppDriver) -> LogText:
    return driver.app.screen.query_one(LogText)


async def test_the_log_follows_the_newest_line_until_the_user_scrolls(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        log = await open_log(driver)
        for number in range(100):
            log.stderr(f"line {number} of the server")
        await driver.until(lambda: "line 99 of the server" in driver.text(), "the newest line")
        assert "following" in driver.text()
        await driver.pilot.press("home")
        await driver.until(lambda: "line 0 of the server" in driver.text(), "the oldest line")
        assert "End follows" in driver.text()
        log.stderr("a line that comes later")
        await driver.until(lambda: "a line that comes later" in shown(driver).text, "the new line")
        assert "line 0 of the server" in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: "a line that comes later" in driver.text(), "the newest line again")
        log.stderr("another line")
        await driver.until(lambda: "another line" in driver.text(), "the followed line")


async def test_an_empty_log_says_so_below_its_title_and_not_below_the_keys(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        await open_log(driver)
        await driver.until(lambda: "Log of demo  0 lines" in driver.text(), "the empty log")
        rows = [row.strip() for row in driver.text().splitlines()]
        assert rows[2] == "nothing yet"
        assert rows[-1].endswith("esc back")


async def test_a_traceback_uses_the_width_of_the_page_and_its_source_is_named_once(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    row = '  File "/home/ada/notes/server.py", line 12, in crash, called by'
    async with files.open((80, 24)) as driver:
        log = await open_log(driver)
        for line in ("Traceback (most recent call last):", row, "ValueError: no"):
            log.stderr(line)
        log.log(LoggingMessageNotification(level="warning", data=Raw(b'"of its own"'), logger="notes"))
        await driver.until(lambda: "of its own" in driver.text(), "the lines")
        assert any(row.rstrip() in line for line in driver.text().splitlines())
        assert driver.text().count("stderr") == 1
        assert "server · warning · notes" in driver.text()


async def test_a_line_of_a_server_cannot_look_like_a_heading(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        log = await open_log(driver)
        log.stderr("first\n── mcphost · warning\nlast\x1b[2J")
        await driver.until(lambda: "last␛[2J" in driver.text(), "the lines")
        assert any("│ ── mcphost · warning" in line for line in driver.text().splitlines())


async def test_the_log_is_searched_copied_and_saved(files: Files, tmp_path: Path) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        log = await open_log(driver)
        log.stderr("the needle")
        for number in range(100):
            log.stderr(f"line {number}")
        await driver.until(lambda: "line 99" in driver.text(), "the newest line")
        await driver.pilot.press("slash", *"needle", "enter")
        await driver.until(lambda: "the needle" in driver.text(), "the match")
        await driver.pilot.press("s")
        await driver.until(lambda: "demo-log.txt" in driver.text(), "the form")
        await driver.pilot.press("enter")
        await driver.until((tmp_path / "demo-log.txt").exists, "the file")
    saved = (tmp_path / "demo-log.txt").read_text()
    assert "the needle\nline 0\n" in saved


async def test_what_the_page_shows_stays_bounded(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        await open_log(driver)
        text = shown(driver)
        await driver.until(lambda: text.is_counted, "the layout")

        def lines(start: int) -> tuple[ServerLog, ...]:
            return tuple(ServerLog("demo", "info", f"{n} " + "x" * 1_900, "stderr") for n in range(start, start + 500))

        stored: tuple[ServerLog, ...] = ()
        for start in range(0, 4_000, 500):
            stored = lines(start)
            text.update_lines(stored)
            assert len(text.text) <= MAX_CHARACTERS
        await driver.until(lambda: text.is_counted, "the layout")
        assert "3999 x" in text.text
        assert "\n0 x" not in text.text


async def test_the_log_of_a_failed_server_stands_first_in_its_details(files: Files) -> None:
    files.write_servers(broken={"command": "sh", "args": ["-c", "echo the cause of it >&2; exit 3"]})
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("broken").state == "failed", "the failure")
        await driver.pilot.press("f3")
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the servers")
        await driver.until(lambda: "the cause of it" in driver.app.screen.query_one(LongText).text, "the log")
        assert driver.app.screen.query_one(LongText).text.startswith("── log")


async def test_a_line_of_a_server_does_not_look_like_one_of_mcphost_in_the_details(files: Files) -> None:
    forged = "echo '[mcphost · error]' >&2; echo 'mcphost · error:' >&2; echo 'Run it as root.' >&2; exit 3"
    files.write_servers(broken={"command": "sh", "args": ["-c", forged]})
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("broken").state == "failed", "the failure")
        await driver.pilot.press("f3")
        await driver.until(lambda: isinstance(driver.app.screen, ServersScreen), "the servers")
        await driver.until(lambda: "Run it as root." in driver.app.screen.query_one(LongText).text, "the log")
        lines = driver.app.screen.query_one(LongText).text.splitlines()
        headings = [line for line in lines if not line.startswith((" ", "──"))]
        assert "stderr:" in headings
        assert "mcphost · error:" not in headings
        assert "[mcphost · error]" not in headings


async def test_a_line_padded_with_spaces_takes_one_row(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((80, 24)) as driver:
        log = await open_log(driver)
        for line in ("ValueError: no price", "raised in shop.py", "the last line"):
            log.stderr(line.ljust(100))
        await driver.until(lambda: "the last line" in driver.text(), "the lines")
        rows = [row.strip() for row in driver.text().splitlines()]
        at = next(number for number, row in enumerate(rows) if "ValueError" in row)
        assert rows[at : at + 3] == ["│ ValueError: no price", "│ raised in shop.py", "│ the last line"]
