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

from mcphost.config.schema import LedgerConfig
from mcphost.errors import Declined
from mcphost.host.audit.audit_summary import (
    as_sent,
    came_of,
    detail_of,
    digest,
    is_words,
    named,
    rule_text,
    said,
    sent,
    subject,
    topic,
    words,
)
from mcphost.host.questions.frontend import Front, PassingFront
from mcphost.host.questions.question import Question
from mcphost.host.questions.sign_in_prompts import OpenUrl
from mcphost.redact import redact_identifier
from mcphost.serialization import Data, encode
from mcphost.store.audit_store import Entry, Ledger, Record, Row, now
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.store.audit_reader import Progress, Verified, Wanted

A = TypeVar("A")


class Act(Data, frozen=True, kw_only=True):
    """What a decision or an effect is about.

    `kind`: tool, sampling, form, url, process, connection, browser, sign_in, account, trust, roots, skill, drift, mode,
    grant, file. `subject` is the thing itself, such as a tool's name; `call` the model's id of the call; `definition`
    the digest of the tool's definition, or of how the server is started.
    """

    kind: str
    server: str = ""
    subject: str = ""
    call: str = ""
    arguments: Mapping[str, Any] | None = None
    definition: str = ""


class Journal:
    """Writes rows. One that returned survives a power cut.

    While the ledger cannot be written its rows are kept in memory, which is told, and written later in their order;
    with `[ledger] required`, or once too many wait, nothing is allowed that is not on the disk.
    """

    def __init__(self, ledger: Ledger, config: LedgerConfig) -> None:
        self.ledger = ledger
        self.conversation: Callable[[], str] = lambda: ""
        """Gives the id of the conversation that is open now."""
        self._config = config
        self._more = anyio.Event()

    # -- questions
    def front(self, front: Front) -> "JournaledFront":
        """The same front, of which no answer is heard before it is recorded."""
        return JournaledFront(front, self)

    async def answered(self, question: Question[A], answer: A, *, who: str, seconds: float = 0.0) -> A:
        """Record what somebody said to a question. What counts as the answer now: the refusal when it is demanded that
        this is kept and it cannot be."""
        make = self._asked(question, "answered", said(question, answer), who, seconds, answer)
        return answer if self._kept(await self.ledger.append(make)) else question.refusal()

    async def withdrawn(self, question: Question[Any], *, seconds: float = 0.0) -> None:
        """Record that nobody waits for the answer any more."""
        await self.ledger.append(self._asked(question, "withdrawn", "", "nobody", seconds, None))

    # -- decisions without a question
    async def decided(self, act: Act, decision: str, *, who: str, grant: str = "") -> None:
        """Record what was decided without asking: `who` is "grant", "session", "rule", "mode", "config" or "person" for
        the user's own act; `grant` the record's id or the rule's text. Raises Declined when it must not go on."""
        self.demand(await self.ledger.append(self.record(act, "decided", decision=decision, who=who, grant=grant)))

    async def noted(
        self, act: Act, event: str, *, decision: str = "", who: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Record something that people want to find later: a grant given or revoked, a mode, a trusted file.

        `detail` is kept in any case, without secrets: it says what, never what somebody wrote. Raises Declined.
        """
        made = self.record(act, event, decision=decision, who=who, grant=grant, detail=detail)
        self.demand(await self.ledger.append(made))

    def note(
        self, act: Act, event: str, *, decision: str = "", grant: str = "", detail: Mapping[str, Any] | None = None
    ) -> None:
        """As `noted`, for what happened already and nobody can refuse: returns at once, written soon after."""
        self.later(self.record(act, event, decision=decision, who="mcphost", grant=grant, detail=detail))

    # -- effects
    async def started(self, act: Act, *, who: str, grant: str = "") -> "Effect":
        """Record that something is about to happen and what allowed it. Raises Declined when it must not, then."""
        effect = Effect(self, act)
        await effect.starts(who=who, grant=grant)
        return effect

    def browser(self, open_url: OpenUrl | None) -> OpenUrl | None:
        """The same way to open an address; each opening is recorded before."""
        if open_url is None:
            return None

        async def opened(url: str) -> bool:
            effect = await self.started(Act(kind="browser", subject=_place(url)), who="answer")
            done = False
            try:
                done = await open_url(url)
            finally:
                effect.ended("opened" if done else "not opened")
            return done

        return opened

    # -- keeping
    async def close(self) -> None:
        """Write what is left, and close the file; a later row opens it again."""
        await self.ledger.close()

    async def page(self, wanted: "Wanted", limit: int = 100) -> tuple[Row, ...]:
        """Rows, the newest first, with everything that was handed over. Raises StoreError."""
        from mcphost.store.audit_reader import Reader

        await self.ledger.flush()
        return await anyio.to_thread.run_sync(Reader(*self.ledger.files).page, wanted, limit)

    async def verify(self, progress: "Progress" = lambda done, total: True) -> "Verified":
        """Check the whole ledger on a thread, where `progress` is called, too."""
        from mcphost.store.audit_reader import Reader

        await self.ledger.flush()
        return await anyio.to_thread.run_sync(Reader(*self.ledger.files).verify, progress)

    async def run(self) -> None:
        """Write what `note` and `Effect.ended` left, until cancelled."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            await self.ledger.flush()

    def later(self, make: Callable[[], Record], about: Entry | None = None) -> None:
        """Write a row soon; it is in its place already."""
        self.ledger.put(make, about)
        self._more.set()

    def _kept(self, entry: Entry) -> bool:
        return entry.seq > 0 or not (self._config.required or self.ledger.full)

    def demand(self, entry: Entry) -> None:
        """Raises Declined when what this row says must not happen before it is on the disk, and it is not."""
        if not self._kept(entry):
            raise Declined(
                "It was not done, because the audit ledger cannot be written.",
                "Free the disk or mend the permissions of the data folder; see: mcphost doctor",
            )

    # -- describing, on the ledger's thread
    def record(
        self, act: Act, event: str, *, who: str, decision: str = "", grant: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> Callable[[], Record]:  # fmt: skip
        """A row about `act`, to be described when it is written."""
        at, conversation = now(), self.conversation()

        def make() -> Record:
            more = dict(detail or {})
            if self._config.content and act.arguments is not None:
                more["arguments"] = words(act.arguments)
            return Record(
                at=at, kind=act.kind, event=event, server=redact_identifier(act.server),
                subject=rule_text(act.subject) if act.kind == "grant" else named(act.kind, act.subject),
                decision=decision, who=who, grant=rule_text(grant), call=act.call, conversation=conversation,
                arguments=digest(act.arguments), definition=act.definition, detail=detail_of(more),
            )  # fmt: skip

        return make

    def _asked(
        self, question: Question[Any], event: str, decision: str, who: str, seconds: float, answer: Any
    ) -> Callable[[], Record]:
        at, conversation = now(), self.conversation()

        def make() -> Record:
            more: dict[str, Any] = {"question": question.KIND, "why": question.why[:500], **came_of(question, answer)}
            if self._config.content:
                more["shown"] = words(question)
                # Others are no words, or they are secrets: a pass phrase, the address that a sign-in ended at.
                if is_words(question, answer):
                    more["answer"] = words(as_sent(question, answer))
            return Record(
                at=at, kind=topic(question), event=event, server=redact_identifier(question.server),
                subject=named(topic(question), subject(question)), decision=decision, who=who,
                call=str(getattr(question, "call", "")), conversation=conversation,
                shown=hashlib.sha256(encode(question)).hexdigest(),
                arguments=digest(sent(question, answer)), duration=round(seconds * 1000), detail=detail_of(more),
            )  # fmt: skip

        return make


class Effect:
    """Something that happens between two rows."""

    def __init__(self, journal: Journal, act: Act) -> None:
        self._journal = journal
        self._act = act
        self._entry: Entry | None = None
        self._since = time.monotonic()

    async def starts(self, *, who: str, grant: str = "") -> None:
        """Record that it is about to happen and what allowed it. Raises Declined when it must not, then."""
        made = self._journal.record(self._act, "started", who=who, grant=grant)
        self._entry = await self._journal.ledger.append(made)
        self._journal.demand(self._entry)

    def ended(self, outcome: str, *, size: int = 0) -> None:
        """Record the end of what was started; returns at once, and the row is written soon after.

        `size`: bytes of what came back. Nothing is recorded of what did not start, or ended already.
        """
        entry, self._entry = self._entry, None
        if entry is None:
            return
        at, milliseconds = now(), round((time.monotonic() - self._since) * 1000)
        act, conversation = self._act, self._journal.conversation()

        def make() -> Record:
            return Record(
                at=at, kind=act.kind, event="ended", server=redact_identifier(act.server),
                subject=named(act.kind, act.subject),
                decision=outcome, who="mcphost", call=act.call, conversation=conversation, size=size,
                duration=milliseconds,
            )  # fmt: skip

        self._journal.later(make, entry)


class JournaledFront(PassingFront):
    """A front of which no answer is heard before the ledger has it."""

    def __init__(self, front: Front, journal: Journal) -> None:
        super().__init__(front)
        self._journal = journal

    async def ask(self, question: Question[A]) -> A:
        """The answer, once it is recorded; that a question was withdrawn is recorded, too."""
        began = time.monotonic()
        try:
            answer = await self._front.ask(question)
        except BaseException:
            await self._journal.withdrawn(question, seconds=time.monotonic() - began)
            raise
        return await self._journal.answered(question, answer, who=self._front.who, seconds=time.monotonic() - began)


def in_memory(config: LedgerConfig | None = None) -> Journal:
    """A journal that is gone with the process."""
    return Journal(Ledger(None), config or LedgerConfig())


def _place(url: str) -> str:
    try:
        parts = split_url(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return ""
