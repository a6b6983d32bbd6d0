"""What is tried with each peer of the interop matrix, through the product's own opener, session and list watching."""

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast

import anyio
import anyio.to_thread

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.client.session import Session
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConnectionLost, McpHostError, RequestTimeout, UnsupportedCapability
from mcphost.host.events import EventBus, ResourceChanged
from mcphost.host.servers.catalog import ServerListing
from mcphost.host.servers.change_watcher import ChangeWatcher
from mcphost.protocol.completion import Complete, CompletionArgument, PromptReference
from mcphost.protocol.content import TextContent
from mcphost.protocol.notifications import LoggingMessageNotification, Notification, ProgressNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import ServerEras
from mcphost.protocol.server_requests import CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from tests.peers.interop.peers import Cell, KnownLimitation
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

PROBE_SECONDS = 30
RESTART_SECONDS = 60  # a Python library takes long to import on a busy machine
CELL_SECONDS = 150
REFRESH_SECONDS = 5.0
PARIS_BLOCK = Raw(b'{"type":"text","text":"Paris"}')


@dataclass(frozen=True)
class ProbeOutcome:
    """How one probe ended: without a fault when it passed; `limit` when it was expected not to."""

    probe: str
    fault: str = ""
    limit: KnownLimitation | None = None
    note: str = ""

    @property
    def is_good(self) -> bool:
        """Passed, or failed as expected."""
        return not self.fault if self.limit is None else self.limit.evidence in self.fault


class FakeEraStore:
    """An EraStore that starts empty."""

    def __init__(self) -> None:
        self.known: ServerEras | None = None

    def get(self, server: str, digest: str) -> ServerEras | None:
        return self.known

    def put(self, server: str, digest: str, eras: ServerEras) -> None:
        self.known = eras


class ProbeSession:
    """One connection to a peer, with everything that listens to it."""

    def __init__(self, cell: Cell, config: ServerConfig) -> None:
        self.cell = cell
        self.config = config
        self.eras = FakeEraStore()
        self.notes = RecordingObserver()
        self.answers = FakeRequestHandler(
            {
                "elicitation/create": ElicitResult("accept", {"name": "Ada"}),
                "sampling/createMessage": CreateMessageResult("assistant", PARIS_BLOCK, "demo"),
                "roots/list": ListRootsResult((Root("file:///work", "work"),)),
            }
        )
        self.answers.capabilities["elicitation"] = {"form": {}}
        self.session: Session
        self.watching: ChangeWatcher
        self.feeds = EventBus()
        self.feed = self.feeds.subscribe()
        self.note = ""
        self.start_again: Callable[[], Awaitable[None]] | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Be connected, and listen to changes."""
        opener = ClientSessionOpener(expand=str, eras=self.eras)
        async with AsyncExitStack() as stack:
            opening = opener.open(self.config, self.answers, self.notes)
            self.session = await stack.enter_async_context(opening)
            self.watching = ChangeWatcher(
                "peer",
                self.session,
                watched_uris={},
                events=self.feeds,
                warn=self.notes.warn,
                on_listing=self.on_features,
            )
            await self.watching.list_all()
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self.watching.run)
            yield
            tasks.cancel_scope.cancel()

    async def on_features(self, offers: ServerListing) -> None:
        """What is listed is read from `watching`."""

    async def call(self, tool: str, on_notice: Callable[[Notification], None] | None = None, **arguments: Any) -> str:
        """The text that a tool answers."""
        result = await self.session.request(
            CallTool(tool, arguments), on_notification=on_notice, deadline=PROBE_SECONDS
        )
        (block,) = result.parse_blocks()
        assert isinstance(block, TextContent), block
        assert not result.is_error, block.text
        return block.text

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait for something that needs no more of us; the probe's own limit ends it."""
        while not done():  # noqa: ASYNC110 - over many sources
            await anyio.sleep(0.02)


async def era(scene: ProbeSession) -> None:
    spoken = scene.session.facts.era
    scene.note = f"{scene.session.facts.revision}"
    late = scene.eras.known == "dual" and spoken == "handshake"
    assert late or spoken == scene.cell.era, f"spoke {spoken}, remembered {scene.eras.known}"
    if late:
        scene.note += " (dual, found late)"


