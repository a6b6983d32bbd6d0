"""Questions on the pipe: what they show, which answers they take, and how they end."""

from typing import Any

import anyio
import pytest

from mcphost.errors import UsageError
from mcphost.headless.answers import PipeFront, meaning
from mcphost.host.questions import (
    AllowAlways,
    AllowOnce,
    AllowSession,
    ApproveTool,
    ContinueTurn,
    Deny,
    DoNotTrust,
    Question,
    TrustAlways,
    TrustOnce,
    TrustServer,
)

pytestmark = pytest.mark.anyio
APPROVE = ApproveTool(server="s", why="w", call="c", tool="t", arguments={"a": 1})
TRUST = TrustServer(server="s", why="w", command=("x",))
MORE = ContinueTurn(server="", why="w", rounds=25)


@pytest.mark.parametrize(
    ("question", "answer", "verdict"),
    [
        (APPROVE, "once", AllowOnce()),
        (APPROVE, "session", AllowSession()),
        (APPROVE, "always", AllowAlways()),
        (APPROVE, "deny", Deny()),
        (APPROVE, {"deny": "too risky"}, Deny("too risky")),
        (APPROVE, {"accept": {"a": 2}}, AllowOnce({"a": 2})),
        (TRUST, "once", TrustOnce()),
        (TRUST, "always", TrustAlways()),
        (TRUST, "deny", DoNotTrust()),
        (MORE, "once", True),
        (MORE, "deny", False),
    ],
)
def test_answer_means(question: Question[Any], answer: Any, verdict: Any) -> None:
    assert meaning(question, answer) == verdict


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (APPROVE, None),
        (APPROVE, True),
        (APPROVE, "yes"),
        (APPROVE, {"deny": 5}),
        (APPROVE, {"accept": []}),
        (APPROVE, {"accept": {}, "deny": ""}),
        (TRUST, "session"),
        (TRUST, {"accept": {}}),
        (MORE, True),
    ],
)
def test_other_answers_are_refused_with_the_right_ones(question: Question[Any], answer: Any) -> None:
    with pytest.raises(UsageError, match='It takes: "once"'):
        meaning(question, answer)


async def test_question_stays_open_until_it_is_answered_well() -> None:
    front, events, got = PipeFront(), [], []
    front.connect(events.append)

    async def ask() -> None:
        got.append(await front.ask(APPROVE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert events[0]["event"] == "question"
        assert events[0]["kind"] == "approve_tool"
        assert (events[0]["server"], events[0]["tool"], events[0]["arguments"]) == ("s", "t", {"a": 1})
        assert "once" in events[0]["choices"]
        with pytest.raises(UsageError, match="does not take"):
            front.answer(events[0]["question"], "perhaps")
        front.answer(events[0]["question"], "session")
        with pytest.raises(UsageError, match="no open question"):
            front.answer(events[0]["question"], "deny")
    assert got == [AllowSession()]


async def test_question_nobody_waits_for_is_withdrawn() -> None:
    front, events = PipeFront(), []
    front.connect(events.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(front.ask, APPROVE)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert events[-1] == {"event": "question_withdrawn", "question": "q1"}
    with pytest.raises(UsageError):
        front.answer("q1", "once")


async def test_end_of_input_refuses_open_and_later_questions() -> None:
    front, got = PipeFront(), []

    async def ask() -> None:
        got.append(await front.ask(TRUST))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        front.refuse_all()
    assert got == [DoNotTrust()]
    assert isinstance(await front.ask(APPROVE), Deny)
