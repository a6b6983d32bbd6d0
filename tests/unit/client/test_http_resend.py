"""Tests that a request refused for its token is resent unchanged with a new token, unless it was cancelled."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcphost.client.negotiation import Negotiation
from mcphost.client.requests import RequestSender
from mcphost.client.timeouts import Timeouts
from mcphost.errors import SignInRequired
from mcphost.protocol.tools import CallTool
from mcphost.sign_in_types import AuthChallenge
from mcphost.transport.streamable_http import HttpConnector
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.scripted_http import RequestHandler, handshake_server, stateless_server, text_answer
from tests.unit.transport.raw_http import RawServer, ReceivedRequest, serve

pytestmark = pytest.mark.anyio
BOTH = ["stateless", "handshake"]


class RenewingAuthorizer:
    """An authorizer whose token can be refreshed silently or only by an interactive sign-in, as configured."""

    def __init__(self, *, quietly: bool = True) -> None:
        self.number = 0
        self.quietly = quietly
        self.asked = anyio.Event()
        self.renewed = anyio.Event()
        self.renewed.set()

    async def headers(self, verb: str, url: str) -> Mapping[str, str]:
        return self.current_headers(verb, url)

    def current_headers(self, verb: str, url: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer t-{self.number}"}

    async def recover(self, refusal: AuthChallenge) -> bool:
        if self.quietly:
            await self._renew()
        return self.quietly

    async def sign_in(self, refusal: AuthChallenge, attempt: int) -> None:
        if attempt > 1:
            raise SignInRequired("Refused again.")
        await self._renew()

    async def _renew(self) -> None:
        self.asked.set()
        # Like a refresh whose new token must not be lost.
        with anyio.CancelScope(shield=True):
            await self.renewed.wait()
        self.number += 1


def refuse_other_tokens(era: str, wants: list[str]) -> RequestHandler:
    """Return a handler that accepts tool calls only with the last token in *wants*."""

    async def call(request: ReceivedRequest) -> object:
        if request.message["method"] == "tools/call" and request.headers["authorization"] != f"Bearer {wants[-1]}":
            return await request.reply(401, b"", www_authenticate="Bearer")
        return await request.result(text_answer())

    return stateless_server(call) if era == "stateless" else handshake_server(call)


@asynccontextmanager
async def open_sender(
    era: str, token: RenewingAuthorizer
) -> AsyncIterator[tuple[RawServer, RequestSender, Mapping[str, str]]]:
    """Open a RequestSender whose token is t-0, although the server requires t-1 for tools.

    Yield the server, the sender and the extra headers that a tool call needs in this era.
    """
    async with serve(refuse_other_tokens(era, ["t-1"])) as server:
        dialer = HttpConnector("peer", server.url, {}, warn=RecordingObserver().warn, authorizer=token)
        async with dialer.connect() as channel:
            caller = RequestSender(channel, "peer", Timeouts())
            facts = await Negotiation(channel, caller, FakeRequestHandler()).run("in turn", is_era_fixed=False)
            assert facts.era == era
            caller.sign_in = token.sign_in
            yield server, caller, {"Mcp-Name": "tool"} if era == "stateless" else {}


def tool_calls(server: RawServer) -> list[ReceivedRequest]:
    return [message for message in server.seen if message.body and message.message.get("method") == "tools/call"]


def headers_without(request: ReceivedRequest, *names: str) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in names}


@pytest.mark.req("auth.stepup.retry-original")
@pytest.mark.parametrize("era", BOTH)
async def test_a_silently_refreshed_token_changes_nothing_else(era: str) -> None:
    async with open_sender(era, RenewingAuthorizer()) as (server, caller, headers):
        await caller.send(CallTool("tool", {"n": 1}), headers=headers, on_notification=lambda notice: None)
        first, second = tool_calls(server)
    assert (first.headers["authorization"], second.headers["authorization"]) == ("Bearer t-0", "Bearer t-1")
    assert first.body == second.body
    assert headers_without(first, "authorization") == headers_without(second, "authorization")
    assert second.headers["mcp-protocol-version"] == ("2026-07-28" if era == "stateless" else "2025-11-25")
    assert second.headers.get("mcp-session-id") == (None if era == "stateless" else "s-1")


@pytest.mark.req("auth.stepup.retry-original")
@pytest.mark.parametrize("era", BOTH)
async def test_after_a_sign_in_the_request_is_a_new_one_with_the_same_content(era: str) -> None:
    async with open_sender(era, RenewingAuthorizer(quietly=False)) as (server, caller, headers):
        await caller.send(CallTool("tool", {"n": 1}), headers=headers, on_notification=lambda notice: None)
        first, second = tool_calls(server)
    messages: list[Any] = [json.loads(item.body) for item in (first, second)]
    assert messages[0]["id"] != messages[1]["id"]
    tokens = [text["params"].pop("_meta")["progressToken"] for text in messages]
    assert tokens == [text["id"] for text in messages], "progress of the first is not taken for that of the second"
    assert messages[0]["params"] == messages[1]["params"] == {"name": "tool", "arguments": {"n": 1}}
    differ = ("authorization", "content-length")
    assert headers_without(first, *differ) == headers_without(second, *differ)


@pytest.mark.parametrize("quietly", [True, False])
@pytest.mark.parametrize("era", BOTH)
async def test_a_call_that_is_cancelled_while_its_token_is_renewed_is_not_sent_again(era: str, quietly: bool) -> None:
    token = RenewingAuthorizer(quietly=quietly)
    token.renewed = anyio.Event()
    async with open_sender(era, token) as (server, caller, headers):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: caller.send(CallTool("tool", {"n": 1}), headers=headers))
            await token.asked.wait()
            tasks.cancel_scope.cancel()
            token.renewed.set()
        assert token.number == 1, "the new token is kept all the same"
        # Another request succeeds, and is the second that the server sees.
        await caller.send(CallTool("tool", {"n": 2}), headers=headers)
        assert [json.loads(call.body)["params"]["arguments"] for call in tool_calls(server)] == [{"n": 1}, {"n": 2}]
