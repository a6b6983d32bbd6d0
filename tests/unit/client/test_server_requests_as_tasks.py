"""Tests for tasks that mcphost runs at the request of a server: bounded in number, time and bytes."""

import weakref
from typing import Any

import anyio
import pytest

from mcphost.client import server_requests_as_tasks
from mcphost.client.server_requests_as_tasks import ServerTaskRunner
from mcphost.client.session import ServerRequestContext, Session
from mcphost.errors import ConsentDenied
from mcphost.protocol.jsonrpc import JsonRpcMessage, JsonRpcRequest, JsonRpcResponse
from mcphost.protocol.server_requests import (
    ClientResult,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    ServerRequest,
    ServerRequestRejection,
)
from mcphost.protocol.tools import ListTools
from mcphost.serialization import Raw
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.results import RELATED_TASK_KEY
from tests.unit.client.scripted_server import ScriptedServer, connect_to

pytestmark = pytest.mark.anyio
SAID = CreateMessageResult("assistant", Raw(b'{"type":"text","text":"Paris"}'), "m")
SAMPLE: dict[str, Any] = {"messages": [], "maxTokens": 5, "task": {"ttl": 60_000}}
FORM: dict[str, Any] = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}, "task": {}}


class SlowHandler(FakeRequestHandler):
    """A handler that replies on demand and records the requests that were withdrawn."""

    def __init__(self, *, let: bool = False, reply: ClientResult = SAID) -> None:
        super().__init__({"sampling/createMessage": reply, "elicitation/create": ElicitResult("decline")})
        self.released = anyio.Event()
        self.withdrawn = 0
        if let:
            self.released.set()

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        try:
            await self.released.wait()
        except BaseException:
            self.withdrawn += 1
            raise
        return await super().answer(request, context)


class TaskRequestServer:
    """A server that sends requests; `ask` returns the client's response."""

    def __init__(self, peer: ScriptedServer) -> None:
        self.peer = peer
        self._next = 100

    def put(self, method: str, **params: Any) -> int:
        self._next += 1
        self.peer.say(id=self._next, method=method, params=params)
        return self._next

    def answered(self, ident: int) -> dict[str, Any] | None:
        return next((answer for answer in self.peer.answers() if answer["id"] == ident), None)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        ident = self.put(method, **params)
        await self.peer.wait_until(lambda: self.answered(ident) is not None)
        answer = self.answered(ident)
        assert answer is not None
        return answer

    async def created(self, method: str = "sampling/createMessage", **more: Any) -> dict[str, Any]:
        params = SAMPLE if method.startswith("sampling") else FORM
        return (await self.ask(method, **params | more))["result"]["task"]

    async def until(self, ident: str, status: str) -> dict[str, Any]:
        """Poll the task, as a server would, until it has this status; return the state of the task."""
        with anyio.fail_after(20):
            while (state := (await self.ask("tasks/get", taskId=ident))["result"])["status"] != status:
                await anyio.lowlevel.checkpoint()
        return state


def task_notifications(peer: ScriptedServer) -> list[tuple[str, str]]:
    told = [message["params"] for message in peer.seen if message.get("method") == "notifications/tasks/status"]
    return [(text["taskId"], text["status"]) for text in told]


