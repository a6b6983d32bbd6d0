"""Tests for tasks on a scripted server of 2025-11-25: creation, polling, questions, completion and faults."""

import json
import logging
from contextlib import suppress
from itertools import pairwise
from typing import Any

import anyio
import pytest

from mcphost.client import calls_as_tasks, task_polling
from mcphost.client.connect import ClientSessionOpener
from mcphost.client.pagination import list_tools
from mcphost.client.session import ServerRequestContext, Session
from mcphost.client.timeouts import pause_call_deadlines
from mcphost.config.schema import Limits, ServerConfig
from mcphost.errors import ConnectionLost, MalformedMessage, RequestRefused, RequestTimeout, UnsupportedCapability
from mcphost.protocol.base import Notification
from mcphost.protocol.jsonrpc import ErrorData
from mcphost.protocol.notifications import ProgressNotification
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ClientResult, ElicitResult, ServerRequest
from mcphost.protocol.tasks import CancelTask, GetTask, GetTaskResult, ListTasks, TaskStatusNotification
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import FakeRequestHandler, RecordingObserver
from tests.unit.client.results import RELATED_TASK_KEY, single_text
from tests.unit.client.scripted_http import handshake_server
from tests.unit.client.scripted_http import open_http_session as over_http
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to
from tests.unit.transport.raw_http import ReceivedRequest, serve

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fast_task_polling")]
TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
DONE: dict[str, Any] = {"content": [{"type": "text", "text": "found"}], "_meta": {RELATED_TASK_KEY: {"taskId": "t-1"}}}


def task_entry(status: str = "working", message: str | None = None, ident: str = "t-1", **more: Any) -> dict[str, Any]:
    state = {"taskId": ident, "status": status, "createdAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": 10}
    state["lastUpdatedAt"] = "2026-01-01T00:00:00Z"
    return state | ({"statusMessage": message} if message else {}) | more


class TaskServer2025:
    """A server whose tool `dig` requires a task; each tasks/get returns the next of `states`, then the last one."""

    def __init__(self, *states: Any, result: Any = DONE, created: Any = None, support: str | None = "required") -> None:
        self.states = list(states) or [task_entry("completed")]
        self.result = result
        self.created = {"task": task_entry()} if created is None else created
        self.support = support
        self.polled: list[float] = []

    def __call__(self, peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "tools/list":
                execution = {"execution": {"taskSupport": self.support}} if self.support else {}
                return {"tools": [{"name": "dig", "inputSchema": {"type": "object"}, **execution}]}
            case "tools/call":
                return self.created(peer) if callable(self.created) else self.created
            case "tasks/get":
                self.polled.append(anyio.current_time())
                state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                return state(peer) if callable(state) else state
            case "tasks/result":
                return self.result(peer) if callable(self.result) else self.result
            case "tasks/cancel":
                return task_entry("cancelled")
            case _:
                return ErrorData(-32601, "no such method")


def create_task_peer(jobs: TaskServer2025, revision: str = "2025-11-25", declared: Any = TASKS) -> ScriptedServer:
    capabilities: dict[str, Any] = {"tools": {}}
    return ScriptedServer(jobs, revision, capabilities | ({"tasks": declared} if declared is not None else {}))


def methods_after_lists(peer: ScriptedServer) -> list[str]:
    """Return the methods that the client sent after its last list request."""
    return peer.methods()[peer.methods().index("tools/list") + 1 :]


def params_of(peer: ScriptedServer, method: str) -> dict[str, Any]:
    return next(message["params"] for message in peer.seen if message.get("method") == method)


# -- the usual case
@pytest.mark.req("task.old.created")
@pytest.mark.req("task.old.result")
@pytest.mark.req("task.old.augment")
@pytest.mark.req("tools.execution.task-support")
async def test_a_tool_that_requires_a_task_is_created_polled_and_its_result_taken() -> None:
    peer, notifications = (
        create_task_peer(
            TaskServer2025(task_entry(message="digging"), task_entry(message="sifting"), task_entry("completed"))
        ),
        list[Notification](),
    )
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        result = await session.request(CallTool("dig", {"deep": 1}), on_notification=notifications.append)
    assert single_text(result) == "found"
    assert methods_after_lists(peer) == ["tools/call", "tasks/get", "tasks/get", "tasks/get", "tasks/result"]
    assert params_of(peer, "tools/call")["task"] == {"ttl": 3_600_000}
    assert params_of(peer, "tools/call")["arguments"] == {"deep": 1}
    changes = [event.task for event in notifications if isinstance(event, TaskStatusNotification)]
    assert [change.status_message for change in changes] == [None, "digging", "sifting", None]


@pytest.mark.req("tools.execution.task-support")
@pytest.mark.req("task.old.augment")
@pytest.mark.parametrize(
    ("support", "declared", "revision"),
    [
        ("required", None, "2025-11-25"),
        ("required", {"list": {}, "cancel": {}}, "2025-11-25"),
        ("required", {"requests": {"tools": {}}}, "2025-11-25"),
        ("required", "yes", "2025-11-25"),
        ("required", TASKS, "2025-06-18"),
        ("optional", TASKS, "2025-11-25"),
        ("forbidden", TASKS, "2025-11-25"),
        ("sometimes", TASKS, "2025-11-25"),
        (None, TASKS, "2025-11-25"),
    ],
)
async def test_without_the_declaration_of_server_and_tool_a_call_is_a_plain_one(
    support: str | None, declared: Any, revision: str
) -> None:
    peer = create_task_peer(TaskServer2025(created=DONE, support=support), revision, declared)
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer) == ["tools/call"]
    assert "task" not in params_of(peer, "tools/call")


