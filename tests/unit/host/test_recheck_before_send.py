"""Tests that an approved call which has to wait for the user once more is checked again before it is sent."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.rules import Rule
from mcphost.config.schema import AuditConfig, Limits, RootConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.events import AutoApprovalChanged, ToolFinished, ToolStarted
from mcphost.host.host import Host
from mcphost.host.questions.questions import (
    Accept,
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    Deny,
    DoNotShare,
)
from mcphost.llm.messages import ToolReturnPart, Usage
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import read_events
from tests.flows.consent_attacks.attack import SelectiveFrontend
from tests.unit.host.asking_server import STATELESS, AskingServer, form_request, open_asking_host
from tests.unit.host.scripted_host import InProcessServer, open_host_with, tool_definition, tools_result
from tests.unit.host.slow_server import SlowServer

pytestmark = pytest.mark.anyio
Change = Callable[[Host, AskingServer], Awaitable[None]]


async def redefine_tool(host: Host, peer: AskingServer) -> None:
    peer.answers["tools/list"] = tools_result(tool_definition("ask", description="wicked"))
    await host.features.refresh("peer")


async def redefine_tool_and_change_it_back(host: Host, peer: AskingServer) -> None:
    original = peer.answers["tools/list"]
    await redefine_tool(host, peer)
    peer.answers["tools/list"] = original
    await host.features.refresh("peer")


async def switch_tool_off(host: Host, _peer: AskingServer) -> None:
    await host.servers.set_tool_enabled("peer", "ask", enabled=False)


async def revoke_grant(host: Host, _peer: AskingServer) -> None:
    (permission,) = host.grants.list_session_grants()
    await host.grants.revoke(permission.grant.id)


CHANGES = pytest.mark.parametrize(
    ("change", "why", "told"),
    [
        (redefine_tool, "the tool changed", "is quarantined"),
        (redefine_tool_and_change_it_back, "the tool changed", "is quarantined"),
        (switch_tool_off, "the tool changed", "turned this tool off"),
        (revoke_grant, "its grant was revoked", "declined"),
    ],
)


async def call_during_change(
    folder: Path, peer: AskingServer, change: Change, kind: str, answer: Any
) -> tuple[str, list[str]]:
    """Call a tool and apply *change* while a question of *kind* is open.

    Return the result that the model gets, and the audited outcomes.
    """
    model = ScriptedModel(tool_round(("peer__ask", {})), text_round("ok"))
    audit_log = AuditLog(AuditStore(folder / "ledger.db"), AuditConfig())

    async def meanwhile(_question: Any) -> Any:
        await change(host, peer)
        return answer

    frontend = SelectiveFrontend(**{"approve_tool": [AllowSession()], kind: [meanwhile]})
    roots = (RootConfig(path=str(folder)),)
    async with open_asking_host(folder, peer, frontend, model, roots=roots, audit_log=audit_log) as host:
        if kind == "share_roots":
            peer.ask("r1", "roots/list", {})
        await host.conversation.send("go")
        rows = [row for row in reversed(await audit_log.read_page(AuditFilter())) if row.kind == "tool"]
    (part,) = [part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolReturnPart)]
    assert len(frontend.questions_of(type(frontend.asked[0]))) == (2 if change is revoke_grant else 1)
    return part.text, [row.decision for row in rows if row.event == "ended"]


@CHANGES
async def test_a_call_is_not_sent_if_its_permission_ended_during_a_folder_question(
    tmp_path: Path, change: Change, why: str, told: str
) -> None:
    peer = AskingServer("2025-11-25")
    text, ended = await call_during_change(tmp_path, peer, change, "share_roots", DoNotShare())
    assert peer.calls == []
    assert told in text
    assert ended == [f"not sent: {why}"]


@CHANGES
async def test_answers_to_a_call_are_not_sent_if_its_permission_ended_meanwhile(
    tmp_path: Path, change: Change, why: str, told: str
) -> None:
    peer = AskingServer(STATELESS, {"who": form_request()})
    text, ended = await call_during_change(tmp_path, peer, change, "fill_form", Accept())
    assert len(peer.calls) == 1
    assert told in text
    assert ended == [f"not sent again: {why}"]


async def test_the_audit_log_records_an_unsent_call_when_its_tool_changed_during_the_question(
    tmp_path: Path,
) -> None:
    peer = AskingServer("2025-11-25")
    _, ended = await call_during_change(tmp_path, peer, redefine_tool, "approve_tool", AllowOnce())
    assert peer.calls == []
    assert ended == ["not sent: the tool changed"]


async def test_a_call_that_waits_for_a_form_is_not_sent_again_after_another_process_revoked_its_grant(
    tmp_path: Path,
) -> None:
    peer = AskingServer(STATELESS, {"who": form_request()})
    model = ScriptedModel(tool_round(("peer__ask", {})), text_round("ok"))
    audit_log = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())

    async def revoke(_question: Any) -> Any:
        other = Database(tmp_path / "store.db")
        (grant,) = await GrantStore(other).list_all()
        await GrantStore(other).revoke(grant.id)
        await other.close()
        return Accept()

    frontend = SelectiveFrontend(approve_tool=[AllowAlways()], fill_form=[revoke])
    async with open_asking_host(tmp_path, peer, frontend, model, audit_log=audit_log) as host:
        await host.conversation.send("go")
        rows = [row for row in await audit_log.read_page(AuditFilter()) if row.kind == "tool"]
    assert len(peer.calls) == 1
    assert len(frontend.questions_of(ApproveTool)) == 2
    assert [row.decision for row in rows if row.event == "ended"] == ["not sent again: its grant was revoked"]


def allow_until(expires: float) -> AllowRule:
    """Return the answer that allows all calls of the tool `ask` everywhere until this time."""
    return AllowRule(Rule(server="peer", tool="ask", scope="everywhere", expires=expires))


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "session"])
@pytest.mark.parametrize(
    ("revision", "kind", "answer", "sent", "ended"),
    [
        ("2025-11-25", "share_roots", DoNotShare(), 0, "not sent: its grant no longer applies"),
        (STATELESS, "fill_form", Accept(), 1, "not sent again: its grant no longer applies"),
    ],
    ids=["call", "answers"],
)
async def test_the_user_is_asked_again_if_the_grant_expires_before_a_call_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, kind: str, answer: Any, sent: int, ended: str,
    *, is_stored: bool,
) -> None:  # fmt: skip
    peer = AskingServer(revision, {"who": form_request()} if kind == "fill_form" else {})
    model = ScriptedModel(tool_round(("peer__ask", {})), text_round("ok"))
    audit_log = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())

    def expire(_question: Any) -> Any:
        let_time_pass(host, monkeypatch)
        return answer

    async def fail(_store: GrantStore, _grant: Any) -> Any:
        raise StoreError("The disk is full.")

    if not is_stored:
        monkeypatch.setattr(GrantStore, "add", fail)
    frontend = SelectiveFrontend(approve_tool=[allow_until(time.time() + 600), Deny()], **{kind: [expire]})
    roots = (RootConfig(path=str(tmp_path)),)
    async with open_asking_host(tmp_path, peer, frontend, model, roots=roots, audit_log=audit_log) as host:
        if kind == "share_roots":
            peer.ask("r1", "roots/list", {})
        await host.conversation.send("go")
        rows = [row for row in await audit_log.read_page(AuditFilter()) if row.kind == "tool"]
    assert len(peer.calls) == sent
    assert len(frontend.questions_of(ApproveTool)) == 2
    assert [row.decision for row in rows if row.event == "ended"] == [ended]


async def test_a_time_limited_grant_made_after_the_clock_was_set_back_allows_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = AskingServer(STATELESS)
    rounds = tool_round(("peer__ask", {})), text_round("ok")
    model = ScriptedModel(*rounds, *rounds)
    now = time.time()
    before = AllowRule(Rule(server="peer", tool="ask", scope="conversation", expires=now + 600))
    frontend = SelectiveFrontend(approve_tool=[before, allow_until(now - 3_000), Deny()])
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        await host.conversation.send("go")
        monkeypatch.setattr(time, "time", lambda: now - 3_600)
        await host.conversation.send("again")
    assert len(peer.calls) == 2
    assert len(frontend.questions_of(ApproveTool)) == 2


async def test_a_call_that_waits_for_a_slot_again_after_its_grant_was_revoked_ends_if_the_turn_is_stopped(
    tmp_path: Path,
) -> None:
    peer, slow = AskingServer(STATELESS, {"who": form_request()}), SlowServer()
    model = ScriptedModel(tool_round(("peer__ask", {}), ("slow__slow", {})))

    async def revoke(_question: Any) -> Any:
        (permission,) = host.grants.list_session_grants(server="peer")
        await host.grants.revoke(permission.grant.id)
        return Accept()

    async def allow_again(_question: Any) -> Any:
        await slow.called.wait()
        tasks.start_soon(stop)
        return AllowSession()

    async def stop() -> None:
        await anyio.wait_all_tasks_blocked()
        assert host.conversation.stop()

    frontend = SelectiveFrontend(approve_tool=[AllowSession(), AllowSession(), allow_again], fill_form=[revoke])
    peers: dict[str, InProcessServer] = {"peer": peer, "slow": slow}
    async with open_host_with(tmp_path, peers, model, frontend, limits=Limits(parallel_calls=1)) as host:
        feed = host.events.subscribe()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                await host.conversation.send("go")
        events = feed.drain()
    assert [event.server for event in events if isinstance(event, ToolStarted)] == ["peer", "slow"]
    ended = sorted((event.server, event.outcome) for event in events if isinstance(event, ToolFinished))
    assert ended == [("peer", "stopped"), ("slow", "stopped")]
    assert len(peer.calls) == 1


def read_only_server(revision: str, **asks: Any) -> AskingServer:
    """Return a server whose tool `ask` claims to be read-only, so that auto-approve can cover it."""
    peer = AskingServer(revision, asks)
    peer.answers["tools/list"] = tools_result(tool_definition("ask", annotations={"readOnlyHint": True}))
    return peer


def let_time_pass(_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 1_000
    monkeypatch.setattr(time, "time", lambda: later)


def use_tokens(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.auto_approval.count_usage(Usage(input_tokens=1_000))


def switch_off(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    assert host.auto_approval.stop("ended by you")


def use_nothing(_host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the budget of calls as the only part that is used up."""


