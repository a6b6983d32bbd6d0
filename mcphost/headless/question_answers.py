"""Questions that `mcphost pipe` asks: events that list the possible answers, and parsing of answers given as JSON."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast, get_args

import anyio

from mcphost.config.rule_syntax import SYNTAX_HINT, parse_rule
from mcphost.config.rules import Scope
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.call_readability import check_arguments, once_only_reason
from mcphost.host.questions.compaction import (
    KeepMessages,
    OfferCompaction,
    ReviewCompaction,
    UseSummary,
    summary_error,
)
from mcphost.host.questions.cost import (
    ApproveCost,
    CompactConversation,
    CostVerdict,
    DeferTools,
    RaiseBudget,
    SendOnce,
    StopTurn,
    UseCheaperModel,
)
from mcphost.host.questions.form_fields import validate_content
from mcphost.host.questions.frontend import Frontend, Question
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    AllowAlways,
    AllowOnce,
    AllowRule,
    AllowSession,
    AnyQuestion,
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
    TrustProject,
    TrustServer,
    VisitUrl,
    WithholdResult,
    edited_texts_error,
)
from mcphost.host.questions.sign_in import (
    ChooseSecretStorage,
    DeclineClient,
    DeclineSignIn,
    EnterClientId,
    EnteredClient,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInMemory,
    KeepInPlainFile,
    LeaveLocked,
    OpenInBrowser,
    OpenUrl,
    PastedRedirect,
    SignInQuestion,
    SwitchSignInMethod,
    UnlockSecrets,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
from mcphost.serialization import convert, encode, is_number, loads, replace

A = TypeVar("A")
EmitFn = Callable[[dict[str, Any]], None]

_SIMPLE_ANSWERS: dict[type[Any], dict[str, Any]] = {
    ApproveTool: {"once": AllowOnce(), "session": AllowSession(), "always": AllowAlways(), "deny": Deny()},
    ReviewToolChanges: {"always": AcceptToolChanges(), "deny": AcceptToolChanges()},
    TrustServer: {"once": TrustOnce(), "always": TrustAlways(), "deny": DoNotTrust()},
    TrustProject: {"once": TrustOnce(), "always": TrustAlways(), "deny": DoNotTrust()},
    ContinueTurn: {"once": True, "deny": False},
    ApproveCost: {"once": SendOnce(), "session": RaiseBudget(), "deny": StopTurn()},
    ReviewSampling: {"once": ApproveUnchanged(), "deny": Deny()},
    ReviewReply: {"once": ApproveUnchanged(), "deny": Deny()},
    FillForm: {"decline": Decline(), "cancel": Cancel()},
    VisitUrl: {"once": AcceptUrl(), "decline": Decline(), "cancel": Cancel()},
    RetryCall: {"once": True, "deny": False},
    ShareRoots: {
        "once": ShareOnce(),
        "session": ShareSession(),
        "always": ShareAlways(),
        "never": NeverShare(),
        "deny": DoNotShare(),
    },
    SignInQuestion: {"once": OpenInBrowser(), "other": SwitchSignInMethod(), "deny": DeclineSignIn()},
    ChooseSecretStorage: {"file": KeepInPlainFile(), "deny": KeepInMemory()},
    UnlockSecrets: {"deny": LeaveLocked()},
    EnterClientId: {"deny": DeclineClient()},
    ReviewResult: {"once": PassResult(), "deny": WithholdResult()},
    OfferCompaction: {"once": True, "deny": False},
    ReviewCompaction: {"deny": KeepMessages()},
}
_DENY_WITH_REASON: dict[str, Any] = {"deny": "reason"}
_STRUCTURED_ANSWERS: dict[type[Any], list[dict[str, Any]]] = {
    ApproveCost: [
        {"accept": {"model": ""}},
        {"accept": {"max_output_tokens": 1}},
        {"accept": {"tools_of": ""}},
        {"accept": {"compact": True}},
    ],
    ReviewSampling: [
        _DENY_WITH_REASON,
        {"accept": {"messages": [], "system": "", "max_tokens": 1, "model": "", "context": False}},
    ],
    ReviewReply: [_DENY_WITH_REASON, {"accept": {"content": [{"type": "text", "text": ""}]}}],
    FillForm: [{"accept": {}}],
    SignInQuestion: [{"accept": {"redirect_url": ""}}],
    ReviewToolChanges: [{"accept": {"tools": []}}],
    ChooseSecretStorage: [{"accept": {"pass_phrase": ""}}],
    UnlockSecrets: [{"accept": {"pass_phrase": ""}}],
    ReviewResult: [_DENY_WITH_REASON, {"accept": {"texts": ["", None]}}],
    EnterClientId: [{"accept": {"client_id": "", "client_secret": ""}}],
    ReviewCompaction: [{"accept": {"sentences": [{"text": "", "sources": [1]}]}}],
}


class EditedCall(NamedTuple):
    """A tool call whose arguments were edited in the answer to a consent question."""

    server: str
    tool: str
    arguments: dict[str, Any]


class _OpenQuestion:
    """A question that has been asked over the pipe and has not been answered yet."""

    def __init__(self, question: Question[Any]) -> None:
        self.question = question
        self.done = anyio.Event()
        self.answer: Any = None


class PipeFrontend(Frontend):
    """Front end that sends the host's questions to the program at the other end of the pipe.

    A question stays open until the program sends a valid answer, or until the host no longer needs the answer.
    """

    def __init__(self, open_browser: OpenUrl | None = None) -> None:
        """Create a front end that opens URLs with *open_browser*.

        If *open_browser* is None, the program at the other end must open URLs.
        """
        self._open_browser = open_browser
        self._open_questions: dict[str, _OpenQuestion] = {}
        self._count = 0
        self._is_refusing = False
        self._emit: EmitFn = lambda event: None

    @property
    def kinds(self) -> frozenset[str]:
        """All kinds of questions, because the program at the other end can answer any of them."""
        return frozenset(kind.KIND for kind in get_args(AnyQuestion))

    @property
    def who(self) -> str:
        """Who answers questions, for the audit log: "program", or "nobody" after the end of the input."""
        return "nobody" if self._is_refusing else "program"

    async def open_url(self, url: str) -> bool:
        """Try to open a URL in a browser and emit an `open_url` event; return whether the URL was opened."""
        opened = self._open_browser is not None and await self._open_browser(url)
        self._emit({"event": "open_url", "url": url, "opened": opened})
        return opened

    def set_emit(self, emit: EmitFn) -> None:
        """Set the function that receives the events of this front end."""
        self._emit = emit

    async def ask(self, question: Question[A]) -> A:
        """Send a question to the program at the other end of the pipe, and return the answer.

        After the end of the input, the question is declined without being sent.
        """
        if self._is_refusing:
            return question.refusal()
        self._count += 1
        name = f"q{self._count}"
        waiting = self._open_questions[name] = _OpenQuestion(question)
        self._emit(_question_event(name, question))
        try:
            await waiting.done.wait()
        except BaseException:
            if not waiting.done.is_set():
                self._emit({"event": "question_withdrawn", "question": name})
            raise
        finally:
            self._open_questions.pop(name, None)
        return cast("A", waiting.answer)

    def answer(self, name: str, answer: Any) -> None:
        """Answer the open question called *name*.

        Raises UsageError if no open question has this name, or if *answer* is invalid. After an invalid answer, the
        question stays open.
        """
        waiting = self._get_question(name)
        waiting.answer = parse_answer(waiting.question, answer)
        waiting.done.set()
        question: Question[Any] = waiting.question
        is_left_to_caller = self._open_browser is None and isinstance(waiting.answer, AcceptUrl | OpenInBrowser)
        if is_left_to_caller and isinstance(question, VisitUrl | SignInQuestion):
            self._emit({"event": "open_url", "url": question.url, "opened": False})

    def edited_call(self, name: str, answer: Any) -> EditedCall | None:
        """Return the tool call with the edited arguments in *answer*, or None if *answer* does not edit them.

        The caller should validate the arguments against the tool's schema before answering the question. Raises
        UsageError if there is no open question called *name*, or if *answer* is invalid.
        """
        question = self._get_question(name).question
        verdict = parse_answer(question, answer)
        if not isinstance(question, ApproveTool) or not isinstance(verdict, AllowOnce | AllowRule):
            return None
        return None if verdict.arguments is None else EditedCall(question.server, question.tool, verdict.arguments)

    def _get_question(self, name: str) -> "_OpenQuestion":
        waiting = self._open_questions.get(name)
        if waiting is None or waiting.done.is_set():
            raise UsageError(
                f"There is no open question {name!r}.", f"Open: {', '.join(self._open_questions) or 'none'}."
            )
        return waiting

    def refuse_all(self) -> None:
        """Decline all open questions and all later ones."""
        self._is_refusing = True
        for waiting in self._open_questions.values():
            if not waiting.done.is_set():
                waiting.answer = waiting.question.refusal()
                waiting.done.set()


def parse_answer(question: Question[Any], answer: Any) -> Any:
    """Convert an answer given as JSON to the answer type of the question.

    Raises UsageError if the answer is invalid; the error lists the valid answers.
    """
    plain = _simple_answers(question)
    if isinstance(answer, str) and answer in plain:
        if isinstance(question, ReviewToolChanges) and answer == "always":
            return AcceptToolChanges(tuple(one.tool for one in question.changes))
        return plain[answer]
    if isinstance(question, ApproveTool) and answer in ("session", "always"):
        raise _once_only_error(question, _once_only_reason(question))
    if isinstance(answer, dict) and len(members := cast("dict[str, Any]", answer)) == 1:
        ((key, value),) = members.items()
        if key == "rule" and isinstance(question, ApproveTool):
            return _parse_rule_answer(question, cast("object", value))
        if key in (name for choice in _structured_answers(question) for name in choice):
            if key == "deny" and isinstance(value, str):
                return WithholdResult(value) if isinstance(question, ReviewResult) else Deny(value)
            if key == "accept" and isinstance(value, dict):
                return _parse_accept(question, cast("dict[str, Any]", value))
    raise _invalid_answer_error(question)


_DEFAULT_SCOPE: Scope = "conversation"


def _parse_rule_answer(question: ApproveTool, value: Any) -> AllowRule:
    """Convert the value of an answer `{"rule": …}`, which is a rule as text or an object, to an AllowRule.

    A rule as text is, for example, `fs/read?n=<10`. An object has these members, of which all but the first are
    optional:

    - `text`: the rule as text.
    - `scope`: the scope of the rule; by default, this conversation.
    - `seconds`: the number of seconds until the rule expires.
    - `arguments`: the arguments to use for this call instead of the original ones.

    Raises UsageError if the rule is invalid, if it does not cover the server and tool of the question, or if the call
    can be allowed only once.
    """
    members = cast("dict[str, Any]", value) if isinstance(value, dict) else {"text": value}
    text, scope, seconds = members.get("text"), members.get("scope", _DEFAULT_SCOPE), members.get("seconds")
    if (
        not isinstance(text, str)
        or not set(members) <= {"text", "scope", "seconds", "arguments"}
        or scope not in get_args(Scope)
    ):
        raise _invalid_answer_error(question)
    if seconds is not None and not (is_number(seconds) and 0 < seconds < 1e9):
        raise _invalid_answer_error(question)
    rule = parse_rule(text)
    if not rule.covers(question.server, question.tool):
        slash = " A slash in a server's name is written %2F." if "/" in question.server else ""
        raise UsageError("The rule is about something other than this call.", f"{SYNTAX_HINT}{slash}")
    expires = None if seconds is None else time.time() + seconds
    edited = _edited_arguments(question, members.get("arguments"))
    if reason := _once_only_reason(question, edited):
        raise _once_only_error(question, reason)
    return AllowRule(replace(rule, scope=scope, expires=expires), edited)


def _once_only_reason(question: ApproveTool, edited: dict[str, Any] | None = None) -> str:
    """Return the reason why a call can be allowed only once, or "" if later calls can be allowed, too.

    The reason is a phrase, such as "a recorded result is reused only once". *edited* are the edited arguments, or None.
    """
    if question.recorded_at:
        return "a recorded result is reused only once"  # nothing is called, so nothing else may be allowed
    arguments = question.arguments if edited is None else edited
    return once_only_reason(question.server, question.tool, check_arguments(arguments, question.arguments))


def _once_only_error(question: ApproveTool, reason: str) -> UsageError:
    return UsageError(f"This answer is not possible: {reason}.", _invalid_answer_error(question).hint)


def _edited_arguments(question: ApproveTool, arguments: Any) -> dict[str, Any] | None:
    """Return the edited arguments of a call, or None if there are none or they are unchanged.

    Raises UsageError if *arguments* is not an object, or if the arguments of this call cannot be edited.
    """
    if arguments is None:
        return None
    if not isinstance(arguments, dict):
        raise _invalid_answer_error(question)
    members = cast("dict[str, Any]", arguments)
    if arguments_digest(members) == arguments_digest(question.arguments):
        return None
    if not question.editable:
        raise UsageError("The arguments of this call cannot be edited.", _invalid_answer_error(question).hint)
    return members


def _parse_accept(question: Question[Any], value: dict[str, Any]) -> Any:
    """Convert the value in an answer `{"accept": …}` to the answer type of the question.

    Raises UsageError, with a hint for the user, if the value is not a valid answer to the question.
    """
    parser = _ACCEPT_PARSERS.get(type(question))
    if parser is None:
        raise _invalid_answer_error(question)
    return parser(question, value)


def _accept_form(question: FillForm, value: dict[str, Any]) -> Accept:
    validate_content(question.fields, value)
    return Accept(value)


def _accept_client_id(question: EnterClientId, value: dict[str, Any]) -> EnteredClient:
    if not value.get("client_id"):
        raise _invalid_answer_error(question)
    return cast("EnteredClient", _convert_answer(question, value, EnteredClient))


def _accept_sampling_request(question: ReviewSampling, value: dict[str, Any]) -> EditedRequest:
    edited = cast("EditedRequest", _convert_answer(question, value, EditedRequest))
    names = [one.name for one in question.models]
    if edited.model is not None and edited.model not in names:
        raise UsageError(
            f"This model is not offered. Offered: {', '.join(names) or 'none'}.", _invalid_answer_error(question).hint
        )
    if edited.context and not question.conversation:
        raise UsageError("The conversation is not offered here.", _invalid_answer_error(question).hint)
    return edited


def _accept_cost(question: ApproveCost, value: dict[str, Any]) -> CostVerdict:
    """Convert the value of an answer `{"accept": …}` to a verdict on a question about exceeding the budget.

    Raises UsageError if the answer is not one of those that *question* offers.
    """
    match value:
        case {"model": str(name)} if len(value) == 1 and any(offer.name == name for offer in question.cheaper):
            return UseCheaperModel(name)
        case {"max_output_tokens": int(tokens)} if len(value) == 1 and not isinstance(tokens, bool) and tokens > 0:
            return SendOnce(tokens)
        case {"tools_of": str(server)} if len(value) == 1 and server in question.optional_servers:
            return DeferTools(server)
        case {"compact": True} if len(value) == 1 and question.can_compact:
            return CompactConversation()
        case _:
            raise _invalid_answer_error(question)


def _accept_result(question: ReviewResult, value: dict[str, Any]) -> PassEditedResult:
    edited = cast("PassEditedResult", _convert_answer(question, value, PassEditedResult))
    if fault := edited_texts_error(question, edited.texts):
        raise UsageError(fault, _invalid_answer_error(question).hint)
    return edited


def _accept_summary(question: ReviewCompaction, value: dict[str, Any]) -> UseSummary:
    edited = cast("UseSummary", _convert_answer(question, value, UseSummary))
    if error := summary_error(question, edited.sentences):
        raise UsageError(error, _invalid_answer_error(question).hint)
    return edited


def _convert_answer(question: Question[Any], value: dict[str, Any], answer_type: type[Any]) -> Any:
    if not set(value) <= set(answer_type.__struct_fields__):
        raise _invalid_answer_error(question)
    try:
        return convert(value, answer_type, "edited answer")
    except MalformedMessage as error:
        raise UsageError(error.message, _invalid_answer_error(question).hint) from error


def _accept_roots(question: ShareRoots, value: dict[str, Any]) -> SharePerServer:
    """Convert the value of an answer `{"accept": …}` to decisions about sharing folders with several servers.

    Raises UsageError if *value* does not contain valid decisions, one for each server that it names.
    """
    choices = value.get("servers")
    known = {one.server for one in question.askers}
    if len(value) != 1 or not isinstance(choices, dict):
        raise _invalid_answer_error(question)
    chosen = cast("dict[str, Any]", choices)
    if not set(chosen) <= known or not all(
        isinstance(one, str) and one in _SIMPLE_ANSWERS[ShareRoots] for one in chosen.values()
    ):
        raise _invalid_answer_error(question)
    return SharePerServer(chosen)


def _accept_tool_changes(question: ReviewToolChanges, value: dict[str, Any]) -> AcceptToolChanges:
    tools = value.get("tools")
    # Not a set, because an answer may contain values that are not hashable.
    names = [one.tool for one in question.changes]
    if len(value) != 1 or not isinstance(tools, list) or any(one not in names for one in cast("list[Any]", tools)):
        raise _invalid_answer_error(question)
    return AcceptToolChanges(tuple(cast("list[str]", tools)))


def _single_text(question: Question[Any], value: dict[str, Any], name: str) -> str:
    """Return the string under *name*, the only member of *value*. Raises UsageError for any other *value*."""
    text = value.get(name)
    if len(value) != 1 or not isinstance(text, str) or not text:
        raise _invalid_answer_error(question)
    return text


_ACCEPT_PARSERS: dict[type[Any], Callable[[Any, dict[str, Any]], Any]] = {
    FillForm: _accept_form,
    ApproveTool: lambda question, value: AllowOnce(_edited_arguments(question, value)),
    ReviewToolChanges: _accept_tool_changes,
    ShareRoots: _accept_roots,
    SignInQuestion: lambda question, value: PastedRedirect(_single_text(question, value, "redirect_url")),
    ChooseSecretStorage: lambda question, value: KeepInEncryptedFile(_single_text(question, value, "pass_phrase")),
    UnlockSecrets: lambda question, value: EnterPassphrase(_single_text(question, value, "pass_phrase")),
    EnterClientId: _accept_client_id,
    ReviewSampling: _accept_sampling_request,
    ReviewReply: lambda question, value: _convert_answer(question, value, EditedReply),
    ReviewResult: _accept_result,
    ApproveCost: _accept_cost,
    ReviewCompaction: _accept_summary,
}


def _invalid_answer_error(question: Question[Any]) -> UsageError:
    shown = ", ".join(encode(choice).decode() for choice in _allowed_answers(question))
    return UsageError("This answer does not fit the question.", f"Possible answers: {shown}.")


def _simple_answers(question: Question[Any]) -> dict[str, Any]:
    known = _SIMPLE_ANSWERS.get(type(question), {})
    if isinstance(question, ShareRoots) and question.askers:
        return {"deny": DoNotShare()}  # each server needs its own answer
    if isinstance(question, ReviewCompaction):
        return {"once": UseSummary(question.sentences), **known}
    if isinstance(question, ApproveTool) and _once_only_reason(question):
        return {name: verdict for name, verdict in known.items() if name not in ("session", "always")}
    has_no_other = isinstance(question, SignInQuestion) and not question.other_method
    return {name: verdict for name, verdict in known.items() if name != "other" or not has_no_other}


def _allowed_answers(question: Question[Any]) -> list[Any]:
    return [*_simple_answers(question), *_structured_answers(question)]


def _structured_answers(question: Question[Any]) -> list[dict[str, Any]]:
    """Return an example of each JSON object that is a valid answer to this question."""
    if isinstance(question, ApproveTool):
        return _structured_consent_answers(question)
    if isinstance(question, ShareRoots) and question.askers:
        return [{"accept": {"servers": {one.server: "deny" for one in question.askers}}}]
    return [] if isinstance(question, SignInQuestion) and question.code else _STRUCTURED_ANSWERS.get(type(question), [])


def _structured_consent_answers(question: ApproveTool) -> list[dict[str, Any]]:
    rule: dict[str, Any] = {"text": "", "scope": "everywhere", "seconds": 3600}
    answers: list[dict[str, Any]] = [_DENY_WITH_REASON]
    if question.editable:
        answers.append({"accept": {}})
        rule["arguments"] = {}
    return answers if _once_only_reason(question) else [*answers, {"rule": rule}]


def _question_event(name: str, question: Question[Any]) -> dict[str, Any]:
    fields = cast("dict[str, Any]", loads(encode(question)))
    return {
        "event": "question",
        "question": name,
        "kind": question.KIND,
        **fields,
        "choices": _allowed_answers(question),
    }