async def test_a_tool_that_stops_requiring_a_task_is_called_plainly_from_then_on() -> None:
    jobs = TaskServer2025()
    peer = create_task_peer(jobs)
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        await session.request(CallTool("dig"))
        jobs.support, jobs.created = "forbidden", DONE
        await list_tools(session)
        await session.request(CallTool("dig"))
    calls = [message["params"] for message in peer.seen if message.get("method") == "tools/call"]
    assert ["task" in call for call in calls] == [True, False]


async def test_a_server_that_answers_at_once_is_believed() -> None:
    peer = create_task_peer(TaskServer2025(created=DONE))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer) == ["tools/call"]


# -- polling
@pytest.mark.req("task.old.poll")
async def test_polls_are_not_closer_than_the_server_wants() -> None:
    jobs = TaskServer2025(
        *[task_entry(pollInterval=60)] * 3, task_entry("completed"), created={"task": task_entry(pollInterval=60)}
    )
    started_at = 0.0
    async with connect_to(create_task_peer(jobs), era="handshake") as session:
        await list_tools(session)
        started_at = anyio.current_time()
        await session.request(CallTool("dig"))
    times = [started_at, *jobs.polled]
    assert len(jobs.polled) == 4
    assert min(later - earlier for earlier, later in pairwise(times)) >= 0.055


@pytest.mark.parametrize("interval", [0, -5, 1e18, None, 0.000001])
async def test_a_mad_interval_neither_floods_the_server_nor_stops_the_polls(
    interval: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_polling, "MAX_POLL_INTERVAL", 0.05)
    jobs = TaskServer2025(
        *[task_entry(pollInterval=interval)] * 2,
        task_entry("completed"),
        created={"task": task_entry(pollInterval=interval)},
    )
    async with connect_to(create_task_peer(jobs), era="handshake") as session:
        await list_tools(session)
        await session.request(CallTool("dig"))
    assert min(later - earlier for earlier, later in pairwise(jobs.polled)) >= 0.009