@pytest.mark.req("task.old.host")
@pytest.mark.req("life.init.caps.tasks")
async def test_a_question_as_a_task_is_acknowledged_at_once_and_answered_when_asked_for() -> None:
    peer, answers = ScriptedServer(), SlowHandler()
    server = TaskRequestServer(peer)
    async with connect_to(peer, answers, era="handshake"):
        declared = peer.seen[0]["params"]["capabilities"]["tasks"]
        assert declared["requests"] == {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
        created = await server.created()
        assert created["status"] == "working"
        assert created["ttl"] == 60_000
        assert created["createdAt"].endswith("Z")
        assert created["lastUpdatedAt"] == created["createdAt"]
        assert len(created["taskId"]) >= 32
        waiting = server.put("tasks/result", taskId=created["taskId"])
        assert (await server.ask("tasks/get", taskId=created["taskId"]))["result"]["status"] == "working"
        assert server.answered(waiting) is None
        answers.released.set()
        await peer.wait_until(lambda: server.answered(waiting) is not None)
        state = await server.until(created["taskId"], "completed")
        again = await server.ask("tasks/result", taskId=created["taskId"])
    first = server.answered(waiting)
    assert first is not None
    assert first["result"] == {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
        "_meta": {RELATED_TASK_KEY: {"taskId": created["taskId"]}},
    }
    assert again["result"] == first["result"]
    assert {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"} == set(state)
    assert task_notifications(peer) == [(created["taskId"], "completed")]


@pytest.mark.req("samp.task-augmented")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_task_that_was_not_offered_is_a_plain_request(revision: str) -> None:
    """A roots request never runs as a task, and before 2025-11-25 no request does."""
    peer, answers = ScriptedServer(revision=revision), SlowHandler(let=True)
    answers.replies["roots/list"] = ListRootsResult((Root("file:///a"),))
    answers.capabilities["roots"] = {}
    server = TaskRequestServer(peer)
    async with connect_to(peer, answers, era="handshake"):
        assert (await server.ask("roots/list", task={"ttl": 5}))["result"] == {"roots": [{"uri": "file:///a"}]}
        if revision < "2025-11-25":
            assert (await server.ask("sampling/createMessage", **SAMPLE))["result"]["model"] == "m"
            assert (await server.ask("tasks/list"))["error"]["code"] == -32601
        else:
            plain = {name: value for name, value in SAMPLE.items() if name != "task"}
            assert (await server.ask("sampling/createMessage", **plain))["result"]["model"] == "m"


@pytest.mark.req("samp.task-augmented")
async def test_only_the_kinds_that_are_declared_become_tasks() -> None:
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    answers = FakeRequestHandler({"elicitation/create": ElicitResult("decline"), "roots/list": ListRootsResult(())})
    async with connect_to(peer, answers, era="handshake"):
        assert peer.seen[0]["params"]["capabilities"]["tasks"]["requests"] == {"elicitation": {"create": {}}}
        assert "task" in (await server.ask("elicitation/create", **FORM))["result"]
        assert (await server.ask("sampling/createMessage", **SAMPLE))["error"]["code"] == -32601


async def test_without_anything_to_answer_there_are_no_tasks() -> None:
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, FakeRequestHandler({"roots/list": ListRootsResult(())}), era="handshake"):
        assert peer.seen[0]["params"]["capabilities"] == {"roots": {}}
        for method in ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"):
            assert (await server.ask(method, taskId="x"))["error"]["code"] == -32601


@pytest.mark.req("task.old.host")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_unknown_and_invalid_ids_are_invalid_parameters(method: str) -> None:
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, SlowHandler(), era="handshake"):
        await server.created()
        for params in ({"taskId": "guess"}, {"taskId": 7}, {"taskId": None}, {}):
            assert (await server.ask(method, **params))["error"]["code"] == -32602
        assert (await server.ask("sampling/createMessage", **SAMPLE | {"task": 5}))["error"]["code"] == -32602
        assert (await server.ask("sampling/createMessage", **SAMPLE | {"messages": 5}))["error"]["code"] == -32602


@pytest.mark.req("task.old.host")
@pytest.mark.req("task.old.list-cancel")
async def test_a_cancelled_task_withdraws_the_question_and_stays_cancelled() -> None:
    peer, answers = ScriptedServer(), SlowHandler()
    server = TaskRequestServer(peer)
    async with connect_to(peer, answers, era="handshake"):
        created = await server.created("elicitation/create")
        waiting = server.put("tasks/result", taskId=created["taskId"])
        gone = await server.ask("tasks/cancel", taskId=created["taskId"])
        assert gone["result"]["status"] == "cancelled"
        await peer.wait_until(lambda: server.answered(waiting) is not None and answers.withdrawn == 1)
        answers.released.set()
        assert (await server.ask("tasks/get", taskId=created["taskId"]))["result"]["status"] == "cancelled"
        assert (await server.ask("tasks/cancel", taskId=created["taskId"]))["error"]["code"] == -32602
        first = server.answered(waiting)
    assert first is not None
    assert "cancelled" in first["error"]["message"]
    assert answers.asked == []


