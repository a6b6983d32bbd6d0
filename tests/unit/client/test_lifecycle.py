"""Tests for the start of a session: revisions, capabilities in both directions, and early messages."""

import json
import re
from typing import Any

import anyio
import pytest

from mcphost import __version__
from mcphost.client import negotiation
from mcphost.client.capabilities import capabilities_for
from mcphost.config.schema import Limits
from mcphost.errors import (
    ConnectionLost,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    UnsupportedCapability,
    UnsupportedRevision,
)
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.notifications import SetLevel
from mcphost.protocol.prompts import GetPrompt, ListPrompts
from mcphost.protocol.resources import ListResources, Subscribe
from mcphost.protocol.revisions import HANDSHAKE_REVISIONS, Era, Revision
from mcphost.protocol.server_requests import CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.tasks import EXTENSION as TASKS
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to

pytestmark = pytest.mark.anyio
ROOTS = {"roots/list": ListRootsResult((Root("file:///a", "a"),))}
ALL_REPLIES = {
    **ROOTS,
    "elicitation/create": ElicitResult("decline"),
    "sampling/createMessage": CreateMessageResult("assistant", Raw(b'{"type":"text","text":"x"}'), "m"),
}
META = "io.modelcontextprotocol/"


class RootsChanged(Notification, frozen=True):
    METHOD = "notifications/roots/list_changed"


# -- opening
@pytest.mark.req("life.init.first")
@pytest.mark.req("life.init.params")
@pytest.mark.req("life.init.latest-version")
@pytest.mark.req("life.init.supported-version-only")
@pytest.mark.req("life.init.client-info-extra")
@pytest.mark.req("life.init.initialized")
async def test_a_handshake_offers_the_newest_revision_and_identifies_the_client() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake") as session:
        await session.request(ListTools())
    assert peer.methods() == ["initialize", "notifications/initialized", "tools/list"]
    assert peer.seen[0]["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "mcphost", "version": __version__, "title": "mcphost"},
    }


@pytest.mark.req("life.init.downgrade")
@pytest.mark.req("life.op.respect-should")
@pytest.mark.req("life.era.cache")
@pytest.mark.req("transport.custom.preserve")
@pytest.mark.parametrize("revision", list(Revision))
async def test_each_revision_is_negotiated_and_kept_to(revision: Revision) -> None:
    """Open a session and call a tool in each revision; no message may use a feature that the revision lacks."""
    peer = ScriptedServer(revision=revision.value)
    async with connect_to(peer) as session:
        assert session.facts.revision is revision
        await session.request(CallTool("x"))
        await session.request(CallTool("y"))
    opening = ["server/discover"] if revision.era == "stateless" else ["initialize", "notifications/initialized"]
    sent = peer.methods()
    if revision.era == "handshake":
        assert sent.pop(0) == "server/discover"  # the probe; on a pipe the era is not known before
    assert sent == [*opening, "tools/call", "tools/call"]
    stamped = ["_meta" in message["params"] for message in peer.seen if message["method"] == "tools/call"]
    assert stamped == [revision.era == "stateless"] * 2


@pytest.mark.req("life.init.error-32602")
async def test_a_refused_version_is_retried_once_with_one_that_the_server_offers() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize" and params["protocolVersion"] != "2024-11-05":
            data = b'{"supported":["2024-11-05","1999-01-01"],"requested":"2025-11-25"}'
            return ErrorData(-32602, "Unsupported protocol version", Raw(data))
        return None

    peer = ScriptedServer(opening=opening, revision="2024-11-05")
    async with connect_to(peer, era="handshake") as session:
        assert session.facts.revision is Revision.V2024_11_05
    offers = [message["params"] for message in peer.seen if message["method"] == "initialize"]
    assert [offer["protocolVersion"] for offer in offers] == ["2025-11-25", "2024-11-05"]
    assert "title" not in offers[1]["clientInfo"]  # that revision has no titles


