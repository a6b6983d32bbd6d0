"""Questions on the pipe: as events with their choices, and what each answer means."""

from collections.abc import Callable
from typing import Any, TypeVar, cast, get_args

import anyio

from mcphost.data import convert, encode, loads
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.forms import filled
from mcphost.host.front import Front
from mcphost.host.questions import (
    Accept,
    AllowAlways,
    AllowOnce,
    AllowSession,
    AnyQuestion,
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
    InBrowser,
    NoSignIn,
    PastedRedirect,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareOnce,
    ShareRoots,
    ShareSession,
    SignIn,
    TrustAlways,
    TrustOnce,
    TrustServer,
    Visited,
    VisitUrl,
)

A = TypeVar("A")
Emit = Callable[[dict[str, Any]], None]

_PLAIN: dict[type[Any], dict[str, Any]] = {
    ApproveTool: {"once": AllowOnce(), "session": AllowSession(), "always": AllowAlways(), "deny": Deny()},
    TrustServer: {"once": TrustOnce(), "always": TrustAlways(), "deny": DoNotTrust()},
    ContinueTurn: {"once": True, "deny": False},
    ReviewSampling: {"once": AsShown(), "deny": Deny()},
    ReviewReply: {"once": AsShown(), "deny": Deny()},
    FillForm: {"decline": Decline(), "cancel": Cancel()},
    VisitUrl: {"once": Visited(), "decline": Decline(), "cancel": Cancel()},
    RetryCall: {"once": True, "deny": False},
    ShareRoots: {"once": ShareOnce(), "session": ShareSession(), "deny": DoNotShare()},
    SignIn: {"once": InBrowser(), "deny": NoSignIn()},
}
_REASON: dict[str, Any] = {"deny": "reason"}
_MORE: dict[type[Any], list[dict[str, Any]]] = {
    ApproveTool: [_REASON, {"accept": {}}],
    ReviewSampling: [_REASON, {"accept": {"messages": [], "system": "", "max_tokens": 1}}],
    ReviewReply: [_REASON, {"accept": {"content": [{"type": "text", "text": ""}]}}],
    FillForm: [{"accept": {}}],
    SignIn: [{"accept": {"redirect_url": ""}}],
}


class _Waiting:
    """One open question."""

    def __init__(self, question: Question[Any]) -> None:
        self.question = question
        self.done = anyio.Event()
        self.answer: Any = None


class PipeFront(Front):
    """Asks the program at the other end; every question stays open until it is answered well or withdrawn."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._count = 0
        self._refusing = False
        self._emit: Emit = lambda event: None

    @property
    def kinds(self) -> frozenset[str]:
        """All of them: the program at the other end can answer whatever there is."""
        return frozenset(kind.KIND for kind in get_args(AnyQuestion))

    def connect(self, emit: Emit) -> None:
        """Where events go."""
        self._emit = emit

    async def ask(self, question: Question[A]) -> A:
        """The program's answer; its refusal once the input ended."""
        if self._refusing:
            return question.refusal()
        self._count += 1
        name = f"q{self._count}"
        waiting = self._waiting[name] = _Waiting(question)
        self._emit(_event(name, question))
        try:
            await waiting.done.wait()
        except BaseException:
            if not waiting.done.is_set():
                self._emit({"event": "question_withdrawn", "question": name})
            raise
        finally:
            self._waiting.pop(name, None)
        return cast("A", waiting.answer)

    def answer(self, name: str, answer: Any) -> None:
        """Settle one question. Raises UsageError for an unknown one, or an answer it does not take: then it stays."""
        waiting = self._waiting.get(name)
        if waiting is None or waiting.done.is_set():
            raise UsageError(f"There is no open question {name!r}.", f"Open: {', '.join(self._waiting) or 'none'}.")
        waiting.answer = meaning(waiting.question, answer)
        waiting.done.set()

    def refuse_all(self) -> None:
        """Refuse every open and every later question."""
        self._refusing = True
        for waiting in self._waiting.values():
            if not waiting.done.is_set():
                waiting.answer = waiting.question.refusal()
                waiting.done.set()


def meaning(question: Question[Any], answer: Any) -> Any:
    """The verdict an answer stands for. Raises UsageError with the answers the question takes."""
    plain = _PLAIN.get(type(question), {})
    if isinstance(answer, str) and answer in plain:
        return plain[answer]
    if isinstance(answer, dict) and len(members := cast("dict[str, Any]", answer)) == 1:
        ((key, value),) = members.items()
        if key in (name for choice in _MORE.get(type(question), []) for name in choice):
            if key == "deny" and isinstance(value, str):
                return Deny(value)
            if key == "accept" and isinstance(value, dict):
                return _accepted(question, cast("dict[str, Any]", value))
    raise _other(question)


def _accepted(question: Question[Any], value: dict[str, Any]) -> Any:
    """What `{"accept": …}` stands for. Raises UsageError saying what does not fit, so that it can be corrected."""
    if isinstance(question, FillForm):
        filled(question.fields, value)
        return Accept(value)
    if isinstance(question, ApproveTool):
        return AllowOnce(value)
    if isinstance(question, SignIn):
        pasted = value.get("redirect_url")
        if len(value) != 1 or not isinstance(pasted, str) or not pasted:
            raise _other(question)
        return PastedRedirect(pasted)
    kind = EditedRequest if isinstance(question, ReviewSampling) else EditedReply
    if not set(value) <= set(kind.__struct_fields__):
        raise _other(question)
    try:
        return convert(value, kind, "edited answer")
    except MalformedMessage as error:
        raise UsageError(error.message, _other(question).hint) from error


def _other(question: Question[Any]) -> UsageError:
    shown = ", ".join(encode(choice).decode() for choice in _choices(question))
    return UsageError("The question does not take that answer.", f"It takes: {shown}.")


def _choices(question: Question[Any]) -> list[Any]:
    return [*_PLAIN.get(type(question), {}), *_MORE.get(type(question), [])]


def _event(name: str, question: Question[Any]) -> dict[str, Any]:
    asked = cast("dict[str, Any]", loads(encode(question)))
    return {"event": "question", "question": name, "kind": question.KIND, **asked, "choices": _choices(question)}
