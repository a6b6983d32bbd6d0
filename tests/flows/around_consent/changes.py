"""Ways that change something after the yes: the tool, the server, what starts it, where it is, and who was asked."""

import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.rules import parse
from mcphost.config.schema import LedgerConfig, ServerConfig
from mcphost.errors import ConsentDenied, McpHostError
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.auto_approve import AutoApprovalBudget
from mcphost.host.events import CatalogChanged, ServerState
from mcphost.host.host import Host
from mcphost.host.questions.questions import (
    AcceptToolChanges,
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    ReviewToolChanges,
    TrustAlways,
    TrustOnce,
    TrustServer,
)
from mcphost.serialization import replace
from mcphost.store.audit_store import Ledger
from tests.fakes.model import ScriptedModel, calls, says
from tests.flows.around_consent.scene import MODERN, Guard, Scene, tool, way
from tests.flows.conftest import heard


def twice(name: str = "s__t", arguments: Any = None) -> ScriptedModel:
    """A model that calls a tool in two rounds."""
    return ScriptedModel(calls((name, arguments or {})), calls((name, arguments or {})), says("ok"))


async def allowed_before(scene: Scene, server: ServerConfig, answer: Any, **more: Any) -> None:
    """One run in which the tool was allowed, and ran."""
    front = Guard(approve_tool=[answer], trust_server=[TrustAlways()])
    async with scene.host(ScriptedModel(calls(("s__t", {})), says("ok")), front, server, **more) as host:
        await host.send("go")


async def changed(host: Host, turn: Any) -> None:
    """Do that, and wait until the host has listed the tools anew."""
    feed = host.subscribe()
    turn()
    with anyio.fail_after(10):
        await heard(feed, lambda event: isinstance(event, CatalogChanged))


