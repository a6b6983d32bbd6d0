"""Tests for the tasks extension of 2026-07-28 (SEP-2663): created tasks, polling, input and faults."""

from typing import Any

import anyio
import pytest

from mcphost.client import task_polling
from mcphost.client.pagination import list_tools
from mcphost.client.session import ServerRequestContext
from mcphost.config.schema import Limits
from mcphost.errors import (
    ConnectionLost,
    ConsentDenied,
    MalformedMessage,
    RequestRefused,
    RequestTimeout,
    TooManyInputRounds,
    UnsupportedCapability,
)
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.notifications import ProgressNotification
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.server_requests import (
    ClientResult,
    CreateMessageResult,
    ElicitResult,
    ServerRequest,
    ServerRequestRejection,
)
from mcphost.protocol.tasks import GetTaskResult, ListTasks, Task, TaskStatusNotification
from mcphost.protocol.tools import CallTool, ListTools
from mcphost.serialization import Raw, decode, encode
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.results import single_text
from tests.unit.client.scripted_http import DISCOVERY
from tests.unit.client.scripted_http import open_http_session as over_http
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to
from tests.unit.transport.raw_http import ReceivedRequest

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fast_task_polling")]
EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}, "extensions": {EXTENSION: {}}}
FOUND: dict[str, Any] = {"content": [{"type": "text", "text": "found"}]}
FORM: dict[str, Any] = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}
ANSWERS: dict[str, ClientResult] = {
    "elicitation/create": ElicitResult("accept", {"name": "Ada"}),
    "sampling/createMessage": CreateMessageResult("assistant", Raw(b'{"type":"text","text":"x"}'), "m"),
}


def extension_task(
    status: str = "working", kind: str = "complete", ident: str = "t/1 ü", **more: Any
) -> dict[str, Any]:
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    ends = {"completed": {"result": FOUND}}.get(status, {})
    state = {"resultType": kind, "taskId": ident, "status": status, "ttlMs": 60_000, "pollIntervalMs": 10}
    return state | times | ends | more


def task_handle(status: str = "working", **more: Any) -> dict[str, Any]:
    return {name: value for name, value in extension_task(status, "task", **more).items() if name != "result"}


