"""Tests for what errors quote of a server's answer."""

import anyio
import pytest

from mcphost.redact import register_server_secret
from mcphost.transport import http_client
from mcphost.transport.channel import Unauthorized
from mcphost.transport.http_client import MAX_ERROR_BODY, SHOWN_BODY_LENGTH, create_client
from tests.unit.transport import raw_http
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = pytest.mark.anyio
TOKEN = "0a1b2c3d4e5f6g7h8i9j" * 11
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


@pytest.mark.parametrize("status", [401, 500])
async def test_of_a_body_that_does_not_end_the_first_part_is_quoted(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "ERROR_BODY_TIMEOUT", 0.1)

    async def answer(request: ReceivedRequest) -> None:
        await request.send(b"HTTP/1.1 %d X\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbusy\r\n" % status)
        await request.wait_closed()

    async with raw_http.serve(answer) as server:
        client = create_client("x", server.url, {}, warn=print)
        with anyio.fail_after(5):
            try:
                reply = await client.request("POST", b"{}", {})
                message = reply.status_error(await reply.read_error_body(), "ping").message
                reply.close()
            except Unauthorized as error:
                message = error.message
        await client.close()
    assert "busy" in message
