"""Tests that every kind of message that mcphost sends conforms to the schema of its protocol revision."""

from typing import Any

import anyio
import pytest

from mcphost.cli.doctor import EXTENSION_REQUESTS
from mcphost.client.pagination import list_prompts, list_resource_templates, list_resources, list_tools
from mcphost.client.session import Session, WatchedChanges
from mcphost.protocol.base import ClientRequest
from mcphost.protocol.notifications import RootsListChangedNotification
from mcphost.protocol.prompts import (
    Complete,
    CompletionArgument,
    CompletionContext,
    GetPrompt,
    PromptReference,
    ResourceTemplateReference,
)
from mcphost.protocol.resources import ReadResource, Subscribe, Unsubscribe
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ClientResult, CreateMessageResult, ElicitResult, ListRootsResult, Root
from mcphost.protocol.tools import CallTool
from mcphost.serialization import Raw
from tests.spec.wire_schema import wire_schema
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_server import ALL_CAPABILITIES, NO_REPLY, ScriptedServer, connect_to

pytestmark = pytest.mark.anyio
TASKS = "io.modelcontextprotocol/tasks"
CLIENT: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
    "extensions": {TASKS: {}},
}
REPLIES: dict[str, ClientResult] = {
    "roots/list": ListRootsResult((Root("file:///a", "a"), Root("file:///b"))),
    "sampling/createMessage": CreateMessageResult("assistant", Raw(b'{"type":"text","text":"x"}'), "m", "endTurn"),
    "elicitation/create": ElicitResult("accept", {"name": "x", "age": 5, "ok": True}),
}
RESULTS = {
    "ping": "EmptyResult",
    "roots/list": "ListRootsResult",
    "sampling/createMessage": "CreateMessageResult",
    "elicitation/create": "ElicitResult",
    "tasks/get": "GetTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/cancel": "CancelTaskResult",
}
ASKED = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
NOW = "2026-01-01T00:00:00Z"
# Not in the schemas: these belong to the extension (SEP-2663).
OF_THE_EXTENSION = {"tasks/get", "tasks/update", "tasks/cancel"}
# What a client may send and this one never does.
NEVER = {"notifications/progress", "tasks/list"}


