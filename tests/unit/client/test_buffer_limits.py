"""Tests that a server's unread messages are bounded in bytes, not only in number."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.client import pre_init
from mcphost.client.incoming_requests import MAX_PENDING_BYTES
from mcphost.client.session import ServerRequestContext
from mcphost.host.event_bus import EventBus
from mcphost.host.servers.server_log import ServerLogBuffer
from mcphost.protocol.jsonrpc import JsonRpcErrorResponse, parse_message
from mcphost.protocol.server_requests import ClientResult, ListRootsResult, Root, ServerRequest
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.roots_requests import answer_requests
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to
from tests.unit.transport.raw_http import MEGABYTE

LONG = b"a" * MEGABYTE
ROOTS = ListRootsResult((Root("file:///a"),))


def memory_of(make: Callable[[], object]) -> int:
    """Return the memory in bytes that the value returned by *make* occupies."""
    tracemalloc.start()
    try:
        kept = make()
        size, _peak = tracemalloc.get_traced_memory()
        assert kept
        return size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"x","params":{},"other":"%s"}',
        b'{"jsonrpc":"2.0","id":%%d,"method":"x","params":{},"other":"%s"}',
        b'{"other":"%s","jsonrpc":"2.0","id":%%d,"result":{}}',
        b'{"jsonrpc":"2.0","id":%%d,"error":{"code":1,"message":"m","data":1,"other":"%s"}}',
    ],
)
def test_a_small_message_in_a_long_line_does_not_keep_the_line(line: bytes) -> None:
    line = line % LONG
    lines: Any = ((line % number if b"%d" in line else line + b" " * number) for number in range(20))
    assert memory_of(lambda: [parse_message(line) for line in lines]) < 2 * MEGABYTE


def test_text_logged_once_is_not_stored_in_full() -> None:
    log = ServerLogBuffer("s", EventBus())

    def say() -> ServerLogBuffer:
        for number in range(100):
            log.warn_once(f"{number} " + "w" * 100_000)
            log.warn_once(f"{number} " + "w" * 100_000)
        return log

    assert memory_of(say) < 2 * MEGABYTE
    assert len(log.lines()) == 100


@pytest.mark.anyio
async def test_questions_before_the_session_are_held_up_to_a_byte_limit_and_refused_beyond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pre_init, "MAX_QUEUED_BYTES", 10_000)
    count = 20

    opened: list[Any] = []

    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        opened.append(peer.ident)
        return NO_REPLY

    async def ask_and_open() -> None:
        await peer.wait_until(lambda: bool(opened))
        for number in range(count):
            peer.say(id=f"q{number}", method="roots/list", params={"pad": "a" * 500})
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
        peer.say(id=opened[0], result=result)

    peer = ScriptedServer(opening=opening)
    answers = FakeRequestHandler({"roots/list": ROOTS})
    async with anyio.create_task_group() as group:
        group.start_soon(ask_and_open)
        async with connect_to(peer, answers, era="handshake"):
            await peer.wait_until(lambda: len(peer.answers()) == count)
    refused = [answer for answer in peer.answers() if "error" in answer]
    assert len(answers.asked) == 9
    assert len(refused) == count - len(answers.asked)
    assert {item["error"]["message"] for item in refused} == {"Too many requests are waiting."}


class WaitingHandler(FakeRequestHandler):
    """A handler that replies once `go` is set."""

    def __init__(self) -> None:
        super().__init__({"roots/list": ROOTS})
        self.go = anyio.Event()

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        await self.go.wait()
        return await super().answer(request, context)


@pytest.mark.anyio
async def test_requests_waiting_for_answers_are_bounded_in_bytes_and_accepted_again_after_answers() -> None:
    answers = WaitingHandler()
    params = Raw(b'{"pad":"' + b"a" * 8 * MEGABYTE + b'"}')
    fit = MAX_PENDING_BYTES // len(params)
    async with answer_requests(answers) as requests:
        for number in range(fit + 3):
            requests.ask(number, params)
        await requests.until(lambda: len(requests.sent) == 3)
        refused = [message.id for message in requests.sent if isinstance(message, JsonRpcErrorResponse)]
        assert refused == [fit, fit + 1, fit + 2]
        answers.go.set()
        await requests.until(lambda: len(requests.sent) == fit + 3)
        requests.ask("later", params)
    assert len(answers.asked) == fit + 1