ENDINGS = pytest.mark.parametrize(
    ("end", "is_asked"), [(let_time_pass, True), (use_tokens, True), (switch_off, True), (use_nothing, False)]
)
Ending = Callable[[Host, pytest.MonkeyPatch], None]
BUDGET = AutoApprovalBudget(calls=2, seconds=600, tokens=500)


@ENDINGS
async def test_an_auto_approved_call_that_waited_for_a_slot_is_asked_if_auto_approve_ended_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Ending, is_asked: bool
) -> None:
    peer = read_only_server("2025-11-25", who=form_request())
    model = ScriptedModel(tool_round(("peer__ask", {"n": 1}), ("peer__ask", {"n": 2})), text_round("ok"))
    audit_log = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())

    async def end_meanwhile(_question: Any) -> Any:
        await read_events(feed, lambda event: isinstance(event, AutoApprovalChanged) and event.calls_left == 0)
        end(host, monkeypatch)
        return Accept()

    frontend = SelectiveFrontend(approve_tool=[Deny()], fill_form=[end_meanwhile, Accept()])
    limits = Limits(parallel_calls=1)
    async with open_asking_host(tmp_path, peer, frontend, model, limits=limits, audit_log=audit_log) as host:
        host.auto_approval.start([("peer", "ask")], BUDGET)
        feed = host.events.subscribe()
        await host.conversation.send("go")
        rows = [row for row in reversed(await audit_log.read_page(AuditFilter())) if row.kind == "tool"]
    assert len(frontend.questions_of(ApproveTool)) == is_asked
    assert len(peer.calls) == 2 - is_asked
    second = "not sent: auto-approve ended" if is_asked else "ok"
    assert [row.decision for row in rows if row.event == "ended"] == ["ok", second]


