"""Elicitation: a server's form or address, put to the user; and what came of it, said as the specification wants it."""

from collections.abc import Callable

import anyio
import anyio.to_thread

from mcphost.client.session import ServerRequestContext
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import validate_content
from mcphost.host.questions.forms import parse_form
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    Cancel,
    Decline,
    FillForm,
    RetryCall,
    UrlVerdict,
    VisitUrl,
)
from mcphost.host.questions.sign_in_prompts import OpenUrl
from mcphost.host.server_requests.url_inspection import inspect_url
from mcphost.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import Elicit, ElicitResult, ServerRequestRejection, UrlElicitationRequired

MAX_MESSAGE = 64 * 1024
MAX_URLS = 10
MAX_PENDING = 100
MAX_NOTICES = 20
SHORT_SCHEMA = 8 * 1024
"""Bytes of a form that is read at once; a longer one is read on a thread, because each of its words is looked at."""
Notify = Callable[[str, str], None]


class ElicitationHandler:
    """Answers one server. `tell` says one sentence to the user, with a hint."""

    def __init__(self, server: str, frontend: Frontend, notify: Notify, open_url: OpenUrl | None = None) -> None:
        self._server = server
        self._open_url = open_url
        self._frontend = frontend
        self._notify = notify
        self._pending: dict[str, anyio.Event] = {}
        self._reported: set[str] = set()

    async def answer(
        self, ask: Elicit, why: str, context: ServerRequestContext
    ) -> ElicitResult | ServerRequestRejection:
        """Put it to the user: accept, decline and cancel are the user's and told apart.

        A form or address that breaks the specification is not shown; the server gets -32602 where there are errors
        to get, and a cancel where there are none.
        """
        if ask.mode not in ("form", "url") or not self._is_declared(ask.mode, context.revision):
            return ServerRequestRejection(f"Elicitation of mode {ask.mode[:40]!r} was not offered.", INVALID_PARAMS)
        try:
            if len(ask.message) > MAX_MESSAGE:
                raise MalformedMessage(f"The message is longer than {MAX_MESSAGE:,} characters.")
            if ask.mode == "url":
                return await self._answer_url(ask, why, context)
            return await self._answer_form(ask, why)
        except MalformedMessage as error:
            self._report_refusal(error.message)
            if context.revision.era == "handshake":
                return ServerRequestRejection(error.message, INVALID_PARAMS)
            return ElicitResult("cancel")

    def _report_refusal(self, why: str) -> None:
        """Tell why a request cannot be shown, each reason once and the first 20 of them."""
        if why not in self._reported and len(self._reported) < MAX_NOTICES:
            self._reported.add(why)
            self._notify(f"{self._server} asked for something that cannot be shown: {why}", "It was refused.")

    def _is_declared(self, mode: str, revision: Revision) -> bool:
        kind = VisitUrl.KIND if mode == "url" else FillForm.KIND
        return kind in self._frontend.kinds and (mode == "form" or revision >= Revision.V2025_11_25)

    async def _answer_form(self, ask: Elicit, why: str) -> ElicitResult | ServerRequestRejection:
        if len(bytes(ask.requested_schema)) > SHORT_SCHEMA:
            fields = await anyio.to_thread.run_sync(parse_form, ask.requested_schema)
        else:
            fields = parse_form(ask.requested_schema)
        secret = [field.title or field.name for field in fields if field.secret]
        warnings = (f"It asks for what looks like a secret: {', '.join(secret)[:500]}.",) if secret else ()
        question = FillForm(server=self._server, why=why, message=ask.message, fields=fields, warnings=warnings)
        verdict = await self._frontend.ask(question)
        if not isinstance(verdict, Accept):
            return ElicitResult("decline" if isinstance(verdict, Decline) else "cancel")
        try:
            return ElicitResult("accept", validate_content(fields, verdict.content))
        except UsageError as error:
            # A front that lets a wrong answer through; the server must not get it.
            return ServerRequestRejection(error.message, INTERNAL_ERROR)

    async def _answer_url(self, ask: Elicit, why: str, context: ServerRequestContext) -> ElicitResult:
        if context.revision.era == "handshake" and not ask.elicitation_id:
            raise MalformedMessage("The address has no elicitationId.")
        question = self._make_question(ask, why)
        # Kept before it is shown: the server may be quicker than the answer.
        self._track_pending(question.elicitation)
        verdict = await self._ask_and_open(question)
        if not isinstance(verdict, AcceptUrl):
            self._pending.pop(question.elicitation, None)
        elif self._open_url is not None:
            self._notify(
                f"{question.host} is open in your browser; {self._server} goes on when it hears from there.",
                "Escape stops the call.",
            )
        return _make_reply(verdict)

    async def _ask_and_open(self, question: VisitUrl) -> UrlVerdict:
        """The user's answer; a browser that cannot be opened counts as going away."""
        verdict = await self._frontend.ask(question)
        if isinstance(verdict, AcceptUrl) and self._open_url is not None and not await self._open_url(question.url):
            self._notify(f"No browser could be opened for {question.url}", "Open it elsewhere, or set $BROWSER.")
            return Cancel()
        return verdict

    def _make_question(self, ask: Elicit, why: str) -> VisitUrl:
        leads = inspect_url(ask.url or "")
        return VisitUrl(
            server=self._server, why=why, message=ask.message, url=leads.url, host=leads.host,
            elicitation=ask.elicitation_id or "", warnings=leads.warnings,
        )  # fmt: skip

    async def visit_required_urls(
        self, ask: UrlElicitationRequired, why: str, context: ServerRequestContext
    ) -> ElicitResult | ServerRequestRejection:
        """The addresses a call needs visited first; accept once the user, or the server, says that they are done."""
        if not 0 < len(ask.elicitations) <= MAX_URLS or not self._is_declared("url", context.revision):
            return ServerRequestRejection("The server wants addresses visited that cannot be shown here.")
        done: list[anyio.Event] = []
        try:
            questions = [self._make_question(one, why) for one in ask.elicitations]
        except MalformedMessage as error:
            return ServerRequestRejection(error.message)
        for one, question in zip(ask.elicitations, questions, strict=True):
            done.append(self._track_pending(one.elicitation_id or ""))
            verdict = await self._ask_and_open(question)
            if not isinstance(verdict, AcceptUrl):
                self._pending.pop(question.elicitation, None)
                return _make_reply(verdict)
        return ElicitResult("accept" if await self._wait_until_done(done, questions, why) else "cancel")

    async def _wait_until_done(self, done: list[anyio.Event], questions: list[VisitUrl], why: str) -> bool:
        """Whether to repeat the call: what the user says, or yes as soon as the server says that all is done."""
        if RetryCall.KIND not in self._frontend.kinds:
            return True
        again = True
        async with anyio.create_task_group() as group:

            async def told() -> None:
                for event in done:
                    await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(told)
            urls = tuple(question.url for question in questions)
            again = await self._frontend.ask(RetryCall(server=self._server, why=why, urls=urls))
            group.cancel_scope.cancel()
        return again

    def _track_pending(self, ident: str) -> anyio.Event:
        """The event of that elicitation's completion; never set for one without an id."""
        event = anyio.Event()
        if ident:
            while len(self._pending) >= MAX_PENDING:
                del self._pending[next(iter(self._pending))]
            event = self._pending.setdefault(ident, event)
        return event

    def on_elicitation_complete(self, ident: str) -> None:
        """See RequestHandler.on_elicitation_complete."""
        event = self._pending.pop(ident, None)
        if event is not None:
            event.set()
            self._notify(f"{self._server} says that what it sent you to is done.", "")


def _make_reply(verdict: object) -> ElicitResult:
    if isinstance(verdict, AcceptUrl):
        return ElicitResult("accept")
    return ElicitResult("cancel" if isinstance(verdict, Cancel) else "decline")
