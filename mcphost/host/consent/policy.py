"""Consent policy for tool calls: check never-rules, then grants and allow-rules, then ask the user."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcphost.config.rule_syntax import exact_pattern, format_rule, quote_rule
from mcphost.config.rules import ORIGIN_OPERATORS, Rule
from mcphost.errors import ConsentDenied
from mcphost.host.argument_origins import NO_ORIGINS, ArgumentOrigin, ArgumentOrigins
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.consent.grants import ActiveGrants, ToolHistory, ToolIdentity, identify_tool, make_grant
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Struct, replace
from mcphost.store.grants import Grant

RULE_MISMATCH = "The rule that was given with the answer does not cover this call."


class Approval(Struct, frozen=True):
    """Permission for a tool call with these arguments.

    `source` is what allowed the call:

    - "once" or "always": the user's choice in the consent prompt
    - "session": the user's choice in the consent prompt for this call, or for an earlier call in this session
    - "grant": a stored grant, or a rule that the user created in the consent prompt
    - "rule": an allow-rule from the command line
    - "claim": the tool's server, which the user trusts, declares the tool read-only
    - "autonomy": auto-approve mode
    - "user": the user made the call
    - "page": a server's page made the call

    `grant_id` is the id of the grant that allowed the call, "" for none. `origins` are the parts of the arguments that
    came from other servers or from files. `auto_period` is the period of auto-approve mode (see
    `AutoApproval.approve`), 0 for none.
    """

    source: str
    arguments: dict[str, Any]
    grant_id: str = ""
    origins: tuple[ArgumentOrigin, ...] = ()
    auto_period: int = 0

    @property
    def permission(self) -> str:
        """The permission that allowed the call: the id of the grant, or `source` if there is no grant."""
        return self.grant_id or self.source


class _OpenQuestion:
    """A consent prompt that is waiting for the user's answer; cancelling `scope` withdraws the prompt."""

    def __init__(self, subject: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins) -> None:
        self.identity, self.arguments, self.origins = subject, arguments, origins
        self.scope = anyio.CancelScope()


QuestionFactory = Callable[[ToolHistory], ApproveTool]
ArgumentsCheck = Callable[[dict[str, Any]], Awaitable[bool]]
AutoApprovalCheck = Callable[[ToolIdentity, dict[str, Any]], int]
"""Auto-approves a call that nothing else allows; returns the period of auto-approve mode, or 0 for a refusal."""
OriginSearch = Callable[[str, dict[str, Any]], Awaitable[ArgumentOrigins]]
"""Returns which parts of arguments for a server came from other servers or from files."""


async def _find_no_origins(server: str, arguments: dict[str, Any]) -> ArgumentOrigins:
    del server, arguments
    return NO_ORIGINS


