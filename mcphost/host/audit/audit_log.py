"""The audit log, in which questions, decisions and actions are recorded before they take effect.

A row contains names, sizes and digests. The arguments of calls and the texts of questions and answers are recorded only
if `[audit] content` is set, with secrets removed. Hashing, redaction and disk access run on the store's thread.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from mcphost.config.schema import AuditConfig
from mcphost.errors import ConsentDenied
from mcphost.host.active_conversation import ActiveConversation, CallContext
from mcphost.host.audit.audit_summary import (
    arguments_digest,
    origin_details,
    redact_details,
    redact_name,
    redact_rule,
    to_redacted_json,
)
from mcphost.host.questions.frontend import Frontend, FrontendWrapper, Question
from mcphost.redact import redact_identifier
from mcphost.serialization import Struct, encode, replace
from mcphost.store.audit_store import AuditEntry, AuditRecord, AuditRow, AuditStore, current_microseconds
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.host.argument_origins import ArgumentOrigin
    from mcphost.host.questions.sign_in import OpenUrl
    from mcphost.store.audit_reader import AuditFilter, AuditVerification, DescribeFunction, ProgressFunction

A = TypeVar("A")
_RETRY_SECONDS = 5.0
_REFUSAL_HINT = (
    "Free disk space or make the folder writable; `[audit] required = false` allows actions without a record."
)

candidate_calls: ContextVar[tuple[CallContext | None, ...]] = ContextVar("candidate calls", default=())
"""The contexts of calls to which a server's request may belong (None: a call by the user); () if its call is known."""


class AuditSubject(Struct, frozen=True, kw_only=True):
    """The subject of a decision or an action, as recorded in the audit log.

    - `kind`: tool, sampling, form, url, process, connection, browser, sign_in, account, trust, roots, skill, drift (a
      changed tool definition), mode (auto-approve mode), grant, file, result or page.
    - `name`: for example, the tool's name.
    - `call`: the id that the model gave to the tool call.
    - `definition`: the digest of the tool's definition, or of the server's command or URL.
    - `origins`: the parts of the arguments that were copied from other servers.
    """

    kind: str
    server: str = ""
    name: str = ""
    call: str = ""
    arguments: Mapping[str, Any] | None = None
    definition: str = ""
    origins: "tuple[ArgumentOrigin, ...]" = ()


def is_call_ambiguous(active: ActiveConversation) -> bool:
    """Return whether the current task handles a server request that may belong to several conversations.

    This is possible if the server sent the request while it was handling tool calls from different conversations, and
    the request does not identify one of these calls.
    """
    return len({id(call.conversation if call else active.current) for call in candidate_calls.get()}) > 1