@pytest.mark.parametrize("how", ["declined", "raised", "broken"])
async def test_declined_or_failed_requests_are_failed_tasks_with_their_own_error(how: str) -> None:
    class RefusingHandler(SlowHandler):
        async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
            if how == "broken":
                raise RuntimeError("a bug with a secret")
            if how == "raised":
                raise ConsentDenied("the user said no")
            return ServerRequestRejection("the user said no", -7)

    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, RefusingHandler(), era="handshake"):
        created = await server.created()
        state = await server.until(created["taskId"], "failed")
        error = (await server.ask("tasks/result", taskId=created["taskId"]))["error"]
        assert (await server.ask("tasks/cancel", taskId=created["taskId"]))["error"]["code"] == -32602
    assert error["code"] == {"declined": -7, "raised": -1, "broken": -32603}[how]
    assert state["statusMessage"] == error["message"]
    assert "secret" not in error["message"]


@pytest.mark.parametrize(
    ("expected", "given"), [(None, 300_000), (-5, 1_000), (0, 1_000), (1e15, 3_600_000), (2.5e3, 2_500)]
)
async def test_the_lifetime_is_chosen_by_us(expected: float | None, given: int) -> None:
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, SlowHandler(), era="handshake"):
        assert (await server.created(task={"ttl": expected}))["ttl"] == given
        assert (await server.ask("sampling/createMessage", **SAMPLE | {"task": {"ttl": "x"}}))["error"][
            "code"
        ] == -32602


async def test_a_task_expires_and_its_waiters_get_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests_as_tasks, "MIN_TTL", 50)
    peer, answers = ScriptedServer(), SlowHandler()
    server = TaskRequestServer(peer)
    async with connect_to(peer, answers, era="handshake"):
        created = await server.created(task={"ttl": 50})
        error = (await server.ask("tasks/result", taskId=created["taskId"]))["error"]
        assert (error["code"], answers.withdrawn) == (-32602, 1)
        assert "expired" in error["message"]
        assert (await server.ask("tasks/get", taskId=created["taskId"]))["error"]["code"] == -32602
        answers.released.set()
        created = await server.created(task={"ttl": 50})
        assert "result" in await server.ask("tasks/result", taskId=created["taskId"])
        with anyio.fail_after(20):
            while (await server.ask("tasks/list"))["result"]["tasks"]:
                await anyio.lowlevel.checkpoint()


async def test_too_many_running_tasks_are_refused_and_finished_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests_as_tasks, "MAX_RUNNING", 3)
    monkeypatch.setattr(server_requests_as_tasks, "MAX_FINISHED", 2)
    peer, answers = ScriptedServer(), SlowHandler()
    server = TaskRequestServer(peer)
    async with connect_to(peer, answers, era="handshake"):
        idents = [(await server.created())["taskId"] for _ in range(3)]
        assert (await server.ask("sampling/createMessage", **SAMPLE))["error"]["code"] == -32603
        answers.released.set()
        await peer.wait_until(lambda: len(task_notifications(peer)) == 3)
        kept = [task["taskId"] for task in (await server.ask("tasks/list"))["result"]["tasks"]]
        assert kept == idents[1:]
        await server.ask("tasks/result", taskId=kept[1])
        newest = (await server.created())["taskId"]
        await peer.wait_until(lambda: len(task_notifications(peer)) == 4)
        kept = [task["taskId"] for task in (await server.ask("tasks/list"))["result"]["tasks"]]
        assert kept == [idents[1], newest]  # fetched results are dropped first


async def test_results_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests_as_tasks, "MAX_RESULT_BYTES", 1_000)
    big = CreateMessageResult("assistant", Raw(b'{"type":"text","text":"' + b"x" * 600 + b'"}'), "m")
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, SlowHandler(let=True, reply=big), era="handshake"):
        for number in range(3):
            await server.created()
            await peer.wait_until(lambda number=number: len(task_notifications(peer)) == number + 1)
        assert len((await server.ask("tasks/list"))["result"]["tasks"]) == 1


