"""The user's review of results before the model receives them, for servers with `review_results`.

Everything that reaches the conversation from these servers is reviewed here: results, errors, chunks of truncated
results, skills and attached resources.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from mcphost.config.rule_syntax import format_rule
from mcphost.config.rules import Rule
from mcphost.errors import ConsentDenied, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.policy import OriginSearch
from mcphost.host.consent.rule_matching import RuleInput, RuleMatcher
from mcphost.host.content_rendering import RenderedResult, hide_user_only_parts, join_parts
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ResultReviewed
from mcphost.host.questions.frontend import Frontend, QuestionBudget, TooManyQuestions
from mcphost.host.questions.questions import (
    PassResult,
    ResultPart,
    ReviewResult,
    WithholdResult,
    passed_parts,
)
from mcphost.host.servers.servers import Servers
from mcphost.host.tools.call_scheduler import mark_result_received
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.serialization import Struct, replace

WITHHELD = (
    "The call ran, but its result is withheld from you on behalf of the user. This is not an error, and repeating the "
    "call will not give you the result. Continue without it, or ask the user."
)
REVIEW_UNAVAILABLE = (
    "The call ran, but its result is withheld from you, because the user could not be asked to review it:"
)
ATTACHMENT_WITHHELD = "[The user attached this resource, but withheld it from you after reviewing it.]"
READ_METHOD = "resources/read"


class ReviewOutcome(Struct, frozen=True):
    """Outcome of a review: the parts of the result that the model receives, or the text that replaces all of them."""

    parts: tuple[ResultPart, ...]
    replacement: str = ""

    @property
    def rendered(self) -> RenderedResult:
        """The accepted parts, joined into one rendered result."""
        return join_parts(self.parts)


class ResultReviewer:
    """Review of results by the user, who decides which parts of them the model receives."""

    def __init__(
        self, frontend: Frontend, audit: AuditLog, events: EventBus, servers: Servers, matcher: RuleMatcher,
        pass_rules: tuple[Rule, ...], find_origins: OriginSearch, question_budget: QuestionBudget | None = None,
    ) -> None:  # fmt: skip
        """Create a reviewer; the results of calls that match *pass_rules* need no review.

        *find_origins* finds the servers and files from which a call's arguments were copied, because *pass_rules* can
        depend on these. *question_budget* limits the number and size of open questions.
        """
        self._frontend = frontend
        self._audit = audit
        self._events = events
        self._servers = servers
        self._matcher = matcher
        self._pass_rules = pass_rules
        self._find_origins = find_origins
        self._question_budget = question_budget or QuestionBudget()
        self.on_passed: Callable[[str], object] = lambda call: None
        """Called with the id of each call whose result the user passed to the model unchanged."""

    def is_required(self, server: str) -> bool:
        """Return whether results from this server must be reviewed.

        For a server that was removed in this run, its last configuration decides. For an unknown server, the result is
        False.
        """
        try:
            return self._servers.find(server).config.review_results
        except UsageError:
            return server in self._servers.removed_with_review

    async def review(
        self, server: str, call: str, tool: str, arguments: dict[str, Any], parts: tuple[ResultPart, ...], why: str,
        *, is_error: bool = False,
    ) -> ReviewOutcome:  # fmt: skip
        """Ask the user to review the parts of a result, and return what the model receives.

        *why* is the reason for the call, which is shown with the question. *is_error* means that the tool reported a
        failure. If there are too many open questions, the result is withheld. Cancellation withdraws the question; the
        model is then told that the tool ran, but does not receive the result.
        """
        mark_result_received()
        parts = hide_user_only_parts(parts)
        account, folder = self._describe_server(server)
        rule_input = RuleInput(server=server, tool=tool, arguments=arguments, account=account, folder=folder)
        question = ReviewResult(
            server=server, account=account, why=why, call=call, tool=tool, arguments=arguments, parts=parts,
            is_error=is_error,
        )  # fmt: skip
        answer = await self._apply_rules(rule_input, call) if parts else PassResult()
        if answer is None:
            try:
                with self._question_budget.reserve(server, sum(len(part.text) + _image_size(part) for part in parts)):
                    answer = await self._frontend.ask(question)
            except TooManyQuestions as error:
                return ReviewOutcome((), f"{REVIEW_UNAVAILABLE} {error.message}")
        passed = passed_parts(question, answer)
        if passed or not parts:
            return ReviewOutcome(passed)
        reason = answer.reason if isinstance(answer, WithholdResult) else ""
        return ReviewOutcome((), f"{WITHHELD} The user says: {reason}" if reason else WITHHELD)

    def _describe_server(self, server: str) -> tuple[str, str | None]:
        """Return the account and the folder of a server; "" and None if the server was removed while its call ran."""
        try:
            connection = self._servers.find(server)
        except UsageError:
            return "", None
        return connection.account, connection.folder

    async def _apply_rules(self, rule_input: RuleInput, call: str) -> PassResult | WithholdResult | None:
        if self._pass_rules:
            origins = await self._find_origins(rule_input.server, rule_input.arguments)
            rule_input = replace(rule_input, origins=origins)
        for rule in self._pass_rules:
            if await self._matcher.match(rule, rule_input) == "yes":
                subject = AuditSubject(
                    kind="result",
                    server=rule_input.server,
                    name=rule_input.tool,
                    call=call,
                    arguments=rule_input.arguments,
                )
                try:
                    await self._audit.record_decision(subject, "passed", who="rule", grant=format_rule(rule))
                except ConsentDenied as error:
                    return WithholdResult(error.message)
                return PassResult()
        return None

    def publish(
        self,
        call: str,
        server: str,
        tool: str,
        reviewed: ReviewOutcome,
        before: tuple[ResultPart, ...],
        stored_file: str,
    ) -> None:
        """Publish a ResultReviewed event; *before* contains the parts of the result before the review.

        *stored_file* is the path of the file with the complete result, "" for none.
        """
        outcome = (
            "withheld"
            if reviewed.replacement
            else "passed"
            if reviewed.parts == hide_user_only_parts(before)
            else "changed"
        )
        if outcome == "passed":
            self.on_passed(call)
        text = "" if reviewed.replacement else reviewed.rendered.user_text
        self._events.publish(ResultReviewed(call, server, tool, outcome, text, stored_file))

    async def review_attachments(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Ask the user to review attachments from servers with `review_results`; return all attachments.

        The content of a withheld resource is replaced with a note.
        """
        return tuple([await self._review_attachment(part) for part in parts])

    async def _review_attachment(self, part: Part) -> Part:
        if not self._needs_review(part):
            return part
        uri = part.uri if isinstance(part, ResourcePart) else part.name
        if isinstance(part, ResourcePart):
            piece = ResultPart(kind="resource", text=part.text, mime_type=part.mime_type, size=len(part.text))
        else:
            image = part if isinstance(part, ImagePart) else None
            text = f"[{part.mime_type}: {uri}]"
            piece = ResultPart(
                kind="resource", text=text, image=image, mime_type=part.mime_type, size=len(part.data) * 3 // 4
            )
        is_from_page = isinstance(part, ResourcePart) and part.is_from_page
        why = "its page adds it to your message" if is_from_page else "you attached it to your message"
        reviewed = await self.review(part.server, "", READ_METHOD, {"uri": uri}, (piece,), why)
        if not reviewed.replacement and not isinstance(part, ResourcePart):
            is_kept = reviewed.parts == (piece,)  # the data passes only if no part of it was changed
            shown = ResourcePart(part.server, uri, reviewed.rendered.text, part.mime_type, target=part.target)
            return part if is_kept else shown
        text = ATTACHMENT_WITHHELD if reviewed.replacement else reviewed.rendered.text
        if isinstance(part, ResourcePart) and text == part.text:
            return part
        tool = part.tool if isinstance(part, ResourcePart) else ""
        return ResourcePart(
            part.server, uri, text, part.mime_type, tool=tool, target=part.target, is_from_page=is_from_page
        )

    def _needs_review(self, part: Part) -> TypeGuard[ResourcePart | ImagePart | FilePart]:
        is_attached = isinstance(part, ResourcePart | ImagePart | FilePart)
        return is_attached and bool(part.server) and self.is_required(part.server)

    def withhold_attachments(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return the attachments, with the content of those that need a review replaced with a note."""
        return tuple(
            ResourcePart(
                part.server,
                part.uri if isinstance(part, ResourcePart) else part.name,
                ATTACHMENT_WITHHELD,
                part.mime_type,
                tool=part.tool if isinstance(part, ResourcePart) else "",
                target=part.target,
                is_from_page=isinstance(part, ResourcePart) and part.is_from_page,
            )
            if self._needs_review(part)
            else part
            for part in parts
        )


def _image_size(part: ResultPart) -> int:
    return len(part.image.data) if part.image is not None else 0
