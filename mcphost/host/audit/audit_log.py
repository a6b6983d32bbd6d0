"""What was asked, decided and done, written to the ledger before it takes effect; the only way to write there.

A row holds digests, sizes and names. Words and arguments are in it only when the user wants that (`[ledger] content`),
and then without secrets. Everything costly about a row (hashing, redaction, the disk) happens on the ledger's thread.
"""

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from mcphost.config.schema import AuditConfig
from mcphost.errors import ConsentDenied
from mcphost.host.audit.audit_summary import (
    answer_details,
    answer_label,
    arguments_digest,
    is_recordable,
    question_subject,
    question_topic,
    redact_details,
    redact_name,
    redact_rule,
    resolve_answer,
    sent_arguments,
    to_redacted_json,
)
from mcphost.host.questions.frontend import Frontend, FrontendWrapper
from mcphost.host.questions.question import Question
from mcphost.host.questions.sign_in_prompts import OpenUrl
from mcphost.redact import redact_identifier
from mcphost.serialization import Struct, encode
from mcphost.store.audit_store import AuditEntry, AuditRecord, AuditRow, AuditStore, current_microseconds
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.store.audit_reader import AuditFilter, AuditVerification, ProgressFunction

A = TypeVar("A")


class AuditSubject(Struct, frozen=True, kw_only=True):
    """What a decision or an effect is about.

    `kind`: tool, sampling, form, url, process, connection, browser, sign_in, account, trust, roots, skill, drift, mode,
    grant, file. `subject` is the thing itself, such as a tool's name; `call` the model's id of the call; `definition`
    the digest of the tool's definition, or of how the server is started.
    """

    kind: str
    server: str = ""
    name: str = ""
    call: str = ""
    arguments: Mapping[str, Any] | None = None
    definition: str = ""


