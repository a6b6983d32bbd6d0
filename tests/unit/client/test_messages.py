"""Tests for rules about all messages: ids, errors, `_meta`, notifications, progress and cancellation."""

import json
from typing import Any

import anyio
import pytest

from mcphost.client import capabilities
from mcphost.client.error_mapping import map_error
from mcphost.client.incoming_requests import allowed_error_code
from mcphost.client.requests import ProgressThrottle
from mcphost.client.session import ServerRequestContext, Session
from mcphost.config.schema import Limits
from mcphost.errors import ConnectionLost, MalformedMessage, RequestRefused, RequestTimeout, ServerError
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.notifications import LoggingMessageNotification, ProgressNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.server_requests import ClientResult, ElicitResult, ServerRequest, ServerRequestRejection
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to

pytestmark = pytest.mark.anyio
BOTH_ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


# -- ids
@pytest.mark.req("base.id.unique-session")
@pytest.mark.req("base.id.unique-inflight")
@pytest.mark.req("base.id.type")
@pytest.mark.req("prog.token")
@BOTH_ERAS
async def test_no_id_and_no_progress_token_is_ever_used_twice(revision: str) -> None:
    peer = ScriptedServer(revision=revision)
    async with connect_to(peer) as session, anyio.create_task_group() as group:
        for _ in range(50):
            await session.request(ListTools())
            group.start_soon(ask_with_progress, session)
    ids = [message["id"] for message in peer.seen if "id" in message]
    assert all(type(ident) is int for ident in ids)
    assert len(set(ids)) == len(ids) > 100
    tokens = [token for message in peer.seen if (token := request_meta(message).get("progressToken")) is not None]
    assert len(set(tokens)) == len(tokens) == 50


async def ask_with_progress(session: Session) -> None:
    await session.request(CallTool("x"), on_notification=lambda notice: None)


def request_meta(message: dict[str, Any]) -> dict[str, Any]:
    return message.get("params", {}).get("_meta", {})


# -- unknown notifications
@pytest.mark.req("base.notification.no-reply")
@pytest.mark.req("base.notification.unknown-ignored")
@BOTH_ERAS
async def test_no_notification_is_ever_answered_however_odd_it_is(revision: str) -> None:
    peer = ScriptedServer(revision=revision)
    async with connect_to(peer) as session:
        for method, params in (
            ("notifications/unheard/of", {"a": 1}),
            ("ping", {}),
            ("notifications/progress", {"progressToken": []}),
            ("notifications/cancelled", {"requestId": {"x": 1}}),
            ("notifications/message", {"level": 5}),
            ("notifications/resources/updated", {"uri": 5}),
            ("notifications/tools/list_changed", {"_meta": {"io.modelcontextprotocol/subscriptionId": {"a": []}}}),
            ("notifications/message", {"level": "info", "data": 1, "_meta": "odd", "more": None}),
        ):
            peer.say(method=method, params=params)
        peer.pipe.send_raw(b'{"jsonrpc":"2.0","method":"notifications/x","params":[1,2]}')
        await session.request(ListTools())
        before = len(peer.seen)
        await session.request(ListTools())
        assert len(peer.seen) == before + 1
    assert peer.answers() == []


@pytest.mark.req("base.meta.opaque-values")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_odd_values_under_reserved_keys_of_meta_break_no_message(revision: str) -> None:
    names = ("related-task", "subscriptionId", "serverInfo", "protocolVersion", "logLevel", "clientCapabilities")
    odd = {f"io.modelcontextprotocol/{name}": {"taskId": [None]} for name in names}

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        peer.say(method="notifications/message", params={"level": "info", "data": method, "_meta": odd})
        if revision < "2026":
            peer.say(id=f"for {method}", method="elicitation/create", params={**FORM, "_meta": odd})
        return {"resultType": "complete", "tools": [], "content": [], "_meta": odd}

    peer = ScriptedServer(script, revision)
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("decline")})
    answers.capabilities = {"elicitation": {"form": {}}}
    async with connect_to(peer, answers) as session:
        await session.request(ListTools())
        assert (await session.request(CallTool("x"))).content == ()
        calls = ("tools/list", "tools/call")
        if revision < "2026":
            await peer.wait_until(lambda: len(peer.answers()) == len(calls))
            assert [answer.get("result", answer) for answer in peer.answers()] == [{"action": "decline"}] * len(calls)
        assert [json.loads(bytes(log.data)) for log in peer.observer.logged] == [*calls]