class ExtensionTaskServer:
    """A server that turns every tools/call into a task; each tasks/get returns the next of `states`, then the last."""

    def __init__(self, *states: Any, created: Any = None, update: Any = None) -> None:
        self.states = list(states) or [extension_task("completed")]
        self.created = task_handle() if created is None else created
        self.update = update
        self.updates: list[dict[str, Any]] = []
        self.polled: list[float] = []

    def __call__(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "tools/list":
                tool = {"name": "dig", "inputSchema": {}, "execution": {"taskSupport": "required"}}
                return {"resultType": "complete", "tools": [tool], "ttlMs": 0, "cacheScope": "private"}
            case "tools/call" | "prompts/get" | "resources/read":
                return self.created(params) if callable(self.created) else self.created
            case "tasks/get":
                self.polled.append(anyio.current_time())
                state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                return state(peer) if callable(state) else state
            case "tasks/update":
                self.updates.append(params["inputResponses"])
                return self.update or {"resultType": "complete"}
            case "tasks/cancel":
                return {"resultType": "complete"}
            case _:
                return ErrorData(-32601, "no such method")


def create_extension_peer(jobs: ExtensionTaskServer) -> ScriptedServer:
    return ScriptedServer(jobs, "2026-07-28", CAPABILITIES)


def input_required_task(*keys: str, **more: Any) -> dict[str, Any]:
    return extension_task("input_required", inputRequests=dict.fromkeys(keys, FORM), **more)


async def call_dig(
    jobs: ExtensionTaskServer, answers: FakeRequestHandler | None = None, *, deadline: float | None = None
) -> tuple[str, ScriptedServer]:
    """Call the tool `dig` of a server that runs it as a task; return the text of the result and the server."""
    peer = create_extension_peer(jobs)
    async with connect_to(peer, answers) as session:
        return single_text(await session.request(CallTool("dig"), deadline=deadline)), peer


# -- the usual case
@pytest.mark.req("task.ext.fields")
@pytest.mark.parametrize(("ttl", "seconds"), [(60_000, 60), (1_500.5, 1.5005), (0, None), (None, None)])
def test_a_task_lives_for_milliseconds_or_without_an_end(ttl: float | None, seconds: float | None) -> None:
    assert decode(Raw(encode(extension_task(ttlMs=ttl))), Task).ttl_seconds == seconds


@pytest.mark.req("task.ext.declare")
@pytest.mark.req("task.ext.both-shapes")
@pytest.mark.req("task.ext.fields")
@pytest.mark.req("task.ext.inline-result")
@pytest.mark.req("task.ext.not-legacy", revisions=("2025-11-25",))
async def test_a_call_that_becomes_a_task_ends_with_its_inline_result() -> None:
    peer, heard = (
        create_extension_peer(
            ExtensionTaskServer(
                extension_task(statusMessage="digging", ttlMs=None),
                extension_task(pollIntervalMs=1),
                extension_task("completed"),
            )
        ),
        [],
    )
    messages: list[Notification] = heard
    async with connect_to(peer) as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"), on_notification=messages.append)) == "found"
    assert peer.methods() == ["server/discover", "tools/list", "tools/call", *["tasks/get"] * 3]
    for message in peer.seen:
        meta = message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {"extensions": {EXTENSION: {}}}
        assert "task" not in message["params"]  # the tool's declaration of 2025-11-25 means nothing here
    gets = [message["params"] for message in peer.seen if message["method"] == "tasks/get"]
    assert {request["taskId"] for request in gets} == {"t/1 ü"}
    assert all("progressToken" not in request["_meta"] for request in gets)
    assert [text.task.status_message for text in messages if isinstance(text, TaskStatusNotification)] == [
        None,
        "digging",
        None,
        None,
    ]


@pytest.mark.req("task.ext.not-legacy")
async def test_the_extension_is_not_declared_in_the_handshake_era() -> None:
    peer = ScriptedServer()
    async with connect_to(peer, FakeRequestHandler(ANSWERS), era="handshake"):
        pass
    assert "extensions" not in peer.seen[0]["params"]["capabilities"]


@pytest.mark.req("task.ext.both-shapes")
async def test_a_call_may_just_as_well_be_answered_at_once() -> None:
    text, peer = await call_dig(ExtensionTaskServer(created={"resultType": "complete", **FOUND}))
    assert text == "found"
    assert peer.methods() == ["server/discover", "tools/call"]


@pytest.mark.req("task.ext.inline-result")
async def test_a_completed_task_may_contain_a_tool_error() -> None:
    broken = FOUND | {"isError": True}
    async with connect_to(
        create_extension_peer(ExtensionTaskServer(extension_task("completed", result=broken)))
    ) as session:
        assert (await session.request(CallTool("dig"))).is_error


@pytest.mark.req("task.ext.inline-result")
@pytest.mark.req("task.ext.errors")
async def test_a_failed_task_raises_its_json_rpc_error_with_the_status_message() -> None:
    failed = extension_task(
        "failed", error={"code": -32603, "message": "it broke", "data": {"a": 1}}, statusMessage="too deep"
    )
    with pytest.raises(RequestRefused) as exc_info:
        await call_dig(ExtensionTaskServer(extension_task(), failed))
    assert (exc_info.value.code, exc_info.value.data) == (-32603, {"a": 1})
    assert exc_info.value.message.endswith("it broke (too deep)")


async def test_a_task_cancelled_by_its_server_is_an_error_with_the_reason() -> None:
    with pytest.raises(RequestRefused, match=r"'peer' cancelled the task of 'dig': maintenance"):
        await call_dig(ExtensionTaskServer(extension_task("cancelled", statusMessage="maintenance")))


@pytest.mark.parametrize("kind", ["task", "complete", None])
async def test_the_kind_of_a_polled_state_is_ignored(kind: str | None) -> None:
    """The field `resultType` is ignored: the specification's examples use `task` where its text says `complete`."""
    text, _ = await call_dig(
        ExtensionTaskServer(
            extension_task("completed", kind) if kind else {**extension_task("completed"), "resultType": ""}
        )
    )
    assert text == "found"


@pytest.mark.req("task.ext.both-shapes")
async def test_a_finished_task_handle_is_polled_once_for_its_result() -> None:
    """A CreateTaskResult never carries the result of the task, even if a server adds one to it."""
    jobs = ExtensionTaskServer(
        created=task_handle("completed") | {"result": {"content": [{"type": "text", "text": "not this"}]}}
    )
    text, peer = await call_dig(jobs)
    assert text == "found"
    assert peer.methods()[2:] == ["tasks/get"]


# -- polling
@pytest.mark.req("task.ext.poll")
@pytest.mark.req("task.ext.fields")
async def test_polls_follow_the_interval_as_it_changes() -> None:
    jobs = ExtensionTaskServer(
        extension_task(pollIntervalMs=80), extension_task(pollIntervalMs=20), extension_task("completed")
    )
    await call_dig(jobs)
    first, second, third = jobs.polled
    assert second - first >= 0.075
    assert 0.015 <= third - second < 0.08


@pytest.mark.req("task.ext.poll")
async def test_a_poll_that_got_lost_is_sent_again() -> None:
    gets = 0

    async def handler(request: ReceivedRequest) -> object:
        nonlocal gets
        match request.message["method"]:
            case "server/discover":
                return await request.result(DISCOVERY)
            case "tools/call":
                return await request.result(task_handle())
            case _:
                gets += 1
                if gets in (1, 2):
                    return await request.reply(503)
                if gets == 3:
                    return False  # the connection breaks
                return await request.result(extension_task("completed"))

    async with over_http(handler) as (session, _):
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert gets >= 4


async def test_a_server_whose_polls_all_fail_is_abandoned() -> None:
    async def handler(request: ReceivedRequest) -> object:
        if request.message["method"] == "server/discover":
            return await request.result(DISCOVERY)
        return await (
            request.result(task_handle()) if request.message["method"] == "tools/call" else request.reply(503)
        )

    async with over_http(handler) as (session, server):
        with pytest.raises(RequestRefused, match="503"):
            await session.request(CallTool("dig"))
    assert server.calls().count("POST tasks/get") == task_polling.MAX_POLL_FAILURES + 1


@pytest.mark.req("hdr.name.tasks")
@pytest.mark.req("task.ext.cancel")
async def test_each_request_about_a_task_carries_its_id_as_name_over_http() -> None:
    async def handler(request: ReceivedRequest) -> object:
        message = request.message
        match message["method"]:
            case "server/discover":
                return await request.result(DISCOVERY)
            case "tools/call":
                return await request.result(task_handle())
            case "tasks/get":
                return await request.result(input_required_task("who"))
            case _:
                return await request.result({"resultType": "complete"})

    async with over_http(handler, answers=FakeRequestHandler(ANSWERS)) as (session, server):
        with pytest.raises(RequestTimeout):
            await session.request(CallTool("dig"), deadline=0.2)
    about = [message for message in server.seen if message.message["method"].startswith("tasks/")]
    assert {item.headers["mcp-method"] for item in about} == {"tasks/get", "tasks/update", "tasks/cancel"}
    assert {item.headers["mcp-name"] for item in about} == {"=?base64?dC8xIMO8?="}
    assert {item.message["params"]["taskId"] for item in about} == {"t/1 ü"}


# -- inputs
class SilentUserHandler(FakeRequestHandler):
    """A user who never answers."""

    gone = False

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        try:
            await anyio.sleep_forever()
        finally:
            self.gone = True


@pytest.mark.req("task.ext.input")
@pytest.mark.req("task.ext.dedupe")
async def test_each_input_is_asked_for_once_however_often_it_is_listed() -> None:
    answers = FakeRequestHandler(ANSWERS)
    both = {"who": FORM, "what": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}
    later = extension_task("input_required", inputRequests={"who": FORM, "when": FORM})
    jobs = ExtensionTaskServer(
        extension_task("input_required", inputRequests=both),
        input_required_task("who"),
        input_required_task("who"),
        later,
        later,
        extension_task(),
        extension_task("completed"),
    )
    text, _ = await call_dig(jobs, answers)
    assert text == "found"
    accepted = {"action": "accept", "content": {"name": "Ada"}}
    sampled = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
    assert jobs.updates == [{"who": accepted, "what": sampled}, {"when": accepted}]
    (context,) = {context for _, context in answers.asked}
    assert (context.method, context.target, len(answers.asked)) == ("tools/call", "dig", 3)


@pytest.mark.req("task.ext.input")
async def test_polling_continues_while_the_user_decides_and_the_question_ends_with_the_task() -> None:
    answers = SilentUserHandler(ANSWERS)
    jobs = ExtensionTaskServer(*[input_required_task("who")] * 4, extension_task("completed"))
    text, _ = await call_dig(jobs, answers, deadline=0.05)
    assert (text, answers.gone, jobs.updates) == ("found", True, [])


@pytest.mark.req("task.ext.mrtr-first")
async def test_input_rounds_may_precede_the_task_and_their_keys_mean_nothing_to_it() -> None:
    answers = FakeRequestHandler(ANSWERS)
    first = {"resultType": "input_required", "inputRequests": {"who": FORM}, "requestState": "s"}
    jobs = ExtensionTaskServer(
        input_required_task("who"),
        extension_task("completed"),
        created=lambda params: task_handle() if "requestState" in params else first,
    )
    text, _ = await call_dig(jobs, answers)
    assert text == "found"
    assert len(answers.asked) == 2
    assert [list(update) for update in jobs.updates] == [["who"]]


async def test_a_task_that_waits_for_input_without_asking_is_polled_seldom_and_ends_at_its_deadline() -> None:
    jobs = ExtensionTaskServer(extension_task("input_required"))
    with anyio.fail_after(20), pytest.raises(RequestTimeout, match="was not done within 1 s"):
        await call_dig(jobs, deadline=1.0)
    assert 1 < len(jobs.polled) < 15  # the server sets an interval of 10 ms, which would allow a hundred


async def test_a_declined_input_cancels_the_task_and_ends_the_call() -> None:
    peer = create_extension_peer(ExtensionTaskServer(input_required_task("who")))
    async with connect_to(
        peer, FakeRequestHandler({"elicitation/create": ServerRequestRejection("no thanks")})
    ) as session:
        with pytest.raises(ConsentDenied, match="no thanks"):
            await session.request(CallTool("dig"))
    assert peer.methods()[-1] == "tasks/cancel"


async def test_a_declined_form_is_an_answer_like_any_other() -> None:
    jobs = ExtensionTaskServer(input_required_task("who"), extension_task("completed"))
    await call_dig(jobs, FakeRequestHandler({"elicitation/create": ElicitResult("decline")}))
    assert jobs.updates == [{"who": {"action": "decline"}}]


async def test_an_input_that_was_not_offered_ends_the_call() -> None:
    peer = create_extension_peer(ExtensionTaskServer(input_required_task("who")))
    async with connect_to(peer) as session:
        with pytest.raises(MalformedMessage, match=r"does not offer\. This command cannot ask you"):
            await session.request(CallTool("dig"))
    assert peer.methods()[-1] == "tasks/cancel"


async def test_new_questions_without_end_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_polling, "MAX_INPUT_KEYS", 5)
    count = 0

    def ask(peer: ScriptedServer) -> Any:
        nonlocal count
        count += 1
        return input_required_task(f"k{count}")

    jobs, answers = ExtensionTaskServer(ask), FakeRequestHandler(ANSWERS)
    with pytest.raises(TooManyInputRounds, match="more than 5 inputs"):
        await call_dig(jobs, answers)
    assert len(answers.asked) == 5


