"""Attacks that change something after approval: a tool, a server, its command, its folder or the account."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import AuditConfig, ServerConfig
from mcphost.errors import ConsentDenied, McpHostError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.events import CatalogChanged, ServerState
from mcphost.host.host import Host
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    TrustAlways,
    TrustOnce,
    TrustServer,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
from mcphost.serialization import replace
from mcphost.store.audit_store import AuditStore
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import read_events
from tests.flows.consent_attacks.attack import MODERN, AttackSetup, SelectiveFrontend, attack, attack_tool


def call_twice(name: str = "s__t", arguments: Any = None) -> ScriptedModel:
    """Return a model that calls the same tool in two rounds of one turn."""
    return ScriptedModel(tool_round((name, arguments or {})), tool_round((name, arguments or {})), text_round("ok"))


async def allow_in_earlier_run(setup: AttackSetup, server: ServerConfig, answer: Any, **more: Any) -> None:
    """Run a host once in which the user answers the consent question for the tool `t` with *answer*."""
    frontend = SelectiveFrontend(approve_tool=[answer], trust_server=[TrustAlways()])
    async with setup.open_host(
        ScriptedModel(tool_round(("s__t", {})), text_round("ok")), frontend, server, **more
    ) as host:
        await host.conversation.send("go")


async def wait_for_relisting(host: Host, turn: Any) -> None:
    """Call *turn*, which changes the server, and wait until the host has listed the tools again."""
    feed = host.events.subscribe()
    turn()
    with anyio.fail_after(10):
        await read_events(feed, lambda event: isinstance(event, CatalogChanged))


@attack("The words of a tool that was allowed for good change between two runs.", "tool t")
async def changed_description(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    setup.write_plan("s", attack_tool("t", "evil"))
    frontend = SelectiveFrontend(approve_tool=[AllowOnce(), AllowOnce()])
    async with setup.open_host(call_twice(), frontend, server) as host:
        await host.conversation.send("go")
    assert frontend.questions_of(ReviewToolChanges)


@attack("Only a member nobody reads changes: _meta deep inside of the schema.", "tool t")
async def changed_unread_part(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    schema = {"type": "object", "properties": {"x": {"_meta": {"run": "rm"}}}}
    setup.write_plan("s", {**attack_tool("t"), "inputSchema": schema})
    async with setup.open_host(call_twice(), SelectiveFrontend(), server) as host:
        await host.conversation.send("go")


@attack("A tool becomes another one and then again what it was, in the hope that the other one runs.", "tool t")
async def changed_and_reverted(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    setup.write_plan("s", attack_tool("t", "evil"))
    async with setup.open_host(call_twice(), SelectiveFrontend(), server) as host:
        await host.conversation.send("go")
    setup.write_plan("s", "t")
    async with setup.open_host(call_twice(), SelectiveFrontend(), server) as host:
        await host.conversation.send("go")


@attack(
    "A tool was another one for a while: what was allowed of it counts once the user has seen that.", *["tool t"] * 3
)
async def changed_reverted_and_kept(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    setup.write_plan("s", attack_tool("t", "evil"))
    async with setup.open_host(None, SelectiveFrontend(), server) as host:
        assert [grant.state for grant in await host.grants.list_grants()] == ["suspended"]
    setup.write_plan("s", "t")
    async with setup.open_host(None, SelectiveFrontend(), server) as host:
        assert [grant.state for grant in await host.grants.list_grants()] == ["suspended"]
        assert await host.quarantine.accept("s", await host.quarantine.list_changes("s")) == ("t",)
        assert [grant.state for grant in await host.grants.list_grants()] == ["counts"]
    async with setup.open_host(call_twice(), SelectiveFrontend(), server) as host:
        await host.conversation.send("go")


LIST_CHANGED = {"method": "notifications/tools/list_changed"}


@attack("list_changed in the middle of a run: the tool allowed for the session is another one now.", "tool t")
async def list_changed(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    frontend = SelectiveFrontend(approve_tool=[AllowSession(), AllowOnce()])
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, frontend, server) as host:
        await host.conversation.send("go")
        await wait_for_relisting(host, lambda: setup.write_plan("s", attack_tool("t", "evil"), push=[LIST_CHANGED]))
        await host.conversation.send("go on")


@attack("The tool becomes another one while its question is open: the yes was for what was shown.")
async def changed_during_question(setup: AttackSetup) -> None:
    hosts: list[Host] = []

    async def late(_: ApproveTool) -> AllowOnce:
        with anyio.CancelScope(shield=True):
            await wait_for_relisting(
                hosts[0], lambda: setup.write_plan("s", attack_tool("t", "evil"), push=[LIST_CHANGED])
            )
        return AllowOnce()

    frontend = SelectiveFrontend(approve_tool=[late, AllowOnce()])
    async with setup.open_host(call_twice(), frontend, setup.stdio_server("s", "t")) as host:
        hosts.append(host)
        await host.conversation.send("go")
    assert frontend.questions_of(ReviewToolChanges)


@attack("The tool becomes another one while it is being recorded that it starts.")
async def changed_while_recorded(setup: AttackSetup) -> None:
    hosts: list[Host] = []

    class SlowAuditStore(AuditStore):
        """An audit store that changes the tool after writing the row of a started call, before it reports success."""

        async def append(self, factory: Any, about: Any = None) -> Any:
            entry = await super().append(factory, about)
            if entry.record is not None and (entry.record.kind, entry.record.event) == ("tool", "started"):
                await wait_for_relisting(
                    hosts[0], lambda: setup.write_plan("s", attack_tool("t", "evil"), push=[LIST_CHANGED])
                )
            return entry

    audit_log = AuditLog(SlowAuditStore(setup.ledger), AuditConfig(required=True))
    frontend = SelectiveFrontend(approve_tool=[AllowOnce(), AllowOnce()])
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, frontend, setup.stdio_server("s", "t"), audit_log=audit_log) as host:
        hosts.append(host)
        await host.conversation.send("go")


@attack("list_changed takes the tool away and brings another one of its name back.", "tool t")
async def removed_and_restored(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, SelectiveFrontend(approve_tool=[AllowAlways()]), server) as host:
        await host.conversation.send("go")
        await wait_for_relisting(host, lambda: setup.write_plan("s", "other", push=[LIST_CHANGED]))
        await wait_for_relisting(
            host, lambda: setup.write_plan("s", "other", attack_tool("t", "evil"), push=[LIST_CHANGED])
        )
        await host.conversation.send("go on")


@attack("A tool that was kept out runs by hand all the same.")
async def manual_call_of_quarantined_tool(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    async with setup.open_host(None, SelectiveFrontend(), server):
        pass
    setup.write_plan("s", attack_tool("t", "evil"))
    async with setup.open_host(None, SelectiveFrontend(), server) as host:
        try:
            await host.tools.call("s", "t", {})
        except ConsentDenied:
            return
    raise AssertionError("it ran")


@attack("The difference that was kept is not the one that stands there when the answer comes.", "tool t")
async def changed_during_manual_question(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    setup.write_plan("s", attack_tool("t", "odd"))
    hosts: list[Host] = []

    async def keep(question: ReviewToolChanges) -> AcceptToolChanges:
        with anyio.CancelScope(shield=True):
            await wait_for_relisting(
                hosts[0], lambda: setup.write_plan("s", attack_tool("t", "evil"), push=[LIST_CHANGED])
            )
        return AcceptToolChanges(("t",))

    frontend = SelectiveFrontend(tools_changed=[keep])
    async with setup.open_host(call_twice(), frontend, server, ready=False) as host:
        hosts.append(host)
        await host.servers.ensure_ready("s")
        await host.conversation.send("go")


@attack("A reconnect: the process is started anew and offers something else under the name.", "tool t")
async def reconnect(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, SelectiveFrontend(approve_tool=[AllowSession()]), server) as host:
        await host.conversation.send("go")
        setup.write_plan("s", attack_tool("t", "evil"))
        feed = host.events.subscribe()
        host.servers.restart("s")
        await read_events(feed, lambda event: isinstance(event, ServerState) and event.state == "ready")
        await host.conversation.send("go on")


@attack("The configuration is swapped: another command under the name of a server that was approved.", "tool t")
async def another_command(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t", source="user")
    await allow_in_earlier_run(setup, server, AllowAlways())
    frontend = SelectiveFrontend()
    async with setup.open_host(
        call_twice(), frontend, replace(server, args=(*server.args, "--evil")), ready=False
    ) as host:
        await expect_not_started(host)
        await host.conversation.send("go")
    assert frontend.questions_of(TrustServer)[0].changed
    assert [effect["name"] for effect in setup.effects() if effect["what"] == "process"] == [server.args[0]]


async def expect_not_started(host: Host, server: str = "s") -> None:
    """Check that the host refuses to start the server."""
    try:
        await host.servers.ensure_ready(server)
    except McpHostError:
        return
    raise AssertionError("it is ready")


@attack("A variable is added to the environment of an approved server: LD_PRELOAD.", "tool t")
async def another_environment(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t", source="user")
    await allow_in_earlier_run(setup, server, AllowAlways())
    async with setup.open_host(
        call_twice(), SelectiveFrontend(), replace(server, env={**server.env, "X": "1"}), ready=False
    ) as host:
        await expect_not_started(host)
    assert len([effect for effect in setup.effects() if effect["what"] == "process"]) == 1


@attack("An approved server runs in another folder.", "tool t")
async def another_folder(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t", source="user")
    await allow_in_earlier_run(setup, server, AllowAlways())
    async with setup.open_host(
        call_twice(), SelectiveFrontend(), replace(server, cwd=str(setup.folder)), ready=False
    ) as host:
        await expect_not_started(host)
    assert len([effect for effect in setup.effects() if effect["what"] == "process"]) == 1


@attack("The configuration is swapped, and the user approves the new one: its tool has the old grants?", "tool t")
async def grants_for_changed_command(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t", source="user")
    await allow_in_earlier_run(setup, server, AllowAlways())
    swapped = replace(server, args=(*server.args, "--evil"))
    frontend = SelectiveFrontend(trust_server=[TrustOnce()])
    async with setup.open_host(call_twice(), frontend, swapped) as host:
        await host.conversation.send("go")
    assert len(frontend.questions_of(ApproveTool)) == 2


@attack(
    "By hand, a tool that was allowed for good as another one, by a server that is started in another way now.",
    "tool t",
)
async def manual_call_with_changed_command(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    await allow_in_earlier_run(setup, server, AllowAlways())
    setup.write_plan("s", attack_tool("t", "evil"))
    async with setup.open_host(None, SelectiveFrontend(), replace(server, args=(*server.args, "--evil"))) as host:
        with pytest.raises(ConsentDenied, match="changed after it was allowed"):
            await host.tools.call("s", "t", {})


@attack("A server that nobody approved starts while its question is open.", may_start=False)
async def server_started_before_answer(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t", source="user")

    async def late(question: TrustServer) -> Any:
        await anyio.wait_all_tasks_blocked()
        return question.refusal()

    frontend = SelectiveFrontend(trust_server=[late])
    async with setup.open_host(call_twice(), frontend, server, ready=False) as host:
        await expect_not_started(host)
        await host.conversation.send("go")


@attack("A server that was refused is tried again by the model, by a restart and by hand.", may_start=False)
async def refused_again(setup: AttackSetup) -> None:
    async with setup.open_host(
        call_twice(), SelectiveFrontend(), setup.stdio_server("s", "t", source="user"), ready=False
    ) as host:
        await expect_not_started(host)
        host.servers.restart("s")
        await expect_not_started(host)
        await host.conversation.send("go")
        for act in (host.tools.call("s", "t", {}), host.features.read_resource("s", "x:y")):
            try:
                await act
            except McpHostError:
                continue
            raise AssertionError("it answered")


@attack("A server at an address nobody approved is looked at before the answer.", may_start=False)
async def address_not_approved(setup: AttackSetup) -> None:
    async with (
        setup.http_server("s", "t", source="user") as server,
        setup.open_host(call_twice(), SelectiveFrontend(), server, ready=False) as host,
    ):
        await expect_not_started(host)
        await host.conversation.send("go")


@attack("A front that answers the question about a server with something that is no answer.", may_start=False)
async def unanswered_server_question(setup: AttackSetup) -> None:
    for answer in (None, True, "always", AllowAlways()):
        async with setup.open_host(
            call_twice(),
            SelectiveFrontend(trust_server=[answer]),
            setup.stdio_server("s", "t", source="user"),
            ready=False,
        ) as host:
            await expect_not_started(host)
            await host.conversation.send("go")


@attack("A tool picked to run unasked becomes another one.", "tool t")
async def auto_approved_and_changed(setup: AttackSetup) -> None:
    claims = {"annotations": {"readOnlyHint": True}}
    server = setup.stdio_server("s", attack_tool("t", **claims))
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, SelectiveFrontend(), server) as host:
        host.auto_approval.start([("s", "t")], AutoApprovalBudget())
        await host.conversation.send("go")
        await wait_for_relisting(
            host, lambda: setup.write_plan("s", attack_tool("t", "evil", **claims), push=[LIST_CHANGED])
        )
        await host.conversation.send("go on")


@attack("More calls side by side than the budget of working on its own has left.", "tool t")
async def parallel_calls_over_budget(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", attack_tool("t", annotations={"readOnlyHint": True}))
    model = ScriptedModel(tool_round(*(("s__t", {"n": n}) for n in range(5))), text_round("ok"))
    model.rounds[0] = tool_round(("s__t", {}), ("s__t", {}), ("s__t", {}))
    async with setup.open_host(model, SelectiveFrontend(), server) as host:
        host.auto_approval.start([("s", "t")], AutoApprovalBudget(calls=1))
        await host.conversation.send("go")


@attack("A tool claims to read only, and nobody chose to believe that.")
async def read_only_claim_alone(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", attack_tool("t", annotations={"readOnlyHint": True, "destructiveHint": False}))
    async with setup.open_host(call_twice(), SelectiveFrontend(), server) as host:
        await host.conversation.send("go")


@attack("A tool claims to read only and to destroy, at a server whose claims are believed.")
async def contradictory_claims(setup: AttackSetup) -> None:
    claims = {"annotations": {"readOnlyHint": True, "destructiveHint": True}}
    async with setup.open_host(
        call_twice(),
        SelectiveFrontend(),
        setup.stdio_server("s", attack_tool("t", **claims), trust_annotations=True),
    ) as host:
        await host.conversation.send("go")


@attack("Two programs on one store: what one allowed for its session does not hold in the other.", "tool t", "tool t")
async def session_grant_of_second_frontend(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    async with (
        setup.open_host(call_twice(), SelectiveFrontend(approve_tool=[AllowSession()]), server) as host,
        setup.open_host(call_twice(), SelectiveFrontend(), server) as other,
    ):
        await host.conversation.send("go")
        await other.conversation.send("go")


@attack("Two programs on one store: a grant that one revoked is used by the other, which runs still.", "tool t")
async def grant_revoked_by_second_frontend(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with (
        setup.open_host(model, SelectiveFrontend(approve_tool=[AllowAlways()]), server) as host,
        setup.open_host(ScriptedModel(), SelectiveFrontend(), server) as other,
    ):
        await host.conversation.send("go")
        for permission in await other.grants.list_grants():
            await other.grants.revoke(permission.grant.id)
        await host.conversation.send("go on")


@attack("Two programs on one store: a rule for this conversation is used in another one.", "tool t", "tool t")
async def conversation_grant_of_second_frontend(setup: AttackSetup) -> None:
    server = setup.stdio_server("s", "t")
    rule = AllowRule(replace(parse_rule("s/t"), scope="conversation"))
    async with (
        setup.open_host(call_twice(), SelectiveFrontend(approve_tool=[rule]), server) as host,
        setup.open_host(call_twice(), SelectiveFrontend(), server) as other,
    ):
        await host.conversation.send("go")
        await other.conversation.send("go")


@attack("The ledger cannot be written, and it is demanded: no call and no process goes unrecorded.", may_start=False)
async def audit_log_unwritable(setup: AttackSetup) -> None:
    (setup.folder / "a file").write_text("")
    audit_log = AuditLog(AuditStore(Path(setup.folder / "a file" / "ledger.db")), AuditConfig(required=True))
    frontend = SelectiveFrontend(approve_tool=[AllowOnce()], trust_server=[TrustAlways()])
    async with setup.open_host(
        call_twice(), frontend, setup.stdio_server("s", "t"), ready=False, audit_log=audit_log
    ) as host:
        await expect_not_started(host)
        await host.conversation.send("go")


@attack("The ledger is replaced by an older copy while calls are made: what happens afterwards is in no file.",
     "tool t", "tool t")  # fmt: skip
async def audit_log_replaced(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[AllowOnce(), AllowOnce()])
    model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
    async with setup.open_host(model, frontend, setup.stdio_server("s", "t")) as host:
        await host.conversation.send("go")
        copy = setup.folder / "copy"
        with closing(sqlite3.connect(setup.ledger)) as db, db:
            db.execute("VACUUM INTO ?", (str(copy),))
        for suffix in ("-wal", "-shm"):
            setup.ledger.with_name(setup.ledger.name + suffix).unlink(missing_ok=True)
        copy.rename(setup.ledger)
        await host.conversation.send("go on")


@attack("An address that was approved sends the calls on to another server.", "tool t")
async def redirected(setup: AttackSetup) -> None:
    async with setup.http_server("evil", "t") as evil, setup.http_server("s", "t", revision=MODERN) as server:
        frontend = SelectiveFrontend(approve_tool=[AllowOnce(), AllowOnce()])
        model = ScriptedModel(tool_round(("s__t", {})), text_round("ok"), tool_round(("s__t", {})), text_round("ok"))
        async with setup.open_host(model, frontend, server) as host:
            await host.conversation.send("go")
            setup.write_plan("s", "t", revision=MODERN, redirect={"tools/call": evil.url})
            await host.conversation.send("go on")
    assert {effect["server"] for effect in setup.effects()} == {"s"}