# -- errors
@pytest.mark.req("base.error.mcp-codes")
@pytest.mark.req("base.error.legacy-range")
@pytest.mark.req("res.not-found.32002")
@pytest.mark.parametrize(
    ("method", "code", "data", "hint"),
    [
        ("tools/call", -32700, None, "could not read"),
        ("tools/call", -32600, None, "request as invalid"),
        ("prompts/list", -32601, None, "does not know this method"),
        ("tools/call", -32602, None, "no such tool"),
        ("prompts/get", -32602, None, "no such prompt"),
        ("resources/read", -32602, None, "no such resource"),
        ("resources/read", -32002, None, "no such resource"),
        ("tools/call", -32002, None, ""),
        ("tools/call", -32603, None, "internal error"),
        ("tools/call", -32020, None, "headers"),
        ("tools/call", -32021, {"requiredCapabilities": {"sampling": {}}}, "capability sampling"),
        ("tools/call", -32022, {"supported": ["2031-01-01"]}, "It speaks 2031-01-01; mcphost speaks 2024-11-05"),
        *[("tools/call", code, None, "") for code in (-32000, -32001, -32003, -32004, -32019, -1, 5, 0)],
    ],
)
def test_known_error_codes_are_explained_and_others_quote_the_server(
    method: str, code: int, data: Any, hint: str
) -> None:
    error = map_error("peer", method, ErrorData(code, "its words", Raw(json.dumps(data).encode()) if data else Raw()))
    assert hint in error.hint
    assert bool(hint) == bool(error.hint)
    assert error.message == f"The server 'peer' refused {method} with error {code}: its words"
    assert (error.code, error.data, error.server_message) == (code, data, "its words")


NO_BACK_CHANNEL = "Cannot send 'elicitation/create': this transport context has no back-channel for its requests."
ERA = "mcphost servers edit peer --era handshake"


@pytest.mark.parametrize(
    ("code", "text", "era", "hint", "not_hint"),
    [
        (-32600, NO_BACK_CHANNEL, "stateless", ERA, "as invalid"),
        (-32603, "sampling/createMessage: server-initiated requests need a session", "stateless", ERA, "its log"),
        (-32600, NO_BACK_CHANNEL, "handshake", "as invalid", ERA),
        (-32600, NO_BACK_CHANNEL, None, "as invalid", ERA),
        (-32602, NO_BACK_CHANNEL, "stateless", "no such tool", ERA),
        (-32600, "Cannot send this", "stateless", "as invalid", ERA),
        (-32600, "roots/list is missing", "stateless", "as invalid", ERA),
        (-32601, "Error: elicitation/create is not supported.", "handshake", "", "does not know"),
        (-32601, "tools/call is not supported.", "handshake", "does not know this method", ERA),
    ],
)
def test_an_error_of_a_servers_own_request_has_the_hint_for_it(
    code: int, text: str, era: Era | None, hint: str, not_hint: str
) -> None:
    error = map_error("peer", "tools/call", ErrorData(code, text, Raw()), era)
    assert hint in error.hint
    assert not_hint not in error.hint


@pytest.mark.req("base.response.error-shape")
@pytest.mark.parametrize("data", ["text", 5, None, [1, {"a": 2}], {"deep": [True]}, 1.5, False])
async def test_an_errors_data_of_any_type_is_kept(data: Any) -> None:
    peer = ScriptedServer(
        lambda peer, method, params: peer.say(id=peer.ident, error={"code": 1, "message": "m", "data": data})
    )
    async with connect_to(peer, era="handshake") as session:
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(ListTools())
    assert exc_info.value.data == data


@pytest.mark.parametrize(
    "error",
    [5, [], {}, {"code": "x", "message": "m"}, {"code": 1.5, "message": "m"}, {"code": 1, "message": 5}, None, "x"],
)
async def test_an_error_of_an_odd_shape_fails_its_call_alone(error: Any) -> None:
    peer = ScriptedServer(
        lambda peer, method, params: peer.say(id=peer.ident, error=error) if method == "tools/list" else {"content": []}
    )
    async with connect_to(peer, era="handshake") as session:
        with anyio.fail_after(20), pytest.raises(ServerError):
            await session.request(ListTools())
        await session.request(CallTool("x"))


@pytest.mark.req("base.error.local-distinct")
async def test_an_error_of_a_server_cannot_be_mistaken_for_ours() -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return ErrorData(-32000, ours) if method == "tools/list" else NO_REPLY

    ours = "The server 'peer' did not answer tools/call within 0 s."
    async with connect_to(ScriptedServer(script), era="handshake") as session:
        with pytest.raises(RequestTimeout) as local:
            await session.request(CallTool("x"), deadline=0.01)
        with pytest.raises(RequestRefused) as theirs:
            await session.request(ListTools())
    assert local.value.message == ours
    assert theirs.value.message.startswith("The server 'peer' refused tools/list with error -32000: ")
    assert (local.value.kind, theirs.value.kind) == ("timeout", "refused")
    assert not isinstance(local.value, RequestRefused)
    assert ConnectionLost("").kind != theirs.value.kind


