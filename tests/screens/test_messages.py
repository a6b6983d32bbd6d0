"""Tests for the page with the messages exchanged with a server, with the real program and server."""

import re
from pathlib import Path
from typing import Any, cast

import pytest

from mcphost.message_log import MessageLog
from mcphost.serialization import replace
from mcphost.tui.screens.messages import MessagesScreen
from mcphost.tui.widgets.long_text import LongText
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files

pytestmark = pytest.mark.anyio


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files.create(tmp_path, monkeypatch)


async def open_messages(driver: AppDriver) -> MessagesScreen:
    servers: Any = driver.host.servers
    await servers.ensure_ready("demo")
    await driver.pilot.press("f3", "m")
    await driver.until(lambda: isinstance(driver.app.screen, MessagesScreen), "the page")
    assert isinstance(driver.app.screen, MessagesScreen)
    return driver.app.screen


async def test_messages_are_listed_from_the_next_start_on_and_shown_as_json(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        screen = await open_messages(driver)
        servers: Any = driver.host.servers
        await driver.until(lambda: "logged from its next start on" in driver.text(), "the explanation")
        assert "r restarts the server now" in " ".join(driver.text().split())
        await driver.pilot.press("r")
        await driver.until(lambda: "server/discover #" in driver.text(), "the first message")
        await servers.ensure_ready("demo")
        await driver.until(lambda: "tools/list #" in driver.text(), "the listing of tools")
        await driver.pilot.press("end")
        await driver.until(lambda: '"method": "server/discover"' in driver.text(), "the first message as JSON")
        assert "sent to the server" in driver.text()
        assert len(screen.visible_rows) >= 4
        servers.update(replace(servers.view("demo").config, disabled=True))
        assert servers.message_log("demo").messages(), "another configuration keeps the log"
        await driver.pilot.press("r")
        await driver.until(lambda: "Enable it: F3, then d." in driver.text(), "why it is not restarted")


async def add_messages(driver: AppDriver, *messages: bytes) -> MessageLog:
    await open_messages(driver)
    log = driver.host.servers.log_messages("demo")
    for message in messages:
        log.add("received", message)
    return log


async def test_what_is_no_message_is_shown_as_it_was(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await add_messages(driver, b"Listening on port 3000\x1b[31m\xff")
        await driver.until(lambda: "not a JSON-RPC message" in driver.text(), "the row")
        await driver.until(lambda: "Listening on port 3000␛[31m" in driver.text(), "the text")


async def test_a_long_and_a_deep_message_are_shown_without_delay_and_without_secrets(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    key = b"sk-proj-" + b"aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"
    deep = b"[" * 900 + b"1," * 20_000 + b"1" + b"]" * 900
    async with files.open((120, 40)) as driver:
        await add_messages(
            driver,
            b'{"jsonrpc": "2.0", "id": 8, "result": {"deep": ' + deep + b"}}",
            b'{"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {"a": "'
            + key
            + b'", "b": "'
            + b"x" * 100_000
            + b'"}}',
        )
        await driver.until(lambda: "sampling/createMessage" in driver.text(), "the row")
        await driver.until(lambda: "not shown" in driver.text(), "the details")
        shown = driver.app.screen.query_one(LongText).text
        assert key.decode() not in shown
        assert len(shown) < 70_000
        await driver.pilot.press("down")
        await driver.until(lambda: "result #8" in driver.text(), "the deep message")
        assert len(driver.app.screen.query_one(LongText).text) < 70_000


async def test_a_message_that_is_read_stays_in_place_while_others_arrive(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        items = ",".join(f'"line {number}"' for number in range(200))
        log = await add_messages(driver, b'{"jsonrpc": "2.0", "id": 8, "result": {"a": [' + items.encode() + b"]}}")
        await driver.until(lambda: '"line 3"' in driver.text(), "the message")
        await driver.pilot.press("tab", "pagedown")
        await driver.until(lambda: '"line 3"' not in driver.text(), "the next lines")
        shown = driver.app.screen.query_one(LongText).scroll_y
        log.add("received", b'{"jsonrpc": "2.0", "method": "notifications/progress"}')
        await driver.until(lambda: "notifications/progress" in driver.text(), "the new row")
        await driver.pilot.pause()
        assert driver.app.screen.query_one(LongText).scroll_y == shown


async def test_an_answer_names_the_request_that_it_answers_and_how_long_it_took(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        log = await add_messages(driver)
        log.add("sent", b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {}}')
        log.add("received", b'{"jsonrpc": "2.0", "id": 4, "method": "roots/list"}')
        log.add("sent", b'{"jsonrpc": "2.0", "id": 4, "result": {"roots": []}}')
        long = b'{"jsonrpc": "2.0", "id": 4, "result": {"a": "' + b"x" * 100_000 + b'"}}'
        log.add("received", long)
        log.add("received", b'{"jsonrpc": "2.0", "id": 4, "result": {}}')
        log.add("sent", b'{"jsonrpc": "2.0", "id": "5", "method": "prompts/get"}')
        log.add("received", b'{"jsonrpc": "2.0", "id": "5", "error": {"code": -32602, "message": "no"}}')
        await driver.until(lambda: "prompts/get #5" in driver.text(), "the rows")
        names = [row.title for row in cast("MessagesScreen", driver.app.screen).entries]
        expected = [
            r"error -32602 of prompts/get · \d+ ms · #5",
            r"prompts/get #5",
            r"result #4",
            r"result of tools/call · \d+ ms · #4",
            r"result of roots/list · \d+ ms · #4",
            r"roots/list #4",
            r"tools/call #4",
        ]
        assert len(names) == len(expected)
        assert all(re.fullmatch(pattern, name) for pattern, name in zip(expected, names, strict=True)), names


async def test_c_copies_the_selected_message_without_secrets(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    key = b"sk-proj-" + b"aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"
    async with files.open((120, 40)) as driver:
        await add_messages(driver, b'{"jsonrpc": "2.0", "id": 8, "result": {"key": "' + key + b'", "a": 1}}')
        await driver.until(lambda: "result #8" in driver.text(), "the row")
        assert "c copy" in " ".join(driver.text().split())
        await driver.pilot.press("c")
        await driver.until(lambda: '"a": 1' in driver.app.clipboard, "the copy")
        assert '  "id": 8' in driver.app.clipboard
        assert key.decode() not in driver.app.clipboard
