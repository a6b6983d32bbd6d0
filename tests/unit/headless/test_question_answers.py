"""Tests for the host's questions in `mcphost pipe`: content, accepted answers, and how questions end."""

from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.rules import Rule
from mcphost.errors import UsageError
from mcphost.headless.question_answers import PipeFrontend, parse_answer
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveTool,
    ApproveUnchanged,
    Cancel,
    ContinueTurn,
    Decline,
    Deny,
    DoNotShare,
    DoNotTrust,
    EditedReply,
    EditedRequest,
    FillForm,
    NeverShare,
    PassEditedResult,
    PassResult,
    RequestingServer,
    ResultPart,
    RetryCall,
    ReviewReply,
    ReviewResult,
    ReviewSampling,
    ShareAlways,
    ShareOnce,
    SharePerServer,
    ShareRoots,
    ShareSession,
    TrustAlways,
    TrustOnce,
    TrustServer,
    VisitUrl,
    WithholdResult,
)
from mcphost.host.questions.sign_in import (
    DeclineClient,
    DeclineSignIn,
    EnterClientId,
    EnteredClient,
    OpenInBrowser,
    PastedRedirect,
    SignInQuestion,
    SwitchSignInMethod,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges, ToolChange
from mcphost.serialization import replace

pytestmark = pytest.mark.anyio
APPROVE = ApproveTool(server="s", why="w", call="c", tool="t", arguments={"a": 1})
FIXED = replace(APPROVE, editable=False)
RECORDED = replace(FIXED, recorded_at=1.0)
TRUST = TrustServer(server="s", why="w", command=("x",))
MORE = ContinueTurn(server="", why="w", rounds=25)
SAMPLING = ReviewSampling(server="s", why="w", messages=({"role": "user"},), model="m", label="m", max_tokens=5)
REPLY = ReviewReply(server="s", why="w", content=({"type": "text", "text": "x"},), model="m", stop_reason="endTurn")
FORM = FillForm(server="s", why="w", message="?", fields=(Field(name="age", kind="integer", default=3, maximum=9),))
VISIT = VisitUrl(server="s", why="w", message="?", url="https://x.org/", host="x.org")
AGAIN = RetryCall(server="s", why="w", urls=("https://x.org/",))
CLIENT = EnterClientId(server="s", why="w", issuer="https://as.example", redirect_uri="http://127.0.0.1:1/callback")
ROOTS = ShareRoots(server="s", why="w", roots=())
EACH = ShareRoots(
    server="a", why="w", roots=(), askers=(RequestingServer(server="a", why="w"), RequestingServer(server="b", why="w"))
)
SIGN_IN = SignInQuestion(
    server="s", why="w", url="https://x.org/a", host="x.org", issuer="https://x.org", other_method="code"
)
CODE = SignInQuestion(server="s", why="w", url="https://x.org/a", host="x.org", issuer="https://x.org", code="AB-12")
RESULT = ReviewResult(
    server="s", why="w", call="c", tool="t", arguments={},
    parts=(ResultPart(kind="text", text="a"), ResultPart(kind="structured", text="{}")),
)  # fmt: skip
CHANGED = ReviewToolChanges(
    server="s", why="w", changes=tuple(ToolChange(tool=name, digest="d", difference=("+ x",)) for name in "ab")
)


def rule_with_scope(text: str) -> Rule:
    """Return the rule written in *text*, with the scope "conversation"."""
    return replace(parse_rule(text), scope="conversation")


PASTED = {"accept": {"redirect_url": "http://127.0.0.1:1/?code=c"}}


@pytest.mark.parametrize(
    ("question", "answer", "verdict"),
    [
        (RESULT, "once", PassResult()),
        (RESULT, "deny", WithholdResult()),
        (RESULT, {"deny": "keys"}, WithholdResult("keys")),
        (RESULT, {"accept": {"texts": ["b", None]}}, PassEditedResult(("b", None))),
        (CLIENT, "deny", DeclineClient()),
        (CLIENT, {"accept": {"client_id": "me"}}, EnteredClient("me")),
        (CLIENT, {"accept": {"client_id": "me", "client_secret": "s"}}, EnteredClient("me", "s")),
        (APPROVE, "once", AllowOnce()),
        (APPROVE, "session", AllowSession()),
        (APPROVE, "always", AllowAlways()),
        (APPROVE, "deny", Deny()),
        (APPROVE, {"deny": "too risky"}, Deny("too risky")),
        (APPROVE, {"accept": {"a": 2}}, AllowOnce({"a": 2})),
        (APPROVE, {"accept": {"a": 1}}, AllowOnce()),
        (APPROVE, {"accept": {"a": True}}, AllowOnce({"a": True})),
        (
            APPROVE,
            {"rule": {"text": "s/t?a=2", "arguments": {"a": 2}}},
            AllowRule(rule_with_scope("s/t?a=2"), {"a": 2}),
        ),
        (APPROVE, {"rule": "s/t"}, AllowRule(rule_with_scope("s/t"))),
        (APPROVE, {"rule": "s"}, AllowRule(rule_with_scope("s"))),
        (APPROVE, {"rule": {"text": "s/t", "scope": "everywhere"}}, AllowRule(parse_rule("s/t"))),
        (
            APPROVE,
            {"rule": {"text": "s/t", "scope": "project"}},
            AllowRule(replace(parse_rule("s/t"), scope="project")),
        ),
        (CHANGED, "always", AcceptToolChanges(("a", "b"))),
        (CHANGED, "deny", AcceptToolChanges()),
        (CHANGED, {"accept": {"tools": ["b"]}}, AcceptToolChanges(("b",))),
        (TRUST, "once", TrustOnce()),
        (TRUST, "always", TrustAlways()),
        (TRUST, "deny", DoNotTrust()),
        (MORE, "once", True),
        (MORE, "deny", False),
        (SAMPLING, "once", ApproveUnchanged()),
        (SAMPLING, "deny", Deny()),
        (SAMPLING, {"deny": "no"}, Deny("no")),
        (SAMPLING, {"accept": {"system": "x", "max_tokens": 2}}, EditedRequest(system="x", max_tokens=2)),
        (SAMPLING, {"accept": {"messages": [{"role": "user"}]}}, EditedRequest(messages=({"role": "user"},))),
        (REPLY, "once", ApproveUnchanged()),
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
        (VISIT, "once", AcceptUrl()),
        (VISIT, "decline", Decline()),
        (VISIT, "cancel", Cancel()),
        (AGAIN, "once", True),
        (AGAIN, "deny", False),
        (ROOTS, "once", ShareOnce()),
        (ROOTS, "session", ShareSession()),
        (ROOTS, "always", ShareAlways()),
        (ROOTS, "never", NeverShare()),
        (ROOTS, "deny", DoNotShare()),
        (EACH, "deny", DoNotShare()),
        (EACH, {"accept": {"servers": {"a": "always"}}}, SharePerServer({"a": "always"})),
        (SIGN_IN, "once", OpenInBrowser()),
        (SIGN_IN, "other", SwitchSignInMethod()),
        (SIGN_IN, "deny", DeclineSignIn()),
        (SIGN_IN, PASTED, PastedRedirect("http://127.0.0.1:1/?code=c")),
    ],
)
def test_answer_means(question: Question[Any], answer: Any, verdict: Any) -> None:
    assert parse_answer(question, answer) == verdict


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (APPROVE, None),
        (APPROVE, True),
        (APPROVE, "yes"),
        (APPROVE, {"deny": 5}),
        (APPROVE, {"accept": []}),
        (APPROVE, {"rule": {"text": "s/t", "arguments": []}}),
        (FIXED, {"accept": {"a": 2}}),
        (FIXED, {"rule": {"text": "s/t", "arguments": {"a": 2}}}),
        (APPROVE, {"rule": {"text": "s/t", "scope": "everything"}}),
        (APPROVE, {"rule": {"text": "s/t", "account": "x"}}),
        (APPROVE, {"rule": {"text": 5}}),
        (APPROVE, {"rule": {}}),
        *((APPROVE, {"rule": {"text": "s/t", "seconds": wrong}}) for wrong in (0, -1, 1e9, 10**400, True, "60", [])),
        (CHANGED, {"accept": {"tools": ["a", "other"]}}),
        (CHANGED, {"accept": {"tools": "a"}}),
        (CHANGED, {"accept": {"tools": [["a"]]}}),
        (CHANGED, {"accept": {"tools": ["a"], "all": True}}),
        (SAMPLING, {"accept": {"context": True}}),
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
        (ROOTS, "ever"),
        (ROOTS, {"accept": {"servers": {"s": "once"}}}),
        (EACH, "once"),
        (EACH, {"accept": {"servers": {"c": "once"}}}),
        (EACH, {"accept": {"servers": {"a": "ever"}}}),
        (EACH, {"accept": {"servers": {"a": ["once"]}}}),
        (EACH, {"accept": {"servers": "a"}}),
        (EACH, {"accept": {"servers": {}, "all": "once"}}),
        (RECORDED, "session"),
        (RECORDED, "always"),
        (RECORDED, {"rule": "s/t"}),
        (SIGN_IN, {"accept": {"redirect_url": ""}}),
        (CODE, "other"),
        (CODE, PASTED),
        (CLIENT, "once"),
        (CLIENT, {"accept": {}}),
        (CLIENT, {"accept": {"client_id": ""}}),
        (CLIENT, {"accept": {"client_id": "me", "password": "x"}}),
        (CLIENT, {"accept": {"client_id": 5}}),
    ],
)
def test_other_answers_are_refused_with_the_right_ones(question: Question[Any], answer: Any) -> None:
    with pytest.raises(UsageError, match=r'Possible answers: "(once|always|deny)"'):
        parse_answer(question, answer)