@pytest.mark.req("base.error.never-emit-reserved")
@pytest.mark.parametrize("code", [-32002, -32020, -32021, -32042, -32099, 2**70])
async def test_no_code_is_sent_that_the_specification_keeps_for_itself(code: int) -> None:
    class OddHandler(FakeRequestHandler):
        async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
            return ServerRequestRejection("no", code)

    peer = ScriptedServer()
    async with connect_to(peer, OddHandler({"elicitation/create": ElicitResult("decline")}), era="handshake"):
        peer.say(id=1, method="elicitation/create", params=FORM)
        await peer.wait_until(lambda: bool(peer.answers()))
    assert peer.answers()[0]["error"] == {"code": -1, "message": "no"}
    assert [allowed_error_code(code) for code in (-32601, -32602, -32603, -1, 7)] == [-32601, -32602, -32603, -1, 7]


@pytest.mark.req("base.request.bad-params")
async def test_an_internal_error_while_answering_is_reported_and_the_session_continues() -> None:
    class FailingHandler(FakeRequestHandler):
        async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
            raise ZeroDivisionError("secret detail")

    peer = ScriptedServer()
    async with connect_to(
        peer, FailingHandler({"elicitation/create": ElicitResult("decline")}), era="handshake"
    ) as session:
        peer.say(id=1, method="elicitation/create", params=FORM)
        await peer.wait_until(lambda: bool(peer.answers()))
        await session.request(ListTools())
    assert peer.answers()[0]["error"]["code"] == -32603
    assert "secret" not in json.dumps(peer.answers())


# -- kinds of results
@pytest.mark.req("base.result-type.switch")
@pytest.mark.req("base.result-type.unknown")
@pytest.mark.req("base.result-type.absent")
async def test_a_result_is_read_by_its_kind_and_an_unknown_kind_is_no_success() -> None:
    kinds: dict[str, Any] = {
        "absent": {"content": []},
        "complete": {"resultType": "complete", "content": []},
        "novel": {"resultType": "novel", "content": []},
        "odd": {"resultType": 5, "content": []},
        "ask": {
            "resultType": "input_required",
            "inputRequests": {"a": {"method": "elicitation/create", "params": FORM}},
        },
    }

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return kinds["complete"] if "inputResponses" in params else kinds[params["name"]]

    peer = ScriptedServer(script, revision="2026-07-28")
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("decline")})
    async with connect_to(peer, answers) as session:
        for name in ("absent", "complete", "ask"):
            await session.request(CallTool(name))
        for name in ("novel", "odd"):
            with pytest.raises(MalformedMessage):
                await session.request(CallTool(name))
    assert len(answers.asked) == 1


@pytest.mark.req("life.op.respect-must")
async def test_input_required_in_an_older_revision_is_reported_with_both_names() -> None:
    peer = ScriptedServer(lambda peer, method, params: {"resultType": "input_required", "requestState": "s"})
    async with connect_to(peer, era="handshake") as session:
        with pytest.raises(MalformedMessage, match="2025-11-25 does not have"):
            await session.request(CallTool("x"))
    assert peer.methods().count("tools/call") == 1


# -- `_meta`
SPECIFIED = {
    "2025-11-25": {"progressToken"},
    "2026-07-28": {
        "progressToken",
        "traceparent",
        "tracestate",
        "baggage",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/logLevel",
    },
}
TRACE = {
    "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "TRACESTATE": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    "BAGGAGE": "userId=alice,serverNode=DF%2028;a=b",
}