@pytest.mark.req("life.init.error-32602")
@pytest.mark.req("life.era.initialize-error-text")
@pytest.mark.parametrize("code", [-32602, -32022])
async def test_versions_without_overlap_are_shown_from_both_sides(code: int) -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return ErrorData(code, "no", Raw(b'{"supported":["2031-01-01","2030-01-01"],"requested":"x"}'))
        return None

    with pytest.raises(UnsupportedRevision) as exc_info:
        async with connect_to(ScriptedServer(opening=opening), era="handshake"):
            pass
    assert exc_info.value.server_revisions == ("2031-01-01", "2030-01-01")
    for item in ("2031-01-01", "2030-01-01", *(revision.value for revision in Revision)):
        assert item in exc_info.value.message


@pytest.mark.req("life.init.unsupported-reply")
async def test_a_revision_of_the_other_era_in_the_handshake_is_refused() -> None:
    peer = ScriptedServer(opening=lambda peer, method, params: {"protocolVersion": "2026-07-28", "capabilities": {}})
    with pytest.raises(UnsupportedRevision, match="2026-07-28"):
        async with connect_to(peer, era="handshake"):
            pass
    assert "notifications/initialized" not in peer.methods()


@pytest.mark.req("life.mod.version-retry")
@pytest.mark.req("life.mod.version-retry-once")
async def test_a_version_offered_and_refused_at_once_is_tried_only_once_more() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return ErrorData(-32022, "no", Raw(b'{"supported":["2026-07-28"],"requested":"2026-07-28"}'))

    peer = ScriptedServer(opening=opening)
    with pytest.raises(UnsupportedRevision, match="2026-07-28"):
        async with connect_to(peer, era="stateless"):
            pass
    assert peer.methods() == ["server/discover", "server/discover"]


@pytest.mark.req("life.discover.request")
@pytest.mark.req("life.discover.result")
@pytest.mark.req("life.discover.choose-version")
@pytest.mark.req("life.discover.optional")
@pytest.mark.req("life.era.dual-server")
@pytest.mark.req("life.init.instructions")
async def test_discovery_makes_no_other_request_and_reads_the_whole_answer() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return {
            "resultType": "complete",
            "supportedVersions": ["2024-11-05", "2026-07-28", "2099-01-01"],
            "capabilities": {"tools": {}, "extensions": {"com.example/x": {}}, "novel": {"a": 1}},
            "instructions": "Be quick.",
            "ttlMs": 3_600_000,
            "cacheScope": "public",
            "_meta": {META + "serverInfo": {"name": "dual", "version": "2", "title": "Dual"}, "com.example/y": 1},
        }

    peer = ScriptedServer(opening=opening)
    async with connect_to(peer) as session:
        facts = session.facts
        await session.request(CallTool("x"))
    assert (facts.revision.value, facts.info.name, facts.info.title) == ("2026-07-28", "dual", "Dual")
    assert facts.instructions == "Be quick."
    assert facts.capabilities.tools is not None
    assert facts.capabilities.prompts is None
    assert set(peer.seen[0]["params"]) == {"_meta"}
    assert set(peer.seen[0]["params"]["_meta"]) == {
        META + "protocolVersion",
        META + "clientInfo",
        META + "clientCapabilities",
    }
    assert peer.methods() == ["server/discover", "tools/call"]
    assert peer.seen[1]["params"]["_meta"][META + "protocolVersion"] == "2026-07-28"


@pytest.mark.req("base.meta.server-info-absent")
@pytest.mark.req("base.meta.server-info-display-only")
@pytest.mark.req("base.meta.opaque-values")
@pytest.mark.parametrize(
    "meta", [None, {}, {META + "serverInfo": 5}, {META + "serverInfo": {"name": ["x"]}}, {META + "subscriptionId": {}}]
)
async def test_a_server_with_useless_information_about_itself_is_still_used(meta: Any) -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        more = {} if meta is None else {"_meta": meta}
        return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **more}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return {"content": [], **({} if meta is None else {"_meta": meta})}

    async with connect_to(ScriptedServer(script, opening=opening)) as session:
        assert session.facts.revision is Revision.V2026_07_28
        assert session.facts.info.name == ""
        await session.request(CallTool("x"))


