"""The host's own tool: the model loads a skill that a server listed, once the user allowed it."""

from collections.abc import Iterable, Sequence
from typing import Any

from mcphost.errors import Declined, McpHostError, ServerError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.consent.active_grants import Seen
from mcphost.host.consent.policy import Allowed, Consent
from mcphost.host.consent.tool_identity import Subject
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.questions.questions import ApproveTool, Deny
from mcphost.host.questions.result_review_questions import Piece
from mcphost.host.reserved_names import LOAD_SKILL
from mcphost.host.results.presentation import Rendered
from mcphost.host.servers.skills import SkillContent, Skills
from mcphost.host.tools.result_review import Reviewing
from mcphost.host.tools.tool_outcome import Called, part
from mcphost.llm.messages import ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.protocol.skills import Skill, contents_digest, files
from mcphost.sanitize import readable
from mcphost.serialization import Raw, encode

NAME = LOAD_SKILL
SKILLS_IN_PROMPT = 50
DESCRIPTION_LIMIT = 300
PATHS_SHOWN = 100
_INTRODUCTION = (
    f"Servers offer these skills: instructions for a kind of work. When one fits, load it with the tool {NAME} before "
    "you begin. Names and descriptions are the servers' words."
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "server": {"type": "string", "description": "The server that offers the skill"},
        "skill": {"type": "string", "description": "The skill's name, or its address when names are alike"},
        "file": {"type": "string", "description": "A file of a loaded skill, by its path; without it SKILL.md"},
    },
    "required": ["server", "skill"],
    "additionalProperties": False,
}
_SPEC = ToolSpec(NAME, "Load a skill that a server offers, or read one file of a loaded skill.", Raw(encode(_SCHEMA)))


def skills_prompt(offered: Iterable[tuple[str, Sequence[Skill]]]) -> str:
    """What the model is told of skills before it asks for one: server, name, description; bounded. Empty for none."""
    every = [(server, skill) for server, skills in offered for skill in skills]
    if not every:
        return ""
    names = [(server, skill.name) for server, skill in every]
    lines = [_INTRODUCTION]
    for (server, skill), name in zip(every[:SKILLS_IN_PROMPT], names, strict=False):
        which = f" ({skill.uri[:DESCRIPTION_LIMIT]})" if names.count(name) > 1 else ""
        words = " ".join(skill.description.split())[:DESCRIPTION_LIMIT]
        lines.append(f"- server {server!r}, skill {skill.name!r}{which}: {words}")
    if len(every) > SKILLS_IN_PROMPT:
        lines.append(f"- and {len(every) - SKILLS_IN_PROMPT} more that are not named here")
    return readable("\n".join(lines))