# -- ends
@pytest.mark.req("task.ext.cancel")
@pytest.mark.req("cancel.tasks", revisions=("2026-07-28",))
async def test_giving_up_cancels_the_task_and_forgets_it() -> None:
    peer = create_extension_peer(ExtensionTaskServer(extension_task(pollIntervalMs=60_000)))
    async with connect_to(peer) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("dig"))
            await peer.wait_until(lambda: "tasks/get" in peer.methods())
            group.cancel_scope.cancel()
        await session.request(ListTools())
    assert peer.methods()[1:] == ["tools/call", "tasks/get", "tasks/cancel", "tools/list"]


# -- notices
class NotifyingTaskServer(ExtensionTaskServer):
    """A server that reports the end of a task immediately on its subscription; polling would take a minute."""

    def __init__(self, granted: Any = None, *, end: bool = True) -> None:
        super().__init__(extension_task(pollIntervalMs=60_000), created=task_handle(pollIntervalMs=60_000))
        self.granted = {"taskIds": ["t/1 ü"]} if granted is None else granted
        self.end = end

    def __call__(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method != "subscriptions/listen":
            return super().__call__(peer, method, params)
        assert params["notifications"] == {"taskIds": ["t/1 ü"]}
        assert EXTENSION in params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        about = {"io.modelcontextprotocol/subscriptionId": peer.ident}
        granted = {"notifications": self.granted, "_meta": about}
        peer.say(method="notifications/subscriptions/acknowledged", params=granted)
        if self.end:
            told = {name: value for name, value in extension_task("completed").items() if name != "resultType"}
            for params in (told | {"taskId": "another"}, told):
                peer.say(method="notifications/tasks", params=params | {"_meta": about})
        return NO_REPLY


@pytest.mark.req("task.ext.notifications")
async def test_a_task_that_is_seldom_polled_is_listened_to() -> None:
    with anyio.fail_after(20):
        text, peer = await call_dig(NotifyingTaskServer())
    assert text == "found"
    # Its end is also the end of the subscription.
    assert peer.methods()[1:] == ["tools/call", "subscriptions/listen", "notifications/cancelled"]


@pytest.mark.req("task.ext.notifications")
async def test_a_task_over_http_gets_a_stream_of_its_own() -> None:
    closed = anyio.Event()

    async def handler(request: ReceivedRequest) -> object:
        match request.message["method"]:
            case "server/discover":
                return await request.result(DISCOVERY | {"capabilities": CAPABILITIES})
            case "tools/call":
                return await request.result(task_handle(pollIntervalMs=60_000))
            case "subscriptions/listen":
                about = {"io.modelcontextprotocol/subscriptionId": request.message["id"]}
                granted = {"notifications": {"taskIds": ["t/1 ü"]}, "_meta": about}
                await request.stream()
                await request.event({"method": "notifications/subscriptions/acknowledged", "params": granted})
                await request.event(
                    {"method": "notifications/tasks", "params": extension_task("completed") | {"_meta": about}}
                )
                await request.wait_closed()
                closed.set()
                return False
            case other:
                raise AssertionError(other)

    async with over_http(handler) as (session, server):
        with anyio.fail_after(20):
            assert single_text(await session.request(CallTool("dig"))) == "found"
            await closed.wait()
    assert server.calls() == ["POST server/discover", "POST tools/call", "POST subscriptions/listen"]


@pytest.mark.parametrize("granted", [{}, {"taskIds": ["another"]}, {"taskIds": 5}])
async def test_an_ungranted_subscription_is_abandoned_and_polling_continues(granted: Any) -> None:
    peer = create_extension_peer(NotifyingTaskServer(granted, end=False))
    async with connect_to(peer) as session, anyio.create_task_group() as group:
        group.start_soon(session.request, CallTool("dig"))
        await peer.wait_until(lambda: "notifications/cancelled" in peer.methods())
        group.cancel_scope.cancel()
    assert peer.methods()[-1] == "tasks/cancel"


async def test_a_server_without_the_extension_is_not_asked_for_notifications(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_polling, "MIN_STREAM_POLL_SECONDS", 0.0)
    jobs = NotifyingTaskServer()
    jobs.created = task_handle(pollIntervalMs=20)
    jobs.states = [extension_task("completed")]
    peer = ScriptedServer(jobs, "2026-07-28", {"tools": {}})
    async with connect_to(peer) as session:
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert peer.methods()[1:] == ["tools/call", "tasks/get"]


@pytest.mark.req("task.ext.cancel")
@pytest.mark.parametrize("answer", [ErrorData(-32602, "unknown task"), None])
async def test_a_refused_or_unanswered_cancellation_changes_nothing(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_polling, "CANCEL_TIMEOUT", 0.05)
    jobs = ExtensionTaskServer(extension_task())

    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        return answer if method == "tasks/cancel" else jobs(peer, method, params)

    peer = ScriptedServer(script, "2026-07-28", CAPABILITIES)
    async with connect_to(peer) as session:
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match="was not done within"):
            await session.request(CallTool("dig"), deadline=0.05)


