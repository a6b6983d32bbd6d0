"""The probes of the interop matrix: small tests of one feature that use mcphost's own session code."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, cast

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, McpHostError, RequestTimeout, UnsupportedCapability
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ResourceChanged
from mcphost.host.servers.catalog import ServerListing
from mcphost.host.servers.change_watcher import ChangeWatcher
from mcphost.protocol.content import TextContent
from mcphost.protocol.notifications import LoggingMessageNotification, Notification, ProgressNotification
from mcphost.protocol.prompts import Complete, CompletionArgument, GetPrompt, PromptReference
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from tests.peers.interop.host_probes import HOST_PROBES, HostProbeSession, open_host_session
from tests.peers.interop.peers import START_LIMITS, TIMED_OUT, Cell, KnownLimitation
from tests.peers.interop.running_peer import FakeEraStore, RunningPeer, open_peer
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver

PROBE_SECONDS = 30
RESTART_SECONDS = 90  # a Python library takes long to import on a busy machine
SILENCE_SECONDS = 5  # for what never comes
CELL_SECONDS = 170
REFRESH_SECONDS = 5.0
PARIS_BLOCK = Raw(b'{"type":"text","text":"Paris"}')


@dataclass(frozen=True)
class ProbeOutcome:
    """The outcome of one probe: `fault` is its error ("" if it passed), and `limit` is set if it must fail."""

    probe: str
    fault: str = ""
    limit: KnownLimitation | None = None
    note: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the probe passed, or failed with the expected error."""
        return not self.fault if self.limit is None else self.limit.evidence in self.fault


class ProbeSession:
    """The connection to one peer, with everything that listens to it."""

    def __init__(self, peer: RunningPeer) -> None:
        self.cell = peer.cell
        self.peer = peer
        self.eras = FakeEraStore()
        self.observer = RecordingObserver()
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

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Connect to the peer and watch for changes until the block ends."""
        opener = ClientSessionOpener(limits=START_LIMITS, eras=self.eras)
        async with AsyncExitStack() as stack:
            opening = opener.open(self.peer.config, self.answers, self.observer)
            self.session = await stack.enter_async_context(opening)
            self.watching = ChangeWatcher(
                "peer",
                self.session,
                watched_uris={},
                events=self.feeds,
                warn=self.observer.warn,
                on_listing=self.on_features,
            )
            await self.watching.list_all()
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self.watching.run)
            yield
            tasks.cancel_scope.cancel()

    async def on_features(self, offers: ServerListing) -> None:
        """Do nothing, because the probes read the lists from `watching`."""

    async def call(self, tool: str, on_notice: Callable[[Notification], None] | None = None, **arguments: Any) -> str:
        """Call a tool and return the text of its result, which must be a single text and no error."""
        result = await self.session.request(
            CallTool(tool, arguments), on_notification=on_notice, deadline=PROBE_SECONDS
        )
        (block,) = result.parse_blocks()
        assert isinstance(block, TextContent), block
        assert not result.is_error, block.text
        return block.text

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until *done* returns True; the probe's own time limit applies."""
        while not done():  # noqa: ASYNC110 - over many sources
            await anyio.sleep(0.02)


async def era(probe: ProbeSession) -> None:
    spoken = probe.session.facts.era
    probe.note = f"{probe.session.facts.revision}"
    late = probe.eras.known == "dual" and spoken == "handshake"
    assert late or spoken == probe.cell.era, f"spoke {spoken}, remembered {probe.eras.known}"
    if late:
        probe.note += " (dual, found late)"


async def tools(probe: ProbeSession) -> None:
    names = {tool.name for tool in (await list_tools(probe.session)).values}
    assert {"add", "steps", "form"} <= names, names
    assert await probe.call("add", a=2, b=3) == "5"


async def resources(probe: ProbeSession) -> None:
    assert [resource.uri for resource in (await list_resources(probe.session)).values] == ["demo://greeting"]
    read = await probe.session.request(ReadResource("demo://greeting"))
    assert [content.text for content in read.contents] == ["hello"]


async def templates(probe: ProbeSession) -> None:
    assert [template.uri_template for template in (await list_resource_templates(probe.session)).values] == [
        "demo://items/{ident}"
    ]
    read = await probe.session.request(ReadResource("demo://items/7"))
    assert [content.text for content in read.contents] == ["item 7"]


async def prompts(probe: ProbeSession) -> None:
    assert [prompt.name for prompt in (await list_prompts(probe.session)).values] == ["review"]
    filled = await probe.session.request(GetPrompt("review", {"code": "x"}))
    block = filled.messages[0].parse_content()
    assert isinstance(block, TextContent), block
    assert block.text == "Please review: x"


async def completion(probe: ProbeSession) -> None:
    params = Complete(PromptReference("review"), CompletionArgument("code", "py"))
    assert (await probe.session.request(params)).completion.values == ("python",)


async def progress(probe: ProbeSession) -> None:
    notifications: list[Notification] = []
    assert await probe.call("steps", notifications.append) == "done"
    values = [event.progress for event in notifications if isinstance(event, ProgressNotification)]
    assert values, "no progress came"
    assert values[-1] == 3, values


async def logging(probe: ProbeSession) -> None:
    notifications: list[Notification] = []
    with suppress(UnsupportedCapability):  # some servers log without declaring it
        await probe.session.set_log_level("info")
    assert await probe.call("log", notifications.append) == "logged"
    await probe.until(lambda: any(_is_log(item) for item in (*notifications, *probe.observer.logged)))


def _is_log(notice: Notification) -> bool:
    return isinstance(notice, LoggingMessageNotification) and b"look here" in bytes(notice.data)


