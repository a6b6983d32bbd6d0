"""Compare three concurrent calls of 0.3 s with a single call: no lock may be held while a request is running.

uv run python -m benchmarks.oauth_calls [--rounds N]

All calls use a valid token. The same calls are made with the client and the OAuth provider of the official SDK, which
holds a lock during each request.
"""

# pyright: basic

import argparse
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio

from benchmarks import bounds

SECONDS = 0.3
TOKEN = "a-valid-token-0123456789"
Call = Callable[[], Coroutine[Any, Any, object]]


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """Run a server that requires an access token and has a slow tool; yield the URL of the server."""
    from tests.unit.transport.raw_http import ReceivedRequest, serve

    async def answer(one: ReceivedRequest) -> None:
        if one.headers.get("authorization") != f"Bearer {TOKEN}":
            await one.reply(401, b"")
        elif one.method != "POST":
            await one.reply(405, b"")
        elif one.message["method"] == "initialize":
            info = {"name": "slow", "version": "1"}
            await one.result({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        elif "id" not in one.message:
            await one.reply(202, b"")
        elif one.message["method"] == "tools/list":
            await one.result({"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]})
        elif one.message["method"] == "tools/call":
            await anyio.sleep(SECONDS)
            await one.result({"content": []})
        else:
            await one.error(404, -32601)

    async with serve(answer) as server:
        yield server.url


@asynccontextmanager
async def ours(url: str) -> AsyncGenerator[Call]:
    from mcphost.auth.oauth_registry import OAuthRegistry
    from mcphost.auth.registration import OAuthClient
    from mcphost.auth.token_store import StoredSignIn, TokenStore
    from mcphost.auth.tokens import TokenSet
    from mcphost.auth.url_policy import canonical_url
    from mcphost.client.connect import ClientSessionOpener
    from mcphost.config.schema import ServerConfig
    from mcphost.protocol.tools import CallTool
    from tests.fakes.memory_backend import MemoryBackend
    from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

    keep, issuer = TokenStore(MemoryBackend(), None), "https://as.example"
    tokens = TokenSet(access=TOKEN, expires=time.time() + 3600, issued=time.time())
    me = OAuthClient(issuer, "me")
    await keep.save(
        StoredSignIn(
            server="slow",
            url=canonical_url(url),
            issuer=issuer,
            resource=url,
            token_endpoint="",
            tokens=tokens,
            client=me,
        )
    )
    opener = ClientSessionOpener(accounts=OAuthRegistry(keep, None))
    async with opener.open(
        ServerConfig(name="slow", url=url, era="handshake"), FakeRequestHandler(), RecordingObserver()
    ) as session:
        yield lambda: session.request(CallTool("wait"))


class Stored:
    """Token storage for the official SDK's client, which always returns the same valid token."""

    async def get_tokens(self) -> Any:
        from mcp.shared.auth import OAuthToken

        return OAuthToken(access_token=TOKEN, token_type="Bearer", expires_in=3600)

    async def get_client_info(self) -> None:
        """Return None, because a client with a valid token needs no registration."""

    async def set_tokens(self, tokens: Any) -> None:
        """Do nothing, because no token is renewed."""

    async def set_client_info(self, client_info: Any) -> None:
        """Do nothing, because no client is registered."""


@asynccontextmanager
async def sdk(url: str) -> AsyncGenerator[Call]:
    import httpx2
    from mcp.client import Client
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.auth import OAuthClientMetadata

    about = OAuthClientMetadata(redirect_uris=["http://127.0.0.1/callback"])  # type: ignore[list-item]
    auth = OAuthClientProvider(url, about, Stored())
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(auth=auth, trust_env=False, timeout=30))
        where = streamable_http_client(url, http_client=http)
        client = await stack.enter_async_context(Client(where, mode="legacy", cache=None))
        yield lambda: client.call_tool("wait", {})


async def ratio(name: str, rounds: int) -> float:
    """Return the time of three concurrent calls as a multiple of the time of one call (median of all rounds)."""
    ratios: list[float] = []
    async with served() as url, {"mcphost": ours, "mcp SDK": sdk}[name](url) as call:
        await call()
        for _ in range(rounds):
            took: list[float] = []
            for count in (1, 3):
                begun = time.perf_counter()
                async with anyio.create_task_group() as tasks:
                    for _ in range(count):
                        tasks.start_soon(call)
                took.append(time.perf_counter() - begun)
            ratios.append(took[1] / took[0])
    return statistics.median(ratios)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ratios", default="", help="write the ratios to this file, as JSON")
    options = parser.parse_args()
    found = {name: anyio.run(ratio, name, options.rounds) for name in ("mcphost", "mcp SDK")}
    for name, value in found.items():
        print(f"{name}: three calls at once take {value:.2f} of one")
    ratios = {"three calls at once with a valid token": found["mcphost"]}
    return bounds.report("oauth_calls", ratios, file=options.ratios)


if __name__ == "__main__":
    sys.exit(main())
