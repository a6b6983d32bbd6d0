"""Handler of the requests that one server sends, and the client capabilities declared to that server.

A capability is declared only if the frontend can answer the requests that it permits (specification: basic/lifecycle,
capability negotiation).
"""

import itertools
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from mcphost.client.session import ServerRequestContext
from mcphost.client.timeouts import pause_call_deadlines, pause_stopwatches, stopwatches
from mcphost.host.active_conversation import call_context
from mcphost.host.audit.audit_log import AuditLog, AuditSubject, candidate_calls
from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend, FrontendWrapper, Question, QuestionBudget, TooManyQuestions
from mcphost.host.server_requests.root_folders import FolderQuestions
from mcphost.host.server_requests.root_sharing import METHODS_NEEDING_ROOTS, RootSharing
from mcphost.host.server_requests.roots import Roots
from mcphost.host.server_requests.sampling_models import SamplingModels
from mcphost.protocol.apps import CLIENT_SETTINGS
from mcphost.protocol.apps import EXTENSION as PAGES_EXTENSION
from mcphost.protocol.server_requests import (
    ClientResult,
    CreateMessage,
    Elicit,
    ListRoots,
    ListRootsResult,
    ServerRequest,
    ServerRequestRejection,
    UrlElicitationRequired,
    server_request_size,
)
from mcphost.sanitize import sanitize_line
from mcphost.serialization import replace
from mcphost.store.roots import FolderAnswerStore

if TYPE_CHECKING:
    from mcphost.host.questions.sign_in import OpenUrl
    from mcphost.host.server_requests.elicitation import ElicitationHandler, Notify
    from mcphost.host.server_requests.sampling import SamplingHandler


BURST = 20
SECONDS_PER_TOKEN = 3.0
"""Seconds after which a server may withdraw one more question."""
AUDIT_INTERVAL = 600.0
"""Minimum seconds between audit rows about refused questions; each row counts those since the last one."""


class QuestionRateLimiter:
    """Rate limiter (token bucket) for the questions of one server or page.

    A question costs a token if its sender withdraws it, or if it is from a page and the user declines it. So does a
    page's call that is refused without a question.
    """

    def __init__(self, server: str, audit: AuditLog) -> None:
        self._server = server
        self._audit = audit
        self._tokens = float(BURST)
        self._refilled_at = monotonic()
        self._refused = 0
        self._recorded_at = -math.inf

    @contextmanager
    def acquire(self) -> Generator[None]:
        """Return a context manager to use while a question is open; cancelling the block costs a token.

        Raises TooManyQuestions if no token is left.
        """
        now = monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._refilled_at) / SECONDS_PER_TOKEN)
        self._refilled_at = now
        if self._tokens < 1:
            self._record_refusal(now)
            seconds = math.ceil((1 - self._tokens) * SECONDS_PER_TOKEN)
            raise TooManyQuestions(f"Too many questions were withdrawn or declined; ask again in {seconds} seconds.")
        try:
            yield
        except Exception:
            raise
        except BaseException:  # cancelled
            self._tokens -= 1
            raise

    def count_declined(self) -> None:
        """Take a token, because a page's question or call was refused; this limits how often the page can ask again."""
        self._tokens -= 1

    def _record_refusal(self, now: float) -> None:
        self._refused += 1
        if now - self._recorded_at >= AUDIT_INTERVAL:
            self._recorded_at = now
            subject = AuditSubject(kind="form", server=self._server, name="too many questions")
            self._audit.queue_event(subject, "refused", detail={"questions": self._refused})
            self._refused = 0


A = TypeVar("A")


class ServerRequestHandlerFactory:
    """Factory for each server's request handler; all handlers share the frontend, models and roots."""

    def __init__(
        self,
        frontend: Frontend,
        models: SamplingModels,
        roots: Roots,
        notify: "Notify",
        audit: AuditLog,
        open_url: "OpenUrl | None" = None,
        questions: QuestionBudget | None = None,
        folders: FolderAnswerStore | None = None,
    ) -> None:
        """Create a factory with the parts that all handlers share.

        - *questions* limits the number of open questions of all servers together.
        - *folders* stores the user's permanent answers about sharing folders.
        - *open_url* opens a URL that the user agreed to visit; if it is None, the frontend opens such URLs.
        """
        self.frontend = frontend
        self.open_url = open_url
        self.models = models
        self.roots = roots
        self.notify = notify
        self.audit = audit
        self.question_budget = questions or QuestionBudget()
        self.folder_questions = FolderQuestions(audit, folders)

    def create(
        self,
        server: str,
        limits: Mapping[str, int] | None = None,
        account: Callable[[], str] = lambda: "",
        digest: Callable[[], str] = lambda: "",
    ) -> "ServerRequestHandler":
        """Return the handler for all connections to a configured server.

        *limits* maps names of fields of SamplingLimits to the limits for this server, which replace the general ones.
        *account* returns the name of the account in use. *digest* returns the digest of the server's command or URL.
        """
        return ServerRequestHandler(server, self, limits or {}, account, digest)