@way("The words of a tool that was allowed for good change between two runs.", "tool t")
async def drift_of_words(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    scene.plan("s", tool("t", "evil"))
    front = Guard(approve_tool=[AllowOnce(), AllowOnce()])
    async with scene.host(twice(), front, server) as host:
        await host.send("go")
    assert front.of(ReviewToolChanges)


@way("Only a member nobody reads changes: _meta deep inside of the schema.", "tool t")
async def drift_of_the_unread(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    schema = {"type": "object", "properties": {"x": {"_meta": {"run": "rm"}}}}
    scene.plan("s", {**tool("t"), "inputSchema": schema})
    async with scene.host(twice(), Guard(), server) as host:
        await host.send("go")


@way("A tool becomes another one and then again what it was, in the hope that the other one runs.", "tool t")
async def there_and_back(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    scene.plan("s", tool("t", "evil"))
    async with scene.host(twice(), Guard(), server) as host:
        await host.send("go")
    scene.plan("s", "t")
    async with scene.host(twice(), Guard(), server) as host:
        await host.send("go")


@way("A tool was another one for a while: what was allowed of it counts once the user has seen that.", *["tool t"] * 3)
async def there_and_back_and_kept(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    scene.plan("s", tool("t", "evil"))
    async with scene.host(None, Guard(), server) as host:
        assert [one.state for one in await host.grants.list_grants()] == ["suspended"]
    scene.plan("s", "t")
    async with scene.host(None, Guard(), server) as host:
        assert [one.state for one in await host.grants.list_grants()] == ["suspended"]
        assert await host.quarantine.accept("s", await host.quarantine.list_changes("s")) == ("t",)
        assert [one.state for one in await host.grants.list_grants()] == ["counts"]
    async with scene.host(twice(), Guard(), server) as host:
        await host.send("go")


LIST_CHANGED = {"method": "notifications/tools/list_changed"}


@way("list_changed in the middle of a run: the tool allowed for the session is another one now.", "tool t")
async def list_changed(scene: Scene) -> None:
    server = scene.server("s", "t")
    front = Guard(approve_tool=[AllowSession(), AllowOnce()])
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with scene.host(model, front, server) as host:
        await host.send("go")
        await changed(host, lambda: scene.plan("s", tool("t", "evil"), push=[LIST_CHANGED]))
        await host.send("go on")


@way("The tool becomes another one while its question is open: the yes was for what was shown.")
async def changed_under_the_question(scene: Scene) -> None:
    hosts: list[Host] = []

    async def late(_: ApproveTool) -> AllowOnce:
        with anyio.CancelScope(shield=True):
            await changed(hosts[0], lambda: scene.plan("s", tool("t", "evil"), push=[LIST_CHANGED]))
        return AllowOnce()

    front = Guard(approve_tool=[late, AllowOnce()])
    async with scene.host(twice(), front, scene.server("s", "t")) as host:
        hosts.append(host)
        await host.send("go")
    assert front.of(ReviewToolChanges)


@way("The tool becomes another one while it is being recorded that it starts.")
async def changed_while_recorded(scene: Scene) -> None:
    hosts: list[Host] = []

    class Late(Ledger):
        """A slow one: before it says that a row is written, the server has changed."""

        async def append(self, make: Any, about: Any = None) -> Any:
            entry = await super().append(make, about)
            if entry.record is not None and (entry.record.kind, entry.record.event) == ("tool", "started"):
                await changed(hosts[0], lambda: scene.plan("s", tool("t", "evil"), push=[LIST_CHANGED]))
            return entry

    journal = AuditLog(Late(scene.ledger), LedgerConfig(required=True))
    front = Guard(approve_tool=[AllowOnce(), AllowOnce()])
    model = ScriptedModel(calls(("s__t", {})), says("ok"))
    async with scene.host(model, front, scene.server("s", "t"), journal=journal) as host:
        hosts.append(host)
        await host.send("go")


@way("list_changed takes the tool away and brings another one of its name back.", "tool t")
async def away_and_back(scene: Scene) -> None:
    server = scene.server("s", "t")
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with scene.host(model, Guard(approve_tool=[AllowAlways()]), server) as host:
        await host.send("go")
        await changed(host, lambda: scene.plan("s", "other", push=[LIST_CHANGED]))
        await changed(host, lambda: scene.plan("s", "other", tool("t", "evil"), push=[LIST_CHANGED]))
        await host.send("go on")


@way("A tool that was kept out runs by hand all the same.")
async def by_hand_though_held(scene: Scene) -> None:
    server = scene.server("s", "t")
    async with scene.host(None, Guard(), server):
        pass
    scene.plan("s", tool("t", "evil"))
    async with scene.host(None, Guard(), server) as host:
        try:
            await host.call_tool("s", "t", {})
        except ConsentDenied:
            return
    raise AssertionError("it ran")


@way("The difference that was kept is not the one that stands there when the answer comes.", "tool t")
async def changed_while_shown(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    scene.plan("s", tool("t", "odd"))
    hosts: list[Host] = []

    async def keep(question: ReviewToolChanges) -> AcceptToolChanges:
        with anyio.CancelScope(shield=True):
            await changed(hosts[0], lambda: scene.plan("s", tool("t", "evil"), push=[LIST_CHANGED]))
        return AcceptToolChanges(("t",))

    front = Guard(tools_changed=[keep])
    async with scene.host(twice(), front, server, ready=False) as host:
        hosts.append(host)
        await host.ensure_ready("s")
        await host.send("go")


@way("A reconnect: the process is started anew and offers something else under the name.", "tool t")
async def reconnect(scene: Scene) -> None:
    server = scene.server("s", "t")
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with scene.host(model, Guard(approve_tool=[AllowSession()]), server) as host:
        await host.send("go")
        scene.plan("s", tool("t", "evil"))
        feed = host.subscribe()
        host.restart("s")
        await heard(feed, lambda event: isinstance(event, ServerState) and event.state == "ready")
        await host.send("go on")


@way("The configuration is swapped: another command under the name of a server that was approved.", "tool t")
async def another_command(scene: Scene) -> None:
    server = scene.server("s", "t", source="user")
    await allowed_before(scene, server, AllowAlways())
    front = Guard()
    async with scene.host(twice(), front, replace(server, args=(*server.args, "--evil")), ready=False) as host:
        await refused(host)
        await host.send("go")
    assert front.of(TrustServer)[0].changed
    assert [effect["name"] for effect in scene.seen() if effect["what"] == "process"] == [server.args[0]]


async def refused(host: Host, server: str = "s") -> None:
    """The server is not started."""
    try:
        await host.ensure_ready(server)
    except McpHostError:
        return
    raise AssertionError("it is ready")


@way("A variable is added to the environment of an approved server: LD_PRELOAD.", "tool t")
async def another_environment(scene: Scene) -> None:
    server = scene.server("s", "t", source="user")
    await allowed_before(scene, server, AllowAlways())
    async with scene.host(twice(), Guard(), replace(server, env={**server.env, "X": "1"}), ready=False) as host:
        await refused(host)
    assert len([effect for effect in scene.seen() if effect["what"] == "process"]) == 1


@way("An approved server runs in another folder.", "tool t")
async def another_folder(scene: Scene) -> None:
    server = scene.server("s", "t", source="user")
    await allowed_before(scene, server, AllowAlways())
    async with scene.host(twice(), Guard(), replace(server, cwd=str(scene.folder)), ready=False) as host:
        await refused(host)
    assert len([effect for effect in scene.seen() if effect["what"] == "process"]) == 1


@way("The configuration is swapped, and the user approves the new one: its tool has the old grants?", "tool t")
async def grants_of_another_command(scene: Scene) -> None:
    server = scene.server("s", "t", source="user")
    await allowed_before(scene, server, AllowAlways())
    swapped = replace(server, args=(*server.args, "--evil"))
    front = Guard(trust_server=[TrustOnce()])
    async with scene.host(twice(), front, swapped) as host:
        await host.send("go")
    assert len(front.of(ApproveTool)) == 2


@way(
    "By hand, a tool that was allowed for good as another one, by a server that is started in another way now.",
    "tool t",
)
async def by_hand_of_another_command(scene: Scene) -> None:
    server = scene.server("s", "t")
    await allowed_before(scene, server, AllowAlways())
    scene.plan("s", tool("t", "evil"))
    async with scene.host(None, Guard(), replace(server, args=(*server.args, "--evil"))) as host:
        with pytest.raises(ConsentDenied, match="not what it was"):
            await host.call_tool("s", "t", {})


@way("A server that nobody approved starts while its question is open.", starts=False)
async def started_before_the_answer(scene: Scene) -> None:
    server = scene.server("s", "t", source="user")

    async def late(question: TrustServer) -> Any:
        await anyio.wait_all_tasks_blocked()
        return question.refusal()

    front = Guard(trust_server=[late])
    async with scene.host(twice(), front, server, ready=False) as host:
        await refused(host)
        await host.send("go")


@way("A server that was refused is tried again by the model, by a restart and by hand.", starts=False)
async def refused_again(scene: Scene) -> None:
    async with scene.host(twice(), Guard(), scene.server("s", "t", source="user"), ready=False) as host:
        await refused(host)
        host.restart("s")
        await refused(host)
        await host.send("go")
        for act in (host.call_tool("s", "t", {}), host.read_resource("s", "x:y")):
            try:
                await act
            except McpHostError:
                continue
            raise AssertionError("it answered")


@way("A server at an address nobody approved is looked at before the answer.", starts=False)
async def address_not_approved(scene: Scene) -> None:
    async with (
        scene.listening("s", "t", source="user") as server,
        scene.host(twice(), Guard(), server, ready=False) as host,
    ):
        await refused(host)
        await host.send("go")


@way("A front that answers the question about a server with something that is no answer.", starts=False)
async def no_answer_about_a_server(scene: Scene) -> None:
    for answer in (None, True, "always", AllowAlways()):
        async with scene.host(
            twice(), Guard(trust_server=[answer]), scene.server("s", "t", source="user"), ready=False
        ) as host:
            await refused(host)
            await host.send("go")


@way("A tool picked to run unasked becomes another one.", "tool t")
async def picked_and_changed(scene: Scene) -> None:
    claims = {"annotations": {"readOnlyHint": True}}
    server = scene.server("s", tool("t", **claims))
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with scene.host(model, Guard(), server) as host:
        host.auto_approval.start([("s", "t")], AutoApprovalBudget())
        await host.send("go")
        await changed(host, lambda: scene.plan("s", tool("t", "evil", **claims), push=[LIST_CHANGED]))
        await host.send("go on")


@way("More calls side by side than the budget of working on its own has left.", "tool t")
async def over_budget_at_once(scene: Scene) -> None:
    server = scene.server("s", tool("t", annotations={"readOnlyHint": True}))
    model = ScriptedModel(calls(*(("s__t", {"n": n}) for n in range(5))), says("ok"))
    model.rounds[0] = calls(("s__t", {}), ("s__t", {}), ("s__t", {}))
    async with scene.host(model, Guard(), server) as host:
        host.auto_approval.start([("s", "t")], AutoApprovalBudget(calls=1))
        await host.send("go")


@way("A tool claims to read only, and nobody chose to believe that.")
async def a_claim_alone(scene: Scene) -> None:
    server = scene.server("s", tool("t", annotations={"readOnlyHint": True, "destructiveHint": False}))
    async with scene.host(twice(), Guard(), server) as host:
        await host.send("go")


@way("A tool claims to read only and to destroy, at a server whose claims are believed.")
async def a_claim_with_two_tongues(scene: Scene) -> None:
    claims = {"annotations": {"readOnlyHint": True, "destructiveHint": True}}
    async with scene.host(twice(), Guard(), scene.server("s", tool("t", **claims), trust_annotations=True)) as host:
        await host.send("go")


@way("Two programs on one store: what one allowed for its session does not hold in the other.", "tool t", "tool t")
async def two_fronts_session(scene: Scene) -> None:
    server = scene.server("s", "t")
    async with (
        scene.host(twice(), Guard(approve_tool=[AllowSession()]), server) as one,
        scene.host(twice(), Guard(), server) as other,
    ):
        await one.send("go")
        await other.send("go")


@way("Two programs on one store: a grant that one revoked is used by the other, which runs still.", "tool t")
async def two_fronts_revoked(scene: Scene) -> None:
    server = scene.server("s", "t")
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with (
        scene.host(model, Guard(approve_tool=[AllowAlways()]), server) as one,
        scene.host(ScriptedModel(), Guard(), server) as other,
    ):
        await one.send("go")
        for permission in await other.grants.list_grants():
            await other.grants.revoke(permission.grant.id)
        await one.send("go on")


@way("Two programs on one store: a rule for this conversation is used in another one.", "tool t", "tool t")
async def two_fronts_conversation(scene: Scene) -> None:
    server = scene.server("s", "t")
    rule = AllowRule(replace(parse("s/t"), scope="conversation"))
    async with (
        scene.host(twice(), Guard(approve_tool=[rule]), server) as one,
        scene.host(twice(), Guard(), server) as other,
    ):
        await one.send("go")
        await other.send("go")


@way("The ledger cannot be written, and it is demanded: no call and no process goes unrecorded.", starts=False)
async def no_ledger(scene: Scene) -> None:
    (scene.folder / "a file").write_text("")
    journal = AuditLog(Ledger(Path(scene.folder / "a file" / "ledger.db")), LedgerConfig(required=True))
    front = Guard(approve_tool=[AllowOnce()], trust_server=[TrustAlways()])
    async with scene.host(twice(), front, scene.server("s", "t"), ready=False, journal=journal) as host:
        await refused(host)
        await host.send("go")


@way("The ledger is replaced by an older copy while calls are made: what happens afterwards is in no file.",
     "tool t", "tool t")  # fmt: skip
async def ledger_replaced(scene: Scene) -> None:
    front = Guard(approve_tool=[AllowOnce(), AllowOnce()])
    model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
    async with scene.host(model, front, scene.server("s", "t")) as host:
        await host.send("go")
        copy = scene.folder / "copy"
        with sqlite3.connect(scene.ledger) as db:
            db.execute("VACUUM INTO ?", (str(copy),))
        for suffix in ("-wal", "-shm"):
            scene.ledger.with_name(scene.ledger.name + suffix).unlink(missing_ok=True)
        copy.rename(scene.ledger)
        await host.send("go on")


@way("An address that was approved sends the calls on to another server.", "tool t")
async def redirected(scene: Scene) -> None:
    async with scene.listening("evil", "t") as evil, scene.listening("s", "t", revision=MODERN) as server:
        front = Guard(approve_tool=[AllowOnce(), AllowOnce()])
        model = ScriptedModel(calls(("s__t", {})), says("ok"), calls(("s__t", {})), says("ok"))
        async with scene.host(model, front, server) as host:
            await host.send("go")
            scene.plan("s", "t", revision=MODERN, redirect={"tools/call": evil.url})
            await host.send("go on")
    assert {effect["server"] for effect in scene.seen()} == {"s"}
