"""The one consent path for tool calls: what is never allowed, rules and grants, and then the question."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcphost.config.rules import Rule, exact, write
from mcphost.errors import Declined
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.audit.audit_summary import digest
from mcphost.host.consent.active_grants import Seen, Standing
from mcphost.host.consent.rule_matching import Matching
from mcphost.host.consent.tool_identity import Subject, granted, subject_of
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.servers.tool_registry import Offered
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Data, replace
from mcphost.store.grants import Grant

UNCOVERED = "The rule that was given with the answer does not cover this call."


class Allowed(Data, frozen=True):
    """The call may run with these arguments; `by` says what allowed it.

    "once", "session" and "always" are the user's answers, now or earlier; "rule" is one that came with the command;
    "grant" is a stored rule; "claim" is the server's own claim that the tool only reads, where the user chose to trust
    it for that; "autonomy" is what the user picked to run unasked for now. `grant` is the id of the grant.
    """

    by: str
    arguments: dict[str, Any]
    grant: str = ""


class Written(Data, frozen=True):
    """Rules from before any call: those that allow, and those that no other rule, no answer and no mode overrides."""

    allow: tuple[Rule, ...] = ()
    never: tuple[Rule, ...] = ()
    file: str = "config.toml"
    """Where the never-list is written."""


class _Waiting:
    """A question that is open."""

    def __init__(self, subject: Subject, arguments: dict[str, Any]) -> None:
        self.subject, self.arguments = subject, arguments
        self.scope = anyio.CancelScope()


Ask = Callable[[Seen], ApproveTool]
Fits = Callable[[dict[str, Any]], Awaitable[bool]]
Unasked = Callable[[Subject, dict[str, Any]], bool]
"""Whether a call may run without a question for now; asked only when nothing else allows it, and it counts then."""


class Consent:
    """Decides; an answer that widens also settles the questions that already wait, as far as it covers them."""

    def __init__(
        self,
        standing: Standing,
        front: Front,
        matching: Matching,
        written: Written,
        journal: Journal,
        unasked: Unasked | None = None,
    ) -> None:
        self._journal = journal
        self._standing = standing
        self._front = front
        self._matching = matching
        self._written = written
        self._unasked = unasked
        self._waiting: list[_Waiting] = []

    async def decide(
        self,
        offered: Offered,
        arguments: dict[str, Any],
        *,
        call: str,
        why: str,
        changed: bool = False,
        fault: str = "",
        fits: Fits | None = None,
    ) -> Allowed | Deny:
        """Allow or deny one call; cancelling withdraws the question.

        `changed` says that this very call was allowed already, when the tool was something else; `fault`, that the
        user edited its arguments into these, and what in them does not fit. `fits` is asked about arguments that were
        edited before a rule is kept that came with them.
        """
        subject = subject_of(offered)

        def question(seen: Seen) -> ApproveTool:
            return replace(_question(offered, subject, arguments, call, why, seen), fault=fault)

        return await self.settle(subject, arguments, question, call=call, changed=changed, fits=fits)

    async def settle(
        self,
        subject: Subject,
        arguments: dict[str, Any],
        ask: Ask,
        *,
        call: str,
        changed: bool = False,
        fits: Fits | None = None,
    ) -> Allowed | Deny:
        """Allow or deny a call of `subject`; `ask` makes the question from what earlier answers say about it."""
        act = Act(kind="tool", server=subject.server, subject=subject.tool, call=call, arguments=arguments,
                  definition=subject.digest)  # fmt: skip
        while True:
            forbidden = await self._forbidden(subject, arguments)
            if forbidden is not None:
                return await self._decided(act, _never(forbidden), "config", write(forbidden))
            allowed, seen = await self._allowed(subject, arguments, changed=changed)
            if allowed is not None:
                return await self._decided(act, allowed, allowed.by, allowed.grant)
            waiting, question = _Waiting(subject, arguments), ask(seen)
            verdict = None
            with waiting.scope:
                self._waiting.append(waiting)
                try:
                    verdict = await self._front.ask(question)
                finally:
                    self._waiting.remove(waiting)
            match verdict:
                case AllowOnce() | AllowRule():
                    return await self._as_edited(act, subject, question, verdict, fits)
                case AllowSession() | AllowAlways():
                    grant = granted(subject, Rule(server=subject.server, tool=exact(subject.tool)))
                    lasting = isinstance(verdict, AllowAlways)
                    grant = await self._standing.give(grant) if lasting else self._standing.lend(grant)
                    await self._given(grant)
                    return Allowed("always" if lasting else "session", arguments, grant.id)
                case Deny():
                    return verdict
                case None if waiting.scope.cancelled_caught:
                    pass  # Another answer covers this call; look again.
                case _:
                    return Deny()

    async def _as_edited(
        self, act: Act, subject: Subject, question: ApproveTool, verdict: AllowOnce | AllowRule, fits: Fits | None
    ) -> Allowed | Deny:
        """An answer that may have brought other arguments: all that was looked at before holds for those."""
        arguments = question.arguments if verdict.arguments is None else verdict.arguments
        is_edited = digest(arguments) != digest(question.arguments)
        if is_edited and not question.editable:
            return Deny("The arguments of this call cannot be edited.")
        forbidden = await self._forbidden(subject, arguments)
        if forbidden is not None:
            return await self._decided(replace(act, arguments=arguments), _never(forbidden), "config", write(forbidden))
        if isinstance(verdict, AllowOnce):
            return Allowed("once", arguments)
        if is_edited and fits is not None and not await fits(arguments):
            return Allowed("once", arguments)  # whoever calls finds the fault, too, and asks again: no rule yet
        return await self._by_rule(subject, arguments, verdict.rule)

    async def _by_rule(self, subject: Subject, arguments: dict[str, Any], rule: Rule) -> Allowed | Deny:
        """The answer was a rule. One that does not cover the very call it was given for is a mistake, and not kept."""
        if await self._matching.matches(rule, subject.asked(arguments)) != "yes":
            return Deny(UNCOVERED)
        # Digests of every tool of a server take a while when there are thousands.
        grant = await anyio.to_thread.run_sync(granted, subject, rule)
        grant = await self._standing.give(grant)
        if not await self._standing.covers(grant, subject, arguments):
            return Deny(UNCOVERED)  # it had expired before it was given
        await self._given(grant)
        return Allowed("grant", arguments, grant.id)

    async def _decided(self, act: Act, verdict: Allowed | Deny, who: str, which: str) -> Allowed | Deny:
        """What nobody was asked about, once it is recorded."""
        try:
            decision = "deny" if isinstance(verdict, Deny) else "allow"
            await self._journal.decided(act, decision, who=who, grant=which)
        except Declined as error:
            return Deny(error.message)
        return verdict

    async def _given(self, grant: Grant) -> None:
        """Record which grant an answer became, and apply it to what waits."""
        act = Act(kind="grant", server=grant.server, subject=grant.text, definition=grant.server_digest)
        scope = "session" if grant.session else grant.rule.scope
        self._journal.note(act, "given", grant=grant.id, detail={"scope": scope})
        await self._spread(grant)

    async def _spread(self, grant: Grant) -> None:
        """Look again at the open questions that the grant covers, and at no other."""
        for waiting in tuple(self._waiting):
            if await self._standing.covers(grant, waiting.subject, waiting.arguments):
                waiting.scope.cancel()

    async def may_run(self, offered: Offered, arguments: dict[str, Any]) -> None:
        """For a call that is the user's own act. Raises Declined: it is never allowed, or the tool changed."""
        subject = subject_of(offered)
        forbidden = await self._forbidden(subject, arguments)
        if forbidden is not None:
            where = self._written.file
            raise Declined(
                _never(forbidden).reason, f"If that is not what you want, change [consent] never in {where}."
            )
        if (await self._standing.seen(subject)).changed:
            raise Declined(
                f"The tool {subject.tool!r} of {subject.server!r} is not what it was when it was allowed for longer.",
                "Let the model ask for it in a chat: the question there says that it changed.",
            )

    async def _forbidden(self, subject: Subject, arguments: dict[str, Any]) -> Rule | None:
        """The rule of the never-list that the call is against, also when nobody can tell whether it is."""
        asked = subject.asked(arguments)
        for rule in self._written.never:
            if await self._matching.matches(rule, asked) != "no":
                return rule
        return None

    async def _allowed(
        self, subject: Subject, arguments: dict[str, Any], *, changed: bool
    ) -> tuple[Allowed | None, Seen]:
        grant, seen = await self._standing.find(subject, arguments)
        seen = replace(seen, changed=changed or seen.changed)
        if grant is not None:
            return Allowed(grant.by, arguments, grant.id), seen
        if seen.changed:
            # What became something else needs eyes on it, whatever was written before anybody saw that.
            return None, seen
        asked = subject.asked(arguments)
        for rule in self._written.allow:
            if await self._matching.matches(rule, asked) == "yes":
                return Allowed("rule", arguments), seen
        if subject.claim_counts:
            return Allowed("claim", arguments), seen
        unasked = self._unasked is not None and self._unasked(subject, arguments)
        return (Allowed("autonomy", arguments) if unasked else None), seen


def _never(rule: Rule) -> Deny:
    return Deny(f"The user's configuration never allows this: {write(rule)}")


def _question(
    offered: Offered, subject: Subject, arguments: dict[str, Any], call: str, why: str, seen: Seen
) -> ApproveTool:
    tool = offered.listed.tool
    return ApproveTool(
        server=subject.server,
        why=why,
        call=call,
        tool=tool.name,
        arguments=arguments,
        account=offered.connection.account,
        description=tool.description or "",
        claims=replace(tool.annotations or ToolAnnotations(), title=tool.label if tool.label != tool.name else None),
        first_use=seen.first_use,
        drifted=seen.changed,
        folder=subject.folder,
        schema=tool.input_schema,
    )