@pytest.mark.req("task.ext.ttl")
async def test_a_task_past_its_lifetime_is_abandoned_and_a_longer_lifetime_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_polling, "EXPIRY_GRACE_SECONDS", 0.02)
    text, _ = await call_dig(
        ExtensionTaskServer(
            *[extension_task(ttlMs=60_000)] * 6, extension_task("completed"), created=task_handle(ttlMs=10)
        )
    )
    assert text == "found"
    with pytest.raises(RequestTimeout, match="that its server gave it"):
        await call_dig(ExtensionTaskServer(extension_task(ttlMs=10)))


@pytest.mark.req("task.ext.errors")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-32602, r"no longer knows the task of 'dig' .*gone"),
        (-32603, "gone"),
        (-32021, "gone"),
    ],
)
async def test_the_errors_of_a_poll_are_distinguished(code: int, expected: str) -> None:
    peer = create_extension_peer(
        ExtensionTaskServer(extension_task(), ErrorData(code, "gone", Raw(b'{"requiredCapabilities":{}}')))
    )
    async with connect_to(peer) as session:
        with pytest.raises(RequestRefused, match=expected) as exc_info:
            await session.request(CallTool("dig"))
    assert exc_info.value.code == code
    assert ("no longer knows" in exc_info.value.message) == (code == -32602)
    assert "tasks/cancel" not in peer.methods()


