"""The host's own tool: the model loads a skill that a server listed, once the user allowed it."""

from collections.abc import Iterable, Sequence
from typing import Any

from mcphost.errors import ConsentDenied, McpHostError, ServerError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.active_grants import ToolHistory
from mcphost.host.consent.policy import Approval, ConsentPolicy
from mcphost.host.consent.tool_identity import ToolIdentity
from mcphost.host.event_queue import EventBus
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.questions.questions import ApproveTool, Deny
from mcphost.host.questions.result_review_questions import ResultPart
from mcphost.host.reserved_names import LOAD_SKILL
from mcphost.host.results.presentation import RenderedResult
from mcphost.host.servers.skills import SkillContent, Skills
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.protocol.skills import Skill, contents_digest, parse_skill_files
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, encode

TOOL_NAME = LOAD_SKILL
MAX_SKILLS_IN_PROMPT = 50
DESCRIPTION_LIMIT = 300
MAX_PATHS = 100
_INTRODUCTION = (
    f"Servers offer these skills: instructions for a kind of work. When one fits, load it with the tool"
    f" {TOOL_NAME} before "
    "you begin. Names and descriptions are the servers' words."
)
_LOAD_SKILL_SCHEMA = {
    "type": "object",
    "properties": {
        "server": {"type": "string", "description": "The server that offers the skill"},
        "skill": {"type": "string", "description": "The skill's name, or its address when names are alike"},
        "file": {"type": "string", "description": "A file of a loaded skill, by its path; without it SKILL.md"},
    },
    "required": ["server", "skill"],
    "additionalProperties": False,
}
_LOAD_SKILL_SPEC = ToolSpec(
    TOOL_NAME, "Load a skill that a server offers, or read one file of a loaded skill.", Raw(encode(_LOAD_SKILL_SCHEMA))
)


def skills_prompt(offered: Iterable[tuple[str, Sequence[Skill]]]) -> str:
    """What the model is told of skills before it asks for one: server, name, description; bounded. Empty for none."""
    every = [(server, skill) for server, skills in offered for skill in skills]
    if not every:
        return ""
    names = [(server, skill.name) for server, skill in every]
    lines = [_INTRODUCTION]
    for (server, skill), name in zip(every[:MAX_SKILLS_IN_PROMPT], names, strict=False):
        which = f" ({skill.uri[:DESCRIPTION_LIMIT]})" if names.count(name) > 1 else ""
        words = " ".join(skill.description.split())[:DESCRIPTION_LIMIT]
        lines.append(f"- server {server!r}, skill {skill.name!r}{which}: {words}")
    if len(every) > MAX_SKILLS_IN_PROMPT:
        lines.append(f"- and {len(every) - MAX_SKILLS_IN_PROMPT} more that are not named here")
    return strip_hidden_text("\n".join(lines))