@ENDINGS
async def test_answers_to_an_auto_approved_call_are_not_sent_if_auto_approve_ended_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Ending, is_asked: bool
) -> None:
    peer = read_only_server(STATELESS, who=form_request())
    model = ScriptedModel(tool_round(("peer__ask", {})), text_round("ok"))

    def end_meanwhile(_question: Any) -> Any:
        end(host, monkeypatch)
        return Accept()

    frontend = SelectiveFrontend(approve_tool=[Deny()], fill_form=[end_meanwhile])
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        host.auto_approval.start([("peer", "ask")], BUDGET)
        await host.conversation.send("go")
    assert len(frontend.questions_of(ApproveTool)) == is_asked
    assert len(peer.calls) == 2 - is_asked


async def test_a_call_of_ended_auto_approve_is_approved_again_by_auto_approve_that_was_started_anew(
    tmp_path: Path,
) -> None:
    peer = read_only_server(STATELESS, who=form_request())
    model = ScriptedModel(tool_round(("peer__ask", {})), text_round("ok"))

    def restart(_question: Any) -> Any:
        host.auto_approval.start([("peer", "ask")], BUDGET)
        return Accept()

    frontend = SelectiveFrontend(fill_form=[restart, Accept()])
    async with open_asking_host(tmp_path, peer, frontend, model) as host:
        host.auto_approval.start([("peer", "ask")], BUDGET)
        feed = host.events.subscribe()
        await host.conversation.send("go")
        assert host.auto_approval.status is not None
        assert host.auto_approval.status.remaining.calls == BUDGET.calls - 1
    assert [event.by for event in feed.drain() if isinstance(event, ToolStarted)] == ["autonomy", "autonomy"]
    assert frontend.questions_of(ApproveTool) == []