@pytest.mark.req("task.old.status-notification")
async def test_a_status_notice_ends_the_wait_for_the_next_poll() -> None:
    peer = create_task_peer(TaskServer2025(created={"task": task_entry(pollInterval=60_000)}))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)

        async def tell() -> None:
            await peer.wait_until(lambda: "tools/call" in peer.methods())
            peer.say(method="notifications/tasks/status", params=task_entry("completed", ident="another"))
            peer.say(method="notifications/tasks/status", params={"taskId": 7})
            peer.say(method="notifications/tasks/status", params=task_entry("completed"))

        async with anyio.create_task_group() as group:
            group.start_soon(tell)
            with anyio.fail_after(20):
                assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer) == ["tools/call", "tasks/result"]


@pytest.mark.req("task.old.status-notification")
async def test_polling_continues_under_a_flood_of_unchanged_notifications() -> None:
    def flood(peer: ScriptedServer) -> Any:
        for _ in range(50):
            peer.say(method="notifications/tasks/status", params=task_entry())
        return task_entry()

    peer = create_task_peer(TaskServer2025(flood, flood, flood, task_entry("completed")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer).count("tasks/get") == 4


@pytest.mark.req("task.old.status-notification")
async def test_polling_continues_while_notices_come_more_often_than_polls() -> None:
    slow = task_entry(pollInterval=100)
    peer = create_task_peer(TaskServer2025(slow, slow, task_entry("completed"), created={"task": slow}))
    async with connect_to(peer, era="handshake") as session, anyio.create_task_group() as group:
        await list_tools(session)

        async def flood() -> None:
            while True:
                peer.say(method="notifications/tasks/status", params=slow)
                await anyio.sleep(0.001)

        group.start_soon(flood)
        with anyio.fail_after(20):
            assert single_text(await session.request(CallTool("dig"))) == "found"
        group.cancel_scope.cancel()
    assert methods_after_lists(peer).count("tasks/get") == 3


@pytest.mark.req("prog.task-lifetime")
async def test_progress_keeps_its_token_for_the_life_of_the_task_and_not_longer() -> None:
    notifications: list[Notification] = []

    def progress(peer: ScriptedServer) -> Any:
        token = params_of(peer, "tools/call")["_meta"]["progressToken"]
        peer.say(method="notifications/progress", params={"progressToken": token, "progress": 1, "total": 2})
        peer.say(method="notifications/progress", params={"progressToken": "other", "progress": 9})
        peer.say(method="notifications/progress", params={"progressToken": [], "progress": 9})
        return task_entry()

    peer = create_task_peer(TaskServer2025(progress, task_entry("completed")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        await session.request(CallTool("dig"), on_notification=notifications.append)
        progress(peer)
        await session.request(GetTask("t-1"))
    assert [event.progress for event in notifications if isinstance(event, ProgressNotification)] == [1]
    assert "_meta" not in params_of(peer, "tasks/get")


@pytest.mark.req("task.old.log")
async def test_the_life_of_a_task_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mcphost.client.task_polling"):
        async with connect_to(
            create_task_peer(TaskServer2025(task_entry(), task_entry("completed"))), era="handshake"
        ) as session:
            await list_tools(session)
            await session.request(CallTool("dig"))
    assert [record.getMessage() for record in caplog.records] == [
        "task t-1 of dig at peer: working",
        "task t-1 of dig at peer: completed",
    ]


# -- questions
class BlockingHandler(FakeRequestHandler):
    """A handler that replies once it is released."""

    def __init__(self) -> None:
        super().__init__({"elicitation/create": ElicitResult("accept", {"which": "snake"})})
        self.released = anyio.Event()

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        self.asked.append((request, context))
        with pause_call_deadlines():
            await self.released.wait()
        return self.replies[request.METHOD]


def elicitation_request(ident: int = 70) -> dict[str, Any]:
    asked = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
    return {
        "id": ident,
        "method": "elicitation/create",
        "params": asked | {"_meta": {RELATED_TASK_KEY: {"taskId": "t-1"}}},
    }


@pytest.mark.req("task.old.input-required")
@pytest.mark.req("task.old.related-meta")
async def test_a_task_that_needs_input_gets_tasks_result_at_once_and_its_question_answered() -> None:
    answers = BlockingHandler()
    jobs = TaskServer2025(task_entry("input_required"), result=lambda peer: peer.say(**elicitation_request()))
    peer = create_task_peer(jobs)
    async with connect_to(peer, answers, era="handshake") as session, anyio.create_task_group() as group:
        await list_tools(session)

        async def server() -> None:
            await peer.wait_until(lambda: len(jobs.polled) >= 4)  # tasks/result is pending, and polling continues
            fetch = next(message["id"] for message in peer.seen if message.get("method") == "tasks/result")
            answers.released.set()
            await peer.wait_until(lambda: bool(peer.answers()))
            peer.say(id=fetch, result=DONE)

        group.start_soon(server)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer).count("tasks/result") == 1
    assert peer.answers() == [
        {
            "jsonrpc": "2.0",
            "id": 70,
            "result": {
                "action": "accept",
                "content": {"which": "snake"},
                "_meta": {RELATED_TASK_KEY: {"taskId": "t-1"}},
            },
        }
    ]
    ((_, context),) = answers.asked
    assert (context.method, context.target, context.revision) == ("tools/call", "dig", Revision.V2025_11_25)
    assert context.call_number
    for message in peer.seen:
        if message.get("method", "").startswith("tasks/"):
            assert message["params"] == {"taskId": "t-1"}


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "stopped by us"])
async def test_a_question_stays_open_and_shows_that_its_task_ended(end: str) -> None:
    answers = BlockingHandler()

    def first(peer: ScriptedServer) -> Any:
        peer.say(**elicitation_request())
        return task_entry()

    def later(peer: ScriptedServer) -> Any:
        return task_entry(end) if answers.asked and end != "stopped by us" else task_entry()

    peer = create_task_peer(TaskServer2025(first, later))
    async with connect_to(peer, answers, era="handshake") as session:
        await list_tools(session)
        async with anyio.create_task_group() as group:

            async def call() -> None:
                with suppress(RequestRefused):
                    await session.request(CallTool("dig"))

            group.start_soon(call)
            await peer.wait_until(lambda: bool(answers.asked))
            assert peer.observer.ended_calls == []
            if end == "stopped by us":
                group.cancel_scope.cancel()
        assert peer.observer.ended_calls == [answers.asked[0][1].call_number]
        assert peer.answers() == []
        answers.released.set()
        await peer.wait_until(lambda: bool(peer.answers()))
    assert peer.answers()[0]["result"]["action"] == "accept"
    assert len(peer.observer.ended_calls) == 1


