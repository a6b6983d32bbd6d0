"""Tests for what errors quote of a server's answer."""

import pytest

from mcphost.redact import register_server_secret
from mcphost.transport.channel import Unauthorized
from mcphost.transport.http_client import MAX_ERROR_BODY, SHOWN_BODY_LENGTH, create_client
from tests.unit.transport import raw_http
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
TOKEN = "0123456789abcdefghij" * 11
"""A token that is longer than the quoted part of a body."""


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize("body", [f"{TOKEN} was revoked", f"no {TOKEN}", f"{TOKEN} " * (MAX_ERROR_BODY // 100)])
async def test_a_quoted_token_is_removed_before_the_text_is_cut(status: int, body: str) -> None:
    async def answer(request: ReceivedRequest) -> None:
        await request.reply(status, body.encode(), "text/plain")

    register_server_secret(TOKEN)
    async with raw_http.serve(answer) as server:
        client = create_client("x", server.url, {}, warn=print)
        try:
            reply = await client.request("POST", b"{}", {})
            message = reply.status_error(await reply.read_error_body(), "ping").message
        except Unauthorized as error:
            message = error.message
        await client.close()
    assert TOKEN[:20] not in message
    assert "[secret]" in message
    assert len(message) < SHOWN_BODY_LENGTH + 200
