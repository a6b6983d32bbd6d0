"""Run mcphost while it signs in to a test server."""

import json
import re
from typing import Any

import anyio
import anyio.to_thread
import httpx
from anyio.abc import Process

from tests.flows.program import Program
from tests.unit.auth.oauth_peer import OAuthPeer
from tests.unit.transport.raw_http import ReceivedRequest

AUTHORIZATION_URL = re.compile(rb"http://127\.0\.0\.1:\d+/authorize\?\S+")


class SignedInServer(OAuthPeer):
    """An MCP server that accepts only requests with a token from a sign-in."""

    async def mcp(self, request: ReceivedRequest) -> None:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            await OAuthPeer.mcp(self, request)
        elif request.method != "POST":
            await request.reply(405, b"")
        elif request.message["method"] == "server/discover":
            await request.error(404, -32601)
        elif request.message["method"] == "initialize":
            capabilities = {"tools": {}}
            info = {"name": "peer", "version": "1"}
            await request.result({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info})
        elif "id" not in request.message:
            await request.reply(202, b"")
        else:
            await request.result({"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]})


async def visit_authorization_page(url: str) -> None:
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
        assert "Response received" in (await browser.get(url)).text


async def read_authorization_url(process: Process, said: bytearray) -> str:
    """Wait until the program prints an authorization URL, and return it; its error output is appended to *said*."""
    assert process.stderr
    while not (found := AUTHORIZATION_URL.search(said)):
        said += await process.stderr.receive()
    return found[0].decode()


def start_program(program: Program, *arguments: str) -> Any:
    return anyio.open_process(program.command(*arguments), env=program.env, cwd=program.work)


async def events_until(process: Process, name: str, rest: bytes, **fields: Any) -> tuple[dict[str, Any], bytes]:
    """Return the next event with this name and these fields, and the bytes read after it.

    *rest* contains bytes that were read earlier.
    """
    assert process.stdout
    while True:
        line, ended, left = rest.partition(b"\n")
        if not ended:
            rest += await process.stdout.receive()
            continue
        rest = left
        event = json.loads(line)
        if event["event"] == name and fields.items() <= event.items():
            return event, rest


BROWSER_CODE = "import sys, urllib.request as u; u.build_opener(u.ProxyHandler({})).open(sys.argv[1])"