@pytest.mark.parametrize(
    "question",
    [
        replace(APPROVE, arguments={"a": "rm\u00a0-rf"}),
        replace(APPROVE, arguments={"a": ["x", {"b\u200b": 1}]}),
        replace(APPROVE, arguments={"a": "e" + "\u0302" * 7}),
        replace(APPROVE, arguments={"a": ["x"] * 20_000}),
        replace(APPROVE, arguments={" a": 1}),
        replace(APPROVE, tool="t\u2060"),
        replace(APPROVE, server="s\u202e"),
        replace(FIXED, arguments={"a": "\u202ex"}),
    ],
)
def test_a_call_that_cannot_be_read_reliably_is_allowed_once_only(question: ApproveTool) -> None:
    assert parse_answer(question, "once") == AllowOnce()
    for answer in ("session", "always", {"rule": f"{question.server}/{question.tool}"}):
        with pytest.raises(UsageError, match="can be allowed once only") as raised:
            parse_answer(question, answer)
        assert raised.value.hint.startswith('Possible answers: "once", "deny"')
        assert "rule" not in raised.value.hint


def test_an_edited_call_is_checked_as_it_was_edited() -> None:
    hidden = {"a": "x\u200by"}
    with pytest.raises(UsageError, match="can be allowed once only"):
        parse_answer(APPROVE, {"rule": {"text": "s/t", "arguments": hidden}})
    plain = {"rule": {"text": "s/t", "arguments": {"a": "xy"}}}
    assert parse_answer(replace(APPROVE, arguments=hidden), plain) == AllowRule(rule_with_scope("s/t"), {"a": "xy"})
    with pytest.raises(UsageError, match="can be allowed once only"):  # the name is still shown, as removed
        parse_answer(replace(APPROVE, arguments={" a": 1}), plain)


