"""Questions on the pipe: what they show, which answers they take, and how they end."""

from typing import Any

import anyio
import pytest

from mcphost.errors import UsageError
from mcphost.headless.answers import PipeFront, meaning
from mcphost.host.forms import Field
from mcphost.host.questions import (
    Accept,
    AllowAlways,
    AllowOnce,
    AllowSession,
    ApproveTool,
    AsShown,
    Cancel,
    ContinueTurn,
    Decline,
    Deny,
    DoNotShare,
    DoNotTrust,
    EditedReply,
    EditedRequest,
    FillForm,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareOnce,
    ShareRoots,
    ShareSession,
    TrustAlways,
    TrustOnce,
    TrustServer,
    Visited,
    VisitUrl,
)

pytestmark = pytest.mark.anyio
APPROVE = ApproveTool(server="s", why="w", call="c", tool="t", arguments={"a": 1})
TRUST = TrustServer(server="s", why="w", command=("x",))
MORE = ContinueTurn(server="", why="w", rounds=25)
SAMPLING = ReviewSampling(server="s", why="w", messages=({"role": "user"},), model="m", label="m", max_tokens=5)
REPLY = ReviewReply(server="s", why="w", content=({"type": "text", "text": "x"},), model="m", stop_reason="endTurn")
FORM = FillForm(server="s", why="w", message="?", fields=(Field(name="age", kind="integer", default=3, maximum=9),))
VISIT = VisitUrl(server="s", why="w", message="?", url="https://x.org/", host="x.org")
AGAIN = RetryCall(server="s", why="w", urls=("https://x.org/",))
ROOTS = ShareRoots(server="s", why="w", roots=())


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
        (SAMPLING, "once", AsShown()),
        (SAMPLING, "deny", Deny()),
        (SAMPLING, {"deny": "no"}, Deny("no")),
        (SAMPLING, {"accept": {"system": "x", "max_tokens": 2}}, EditedRequest(system="x", max_tokens=2)),
        (SAMPLING, {"accept": {"messages": [{"role": "user"}]}}, EditedRequest(messages=({"role": "user"},))),
        (REPLY, "once", AsShown()),
        (
            REPLY,
            {"accept": {"content": [{"type": "text", "text": "y"}]}},
            EditedReply(({"type": "text", "text": "y"},)),
        ),
        (REPLY, "deny", Deny()),
        (FORM, {"accept": {}}, Accept()),
        (FORM, {"accept": {"age": None}}, Accept({"age": None})),
        (FORM, {"accept": {"age": 4}}, Accept({"age": 4})),
        (FORM, "decline", Decline()),
        (FORM, "cancel", Cancel()),
        (VISIT, "once", Visited()),
        (VISIT, "decline", Decline()),
        (VISIT, "cancel", Cancel()),
        (AGAIN, "once", True),
        (AGAIN, "deny", False),
        (ROOTS, "once", ShareOnce()),
        (ROOTS, "session", ShareSession()),
        (ROOTS, "deny", DoNotShare()),
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
        (SAMPLING, "session"),
        (SAMPLING, {"accept": {"model": "other"}}),
        (REPLY, {"accept": {"text": "x"}}),
        (VISIT, "always"),
        (VISIT, {"accept": {}}),
        (AGAIN, "always"),
        (ROOTS, "always"),
    ],
)
def test_other_answers_are_refused_with_the_right_ones(question: Question[Any], answer: Any) -> None:
    with pytest.raises(UsageError, match='It takes: "once"'):
        meaning(question, answer)


@pytest.mark.parametrize("answer", ["once", "deny", {"deny": "x"}, {"accept": []}, {}])
def test_a_form_is_filled_in_declined_or_left_and_nothing_else(answer: Any) -> None:
    with pytest.raises(UsageError, match='It takes: "decline", "cancel"'):
        meaning(FORM, answer)


@pytest.mark.req("elic.form.validate")
@pytest.mark.parametrize(
    ("question", "answer", "words"),
    [
        (FORM, {"accept": {"age": 10}}, "'age' must be at most 9"),
        (FORM, {"accept": {"name": "x"}}, "no field 'name'"),
        (SAMPLING, {"accept": {"messages": "x"}}, "not valid"),
        (SAMPLING, {"accept": {"max_tokens": "x"}}, "not valid"),
        (REPLY, {"accept": {"content": [5]}}, "not valid"),
        (REPLY, {"accept": {}}, "not valid"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_what_is_wrong(
    question: Question[Any], answer: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        meaning(question, answer)


@pytest.mark.parametrize("question", [APPROVE, TRUST, MORE, SAMPLING, REPLY, FORM, VISIT, AGAIN, ROOTS])
def test_every_kind_of_question_can_be_put_and_has_a_refusal_of_its_own_type(question: Question[Any]) -> None:
    front = PipeFront()
    assert question.KIND in front.kinds
    assert question.refusal() in (Deny(), DoNotTrust(), False, Cancel(), DoNotShare())


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
