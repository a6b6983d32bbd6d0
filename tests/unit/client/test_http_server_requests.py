"""Tests that a server's request to visit a URL over HTTP changes neither the session's account nor its headers."""

import anyio
import pytest

from mcphost.protocol.server_requests import ElicitResult
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_http import handshake_server, open_http_session
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio


@pytest.mark.req("elic.url.bearer-unchanged")
@pytest.mark.req("elic.url.no-prefetch")
async def test_a_visited_url_does_not_change_our_authorization_and_is_never_fetched() -> None:
    answered = anyio.Event()

    async def call(request: ReceivedRequest) -> object:
        if request.message["params"]["name"] == "plain":
            return await request.result({"content": []})
        url = f"http://{request.headers['host']}/connect?token=theirs"
        await request.stream()
        ask = {"mode": "url", "message": "Sign in.", "url": url, "elicitationId": "e"}
        await request.event({"id": 9, "method": "elicitation/create", "params": ask})
        await answered.wait()
        await request.event({"method": "notifications/elicitation/complete", "params": {"elicitationId": "e"}})
        await request.event({"id": request.message["id"], "result": {"content": []}})
        return False

    async def handler(request: ReceivedRequest) -> object:
        if request.body and "result" in request.message:
            answered.set()
        return await handshake_server(call)(request)

    answers = FakeRequestHandler({"elicitation/create": ElicitResult("accept")})
    answers.capabilities = {"elicitation": {"form": {}, "url": {}}}
    headers = {"Authorization": "Bearer ours"}
    async with open_http_session(handler, answers=answers, headers=headers) as (session, server):
        await session.request(CallTool("connect"), deadline=3)
        await session.request(CallTool("plain"), deadline=3)
    assert answers.completed_elicitations == ["e"]
    assert {message.headers.get("authorization") for message in server.seen} == {"Bearer ours"}
    assert all("connect?" not in message.path for message in server.seen)