MAX_CALL_NUMBERS = 100
"""Maximum number of calls whose numbers are remembered."""
_call_number: ContextVar[int] = ContextVar("number", default=0)
"""Number of the call that a request belongs to; a context variable, because questions are created in other modules."""


class AttributingFrontend(FrontendWrapper):
    """Frontend that adds the server's account and the tool call's number to each question."""

    def __init__(self, frontend: Frontend, account: Callable[[], str]) -> None:
        super().__init__(frontend)
        self._account = account

    async def ask(self, question: Question[A]) -> A:
        """Ask the user and return the answer.

        While the question is open, time does not count for the running calls: their deadlines and stopwatches are
        paused.
        """
        with pause_call_deadlines(), pause_stopwatches():
            return await self._frontend.ask(replace(question, account=self._account(), number=_call_number.get()))


class ServerRequestHandler:
    """Handler of the requests that one server sends to the client."""

    def __init__(
        self,
        server: str,
        factory: ServerRequestHandlerFactory,
        limits: Mapping[str, int],
        account: Callable[[], str],
        digest: Callable[[], str],
    ) -> None:
        self._frontend = frontend = AttributingFrontend(factory.frontend, account)
        self._factory, self._limits = factory, limits
        self.root_sharing = RootSharing(
            server, factory.roots, frontend, factory.audit, digest=digest, notify=factory.notify,
            folder_questions=factory.folder_questions, account=account,
        )  # fmt: skip
        self._server, self._question_budget = server, factory.question_budget
        self._call_numbers: dict[int, int] = {}
        self._next_number = itertools.count(1)
        self._rate_limiter = QuestionRateLimiter(server, factory.audit)

    @cached_property
    def _sampling(self) -> "SamplingHandler":
        from mcphost.host.server_requests.sampling import (
            SamplingHandler,  # imported late: few servers use sampling
        )
        from mcphost.host.server_requests.sampling_policy import SamplingBudget

        budget = SamplingBudget(self._factory.models, self._limits)
        return SamplingHandler(
            self._server, self._frontend, self._factory.models, budget, self._factory.models.costs.get(),
            self._factory.notify, self._factory.audit,
        )  # fmt: skip

    @cached_property
    def _elicitation(self) -> "ElicitationHandler":
        from mcphost.host.server_requests.elicitation import ElicitationHandler  # imported late

        return ElicitationHandler(self._server, self._frontend, self._factory.notify, self._factory.open_url)

    def call_number(self, call: int) -> int:
        """Return the number that identifies a call in the user interface, or 0 if *call* is 0 (no call).

        *call* is the client's internal number. A call gets its number when this method is first called for it, which
        is when the server first sends a request during the call. The user therefore sees the numbers 1, 2 and so on.
        """
        if call and call not in self._call_numbers:
            self._call_numbers = dict(
                [*self._call_numbers.items(), (call, next(self._next_number))][-MAX_CALL_NUMBERS:]
            )
        return self._call_numbers.get(call, 0)

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the form that the newest protocol version defines.

        `capabilities_for` converts them for older versions. `sampling.context` is never declared, so that servers
        do not ask for the user's conversation in sampling requests. In older protocol versions, servers can ask
        without this capability; they receive the conversation only if the user adds it to the request.
        """
        supported = self._frontend.kinds
        declared: dict[str, Any] = {}
        if kinds.SHARE_ROOTS in supported or self.root_sharing.has_answers:
            declared["roots"] = {"listChanged": True}
        if {kinds.REVIEW_SAMPLING, kinds.REVIEW_REPLY} <= supported:
            declared["sampling"] = {"tools": {}}
        modes: dict[str, Any] = {
            name: {} for name, kind in (("form", kinds.FILL_FORM), ("url", kinds.VISIT_URL)) if kind in supported
        }
        if modes:
            declared["elicitation"] = modes
        if kinds.OPEN_PAGE in supported:
            declared["extensions"] = {PAGES_EXTENSION: CLIENT_SETTINGS}
        return declared

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        """Ask the user and return the result for the server; see RequestHandler.

        If the server has too many open or withdrawn questions, the result is a rejection.
        """
        try:
            with (
                _attributed(context),
                self._rate_limiter.acquire(),
                self._question_budget.reserve(self._server, server_request_size(request)),
            ):
                return await self._dispatch(request, context)
        except TooManyQuestions as error:
            return ServerRequestRejection(error.message)

    async def _dispatch(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        token = _call_number.set(self.call_number(context.call_number))
        try:
            why = _reason(context)
            match request:
                case CreateMessage():
                    return await self._sampling.answer(request, why, context)
                case Elicit():
                    return await self._elicitation.answer(request, why, context)
                case UrlElicitationRequired():
                    return await self._elicitation.visit_required_urls(request, why, context)
                case ListRoots():
                    return await self.root_sharing.answer(why, context)
        finally:
            _call_number.reset(token)

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        """Return a context manager that must be active while a client request is running; see RequestHandler."""
        return self.root_sharing.track_request(context.method)

    async def prepare(self, context: ServerRequestContext) -> bool:
        """Ask the user questions that were postponed until this client request; see RequestHandler.

        Returns True if the server may need roots for the request, which is the case for a tool call, for example.
        The caller then waits for a short time until open roots requests of the server have been answered.
        """
        if context.method not in METHODS_NEEDING_ROOTS:
            return False
        await self.root_sharing.prepare(_deferred_reason(context))
        return True

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        """Return the reply without the roots that must no longer be sent; see RequestHandler."""
        return self.root_sharing.filter_reply(reply) if isinstance(reply, ListRootsResult) else reply

    def on_request_cancelled(self, method: str) -> None:
        """Handle a server's cancellation of its own request; see RequestHandler."""
        if method == ListRoots.METHOD:
            self.root_sharing.on_request_cancelled()

    def on_elicitation_complete(self, elicitation: str) -> None:
        """Handle the server's report that an elicitation is complete; see RequestHandler."""
        self._elicitation.on_elicitation_complete(elicitation)


