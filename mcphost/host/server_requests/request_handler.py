"""Responder for one server: what we declare and how its asks are answered.

Declared is only what somebody can answer: a front end that cannot put a question to anybody has no capability for it
(specification: basic/lifecycle, capability negotiation).
"""

import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from mcphost.client.session import AskContext
from mcphost.client.timeouts import paused
from mcphost.host.audit.audit_log import Journal
from mcphost.host.questions.frontend import Front, PassingFront
from mcphost.host.questions.question_budget import OpenQuestions, TooManyQuestions
from mcphost.host.questions.questions import FillForm, Question, ReviewReply, ReviewSampling, ShareRoots, VisitUrl
from mcphost.host.questions.sign_in_prompts import OpenUrl
from mcphost.host.server_requests.folder_questions import FolderQuestions
from mcphost.host.server_requests.question_rate import QuestionRate
from mcphost.host.server_requests.root_sharing import FOLDER_METHODS, Sharing
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.protocol.server_requests import (
    Ask,
    AskDeclined,
    CreateMessage,
    Elicit,
    ListRoots,
    Reply,
    RootsReply,
    UrlsRequired,
    size_of,
)
from mcphost.sanitize import visible
from mcphost.serialization import replace
from mcphost.store.roots import FolderAnswers

if TYPE_CHECKING:
    from mcphost.host.server_requests.elicitation import Elicitation, Tell
    from mcphost.host.server_requests.sampling import Sampling

A = TypeVar("A")


class Desks:
    """Makes the desk of each server; all of them share the front, the models and the roots."""

    def __init__(
        self,
        front: Front,
        models: SamplingModels,
        roots: Roots,
        tell: "Tell",
        journal: Journal,
        open_url: OpenUrl | None = None,
        questions: OpenQuestions | None = None,
        folders: FolderAnswers | None = None,
    ) -> None:
        """`questions` bounds what all servers have open together; `folders` keeps lasting answers about folders.

        `open_url` shows an address the user agreed to visit; None: whoever is behind the front does that."""
        self.front = front
        self.open_url = open_url
        self.models = models
        self.roots = roots
        self.tell = tell
        self.journal = journal
        self.questions = questions or OpenQuestions()
        self.folder_questions = FolderQuestions(journal, folders)

    def desk(
        self,
        server: str,
        limits: Mapping[str, int] | None = None,
        account: Callable[[], str] = lambda: "",
        digest: Callable[[], str] = lambda: "",
    ) -> "Desk":
        """A desk for that server; it lives as long as the server's entry, over reconnects.

        `limits` are those of SamplingLimits that are other numbers for this server; `account` says with which account
        it is used when it asks, `digest` how it is started or reached.
        """
        return Desk(server, self, limits or {}, account, digest)


CALLS = 100
"""Calls of which the number is remembered."""
_number: ContextVar[int] = ContextVar("number", default=0)
"""Of the call that is answered for: whoever makes the question is floors away from where that is known."""


class NamingFront(PassingFront):
    """Puts into each question with which account the server that asks is used, and for which call it asks."""

    def __init__(self, front: Front, account: Callable[[], str]) -> None:
        super().__init__(front)
        self._account = account

    async def ask(self, question: Question[A]) -> A:
        """The user's answer; calls that may wait for it do not count the time."""
        with paused():
            return await self._front.ask(replace(question, account=self._account(), number=_number.get()))


