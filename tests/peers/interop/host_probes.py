"""The probes of the interop matrix that need a whole Host: calls while a server starts, and what survives a restart."""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcphost.client.connect import ClientSessionOpener
from mcphost.config.schema import HostConfig
from mcphost.errors import ConnectionLost, McpHostError
from mcphost.host.bootstrap import build_host
from mcphost.host.events import ResourceChanged
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import Accept, FillForm
from mcphost.serialization import replace
from mcphost.store.database import Database
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel
from tests.peers.interop.peers import START_LIMITS
from tests.peers.interop.running_peer import FakeEraStore, RunningPeer

MAX_QUESTIONS = 50
GREETING = "demo://greeting"


class HostProbeSession:
    """A Host with one peer as its server, which has begun to start when the first probe runs."""

    def __init__(self, host: Host, peer: RunningPeer) -> None:
        self.host = host
        self.peer = peer
        self.feed = host.events.subscribe()
        self.note = ""
        self.refusal: McpHostError | None = None  # the answer to the subscription

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool as the user would, and return the text of its result, which must be no error."""
        result = await self.host.tools.call("peer", tool, arguments)
        assert not result.is_error, result.text
        return result.text

    def tool_names(self) -> set[str]:
        """Return the names of the tools that the host knows."""
        return {tool.name for tool in self.host.servers.view("peer").catalog.tools}

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until *done* returns True; the probe's own time limit applies."""
        while not done():  # noqa: ASYNC110 - over many sources
            await anyio.sleep(0.02)

    async def lose_call(self, end: Callable[[], Awaitable[None]]) -> McpHostError:
        """Call `end` while the server handles a call; return the error of that call, which must not succeed."""
        errors: list[McpHostError] = []

        async def wait() -> None:
            try:
                await self.call("wait")
            except McpHostError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while await self.call("waiting") != "true":  # noqa: ASYNC110 - the server has to be asked
                await anyio.sleep(0.02)
            await end()
        assert errors, "the call outlived the server"
        return errors[0]


async def form_at_start(probe: HostProbeSession) -> None:
    """Call a tool that requests a form while the server is still starting."""
    assert probe.host.servers.view("peer").state != "ready"
    assert "Hello Ada" in await probe.call("form")


async def question_at_start(probe: HostProbeSession) -> None:
    """Check that a form which the server requested before any call was answered."""
    greeting = await probe.call("greeted")
    assert greeting == "Good morning Ada", greeting


async def restart_in_call(probe: HostProbeSession) -> None:
    """Subscribe to a resource, then restart the server as the user would, while it handles a call."""
    before = await _era(probe)
    try:
        await probe.host.features.subscribe("peer", GREETING)
    except McpHostError as error:
        probe.refusal = error

    async def restart() -> None:
        probe.host.servers.restart("peer")

    await probe.lose_call(restart)
    assert await probe.call("add", a=1, b=1) == "2"
    assert await _era(probe) == before
    if probe.peer.start_again is None:
        assert await probe.call("waiting") == "false", "the call was sent again"


async def crash_in_call(probe: HostProbeSession) -> None:
    """End the server's process while it handles two calls, and check that neither is sent again."""
    before = await _era(probe)

    async def crash() -> None:
        try:
            await probe.call("crash")
        except ConnectionLost:
            pass
        else:
            raise AssertionError("the crash was not reported")
        if probe.peer.start_again is not None:
            await probe.peer.start_again()

    error = await probe.lose_call(crash)
    assert isinstance(error, ConnectionLost), repr(error)
    await probe.until(lambda: probe.host.servers.find("peer").is_ready)  # else the call fails at once
    assert await probe.call("add", a=1, b=1) == "2"
    assert await probe.call("waiting") == "false", "the call was sent again"
    assert await _era(probe) == before


async def lists_after_restart(probe: HostProbeSession) -> None:
    """Check that the lists of the new process are known, and that its list changes are noticed."""
    newest = f"start_{len(probe.peer.starts.read_text().splitlines())}"
    await probe.until(lambda: newest in probe.tool_names())
    await probe.call("change")
    await probe.until(lambda: "added" in probe.tool_names())
    assert await probe.call("added") == "new"


async def subscription_after_restart(probe: HostProbeSession) -> None:
    """Check that the subscription from before the restart still reports changes."""
    if probe.refusal is not None:
        raise probe.refusal
    probe.feed.drain()
    await probe.call("touch")
    updates: list[Any] = []
    await probe.until(lambda: ResourceChanged("peer", GREETING) in _collect(probe, updates))


def _collect(probe: HostProbeSession, events: list[Any]) -> list[Any]:
    events.extend(probe.feed.drain())
    return events


async def _era(probe: HostProbeSession) -> str:
    return (await probe.host.servers.find("peer").session()).facts.era


HOST_PROBES: dict[str, Callable[[HostProbeSession], Awaitable[None]]] = {
    "form at start": form_at_start,
    "question at start": question_at_start,
    "restart in call": restart_in_call,
    "crash in call": crash_in_call,
    "lists kept": lists_after_restart,
    "subscription kept": subscription_after_restart,
}


def _answer(question: Question[Any]) -> Any:
    return Accept({"name": "Ada"}) if isinstance(question, FillForm) else question.refusal()


@asynccontextmanager
async def open_host_session(peer: RunningPeer) -> AsyncIterator[HostProbeSession]:
    """Open a Host whose only server is the peer, and begin to start it."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "store.db")
        host = build_host(
            HostConfig(servers=(replace(peer.config, source="flag"),), limits=START_LIMITS),
            store=database,
            opener=ClientSessionOpener(limits=START_LIMITS, eras=FakeEraStore()),
            model_factory=lambda _: ScriptedModel(),
            frontend=ScriptedFrontend(*[_answer] * MAX_QUESTIONS),
        )
        async with host:
            host.start(retry_unreachable=True)  # as the chat does
            yield HostProbeSession(host, peer)
        await database.close()
