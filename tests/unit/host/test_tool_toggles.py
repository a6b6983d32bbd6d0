"""Tests that disabled tools are neither offered nor callable, even in later runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from time import process_time
from typing import Any

import anyio
import pytest

from mcphost.config.schema import AuditConfig, ServerConfig
from mcphost.errors import StoreError, UsageError
from mcphost.host import events
from mcphost.host.audit.audit_log import AuditLog, create_in_memory_log
from mcphost.host.questions.questions import AllowAlways, AllowOnce
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.llm.messages import ToolReturnPart
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.tool_toggles import StoredToggles, ToolToggleStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import (
    InProcessServer,
    create_peer,
    open_host_with,
    text_result,
    tool_definition,
    tools_result,
)

pytestmark = pytest.mark.anyio


def create_tool_peer() -> InProcessServer:
    return create_peer(
        tools__list=tools_result(tool_definition("look"), tool_definition("burn")), tools__call=text_result("done")
    )


def offered_tools(model: ScriptedModel, request: int = 0) -> list[str]:
    """Return the names of the tools offered in one request to the model."""
    return [spec.name for spec in model.requests[request].tools if spec.name.startswith("peer__")]


def single_tool_return(model: ScriptedModel) -> ToolReturnPart:
    (part,) = [part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolReturnPart)]
    return part


@pytest.mark.req("ui.expose-tools")
async def test_the_model_is_offered_a_tool_only_while_it_is_on(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("a"), text_round("b"), text_round("c"))
    async with open_host_with(tmp_path, create_tool_peer(), model) as host:
        await host.conversation.send("one")
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        assert host.servers.view("peer").disabled_tools == ("burn",)
        await host.conversation.send("two")
        await host.servers.set_tool_enabled("peer", "burn", enabled=True)
        assert host.servers.view("peer").disabled_tools == ()
        await host.conversation.send("three")
    assert [offered_tools(model, n) for n in range(3)] == [
        ["peer__burn", "peer__look"],
        ["peer__look"],
        offered_tools(model),
    ]


async def test_a_tool_that_is_off_at_the_users_server_is_off_under_another_name_for_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    switches = ToolToggles(ToolToggleStore(database), create_in_memory_log(), lambda _: None, lambda _: None)
    own = ServerConfig(name="files", command="run")
    alias = ServerConfig(name="innocent", command="run", source="project", matching_servers=("files",))
    await switches.set_enabled(own, "burn", enabled=False)
    assert switches.disabled_by(alias, "burn") == "user"
    with pytest.raises(UsageError, match="is off at files"):
        await switches.set_enabled(alias, "burn", enabled=True)
    await switches.set_enabled(own, "burn", enabled=True)
    assert switches.disabled_by(alias, "burn") == ""
    await database.close()


@pytest.mark.req("ui.expose-tools")
async def test_a_model_that_calls_it_anyway_gets_an_error_without_a_question(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round(("peer__burn", {})), text_round("ok"))
    at = create_tool_peer()
    frontend = ScriptedFrontend()
    async with open_host_with(tmp_path, at, model, frontend) as host:
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        await host.conversation.send("go")
    assert single_tool_return(model).is_error
    assert "turned this tool off" in single_tool_return(model).text
    assert at.asked("tools/call") == []
    assert frontend.asked == []


async def test_a_disabled_tool_does_not_run_even_if_always_allowed(tmp_path: Path) -> None:
    model = ScriptedModel(
        tool_round(("peer__burn", {})), text_round("a"), tool_round(("peer__burn", {})), text_round("b")
    )
    at = create_tool_peer()
    async with open_host_with(tmp_path, at, model, ScriptedFrontend(AllowAlways())) as host:
        await host.conversation.send("once")
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        await host.conversation.send("again")
    assert len(at.asked("tools/call")) == 1


async def test_switched_off_while_its_question_waits_it_is_not_called_even_when_it_is_then_allowed(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(tool_round(("peer__burn", {})), text_round("ok"))
    at = create_tool_peer()
    hosts: list[Any] = []

    async def late(question: object) -> AllowOnce:
        await hosts[0].servers.set_tool_enabled("peer", "burn", enabled=False)
        return AllowOnce()

    async with open_host_with(tmp_path, at, model, ScriptedFrontend(late)) as host:
        hosts.append(host)
        await host.conversation.send("go")
    assert at.asked("tools/call") == []
    assert "turned this tool off" in single_tool_return(model).text


async def test_the_user_may_still_call_it_manually(tmp_path: Path) -> None:
    at = create_tool_peer()
    async with open_host_with(tmp_path, at) as host:
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        assert (await host.tools.call("peer", "burn", {})).text == "done"


@pytest.mark.req("ui.expose-tools")
async def test_it_stays_disabled_in_the_next_run_from_its_first_message_on(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_tool_peer()) as host:
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        await host.servers.set_tool_enabled("peer", "look", enabled=False)
        await host.servers.set_tool_enabled("peer", "look", enabled=True)
    model = ScriptedModel(text_round("hi"))
    async with open_host_with(tmp_path, create_tool_peer(), model) as host:
        assert host.servers.view("peer").disabled_tools == ("burn",)
        await host.conversation.send("one")
    assert offered_tools(model) == ["peer__look"]


async def test_a_turn_can_be_stopped_while_the_store_still_loads_the_toggles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, told = anyio.Event(), anyio.Event()

    async def late(stored: ToolToggleStore) -> StoredToggles:
        asked.set()
        await told.wait()
        return StoredToggles()

    model = ScriptedModel(text_round("second"))
    async with open_host_with(tmp_path, {}, model) as host:
        monkeypatch.setattr(ToolToggleStore, "load", late)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.conversation.send, "first")
            await asked.wait()
            assert host.conversation.is_busy
            with pytest.raises(UsageError, match="The model is still answering"):
                await host.conversation.send("meanwhile")
            with pytest.raises(UsageError, match="The model is still answering"):
                host.conversation.open_new()
            assert host.conversation.stop()
        assert not host.conversation.is_busy
        assert model.requests == []
        told.set()
        assert (await host.conversation.send("again")).text == "second"
    assert [message.text for message in host.conversation.messages] == ["first", "again", "second"]


async def test_an_auto_approved_tool_does_not_run_once_it_is_off(tmp_path: Path) -> None:
    async with open_host_with(tmp_path, create_tool_peer()) as host:
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        registry = ToolRegistry(host.servers, host.tool_toggles.disabled_by)
        assert [tool.definition.tool.name for tool in registry.available_tools().values()] == ["look"]


async def test_a_toggle_is_published_and_audited(tmp_path: Path) -> None:
    ledger = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())
    async with open_host_with(tmp_path, create_tool_peer(), audit_log=ledger) as host:
        feed = host.events.subscribe()
        await host.servers.set_tool_enabled("peer", "burn", enabled=False)
        with anyio.fail_after(20):
            async for event in feed:
                if isinstance(event, events.ToolToggled):
                    assert (event.server, event.tool, event.on) == ("peer", "burn", False)
                    break
        rows = [row for row in await host.audit.read_page(AuditFilter(kind="tool")) if row.event == "switched off"]
        assert [(row.subject, row.who) for row in rows] == [("burn", "person")]


@pytest.fixture
async def stored_toggles(tmp_path: Path) -> AsyncIterator[ToolToggleStore]:
    database = Database(tmp_path / "store.db")
    yield ToolToggleStore(database)
    await database.close()


@pytest.fixture
def switches(stored_toggles: ToolToggleStore) -> ToolToggles:
    return ToolToggles(stored_toggles, create_in_memory_log(AuditConfig()), lambda event: None, lambda error: None)


@pytest.mark.req("ui.expose-tools")
async def test_tools_disabled_by_a_file_can_only_be_enabled_in_the_file(switches: ToolToggles) -> None:
    server = ServerConfig(name="s", command="x", file="mcp.json", disabled_tools=("burn", "delete_*"))
    offs = [switches.disabled_by(server, name) for name in ("burn", "delete_all", "Burn", "look", "undelete_")]
    assert offs == ["file", "file", "", "", ""]
    with pytest.raises(UsageError, match="disabledTools"):
        await switches.set_enabled(server, "burn", enabled=True)
    await switches.set_enabled(server, "look", enabled=False)
    assert switches.disabled_by(server, "look") == "user"


@pytest.mark.req("ui.expose-tools")
async def test_a_tool_of_the_same_name_at_another_server_stays_as_it_is(
    switches: ToolToggles, stored_toggles: ToolToggleStore
) -> None:
    one, other = (ServerConfig(name=name, command="x") for name in ("one", "other"))
    await switches.set_enabled(one, "burn", enabled=False)
    assert (switches.disabled_by(one, "burn"), switches.disabled_by(other, "burn")) == ("user", "")
    await switches.set_enabled(other, "burn", enabled=False)
    await switches.set_enabled(one, "burn", enabled=True)
    assert (switches.disabled_by(one, "burn"), switches.disabled_by(other, "burn")) == ("", "user")
    assert (await stored_toggles.load()).disabled == (("other", "burn"),)


async def test_of_too_many_switches_the_newest_are_kept(
    switches: ToolToggles, stored_toggles: ToolToggleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerConfig(name="s", command="x")
    for name in ("first", "second", "third"):
        await switches.set_enabled(server, name, enabled=False)
    monkeypatch.setattr("mcphost.store.tool_toggles.MAX_ROWS", 2)
    assert (await stored_toggles.load()).disabled == (("s", "third"), ("s", "second"))


async def test_an_unreadable_or_unstorable_toggle_is_reported_and_lasts_for_this_run() -> None:
    class FailingToggleStore(ToolToggleStore):
        def __init__(self) -> None:
            pass

        async def load(self) -> StoredToggles:
            raise StoreError("The store cannot be read.")

        async def save(self, server: str, tool: str, *, enabled: bool) -> None:
            raise StoreError("The store cannot be written.")

    messages: list[str] = []
    switches = ToolToggles(
        FailingToggleStore(), create_in_memory_log(), lambda event: None, lambda error: messages.append(error.message)
    )
    server = ServerConfig(name="s", command="x")
    await switches.set_enabled(server, "burn", enabled=False)
    assert switches.disabled_by(server, "burn") == "user"
    assert messages == ["The store cannot be read.", "The store cannot be written."]


async def test_a_name_that_is_no_text_can_be_switched_too(switches: ToolToggles) -> None:
    server = ServerConfig(name="s", command="x")
    await switches.set_enabled(server, "half \ud83d of it", enabled=False)
    assert switches.disabled_by(server, "half \ud83d of it") == "user"


async def test_a_pattern_made_to_take_forever_ends(switches: ToolToggles) -> None:
    server = ServerConfig(name="s", command="x", disabled_tools=("*a" * 60 + "b",))
    started_at = process_time()
    assert switches.disabled_by(server, "a" * 3_000) == ""
    assert process_time() - started_at < 5