class Desk:
    """Answers one server."""

    def __init__(
        self,
        server: str,
        shared: Desks,
        limits: Mapping[str, int],
        account: Callable[[], str],
        digest: Callable[[], str],
    ) -> None:
        self._front = front = NamingFront(shared.front, account)
        self._shared, self._limits = shared, limits
        self.sharing = Sharing(
            server, shared.roots, front, shared.journal, digest=digest, tell=shared.tell,
            questions=shared.folder_questions, account=account,
        )  # fmt: skip
        self._server, self._questions = server, shared.questions
        self._calls: dict[int, int] = {}
        self._count = itertools.count(1)
        self._rate = QuestionRate(server, shared.journal)

    @cached_property
    def _sampling(self) -> "Sampling":
        from mcphost.host.server_requests.sampling import Sampling  # with the first request: few servers ever sample
        from mcphost.host.server_requests.sampling_budget import Budget

        budget = Budget(replace(self._shared.models.limits, **self._limits))
        return Sampling(self._server, self._front, self._shared.models, budget, self._shared.tell, self._shared.journal)

    @cached_property
    def _elicitation(self) -> "Elicitation":
        from mcphost.host.server_requests.elicitation import Elicitation  # with the first form or address

        return Elicitation(self._server, self._front, self._shared.tell, self._shared.open_url)

    def number(self, call: int) -> int:
        """The call of that AskContext as people and programs know it: 1 for the first that something was asked for."""
        if call and call not in self._calls:
            self._calls = dict([*self._calls.items(), (call, next(self._count))][-CALLS:])
        return self._calls.get(call, 0)

    @property
    def capabilities(self) -> dict[str, Any]:
        """What we declare, in the shape of the newest revision; `client.client_info` shapes it for the others.

        `sampling.context` is never there: servers are not invited to wish for the conversation. Those of revisions that
        know no such capability may wish for it, and get it only where the user grants that request.
        """
        kinds = self._front.kinds
        declared: dict[str, Any] = {}
        if ShareRoots.KIND in kinds or self.sharing.has_answers:
            declared["roots"] = {"listChanged": True}
        if {ReviewSampling.KIND, ReviewReply.KIND} <= kinds:
            declared["sampling"] = {"tools": {}}
        modes: dict[str, Any] = {
            name: {} for name, kind in (("form", FillForm), ("url", VisitUrl)) if kind.KIND in kinds
        }
        if modes:
            declared["elicitation"] = modes
        return declared

    async def answer(self, ask: Ask, context: AskContext) -> Reply:
        """Put it to the user and reply; see Responder. Raises nothing of its own."""
        try:
            with self._rate.one(), self._questions.hold(self._server, size_of(ask)):
                return await self._answer(ask, context)
        except TooManyQuestions as error:
            return AskDeclined(error.message)

    async def _answer(self, ask: Ask, context: AskContext) -> Reply:
        token = _number.set(self.number(context.number))
        try:
            why = _why(context)
            match ask:
                case CreateMessage():
                    return await self._sampling.answer(ask, why, context)
                case Elicit():
                    return await self._elicitation.answer(ask, why, context)
                case UrlsRequired():
                    return await self._elicitation.required(ask, why, context)
                case ListRoots():
                    return await self.sharing.answer(why, context)
        finally:
            _number.reset(token)

    def running(self, context: AskContext) -> AbstractContextManager[None]:
        """See Responder."""
        return self.sharing.running(context.method)

    async def prepare(self, context: AskContext) -> bool:
        """See Responder."""
        if context.method not in FOLDER_METHODS:
            return False
        await self.sharing.prepare(_about_to(context))
        return True

    def still(self, reply: Reply) -> Reply:
        """See Responder."""
        return self.sharing.still(reply) if isinstance(reply, RootsReply) else reply

    def taken_back(self, method: str) -> None:
        """See Responder."""
        if method == ListRoots.METHOD:
            self.sharing.taken_back()

    def completed(self, elicitation: str) -> None:
        """See Responder."""
        self._elicitation.completed(elicitation)


def _about_to(context: AskContext) -> str:
    """Why a question that was put off comes now."""
    name = visible(context.detail[:200], keep_newlines=False)
    match context.method:
        case "resources/read":
            return f"it asked for them, and you are about to read {name}"
        case "prompts/get":
            return f"it asked for them, and its prompt {name} is about to be filled"
        case _:
            return f"it asked for them, and its tool {name} is about to run"


def _why(context: AskContext) -> str:
    """On whose behalf, in one short sentence; the name is the server's, and cleaned."""
    name = visible(context.detail[:200], keep_newlines=False)
    match context.method:
        case "tools/call":
            return f"its tool {name} runs and asks for it"
        case "resources/read":
            return f"it asks for it before it gives {name}"
        case "prompts/get":
            return f"it asks for it to fill the prompt {name}"
        case _:
            if context.running:
                return f"one of its {len(context.running)} calls that run asks for it, without saying which"
            return "it asks by itself, while no call of it runs"