@contextmanager
def _attributed(context: ServerRequestContext) -> Generator[None]:
    """Attribute questions and audit rows to the tool call during which a server sent a request.

    The call determines the conversation, and which stopwatches are paused while a question is open.

    Since revision 2026-07-28, a server's request is handled in the task of the tool call. In earlier revisions, it is
    handled in a task that may have been started during an unrelated call. Therefore, the call is not taken from the
    current context but from `context.task_contexts`, which contains a context for each call during which the server
    may have sent the request. The stopwatches of all these calls are paused. The request is attributed to a
    conversation only if all these calls belong to the same one.
    """
    calls = [one.get(call_context) for one in context.task_contexts]
    conversations = {id(call.conversation) if call is not None else 0 for call in calls}
    is_known = len(conversations) == 1
    is_in_task_of_call = bool(context.method) and not calls
    token = call_context.set(call_context.get() if is_in_task_of_call else calls[0] if is_known else None)
    candidates_token = candidate_calls.set(() if is_known else tuple(calls))
    clocks = [one.get(stopwatches) or () for one in context.task_contexts]
    clocks_token = stopwatches.set(tuple(dict.fromkeys(itertools.chain(*clocks or [stopwatches.get()]))))
    try:
        yield
    finally:
        stopwatches.reset(clocks_token)
        candidate_calls.reset(candidates_token)
        call_context.reset(token)


def _deferred_reason(context: ServerRequestContext) -> str:
    """Return the reason to show with a deferred question about roots, as a phrase that names the client request."""
    name = sanitize_line(context.target, 200)
    match context.method:
        case "resources/read":
            return f"it asked for them, and you are about to read {name}"
        case "prompts/get":
            return f"it asked for them, and its prompt {name} is about to be filled"
        case _:
            return f"it asked for them, and its tool {name} is about to run"


def _reason(context: ServerRequestContext) -> str:
    """Return the reason to show with a question, as a phrase such as "requested by its tool search".

    Names in the phrase are sanitized.
    """
    name = sanitize_line(context.target, 200)
    match context.method:
        case "tools/call":
            return f"requested by its tool {name}"
        case "resources/read":
            return f"requested before it returns {name}"
        case "prompts/get":
            return f"requested to fill in its prompt {name}"
        case _:
            if context.candidate_calls:
                return f"requested by one of its {len(context.candidate_calls)} running calls; it did not say which"
            return "asked on its own; no tool is running"