# -- hostile
@pytest.mark.req("task.ext.unsupported-method")
@pytest.mark.parametrize("call", [GetPrompt("p"), ReadResource("file:///a")])
async def test_a_task_for_anything_but_a_tool_is_an_invalid_answer(call: ClientRequest[Any]) -> None:
    peer = create_extension_peer(ExtensionTaskServer())
    async with connect_to(peer) as session:
        with pytest.raises(MalformedMessage, match="'task'"):
            await session.request(call)
    assert "tasks/get" not in peer.methods()


@pytest.mark.parametrize(
    ("created", "state"),
    [
        (task_handle(ident=""), extension_task()),
        (task_handle(ident="x" * 2_000), extension_task()),
        ({"resultType": "task"}, extension_task()),
        (task_handle(), extension_task(ident="another")),
        (task_handle(), {"resultType": "complete", "status": "working"}),
        (task_handle(), extension_task("completed", result=None)),
        (task_handle(), extension_task("completed", result="text")),
        (task_handle(), extension_task("completed", result={"resultType": "input_required"})),
        (task_handle(), extension_task("failed")),
        (task_handle(), extension_task("failed", error="text")),
        (task_handle(), extension_task(pollIntervalMs="soon")),
        (task_handle(), extension_task("input_required", inputRequests=[1])),
    ],
)
async def test_an_invalid_task_ends_the_call(created: Any, state: Any) -> None:
    with pytest.raises(MalformedMessage):
        await call_dig(ExtensionTaskServer(state, created=created))