class SkillTool:
    """Runs the tool. Loading asks the user; the files of what was loaded need no further question.

    Before the answer nothing is sent and no server is started: only what a ready server listed can be loaded.
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
        """The tool for the model, while any server lists a skill."""
        return (_LOAD_SKILL_SPEC,) if self._skills.ready_skills() else ()

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """One call the model proposed, while the tool is offered. Raises nothing but cancellation."""
        given = use.arguments or {}
        server, which, path = (given.get(name, "") for name in ("server", "skill", "file"))
        words = all(isinstance(one, str) for one in (server, which, path))
        server = server if isinstance(server, str) else ""
        self._events.publish(ToolProposed(use.id, server, TOOL_NAME, use.arguments, use.raw))
        if not words or not server or not which:
            return self._fail(
                use, "", f"{TOOL_NAME} takes the name of a server and of a skill; nothing was loaded.", is_invalid=True
            )
        ours = ""
        try:
            skill, account = self._skills.find_listed(server, which), self._skills.account(server)
            held = self._skills.find_loaded(server, skill) if path else None
            allowed = Approval("session", given) if held else await self._ask(use, server, skill, account, why)
            if isinstance(allowed, Deny):
                reason = f" Reason: {allowed.reason}" if allowed.reason else ""
                return self._fail(use, server, f"The user declined to load this skill.{reason}", is_declined=True)
            content = await self._load(use, server, held or skill, account, allowed, is_loaded=held is not None)
            ours, theirs = _heading(content), ResultPart(kind="text", text=content.text, size=len(content.raw))
        except McpHostError as error:
            text = f"{error.message} {error.hint}"
            if not isinstance(error, ServerError) or not self._reviewer.is_required(server):
                return self._fail(use, server, text)
            self._fail(use, server, text)
            theirs = ResultPart(kind="error", text=text, size=len(text))
        except BaseException:
            self._events.publish(ToolFinished(use.id, server, TOOL_NAME, "stopped", "Stopped."))
            raise
        return await self._present(use, server, ours, theirs, why)

    async def _load(
        self, use: ToolUsePart, server: str, skill: Skill, account: str, approval: Approval, *, is_loaded: bool
    ) -> SkillContent:
        """The file that was asked for, between two rows of the ledger. Raises what Skills does, and Declined."""
        given = use.arguments or {}
        path = given.get("file", "")
        act = AuditSubject(kind="tool", server=server, name=_audit_name(skill), call=use.id, arguments=given,
                  definition=contents_digest(skill))  # fmt: skip
        effect = await self._audit.start_span(act, who=approval.source, grant=approval.grant_id)

        async def again(_doubtful: bool) -> None:
            if not self._skills.is_current(server, skill, account):
                raise ConsentDenied(
                    f"The skill {skill.name!r} of {server!r} is not what it was when it was allowed; it was not read.",
                    "Load it again, if it is still wanted.",
                )

        outcome, size = "stopped", 0
        try:
            await again(False)
            self._events.publish(ToolStarted(use.id, server, TOOL_NAME, given, approval.source))
            content = None if is_loaded else await self._skills.load(server, skill, for_model=True, before_send=again)
            if content is None or path:
                content = await self._skills.read(server, skill, path, before_send=again)
            outcome, size = "ok", len(content.raw)
        except McpHostError:
            outcome = "failed"
            raise
        finally:
            effect.end(outcome, size=size)
        return content

    async def _ask(self, use: ToolUsePart, server: str, skill: Skill, account: str, why: str) -> Approval | Deny:
        """The consent for this skill with exactly these files: another file, or another content, asks again."""
        paths = [file.uri.removeprefix(f"{skill.root}/") for file in parse_skill_files(skill)]
        shown: dict[str, Any] = {"skill": skill.uri, "files": paths[:MAX_PATHS]}
        if len(paths) > MAX_PATHS:
            shown["more_files"] = len(paths) - MAX_PATHS

        def question(seen: ToolHistory) -> ApproveTool:
            return ApproveTool(
                server=server, why=why, call=use.id, tool=TOOL_NAME, arguments=shown,
                account=account, skill=skill.uri,
                description=f"A skill: instructions that the model will follow. {skill.description}",
                first_use=seen.first_use, drifted=seen.changed, editable=False,
            )  # fmt: skip

        subject = ToolIdentity(
            server=server,
            server_digest=self._skills.digest(server),
            tool=_audit_name(skill),
            digest=contents_digest(skill),
            account=account,
        )
        return await self._consent.authorize_call(subject, shown, question, call=use.id)

    async def _present(
        self, use: ToolUsePart, server: str, heading: str, content: ResultPart, why: str
    ) -> ToolCallOutcome:
        """What was read, for the model, after our own words about it; the user reads it first who wants that."""
        failed = content.kind == "error"
        if not failed:
            self._events.publish(ToolFinished(use.id, server, TOOL_NAME, "ok", f"{heading}\n\n{content.text}"))
        words = content.text
        if self._reviewer.is_required(server):
            reviewed = await self._reviewer.review(server, use.id, TOOL_NAME, use.arguments or {}, (content,), why)
            self._reviewer.publish(use.id, server, TOOL_NAME, reviewed, (content,), "")
            if reviewed.replacement:
                return ToolCallOutcome(
                    make_tool_return(use, server, TOOL_NAME, reviewed.replacement, outcome="ok"), is_declined=True
                )
            words = reviewed.rendered.text
        text = RenderedResult(f"{heading}\n\n{words}" if heading else words).bounded_model_text()
        return ToolCallOutcome(make_tool_return(use, server, TOOL_NAME, text, outcome="error" if failed else "ok"))

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
    """Return what rules, grants and the ledger call it."""
    return f"{TOOL_NAME}:{skill.uri}"


def _heading(content: SkillContent) -> str:
    """What we say before a file of a skill."""
    server, skill = content.server, content.skill
    head = f"From the server {server!r}, a file of its skill {skill.name!r}: the server's words, not the user's."
    if content.uri == skill.uri and len(parse_skill_files(skill)) > 1:
        names = [file.uri.removeprefix(f"{skill.root}/") for file in parse_skill_files(skill) if file.uri != skill.uri]
        head = f"{head}\nIts other files, read with `file`: {', '.join(names[:MAX_PATHS])}"
    return head
