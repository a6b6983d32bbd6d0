"""The npm package oidc-provider with a small MCP server, run as a process, and a user who signs in to it."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx

from mcphost.config.schema import ServerConfig
from tests.peers import node
from tests.peers.oidc_browser import complete_sign_in

BROWSER_SCRIPT = Path(__file__).with_name("oidc_browser.py")


@dataclass
class OidcProvider:
    """A running provider: its origin, and the events it has reported so far."""

    origin: str
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def server(self) -> ServerConfig:
        return ServerConfig(name="oidc", url=self.url)

    def grants(self, event: str = "grant.success") -> list[str]:
        return [item["grant"] for item in self.events if item["event"] == event]

    async def refresh(self, of: dict[str, Any]) -> httpx.Response:
        """Send the refresh token of an event to the token endpoint, and return the response."""
        form = {"grant_type": "refresh_token", "refresh_token": of["refresh"], "client_id": of["client"]}
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            return await client.post(f"{self.origin}/token", data=form)


@asynccontextmanager
async def run_oidc_provider(seconds: int = 60) -> AsyncIterator[OidcProvider]:
    """Run a provider whose access tokens expire after *seconds*."""
    script = str(Path(__file__).with_name("oidc.mjs"))
    command = [node.node_executable(), script, str(node.package_root() / "node_modules"), str(seconds)]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            assert process.stdout
            lines = _read_lines(process.stdout)
            provider = OidcProvider(json.loads(await anext(lines))["origin"])

            async def listen() -> None:
                async for line in lines:
                    if line.startswith("{"):
                        provider.events.append(json.loads(line))
                    else:
                        print(line)  # the library's own words

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                yield provider
                tasks.cancel_scope.cancel()
        finally:
            process.kill()


async def _read_lines(stream: Any) -> AsyncIterator[str]:
    rest = b""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()


@dataclass
class OidcUser:
    """A user who fills in the provider's login form and consent form."""

    times: int = 0
    codes: list[str] = field(default_factory=list)

    async def ask_client_id(self, **asked: str) -> None:
        """Return None, because no client is registered manually."""

    async def sign_in(self, *, url: str, code: str, **shown: Any) -> str | None:
        self.times += 1
        if code:
            self.codes.append(code)
        page = await anyio.to_thread.run_sync(complete_sign_in, url, "ada", code)
        assert code or "Response received" in page, page
        return ""


def create_oidc_browser(folder: Path, login: str) -> str:
    """Create a program for $BROWSER that signs in as *login*; return the value for $BROWSER."""
    program = folder / f"browser-{login}"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{BROWSER_SCRIPT}" {login} "$@"\n')
    program.chmod(0o755)
    return str(program)