async def test_a_question_right_after_its_task_belongs_to_the_task_and_not_to_the_request() -> None:
    answers = BlockingHandler()

    def created(peer: ScriptedServer) -> Any:
        peer.say(id=peer.seen[-1]["id"], result={"task": task_entry()})
        peer.say(**elicitation_request())
        return NO_REPLY

    jobs = TaskServer2025(lambda peer: task_entry("completed" if peer.answers() else "working"), created=created)
    peer = create_task_peer(jobs)
    async with connect_to(peer, answers, era="handshake") as session, anyio.create_task_group() as group:
        await list_tools(session)

        async def server() -> None:
            await peer.wait_until(lambda: len(jobs.polled) >= 3)
            assert peer.observer.ended_calls == []
            answers.released.set()

        group.start_soon(server)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    ((_, context),) = answers.asked
    assert (context.method, context.target) == ("tools/call", "dig")


async def test_a_result_that_was_not_ready_is_requested_again() -> None:
    results: list[Any] = [ErrorData(-32600, "not yet"), DONE]
    jobs = TaskServer2025(
        task_entry("input_required"),
        task_entry(),
        task_entry("completed"),
        result=lambda peer: results.pop(0) if results else None,
    )
    peer = create_task_peer(jobs)
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert methods_after_lists(peer).count("tasks/result") == 2


