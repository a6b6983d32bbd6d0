"""The one consent path for tool calls: what is never allowed, rules and grants, and then the question."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from mcphost.config.rules import Rule, exact_pattern, format_rule
from mcphost.errors import ConsentDenied
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.active_grants import ActiveGrants, ToolHistory
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.consent.tool_identity import ToolIdentity, identify_tool, make_grant
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Struct, replace
from mcphost.store.grants import Grant

RULE_MISMATCH = "The rule that was given with the answer does not cover this call."


class Approval(Struct, frozen=True):
    """The call may run with these arguments; `by` says what allowed it.

    "once", "session" and "always" are the user's answers, now or earlier; "rule" is one that came with the command;
    "grant" is a stored rule; "claim" is the server's own claim that the tool only reads, where the user chose to trust
    it for that; "autonomy" is what the user picked to run unasked for now. `grant` is the id of the grant.
    """

    source: str
    arguments: dict[str, Any]
    grant_id: str = ""


class ConfigRules(Struct, frozen=True):
    """Rules from before any call: those that allow, and those that no other rule, no answer and no mode overrides."""

    allow: tuple[Rule, ...] = ()
    never: tuple[Rule, ...] = ()
    file: str = "config.toml"
    """Where the never-list is written."""


class _OpenQuestion:
    """A question that is open."""

    def __init__(self, subject: ToolIdentity, arguments: dict[str, Any]) -> None:
        self.identity, self.arguments = subject, arguments
        self.scope = anyio.CancelScope()


QuestionFactory = Callable[[ToolHistory], ApproveTool]
ArgumentsCheck = Callable[[dict[str, Any]], Awaitable[bool]]
AutoApprovalCheck = Callable[[ToolIdentity, dict[str, Any]], bool]
"""Whether a call may run without a question for now; asked only when nothing else allows it, and it counts then."""


class ConsentPolicy:
    """Decides; an answer that widens also settles the questions that already wait, as far as it covers them."""

    def __init__(
        self,
        active_grants: ActiveGrants,
        frontend: Frontend,
        matcher: RuleMatcher,
        config_rules: ConfigRules,
        audit: AuditLog,
        auto_approve: AutoApprovalCheck | None = None,
    ) -> None:
        self._audit = audit
        self._active_grants = active_grants
        self._frontend = frontend
        self._matcher = matcher
        self._config_rules = config_rules
        self._auto_approve = auto_approve
        self._open_questions: list[_OpenQuestion] = []

    async def authorize(
        self,
        offered: OfferedTool,
        arguments: dict[str, Any],
        *,
        call: str,
        why: str,
        has_changed: bool = False,
        fault: str = "",
        is_valid: ArgumentsCheck | None = None,
    ) -> Approval | Deny:
        """Allow or deny one call; cancelling withdraws the question.

        `changed` says that this very call was allowed already, when the tool was something else; `fault`, that the
        user edited its arguments into these, and what in them does not fit. `fits` is asked about arguments that were
        edited before a rule is kept that came with them.
        """
        subject = identify_tool(offered)

        def question(seen: ToolHistory) -> ApproveTool:
            return replace(_make_question(offered, subject, arguments, call, why, seen), fault=fault)

        return await self.authorize_call(
            subject, arguments, question, call=call, has_changed=has_changed, is_valid=is_valid
        )

    async def authorize_call(
        self,
        identity: ToolIdentity,
        arguments: dict[str, Any],
        make_question: QuestionFactory,
        *,
        call: str,
        has_changed: bool = False,
        is_valid: ArgumentsCheck | None = None,
    ) -> Approval | Deny:
        """Allow or deny a call of `subject`; `ask` makes the question from what earlier answers say about it."""
        act = AuditSubject(kind="tool", server=identity.server, name=identity.tool, call=call, arguments=arguments,
                  definition=identity.digest)  # fmt: skip
        while True:
            forbidden = await self._find_never_rule(identity, arguments)
            if forbidden is not None:
                return await self._record_decision(act, _config_denial(forbidden), "config", format_rule(forbidden))
            allowed, seen = await self._find_approval(identity, arguments, has_changed=has_changed)
            if allowed is not None:
                return await self._record_decision(act, allowed, allowed.source, allowed.grant_id)
            waiting, question = _OpenQuestion(identity, arguments), make_question(seen)
            verdict = None
            with waiting.scope:
                self._open_questions.append(waiting)
                try:
                    verdict = await self._frontend.ask(question)
                finally:
                    self._open_questions.remove(waiting)
            match verdict:
                case AllowOnce() | AllowRule():
                    return await self._approve_edited(act, identity, question, verdict, is_valid)
                case AllowSession() | AllowAlways():
                    grant = make_grant(identity, Rule(server=identity.server, tool=exact_pattern(identity.tool)))
                    lasting = isinstance(verdict, AllowAlways)
                    grant = (
                        await self._active_grants.grant_persistent(grant)
                        if lasting
                        else self._active_grants.grant_session(grant)
                    )
                    await self._record_grant(grant)
                    return Approval("always" if lasting else "session", arguments, grant.id)
                case Deny():
                    return verdict
                case None if waiting.scope.cancelled_caught:
                    pass  # Another answer covers this call; look again.
                case _:
                    return Deny()

    async def _approve_edited(
        self,
        subject: AuditSubject,
        identity: ToolIdentity,
        question: ApproveTool,
        verdict: AllowOnce | AllowRule,
        is_valid: ArgumentsCheck | None,
    ) -> Approval | Deny:
        """An answer that may have brought other arguments: all that was looked at before holds for those."""
        arguments = question.arguments if verdict.arguments is None else verdict.arguments
        is_edited = arguments_digest(arguments) != arguments_digest(question.arguments)
        if is_edited and not question.editable:
            return Deny("The arguments of this call cannot be edited.")
        forbidden = await self._find_never_rule(identity, arguments)
        if forbidden is not None:
            return await self._record_decision(
                replace(subject, arguments=arguments), _config_denial(forbidden), "config", format_rule(forbidden)
            )
        if isinstance(verdict, AllowOnce):
            return Approval("once", arguments)
        if is_edited and is_valid is not None and not await is_valid(arguments):
            return Approval("once", arguments)  # whoever calls finds the fault, too, and asks again: no rule yet
        return await self._approve_with_rule(identity, arguments, verdict.rule)

    async def _approve_with_rule(
        self, identity: ToolIdentity, arguments: dict[str, Any], rule: Rule
    ) -> Approval | Deny:
        """The answer was a rule. One that does not cover the very call it was given for is a mistake, and not kept."""
        if await self._matcher.match(rule, identity.to_rule_input(arguments)) != "yes":
            return Deny(RULE_MISMATCH)
        # Digests of every tool of a server take a while when there are thousands.
        grant = await anyio.to_thread.run_sync(make_grant, identity, rule)
        grant = await self._active_grants.grant_persistent(grant)
        if not await self._active_grants.covers(grant, identity, arguments):
            return Deny(RULE_MISMATCH)  # it had expired before it was given
        await self._record_grant(grant)
        return Approval("grant", arguments, grant.id)

    async def _record_decision(
        self, subject: AuditSubject, verdict: Approval | Deny, who: str, grant: str
    ) -> Approval | Deny:
        """What nobody was asked about, once it is recorded."""
        try:
            decision = "deny" if isinstance(verdict, Deny) else "allow"
            await self._audit.record_decision(subject, decision, who=who, grant=grant)
        except ConsentDenied as error:
            return Deny(error.message)
        return verdict

    async def _record_grant(self, grant: Grant) -> None:
        """Record which grant an answer became, and apply it to what waits."""
        act = AuditSubject(kind="grant", server=grant.server, name=grant.text, definition=grant.server_digest)
        scope = "session" if grant.session else grant.rule.scope
        self._audit.queue_event(act, "given", grant=grant.id, detail={"scope": scope})
        await self._recheck_open_questions(grant)

    async def _recheck_open_questions(self, grant: Grant) -> None:
        """Look again at the open questions that the grant covers, and at no other."""
        for waiting in tuple(self._open_questions):
            if await self._active_grants.covers(grant, waiting.identity, waiting.arguments):
                waiting.scope.cancel()

    async def check_manual_call(self, offered: OfferedTool, arguments: dict[str, Any]) -> None:
        """For a call that is the user's own act. Raises ConsentDenied: it is never allowed, or the tool changed."""
        subject = identify_tool(offered)
        forbidden = await self._find_never_rule(subject, arguments)
        if forbidden is not None:
            where = self._config_rules.file
            raise ConsentDenied(
                _config_denial(forbidden).reason, f"If that is not what you want, change [consent] never in {where}."
            )
        if (await self._active_grants.tool_history(subject)).changed:
            raise ConsentDenied(
                f"The tool {subject.tool!r} of {subject.server!r} is not what it was when it was allowed for longer.",
                "Let the model ask for it in a chat: the question there says that it changed.",
            )

    async def _find_never_rule(self, identity: ToolIdentity, arguments: dict[str, Any]) -> Rule | None:
        """The rule of the never-list that the call is against, also when nobody can tell whether it is."""
        asked = identity.to_rule_input(arguments)
        for rule in self._config_rules.never:
            if await self._matcher.match(rule, asked) != "no":
                return rule
        return None

    async def _find_approval(
        self, identity: ToolIdentity, arguments: dict[str, Any], *, has_changed: bool
    ) -> tuple[Approval | None, ToolHistory]:
        grant, seen = await self._active_grants.find_covering(identity, arguments)
        seen = replace(seen, changed=has_changed or seen.changed)
        if grant is not None:
            return Approval(grant.source, arguments, grant.id), seen
        if seen.changed:
            # What became something else needs eyes on it, whatever was written before anybody saw that.
            return None, seen
        asked = identity.to_rule_input(arguments)
        for rule in self._config_rules.allow:
            if await self._matcher.match(rule, asked) == "yes":
                return Approval("rule", arguments), seen
        if identity.is_read_only_trusted:
            return Approval("claim", arguments), seen
        unasked = self._auto_approve is not None and self._auto_approve(identity, arguments)
        return (Approval("autonomy", arguments) if unasked else None), seen


def _config_denial(rule: Rule) -> Deny:
    return Deny(f"The user's configuration never allows this: {format_rule(rule)}")


def _make_question(
    offered: OfferedTool, identity: ToolIdentity, arguments: dict[str, Any], call: str, why: str, history: ToolHistory
) -> ApproveTool:
    tool = offered.definition.tool
    return ApproveTool(
        server=identity.server,
        why=why,
        call=call,
        tool=tool.name,
        arguments=arguments,
        account=offered.connection.account,
        description=tool.description or "",
        claims=replace(
            tool.annotations or ToolAnnotations(), title=tool.display_name if tool.display_name != tool.name else None
        ),
        first_use=history.first_use,
        drifted=history.changed,
        folder=identity.folder,
        schema=tool.input_schema,
    )
