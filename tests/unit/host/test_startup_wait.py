"""Tests for turns while servers are slow to start: how long a turn waits, and how late servers join it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client.connect import endpoint_digest
from mcphost.config import server_restrictions
from mcphost.config.schema import Limits, ServerConfig
from mcphost.host.events import HostEvent, NoticeEvent, RoundStarted, ServersAwaited, TurnStarted
from mcphost.host.questions.questions import AllowOnce
from mcphost.host.servers.connection import ServerConnection
from mcphost.protocol.jsonrpc import JsonRpcRequest
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.host_events import wait_for_event
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio


class HeldPeer(InProcessServer):
    """A server that delays all answers until the test calls `release`."""

    def __init__(self, *names: str) -> None:
        listed = {"tools/list": tools_result(*map(tool_definition, names))}
        super().__init__(listed, "2026-07-28", {"tools": {}}, {"name": "peer", "version": "1"})
        self._held: list[tuple[JsonRpcRequest, dict[str, Any]]] | None = []

    def release(self) -> None:
        held, self._held = self._held or [], None
        for request, params in held:
            self._answer(request, params)

    def _answer(self, request: JsonRpcRequest, params: dict[str, Any]) -> None:
        if self._held is None:
            super()._answer(request, params)
        else:
            self._held.append((request, params))


def offered_tools_by_request(model: ScriptedModel) -> list[list[str]]:
    """Return the names of the tools offered in each request to the model."""
    return [sorted(spec.name for spec in request.tools if "__" in spec.name) for request in model.requests]


def notice_texts(events: list[HostEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, NoticeEvent)]


async def test_a_turn_begins_without_a_server_that_is_slow_and_its_tools_join_the_next_round(tmp_path: Path) -> None:
    late = HeldPeer("slow")
    peers = {
        "here": create_peer(tools__list=tools_result(tool_definition("it")), tools__call=text_result("done")),
        "late": late,
    }
    model = ScriptedModel(tool_round(("here__it", {})), text_round("ok"), text_round("again"))

    async def release(_: Any) -> AllowOnce:
        late.release()
        await host.servers.ensure_ready("late")
        return AllowOnce()

    frontend = ScriptedFrontend(release)
    limits = Limits(server_wait=0.05)
    async with open_host_with(tmp_path, peers, model, frontend, lambda name: name == "here", limits=limits) as host:
        host.start()
        feed = host.events.subscribe()
        await host.conversation.send("go")
        await host.conversation.send("go on")
        events = feed.drain()
    assert offered_tools_by_request(model) == [["here__it"], ["here__it", "late__slow"], ["here__it", "late__slow"]]
    assert notice_texts(events) == [
        "Starting without the server 'late', which is not ready.",
        "The server 'late' is ready; its tools are now available.",
    ]
    kinds = [type(event) for event in events]
    assert kinds.index(TurnStarted) < kinds.index(NoticeEvent) < kinds.index(RoundStarted)


async def test_servers_that_become_ready_while_the_model_is_loaded_are_there_in_the_first_round(
    tmp_path: Path,
) -> None:
    late = HeldPeer("slow")

    class LoadingModel(ScriptedModel):
        async def prepare(self) -> None:
            late.release()
            await host.servers.ensure_ready("late")

    model = LoadingModel(text_round("ok"))
    limits = Limits(server_wait=0.05)
    async with open_host_with(tmp_path, {"late": late}, model, wait=lambda _: False, limits=limits) as host:
        host.start()
        feed = host.events.subscribe()
        await host.conversation.send("go")
        assert notice_texts(feed.drain()) == []
    assert offered_tools_by_request(model) == [["late__slow"]]


async def test_several_late_servers_are_named_as_they_are_written(tmp_path: Path) -> None:
    peers = {"Late": HeldPeer("slow"), "Silent": HeldPeer("slow")}
    model = ScriptedModel(text_round("ok"), text_round("again"))
    async with open_host_with(tmp_path, peers, model, wait=lambda _: False, limits=Limits(server_wait=0.05)) as host:
        host.start()
        feed = host.events.subscribe()
        await host.conversation.send("go")
        for name, peer in peers.items():
            peer.release()
            await host.servers.ensure_ready(name)
        await host.conversation.send("go on")
        assert notice_texts(feed.drain()) == [
            "Starting without the servers 'Late', 'Silent', which are not ready.",
            "The servers 'Late', 'Silent' are ready; their tools are now available.",
        ]


@pytest.mark.req("llm.prompt-cache")
async def test_tools_that_join_later_are_last_so_that_the_beginning_of_requests_stays_the_same(tmp_path: Path) -> None:
    late = HeldPeer("slow")
    peers = {"late": late, "here": create_peer(tools__list=tools_result(tool_definition("it")))}
    model = ScriptedModel(text_round("ok"), text_round("again"))
    limits = Limits(server_wait=0.05)
    async with open_host_with(tmp_path, peers, model, wait=lambda name: name == "here", limits=limits) as host:
        host.start()
        await host.conversation.send("go")
        late.release()
        await host.servers.ensure_ready("late")
        await host.conversation.send("go on")
    names = [[spec.name for spec in request.tools if "__" in spec.name] for request in model.requests]
    assert names == [["here__it"], ["here__it", "late__slow"]]


async def test_a_server_that_starts_in_time_is_there_in_the_first_round(tmp_path: Path) -> None:
    late = HeldPeer("slow")
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(
        tmp_path, {"late": late}, model, wait=lambda _: False, limits=Limits(server_wait=600)
    ) as host:
        host.start()
        feed = host.events.subscribe()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "go")
            await wait_for_event(feed, TurnStarted)
            await anyio.wait_all_tasks_blocked()
            assert model.requests == []
            late.release()
        assert notice_texts(feed.drain()) == []
    assert offered_tools_by_request(model) == [["late__slow"]]


async def test_stopping_a_turn_that_waits_for_a_server_asks_no_model(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("ok"))
    peers = {"late": HeldPeer()}
    async with open_host_with(tmp_path, peers, model, wait=lambda _: False, limits=Limits(server_wait=600)) as host:
        host.start()
        feed = host.events.subscribe()
        outcomes: list[str] = []

        async def send() -> None:
            outcomes.append((await host.conversation.send("go")).outcome)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await wait_for_event(feed, TurnStarted)
            assert host.conversation.stop()
    assert (outcomes, model.requests) == (["stopped"], [])


async def test_a_server_that_still_hangs_is_reported_once(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("one"), text_round("two"))
    limits = Limits(server_wait=0.05)
    async with open_host_with(tmp_path, {"late": HeldPeer()}, model, wait=lambda _: False, limits=limits) as host:
        host.start()
        feed = host.events.subscribe()
        await host.conversation.send("go")
        await host.conversation.send("go on")
        assert notice_texts(feed.drain()) == ["Starting without the server 'late', which is not ready."]


class AllListsPeer(InProcessServer):
    """A server that answers list requests only when all of its lists have been requested."""

    LISTS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})

    def __init__(self) -> None:
        listed = {"tools/list": tools_result(tool_definition("it"))}
        capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
        super().__init__(listed, "2025-11-25", capabilities, {"name": "peer", "version": "1"})
        self._held: list[tuple[JsonRpcRequest, dict[str, Any]]] = []

    def _answer(self, request: JsonRpcRequest, params: dict[str, Any]) -> None:
        if request.method not in self.LISTS:
            super()._answer(request, params)
            return
        self._held.append((request, params))
        if {held.method for held, _ in self._held} == self.LISTS:
            for held in self._held:
                super()._answer(*held)


async def test_the_lists_of_a_server_are_asked_for_side_by_side(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        async with open_host_with(tmp_path, AllListsPeer()) as host:
            assert [tool.name for tool in host.servers.view("peer").catalog.tools] == ["it"]


@pytest.mark.parametrize(
    ("is_known", "is_installer", "seconds"), [(True, True, 3), (False, True, 30), (False, False, 3)]
)
async def test_a_message_waits_ten_times_longer_for_a_server_just_added_or_installed_at_its_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_known: bool, is_installer: bool, seconds: float
) -> None:
    waits: dict[str, float] = {}

    async def wait_for_start(connection: ServerConnection, seconds: float) -> None:
        waits[connection.config.name] = seconds

    monkeypatch.setattr(ServerConnection, "wait_for_start", wait_for_start)
    monkeypatch.setattr(server_restrictions, "is_installer", lambda _: is_installer)  # type: ignore[reportUnknownLambdaType]
    model = ScriptedModel(text_round("ok"))
    peers = {"old": HeldPeer("it"), "new": HeldPeer("it")}
    if is_known:
        database = Database(tmp_path / "store.db")
        config = ServerConfig(name="old", command="in-process", args=("old",))
        await GrantStore(database).save_eras(endpoint_digest(config), "dual")
        await database.close()
    async with open_host_with(tmp_path, peers, model, wait=lambda _: False, limits=Limits(server_wait=3)) as host:
        host.start()
        config = host.servers.find("new").config
        host.servers.remove("new")
        host.servers.add(config)
        feed = host.events.subscribe()
        await host.conversation.send("go")
        (awaited,) = [event for event in feed.drain() if isinstance(event, ServersAwaited)]
    assert waits == {"old": seconds, "new": 30}
    assert awaited.servers == ("old", "new")


async def test_a_message_waits_two_seconds_for_a_server_that_starts_unless_the_user_chose_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def wait_for_start(connection: ServerConnection, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(ServerConnection, "wait_for_start", wait_for_start)
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, {"late": HeldPeer("it")}, model, wait=lambda _: False) as host:
        host.start()
        await host.conversation.send("go")
    assert waits == [2]
