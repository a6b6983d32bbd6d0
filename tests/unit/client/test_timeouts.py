"""Tests for time limits: those of calls pause while the user is being asked, and others do not."""

from functools import partial
from typing import Any

import anyio
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import MAX_PAUSED_SECONDS, MAX_PAUSES, PausableDeadline, UserPauses, pause_call_deadlines
from mcphost.config.schema import Limits
from mcphost.errors import RequestTimeout
from mcphost.protocol.server_requests import ClientResult, Elicit, ServerRequest, ServerRequestRejection
from mcphost.protocol.tools import CallTool
from tests.unit.client.fakes import FakeRequestHandler
from tests.unit.client.scripted_server import NO_REPLY, ScriptedServer, connect_to

pytestmark = pytest.mark.anyio
UNTIL = 1_000_000.0


class DeadlineScope:
    """A stand-in for a cancel scope, with only a deadline."""

    def __init__(self) -> None:
        self.deadline = UNTIL


def create_call(calls: dict[int, PausableDeadline], ident: int) -> DeadlineScope:
    """Add a call that was just sent to *calls*; return its cancel scope."""
    scope = DeadlineScope()
    calls[ident] = PausableDeadline(scope, UNTIL, UNTIL, 60)
    return scope


async def test_a_question_of_one_call_does_not_affect_the_time_of_others() -> None:
    calls: dict[int, PausableDeadline] = {}
    pauses = UserPauses(calls, includes_user_time=False)
    asks, other = create_call(calls, 1), create_call(calls, 2)
    with pauses.pause_for_user(1):
        assert asks.deadline == UNTIL + MAX_PAUSED_SECONDS
        assert other.deadline == UNTIL
    assert UNTIL <= asks.deadline < UNTIL + 60


async def test_a_question_of_no_known_call_is_of_those_that_run_and_not_of_later_ones() -> None:
    calls: dict[int, PausableDeadline] = {}
    pauses = UserPauses(calls, includes_user_time=False)
    first, second = create_call(calls, 1), create_call(calls, 2)
    with pauses.pause_for_user(0):
        later = create_call(calls, 3)
        assert (first.deadline, second.deadline, later.deadline) == (*(UNTIL + MAX_PAUSED_SECONDS,) * 2, UNTIL)


async def test_two_questions_of_a_call_block_it_until_both_are_answered() -> None:
    calls: dict[int, PausableDeadline] = {}
    pauses = UserPauses(calls, includes_user_time=False)
    call = create_call(calls, 1)
    with pauses.pause_for_user(1):
        with pauses.pause_for_user(1):
            pass
        assert call.deadline == UNTIL + MAX_PAUSED_SECONDS
    assert call.deadline < UNTIL + 60


async def test_a_call_that_ended_during_its_question_has_no_timeout_to_set() -> None:
    calls: dict[int, PausableDeadline] = {}
    pauses = UserPauses(calls, includes_user_time=False)
    call = create_call(calls, 1)
    with pauses.pause_for_user(1):
        del calls[1]
        call.deadline = UNTIL
    assert call.deadline == UNTIL


async def test_a_hard_limit_includes_the_users_time() -> None:
    calls: dict[int, PausableDeadline] = {}
    pauses = UserPauses(calls, includes_user_time=True)
    call = create_call(calls, 1)
    with pauses.pause_for_user(1):
        assert call.deadline == UNTIL


async def test_the_time_of_a_call_is_paused_at_most_a_thousand_times_and_for_four_hours() -> None:
    often, long = DeadlineScope(), DeadlineScope()
    call = PausableDeadline(often, UNTIL, UNTIL, 60)
    for _ in range(MAX_PAUSES):
        call.pause(0)
        call.resume(1)
    assert often.deadline == UNTIL + MAX_PAUSES
    call.pause(0)
    assert often.deadline == UNTIL + MAX_PAUSES, "once more does not stop it"
    call.resume(1)
    assert often.deadline == UNTIL + MAX_PAUSES
    call = PausableDeadline(long, UNTIL, UNTIL, 60)
    for _ in range(3):
        call.pause(0)
        assert long.deadline <= UNTIL + MAX_PAUSED_SECONDS
        call.resume(MAX_PAUSED_SECONDS)
    assert long.deadline == UNTIL + MAX_PAUSED_SECONDS


class FloodHandler(FakeRequestHandler):
    """A handler that refuses roots/list requests after varying delays, and takes half a second to refuse a form."""

    count = 0

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        if isinstance(request, Elicit):
            with pause_call_deadlines():
                await anyio.sleep(0.5)
        else:
            self.count += 1
            await anyio.sleep(0.01 * (self.count % 20))
        return ServerRequestRejection("no")


@pytest.mark.parametrize(("method", "ends"), [("roots/list", True), ("elicitation/create", False)])
async def test_the_time_of_a_call_is_paused_only_while_the_user_is_asked(method: str, ends: bool) -> None:
    """Server requests that are refused without asking the user do not extend the time limit of the call."""

    def script(peer: ScriptedServer, asked: str, params: dict[str, Any]) -> Any:
        if asked == "tools/call":
            calls.append(peer.ident)
            return NO_REPLY
        return {}

    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}

    def answered(count: int) -> bool:
        return len(peer.answers()) >= count

    calls: list[Any] = []
    people = FloodHandler({"roots/list": ServerRequestRejection(""), "elicitation/create": ServerRequestRejection("")})
    peer = ScriptedServer(script)
    async with connect_to(peer, people, limits=Limits(request_timeout=0.2), era="handshake") as session:

        async def flood() -> None:
            await peer.wait_until(lambda: bool(calls))
            for count in range(0, 1_000_000 if ends else 20, 20):
                for number in range(20):
                    peer.say(id=f"q{count + number}", method=method, params=form)
                await peer.wait_until(partial(answered, count + 10))
            await peer.wait_until(lambda: len(peer.answers()) == 20)
            peer.say(id=calls[0], result={"content": []})

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(flood)
                if ends:
                    with pytest.raises(RequestTimeout):
                        await session.request(CallTool("slow"))
                else:
                    await session.request(CallTool("slow"))
                tasks.cancel_scope.cancel()