@pytest.mark.req("life.init.server-info-extra")
@pytest.mark.req("base.unknown-fields")
async def test_unknown_members_do_not_invalidate_a_response() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        info = {
            "name": "p",
            "version": "1",
            "title": "P",
            "description": "d",
            "websiteUrl": "https://p.example",
            "z": 0,
        }
        capabilities = {"tools": {"listChanged": True, "novel": [1]}, "resources": {"x": None}, "telepathy": {}}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info, "extra": [{}]}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return {"tools": [{"name": "a", "inputSchema": {"type": "object"}, "novel": 1}], "novel": {"a": [1]}}

    async with connect_to(ScriptedServer(script, opening=opening), era="handshake") as session:
        info = session.facts.info
        assert (info.title, info.description, info.website_url) == ("P", "d", "https://p.example")
        assert len((await session.request(ListTools())).tools) == 1


async def test_a_servers_description_of_itself_is_shortened_for_display() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        info = dict.fromkeys(("name", "version", "title", "description", "websiteUrl"), "x" * 1000000)
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
        return {**result, "instructions": "y" * 1_000_000}

    async with connect_to(ScriptedServer(opening=opening), era="handshake") as session:
        facts = session.facts
    assert len(facts.instructions) == negotiation.INSTRUCTIONS_LIMIT == 32_000
    assert [len(facts.info.name), len(facts.info.version), len(facts.info.title or "")] == [200] * 3
    assert [len(facts.info.description or ""), len(facts.info.website_url or "")] == [2_000] * 2


# -- messages before the session is ready
@pytest.mark.req("ping.answer")
@pytest.mark.req("life.init.early-server-traffic")
@pytest.mark.req("life.init.no-early-requests")
async def test_an_early_ping_is_answered_and_an_early_log_line_reported() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        peer.ident, opened = peer.ident, peer.ident
        peer.say(id="early", method="ping")
        peer.say(method="notifications/message", params={"level": "info", "data": "starting"})
        waiting.append(opened)
        return NO_REPLY

    waiting: list[Any] = []
    peer = ScriptedServer(opening=opening)

    async def answer_after_the_pong() -> None:
        await peer.wait_until(lambda: bool(peer.answers()))
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
        peer.say(id=waiting[0], result=result)

    async with anyio.create_task_group() as group:
        group.start_soon(answer_after_the_pong)
        async with connect_to(peer, era="handshake"):
            pass
    assert peer.answers() == [{"jsonrpc": "2.0", "id": "early", "result": {}}]
    assert peer.methods()[:3] == ["initialize", "answer", "notifications/initialized"]
    assert [bytes(line.data) for line in peer.observer.logged] == [b'"starting"']


async def test_a_question_asked_with_the_answer_to_the_handshake_waits_for_the_session() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        peer.say(id=7, method="roots/list")
        return None

    peer = ScriptedServer(opening=opening)
    async with connect_to(peer, FakeRequestHandler(ROOTS), era="handshake"):
        await peer.wait_until(lambda: bool(peer.answers()))
    assert peer.methods() == ["initialize", "notifications/initialized", "answer"]
    assert peer.answers()[0]["result"]["roots"][0]["name"] == "a"


# -- only what was negotiated
REFUSED_CALLS: list[ClientRequest[Any]] = [
    SetLevel("info"),
    ListTools(),
    CallTool("x"),
    ListPrompts(),
    GetPrompt("x"),
    ListResources(),
    Subscribe("a:b"),
]


@pytest.mark.req("life.op.respect-must")
@pytest.mark.parametrize("revision", [item.value for item in Revision])
async def test_nothing_is_sent_that_the_server_did_not_declare(revision: str) -> None:
    peer = ScriptedServer(revision=revision, capabilities={})
    async with connect_to(peer) as session:
        before = len(peer.seen)
        for call in REFUSED_CALLS:
            with pytest.raises(UnsupportedCapability, match="peer") as exc_info:
                await session.request(call)
            assert call.METHOD in exc_info.value.message
        assert len(peer.seen) == before


@pytest.mark.req("life.op.respect-must")
async def test_subscriptions_need_their_own_capability_besides_resources() -> None:
    peer = ScriptedServer(capabilities={"resources": {"listChanged": True}})
    async with connect_to(peer, era="handshake") as session:
        await session.request(ListResources())
        with pytest.raises(UnsupportedCapability, match="subscriptions"):
            await session.request(Subscribe("a:b"))
    assert "resources/subscribe" not in peer.methods()