@pytest.mark.req("task.old.any-stream")
async def test_task_messages_are_received_on_any_stream_of_an_http_server() -> None:
    """The question arrives on the GET stream, progress on that of tasks/result, and the status with another call."""
    answers, notifications = BlockingHandler(), list[Notification]()
    answers.released.set()
    answered, listening = anyio.Event(), anyio.Event()
    gets: list[ReceivedRequest] = []
    token: list[Any] = []

    async def on_get(request: ReceivedRequest) -> None:
        gets.append(request)
        await request.stream()
        listening.set()
        await answered.wait()

    async def on_call(request: ReceivedRequest) -> object:
        message = request.message
        match message["method"]:
            case "tools/list":
                execution = {"taskSupport": "required"}
                tool = {"name": "dig", "inputSchema": {"type": "object"}, "execution": execution}
                return await request.result({"tools": [tool, {"name": "other", "inputSchema": {"type": "object"}}]})
            case "tools/call" if "task" in message["params"]:
                token.append(message["params"]["_meta"]["progressToken"])
                return await request.result({"task": task_entry(pollInterval=60_000)})
            case "tools/call":
                await request.stream()
                await request.event(
                    {"method": "notifications/tasks/status", "params": task_entry("input_required", "asks")}
                )
                await request.event({"id": message["id"], "result": DONE})
                return False
            case "tasks/result":
                await listening.wait()
                await request.stream()
                progress = {"progressToken": token[0], "progress": 3}
                await request.event({"method": "notifications/progress", "params": progress})
                await gets[0].event(elicitation_request())
                await answered.wait()
                await request.event({"id": message["id"], "result": DONE})
                return False
            case _:
                raise AssertionError(message)

    plain = handshake_server(on_call, on_get=on_get)

    async def handler(request: ReceivedRequest) -> object:
        message = request.message if request.body else {}
        if message.get("method") == "initialize":
            capabilities = {"tools": {}, "tasks": TASKS}
            return await request.result(
                {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}
            )
        if message.get("id") == 70:
            assert message["result"]["_meta"] == {RELATED_TASK_KEY: {"taskId": "t-1"}}
            answered.set()
        return await plain(request)

    async with over_http(handler, answers=answers) as (session, _), anyio.create_task_group() as group:
        await list_tools(session)
        with anyio.fail_after(20):

            async def other() -> None:
                while not token:
                    await anyio.lowlevel.checkpoint()
                await session.request(CallTool("other"))

            group.start_soon(other)
            assert single_text(await session.request(CallTool("dig"), on_notification=notifications.append)) == "found"
    assert [event.progress for event in notifications if isinstance(event, ProgressNotification)] == [3]
    assert answers.asked[0][1].target == "dig"


# -- ends
@pytest.mark.req("task.old.failed-is-error")
async def test_a_failed_task_gives_the_tools_own_error_result() -> None:
    failed = {"content": [{"type": "text", "text": "no water"}], "isError": True}
    peer = create_task_peer(TaskServer2025(task_entry("failed", "Tool execution failed"), result=failed))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        result = await session.request(CallTool("dig"))
    assert result.is_error
    assert single_text(result) == "no water"


@pytest.mark.req("task.old.failed-is-error")
@pytest.mark.req("task.old.result")
async def test_a_failed_task_without_a_result_raises_an_error_with_the_status_message() -> None:
    peer = create_task_peer(
        TaskServer2025(task_entry("failed", "rate limit"), result=ErrorData(-32603, "upstream broke"))
    )
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestRefused) as exc_info:
            await session.request(CallTool("dig"))
    assert exc_info.value.code == -32603
    assert exc_info.value.message.endswith("upstream broke (rate limit)")


@pytest.mark.req("task.old.errors")
@pytest.mark.parametrize("status", ["tasks/get", "tasks/result"])
async def test_a_task_that_vanished_is_reported_as_such(status: str) -> None:
    gone = ErrorData(-32602, "Task not found")
    jobs = (
        TaskServer2025(task_entry(), gone)
        if status == "tasks/get"
        else TaskServer2025(task_entry("completed"), result=gone)
    )
    peer = create_task_peer(jobs)
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestRefused, match=r"no longer knows the task of 'dig' .*: Task not found") as exc_info:
            await session.request(CallTool("dig"))
    assert exc_info.value.code == -32602
    assert "tasks/cancel" not in methods_after_lists(peer)


