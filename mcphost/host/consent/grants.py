"""The user's grants, stored and of this session: list, search, revoke, and preview of a rule."""

import time
from collections.abc import Iterable
from typing import Any, Literal

import anyio

from mcphost.config.rules import Rule
from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.active_grants import ActiveGrants, project_folder
from mcphost.host.consent.rule_matching import RuleInput, RuleMatch, RuleMatcher
from mcphost.host.servers.connection import ServerConnection
from mcphost.host.servers.servers import Servers
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Struct, dumps
from mcphost.store.conversations import ConversationStore, RecordedCall
from mcphost.store.grants import CHANGED_REASON, EXPIRED_REASON, Grant, GrantStore
from mcphost.store.roots import FolderAnswer, FolderAnswerStore

MAX_PAST_CALLS = 200
"""Number of the newest calls that a rule is compared with."""
PREVIEW_SECONDS = 5.0
SERVER_NOT_CONFIGURED = "its server is not configured"
OTHER_ACCOUNT = "it is for another account"
SERVER_CHANGED = "its server is started or reached in another way now"

GrantState = Literal["counts", "elsewhere", "suspended"]


class GrantStatus(Struct, frozen=True):
    """A grant and whether it is valid here and now; `why` gives the reason if it is not.

    "elsewhere": it is for another conversation, folder, account or server; "suspended": it is not valid until granted
    again.
    """

    grant: Grant
    state: GrantState
    why: str = ""


class FolderAnswerStatus(Struct, frozen=True):
    """A lasting answer about a folder and whether it is valid; see GrantStatus."""

    answer: FolderAnswer
    state: GrantState
    why: str = ""


class PastCall(Struct, frozen=True):
    """An earlier call by a model, and whether the rule covers it now."""

    conversation: str
    title: str
    at: float
    tool: str
    arguments: dict[str, object]
    answer: RuleMatch