@pytest.mark.req("life.op.respect-must")
@pytest.mark.parametrize(("declared", "told"), [({}, False), ({"listChanged": True}, True)])
async def test_changed_roots_are_announced_only_where_declared(declared: dict[str, Any], told: bool) -> None:
    peer, answers = ScriptedServer(), FakeRequestHandler(ROOTS)
    answers.capabilities = {"roots": declared}
    async with connect_to(peer, answers, era="handshake") as session:
        await session.notify(RootsChanged())
        await session.request(ListTools())
    assert (RootsChanged.METHOD in peer.methods()) is told


@pytest.mark.req("life.op.undeclared-server-request")
@pytest.mark.req("base.request.unknown-method")
@pytest.mark.parametrize("method", ["sampling/createMessage", "elicitation/create", "roots/list", "tools/list", "x"])
async def test_undeclared_requests_are_refused_and_reported_once(method: str) -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake"):
        for ident in (1, 2):
            peer.say(id=ident, method=method, params={})
        await peer.wait_until(lambda: len(peer.answers()) == 2)
    assert [answer["error"]["code"] for answer in peer.answers()] == [-32601, -32601]
    assert [method in warning for warning in peer.observer.warnings] == [True]


@pytest.mark.req("life.op.undeclared-server-request")
async def test_features_that_a_revision_lacks_are_refused_in_it_even_if_supported() -> None:
    peer = ScriptedServer(revision="2025-03-26")
    async with connect_to(peer, FakeRequestHandler(ALL_REPLIES)):
        peer.say(id=1, method="elicitation/create", params={"message": "?", "requestedSchema": {}})
        await peer.wait_until(lambda: bool(peer.answers()))
    assert peer.answers()[0]["error"]["code"] == -32601


TASKS_EXTENSION: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
HOSTED_TASKS: dict[str, Any] = {
    "list": {},
    "cancel": {},
    "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
}
FULL = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"requests": {"sampling": {"createMessage": {}}}},
    "extensions": {"com.example/x": {}},
}


@pytest.mark.req("life.init.caps.roots")
@pytest.mark.req("life.init.caps.sampling")
@pytest.mark.req("life.init.caps.elicitation")
@pytest.mark.req("life.init.caps.tasks")
@pytest.mark.req("life.mod.caps-shape")
def test_capabilities_take_the_shape_of_the_revision() -> None:
    old = {"roots": {"listChanged": True}, "sampling": {}}
    expected = {
        "2024-11-05": old,
        "2025-03-26": old,
        "2025-06-18": {**old, "elicitation": {}},
        "2025-11-25": {**{name: value for name, value in FULL.items() if name != "extensions"}, "tasks": HOSTED_TASKS},
        "2026-07-28": {
            **{name: value for name, value in FULL.items() if name != "tasks"},
            "roots": {},
            "extensions": FULL["extensions"] | TASKS_EXTENSION,
        },
    }
    for revision in Revision:
        assert capabilities_for(revision, FULL) == expected[revision.value]
        nothing = {"extensions": TASKS_EXTENSION} if revision.era == "stateless" else {}
        assert capabilities_for(revision, {}) == nothing
    alone = capabilities_for(Revision.V2025_11_25, {"elicitation": {}, "roots": {}})
    assert alone["tasks"] == {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}
    assert "tasks" not in capabilities_for(Revision.V2025_11_25, {"roots": {}})


