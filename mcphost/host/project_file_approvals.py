"""The user's approval of files in a project, bound to the path and exact content of each file."""

import codecs
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from mcphost.config.project_texts import ProjectText, Purpose, split_lines
from mcphost.config.schema import HookConfig
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import NoticeLevel
from mcphost.host.questions import kinds
from mcphost.host.questions.frontend import Frontend, ask_until_decided
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, replace
from mcphost.store.grants import GrantStore, TrustedServer

if TYPE_CHECKING:
    from mcphost.host.questions.questions import ShownText

ApprovalSource = Literal["own", "always", "session", "flag", "refused", "not asked"]
"""How a file was approved, or why it is not used: "own" is the user's file, "flag" a command-line flag."""

USED: frozenset[ApprovalSource] = frozenset({"own", "always", "session", "flag"})
"""The sources that allow a file to be used."""

_WHY: dict[Purpose, str] = {
    "instructions": "the model would follow it as your instructions for this project",
    "command": "it would be sent to the model as your message",
    "hooks": "they would start programs on your machine, with your rights",
}


class ProjectFileStatus(Struct, frozen=True):
    """A file of the user or a project, and how it was approved or why it is not used."""

    text: ProjectText
    source: ApprovalSource

    @property
    def is_used(self) -> bool:
        """Whether the file is in use, because it is the user's own or was approved."""
        return self.source in USED


