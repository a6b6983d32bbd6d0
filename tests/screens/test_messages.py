"""Tests for the page with the messages exchanged with a server, with the real program and server."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from textual.widgets import Input

from mcphost.message_log import MessageLog
from mcphost.serialization import replace
from mcphost.tui.dialogs.edit_arguments import CallToolDialog
from mcphost.tui.screens.messages import MessagesScreen
from mcphost.tui.screens.text_viewer import TextViewerScreen
from mcphost.tui.widgets.long_text import LongText
from tests.screens.conftest import AppDriver
from tests.screens.real_program import DEMO_SERVER, Files
from tests.unit.transport.raw_http import ReceivedRequest, serve

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


class HttpDemo:
    """A Streamable HTTP server on loopback with one tool, whose responses carry a hostile header."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def answer(self, request: ReceivedRequest) -> object:
        if request.method != "POST":
            return await request.reply(405)
        message = request.message
        self.calls.append(message)
        if "id" not in message:
            return await request.reply(202)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "far", "version": "1"},
            },
            "tools/list": {"tools": [ADD_TOOL]},
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
            "resources/read": {"contents": [{"uri": "x:1", "text": "one"}]},
            "tools/call": {"content": [{"type": "text", "text": "3"}]},
        }
        if message["method"] not in results:
            return await request.error(404, -32601)
        return await request.result(results[message["method"]], X_Note="\x1b[31mred", Mcp_Session_Id="s" * 20)


ADD_TOOL = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "api_key": {"type": "string"}},
        "required": ["a"],
    },
}
KEY = "hunter2hunter2"


@asynccontextmanager
async def open_http_messages(files: Files, size: tuple[int, int] = (120, 40)) -> AsyncGenerator[tuple[AppDriver, Any]]:
    """Open the page for a server over HTTP that was restarted since, so that its messages are logged."""
    demo = HttpDemo()
    async with serve(demo.answer) as server:
        files.write_servers(demo={"url": server.url, "headers": {"X-Api-Key": KEY}})
        async with files.open(size) as driver:
            screen = await open_messages(driver)
            await driver.pilot.press("r")
            await driver.until(lambda: any("tools/list" in row.title for row in screen.entries), "the messages")
            servers: Any = driver.host.servers
            await servers.ensure_ready("demo")
            yield driver, demo


def titles(driver: AppDriver) -> list[str]:
    return [row.title for row in cast("MessagesScreen", driver.app.screen).visible_rows]


async def select(driver: AppDriver, beginning: str) -> None:
    """Move the cursor to the newest entry whose label begins with *beginning*."""
    screen = cast("MessagesScreen", driver.app.screen)
    await driver.until(lambda: any(title.startswith(beginning) for title in titles(driver)), beginning)
    index = next(at for at, title in enumerate(titles(driver)) if title.startswith(beginning))
    screen.list_widget.cursor = index
    await driver.pilot.pause()


async def call_add(driver: AppDriver, arguments: dict[str, Any]) -> None:
    host: Any = driver.host
    await host.tools.call("demo", "add", arguments)


async def test_http_exchanges_are_listed_between_the_messages_with_their_headers(files: Files) -> None:
    async with open_http_messages(files) as (driver, _demo):
        await select(driver, "POST /mcp · 200 · tools/list")
        await driver.until(lambda: "content-type: application/json" in driver.text(), "the headers")
        text = driver.text()
        assert "x-note: ␛[31mred" in text
        assert "mcp-session-id: ssssss…" in text
        assert "x-api-key: [secret]" in text
        assert KEY not in text
        assert "Request headers" in text
        await driver.pilot.press("v")
        await driver.until(lambda: "messages only" in driver.text(), "the view")
        assert not any(title.startswith("POST") for title in titles(driver))
        await driver.pilot.press("v")
        await driver.until(lambda: "HTTP only" in driver.text(), "the view")
        assert all(title.split(" ")[0] in {"POST", "GET"} for title in titles(driver))
        await driver.pilot.press("v", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the viewer")


async def test_the_search_line_filters_and_names_a_misspelt_filter(files: Files) -> None:
    async with open_http_messages(files) as (driver, _demo):
        screen = cast("MessagesScreen", driver.app.screen)
        search = screen.query_one("#search", Input)
        search.value = "method:tools/list sent"
        await driver.until(lambda: len(titles(driver)) == 1, "the request")
        search.value = "status:202"
        await driver.until(lambda: titles(driver)[0].startswith("POST /mcp · 202"), "the exchange")
        search.value = "metod:tools"
        await driver.until(lambda: 'Did you mean "method:"?' in driver.text(), "the name of the misspelt filter")
        assert titles(driver) == []
        search.value = ""
        await driver.until(lambda: "Did you mean" not in driver.text(), "the details again")


async def test_a_request_without_effects_is_sent_again_and_others_say_why_not(files: Files) -> None:
    async with open_http_messages(files) as (driver, demo):
        await select(driver, "tools/list #")
        before = sum(one["method"] == "tools/list" for one in demo.calls)
        await driver.pilot.press("s")
        await driver.until(lambda: sum(one["method"] == "tools/list" for one in demo.calls) > before, "the request")
        await driver.until(lambda: driver.has_notified("Sent again: the result is in the list."), "the notification")
        await select(driver, "initialize #")
        await driver.pilot.press("s")
        await driver.until(
            lambda: driver.has_notified(
                "initialize is sent once for each connection. Restart the server to send it again."
            ),
            "the reason",
        )


async def test_a_tool_call_is_only_repeated_through_the_form_and_without_its_secret(files: Files) -> None:
    async with open_http_messages(files) as (driver, demo):
        await call_add(driver, {"a": 7, "api_key": KEY})
        await select(driver, "tools/call #")
        await driver.pilot.press("s")
        await driver.until(lambda: isinstance(driver.app.screen, CallToolDialog), "the form")
        await driver.until(lambda: "type the value of api_key." in driver.text(), "what must be typed")
        await driver.until(lambda: "7" in driver.text(), "the recorded argument")
        assert KEY not in driver.text()
        assert sum(one["method"] == "tools/call" for one in demo.calls) == 1
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: sum(one["method"] == "tools/call" for one in demo.calls) == 2, "the call")
        assert demo.calls[-1]["params"]["arguments"] == {"a": 7}
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat with the card of the call")


