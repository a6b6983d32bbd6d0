"""Tests that a delayed reply contains only what may be shared at the time it is sent."""

import anyio
import anyio.lowlevel
import pytest

from mcphost.client.pre_init import MAX_CONCURRENT_SENDS
from mcphost.protocol.jsonrpc import JsonRpcResponse
from mcphost.protocol.server_requests import ClientResult, ListRootsResult, Root
from mcphost.serialization import loads
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.roots_requests import answer_requests

pytestmark = pytest.mark.anyio


class FewerFoldersHandler(FakeRequestHandler):
    """A handler that, once `left` is set, shares only the first folder, as if the user had removed the others."""

    left = False

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        assert isinstance(reply, ListRootsResult)
        return ListRootsResult(reply.roots[:1]) if self.left else reply


@pytest.mark.req("roots.permissions")
async def test_a_folder_that_left_the_list_while_the_answer_waited_to_be_sent_is_not_in_it() -> None:
    answers = FewerFoldersHandler({"roots/list": ListRootsResult((Root("file:///a"), Root("file:///b")))})
    go = anyio.Event()
    async with answer_requests(answers, held=go) as requests:
        for number in range(MAX_CONCURRENT_SENDS + 1):
            requests.ask(number)
        await requests.until(
            lambda: len(answers.asked) > MAX_CONCURRENT_SENDS and len(requests.sent) == MAX_CONCURRENT_SENDS
        )
        answers.left = True
        go.set()
    counts = [len(loads(message.result)["roots"]) for message in requests.sent if isinstance(message, JsonRpcResponse)]
    assert counts == [2] * MAX_CONCURRENT_SENDS + [1]