class SkillTool:
    """Runs the tool. Loading asks the user; the files of what was loaded need no further question.

    Before the answer nothing is sent and no server is started: only what a ready server listed can be loaded.
    """

    def __init__(self, skills: Skills, consent: Consent, feeds: Feeds, reviewing: Reviewing, journal: Journal) -> None:
        self._journal = journal
        self._reviewing = reviewing
        self._skills = skills
        self._consent = consent
        self._feeds = feeds

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tool for the model, while any server lists a skill."""
        return (_SPEC,) if self._skills.listed() else ()

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call the model proposed, while the tool is offered. Raises nothing but cancellation."""
        given = use.arguments or {}
        server, which, path = (given.get(name, "") for name in ("server", "skill", "file"))
        words = all(isinstance(one, str) for one in (server, which, path))
        server = server if isinstance(server, str) else ""
        self._feeds.put(ToolProposed(use.id, server, NAME, use.arguments, use.raw))
        if not words or not server or not which:
            return self._failed(
                use, "", f"{NAME} takes the name of a server and of a skill; nothing was loaded.", bad=True
            )
        ours = ""
        try:
            skill, account = self._skills.listed_as(server, which), self._skills.account(server)
            held = self._skills.held(server, skill) if path else None
            allowed = Allowed("session", given) if held else await self._ask(use, server, skill, account, why)
            if isinstance(allowed, Deny):
                reason = f" Reason: {allowed.reason}" if allowed.reason else ""
                return self._failed(use, server, f"The user declined to load this skill.{reason}", declined=True)
            content = await self._load(use, server, held or skill, account, allowed, is_held=held is not None)
            ours, theirs = _head(content), Piece(kind="text", text=content.text, size=len(content.raw))
        except McpHostError as error:
            text = f"{error.message} {error.hint}"
            if not isinstance(error, ServerError) or not self._reviewing.wanted(server):
                return self._failed(use, server, text)
            self._failed(use, server, text)
            theirs = Piece(kind="error", text=text, size=len(text))
        except BaseException:
            self._feeds.put(ToolFinished(use.id, server, NAME, "stopped", "Stopped."))
            raise
        return await self._given(use, server, ours, theirs, why)

    async def _load(
        self, use: ToolUsePart, server: str, skill: Skill, account: str, allowed: Allowed, *, is_held: bool
    ) -> SkillContent:
        """The file that was asked for, between two rows of the ledger. Raises what Skills does, and Declined."""
        given = use.arguments or {}
        path = given.get("file", "")
        act = Act(kind="tool", server=server, subject=_subject(skill), call=use.id, arguments=given,
                  definition=contents_digest(skill))  # fmt: skip
        effect = await self._journal.started(act, who=allowed.by, grant=allowed.grant)

        async def again(_doubtful: bool) -> None:
            if not self._skills.stands(server, skill, account):
                raise Declined(
                    f"The skill {skill.name!r} of {server!r} is not what it was when it was allowed; it was not read.",
                    "Load it again, if it is still wanted.",
                )

        outcome, size = "stopped", 0
        try:
            await again(False)
            self._feeds.put(ToolStarted(use.id, server, NAME, given, allowed.by))
            content = None if is_held else await self._skills.load(server, skill, for_model=True, again=again)
            if content is None or path:
                content = await self._skills.read(server, skill, path, again=again)
            outcome, size = "ok", len(content.raw)
        except McpHostError:
            outcome = "failed"
            raise
        finally:
            effect.ended(outcome, size=size)
        return content

    async def _ask(self, use: ToolUsePart, server: str, skill: Skill, account: str, why: str) -> Allowed | Deny:
        """The consent for this skill with exactly these files: another file, or another content, asks again."""
        paths = [file.uri.removeprefix(f"{skill.root}/") for file in files(skill)]
        shown: dict[str, Any] = {"skill": skill.uri, "files": paths[:PATHS_SHOWN]}
        if len(paths) > PATHS_SHOWN:
            shown["more_files"] = len(paths) - PATHS_SHOWN

        def question(seen: Seen) -> ApproveTool:
            return ApproveTool(
                server=server, why=why, call=use.id, tool=NAME, arguments=shown,
                account=account, skill=skill.uri,
                description=f"A skill: instructions that the model will follow. {skill.description}",
                first_use=seen.first_use, drifted=seen.changed, editable=False,
            )  # fmt: skip

        subject = Subject(
            server=server,
            server_digest=self._skills.digest(server),
            tool=_subject(skill),
            digest=contents_digest(skill),
            account=account,
        )
        return await self._consent.settle(subject, shown, question, call=use.id)

    async def _given(self, use: ToolUsePart, server: str, ours: str, theirs: Piece, why: str) -> Called:
        """What was read, for the model, after our own words about it; the user reads it first who wants that."""
        failed = theirs.kind == "error"
        if not failed:
            self._feeds.put(ToolFinished(use.id, server, NAME, "ok", f"{ours}\n\n{theirs.text}"))
        words = theirs.text
        if self._reviewing.wanted(server):
            reviewed = await self._reviewing.review(server, use.id, NAME, use.arguments or {}, (theirs,), why)
            self._reviewing.tell(use.id, server, NAME, reviewed, (theirs,), "")
            if reviewed.instead:
                return Called(part(use, server, NAME, reviewed.instead, outcome="ok"), declined=True)
            words = reviewed.rendered.text
        text = Rendered(f"{ours}\n\n{words}" if ours else words).for_model()
        return Called(part(use, server, NAME, text, outcome="error" if failed else "ok"))

    def _failed(self, use: ToolUsePart, server: str, text: str, *, declined: bool = False, bad: bool = False) -> Called:
        self._feeds.put(ToolFinished(use.id, server, NAME, "declined" if declined else "failed", text))
        return Called(
            part(use, server, NAME, text, outcome="declined" if declined else "failed"), declined=declined, bad=bad
        )


def _subject(skill: Skill) -> str:
    """Return what rules, grants and the ledger call it."""
    return f"{NAME}:{skill.uri}"


def _head(content: SkillContent) -> str:
    """What we say before a file of a skill."""
    server, skill = content.server, content.skill
    head = f"From the server {server!r}, a file of its skill {skill.name!r}: the server's words, not the user's."
    if content.uri == skill.uri and len(files(skill)) > 1:
        names = [file.uri.removeprefix(f"{skill.root}/") for file in files(skill) if file.uri != skill.uri]
        head = f"{head}\nIts other files, read with `file`: {', '.join(names[:PATHS_SHOWN])}"
    return head