class ConsentPolicy:
    """Policy that allows or denies tool calls.

    When the user creates a grant, other calls that it covers are also allowed, and their open consent prompts are
    withdrawn.
    """

    def __init__(
        self,
        active_grants: ActiveGrants,
        frontend: Frontend,
        matcher: RuleMatcher,
        config_rules: ConfigRules,
        audit: AuditLog,
        auto_approve: AutoApprovalCheck | None = None,
        find_origins: OriginSearch = _find_no_origins,
    ) -> None:
        self._audit = audit
        self._active_grants = active_grants
        self._frontend = frontend
        self._matcher = matcher
        self._config_rules = config_rules
        self._auto_approve = auto_approve
        self._find_origins = find_origins
        self._open_questions: list[_OpenQuestion] = []

    async def authorize(
        self,
        identity: ToolIdentity,
        arguments: dict[str, Any],
        make_question: QuestionFactory,
        *,
        call: str,
        has_changed: bool = False,
        is_valid: ArgumentsCheck | None = None,
        may_auto_approve: bool = True,
    ) -> Approval | Deny:
        """Allow or deny a tool call; ask the user if no rule or grant applies. Cancellation withdraws the prompt.

        *make_question* creates the consent prompt from the tool's history. *has_changed* means that the tool changed
        after the call was approved; the user is asked again unless a grant for the new definition covers the call.

        *is_valid* checks arguments that the user edited while creating a rule. If they are invalid, no rule is stored
        and the call is approved once; the caller must report the error. *may_auto_approve* permits auto-approve mode.
        """
        origins = await self._find_origins(identity.server, arguments)
        origins = replace(origins, must_be_named=self._matcher.asks_about_origins)
        subject = _audit_subject(identity, arguments, origins, call)
        while True:
            forbidden = await self._find_never_rule(identity, arguments, origins)
            if forbidden is not None:
                return await self._record_decision(subject, _config_denial(forbidden), "config", quote_rule(forbidden))
            approval, history = await self._find_approval(
                identity, arguments, origins, has_changed=has_changed, may_auto_approve=may_auto_approve
            )
            if approval is not None:
                self._active_grants.remember_allowed(identity)
                return await self._record_decision(subject, approval, approval.source, approval.grant_id)
            waiting = _OpenQuestion(identity, arguments, origins)
            question = replace(
                make_question(history),
                origins=origins.found,
                omitted_origins=origins.omitted,
                are_origins_complete=origins.are_texts_complete,
                media_origins=origins.media,
            )
            verdict = None
            with waiting.scope:
                self._open_questions.append(waiting)
                try:
                    verdict = await self._frontend.ask(question)
                finally:
                    self._open_questions.remove(waiting)
            if question.recorded_at and isinstance(verdict, AllowSession | AllowAlways | AllowRule):
                verdict = AllowOnce()  # nothing is called, so the answer must not allow later calls
            match verdict:
                case AllowOnce() | AllowRule():
                    return await self._approve_edited(subject, waiting, question, verdict, is_valid)
                case AllowSession() | AllowAlways():
                    return await self._approve_tool(subject, identity, arguments, origins, verdict)
                case Deny():
                    return verdict
                case None if waiting.scope.cancelled_caught:
                    pass  # Another answer covers this call; decide again.
                case _:
                    return Deny()

    async def _approve_tool(
        self,
        subject: AuditSubject,
        identity: ToolIdentity,
        arguments: dict[str, Any],
        origins: ArgumentOrigins,
        verdict: AllowSession | AllowAlways,
    ) -> Approval | Deny:
        """Create the grant that the user chose, and allow the call.

        The call is denied instead if a never-rule that was added in the meantime covers it.
        """
        forbidden = await self._find_never_rule(identity, arguments, origins)
        if forbidden is not None:
            return await self._record_decision(subject, _config_denial(forbidden), "config", quote_rule(forbidden))
        grant = make_grant(identity, Rule(server=identity.server, tool=exact_pattern(identity.tool)))
        is_permanent = isinstance(verdict, AllowAlways)
        grant = (
            await self._active_grants.grant_persistent(grant)
            if is_permanent
            else self._active_grants.grant_session(grant)
        )
        await self._record_grant(grant)
        self._active_grants.remember_allowed(identity)
        self._active_grants.count_use(grant)
        return Approval("always" if is_permanent else "session", arguments, grant.id, origins.found)

    async def _approve_edited(
        self,
        subject: AuditSubject,
        waiting: _OpenQuestion,
        question: ApproveTool,
        verdict: AllowOnce | AllowRule,
        is_valid: ArgumentsCheck | None,
    ) -> Approval | Deny:
        """Allow the call as the user answered: once, or by a new rule, and with edited arguments if there are any.

        The call is denied if a never-rule covers it, if the new rule does not cover it, or if the arguments were edited
        although `question.editable` is false. See `authorize` for *is_valid*.
        """
        identity = waiting.identity
        arguments = question.arguments if verdict.arguments is None else verdict.arguments
        is_edited = arguments_digest(arguments) != arguments_digest(question.arguments)
        if is_edited and not question.editable:
            denial = Deny("The arguments of this call cannot be edited.")
            return await self._record_decision(subject, denial, "mcphost", "")
        origins = await self._find_origins(identity.server, arguments)
        origins = replace(origins, must_be_named=waiting.origins.must_be_named)
        subject = replace(subject, arguments=arguments, origins=origins.found)
        forbidden = await self._find_never_rule(identity, arguments, origins)
        if forbidden is not None:
            return await self._record_decision(subject, _config_denial(forbidden), "config", quote_rule(forbidden))
        if isinstance(verdict, AllowOnce):
            self._active_grants.remember_allowed(identity)
            return Approval("once", arguments, origins=origins.found)
        if is_edited and is_valid is not None and not await is_valid(arguments):
            # Store no rule: the caller reports the invalid arguments and asks again.
            return Approval("once", arguments, origins=origins.found)
        approval = await self._approve_with_rule(identity, arguments, origins, verdict.rule)
        if approval is None:
            return await self._record_decision(subject, Deny(RULE_MISMATCH), "rule", format_rule(verdict.rule))
        return approval

    async def _approve_with_rule(
        self, identity: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins, rule: Rule
    ) -> Approval | None:
        """Store the rule from the user's answer and allow the call; return None if the rule does not cover it."""
        if not await self._matcher.allows(rule, identity.to_rule_input(arguments, origins)):
            return None
        # Collecting the digests of thousands of tools takes a while.
        grant = await anyio.to_thread.run_sync(make_grant, identity, rule)
        grant = await self._active_grants.grant_persistent(grant)
        if not await self._active_grants.covers(grant, identity, arguments, origins):
            return None  # it was already expired
        await self._record_grant(grant)
        self._active_grants.remember_allowed(identity)
        self._active_grants.count_use(grant)
        return Approval("grant", arguments, grant.id, origins.found)

    async def _record_decision(
        self, subject: AuditSubject, verdict: Approval | Deny, who: str, grant: str
    ) -> Approval | Deny:
        """Record the decision *verdict*, for which the user was not asked, and return it.

        If the decision cannot be recorded, a denial is returned instead.

        See `AuditLog.record_decision` for *who* and *grant*.
        """
        try:
            decision = "deny" if isinstance(verdict, Deny) else "allow"
            await self._audit.record_decision(subject, decision, who=who, grant=grant)
        except ConsentDenied as error:
            return Deny(error.message, is_by_user=False)
        return verdict

    async def _record_grant(self, grant: Grant) -> None:
        """Record a new grant in the audit log, then allow the waiting tool calls that it covers."""
        subject = AuditSubject(kind="grant", server=grant.server, name=grant.text, definition=grant.server_digest)
        scope = "session" if grant.session else grant.rule.scope
        self._audit.queue_event(subject, "given", who=self._frontend.who, grant=grant.id, detail={"scope": scope})
        await self._recheck_open_questions(grant)

    async def _recheck_open_questions(self, grant: Grant) -> None:
        """Withdraw the open consent prompts of calls that the grant covers; the grant then allows these calls."""
        for waiting in tuple(self._open_questions):
            if await self._active_grants.covers(grant, waiting.identity, waiting.arguments, waiting.origins):
                waiting.scope.cancel()

    async def check_manual_call(self, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        """Check a tool call that the user makes directly, which needs no approval.

        Raises ConsentDenied if a never-rule covers the call, or if the tool has changed since the user last created a
        grant for the tool. A refusal is recorded in the audit log.
        """
        identity = identify_tool(offered)
        origins = await self._find_origins(identity.server, arguments)
        subject = _audit_subject(identity, arguments, origins)
        forbidden = await self._find_never_rule(identity, arguments, origins)
        if forbidden is not None:
            denial, where = _config_denial(forbidden), self._config_rules.file
            await self._record_decision(subject, denial, "config", quote_rule(forbidden))
            raise ConsentDenied(denial.reason, f"To allow it, change [consent] never in {where}.")
        if (await self._active_grants.tool_history(identity)).changed:
            await self._record_decision(subject, Deny(), "mcphost", "")
            raise ConsentDenied(
                f"The tool {identity.tool!r} of {identity.server!r} changed after it was allowed.",
                "Let the model call it in a chat and review the change there.",
            )

    async def record_quarantined_call(self, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        """Record that a call made by the user was refused because its tool is quarantined."""
        identity = identify_tool(offered)
        subject = _audit_subject(identity, arguments, await self._find_origins(identity.server, arguments))
        await self._record_decision(subject, Deny(), "mcphost", "quarantine")

    async def is_forbidden(self, offered: OfferedTool, arguments: dict[str, Any]) -> bool:
        """Return whether a never-rule covers a call that was already approved.

        The rule may have been added after the approval.
        """
        return bool(self._config_rules.never) and await self._is_forbidden(identify_tool(offered), arguments)

    async def _is_forbidden(self, identity: ToolIdentity, arguments: dict[str, Any]) -> bool:
        never = self._config_rules.never
        uses_origins = any(one.operator in ORIGIN_OPERATORS for rule in never for one in rule.conditions)
        origins = await self._find_origins(identity.server, arguments) if uses_origins else NO_ORIGINS
        return await self._find_never_rule(identity, arguments, origins) is not None

    async def is_still_allowed(self, identity: ToolIdentity, arguments: dict[str, Any], grant_id: str) -> bool:
        """Return whether an earlier approval of a call still applies.

        The approval applies if its grant, if any, is still active and no never-rule covers the call. *grant_id* is the
        id of the grant that allowed the call, "" for none.
        """
        if grant_id and not await self._active_grants.still_applies(grant_id, identity):
            return False
        return not await self._is_forbidden(identity, arguments)

    async def check_reuse(
        self, identity: ToolIdentity, arguments: dict[str, Any], *, call: str, recorded_call: str
    ) -> Deny | None:
        """Check whether a call may reuse the result of an earlier call, and record the reuse in the audit log.

        *call* is the id of the call, and *recorded_call* the id of the earlier one, which was allowed. Returns None if
        the result may be reused. Returns a denial if a never-rule covers the call now, or if the audit log cannot
        record the reuse.
        """
        origins = await self._find_origins(identity.server, arguments)
        subject = _audit_subject(identity, arguments, origins, call)
        forbidden = await self._find_never_rule(identity, arguments, origins)
        if forbidden is not None:
            await self._record_decision(subject, _config_denial(forbidden), "config", quote_rule(forbidden))
            return _config_denial(forbidden)
        try:
            await self._audit.record_event(subject, "reused", who="mcphost", detail={"call": recorded_call})
        except ConsentDenied as error:
            return Deny(error.message)
        return None

    async def _find_never_rule(
        self, identity: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins
    ) -> Rule | None:
        """Return the first never-rule that covers or might cover the call, or None."""
        rule_input = identity.to_rule_input(arguments, origins)
        for rule in self._config_rules.never:
            if await self._matcher.match(rule, rule_input) != "no":
                return rule
        return None

    async def _find_approval(
        self,
        identity: ToolIdentity,
        arguments: dict[str, Any],
        origins: ArgumentOrigins,
        *,
        has_changed: bool,
        may_auto_approve: bool,
    ) -> tuple[Approval | None, ToolHistory]:
        grant, history = await self._active_grants.find_covering(identity, arguments, origins)
        history = replace(history, changed=has_changed or history.changed)
        if grant is not None:
            return Approval(grant.source, arguments, grant.id, origins.found), history
        if history.changed:
            # The user must review a changed tool, even if a rule written before the change covers it.
            return None, history
        rule_input = identity.to_rule_input(arguments, origins)
        for rule in self._config_rules.allow:
            if await self._matcher.allows(rule, rule_input):
                return Approval("rule", arguments, origins=origins.found), history
        if not self._matcher.allows_origins(origins):
            return None, history
        if identity.is_read_only_trusted:
            return Approval("claim", arguments, origins=origins.found), history
        period = 0 if self._auto_approve is None or not may_auto_approve else self._auto_approve(identity, arguments)
        if period:
            return Approval("autonomy", arguments, origins=origins.found, auto_period=period), history
        return None, history


def _audit_subject(
    identity: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins, call: str = ""
) -> AuditSubject:
    return AuditSubject(
        kind="tool", server=identity.server, name=identity.tool, call=call, arguments=arguments,
        definition=identity.digest, origins=origins.found,
    )  # fmt: skip


def _config_denial(rule: Rule) -> Deny:
    return Deny(f"The user's configuration never allows this: {quote_rule(rule)}", is_by_user=False)


def tool_question(
    offered: OfferedTool,
    arguments: dict[str, Any],
    *,
    call: str,
    why: str,
    arguments_error: str = "",
    recorded_at: float = 0.0,
) -> QuestionFactory:
    """Return a function that takes a tool's history and creates the consent prompt for this call.

    *call* is the id of the call. *why* is the reason for the call, which is shown to the user. *arguments_error*
    describes the error in arguments that the user edited, "" if there is none. If *recorded_at* is not 0, the
    prompt asks whether to reuse the result of an identical call made at that time, in seconds since 1970.
    """
    tool = offered.definition.tool

    def make_question(history: ToolHistory) -> ApproveTool:
        return ApproveTool(
            server=offered.connection.config.name,
            why=why,
            call=call,
            tool=tool.name,
            arguments=arguments,
            arguments_error=arguments_error,
            account=offered.connection.account,
            description=tool.description or "",
            claims=replace(
                tool.annotations or ToolAnnotations(),
                title=tool.display_name if tool.display_name != tool.name else None,
            ),
            first_use=history.first_use,
            has_changed=history.changed,
            has_server_changed=history.server_changed,
            folder=offered.connection.folder,
            schema=tool.input_schema,
            editable=not recorded_at,
            recorded_at=recorded_at,
        )

    return make_question
