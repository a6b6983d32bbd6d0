"""Fuzz stdio sessions with mutated lines, thousands of sessions in one process.

Each session is opened with a peer that behaves, which then sends broken lines while calls are waiting, and finally
behaves again. Every call must end with a result or an McpHostError, and the session must still work.
"""

import asyncio
import random
import time
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import (
    MAX_ITEMS,
    list_prompts,
    list_resource_templates,
    list_resources,
    list_skills,
    list_tools,
)
from mcphost.client.session import Session, WatchedChanges
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, McpHostError
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.jsonrpc import JsonRpcRequest, JsonRpcResponse, parse_message
from mcphost.protocol.prompts import (
    Complete,
    CompletionArgument,
    CompletionContext,
    GetPrompt,
    GetPromptResult,
    ListPrompts,
    PromptReference,
)
from mcphost.protocol.resources import ListResources, ListResourceTemplates, ReadResource
from mcphost.protocol.server_requests import CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.skills import GetSkill, ListSkills
from mcphost.protocol.tasks import GetTask, ListTasks
from mcphost.protocol.tools import CallTool, CallToolResult, ListTools
from mcphost.serialization import Raw
from mcphost.transport.channel import Channel
from mcphost.transport.flow_control import MAX_QUEUED
from mcphost.transport.line_reader import LineSplitter
from mcphost.transport.multiplexer import MAX_KEPT_LINES, Multiplexer
from tests.fuzz import corpus
from tests.fuzz.monitor import FuzzReport, run_monitored
from tests.fuzz.mutator import Mutator
from tests.spec.manifest import REVISIONS
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

LINE_LIMIT = 1024 * 1024
LINES_PER_SESSION = 200
CONCURRENT_SESSIONS = 6
REQUEST_TIMEOUT = 5.0
# The longest call: ten input rounds, each with its own time limit and a wait before it.
FLOODED = "without reading the responses"  # a thousand requests in one array, twice: the client stops this server
LONGEST_CALL = 11 * (REQUEST_TIMEOUT + 5.0) + 1.0
ARGUMENT = CompletionArgument("x", "a")
CALLS: tuple[ClientRequest[Any], ...] = (
    CallTool("t1", {"a": 1}),
    CallTool("o", {"a": 1}),
    ReadResource("demo://a"),
    GetPrompt("p"),
    ListTools(),
    ListResources(),
    ListResourceTemplates(),
    ListPrompts(),
    Complete(PromptReference("p"), ARGUMENT, CompletionContext({"y": "b"})),
    GetTask("t1"),
    ListTasks(),
    ListSkills(),
    GetSkill("skill://a/SKILL.md"),
)
LISTINGS = (list_tools, list_resources, list_resource_templates, list_prompts, list_skills)
VALID_REQUEST = ReadResource("demo://asked/once")
"""Asked at the end; lists may be remembered from before."""


class PipePeer:
    """The server's end of a pipe, from which the client reads as from a child process."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.stateless = revision == REVISIONS[-1]
        self.behaves = True
        self.open: dict[int | str, str] = {}
        self.reader = LineSplitter(LINE_LIMIT)
        self.mux = Multiplexer(self._receive, None, lambda text: None, "fuzz")
        self.lost = False

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Channel]:
        """Connect the client to the pipe, as a Connector does."""
        try:
            yield self.mux
        finally:
            self.mux.connection_lost(ConnectionLost("closed"))

    def _receive(self, line: bytes) -> None:
        message = parse_message(line)  # what the client writes is always a message
        if isinstance(message, JsonRpcRequest):
            self.open[message.id] = message.method
            if self.behaves:
                self.answer(message.id)
        elif not isinstance(message, JsonRpcResponse) and getattr(message, "method", "") == "notifications/cancelled":
            self.open.clear()

    def answer(self, ident: int | str, which: int = 0) -> None:
        """Send a valid response to an open request; a subscription gets none and stays open."""
        method = self.open.pop(ident)
        if method == "subscriptions/listen":
            return
        # An endless task would be followed forever.
        message = self.valid_answer(ident, method, 1 if method == "tasks/get" else which)
        self.write_later(Mutator(random.Random(0)).encode(message) + b"\n")

    def valid_answer(self, ident: int | str, method: str, which: int = 0) -> dict[str, Any]:
        """Return a valid response to a request in the peer's revision."""
        return valid_answer_for(ident, method, self.revision, which)

    def write_later(self, data: bytes) -> None:
        """Send a message in the next iteration of the event loop, as a pipe would deliver it."""
        asyncio.get_running_loop().call_soon(self.feed, data)

    def feed(self, data: bytes) -> None:
        """Pass bytes to the client as if a child process had written them (see `transport.stdio`)."""
        if self.lost:
            return
        try:
            lines = self.reader.feed(data)
        except MalformedMessage as error:
            self.lost = True
            self.mux.connection_lost(ConnectionLost(error.message))
            return
        for line in lines:
            self.mux.receive_line(line)