@pytest.mark.req("life.init.caps.sampling")
@pytest.mark.req("life.init.caps.roots")
@pytest.mark.parametrize("revision", [revision.value for revision in HANDSHAKE_REVISIONS])
async def test_declared_capabilities_are_answered(revision: str) -> None:
    peer = ScriptedServer(revision=revision)
    async with connect_to(peer, FakeRequestHandler(ROOTS), era="handshake"):
        peer.say(id=1, method="roots/list")
        peer.say(id=2, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        await peer.wait_until(lambda: len(peer.answers()) == 2)
    assert peer.seen[0]["params"]["capabilities"] == {"roots": {}}
    assert {answer["id"]: "result" in answer for answer in peer.answers()} == {1: True, 2: False}


@pytest.mark.req("life.init.caps.sampling", "life.init.caps.roots", "life.op.undeclared-server-request")
@pytest.mark.parametrize("revision", [revision.value for revision in HANDSHAKE_REVISIONS])
async def test_calls_to_a_tool_disabled_after_the_handshake_are_refused(revision: str) -> None:
    peer, answers = ScriptedServer(revision=revision), FakeRequestHandler(ALL_REPLIES)
    async with connect_to(peer, answers, era="handshake"):
        answers.capabilities = {}
        peer.say(id=1, method="roots/list")
        peer.say(id=2, method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        await peer.wait_until(lambda: len(peer.answers()) == 2)
    assert {"roots", "sampling"} <= set(peer.seen[0]["params"]["capabilities"])
    assert [answer["error"]["code"] for answer in peer.answers()] == [-32601, -32601]


@pytest.mark.req("life.mod.caps-per-request")
@pytest.mark.req("base.meta.required-per-request")
async def test_a_disabled_tool_is_missing_from_the_very_next_request() -> None:
    peer, answers = ScriptedServer(revision="2026-07-28"), FakeRequestHandler(ALL_REPLIES)
    async with connect_to(peer, answers) as session:
        await session.request(CallTool("x"))
        answers.capabilities = {"roots": {}}
        await session.request(CallTool("x"))
    declared = [message["params"]["_meta"][META + "clientCapabilities"] for message in peer.seen]
    for item in declared:
        assert item.pop("extensions") == TASKS_EXTENSION
    assert declared == [{"roots": {}, "elicitation": {}, "sampling": {}}] * 2 + [{"roots": {}}]


@pytest.mark.req("life.mod.no-handshake", "roots.changed-modern")
@pytest.mark.req("ping.modern-none")
async def test_nothing_of_the_handshake_is_sent_to_a_stateless_server() -> None:
    peer = ScriptedServer(revision="2026-07-28")
    async with connect_to(peer, FakeRequestHandler(ROOTS), limits=Limits(ping_interval=0.02)) as session:
        await session.request(ListTools())
        await session.notify(RootsChanged())
        await session.set_log_level("debug")
        await session.request(ListTools())
        await anyio.sleep(0.1)
    assert peer.methods() == ["server/discover", "tools/list", "tools/list"]


# -- the stored era
class EraMemory:
    def __init__(self, era: Era) -> None:
        self.era = era
        self.put_back: list[Era] = []

    def get(self, server: str, digest: str) -> Era | None:
        return self.era

    def put(self, server: str, digest: str, era: Era) -> None:
        self.put_back.append(era)


@pytest.mark.req("life.era.persist")
@pytest.mark.parametrize("code", [-32601, -32022, -32600])
async def test_a_server_whose_era_changed_is_probed_again_and_stored_again(code: int) -> None:
    """The server refuses the stored era's handshake, so mcphost probes it and stores the stateless era."""

    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "initialize":
            return ErrorData(code, "no", Raw(b'{"supported":["2026-07-28"],"requested":"2025-11-25"}'))
        return None

    peer, memory = ScriptedServer(opening=opening, revision="2026-07-28"), EraMemory("handshake")
    async with connect_to(peer, eras=memory) as session:
        assert session.facts.era == "stateless"
    assert peer.methods() == ["initialize", "server/discover"]
    assert memory.put_back == ["stateless"]


@pytest.mark.req("life.era.user-override")
@pytest.mark.req("life.init.supported-version-only")
@pytest.mark.req("life.init.first", "life.init.params", "life.init.initialized")
@pytest.mark.parametrize("revision", list(Revision))
async def test_a_demanded_revision_is_offered_alone_and_without_a_probe(revision: Revision) -> None:
    peer = ScriptedServer(revision=revision.value)
    async with connect_to(peer, revision=revision) as session:
        assert session.facts.revision is revision
    if revision.era == "handshake":
        assert peer.methods() == ["initialize", "notifications/initialized"]
        title = {"title": "mcphost"} if revision >= Revision.V2025_06_18 else {}
        assert peer.seen[0]["params"] == {
            "protocolVersion": revision.value,
            "capabilities": {},
            "clientInfo": {"name": "mcphost", "version": __version__, **title},
        }
    else:
        assert peer.methods() == ["server/discover"]


@pytest.mark.req("life.era.user-override")
@pytest.mark.req("life.init.unsupported-reply")
async def test_a_revision_other_than_the_required_one_is_refused_naming_both() -> None:
    with pytest.raises(UnsupportedRevision, match="speaks 2025-03-26; mcphost speaks 2025-06-18 here, as its conf"):
        async with connect_to(ScriptedServer(revision="2025-03-26"), revision=Revision.V2025_06_18):
            pass


@pytest.mark.req("life.timeout.initialize")
@pytest.mark.req("life.init.not-cancellable")
async def test_a_handshake_without_an_answer_ends_by_its_own_deadline_and_is_not_cancelled() -> None:
    peer = ScriptedServer(opening=lambda peer, method, params: NO_REPLY)
    with pytest.raises(RequestTimeout, match="did not answer within"):
        async with connect_to(peer, limits=Limits(connect_timeout=0.3), era="handshake"):
            pass
    assert peer.methods() == ["initialize"]


async def test_waiters_of_a_session_get_the_reason_of_its_end() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, era="handshake") as session:
        peer.pipe.disconnect("The server exited with status 3.")
        assert "status 3" in (await session.wait_closed()).message
        with pytest.raises(ConnectionLost, match="status 3"):
            await session.request(ListTools())


@pytest.mark.req("base.error.method-not-found")
async def test_an_unknown_optional_method_fails_that_call_only() -> None:
    peer = ScriptedServer(lambda peer, method, params: ErrorData(-32601, "no") if method == "prompts/list" else {})
    async with connect_to(peer, era="handshake") as session:
        with pytest.raises(RequestRefused):
            await session.request(ListPrompts())
        await session.request(ListTools())


# -- extensions
_IDENTIFIER = re.compile(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@pytest.mark.req("life.ext.declare")
@pytest.mark.req("life.ext.identifier-grammar")
@pytest.mark.parametrize("revision", list(Revision))
async def test_extensions_are_declared_where_they_exist_and_only_those_we_have(revision: Revision) -> None:
    peer = ScriptedServer(revision=revision.value)
    async with connect_to(peer, FakeRequestHandler(ROOTS), revision=revision) as session:
        await session.request(ListTools())
    if revision.era == "handshake":
        assert "extensions" not in peer.seen[0]["params"]["capabilities"]
        return
    for message in peer.seen:
        declared = message["params"]["_meta"][META + "clientCapabilities"]["extensions"]
        assert declared == {TASKS: {}}
        assert all(_IDENTIFIER.fullmatch(name) for name in declared)


@pytest.mark.req("life.ext.fallback")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_unknown_extensions_of_the_server_change_nothing(revision: str) -> None:
    capabilities = {"tools": {}, "extensions": {"com.example/telepathy": {"range": 5}, "bad name": None}}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return {"content": [], "telepathy": {"x": 1}, "_meta": {"com.example/telepathy": "y"}}

    peer = ScriptedServer(script, revision=revision, capabilities=capabilities)
    async with connect_to(peer) as session:
        await session.request(CallTool("x"))
    assert "telepathy" not in json.dumps(peer.seen)


@pytest.mark.req("life.ext.fallback")
async def test_a_server_that_insists_on_an_extension_we_lack_is_reported_with_its_name() -> None:
    data = Raw(b'{"requiredCapabilities":{"extensions":{"com.example/telepathy":{}}}}')
    peer = ScriptedServer(lambda peer, method, params: ErrorData(-32021, "think!", data), revision="2026-07-28")
    async with connect_to(peer) as session:
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(CallTool("x"))
    assert "extensions.com.example/telepathy" in exc_info.value.hint


async def test_a_server_that_turns_every_id_into_a_text_is_named_for_it_long_before_the_deadline() -> None:
    def opening(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
        peer.say(id=str(peer.ident), result=result)
        return NO_REPLY

    peer = ScriptedServer(opening=opening)
    with anyio.fail_after(20), pytest.raises(MalformedMessage, match="answered initialize with an id that is a string"):
        async with connect_to(peer, limits=Limits(connect_timeout=30), era="handshake"):
            pass
    assert len(peer.observer.warnings) == 1