@pytest.mark.req("task.old.errors")
@pytest.mark.parametrize("code", [-32601, -32600])
async def test_a_refused_creation_is_shown_with_its_reason(code: int) -> None:
    async with connect_to(
        create_task_peer(TaskServer2025(created=ErrorData(code, "no task for dig"))), era="handshake"
    ) as session:
        await list_tools(session)
        with pytest.raises(RequestRefused, match="no task for dig") as exc_info:
            await session.request(CallTool("dig"))
    assert exc_info.value.code == code


async def test_a_task_cancelled_by_its_server_is_an_error_with_the_reason() -> None:
    peer = create_task_peer(TaskServer2025(task_entry("cancelled", "maintenance")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestRefused, match=r"'peer' cancelled the task of 'dig': maintenance"):
            await session.request(CallTool("dig"))
    assert methods_after_lists(peer) == ["tools/call", "tasks/get"]


# -- cancelling
@pytest.mark.req("cancel.tasks", revisions=("2025-11-25",))
@pytest.mark.req("task.old.list-cancel")
@pytest.mark.parametrize("declared", [True, False])
async def test_giving_up_cancels_the_task_and_never_by_a_notification(declared: bool) -> None:
    support = TASKS if declared else {"requests": TASKS["requests"]}
    peer = create_task_peer(TaskServer2025(task_entry(pollInterval=60_000)), declared=support)
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("dig"))
            await peer.wait_until(lambda: "tasks/get" in peer.methods())
            group.cancel_scope.cancel()
        await session.request(CallTool("x"))  # the session continues
    expected = ["tasks/cancel"] if declared else []
    assert methods_after_lists(peer) == ["tools/call", "tasks/get", *expected, "tools/call"]


@pytest.mark.req("cancel.tasks", revisions=("2025-11-25",))
async def test_a_task_created_after_its_caller_left_is_cancelled_then() -> None:
    peer = create_task_peer(TaskServer2025(created=lambda peer: None))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("dig"))
            await peer.wait_until(lambda: "tools/call" in peer.methods())
            group.cancel_scope.cancel()
        assert methods_after_lists(peer) == ["tools/call"]
        peer.say(id=peer.ident, result={"task": task_entry()})
        await peer.wait_until(lambda: "tasks/cancel" in peer.methods())
    assert methods_after_lists(peer) == ["tools/call", "tasks/cancel"]
    assert params_of(peer, "tasks/cancel") == {"taskId": "t-1"}


@pytest.mark.req("cancel.tasks", revisions=("2025-11-25",))
async def test_quitting_waits_briefly_for_task_cancellations() -> None:
    """Although the caller and the session are cancelled together, even a slow HTTP server gets the cancellation."""
    recorded: list[str] = []
    opened, polled = anyio.Event(), anyio.Event()
    sessions: list[Session] = []

    async def on_call(request: ReceivedRequest) -> object:
        method = request.message["method"]
        if method == "tasks/cancel":
            await anyio.sleep(0.1)
            recorded.append(method)
        if method == "tasks/get":
            polled.set()
        await request.result(
            TaskServer2025(task_entry(pollInterval=60_000))(create_task_peer(TaskServer2025()), method, {}),
            connection="close",
        )
        return False  # the next request needs a connection of its own

    plain = handshake_server(on_call)

    async def handler(request: ReceivedRequest) -> object:
        if request.body and request.message.get("method") == "initialize":
            capabilities = {"tools": {}, "tasks": TASKS}
            return await request.result(
                {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {}}
            )
        return await plain(request)

    async with serve(handler) as server:

        async def hold() -> None:
            config = ServerConfig(name="peer", url=server.url)
            async with ClientSessionOpener().open(config, FakeRequestHandler(), RecordingObserver()) as session:
                await list_tools(session)
                sessions.append(session)
                opened.set()
                await anyio.sleep_forever()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(hold)
                await opened.wait()
                group.start_soon(sessions[0].request, CallTool("dig"))
                await polled.wait()
                group.cancel_scope.cancel()
        assert recorded == ["tasks/cancel"]


