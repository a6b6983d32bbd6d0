"""The tools that mcphost itself offers to the model, such as `load_skill` and `read_result`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mcphost.errors import ConsentDenied, McpHostError, ServerError, StoreError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.builtin_tool_names import (
    LOAD_SKILL,
    READ_CONVERSATION,
    READ_RESULT,
    RESERVED_TOOL_NAMES,
    SEARCH_TOOLS,
)
from mcphost.host.consent.grants import ToolHistory, ToolIdentity
from mcphost.host.consent.policy import Approval, ConsentPolicy
from mcphost.host.content_rendering import MODEL_TEXT_LIMIT, RenderedResult
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.model_selection import ModelSelection
from mcphost.host.questions.questions import ApproveTool, Deny, ResultPart
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.skills import SkillContent, Skills
from mcphost.host.tools.conversation_tool import ConversationTool
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.host.tools.tool_search import ToolSearch
from mcphost.llm.messages import ResourcePart, ToolReturnPart, ToolUsePart, find_target
from mcphost.llm.model import ToolSpec
from mcphost.llm.token_estimate import BYTES_PER_TOKEN
from mcphost.protocol.skills import Skill, contents_digest, parse_skill_files
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, encode, replace
from mcphost.store.large_results import ResultStore, StoredText, read_text_part

_READ_RESULT_SCHEMA = {
    "type": "object",
    "properties": {
        "result": {"type": "string", "description": "Name of the result, as given in its note"},
        "offset": {"type": "integer", "minimum": 0, "description": "Offset in bytes at which to start"},
        "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of bytes to read"},
    },
    "required": ["result"],
    "additionalProperties": False,
}
_READ_RESULT_SPEC = ToolSpec(
    READ_RESULT,
    "Read a tool result in pieces, if it was truncated or has been shortened.",
    Raw(encode(_READ_RESULT_SCHEMA)),
)

MIN_RESULT_BYTES = 2_000


class ResultLimits:
    """Limits on the size of results sent to the selected model, in bytes of UTF-8."""

    def __init__(self, settings: RuntimeSettings, model_selection: ModelSelection) -> None:
        self._settings = settings
        self._model_selection = model_selection

    @property
    def result_bytes(self) -> int:
        """The limit for one result in bytes: a share of the model's context window, at most 256 KB."""
        share = int(self._model_selection.window * self._settings.context.result_share * BYTES_PER_TOKEN)
        return min(max(share, MIN_RESULT_BYTES), MODEL_TEXT_LIMIT)

    @property
    def round_bytes(self) -> int:
        """The limit in bytes for all results of one model response together."""
        return 2 * self.result_bytes