@pytest.mark.parametrize("text", ["other", "s/u", "s/t2", "S/t", "s/T*"])
def test_a_rule_about_another_call_is_no_answer_to_this_one(text: str) -> None:
    with pytest.raises(UsageError, match="something other than this call"):
        parse_answer(APPROVE, {"rule": text})


def test_a_rule_for_some_seconds_ends_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    verdict = parse_answer(APPROVE, {"rule": {"text": "s/t", "seconds": 60.5}})
    assert verdict == AllowRule(replace(rule_with_scope("s/t"), expires=1060.5))


@pytest.mark.parametrize("answer", ["once", "deny", {"deny": "x"}, {"accept": []}, {}])
def test_a_form_is_submitted_declined_or_left(answer: Any) -> None:
    with pytest.raises(UsageError, match='Possible answers: "decline", "cancel"'):
        parse_answer(FORM, answer)


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
        (RESULT, {"accept": {"texts": ["a"]}}, "2 parts, but 1 texts"),
        (RESULT, {"accept": {"texts": [None, "{"]}}, "structured content"),
        (RESULT, {"accept": {"texts": "ab"}}, "not valid"),
        (RESULT, {"accept": {"content": []}}, "does not fit the question"),
        (RESULT, "session", "does not fit the question"),
    ],
)
def test_an_invalid_answer_is_refused_with_the_reason(question: Question[Any], answer: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_answer(question, answer)


@pytest.mark.parametrize("question", [APPROVE, TRUST, MORE, SAMPLING, REPLY, FORM, VISIT, AGAIN, ROOTS, CLIENT, RESULT])
def test_every_kind_of_question_can_be_asked_and_has_a_refusal_of_its_own_type(question: Question[Any]) -> None:
    frontend = PipeFrontend()
    assert question.KIND in frontend.kinds
    assert question.refusal() in (
        Deny(),
        DoNotTrust(),
        False,
        Cancel(),
        DoNotShare(),
        DeclineSignIn(),
        DeclineClient(),
        WithholdResult(),
    )


async def test_a_question_stays_open_until_it_gets_a_valid_answer() -> None:
    frontend, events, received = PipeFrontend(), [], []
    frontend.set_emit(events.append)

    async def ask() -> None:
        received.append(await frontend.ask(APPROVE))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert events[0]["event"] == "question"
        assert events[0]["kind"] == "approve_tool"
        assert (events[0]["server"], events[0]["tool"], events[0]["arguments"]) == ("s", "t", {"a": 1})
        assert "once" in events[0]["choices"]
        with pytest.raises(UsageError, match="does not fit the question"):
            frontend.answer(events[0]["question"], "perhaps")
        frontend.answer(events[0]["question"], "session")
        with pytest.raises(UsageError, match="no open question"):
            frontend.answer(events[0]["question"], "deny")
    assert received == [AllowSession()]


async def test_an_abandoned_question_is_withdrawn() -> None:
    frontend, events = PipeFrontend(), []
    frontend.set_emit(events.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(frontend.ask, APPROVE)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert events[-1] == {"event": "question_withdrawn", "question": "q1"}
    with pytest.raises(UsageError):
        frontend.answer("q1", "once")


async def test_end_of_input_refuses_open_and_later_questions() -> None:
    frontend, received = PipeFrontend(), []

    async def ask() -> None:
        received.append(await frontend.ask(TRUST))

    async with anyio.create_task_group() as tasks:
        assert frontend.who == "program"
        tasks.start_soon(ask)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        frontend.answer("q2", "once")
        frontend.refuse_all()
        assert frontend.who == "nobody"
    assert sorted(map(str, received)) == ["DoNotTrust()", "TrustOnce()"]
    assert isinstance(await frontend.ask(APPROVE), Deny)