@pytest.mark.req("cancel.tasks", revisions=("2025-11-25",))
async def test_a_task_over_its_time_is_cancelled_and_reported() -> None:
    peer = create_task_peer(TaskServer2025(task_entry()))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestTimeout, match=r"task of 'dig' at 'peer' was not done within 0 s"):
            await session.request(CallTool("dig"), deadline=0.1)
    assert methods_after_lists(peer)[-1] == "tasks/cancel"
    assert "notifications/cancelled" not in methods_after_lists(peer)


async def test_a_task_may_take_longer_than_a_request_within_its_own_limit() -> None:
    limits = Limits(request_timeout=0.1, request_timeout_max=0.1, task_timeout=0.4)
    jobs = TaskServer2025(*[task_entry(pollInterval=50)] * 4, task_entry("completed"))
    async with connect_to(create_task_peer(jobs), limits=limits, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
        jobs.states = [task_entry()]
        with pytest.raises(RequestTimeout, match="was not done within"):
            await session.request(CallTool("dig"))


async def test_a_server_that_makes_no_task_in_time_costs_the_usual_wait() -> None:
    peer = create_task_peer(TaskServer2025(created=lambda peer: None))
    limits = Limits(request_timeout=0.05, request_timeout_max=5)
    async with connect_to(peer, limits=limits, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestTimeout, match="did not create a task for 'dig' in time"):
            await session.request(CallTool("dig"))
        assert methods_after_lists(peer) == ["tools/call"]


# -- hostile
@pytest.mark.parametrize(
    ("created", "state"),
    [
        ({"task": task_entry(ident="")}, task_entry()),
        ({"task": task_entry(ident="x" * 2_000)}, task_entry()),
        ({"task": "t-1"}, task_entry()),
        (None, task_entry(ident="t-2")),
        (None, {"status": "working"}),
        (None, task_entry(ttl="for ever")),
    ],
)
async def test_an_invalid_task_ends_the_call(created: Any, state: Any) -> None:
    async with connect_to(create_task_peer(TaskServer2025(state, created=created)), era="handshake") as session:
        await list_tools(session)
        with pytest.raises(MalformedMessage):
            await session.request(CallTool("dig"))


async def test_an_unknown_status_is_reported_once_and_treated_as_working() -> None:
    peer = create_task_peer(TaskServer2025(task_entry("pondering"), task_entry("musing"), task_entry("completed")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        assert single_text(await session.request(CallTool("dig"))) == "found"
    assert [
        warning for warning in peer.observer.warnings if "unknown status 'pondering'" in warning
    ] == peer.observer.warnings
    assert len(peer.observer.warnings) == 1


async def test_a_task_that_outlives_its_ttl_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_polling, "EXPIRY_GRACE_SECONDS", 0.02)
    peer = create_task_peer(TaskServer2025(task_entry(ttl=30)))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestTimeout, match="that its server gave it"):
            await session.request(CallTool("dig"))
    assert methods_after_lists(peer)[-1] == "tasks/cancel"


async def test_a_task_that_waits_for_input_without_asking_ends_within_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls_as_tasks, "MAX_RESULT_TRIES", 2)
    peer = create_task_peer(TaskServer2025(task_entry("input_required"), result=ErrorData(-32600, "nothing")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match=r"not done within 0 s"):
            await session.request(CallTool("dig"), deadline=0.3)
    assert methods_after_lists(peer).count("tasks/result") == 2
    assert methods_after_lists(peer)[-1] == "tasks/cancel"


@pytest.mark.parametrize("hard", [True, False])
async def test_the_users_time_counts_under_a_hard_limit_only(hard: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_polling, "MAX_INPUT_SECONDS", 1.5)
    peer = create_task_peer(
        TaskServer2025(task_entry("input_required"), result=lambda peer: peer.say(**elicitation_request()))
    )
    limits = Limits(request_timeout=1, request_timeout_max=1, task_timeout=1, includes_user_time=hard)
    async with connect_to(peer, BlockingHandler(), era="handshake", limits=limits) as session:
        await list_tools(session)
        with anyio.fail_after(20), pytest.raises(RequestTimeout, match="not done within" if hard else "for input"):
            await session.request(CallTool("dig"))


async def test_a_task_that_waits_for_input_is_polled_ever_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = TaskServer2025(task_entry("input_required"), result=NO_REPLY)
    async with connect_to(create_task_peer(jobs), era="handshake") as session:
        await list_tools(session)
        with anyio.fail_after(20), pytest.raises(RequestTimeout):
            await session.request(CallTool("dig"), deadline=1.0)
    assert 3 < len(jobs.polled) < 15  # the server sets an interval of 10 ms, which would allow a hundred


async def test_a_second_task_under_the_id_of_a_running_one_is_refused() -> None:
    peer = create_task_peer(TaskServer2025(task_entry(pollInterval=60_000)))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        async with anyio.create_task_group() as group:
            group.start_soon(session.request, CallTool("dig"))
            await peer.wait_until(lambda: "tasks/get" in peer.methods())
            with pytest.raises(MalformedMessage, match="same id"):
                await session.request(CallTool("dig"))
            group.cancel_scope.cancel()


async def test_a_server_that_dies_during_a_task_ends_the_call_before_its_deadline() -> None:
    peer = create_task_peer(TaskServer2025(lambda peer: peer.pipe.disconnect("It crashed.")))
    async with connect_to(peer, era="handshake") as session:
        await list_tools(session)
        with anyio.fail_after(20), pytest.raises(ConnectionLost):
            await session.request(CallTool("dig"))


async def test_a_finished_task_whose_result_never_arrives_costs_one_wait() -> None:
    peer = create_task_peer(TaskServer2025(result=NO_REPLY))
    limits = Limits(request_timeout=0.1, request_timeout_max=5)
    async with connect_to(peer, limits=limits, era="handshake") as session:
        await list_tools(session)
        with pytest.raises(RequestTimeout, match="does not return its result"):
            await session.request(CallTool("dig"))


# -- manual calls
@pytest.mark.req("task.old.list-cancel")
async def test_tasks_can_be_listed_read_and_cancelled_where_the_server_declared_it() -> None:
    def script(peer: ScriptedServer, method: str, params: dict[str, Any]) -> Any:
        if method == "tasks/list":
            return {"tasks": [task_entry(ident="a")], "nextCursor": "ü="}
        if method == "tasks/cancel":
            return task_entry("cancelled") if params["taskId"] == "a" else ErrorData(-32602, "already completed")
        return task_entry() if method == "tasks/get" else DONE

    async with connect_to(ScriptedServer(script, capabilities={"tasks": TASKS}), era="handshake") as session:
        listed = await session.request(ListTasks())
        assert [json.loads(bytes(raw))["taskId"] for raw in listed.tasks] == ["a"]
        assert listed.next_cursor == "ü="
        assert (await session.request(GetTask("t-1"))).status == "working"
        assert json.loads(bytes(await session.request(GetTaskResult("t-1")))) == DONE
        await session.request(CancelTask("a"))
        with pytest.raises(RequestRefused, match="already completed") as exc_info:
            await session.request(CancelTask("b"))
    assert exc_info.value.code == -32602


@pytest.mark.req("task.old.list-cancel")
async def test_a_list_and_a_cancel_that_were_not_declared_are_not_sent() -> None:
    peer = ScriptedServer(capabilities={"tasks": {"requests": TASKS["requests"]}})
    async with connect_to(peer, era="handshake") as session:
        for call in (ListTasks(), CancelTask("a")):
            with pytest.raises(UnsupportedCapability):
                await session.request(call)
    none = ScriptedServer(capabilities={"tasks": {}})
    async with connect_to(none, era="handshake") as session:
        with pytest.raises(UnsupportedCapability):
            await session.request(GetTask("a"))
    assert not [method for method in peer.methods() + none.methods() if method.startswith("tasks/")]