class ResultTool:
    """Implementation of the built-in tool `read_result`, which returns pieces of a long tool result.

    The model uses it to read a result that it received truncated or shortened. The model identifies the result by the
    id of the tool call or, for a result over 256 KB, by the name of the file in which the result is stored.

    The tool needs no approval, because the original call was approved and the model already received part of its
    result. If the server's results must be reviewed, but the user has not reviewed this one, the user reviews each
    piece.
    """

    def __init__(
        self,
        result_store: ResultStore,
        conversation: ActiveConversation,
        events: EventBus,
        reviewer: ResultReviewer,
        limits: ResultLimits,
    ) -> None:
        self._result_store = result_store
        self._conversation = conversation
        self._events = events
        self._reviewer = reviewer
        self.limits = limits
        self.has_shortened = False
        """Whether a request to the model contains shortened results."""

    async def store(self, rendered: RenderedResult) -> tuple[RenderedResult, str]:
        """Store a result in a file if it is too big for the model; return the result and the path of the file.

        The path is "" if the result is not too big. It is also "" if the result cannot be stored; a note that says so
        is then added to the returned result. Never raises.
        """
        if not rendered.is_too_big:
            return rendered, ""
        try:
            return rendered, await self._result_store.save(rendered.model_text)
        except StoreError as error:
            note = f"The model received only the beginning of this result, and the rest was not stored: {error.message}"
            return replace(rendered, note=f"{rendered.note} {note}".strip()), ""

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool's definition if the conversation has a truncated or shortened result, else ()."""
        is_needed = self.has_shortened or any(result.kept for result in self._results())
        return (_READ_RESULT_SPEC,) if is_needed else ()

    def _results(self) -> Iterable[ToolReturnPart | ResourcePart]:
        return (part for message in self._conversation.messages for part in message.results)

    def _find_target(self, source: ToolReturnPart | ResourcePart) -> str:
        """Return the target (see `Message.servers`) that the server had when it sent the result *source*."""
        messages = self._conversation.messages
        return next((find_target(source, one) for one in messages if source in one.results), "")

    async def _read(self, source: ToolReturnPart | ResourcePart, name: str, offset: int, limit: int) -> StoredText:
        """Read part of a result: from *source* if *name* is the id of its call, else from the file with that name.

        *offset* and *limit* are in bytes. Raises StoreError.
        """
        limit = min(limit, self.limits.result_bytes)
        if source.use_id == name:
            return read_text_part(source.text, offset, limit)
        return await self._result_store.read(name, offset, limit)

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call proposed by the model. Errors are part of the outcome; only cancellation is raised.

        *why* is the reason for the call, which is shown in questions to the user.
        """
        args = use.arguments or {}
        name, offset, limit = args.get("result"), args.get("offset", 0), args.get("limit", MODEL_TEXT_LIMIT)
        source = next((one for one in self._results() if name and name in (one.use_id, Path(one.kept).stem)), None)
        server = source.server if source else ""
        self._events.publish(ToolProposed(use.id, server, READ_RESULT, use.arguments, use.raw))
        if source is None or not isinstance(name, str):
            return self._fail(use, server, "This conversation has no result with that name.", is_invalid=True)
        if not _is_count(offset, 0) or not _is_count(limit, 1):
            return self._fail(use, server, "offset and limit must be whole numbers of bytes.", is_invalid=True)
        self._events.publish(ToolStarted(use.id, server, READ_RESULT, args, "session"))
        try:
            chunk = await self._read(source, name, offset, limit)
        except StoreError as error:
            return self._fail(use, server, str(error))
        continuation = f"; it continues at offset {chunk.end}" if chunk.end < chunk.size else "; this is the end"
        head = f"[mcphost: bytes {chunk.offset} to {chunk.end} of {chunk.size} of this result{continuation}]"
        text = f"{head}\n{chunk.text}"
        self._events.publish(ToolFinished(use.id, server, READ_RESULT, "ok", text))
        is_whole = source.use_id == name and not chunk.offset
        images = source.images if isinstance(source, ToolReturnPart) and is_whole else ()
        is_reviewed = isinstance(source, ToolReturnPart) and source.reviewed
        if not is_reviewed and self._reviewer.is_required(server):
            shown = (ResultPart(kind="text", text=chunk.text, size=len(chunk.text)),)
            reviewed = await self._reviewer.review(server, use.id, READ_RESULT, args, shown, why)
            self._reviewer.publish(use.id, server, READ_RESULT, reviewed, shown, "")
            text, images = reviewed.replacement or f"{head}\n{reviewed.rendered.text}", ()
        # Not truncated again: the chunk is within the limit, and the heading says where the result continues.
        part = make_tool_return(use, server, READ_RESULT, strip_hidden_text(text), outcome="ok")
        return ToolCallOutcome(replace(part, images=images, target=self._find_target(source)))

    def _fail(self, use: ToolUsePart, server: str, text: str, *, is_invalid: bool = False) -> ToolCallOutcome:
        self._events.publish(ToolFinished(use.id, server, READ_RESULT, "failed", text))
        return ToolCallOutcome(
            make_tool_return(use, server, READ_RESULT, text, outcome="failed"), is_invalid=is_invalid
        )


def _is_count(value: object, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value < 2**53


TOOL_NAME = LOAD_SKILL
MAX_SKILLS_IN_PROMPT = 50
DESCRIPTION_LIMIT = 300
MAX_PATHS = 100
_INTRODUCTION = (
    "Servers offer the following skills, which are instructions for particular kinds of work. If a skill fits the "
    f"task, load it with the tool {TOOL_NAME} before you begin. The servers wrote the names and descriptions; they are "
    "not verified."
)
_LOAD_SKILL_SCHEMA = {
    "type": "object",
    "properties": {
        "server": {"type": "string", "description": "Name of the server that offers the skill"},
        "skill": {"type": "string", "description": "Name of the skill, or its URI if the name is not unique"},
        "file": {"type": "string", "description": "Path of a file of a loaded skill; the default is SKILL.md"},
    },
    "required": ["server", "skill"],
    "additionalProperties": False,
}
_LOAD_SKILL_SPEC = ToolSpec(
    TOOL_NAME, "Load a skill that a server offers, or read one file of a loaded skill.", Raw(encode(_LOAD_SKILL_SCHEMA))
)


def skills_prompt(offered: Iterable[tuple[str, Sequence[Skill]]]) -> str:
    """Return the section of the system prompt that lists at most 50 skills, or "" if there are none.

    *offered* contains pairs of a server's name and the skills of that server.
    """
    entries = [(server, skill) for server, skills in offered for skill in skills]
    if not entries:
        return ""
    names = [(server, skill.name) for server, skill in entries]
    lines = [_INTRODUCTION]
    for (server, skill), name in zip(entries[:MAX_SKILLS_IN_PROMPT], names, strict=False):
        address = f" ({skill.uri[:DESCRIPTION_LIMIT]})" if names.count(name) > 1 else ""
        description = " ".join(skill.description.split())[:DESCRIPTION_LIMIT]
        lines.append(f"- server {server!r}, skill {skill.name!r}{address}: {description}")
    if len(entries) > MAX_SKILLS_IN_PROMPT:
        lines.append(f"- and {len(entries) - MAX_SKILLS_IN_PROMPT} more that are not listed here")
    return strip_hidden_text("\n".join(lines))


class SkillTool:
    """Implementation of the built-in tool `load_skill`.

    The model uses it to load a skill, or to read another file of a loaded skill. Loading a skill needs approval, and
    nothing is sent to the server before the approval. Reading other files of a loaded skill needs no further approval.
    Only skills listed by a ready server can be loaded.
    """

    def __init__(
        self, skills: Skills, consent: ConsentPolicy, events: EventBus, reviewer: ResultReviewer, audit: AuditLog
    ) -> None:
        self._audit = audit
        self._reviewer = reviewer
        self._skills = skills
        self._consent = consent
        self._events = events

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool's definition if a ready server lists a skill, else ()."""
        return (_LOAD_SKILL_SPEC,) if self._skills.ready_skills() else ()

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call proposed by the model. Errors are part of the outcome; only cancellation is raised.

        *why* is the reason for the call, which is shown in questions to the user.
        """
        args = use.arguments or {}
        server, which, path = (args.get(name, "") for name in ("server", "skill", "file"))
        is_valid = all(isinstance(value, str) for value in (server, which, path))
        server = server if isinstance(server, str) else ""
        self._events.publish(ToolProposed(use.id, server, TOOL_NAME, use.arguments, use.raw))
        if not is_valid or not server or not which:
            return self._fail(
                use, "", f"{TOOL_NAME} requires the names of a server and a skill; nothing was loaded.", is_invalid=True
            )
        heading = ""
        try:
            skill, account = self._skills.find_listed(server, which), self._skills.account(server)
            loaded = await self._find_allowed(server, skill, account) if path else None
            approval = loaded[1] if loaded else await self._ask(use, server, skill, account, why)
            if isinstance(approval, Deny):
                reason = f" Reason: {approval.reason}" if approval.reason else ""
                what = "The user declined to load" if approval.is_by_user else "It was not allowed to load"
                return self._fail(use, server, f"{what} this skill.{reason}", is_declined=True)
            listed = loaded[0] if loaded else skill
            content = await self._load(use, server, listed, account, approval, is_loaded=loaded is not None)
            heading, content_part = _heading(content), ResultPart(kind="text", text=content.text, size=len(content.raw))
        except McpHostError as error:
            text = str(error)
            if not isinstance(error, ServerError) or not self._reviewer.is_required(server):
                return self._fail(use, server, text)
            self._fail(use, server, text)
            content_part = ResultPart(kind="error", text=text, size=len(text))
        except BaseException:
            self._events.publish(ToolFinished(use.id, server, TOOL_NAME, "stopped", "Stopped."))
            raise
        return await self._present(use, server, heading, content_part, why)

    async def _load(
        self, use: ToolUsePart, server: str, skill: Skill, account: str, approval: Approval, *, is_loaded: bool
    ) -> SkillContent:
        """Return a file of the skill, loading the skill first unless *is_loaded*; record this in the audit log.

        *account* is the account that was in use when the user approved the skill. Raises ServerError, or ConsentDenied
        if the skill or the account changed after the approval, or if the approval no longer applies.
        """
        args = use.arguments or {}
        path = args.get("file", "")
        subject = AuditSubject(kind="tool", server=server, name=_audit_name(skill), call=use.id, arguments=args,
                  definition=contents_digest(skill))  # fmt: skip
        span = await self._audit.start_span(subject, who=approval.source, grant=approval.grant_id)

        async def check_current(_doubtful: bool) -> None:
            if not await self._is_allowed(server, skill, account, approval.grant_id):
                raise ConsentDenied(
                    f"The skill {skill.name!r} of {server!r} is no longer allowed; it was not read.",
                    "Load it again to be asked.",
                )
            if not self._skills.is_current(server, skill, account):
                raise ConsentDenied(
                    f"The skill {skill.name!r} of {server!r} changed after it was allowed; it was not read.",
                    "Load it again to review it.",
                )

        outcome, size = "stopped", 0
        try:
            await check_current(False)
            self._events.publish(ToolStarted(use.id, server, TOOL_NAME, args, approval.source))
            content = (
                None
                if is_loaded
                else await self._skills.load(server, skill, grant_id=approval.grant_id, before_send=check_current)
            )
            if content is None or path:
                content = await self._skills.read(server, skill, path, before_send=check_current)
            outcome, size = "ok", len(content.raw)
        except McpHostError:
            outcome = "failed"
            raise
        finally:
            span.end(outcome, size=size)
        return content

    async def _ask(self, use: ToolUsePart, server: str, skill: Skill, account: str, why: str) -> Approval | Deny:
        """Ask the user to approve a skill with its current files; the approval ends when one of these files changes.

        *why* is the reason for the call, which is shown with the question.
        """
        details = _describe_files(skill)

        def question(history: ToolHistory) -> ApproveTool:
            return ApproveTool(
                server=server, why=why, call=use.id, tool=TOOL_NAME, arguments=details,
                account=account, skill=skill.uri,
                description=f"A skill: instructions that the model will follow. {skill.description}",
                first_use=history.first_use, has_changed=history.changed, editable=False,
            )  # fmt: skip

        subject = self._identify(server, skill, account)
        return await self._consent.authorize(subject, details, question, call=use.id)

    def _identify(self, server: str, skill: Skill, account: str) -> ToolIdentity:
        return ToolIdentity(
            server=server,
            server_digest=self._skills.digest(server),
            tool=_audit_name(skill),
            digest=contents_digest(skill),
            account=account,
        )

    async def _is_allowed(self, server: str, skill: Skill, account: str, grant_id: str) -> bool:
        """Return whether the approval of a skill still applies.

        *grant_id* is the id of the grant that allowed loading the skill, "" for none.
        """
        identity = self._identify(server, skill, account)
        return await self._consent.is_still_allowed(identity, _describe_files(skill), grant_id)

    async def _find_allowed(self, server: str, skill: Skill, account: str) -> tuple[Skill, Approval] | None:
        """Return a loaded skill and its approval; None if it is not loaded or the approval no longer applies."""
        loaded = self._skills.find_loaded(server, skill)
        if loaded is None or not await self._is_allowed(server, skill, account, loaded[1]):
            return None
        return loaded[0], Approval("session", {}, loaded[1])

    async def _present(
        self, use: ToolUsePart, server: str, heading: str, content: ResultPart, why: str
    ) -> ToolCallOutcome:
        """Return the content, preceded by *heading*, for the model.

        The user reviews the content first if the server's results must be reviewed. *why* is the reason for the call,
        which is shown with the question.
        """
        is_error = content.kind == "error"
        if not is_error:
            self._events.publish(ToolFinished(use.id, server, TOOL_NAME, "ok", f"{heading}\n\n{content.text}"))
        body = content.text
        if self._reviewer.is_required(server):
            reviewed = await self._reviewer.review(server, use.id, TOOL_NAME, use.arguments or {}, (content,), why)
            self._reviewer.publish(use.id, server, TOOL_NAME, reviewed, (content,), "")
            if reviewed.replacement:
                return ToolCallOutcome(
                    make_tool_return(use, server, TOOL_NAME, reviewed.replacement, outcome="ok"), is_declined=True
                )
            body = reviewed.rendered.text
        text = RenderedResult(f"{heading}\n\n{body}" if heading else body).bounded_model_text()
        return ToolCallOutcome(make_tool_return(use, server, TOOL_NAME, text, outcome="error" if is_error else "ok"))

    def _fail(
        self, use: ToolUsePart, server: str, text: str, *, is_declined: bool = False, is_invalid: bool = False
    ) -> ToolCallOutcome:
        self._events.publish(ToolFinished(use.id, server, TOOL_NAME, "declined" if is_declined else "failed", text))
        return ToolCallOutcome(
            make_tool_return(use, server, TOOL_NAME, text, outcome="declined" if is_declined else "failed"),
            is_declined=is_declined,
            is_invalid=is_invalid,
        )


def _audit_name(skill: Skill) -> str:
    """Return the name under which a skill appears in rules, grants and the audit log."""
    return f"{TOOL_NAME}:{skill.uri}"


def _describe_files(skill: Skill) -> dict[str, Any]:
    """Return the skill's URI and file paths, formatted as tool call arguments, for the user to approve.

    At most MAX_PATHS paths are listed; `more_files` is the number of the remaining ones.
    """
    paths = [file.uri.removeprefix(f"{skill.root}/") for file in parse_skill_files(skill)]
    details: dict[str, Any] = {"skill": skill.uri, "files": paths[:MAX_PATHS]}
    if len(paths) > MAX_PATHS:
        details["more_files"] = len(paths) - MAX_PATHS
    return details


def _heading(content: SkillContent) -> str:
    """Return the heading to insert before the content of a skill's file.

    It states the skill's origin and, for SKILL.md, the names of the other files.
    """
    server, skill = content.server, content.skill
    head = f"File of the skill {skill.name!r} from the server {server!r}. The server wrote it, not the user."
    if content.uri == skill.uri and len(parse_skill_files(skill)) > 1:
        names = [file.uri.removeprefix(f"{skill.root}/") for file in parse_skill_files(skill) if file.uri != skill.uri]
        head = f"{head}\nOther files of the skill, which the argument `file` reads: {', '.join(names[:MAX_PATHS])}"
    return head


class BuiltinTools:
    """The built-in tools `load_skill`, `read_result`, `read_conversation` and `search_tools`."""

    def __init__(
        self,
        skills: Skills,
        consent: ConsentPolicy,
        result_tool: ResultTool,
        conversation: ActiveConversation,
        events: EventBus,
        reviewer: ResultReviewer,
        audit: AuditLog,
        model_selection: ModelSelection,
    ) -> None:
        self.skill_tool = SkillTool(skills, consent, events, reviewer, audit)
        self.result_tool = result_tool
        self._conversation_tool = ConversationTool(conversation, model_selection, events)
        self.search_tool = ToolSearch(events)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the definitions of the built-in tools that are currently offered to the model."""
        tools = (self.search_tool, self.skill_tool, self.result_tool, self._conversation_tool)
        return tuple(spec for tool in tools for spec in tool.specs())

    def has_tool(self, name: str) -> bool:
        """Return whether *name* is a built-in tool that is currently offered to the model."""
        return name in RESERVED_TOOL_NAMES and any(spec.name == name for spec in self.specs())

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call of a built-in tool. Errors are part of the outcome; only cancellation is raised.

        *why* is the reason for the call, which is shown in questions to the user.
        """
        if use.name == LOAD_SKILL:
            return await self.skill_tool.run(use, why)
        if use.name == READ_CONVERSATION:
            return await self._conversation_tool.run(use, why)
        if use.name == SEARCH_TOOLS:
            return await self.search_tool.run(use)
        return await self.result_tool.run(use, why)