@pytest.mark.req("task.old.host")
async def test_the_list_is_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests_as_tasks, "PAGE_SIZE", 2)
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, SlowHandler(), era="handshake"):
        idents = [(await server.created())["taskId"] for _ in range(5)]
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = (await server.ask("tasks/list", **cursor))["result"]
            found.extend(task["taskId"] for task in page["tasks"])
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert found == idents
        assert (await server.ask("tasks/list", cursor="guess"))["error"]["code"] == -32602
    assert len(set(idents)) == 5


async def test_a_question_of_a_tasks_own_belongs_to_the_task_that_asked() -> None:
    """A request sent by a server's task runs as a task of mcphost; the acknowledgement names the server's task."""
    peer = ScriptedServer()
    server = TaskRequestServer(peer)
    async with connect_to(peer, SlowHandler(let=True), era="handshake"):
        answer = await server.ask(
            "sampling/createMessage", **SAMPLE | {"_meta": {RELATED_TASK_KEY: {"taskId": "theirs"}}}
        )
        ours = answer["result"]["task"]["taskId"]
        assert answer["result"]["_meta"] == {RELATED_TASK_KEY: {"taskId": "theirs"}}
        result = (await server.ask("tasks/result", taskId=ours))["result"]
    assert result["_meta"] == {RELATED_TASK_KEY: {"taskId": ours}}


async def test_tasks_end_with_the_session_and_a_fetch_may_be_cancelled() -> None:
    peer, answers = ScriptedServer(), SlowHandler()
    server = TaskRequestServer(peer)

    async def use(session: Session) -> None:
        created = await server.created()
        waiting = server.put("tasks/result", taskId=created["taskId"])
        await server.ask("tasks/get", taskId=created["taskId"])
        peer.say(method="notifications/cancelled", params={"requestId": waiting})
        answers.released.set()
        await server.until(created["taskId"], "completed")
        assert server.answered(waiting) is None
        answers.released = anyio.Event()
        await server.created()
        await session.request(ListTools())

    async with connect_to(peer, answers, era="handshake") as session:
        await use(session)
    assert answers.withdrawn == 1


async def test_requests_of_running_tasks_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_requests_as_tasks, "MAX_RUNNING_BYTES", 10_000)
    big = {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 6_000}}]}
    peer, answers = ScriptedServer(), SlowHandler()
    async with connect_to(peer, answers=answers):
        server = TaskRequestServer(peer)
        first = await server.created(**big)
        assert (
            "more than 10,000 bytes" in (await server.ask("sampling/createMessage", **SAMPLE | big))["error"]["message"]
        )
        answers.released.set()
        await server.until(first["taskId"], "completed")
        assert (await server.created(**big))["status"] == "working", "what is over counts no more"


class TaskWork:
    """The work of a task; the test uses a weak reference to check that the finished task no longer holds it."""

    async def __call__(self) -> JsonRpcMessage:
        return JsonRpcResponse(1, Raw(b"{}"))


async def test_a_finished_task_keeps_its_result_and_not_its_request() -> None:
    told, declared = anyio.Event(), {"tasks": {"requests": {"sampling": {"createMessage": {}}}}}

    async def send(_message: JsonRpcMessage) -> None:
        told.set()

    async with anyio.create_task_group() as group:
        tasks = ServerTaskRunner(declared, send, group, "peer")
        work = TaskWork()
        kept = weakref.ref(work)
        tasks.create(JsonRpcRequest(1, "sampling/createMessage", Raw(b'{"task":{}}')), work)
        del work
        await told.wait()
        assert kept() is None
        group.cancel_scope.cancel()


async def test_few_requests_may_wait_for_the_result_of_one_task() -> None:
    peer, answers = ScriptedServer(), SlowHandler()
    async with connect_to(peer, answers=answers):
        server = TaskRequestServer(peer)
        task = await server.created()
        limit = server_requests_as_tasks.MAX_RESULT_WAITERS
        waiting = [server.put("tasks/result", taskId=task["taskId"]) for _ in range(limit)]
        more = await server.ask("tasks/result", taskId=task["taskId"])
        assert "wait for the result of this task already" in more["error"]["message"]
        answers.released.set()
        await peer.wait_until(lambda: all(server.answered(item) is not None for item in waiting))
        assert all("result" in (server.answered(item) or {}) for item in waiting)
        assert "result" in await server.ask("tasks/result", taskId=task["taskId"])