async def test_a_task_that_waits_for_input_without_asking_ends_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestTimeout, match="was not done within"):
        await call_dig(ExtensionTaskServer(input_required_task()), deadline=0.05)
    monkeypatch.setattr(task_polling, "MAX_INPUT_SECONDS", 0.1)
    with pytest.raises(RequestTimeout, match="for input"):
        await call_dig(ExtensionTaskServer(input_required_task("who")), SilentUserHandler(ANSWERS), deadline=0.01)


async def test_a_refused_update_ends_the_call() -> None:
    with pytest.raises(RequestRefused, match="no longer knows"):
        await call_dig(
            ExtensionTaskServer(input_required_task("who"), update=ErrorData(-32602, "gone")),
            FakeRequestHandler(ANSWERS),
        )


async def test_a_server_that_dies_during_a_task_ends_the_call_before_its_deadline() -> None:
    with anyio.fail_after(20), pytest.raises(ConnectionLost):
        await call_dig(ExtensionTaskServer(lambda peer: peer.pipe.disconnect("It crashed.")))


@pytest.mark.req("task.ext.inline-result")
async def test_messages_that_the_extension_lacks_are_not_sent() -> None:
    peer = create_extension_peer(ExtensionTaskServer())
    async with connect_to(peer) as session:
        for call in (GetTaskResult("t"), ListTasks()):
            with pytest.raises(UnsupportedCapability):
                await session.request(call)
    assert peer.methods() == ["server/discover"]


@pytest.mark.req("prog.task-none")
async def test_only_status_messages_report_on_a_task_and_nothing_else_is_awaited() -> None:
    notifications: list[Notification] = []
    peer = create_extension_peer(
        ExtensionTaskServer(extension_task(statusMessage="a"), extension_task("completed", statusMessage="b"))
    )
    async with connect_to(peer, limits=Limits(request_timeout=5)) as session:
        await session.request(CallTool("dig"), on_notification=notifications.append)
    assert [type(event) for event in notifications if not isinstance(event, ProgressNotification)] == [
        TaskStatusNotification
    ] * 3
    tokens = [message["params"]["_meta"].get("progressToken") for message in peer.seen]
    assert [token is not None for token in tokens] == [False, True, False, False]


async def test_a_task_that_asks_for_very_many_values_is_abandoned_before_they_are_decoded() -> None:
    jobs = ExtensionTaskServer(input_required_task(*map(str, range(30_000))))
    with pytest.raises(MalformedMessage, match="input with more than 50,000 values"):
        await call_dig(jobs, FakeRequestHandler({"elicitation/create": ElicitResult("accept", {})}))
