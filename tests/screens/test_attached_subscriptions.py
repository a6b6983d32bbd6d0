"""Tests that a resource is subscribed to exactly as long as it is attached, with a real server process."""

import sys
from pathlib import Path

import pytest

from tests.screens.conftest import AppDriver
from tests.screens.real_program import Files, run_command

pytestmark = pytest.mark.anyio
URI = "note:///today"
SERVER = """
import json, sys
log, offers = open(sys.argv[1], "a"), json.loads(sys.argv[2])
watched, version = set(), 1

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    method, params, ident = message.get("method"), message.get("params", {}), message.get("id")
    print(method, params.get("uri", ""), file=log, flush=True)
    if ident is None:
        continue
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": offers},
                  "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "edit", "inputSchema": {"type": "object"}}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "note:///today", "name": "today"}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": []}
    elif method == "resources/read":
        text = f"version {version}"
        result = {"contents": [{"uri": params["uri"], "text": text, "mimeType": "text/plain"}]}
    elif method == "resources/subscribe":
        watched.add(params["uri"])
    elif method == "resources/unsubscribe":
        watched.discard(params["uri"])
    elif method == "tools/call":
        version += 1
        for uri in watched:
            send(method="notifications/resources/updated", params={"uri": uri})
        result = {"content": [{"type": "text", "text": "edited"}]}
    elif method != "ping":
        send(id=ident, error={"code": -32601, "message": "unknown"})
        continue
    send(id=ident, result=result)
"""


def write_server(files: Files, offers: str) -> Path:
    """Configure a server, and return the file to which it writes the requests it receives."""
    program, log = files.folder / "notes.py", files.folder / "requests.log"
    program.write_text(SERVER)
    log.touch()
    files.write_servers(notes={"command": sys.executable, "args": [str(program), str(log), offers]})
    return log


async def attach(driver: AppDriver) -> None:
    await driver.host.servers.ensure_ready("notes")
    driver.app.chat.attachments.add_resource("notes", URI)
    await driver.until(lambda: driver.app.chat.attachments.parts, "the attachment")


async def test_a_change_of_an_attached_resource_is_marked_without_a_manual_subscription(files: Files) -> None:
    log = write_server(files, '{"subscribe": true}')
    async with files.open((100, 30)) as driver:
        await attach(driver)
        await driver.until(lambda: f"resources/subscribe {URI}" in log.read_text(), "the subscription")
        await driver.host.tools.call("notes", "edit", {})
        await driver.until(lambda: "changed" in driver.text() and "r reads it again" in driver.text(), "the mark")
        await driver.pilot.press("shift+tab", "x")
        await driver.until(lambda: f"resources/unsubscribe {URI}" in log.read_text(), "the end")
        assert driver.host.features.subscribed_uris("notes") == ()


async def test_a_sent_resource_stays_subscribed_until_another_conversation_is_opened(files: Files) -> None:
    log = write_server(files, '{"subscribe": true}')
    async with files.open((100, 30)) as driver:
        await attach(driver)
        await driver.type("look")
        await driver.pilot.press("enter")
        await driver.until(lambda: len(driver.host.conversation.messages) == 2, "the answer")
        await driver.until(lambda: driver.host.features.subscribed_uris("notes") == (URI,), "the subscription")
        await driver.host.tools.call("notes", "edit", {})
        await driver.until(lambda: "changed since it was sent" in driver.text(), "the mark")
        assert "unsubscribe" not in log.read_text()
        await run_command(driver, "/new")
        await driver.until(lambda: f"resources/unsubscribe {URI}" in log.read_text(), "the end")


async def test_a_subscription_of_the_user_is_neither_made_twice_nor_ended(files: Files) -> None:
    log = write_server(files, '{"subscribe": true}')
    async with files.open((100, 30)) as driver:
        await driver.host.features.subscribe("notes", URI)
        await attach(driver)
        await driver.pilot.press("shift+tab", "x")
        await driver.until(lambda: not driver.app.chat.attachments.parts, "the end of the attachment")
        await driver.host.features.attached.follow(())
        assert driver.host.features.subscribed_uris("notes") == (URI,)
        assert log.read_text().count("resources/subscribe") == 1


async def test_a_server_that_offers_no_subscriptions_is_not_asked_for_one(files: Files) -> None:
    log = write_server(files, "{}")
    async with files.open((100, 30)) as driver:
        await attach(driver)
        await driver.host.features.attached.follow([("notes", URI)])
        assert "subscribe" not in log.read_text()