class ProjectApprovals:
    """Approvals of a project's instructions, commands and hooks, permanent or for this session only."""

    def __init__(
        self,
        grants: GrantStore,
        frontend: Frontend,
        audit: AuditLog,
        approval: Literal["ask", "stored", "flag"],
        approved_files: frozenset[tuple[str, str]] = frozenset(),
        notify: Callable[[NoticeLevel, str], None] = lambda level, text: None,
    ) -> None:
        """Create the approvals for one run of mcphost; see `ProjectPlaces` for *approval* and *approved_files*.

        *notify* receives user-facing messages with their level.
        """
        self._grants, self._frontend, self._audit = grants, frontend, audit
        self._approval, self._approved_files = approval, approved_files
        self._notify = notify
        self._answers: dict[tuple[str, str], ApprovalSource] = {}
        self._recorded: set[tuple[str, str]] = set()
        """The files approved by a flag that have a row in the audit log."""

    async def find_source(self, text: ProjectText) -> ApprovalSource:
        """Return how a file with exactly this content was approved, without asking the user. Raises StoreError.

        Returns "not asked" if it was not approved, or "refused" if the user declined to approve it in this session.
        """
        if text.is_own:
            return "own"
        if answer := self._answers.get((text.path, text.digest)):
            return answer
        if self._approval == "flag" and (text.path, text.digest) in self._approved_files:
            return "flag"
        return "always" if await self._are_stored([text]) else "not asked"

    async def find_status(self, text: ProjectText) -> ProjectFileStatus | None:
        """Return the status of a file, or None if the user has neither approved nor declined it.

        If the user permanently approved the file with other content, a status is returned as well, because the file
        would be used again if it got that content back. Raises StoreError.
        """
        source = await self.find_source(text)
        is_decided = source != "not asked" or await self.is_stored(text.path)
        return ProjectFileStatus(text, source) if is_decided else None

    async def _are_stored(self, texts: Iterable[ProjectText]) -> bool:
        """Return whether the user permanently approved each of the files with its current content.

        Raises StoreError.
        """
        for text in texts:
            stored = await self._grants.find_trusted(text.path)
            if stored is None or stored.digest != text.digest:
                return False
        return True

    async def is_stored(self, path: str) -> bool:
        """Return whether the user permanently approved any version of the file at *path*. Raises StoreError."""
        return await self._grants.find_trusted(path) is not None

    async def find_approved(self, path: str) -> ProjectText | None:
        """Return the version of the file at *path* that the user approved permanently, even if it has changed since.

        Returns None if the file was not approved, or if its content was not stored with the approval. Raises
        StoreError.
        """
        stored = await self._grants.find_trusted(path)
        if stored is None:
            return None
        raw = stored.description.encode("utf-8", "surrogatepass")
        digests = (hashlib.sha256(content).hexdigest() for content in (raw, codecs.BOM_UTF8 + raw))
        if stored.digest not in digests:
            return None
        return ProjectText(path=path, text=stored.description, digest=stored.digest)

    def describe_changed(self, texts: Iterable[tuple[ProjectText, ApprovalSource]]) -> list[str]:
        """Return a warning for each file that changed after a command-line flag approved the project's files.

        *texts* are the project's files, each with the result of `find_source`. Each warning is a sentence that names
        the file and says that it is not used. Returns [] if no flag approved the files.
        """
        if self._approval != "flag":
            return []
        changed = [sanitize(text.path, keep_newlines=False) for text, source in texts if source == "not asked"]
        return [f"{path} was changed during this run and is not used." for path in changed]

    async def ask(
        self,
        purpose: Purpose,
        texts: Sequence[ProjectText],
        *,
        again: bool = False,
        hooks: Sequence[HookConfig] = (),
    ) -> None:
        """Ask the user, in one question, about those of the files that have been neither approved nor declined.

        If *again* is true, also ask about files that the user declined earlier in this session. *hooks* are the
        hooks in a hooks file, which are shown with its text. A file that was approved with other content is shown
        with a diff. Does not ask if questions are turned off, or if the frontend cannot show them.

        If another process stores an approval of exactly these files in the meantime, the question is withdrawn.
        Files that a command-line flag approved are recorded in the audit log. Raises StoreError if approvals cannot be
        read or stored, and ConsentDenied if the audit log cannot record an approval.
        """
        open_sources = {"not asked", "refused"} if again else {"not asked"}
        sources = [(text, await self.find_source(text)) for text in texts]
        for text, source in sources:
            if source == "flag":
                await self._record_flag(purpose, text)
        undecided = [text for text, source in sources if source in open_sources]
        if not undecided or self._approval != "ask" or kinds.TRUST_PROJECT not in self._frontend.kinds:
            return
        from mcphost.host.questions.questions import TrustAlways, TrustOnce, TrustProject

        settings = tuple(hook.settings for hook in hooks)
        shown = tuple([replace(await self._describe(text), hooks=settings) for text in undecided])
        question = TrustProject(server="", why=_WHY[purpose], purpose=purpose, texts=shown)
        verdict = await ask_until_decided(self._frontend, question, partial(self._are_stored, undecided))
        if verdict is None:
            self._notify("info", "The project's files were approved elsewhere, so the question was withdrawn.")
        for text in undecided:
            match verdict:
                case TrustAlways():
                    await self._store(purpose, text)
                    self._answers.pop((text.path, text.digest), None)
                case None:
                    self._answers.pop((text.path, text.digest), None)
                case TrustOnce():
                    self._answers[text.path, text.digest] = "session"
                case _:
                    self._answers[text.path, text.digest] = "refused"

    async def _record_flag(self, purpose: Purpose, text: ProjectText) -> None:
        """Record in the audit log, once per run, that a command-line flag approved a file with this content.

        Raises ConsentDenied if a required row cannot be written.
        """
        if (text.path, text.digest) in self._recorded:
            return
        subject = AuditSubject(kind="file", name=text.path, definition=text.digest)
        await self._audit.record_event(subject, "kept", decision="session", who="flag", detail={"for": purpose})
        self._recorded.add((text.path, text.digest))

    async def forget(self, text: ProjectText) -> None:
        """Revoke the approval of all versions of a file. Raises StoreError.

        In this session, the current version counts as declined, and the user is asked about it again in a later
        session. The user is asked about any other version as soon as mcphost reads it.
        """
        await self._grants.remove_trusted(text.path)
        # Otherwise, a program that can write the file could bring back a version approved earlier in this session.
        self._answers = {
            key: source for key, source in self._answers.items() if key[0] != text.path or source not in USED
        }
        self._approved_files = frozenset(one for one in self._approved_files if one[0] != text.path)
        self._answers[text.path, text.digest] = "refused"
        subject = AuditSubject(kind="file", name=text.path, definition=text.digest)
        self._audit.queue_event(subject, "revoked", who="person")

    async def _describe(self, text: ProjectText) -> "ShownText":
        from mcphost.config.approval_text import diff_lines
        from mcphost.host.questions.questions import ShownText

        earlier = await self._grants.find_trusted(text.path)
        changed = diff_lines(split_lines(earlier.description), split_lines(text.text)) if earlier else ()
        return ShownText(text.path, text.text, changed)

    async def _store(self, purpose: Purpose, text: ProjectText) -> None:
        subject = AuditSubject(kind="file", name=text.path, definition=text.digest)
        await self._audit.record_event(subject, "kept", decision="always", who="person", detail={"for": purpose})
        await self._grants.save_trusted(TrustedServer(text.path, text.digest, text.text))
