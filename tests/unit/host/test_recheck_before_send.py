"""Tests that an approved call which has to wait for the user once more is checked again before it is sent."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.schema import AuditConfig, RootConfig
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.host import Host
from mcphost.host.questions.questions import Accept, AllowAlways, AllowOnce, AllowSession, ApproveTool, DoNotShare
from mcphost.llm.messages import ToolReturnPart
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.consent_attacks.attack import SelectiveFrontend
from tests.unit.host.asking_server import STATELESS, AskingServer, form_request, open_asking_host
from tests.unit.host.scripted_host import tool_definition, tools_result

pytestmark = pytest.mark.anyio
Change = Callable[[Host, AskingServer], Awaitable[None]]


async def redefine_tool(host: Host, peer: AskingServer) -> None:
    peer.answers["tools/list"] = tools_result(tool_definition("ask", description="wicked"))
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