def capabilities(revision: Revision) -> dict[str, Any]:
    if revision is Revision.V2025_11_25:
        return {**ALL_CAPABILITIES, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
    if revision.era == "stateless":
        return {**ALL_CAPABILITIES, "extensions": {TASKS: {}}}
    return ALL_CAPABILITIES


class EveryAnswerServer:
    """A server with every kind of response, to which the client sends every kind of message."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self.asked: dict[Any, str] = {}
        self.polls = 0

    def __call__(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        second = "cursor" in params
        more = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"} if self.modern else {}
        if not second and method.endswith("/list") and method != "tasks/list":
            more["nextCursor"] = "p 2"
        match method:
            case "tools/list":
                names = ["later"] if second else ["plain", "asks", "slow", "works"]
                return {"tools": [self._tool(name) for name in names], **more}
            case "resources/list":
                return {"resources": [] if second else [{"uri": "a:1", "name": "a"}], **more}
            case "resources/templates/list":
                return {"resourceTemplates": [], **more}
            case "prompts/list":
                return {"prompts": [], **more}
            case "tools/call":
                return self._call(peer, params)
            case "prompts/get" | "resources/read":
                if self.modern and "inputResponses" not in params:
                    return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}
                return {"messages" if method == "prompts/get" else "contents": [], **more}
            case "completion/complete":
                return {"completion": {"values": ["x"]}, **more}
            case "subscriptions/listen":
                meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": peer.ident}}
                peer.say(
                    method="notifications/subscriptions/acknowledged",
                    params={**meta, "notifications": params["notifications"]},
                )
                return NO_REPLY
            case _ if method.startswith("tasks/"):
                return self._task(method)
            case _:
                return {}

    @property
    def modern(self) -> bool:
        return self.revision.era == "stateless"

    def _tool(self, name: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}}
        if name == "works" and self.revision is Revision.V2025_11_25:
            fields["execution"] = {"taskSupport": "required"}
        return fields

    def _call(self, peer: ScriptedServer, params: dict[str, Any]) -> Any:
        done = {"content": [], **({"resultType": "complete"} if self.modern else {})}
        match params["name"]:
            case "slow":
                token = params.get("_meta", {}).get("progressToken")
                peer.say(method="notifications/progress", params={"progressToken": token, "progress": 0.5})
                return NO_REPLY
            case "asks" if self.modern and "inputResponses" not in params:
                requests = {
                    "roots": {"method": "roots/list"},
                    "sample": {"method": "sampling/createMessage", "params": ASKED},
                    "form": {"method": "elicitation/create", "params": {"mode": "form", **FORM}},
                }
                return {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
            case "works" if self.modern:
                return {"resultType": "task", **self._state("working")}
            case "works" if self.revision is Revision.V2025_11_25:
                return {"task": self._state("working")}
            case _:
                return done

    def _state(self, status: str) -> dict[str, Any]:
        times = {"createdAt": NOW, "lastUpdatedAt": NOW}
        bounds = {"ttlMs": 9_000, "pollIntervalMs": 1} if self.modern else {"ttl": 9_000, "pollInterval": 1}
        return {"taskId": "t-1", "status": status, **times, **bounds}

    def _task(self, method: str) -> Any:
        if method == "tasks/result":
            return {"content": []}
        if method != "tasks/get":
            return {"resultType": "complete"} if self.modern else self._state("cancelled")
        self.polls += 1
        if self.modern and self.polls == 1:
            expected = {"r": {"method": "roots/list"}}
            return {"resultType": "complete", **self._state("input_required"), "inputRequests": expected}
        if self.polls < 3:
            state = self._state("working")
        else:
            state = self._state("completed") | ({"result": {"content": []}} if self.modern else {})
        return {"resultType": "complete", **state} if self.modern else state


async def send_everything(session: Session, peer: ScriptedServer, server: EveryAnswerServer) -> None:
    """Let the client send every kind of request."""
    for read in (list_tools, list_resources, list_resource_templates, list_prompts):
        await read(session)
    await session.request(CallTool("plain"))
    await session.request(CallTool("asks", {"ä": [1, 2.5, None, {"deep": True}]}), on_notification=lambda notice: None)
    await session.request(GetPrompt("p", {"a": "b"}))
    await session.request(GetPrompt("p"))
    await session.request(ReadResource("a:1"))
    context = CompletionContext({"b": "c"}) if session.facts.revision >= Revision.V2025_06_18 else None
    for ref in (PromptReference("p"), ResourceTemplateReference("a:{x}")):
        await session.request(Complete(ref, CompletionArgument("a", "v"), context))
    await session.set_log_level("warning")
    await session.request(CallTool("plain"))
    await session.notify(RootsListChangedNotification())
    await session.request(CallTool("works"), on_notification=lambda notice: None)
    await cancel_call(session, CallTool("slow"))
    if server.revision >= Revision.V2025_11_25:
        server.polls = -1_000
        await cancel_call(session, CallTool("works"), "tasks/get", peer)
    async with anyio.create_task_group() as group:
        group.start_soon(listen_for_changes, session)
        expected = "subscriptions/listen" if server.modern else "resources/subscribe"
        await peer.wait_until(lambda: expected in peer.methods())
        group.cancel_scope.cancel()
    if not server.modern:
        await session.request(Subscribe("a:2"))
        await session.request(Unsubscribe("a:2"))
        await ask_all_questions(peer, server)


async def listen_for_changes(session: Session) -> None:
    async for _ in session.changes(WatchedChanges(tools=True, prompts=True, resources=True, uris=("a:1",))):
        pass


async def cancel_call(session: Session, call: CallTool, until: str = "", peer: ScriptedServer | None = None) -> None:
    """Start a call, and cancel it when a notification arrives or the client sends the method *until*."""
    heard = anyio.Event()
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await session.request(call, on_notification=lambda notice: heard.set())

        group.start_soon(run)
        if peer is None:
            await heard.wait()
        else:
            before = peer.methods().count(until)
            await peer.wait_until(lambda: peer.methods().count(until) > before)
        group.cancel_scope.cancel()


async def ask_all_questions(peer: ScriptedServer, server: EveryAnswerServer) -> None:
    """Let the server send every kind of request, so that mcphost sends every kind of reply."""
    asks: list[tuple[str, dict[str, Any]]] = [
        ("ping", {}),
        ("roots/list", {}),
        ("sampling/createMessage", ASKED),
        ("sampling/createMessage", {"messages": 5}),
        ("elicitation/create", FORM),
        ("unknown/method", {}),
    ]
    if server.revision is Revision.V2025_11_25:
        asks += [
            ("sampling/createMessage", {**ASKED, "task": {"ttl": 60_000}}),
            ("tasks/list", {}),
            ("tasks/get", {"taskId": "nothing of that name"}),
        ]
    for number, (method, params) in enumerate(asks):
        server.asked[f"q{number}"] = method if "task" not in params else "create a task"
        peer.say(id=f"q{number}", method=method, params=params)
    await peer.wait_until(lambda: len(peer.answers()) == len(asks))
    made = next(
        (answer["result"]["task"]["taskId"] for answer in peer.answers() if "task" in answer.get("result", {})), None
    )
    for method in ("tasks/get", "tasks/result", "tasks/cancel") if made else ():
        server.asked[method] = method
        peer.say(id=method, method=method, params={"taskId": made})
        await peer.wait_until(lambda: method in [answer["id"] for answer in peer.answers()])  # noqa: B023


def faults_of(revision: Revision, message: dict[str, Any], asked: dict[Any, str]) -> list[str]:
    schema = wire_schema(revision.value)
    method = message.get("method", "")
    if not method:
        question = asked.get(message["id"], "")
        result = {"create a task": "CreateTaskResult", "tasks/result": "CreateMessageResult"}.get(question)
        return schema.check_response(message, result or RESULTS.get(question, "EmptyResult"))
    if revision.era == "stateless" and method in OF_THE_EXTENSION:
        return [
            *schema.schema_errors("JSONRPCRequest", message),
            *schema.schema_errors("RequestParams", message["params"]),
        ]
    return schema.check_message(message)


@pytest.mark.req("base.jsonrpc.version")
@pytest.mark.req("base.response.error-shape")
@pytest.mark.req("base.notification.no-id")
@pytest.mark.req("base.batch.removed")
@pytest.mark.req("base.batch.send-optional")
@pytest.mark.req("base.batch.no-mixed-body")
@pytest.mark.req("base.batch.initialize-alone")
@pytest.mark.parametrize("revision", list(Revision))
async def test_every_message_we_write_is_valid_in_its_revision(revision: Revision) -> None:
    server = EveryAnswerServer(revision)
    peer = ScriptedServer(server, revision=revision.value, capabilities=capabilities(revision))
    answers = FakeRequestHandler(dict(REPLIES))
    answers.capabilities = CLIENT
    async with connect_to(peer, answers, revision=revision) as session:
        await send_everything(session, peer, server)
    faults = [
        f"{message.get('method', server.asked.get(message.get('id')))}: {fault}"
        for message in peer.seen
        for fault in faults_of(revision, message, server.asked)
    ]
    assert faults == []
    schema = wire_schema(revision.value)
    possible = {*schema.requests, *schema.notifications} - NEVER - {"ping"}
    assert possible - set(peer.methods()) == set()
    assert all(line.startswith(b"{") for line in peer.pipe.lines)


def test_the_check_itself_detects_faults() -> None:
    """If the check found no faults in wrong messages, the tests above would prove nothing."""
    schema = wire_schema("2024-11-05")
    good = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {"any": 1}}}
    assert schema.check_message(good) == []
    assert schema.check_message({**good, "id": None}) != []
    assert schema.check_message({**good, "params": {"arguments": {}}}) != []
    assert schema.check_message({**good, "params": {"name": "x", "task": {}}}) == ["/params/task is not known"]
    assert "does not send" in schema.check_message({**good, "method": "tasks/get"})[0]
    assert "no object" in schema.check_message([good])[0]
    info = {"name": "a", "version": "1", "title": "A"}
    params = {"protocolVersion": "x", "capabilities": {}, "clientInfo": info}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert schema.check_message(hello) == ["/params/clientInfo/title is not known"]
    assert wire_schema("2025-06-18").check_message(hello) == []
    assert wire_schema("2026-07-28").check_message({**good, "params": {"name": "x"}}) != []


def test_every_request_type_exists_in_some_revision() -> None:
    known = {method for item in Revision for method in wire_schema(item.value).requests}
    known |= {method for table in EXTENSION_REQUESTS.values() for method in table}
    assert {call.METHOD for call in ClientRequest.__subclasses__() if call.__module__.startswith("mcphost.")} <= known