def _has_added(probe: ProbeSession) -> bool:
    catalog = probe.watching.listing.catalog
    names = [[item.name for item in kind] for kind in (catalog.tools, catalog.prompts, catalog.resources)]
    return all("added" in kind for kind in names)


async def list_changes(probe: ProbeSession) -> None:
    tools = probe.session.facts.capabilities.tools
    if probe.session.facts.era == "stateless" and tools is not None and tools.list_changed:
        await probe.until(lambda: probe.session.watched.tools)
    assert not _has_added(probe)
    await probe.call("change")
    started_at = monotonic()
    await probe.until(lambda: _has_added(probe))
    took = monotonic() - started_at
    probe.note = f"{took:.1f} s"
    assert took < REFRESH_SECONDS, f"the list was read anew after {took:.1f} s"
    assert await probe.call("added") == "new"


async def subscriptions(probe: ProbeSession) -> None:
    await probe.watching.watch("demo://greeting")
    probe.feed.drain()
    await probe.call("touch")
    updates: list[Any] = []
    await probe.until(lambda: bool(updates.extend(probe.feed.drain()) or updates))
    assert any(isinstance(update, ResourceChanged) and update.uri == "demo://greeting" for update in updates), updates
    await probe.watching.unwatch("demo://greeting")


async def form(probe: ProbeSession) -> None:
    assert await probe.call("form") == "Hello Ada"


async def sampling(probe: ProbeSession) -> None:
    assert await probe.call("model") == "Paris"


async def roots(probe: ProbeSession) -> None:
    assert (await probe.call("folders")).startswith("file:///work")


async def cancel(probe: ProbeSession) -> None:
    with suppress(RequestTimeout):
        await probe.session.request(CallTool("wait", {}), deadline=0.5)
    while await probe.call("cancelled") != "true":  # noqa: ASYNC110 - the server has to be asked
        await anyio.sleep(0.1)


async def restart(probe: ProbeSession) -> None:
    """Kill the server during a call, and check that a new process works in the same era."""
    known = probe.eras.known
    with suppress(ConnectionLost):
        await probe.call("crash")
        raise AssertionError("the crash was not told")
    if probe.cell.transport == "http":
        # The session continues with the process that listens at that address now.
        assert probe.peer.start_again is not None
        await probe.peer.start_again()
        assert await probe.call("add", a=1, b=1) == "2"
        return
    await probe.session.wait_closed()
    if probe.peer.start_again is not None:
        await probe.peer.start_again()
    again = ProbeSession(probe.peer)
    again.eras = probe.eras
    async with again.connected():
        assert await again.call("add", a=1, b=1) == "2"
        assert again.session.facts.era == probe.cell.era
        assert probe.eras.known == known


Probe = Callable[[ProbeSession], Awaitable[None]]
SESSION_PROBES: dict[str, Probe] = {
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
ALL = (*SESSION_PROBES, *HOST_PROBES)
"""The names of all probes, which are run for every combination."""

_RESTARTING = frozenset({"restart", "form at start", "restart in call", "crash in call"})


async def run(cell: Cell) -> list[ProbeOutcome]:
    """Run all probes of one combination. Raises PeersMissing."""
    return await run_session_probes(cell) + await _run_part(cell, tuple(HOST_PROBES), _probe_host)


async def run_session_probes(cell: Cell) -> list[ProbeOutcome]:
    """Run the probes of one combination that need no Host. Raises PeersMissing."""
    return await _run_part(cell, tuple(SESSION_PROBES), _probe_session)


async def _run_part(
    cell: Cell, names: tuple[str, ...], run_probes: Callable[[RunningPeer, list[ProbeOutcome]], Awaitable[None]]
) -> list[ProbeOutcome]:
    """Run these probes with one peer; if the connection fails, those that are left have failed."""
    outcomes: list[ProbeOutcome] = []
    try:
        with anyio.fail_after(CELL_SECONDS):
            async with open_peer(cell) as peer:
                await run_probes(peer, outcomes)
    except (McpHostError, TimeoutError, ExceptionGroup) as error:
        rest = names[len(outcomes) :]
        outcomes += [ProbeOutcome(name, f"no connection: {_error_text(error)}") for name in rest]
    return outcomes


async def _probe_session(peer: RunningPeer, outcomes: list[ProbeOutcome]) -> None:
    probe = ProbeSession(peer)
    async with probe.connected():
        for name, work in SESSION_PROBES.items():
            outcomes.append(await _run_probe(name, probe, partial(work, probe)))


async def _probe_host(peer: RunningPeer, outcomes: list[ProbeOutcome]) -> None:
    async with open_host_session(peer) as probe:
        for name, work in HOST_PROBES.items():
            outcomes.append(await _run_probe(name, probe, partial(work, probe)))


async def _run_probe(
    name: str, probe: ProbeSession | HostProbeSession, work: Callable[[], Awaitable[None]]
) -> ProbeOutcome:
    fault, probe.note = "", ""
    limitation = probe.peer.cell.limit(name)
    seconds = RESTART_SECONDS if name in _RESTARTING else PROBE_SECONDS
    if limitation is not None and limitation.evidence == TIMED_OUT:
        seconds = SILENCE_SECONDS
    try:
        with anyio.fail_after(seconds):
            await work()
    except TimeoutError:
        fault = f"{TIMED_OUT} {seconds} s"
    except (McpHostError, AssertionError, ExceptionGroup) as error:
        fault = _error_text(error)
    return ProbeOutcome(name, fault, limitation, probe.note)


def _error_text(error: BaseException) -> str:
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]
