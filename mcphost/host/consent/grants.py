"""The user's grants, stored and of this session: list, search, revoke; the earlier calls that a rule would cover."""

import time
from collections.abc import Iterable
from typing import Any, Literal

import anyio

from mcphost.config.rules import Rule
from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.consent.active_grants import Standing, project_folder
from mcphost.host.consent.rule_matching import Answer, Asked, Matching
from mcphost.host.servers.connection import Connection
from mcphost.host.servers.servers import Servers
from mcphost.sanitize import whole
from mcphost.serialization import Data, dumps
from mcphost.store.conversations import Conversations, MadeCall
from mcphost.store.grants import CHANGED, EXPIRED, Grant, Grants
from mcphost.store.roots import FolderAnswer, FolderAnswers

PAST_CALLS = 200
"""Earlier calls that a rule is compared with, the newest ones."""
PREVIEW_SECONDS = 5.0
GONE = "its server is not configured"
OTHER_ACCOUNT = "it is for another account"
OTHER_SERVER = "its server is started or reached in another way now"

State = Literal["counts", "elsewhere", "suspended"]


class Permission(Data, frozen=True):
    """A grant and whether it counts here and now; `why` says in half a sentence why it does not.

    "elsewhere": it is for another conversation, folder, account or server; "suspended": it counts nowhere until it is
    given again.
    """

    grant: Grant
    state: State
    why: str = ""


class FolderPermission(Data, frozen=True):
    """A lasting answer about a folder and whether it counts here and now; see Permission."""

    answer: FolderAnswer
    state: State
    why: str = ""


class PastCall(Data, frozen=True):
    """An earlier call of the rule's server that a model made, and whether the rule covers it as things are now."""

    conversation: str
    title: str
    at: float
    tool: str
    arguments: dict[str, object]
    answer: Answer


class Permissions:
    """The user's grants. Every method may take a moment; none is for the drawing of a screen."""

    def __init__(
        self,
        grants: Grants,
        conversations: Conversations,
        matching: Matching,
        servers: Servers,
        standing: Standing,
        journal: Journal,
        folders: FolderAnswers,
    ) -> None:
        """`standing` has the grants that last until the program ends, and knows the open conversation."""
        self._journal = journal
        self._folders = folders
        self._standing = standing
        self._grants = grants
        self._conversations = conversations
        self._matching = matching
        self._servers = servers

    async def all(self, *, server: str = "", text: str = "") -> tuple[Permission, ...]:
        """Return the grants that stand, newest first: of one server, with that text in them, or both.

        Those of this session come first. Raises StoreError.
        """
        stored = await self._grants.every()
        return (*self.of_session(server=server, text=text), *self._found(stored, server, text))

    def of_session(self, *, server: str = "", text: str = "") -> tuple[Permission, ...]:
        """Return only the grants of this session, newest first; they are known also while the store fails."""
        return self._found(reversed(self._standing.session_grants()), server, text)

    def _found(self, grants: Iterable[Grant], server: str, text: str) -> tuple[Permission, ...]:
        wanted = text.casefold()
        return tuple(
            self._judged(grant)
            for grant in grants
            if server in ("", grant.server) and (not wanted or wanted in _words(grant))
        )

    async def folders(self, *, server: str = "", text: str = "") -> tuple[FolderPermission, ...]:
        """Return the lasting answers about folders, newest first: of one server, with that text, or both.

        Raises StoreError.
        """
        wanted = text.casefold()
        return tuple(
            self._judged_folder(one)
            for one in await self._folders.every()
            if server in ("", one.server) and wanted in f"{one.id} {one.text} folder".casefold()
        )

    async def revoke(self, ident: str) -> Grant | FolderAnswer:
        """Revoke the grant with this id prefix; a stored one in every running mcphost. Raises UsageError, StoreError.

        It may be a lasting answer about a folder: the server is then asked about again.
        It is recorded afterwards, and whether or not that can be done: nothing stands in the way of revoking.
        """
        if ident.startswith("r"):
            answer = await self._folders.revoke(ident)
            about = Act(kind="roots", server=answer.server, subject=whole(answer.path), definition=answer.server_digest)
            self._journal.note(about, "revoked", grant=answer.id)
            return answer
        grant = self._standing.revoke_session(ident)
        if grant is None:
            await self._grants.write_uses()
            grant = await self._grants.revoke(ident)
            self._standing.revoked(grant.id)
        act = Act(kind="grant", server=grant.server, subject=grant.text, definition=grant.server_digest)
        self._journal.note(act, "revoked", grant=grant.id)
        return grant

    async def preview(self, rule: Rule) -> tuple[PastCall, ...]:
        """The newest calls that models made of the rule's server, in stored conversations, newest first.

        At most 200, and what can be judged within seconds. Raises StoreError.
        """
        judged: list[PastCall] = []
        with anyio.move_on_after(PREVIEW_SECONDS):
            for made in await self._conversations.calls_of(rule.server, PAST_CALLS):
                judged.append(await self._past(rule, made))  # noqa: PERF401 - what was judged in time stays
        return tuple(judged)

    async def covers(self, rule: Rule, tool: str, arguments: dict[str, Any]) -> Answer:
        """Whether it covers such a call of its server as things are now. Raises nothing but cancellation."""
        connection = self._find(rule.server)
        asked = Asked(
            server=rule.server,
            tool=tool,
            arguments=arguments,
            account=connection.account if connection else "",
            folder=connection.folder if connection else None,
        )
        return await self._matching.matches(rule, asked)

    async def _past(self, rule: Rule, made: MadeCall) -> PastCall:
        answer = await self.covers(rule, made.tool, made.arguments)
        return PastCall(made.conversation, made.title, made.at, made.tool, made.arguments, answer)

    def _judged(self, grant: Grant) -> Permission:
        if grant.suspended:
            return Permission(grant, "suspended", grant.suspended)
        if grant.rule.expires is not None and grant.rule.expires <= time.time():
            return Permission(grant, "suspended", EXPIRED)
        connection = self._find(grant.server)
        if connection is None:
            return Permission(grant, "elsewhere", GONE)
        if connection.digest != grant.server_digest:
            return Permission(grant, "elsewhere", OTHER_SERVER)
        if grant.account is not None and connection.account and grant.account != connection.account:
            return Permission(grant, "elsewhere", OTHER_ACCOUNT)
        if grant.rule.scope == "conversation" and grant.place != self._standing.conversation():
            return Permission(grant, "elsewhere", "it is for another conversation")
        if grant.rule.scope == "project" and grant.place != project_folder():
            return Permission(grant, "elsewhere", "it is for another folder")
        if grant.tools and connection.drift.held.issuperset(grant.tools):
            return Permission(grant, "suspended", CHANGED)
        return Permission(grant, "counts")

    def _judged_folder(self, answer: FolderAnswer) -> FolderPermission:
        connection = self._find(answer.server)
        if connection is None:
            return FolderPermission(answer, "elsewhere", GONE)
        if connection.digest != answer.server_digest:
            return FolderPermission(answer, "elsewhere", OTHER_SERVER)
        return FolderPermission(answer, "counts")

    def _find(self, server: str) -> Connection | None:
        try:
            return self._servers.find(server)
        except UsageError:
            return None


def _words(grant: Grant) -> str:
    scope = "session" if grant.session else grant.rule.scope
    words = (grant.id, grant.text, grant.server, grant.account or "", scope, grant.place, grant.suspended)
    return dumps([*words, *grant.tools]).casefold()