class GrantRegistry:
    """The user's grants. Methods may take a moment and are not for drawing a screen."""

    def __init__(
        self,
        grants: GrantStore,
        conversations: ConversationStore,
        matcher: RuleMatcher,
        servers: Servers,
        active_grants: ActiveGrants,
        audit: AuditLog,
        folder_answers: FolderAnswerStore,
    ) -> None:
        """*active_grants* has the session grants and knows the open conversation."""
        self._audit = audit
        self._folder_answers = folder_answers
        self._active_grants = active_grants
        self._grants = grants
        self._conversations = conversations
        self._matcher = matcher
        self._servers = servers

    async def list_grants(self, *, server: str = "", text: str = "") -> tuple[GrantStatus, ...]:
        """Return the grants, newest first, optionally of one server or with a text.

        Those of this session come first. Raises StoreError.
        """
        stored = await self._grants.list_all()
        return (*self.list_session_grants(server=server, text=text), *self._search(stored, server, text))

    def list_session_grants(self, *, server: str = "", text: str = "") -> tuple[GrantStatus, ...]:
        """Return only the grants of this session, newest first; this works even if the store fails."""
        return self._search(reversed(self._active_grants.session_grants()), server, text)

    def _search(self, grants: Iterable[Grant], server: str, text: str) -> tuple[GrantStatus, ...]:
        wanted = text.casefold()
        return tuple(
            self._status(grant)
            for grant in grants
            if server in ("", grant.server) and (not wanted or wanted in _search_text(grant))
        )

    async def list_folder_answers(self, *, server: str = "", text: str = "") -> tuple[FolderAnswerStatus, ...]:
        """Return the lasting answers about folders, newest first, optionally of one server or with a text.

        Raises StoreError.
        """
        wanted = text.casefold()
        return tuple(
            self._folder_status(answer)
            for answer in await self._folder_answers.list_all()
            if server in ("", answer.server) and wanted in f"{answer.id} {answer.text} folder".casefold()
        )

    async def revoke(self, ident: str) -> Grant | FolderAnswer:
        """Revoke the grant with this id prefix, in every running mcphost if stored.

        It may be a lasting answer about a folder: the server is then asked about again. It is recorded afterwards, as a
        failing audit log must not prevent it. Raises UsageError or StoreError.
        """
        if ident.startswith("r"):
            answer = await self._folder_answers.revoke(ident)
            subject = AuditSubject(
                kind="roots",
                server=answer.server,
                name=replace_surrogates(answer.path),
                definition=answer.server_digest,
            )
            self._audit.queue_event(subject, "revoked", grant=answer.id)
            return answer
        grant = self._active_grants.revoke_session(ident)
        if grant is None:
            await self._grants.write_uses()
            grant = await self._grants.revoke(ident)
            self._active_grants.mark_revoked(grant.id)
        subject = AuditSubject(kind="grant", server=grant.server, name=grant.text, definition=grant.server_digest)
        self._audit.queue_event(subject, "revoked", grant=grant.id)
        return grant

    async def preview(self, rule: Rule) -> tuple[PastCall, ...]:
        """Return the newest calls that models made of the rule's server in stored conversations.

        At most 200, newest first, as many as can be matched within seconds. Raises StoreError.
        """
        calls: list[PastCall] = []
        with anyio.move_on_after(PREVIEW_SECONDS):
            for call in await self._conversations.list_calls(rule.server, MAX_PAST_CALLS):
                calls.append(await self._match_past_call(rule, call))  # noqa: PERF401 - calls matched in time are kept
        return tuple(calls)

    async def match(self, rule: Rule, tool: str, arguments: dict[str, Any]) -> RuleMatch:
        """Return whether the rule covers this call now. Raises nothing but cancellation."""
        connection = self._find_connection(rule.server)
        rule_input = RuleInput(
            server=rule.server,
            tool=tool,
            arguments=arguments,
            account=connection.account if connection else "",
            folder=connection.folder if connection else None,
        )
        return await self._matcher.match(rule, rule_input)

    async def _match_past_call(self, rule: Rule, call: RecordedCall) -> PastCall:
        answer = await self.match(rule, call.tool, call.arguments)
        return PastCall(call.conversation, call.title, call.at, call.tool, call.arguments, answer)

    def _status(self, grant: Grant) -> GrantStatus:
        if grant.suspended:
            return GrantStatus(grant, "suspended", grant.suspended)
        if grant.rule.expires is not None and grant.rule.expires <= time.time():
            return GrantStatus(grant, "suspended", EXPIRED_REASON)
        connection = self._find_connection(grant.server)
        if connection is None:
            return GrantStatus(grant, "elsewhere", SERVER_NOT_CONFIGURED)
        if connection.digest != grant.server_digest:
            return GrantStatus(grant, "elsewhere", SERVER_CHANGED)
        if grant.account is not None and connection.account and grant.account != connection.account:
            return GrantStatus(grant, "elsewhere", OTHER_ACCOUNT)
        if grant.rule.scope == "conversation" and grant.place != self._active_grants.conversation_id():
            return GrantStatus(grant, "elsewhere", "it is for another conversation")
        if grant.rule.scope == "project" and grant.place != project_folder():
            return GrantStatus(grant, "elsewhere", "it is for another folder")
        if grant.tools and connection.tool_changes.quarantined.issuperset(grant.tools):
            return GrantStatus(grant, "suspended", CHANGED_REASON)
        return GrantStatus(grant, "counts")

    def _folder_status(self, answer: FolderAnswer) -> FolderAnswerStatus:
        connection = self._find_connection(answer.server)
        if connection is None:
            return FolderAnswerStatus(answer, "elsewhere", SERVER_NOT_CONFIGURED)
        if connection.digest != answer.server_digest:
            return FolderAnswerStatus(answer, "elsewhere", SERVER_CHANGED)
        return FolderAnswerStatus(answer, "counts")

    def _find_connection(self, server: str) -> ServerConnection | None:
        try:
            return self._servers.find(server)
        except UsageError:
            return None


def _search_text(grant: Grant) -> str:
    scope = "session" if grant.session else grant.rule.scope
    words = (grant.id, grant.text, grant.server, grant.account or "", scope, grant.place, grant.suspended)
    return dumps([*words, *grant.tools]).casefold()