async def tools(scene: ProbeSession) -> None:
    names = {tool.name for tool in (await list_tools(scene.session)).values}
    assert {"add", "steps", "form"} <= names, names
    assert await scene.call("add", a=2, b=3) == "5"


async def resources(scene: ProbeSession) -> None:
    assert [one.uri for one in (await list_resources(scene.session)).values] == ["demo://greeting"]
    read = await scene.session.request(ReadResource("demo://greeting"))
    assert [one.text for one in read.contents] == ["hello"]


async def templates(scene: ProbeSession) -> None:
    assert [one.uri_template for one in (await list_resource_templates(scene.session)).values] == [
        "demo://items/{ident}"
    ]
    read = await scene.session.request(ReadResource("demo://items/7"))
    assert [one.text for one in read.contents] == ["item 7"]


async def prompts(scene: ProbeSession) -> None:
    assert [one.name for one in (await list_prompts(scene.session)).values] == ["review"]
    filled = await scene.session.request(GetPrompt("review", {"code": "x"}))
    block = filled.messages[0].parse_content()
    assert isinstance(block, TextContent), block
    assert block.text == "Please review: x"


async def completion(scene: ProbeSession) -> None:
    asked = Complete(PromptReference("review"), CompletionArgument("code", "py"))
    assert (await scene.session.request(asked)).completion.values == ("python",)


async def progress(scene: ProbeSession) -> None:
    heard: list[Notification] = []
    assert await scene.call("steps", heard.append) == "done"
    values = [one.progress for one in heard if isinstance(one, ProgressNotification)]
    assert values, "no progress came"
    assert values[-1] == 3, values


async def logging(scene: ProbeSession) -> None:
    heard: list[Notification] = []
    with suppress(UnsupportedCapability):  # some servers log without declaring it
        await scene.session.set_log_level("info")
    assert await scene.call("log", heard.append) == "logged"
    await scene.until(lambda: any(_is_log(one) for one in (*heard, *scene.notes.logged)))


def _is_log(notice: Notification) -> bool:
    return isinstance(notice, LoggingMessageNotification) and b"look here" in bytes(notice.data)


def _has_added(scene: ProbeSession) -> bool:
    catalog = scene.watching.listing.catalog
    names = [[one.name for one in kind] for kind in (catalog.tools, catalog.prompts, catalog.resources)]
    return all("added" in kind for kind in names)


async def list_changes(scene: ProbeSession) -> None:
    tools = scene.session.facts.capabilities.tools
    if scene.session.facts.era == "stateless" and tools is not None and tools.list_changed:
        await scene.until(lambda: scene.session.watched.tools)
    assert not _has_added(scene)
    await scene.call("change")
    begun = monotonic()
    await scene.until(lambda: _has_added(scene))
    took = monotonic() - begun
    scene.note = f"{took:.1f} s"
    assert took < REFRESH_SECONDS, f"the list was read anew after {took:.1f} s"
    assert await scene.call("added") == "new"


async def subscriptions(scene: ProbeSession) -> None:
    await scene.watching.watch("demo://greeting")
    scene.feed.drain()
    await scene.call("touch")
    updates: list[Any] = []
    await scene.until(lambda: bool(updates.extend(scene.feed.drain()) or updates))
    assert any(isinstance(one, ResourceChanged) and one.uri == "demo://greeting" for one in updates), updates
    await scene.watching.unwatch("demo://greeting")


async def form(scene: ProbeSession) -> None:
    assert await scene.call("form") == "Hello Ada"


async def sampling(scene: ProbeSession) -> None:
    assert await scene.call("model") == "Paris"


async def roots(scene: ProbeSession) -> None:
    assert (await scene.call("folders")).startswith("file:///work")


async def cancel(scene: ProbeSession) -> None:
    with suppress(RequestTimeout):
        await scene.session.request(CallTool("wait", {}), deadline=0.5)
    while await scene.call("cancelled") != "true":  # noqa: ASYNC110 - the server has to be asked
        await anyio.sleep(0.1)