def valid_answer_for(ident: int | str, method: str, revision: str, which: int) -> dict[str, Any]:
    """Return one of several responses that are valid for a server of this revision."""
    stateless = revision == REVISIONS[-1]
    if method == "server/discover" and not stateless:
        return {"jsonrpc": "2.0", "id": ident, "error": {"code": -32601, "message": "Method not found"}}
    if method == "initialize":
        return {"jsonrpc": "2.0", "id": ident, "result": corpus.initialize_result(revision)}
    if method == "server/discover":
        return {"jsonrpc": "2.0", "id": ident, "result": corpus.discover_result()}
    return {"jsonrpc": "2.0", "id": ident, "result": corpus.result_for(method, stateless=stateless, which=which)}


class FuzzOpener(ClientSessionOpener):
    """mcphost's session opener, connected to the pipe of a peer."""

    def __init__(self, peer: PipePeer) -> None:
        super().__init__(limits=Limits(request_timeout=REQUEST_TIMEOUT, request_timeout_max=REQUEST_TIMEOUT))
        self._peer = peer

    def _create_connector(self, server: ServerConfig, observer: object, oauth: object) -> Any:
        return self._peer


def request_handler() -> FakeRequestHandler:
    """Return a handler that answers every kind of server request."""
    return FakeRequestHandler(
        {
            "roots/list": ListRootsResult((Root("file:///project", "project"),)),
            "sampling/createMessage": CreateMessageResult("assistant", Raw(b'{"type":"text","text":"Paris"}'), "m"),
            "elicitation/create": ElicitResult("accept", {"name": "Ada"}),
        }
    )


async def exercise(session: Session, rng: random.Random) -> None:
    """Send a random request, and use its result as the host would."""
    if rng.random() < 0.2:
        listing = await rng.choice(LISTINGS)(session)
        assert len(listing.entries) + len(listing.problems) <= MAX_ITEMS + 1
        return
    result = await session.request(rng.choice(CALLS), on_notification=lambda notice: None)
    match result:
        case CallToolResult():
            result.parse_blocks()
        case GetPromptResult():
            for message in result.messages:
                message.parse_content()