class AuditLog:
    """Writer of audit rows; an awaited `record_*` method returns once its row is safely on disk.

    If the log file cannot be written, the user is notified, and the rows are kept in memory, in order, until the file
    can be written. Until then, every action whose row is not on disk is refused. With `[audit] required = false`,
    actions are refused only when too many rows are waiting.
    """

    def __init__(self, store: AuditStore, config: AuditConfig) -> None:
        self.store = store
        self.conversation: ActiveConversation | None = None
        """The open conversation, whose id is recorded in the rows; None if there is no host."""
        self.config = config
        """The settings in use; a change applies to the rows and questions from then on."""

        self._has_queued = anyio.Event()

    @property
    def conversation_id(self) -> str:
        """The id of the conversation of the tool call that the current task is handling.

        If the task handles no tool call, it is the id of the open conversation. It is "" if there is no conversation,
        or if the task handles a server request that may belong to several conversations (see `is_call_ambiguous`).
        """
        if self.conversation is None or is_call_ambiguous(self.conversation):
            return ""
        return self.conversation.for_call.conversation.id

    # -- questions
    def wrap_frontend(self, frontend: Frontend) -> "AuditingFrontend":
        """Wrap a frontend so that the answer to each question is recorded before it takes effect."""
        return AuditingFrontend(frontend, self)

    # -- decisions without a question
    async def record_decision(self, subject: AuditSubject, decision: str, *, who: str, grant: str = "") -> None:
        """Record a decision that is not the answer to a question of its own, such as a decision by a rule or a grant.

        *who* is the source of the decision, one of the keys of `audit_labels.SOURCE_LABELS`. It is "person" if the user
        decided, for example by answering one question for several servers. *grant* is the id of the grant or the text
        of the rule that applied. Raises ConsentDenied if a required row cannot be written.
        """
        self.require_written(
            await self.store.append(self.make_record(subject, "decided", decision=decision, who=who, grant=grant))
        )

    async def record_event(
        self, subject: AuditSubject, event: str, *, decision: str = "", who: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Record an event, such as a new or revoked grant, a change of auto-approve mode, or a newly trusted file.

        See `record_decision` for *who* and *grant*. *decision* is a word for what was decided, such as "always".
        *detail* is stored whether or not `[audit] content` is set, with secrets removed. It must contain only facts
        such as names and numbers, not free text. Raises ConsentDenied if a required row cannot be written.
        """
        record = self.make_record(subject, event, decision=decision, who=who, grant=grant, detail=detail)
        self.require_written(await self.store.append(record))

    def queue_event(
        self,
        subject: AuditSubject,
        event: str,
        *,
        who: str = "mcphost",
        grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Queue a row about an event that has already happened, without waiting for the disk.

        See `record_decision` for *who* and *grant*, and `record_event` for *detail*.
        """
        self.queue_record(self.make_record(subject, event, who=who, grant=grant, detail=detail))

    # -- effects
    async def start_span(self, subject: AuditSubject, *, who: str, grant: str = "") -> "AuditSpan":
        """Record the start of an action and what allowed it; return the span that represents the action.

        See `record_decision` for *who* and *grant*. The caller must call `end` on the span when the action has ended.
        Raises ConsentDenied if a required row cannot be written; the action must then not be started.
        """
        span = AuditSpan(self, subject)
        await span.start(who=who, grant=grant)
        return span

    def wrap_open_url(self, open_url: "OpenUrl | None") -> "OpenUrl | None":
        """Wrap *open_url* so that each URL's origin (scheme, host and port) is recorded before a browser opens it.

        Returns None if *open_url* is None. If a required row cannot be written, the wrapper raises ConsentDenied.
        """
        if open_url is None:
            return None

        async def opened(url: str) -> bool:
            span = await self.start_span(AuditSubject(kind="browser", name=_origin(url)), who="answer")
            was_opened = False
            try:
                was_opened = await open_url(url)
            finally:
                span.end("opened" if was_opened else "not opened")
            return was_opened

        return opened

    # -- storing
    async def close(self) -> None:
        """Write queued rows and close the file; recording another row reopens it."""
        await self.store.close()

    async def read_page(
        self, wanted: "AuditFilter", limit: int = 100, describe: "DescribeFunction | None" = None
    ) -> tuple[AuditRow, ...]:
        """Return up to *limit* audit rows that match the filter *wanted*, newest first.

        Rows that are not yet written to disk are included. If *describe* is given, it is called on another
        thread for each row, and returns the displayed text of the row (see `DescribeFunction`). A row then also matches
        if the words of the filter occur in this text. Raises StoreError.
        """
        from mcphost.store.audit_reader import AuditReader

        await self.store.flush()
        return await anyio.to_thread.run_sync(AuditReader(*self.store.files).page, wanted, limit, describe)

    async def verify(self, progress: "ProgressFunction" = lambda done, total: True) -> "AuditVerification":
        """Check on a worker thread that no row of the log was altered.

        *progress* is called on that thread with the number of checked rows and the total; it returns False to stop.
        """
        from mcphost.store.audit_reader import AuditReader

        await self.store.flush()
        return await anyio.to_thread.run_sync(AuditReader(*self.store.files).verify, progress)

    async def run(self) -> None:
        """Write queued rows as they arrive, until cancelled; after a failure, retry every five seconds."""
        while True:
            with anyio.move_on_after(_RETRY_SECONDS if self.store.pending_count else None):
                await self._has_queued.wait()
            self._has_queued = anyio.Event()
            await self.store.flush()

    def queue_record(self, make: Callable[[], AuditRecord], about: AuditEntry | None = None) -> None:
        """Queue a row at the end of the log; `run` or the next awaited row writes it to disk.

        *make* builds the row when it is written. If the row records the end of an action, *about* is the row that
        records the start of this action.
        """
        self.store.enqueue(make, about)
        self._has_queued.set()

    def is_acceptable(self, entry: AuditEntry) -> bool:
        """Return whether the recorded action may take effect.

        The result is True if the action's row, *entry*, is on disk. With `[audit] required = false`, the result is also
        True if the row is not on disk yet, unless too many rows are waiting to be written.
        """
        if entry.seq > 0:
            return True
        self._has_queued.set()  # so that `run` tries again
        return not (self.config.required or self.store.is_full)

    @property
    def refusal_reason(self) -> str:
        """Why actions that cannot be recorded are refused, as a clause that follows a colon and ends with a period."""
        return f"the audit log {self.store.files[0]} cannot be written."

    def require_written(self, entry: AuditEntry) -> None:
        """Raise ConsentDenied if the action that *entry* records must not begin; see `is_acceptable`."""
        if not self.is_acceptable(entry):
            raise ConsentDenied(f"The action was not taken: {self.refusal_reason}", _REFUSAL_HINT)

    # -- records, made on the store's thread
    def make_record(
        self, subject: AuditSubject, event: str, *, who: str, decision: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> Callable[[], AuditRecord]:  # fmt: skip
        """Return a function that builds a row about *subject*, with the current time and conversation.

        See `record_decision` and `record_event` for the other parameters.
        """
        at, conversation, has_content = current_microseconds(), self.conversation_id, self.config.content

        def make() -> AuditRecord:
            details = {**(detail or {}), **origin_details(subject.origins)}
            if has_content and subject.arguments is not None:
                details["arguments"] = to_redacted_json(subject.arguments)
            return AuditRecord(
                at=at,
                kind=subject.kind,
                event=event,
                server=redact_identifier(subject.server),
                subject=redact_rule(subject.name)
                if subject.kind == "grant"
                else redact_name(subject.kind, subject.name),
                decision=decision,
                who=who,
                grant=redact_rule(grant),
                call=subject.call,
                conversation=conversation,
                arguments=arguments_digest(subject.arguments),
                definition=subject.definition,
                detail=redact_details(details),
            )

        return make


class AuditSpan:
    """An action that is recorded as two audit rows, one for its start and one for its end."""

    def __init__(self, audit: AuditLog, subject: AuditSubject) -> None:
        self._audit = audit
        self._subject = subject
        self._entry: AuditEntry | None = None
        self._started_at = time.monotonic()

    async def start(self, *, who: str, grant: str = "") -> None:
        """Record that the action is starting and what allowed it.

        See `AuditLog.record_decision` for *who* and *grant*. Raises ConsentDenied if a required row cannot be written.
        """
        record = self._audit.make_record(self._subject, "started", who=who, grant=grant)
        self._entry = await self._audit.store.append(record)
        try:
            self._audit.require_written(self._entry)
        except ConsentDenied:
            self.end("not done")
            raise

    def end(self, outcome: str, *, size: int = 0, detail: Mapping[str, Any] | None = None) -> None:
        """Queue a row with the action's outcome and duration, without waiting for the disk.

        *size* is the size of the result in bytes, and *detail* is recorded with the row. Does nothing if the action was
        not started or has already ended.
        """
        entry, self._entry = self._entry, None
        if entry is None:
            return
        at, milliseconds = current_microseconds(), round((time.monotonic() - self._started_at) * 1000)
        subject, conversation = self._subject, self._audit.conversation_id

        def make() -> AuditRecord:
            return AuditRecord(
                at=at, kind=subject.kind, event="ended", server=redact_identifier(subject.server),
                subject=redact_name(subject.kind, subject.name),
                decision=outcome, who="mcphost", call=subject.call, conversation=conversation, size=size,
                duration=milliseconds, detail=redact_details(dict(detail or {})),
            )  # fmt: skip

        self._audit.queue_record(make, entry)


class AuditingFrontend(FrontendWrapper):
    """Wrapper around a frontend that records the answer to each question before it takes effect."""

    def __init__(self, frontend: Frontend, audit: AuditLog) -> None:
        super().__init__(frontend)
        self._audit = audit

    async def ask(self, question: Question[A]) -> A:
        """Ask the user *question*, record the answer, and return it.

        If a required row cannot be written, the question's refusal (see `Question.refusal`) is returned instead. A
        question that is cancelled is recorded as withdrawn.
        """
        audit = self._audit
        started_at, has_content = time.monotonic(), audit.config.content
        if (active := audit.conversation) is not None:
            if is_call_ambiguous(active):
                question = replace(question, why=f"{question.why}, in one of several conversations")
            elif active.for_call.conversation.id != active.id:
                question = replace(question, why=f"{question.why}, in another conversation")
        make_record = partial(self._make_record, question, started_at, may_store_content=has_content)
        try:
            answer = await self._frontend.ask(question)
        except BaseException:
            await audit.store.append(make_record("withdrawn", "", "nobody"))
            raise
        from mcphost.host.audit.answer_summary import answer_label  # loaded with the first answer

        label = answer_label(question, answer)
        if audit.is_acceptable(await audit.store.append(make_record("answered", label, self._frontend.who, answer))):
            return answer
        refusal = question.refusal()
        if answer != refusal:
            audit.store.report_refusal(f"Your answer counts as a refusal: {audit.refusal_reason}", _REFUSAL_HINT)
            audit.queue_record(make_record("refused", "not recorded", "mcphost"))
        return refusal

    def _make_record(
        self, question: Question[Any], asked_at: float, event: str, decision: str, who: str, answer: Any = None,
        *, may_store_content: bool,
    ) -> Callable[[], AuditRecord]:  # fmt: skip
        """Return a function that builds a row about *question*, which was asked at *asked_at* (`time.monotonic`).

        The texts of the question and the answer are stored if both *may_store_content* and `[audit] content` are true.
        """
        from mcphost.host.audit import answer_summary

        has_content = may_store_content and self._audit.config.content
        at, conversation = current_microseconds(), self._audit.conversation_id
        milliseconds = round((time.monotonic() - asked_at) * 1000)

        def make() -> AuditRecord:
            details: dict[str, Any] = {
                "question": question.KIND,
                "why": question.why[:500],
                **answer_summary.answer_details(question, answer),
            }
            if has_content:
                details["shown"] = to_redacted_json(question)
                # Other answers have no text, or are secrets: a passphrase, the redirect of a sign-in.
                if answer_summary.is_recordable(question, answer):
                    details["answer"] = to_redacted_json(answer_summary.resolve_answer(question, answer))
            topic = answer_summary.question_topic(question)
            return AuditRecord(
                at=at,
                kind=topic,
                event=event,
                server=redact_identifier(question.server),
                subject=redact_name(topic, answer_summary.question_subject(question)),
                decision=decision,
                who=who,
                call=str(getattr(question, "call", "")),
                conversation=conversation,
                shown=hashlib.sha256(encode(question)).hexdigest(),
                arguments=arguments_digest(answer_summary.sent_arguments(question, answer)),
                duration=milliseconds,
                detail=redact_details(details),
            )

        return make


def create_in_memory_log(config: AuditConfig | None = None) -> AuditLog:
    """Create an audit log that keeps its rows in memory."""
    return AuditLog(AuditStore(None), config or AuditConfig())


def _origin(url: str) -> str:
    try:
        parts = split_url(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return ""