@pytest.mark.req("base.meta.key-grammar", "base.stateless.handles")
@pytest.mark.req("base.meta.reserved-2025-06")
@pytest.mark.req("base.meta.reserved-2025-11")
@pytest.mark.req("base.meta.trace-context")
@BOTH_ERAS
async def test_meta_holds_the_specifications_own_keys_and_none_we_made_up(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The specification reserves some `_meta` keys, so a client that invents none cannot misuse them."""
    for name, value in TRACE.items():
        monkeypatch.setenv(name, value)
    peer = ScriptedServer(revision=revision)
    async with connect_to(peer, revision=Revision(revision)) as session:
        await session.set_log_level("debug")
        await session.request(CallTool("x"), on_notification=lambda notice: None)
        await session.request(ReadResource("a:b"))
        await session.request(GetPrompt("p"))
    keys = {key for message in peer.seen for key in request_meta(message)}
    assert keys == SPECIFIED[revision]
    if revision == "2026-07-28":
        assert all(
            request_meta(message)[name.lower()] == value
            for message in peer.seen
            if message["method"] != "server/discover"
            for name, value in TRACE.items()
        )


@pytest.mark.req("base.meta.trace-context")
@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        (TRACE, {"traceparent", "tracestate", "baggage"}),
        ({}, set()),
        ({"TRACEPARENT": "00-" + "0" * 32 + "-b7ad6b7169203331-01"}, set()),
        ({"TRACEPARENT": TRACE["TRACEPARENT"].upper()}, set()),
        ({"TRACEPARENT": "ff" + TRACE["TRACEPARENT"][2:]}, set()),
        ({**TRACE, "TRACESTATE": "no equals sign"}, {"traceparent", "baggage"}),
        ({"TRACESTATE": TRACE["TRACESTATE"]}, set()),
        ({**TRACE, "BAGGAGE": "a=b\nc"}, {"traceparent", "tracestate"}),
        ({**TRACE, "BAGGAGE": "a=" + "b" * 9_000}, {"traceparent", "tracestate"}),
    ],
)
def test_a_trace_context_is_passed_on_only_if_it_is_complete(environ: dict[str, str], kept: set[str]) -> None:
    assert set(capabilities.read_trace_context(environ)) == kept


# -- progress
def progress_values(notifications: list[Notification]) -> list[tuple[float, float | None, str | None]]:
    return [
        (event.progress, event.total, event.message)
        for event in notifications
        if isinstance(event, ProgressNotification)
    ]


@pytest.mark.req("prog.notify")
@pytest.mark.req("prog.float")
@pytest.mark.req("prog.not-increasing")
async def test_progress_is_reported_in_order_and_never_decreases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.client.requests.MIN_INTERVAL", 0)

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        token = params["_meta"]["progressToken"]
        for said in (
            {"progress": 0.5, "total": 4, "message": "begun"},
            {"progress": 2.25, "total": 4},
            {"progress": 2.25},  # contains nothing new
            {"progress": 1, "message": "back?"},
            {"progress": -1e300},
            {"progress": 9, "total": 4.5},
            {"progress": "x"},
        ):
            peer.say(method="notifications/progress", params={"progressToken": token, **said})
        peer.say(method="notifications/progress", params={"progressToken": str(token), "progress": 100})
        return {"content": []}

    notifications: list[Notification] = []
    async with connect_to(ScriptedServer(script), era="handshake") as session:
        await session.request(CallTool("x"), on_notification=notifications.append)
        assert session.anomaly_counts["progress left out"] == 2
    assert progress_values(notifications) == [(0.5, 4, "begun"), (2.25, 4, None), (2.25, None, "back?"), (9, 4.5, None)]


@pytest.mark.req("prog.flood")
async def test_progress_is_reported_ten_times_a_second_and_always_at_the_end() -> None:
    notifications: list[Notification] = []
    meter = ProgressThrottle(notifications.append)
    started_at = anyio.current_time()
    count = 0
    while anyio.current_time() - started_at < 0.55:
        count += 1
        meter.put(ProgressNotification(1, count))
        await anyio.lowlevel.checkpoint()
    meter.put(ProgressNotification(1, 1e9))
    meter.close()
    meter.put(ProgressNotification(1, 2e9))
    await anyio.sleep(0.15)
    assert 2 <= len(notifications) <= 8
    assert progress_values(notifications)[0][0] == 1
    assert progress_values(notifications)[-1][0] == 1e9
    assert meter.dropped_count >= count - 8


@pytest.mark.req("prog.none")
@pytest.mark.req("prog.unknown-token")
async def test_no_progress_at_all_and_progress_after_the_end_are_both_fine() -> None:
    tokens: list[Any] = []

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        for token in tokens:
            peer.say(method="notifications/progress", params={"progressToken": token, "progress": 1})
        tokens.append(params["_meta"]["progressToken"])
        return {"content": []}

    notifications: list[Notification] = []
    async with connect_to(ScriptedServer(script), era="handshake") as session:
        for _ in range(3):
            await session.request(CallTool("x"), on_notification=notifications.append)
    assert notifications == []


@pytest.mark.req("life.timeout.hard-max")
@pytest.mark.req("life.timeout.configurable")
async def test_an_explicit_deadline_is_a_hard_limit_that_progress_does_not_extend() -> None:
    """The command-line flag `--timeout` sets such a deadline for every call."""
    peer = ScriptedServer(lambda peer, method, params: NO_REPLY)
    limits = Limits(request_timeout=5, request_timeout_max=10)
    async with connect_to(peer, limits=limits, era="handshake") as session, anyio.create_task_group() as group:

        async def tick() -> None:
            await peer.wait_until(lambda: "tools/call" in peer.methods())
            for step in range(1_000):
                peer.say(method="notifications/progress", params={"progressToken": peer.ident, "progress": step})
                await anyio.sleep(0.02)

        group.start_soon(tick)
        started_at = anyio.current_time()
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("x"), deadline=0.2, on_notification=lambda notice: None)
        assert 0.2 <= anyio.current_time() - started_at < 3
        group.cancel_scope.cancel()


# -- cancellation
class WaitingUser(FakeRequestHandler):
    """A user who never answers; `open` counts the questions asked, and `withdrawn` those that were withdrawn."""

    def __init__(self) -> None:
        super().__init__({"elicitation/create": ElicitResult("decline")})
        self.open = 0
        self.withdrawn = 0

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        self.open += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.open -= 1
            self.withdrawn += 1
        raise AssertionError


@pytest.mark.req("cancel.receive")
@pytest.mark.req("cancel.receive-unknown")
@pytest.mark.req("cancel.race")
@pytest.mark.req("cancel.ui")
async def test_a_question_withdrawn_by_the_server_is_never_answered() -> None:
    peer, answers = ScriptedServer(), WaitingUser()
    async with connect_to(peer, answers, era="handshake") as session:
        for ident in ("q", 5):
            peer.say(id=ident, method="elicitation/create", params=FORM)
        while answers.open < 2:
            await anyio.lowlevel.checkpoint()
        for params in (
            {"requestId": "nobody's"},
            {"requestId": "5"},
            {"requestId": None},
            {},
            {"requestId": [1]},
            [],
            5,
        ):
            peer.say(method="notifications/cancelled", params=params)
        await session.request(ListTools())
        assert answers.withdrawn == 0
        peer.say(method="notifications/cancelled", params={"requestId": 5, "reason": "asked elsewhere"})
        while answers.withdrawn < 1:
            await anyio.lowlevel.checkpoint()
        peer.say(method="notifications/cancelled", params={"requestId": 5})
        await session.request(ListTools())
        assert (answers.open, answers.withdrawn) == (1, 1)
        assert peer.answers() == []
    assert [bytes(entry.data) for entry in peer.observer.logged] == [
        b'"The server cancelled a request: asked elsewhere"'
    ]


@pytest.mark.req("cancel.receive-modern")
@pytest.mark.req("cancel.receive-unknown")
async def test_a_stateless_server_can_end_nothing_but_its_subscriptions() -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        peer.say(method="notifications/cancelled", params={"requestId": peer.ident, "reason": "no"})
        peer.say(method="notifications/cancelled", params={"requestId": "x"})
        return {"resultType": "complete", "content": []}

    async with connect_to(ScriptedServer(script, revision="2026-07-28")) as session:
        await session.request(CallTool("x"))


@pytest.mark.req("cancel.late-response")
@pytest.mark.req("cancel.only-own-active", "cancel.send.stdio")
@BOTH_ERAS
async def test_an_answer_after_we_stopped_waiting_is_counted_and_changes_nothing(revision: str) -> None:
    idents: list[Any] = []

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": []}
        idents.append(peer.ident)
        return NO_REPLY

    peer = ScriptedServer(script, revision=revision)
    async with connect_to(peer) as session:
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("x"), deadline=0.05)
        peer.say(id=idents[0], result={"content": "late"})
        peer.say(id=idents[0], error={"code": 1, "message": "later still"})
        await session.request(ListTools())
        assert session.anomaly_counts["answers nobody waits for"] == 2
    cancels = [message["params"] for message in peer.seen if message.get("method") == "notifications/cancelled"]
    assert cancels == [{"requestId": idents[0]}]


async def test_log_messages_of_a_call_reach_its_caller_and_others_the_observer() -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        peer.say(method="notifications/message", params={"level": "info", "data": method})
        return {"tools": []}

    peer = ScriptedServer(script)
    async with connect_to(peer, era="handshake") as session:
        await session.request(ListTools(), on_notification=lambda notice: None)
        await peer.wait_until(lambda: True)
    assert [type(entry) for entry in peer.observer.logged] == [LoggingMessageNotification]