class FuzzSession:
    """A session, and the broken lines that its peer sends."""

    def __init__(self, report: FuzzReport, seed: str, lines: int) -> None:
        self.report = report
        self.where = f"lines {seed}"
        self.rng = random.Random(seed)
        self.mutator = Mutator(self.rng)
        self.lines = lines
        self.peer = PipePeer(self.rng.choice(REVISIONS))
        self.calls = 0

    async def run(self) -> None:
        """Open the session, send the broken lines, and check that the session still works."""
        rng, peer = self.rng, self.peer
        if rng.random() < 0.1:
            for _ in range(rng.randrange(20)):
                peer.write_later(self.broken_line() + b"\n")
                self.report.inputs += 1
                self.lines -= 1
        era = "auto" if rng.random() < 0.5 else "stateless" if peer.stateless else "handshake"
        config = ServerConfig(name="fuzz", command="fuzz", era=era)  # type: ignore[arg-type]
        try:
            async with FuzzOpener(peer).open(config, request_handler(), RecordingObserver()) as session:
                await self.break_and_recover(session)
        except McpHostError as error:
            # Lines before the handshake may break it; afterwards nothing may end the block with an error.
            self.report.outcomes[f"not opened ({type(error).__name__})"] += 1
        self.report.sessions += 1

    async def break_and_recover(self, session: Session) -> None:
        """Send the broken lines while calls are waiting, and check that the session recovers."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.watch, session)
            await list_tools(session)  # or it would not be known which of them are tasks
            self.peer.behaves = False
            await self.send_lines(session, group)
            self.peer.feed(b"\n")
            await self.answer_open_requests()
            if not self.peer.lost:
                await self.check_session(session)
            group.cancel_scope.cancel()

    async def send_lines(self, session: Session, group: Any) -> None:
        left = self.lines
        while left > 0:
            some = min(left, 1 + self.rng.randrange(12))
            left -= some
            self.report.inputs += some
            data = b"".join(self.broken_line() + b"\n" for _ in range(some))
            for _ in range(CONCURRENT_SESSIONS - self.calls):  # and no more: all of them may fail at once, forever
                self.calls += 1
                group.start_soon(self.call, session)
                await anyio.lowlevel.checkpoint()
            for piece in self.mutator.split(data):
                started_at = time.perf_counter()
                self.peer.feed(piece)
                await anyio.lowlevel.checkpoint()
                self.report.add_duration(self.where, time.perf_counter() - started_at)

    def broken_line(self) -> bytes:
        """Return a broken line, or a valid one that is out of place."""
        rng, peer = self.rng, self.peer
        roll = rng.random()
        if roll < 0.0002:
            return b"x" * (LINE_LIMIT + 1)
        if roll < 0.003:
            return rng.choice((b"", b" ", b"null", b"[]", b"{}", b"Listening on port 3000", b"\x1b[32mready\x1b[0m"))
        idents = list(peer.open) or [1]
        ident = rng.choice(idents)
        if roll < 0.55:
            method = peer.open.get(ident, "tools/call")
            message = peer.valid_answer(ident, method, rng.randrange(4))
            if roll < 0.1:
                message = {"jsonrpc": "2.0", "id": ident, "error": rng.choice(corpus.ERRORS)}
            elif roll < 0.2:
                message["result"] = {"resultType": "input_required", **rng.choice(corpus.INPUT_REQUIRED)}
        elif roll < 0.75:
            message = {"jsonrpc": "2.0", **rng.choice(corpus.NOTIFICATIONS)}
            if "progress" in message["method"]:
                message["params"] = {**message["params"], "progressToken": ident}
        else:
            message = {"jsonrpc": "2.0", "id": rng.choice((ident, "q1", 7)), **rng.choice(corpus.SERVER_REQUESTS)}
        if rng.random() < 0.03:
            return self.mutator.encode_mutated([message] * rng.choice((1, 2, 2, 3, 50, 50, 50, 1001)))
        return self.mutator.encode_mutated(message)

    async def call(self, session: Session) -> None:
        """Send one request, and check that it ends with a result or an McpHostError."""
        started_at = anyio.current_time()
        try:
            await exercise(session, self.rng)
            outcome = "results"
        except McpHostError as error:
            outcome = type(error).__name__
        except Exception:  # noqa: BLE001 - the very thing this is about
            outcome = "uncaught"
            self.report.add_fault(self.where, traceback.format_exc())
        finally:
            self.calls -= 1
        self.report.outcomes[outcome] += 1
        if (took := anyio.current_time() - started_at) > LONGEST_CALL:
            self.report.add_fault(self.where, f"a call took {took:.0f} s of its clock")

    async def watch(self, session: Session) -> None:
        """Receive change notifications while the broken lines arrive."""
        try:
            async for _ in session.changes(
                WatchedChanges(tools=True, resources=True, prompts=True, uris=("demo://a",))
            ):
                self.report.outcomes["changes heard"] += 1
        except McpHostError:
            return

    async def answer_open_requests(self) -> None:
        """Let the peer behave and answer all open requests; report a fault if calls never end."""
        peer = self.peer
        peer.behaves = True
        until = anyio.current_time() + LONGEST_CALL
        while self.calls > 0:
            for ident in list(peer.open):
                peer.answer(ident)
            await anyio.sleep(0.01)
            if anyio.current_time() > until:
                self.report.add_fault(self.where, f"{self.calls} calls never ended")
                return

    async def check_session(self, session: Session) -> None:
        """Check that the session accepts a valid response, and has kept no state of the calls."""
        mux = self.peer.mux
        try:
            result = await session.request(VALID_REQUEST)
        except McpHostError as error:
            if isinstance(error, ConnectionLost) and FLOODED in error.message:
                self.report.outcomes["sessions stopped for a flood"] += 1
            else:
                self.report.add_fault(self.where, f"the session is broken: {error}")
            return
        if len(result.contents) != 2:
            self.report.add_fault(self.where, "a whole answer was not read as such")
        left = [item for item in mux._pending.values() if item._request.method != "subscriptions/listen"]
        if left or len(mux.malformed_lines) > MAX_KEPT_LINES or len(mux.unsolicited()._items) > MAX_QUEUED:
            self.report.add_fault(self.where, "something grew without a bound")
        self.report.outcomes["sessions survived"] += 1


def run(count: int, seed: int, first: int = 0) -> FuzzReport:
    """Send *count* broken lines in as many sessions as needed; *first* is the number of the first session."""
    report = FuzzReport(seed)

    async def work() -> None:
        number = first
        while report.inputs < count:
            left = min(LINES_PER_SESSION, count - report.inputs)
            await FuzzSession(report, f"{seed}:{number}", left).run()
            number += 1

    return run_monitored(report, work)