class AuditLog:
    """Writes rows. One that returned survives a power cut.

    While the ledger cannot be written its rows are kept in memory, which is told, and written later in their order;
    with `[ledger] required`, or once too many wait, nothing is allowed that is not on the disk.
    """

    def __init__(self, ledger: AuditStore, config: AuditConfig) -> None:
        self.store = ledger
        self.conversation_id: Callable[[], str] = lambda: ""
        """Gives the id of the conversation that is open now."""
        self._config = config
        self._has_queued = anyio.Event()

    # -- questions
    def wrap_frontend(self, frontend: Frontend) -> "AuditingFrontend":
        """The same front, of which no answer is heard before it is recorded."""
        return AuditingFrontend(frontend, self)

    async def record_answer(self, question: Question[A], answer: A, *, who: str, seconds: float = 0.0) -> A:
        """Record what somebody said to a question. What counts as the answer now: the refusal when it is demanded that
        this is kept and it cannot be."""
        make = self._make_question_record(question, "answered", answer_label(question, answer), who, seconds, answer)
        return answer if self._is_acceptable(await self.store.append(make)) else question.refusal()

    async def record_withdrawal(self, question: Question[Any], *, seconds: float = 0.0) -> None:
        """Record that nobody waits for the answer any more."""
        await self.store.append(self._make_question_record(question, "withdrawn", "", "nobody", seconds, None))

    # -- decisions without a question
    async def record_decision(self, subject: AuditSubject, decision: str, *, who: str, grant: str = "") -> None:
        """Record what was decided without asking: `who` is "grant", "session", "rule", "mode", "config" or "person" for
        the user's own act; `grant` the record's id or the rule's text. Raises ConsentDenied when it must not go on."""
        self.require_written(
            await self.store.append(self.make_record(subject, "decided", decision=decision, who=who, grant=grant))
        )

    async def record_event(
        self, subject: AuditSubject, event: str, *, decision: str = "", who: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Record something that people want to find later: a grant given or revoked, a mode, a trusted file.

        `detail` is kept in any case, without secrets: it says what, never what somebody wrote. Raises ConsentDenied.
        """
        made = self.make_record(subject, event, decision=decision, who=who, grant=grant, detail=detail)
        self.require_written(await self.store.append(made))

    def queue_event(
        self,
        subject: AuditSubject,
        event: str,
        *,
        decision: str = "",
        grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """As `noted`, for what happened already and nobody can refuse: returns at once, written soon after."""
        self.queue_record(
            self.make_record(subject, event, decision=decision, who="mcphost", grant=grant, detail=detail)
        )

    # -- effects
    async def start_span(self, subject: AuditSubject, *, who: str, grant: str = "") -> "AuditSpan":
        """Record that something is about to happen and what allowed it. Raises ConsentDenied when it must not, then."""
        effect = AuditSpan(self, subject)
        await effect.start(who=who, grant=grant)
        return effect

    def wrap_open_url(self, open_url: OpenUrl | None) -> OpenUrl | None:
        """The same way to open an address; each opening is recorded before."""
        if open_url is None:
            return None

        async def opened(url: str) -> bool:
            effect = await self.start_span(AuditSubject(kind="browser", name=_origin(url)), who="answer")
            done = False
            try:
                done = await open_url(url)
            finally:
                effect.end("opened" if done else "not opened")
            return done

        return opened

    # -- keeping
    async def close(self) -> None:
        """Write what is left, and close the file; a later row opens it again."""
        await self.store.close()

    async def read_page(self, wanted: "AuditFilter", limit: int = 100) -> tuple[AuditRow, ...]:
        """Rows, the newest first, with everything that was handed over. Raises StoreError."""
        from mcphost.store.audit_reader import AuditReader

        await self.store.flush()
        return await anyio.to_thread.run_sync(AuditReader(*self.store.files).page, wanted, limit)

    async def verify(self, progress: "ProgressFunction" = lambda done, total: True) -> "AuditVerification":
        """Check the whole ledger on a thread, where `progress` is called, too."""
        from mcphost.store.audit_reader import AuditReader

        await self.store.flush()
        return await anyio.to_thread.run_sync(AuditReader(*self.store.files).verify, progress)

    async def run(self) -> None:
        """Write what `note` and `AuditSpan.end` left, until cancelled."""
        while True:
            await self._has_queued.wait()
            self._has_queued = anyio.Event()
            await self.store.flush()

    def queue_record(self, make: Callable[[], AuditRecord], about: AuditEntry | None = None) -> None:
        """Write a row soon; it is in its place already."""
        self.store.enqueue(make, about)
        self._has_queued.set()

    def _is_acceptable(self, entry: AuditEntry) -> bool:
        return entry.seq > 0 or not (self._config.required or self.store.is_full)

    def require_written(self, entry: AuditEntry) -> None:
        """Raises ConsentDenied when what this row says must not happen before it is on the disk, and it is not."""
        if not self._is_acceptable(entry):
            raise ConsentDenied(
                "It was not done, because the audit ledger cannot be written.",
                "Free the disk or mend the permissions of the data folder; see: mcphost doctor",
            )

    # -- describing, on the ledger's thread
    def make_record(
        self, subject: AuditSubject, event: str, *, who: str, decision: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> Callable[[], AuditRecord]:  # fmt: skip
        """A row about `act`, to be described when it is written."""
        at, conversation = current_microseconds(), self.conversation_id()

        def make() -> AuditRecord:
            more = dict(detail or {})
            if self._config.content and subject.arguments is not None:
                more["arguments"] = to_redacted_json(subject.arguments)
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
                detail=redact_details(more),
            )

        return make

    def _make_question_record(
        self, question: Question[Any], event: str, decision: str, who: str, seconds: float, answer: Any
    ) -> Callable[[], AuditRecord]:
        at, conversation = current_microseconds(), self.conversation_id()

        def make() -> AuditRecord:
            more: dict[str, Any] = {
                "question": question.KIND,
                "why": question.why[:500],
                **answer_details(question, answer),
            }
            if self._config.content:
                more["shown"] = to_redacted_json(question)
                # Others are no words, or they are secrets: a pass phrase, the address that a sign-in ended at.
                if is_recordable(question, answer):
                    more["answer"] = to_redacted_json(resolve_answer(question, answer))
            return AuditRecord(
                at=at,
                kind=question_topic(question),
                event=event,
                server=redact_identifier(question.server),
                subject=redact_name(question_topic(question), question_subject(question)),
                decision=decision,
                who=who,
                call=str(getattr(question, "call", "")),
                conversation=conversation,
                shown=hashlib.sha256(encode(question)).hexdigest(),
                arguments=arguments_digest(sent_arguments(question, answer)),
                duration=round(seconds * 1000),
                detail=redact_details(more),
            )

        return make


class AuditSpan:
    """Something that happens between two rows."""

    def __init__(self, audit: AuditLog, subject: AuditSubject) -> None:
        self._audit = audit
        self._subject = subject
        self._entry: AuditEntry | None = None
        self._started_at = time.monotonic()

    async def start(self, *, who: str, grant: str = "") -> None:
        """Record that it is about to happen and what allowed it. Raises ConsentDenied when it must not, then."""
        made = self._audit.make_record(self._subject, "started", who=who, grant=grant)
        self._entry = await self._audit.store.append(made)
        self._audit.require_written(self._entry)

    def end(self, outcome: str, *, size: int = 0) -> None:
        """Record the end of what was started; returns at once, and the row is written soon after.

        `size`: bytes of what came back. Nothing is recorded of what did not start, or ended already.
        """
        entry, self._entry = self._entry, None
        if entry is None:
            return
        at, milliseconds = current_microseconds(), round((time.monotonic() - self._started_at) * 1000)
        act, conversation = self._subject, self._audit.conversation_id()

        def make() -> AuditRecord:
            return AuditRecord(
                at=at, kind=act.kind, event="ended", server=redact_identifier(act.server),
                subject=redact_name(act.kind, act.name),
                decision=outcome, who="mcphost", call=act.call, conversation=conversation, size=size,
                duration=milliseconds,
            )  # fmt: skip

        self._audit.queue_record(make, entry)


class AuditingFrontend(FrontendWrapper):
    """A front of which no answer is heard before the ledger has it."""

    def __init__(self, frontend: Frontend, audit: AuditLog) -> None:
        super().__init__(frontend)
        self._audit = audit

    async def ask(self, question: Question[A]) -> A:
        """The answer, once it is recorded; that a question was withdrawn is recorded, too."""
        began = time.monotonic()
        try:
            answer = await self._frontend.ask(question)
        except BaseException:
            await self._audit.record_withdrawal(question, seconds=time.monotonic() - began)
            raise
        return await self._audit.record_answer(
            question, answer, who=self._frontend.who, seconds=time.monotonic() - began
        )


def create_in_memory_log(config: AuditConfig | None = None) -> AuditLog:
    """A journal that is gone with the process."""
    return AuditLog(AuditStore(None), config or AuditConfig())


def _origin(url: str) -> str:
    try:
        parts = split_url(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return ""