async def restart(scene: ProbeSession) -> None:
    """The process dies in a call, and another one takes its place, with the same era."""
    known = scene.eras.known
    with suppress(ConnectionLost):
        await scene.call("crash")
        raise AssertionError("the crash was not told")
    if scene.cell.transport == "http":
        # The session goes on with whoever listens at that address now.
        assert scene.start_again is not None
        await scene.start_again()
        assert await scene.call("add", a=1, b=1) == "2"
        return
    await scene.session.wait_closed()
    if scene.start_again is not None:
        await scene.start_again()
    again = ProbeSession(scene.cell, scene.config)
    again.eras = scene.eras
    async with again.connected():
        assert await again.call("add", a=1, b=1) == "2"
        assert again.session.facts.era == scene.cell.era
        assert scene.eras.known == known


Probe = Callable[[ProbeSession], Awaitable[None]]
ALL: dict[str, Probe] = {
    "era": era,
    "tools": tools,
    "resources": resources,
    "templates": templates,
    "prompts": prompts,
    "completion": completion,
    "progress": progress,
    "logging": logging,
    "list changes": list_changes,
    "subscriptions": subscriptions,
    "form": form,
    "sampling": sampling,
    "roots": roots,
    "cancel": cancel,
    "restart": restart,
}
LATE_START_PROBES = ("era", "tools", "form", "list changes")
"""What depends on the era that was found; the rest does not depend on how late a server starts."""


def probes_of(cell: Cell) -> list[str]:
    """Which probes are tried."""
    return list(LATE_START_PROBES if cell.delay else ALL)


async def run(cell: Cell) -> list[ProbeOutcome]:
    """Try everything with one peer. Raises PeersMissing."""
    names = probes_of(cell)
    outcomes: list[ProbeOutcome] = []
    async with _open_probe_session(cell) as scene:
        try:
            with anyio.fail_after(CELL_SECONDS):
                async with scene.connected():
                    for name in names:
                        outcomes.append(await _run_probe(name, scene))  # noqa: PERF401
        except (McpHostError, TimeoutError, ExceptionGroup) as error:
            rest = names[len(outcomes) :]
            outcomes += [ProbeOutcome(name, f"no connection: {_error_text(error)}") for name in rest]
    return outcomes


async def _run_probe(name: str, scene: ProbeSession) -> ProbeOutcome:
    fault, scene.note = "", ""
    limit = RESTART_SECONDS if name == "restart" else PROBE_SECONDS
    try:
        with anyio.fail_after(limit):
            await ALL[name](scene)
    except TimeoutError:
        fault = f"not within {limit} s"
    except (McpHostError, AssertionError, ExceptionGroup) as error:
        fault = _error_text(error)
    return ProbeOutcome(name, fault, scene.cell.limit(name), scene.note)


def _error_text(error: BaseException) -> str:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


@asynccontextmanager
async def _open_probe_session(cell: Cell) -> AsyncIterator[ProbeSession]:
    """A scene with the peer, which is started here unless stdio is its transport."""
    command, demanded = cell.peer.command(cell.transport, cell.delay), cell.peer.demanded or "auto"
    if cell.transport == "stdio":
        yield ProbeSession(cell, ServerConfig(name="peer", command=command[0], args=tuple(command[1:]), era=demanded))
        return
    process, port = await anyio.to_thread.run_sync(_start_listening, command, 0)
    path, kind = ("/sse", "sse") if cell.transport == "sse" else ("/mcp", "auto")
    scene = ProbeSession(
        cell, ServerConfig(name="peer", url=f"http://127.0.0.1:{port}{path}", transport=kind, era=demanded)
    )

    async def start_again() -> None:
        nonlocal process
        await anyio.to_thread.run_sync(process.communicate)
        process, _ = await anyio.to_thread.run_sync(_start_listening, command, port)

    scene.start_again = start_again
    try:
        yield scene
    finally:
        process.kill()
        process.communicate()


def _start_listening(command: list[str], port: int) -> tuple[subprocess.Popen[str], int]:
    """A process that listens on that port, or on any with 0; and on which."""
    environment = {**os.environ, "FASTMCP_LOG_LEVEL": "CRITICAL", "PEER_PORT": str(port)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    return process, int(process.stdout.readline())