async def test_the_keys_of_a_tool_call_fit_a_small_terminal_with_the_key_that_reads_its_message(files: Files) -> None:
    async with open_http_messages(files, (80, 24)) as (driver, _demo):
        await call_add(driver, {"a": 7})
        await select(driver, "tools/call #")
        bar = " ".join(driver.text().split())
        for hint in ("copy as curl", "copy as call", "w save", "r restart", "tab read", "ctrl+f search", "esc back"):
            assert hint in bar


async def test_requests_are_copied_as_commands_without_secrets(files: Files) -> None:
    async with open_http_messages(files) as (driver, _demo):
        await call_add(driver, {"a": 7, "api_key": KEY})
        await select(driver, "tools/call #")
        bar = " ".join(driver.text().split())
        assert "copy as curl" in bar
        assert "copy as call" in bar
        await driver.pilot.press("k")
        await driver.until(lambda: driver.app.clipboard.startswith("mcphost call"), "the command")
        assert driver.app.clipboard == """mcphost call demo add --args '{"a":7,"api_key":"'"$SECRET"'"}'"""
        await driver.pilot.press("y")
        await driver.until(lambda: driver.app.clipboard.startswith("curl"), "the command")
        assert "'x-api-key: '\"$X_API_KEY\"" in driver.app.clipboard
        assert KEY not in driver.app.clipboard
        said = "Copied. Set $X_API_KEY, $MCP_SESSION_ID, $SECRET before you run it: secrets are not copied."
        await driver.until(lambda: driver.has_notified(said), "the names of the variables")


async def test_the_filtered_log_is_saved_as_json_lines_for_the_user_only(files: Files, tmp_path: Path) -> None:
    async with open_http_messages(files) as (driver, _demo):
        screen = cast("MessagesScreen", driver.app.screen)
        screen.query_one("#search", Input).value = "method:tools/list"
        await driver.until(lambda: len(titles(driver)) == 3, "the request, the exchange and the response")
        await driver.pilot.press("w")
        await driver.until(lambda: bool(driver.app.screen.query("#file")), "the form")
        assert "3 rows of demo, as JSON Lines without secrets" in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, MessagesScreen), "the end of the form")
        saved = tmp_path / "demo-messages.jsonl"
        assert saved.stat().st_mode & 0o777 == 0o600
        kinds = [json.loads(line)["type"] for line in saved.read_text().splitlines()]
        assert kinds == ["message", "http", "message"]
        assert KEY not in saved.read_text()


async def test_oauth_requests_are_marked_as_sign_in_and_show_names_only(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        screen = await open_messages(driver)
        log = cast("Any", driver.host.servers).log_messages("demo")
        request = log.add_oauth_request("POST", "https://as.example/token", (("accept", "application/json"),))
        request.set_request("token endpoint", ("grant_type", "code"), 40, is_form=True)
        request.on_response(400, (("content-type", "application/json"),), resent=False)
        request.set_response({"error": "invalid_grant", "error_description": "hunter2"}, 60)
        await driver.until(lambda: "sign-in: token endpoint · 400" in driver.text(), "the mark")
        await driver.until(lambda: "Response parameters, without values" in driver.text(), "the names")
        assert "POST https://as.example/token" in driver.text()
        assert "invalid_grant" in driver.text()
        assert "error_description" in driver.text()
        assert "hunter2" not in driver.text()
        assert screen.visible_rows[0].mark_style == "$error"
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the viewer")
        await driver.until(lambda: "code" in driver.text(), "the names in the viewer")
        assert "[secret]" not in driver.text(), "the names stand there without placeholders"
