"""Grants, which permit tool calls for this session or permanently, and operations to manage them."""

import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import anyio

from mcphost.config.rules import Rule, pattern_covers
from mcphost.errors import StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.argument_origins import NO_ORIGINS, ArgumentOrigins
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.rule_matching import RuleInput, RuleMatch, RuleMatcher
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.change_acceptances import ChangeAcceptance
from mcphost.host.servers.connection import ServerConnection
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import Tool
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Raw, Struct, dumps, replace
from mcphost.store.conversations import ConversationStore, RecordedCall
from mcphost.store.grants import CHANGED_REASON, EXPIRED_REASON, Grant, GrantStore
from mcphost.store.roots import FolderAnswer, FolderAnswerStore


class ToolIdentity(Struct, frozen=True, kw_only=True):
    """The tool, server and account to which a grant is bound, with digests of the tool's definition and of the server.

    - `server_tools`: the definitions of all tools that the server currently offers, by name. A grant for several tools
      is limited to these, because the user has not seen tools added later.
    - `is_read_only_trusted`: whether the server declares the tool read-only and the user trusts its annotations.
    """

    server: str
    server_digest: str
    tool: str
    digest: str
    server_tools: dict[str, ToolDefinition] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    account: str = ""
    folder: str | None = None
    is_read_only_trusted: bool = False

    def to_rule_input(self, arguments: dict[str, Any], origins: ArgumentOrigins = NO_ORIGINS) -> RuleInput:
        """Return a call to this tool, with these arguments and origins, as input for a `RuleMatcher`."""
        listed = self.server_tools.get(self.tool)
        return RuleInput(
            server=self.server,
            tool=self.tool,
            arguments=arguments,
            account=self.account,
            folder=self.folder,
            origins=origins,
            definition=listed.raw if listed is not None else Raw(b""),
        )


def identify_tool(offered: OfferedTool) -> ToolIdentity:
    """Return the identity of an offered tool, with the current digest, tools and account of its server."""
    connection, listed = offered.connection, offered.definition
    return ToolIdentity(
        server=connection.config.name,
        server_digest=connection.digest,
        tool=listed.name,
        digest=listed.digest,
        server_tools=connection.listing.tools,
        account=connection.account,
        folder=connection.folder,
        is_read_only_trusted=has_read_only_hint(listed.tool) and connection.config.trust_annotations,
    )


def has_read_only_hint(tool: Tool) -> bool:
    """Return whether the server claims, unverified, that the tool is read-only and not destructive."""
    claims = tool.annotations
    return claims is not None and claims.read_only_hint is True and claims.destructive_hint is not True


def make_grant(identity: ToolIdentity, rule: Rule) -> Grant:
    """Return a grant with this rule, limited to the current definitions of the tools that the rule covers."""
    tools = {name: listed.digest for name, listed in identity.server_tools.items() if pattern_covers(rule.tool, name)}
    if pattern_covers(rule.tool, identity.tool):
        tools[identity.tool] = identity.digest
    return Grant(rule=rule, server_digest=identity.server_digest, tools=tools, account=identity.account)


_CLOCK_SLACK = 300
"""Seconds by which the clock may be behind the latest creation or use of a grant."""
_WRITE_SECONDS = 2.0
"""Seconds during which uses of grants are collected before they are written to the store."""
MAX_PAST_CALLS = 200
"""Maximum number of past calls, the newest ones, that a preview matches against a rule."""
PREVIEW_SECONDS = 5.0
SERVER_NOT_CONFIGURED = "its server is not configured"
OTHER_ACCOUNT = "it is for another account"
SERVER_CHANGED = "its server is now started or reached in another way"


class ToolHistory(Struct, frozen=True):
    """Information about whether the user has allowed a tool before, shown in the consent prompt.

    - `first_use`: no call to the tool was allowed in this session, and no grant exists for it.
    - `changed`: grants exist, but only for other definitions of the tool.
    - `server_changed`: grants exist, but all were made when the server had another command or URL.
    """

    first_use: bool
    changed: bool
    server_changed: bool = False


GrantEnd = Literal["revoked", "ended"]
"""Why a grant no longer allows calls: the user revoked it, or it ended otherwise; see `ActiveGrants.find_end`."""


class CoveringGrant(Struct, frozen=True):
    """A grant that covers a call; `source` is "session" for a session grant and "grant" for a stored one."""

    source: str
    id: str


class ActiveGrants:
    """The session grants and stored grants that are checked for each tool call."""

    def __init__(
        self,
        grants: GrantStore,
        matcher: RuleMatcher,
        conversation: ActiveConversation,
        on_store_error: Callable[[StoreError], None],
    ) -> None:
        """Create the set of active grants; *on_store_error* is called with each error from the store.

        While the store cannot be read, stored grants allow nothing.
        """
        self._grants = grants
        self._matcher = matcher
        self.conversation = conversation
        self._on_store_error = on_store_error
        self._project_folder = project_folder()
        self._session_grants: list[Grant] = []
        self._use_recorded = anyio.Event()
        self._revoked_ids: set[str] = set()
        self._allowed: set[tuple[str, str, str, str]] = set()

    def grant_session(self, grant: Grant) -> Grant:
        """Add a session grant, replacing an earlier one for the same calls; return it with its new id."""
        # "s", because the ids of stored grants are hexadecimal, so that no prefix matches both kinds.
        stored = replace(grant, id=f"s{secrets.token_hex(4)}", created=time.time(), session=True)
        self._session_grants = [other for other in self._session_grants if _grant_key(other) != _grant_key(stored)]
        self._session_grants.append(stored)
        return stored

    def session_grants(self) -> tuple[Grant, ...]:
        """Return the grants of this session, oldest first."""
        return tuple(self._session_grants)

    def revoke_session(self, id_prefix: str) -> Grant | None:
        """Revoke and return the session grant whose id begins with this prefix; return None if there is none.

        Raises UsageError if several ids begin with the prefix.
        """
        matches = [grant for grant in self._session_grants if id_prefix and grant.id.startswith(id_prefix)]
        if len(matches) > 1:
            raise UsageError(f"{len(matches)} grants begin with {id_prefix!r}.", "Use a longer prefix of the id.")
        self._session_grants = [grant for grant in self._session_grants if grant not in matches]
        self._revoked_ids.update(grant.id for grant in matches)
        return replace(matches[0], revoked=time.time()) if matches else None

    def mark_revoked(self, grant_id: str) -> None:
        """Remember that the stored grant with this id was revoked, so that it allows nothing from now on."""
        self._revoked_ids.add(grant_id)

    async def find_end(self, grant_id: str, server: str) -> GrantEnd | None:
        """Return why the grant with this id no longer allows calls to *server*, or None if it still does.

        The result is "revoked" if the grant was revoked, or if it is a stored grant and the store cannot be read. The
        result is "ended" if the grant has expired, is suspended, or belongs to an earlier session. If the id is "", the
        result is None. Nothing is awaited after the check, so the result is up to date when this method returns.
        """
        if not grant_id:
            return None
        is_stored = not grant_id.startswith("s")
        stored = await self._load_grants(server) if is_stored else ()
        if grant_id in self._revoked_ids:
            return "revoked"
        grant = next((one for one in (*self._session_grants, *stored) if one.id == grant_id), None)
        if grant is None:
            return "revoked" if is_stored else "ended"
        # Only the grant's own events: it may have been made after the clock was set back, and is still for its call.
        return None if _is_unexpired(grant, _last_event_time((grant,))) and not grant.suspended else "ended"

    async def grant_persistent(self, grant: Grant) -> Grant:
        """Store a grant and return it; if it cannot be stored, add it for this session instead."""
        places = {"conversation": self.conversation.for_call.conversation.reserved_id, "project": self._project_folder}
        grant = replace(grant, place=places.get(grant.rule.scope, ""))
        try:
            return await self._grants.add(grant)
        except StoreError as error:
            self._on_store_error(error)
            return self.grant_session(grant)

    async def carry_over(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Transfer grants from a tool's previous definition to the one that the user accepted.

        *before* and *after* are the digests of the two definitions, and *server_digest* is the digest of the server's
        command or URL.
        """
        self._session_grants = [
            replace(grant, tools={**grant.tools, tool: after})
            if (grant.server, grant.server_digest, grant.tools.get(tool)) == (server, server_digest, before)
            else grant
            for grant in self._session_grants
        ]
        try:
            await self._grants.carry_over_tool(server, server_digest, tool, before, after)
        except StoreError as error:
            self._on_store_error(error)

    async def find_covering(
        self, identity: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins = NO_ORIGINS
    ) -> tuple[CoveringGrant | None, ToolHistory]:
        """Return a pair: the first grant that covers the call (None if no grant does), and the tool's history.

        One use of the returned grant is counted.
        """
        stored = await self._load_grants(identity.server)
        await self._suspend_outdated(identity, stored)
        call = identity.to_rule_input(arguments, origins)
        for grant in (*self._session_grants, *stored):
            if await self._covers(grant, identity, call, _last_event_time(stored)) and self.count_use(grant):
                found = CoveringGrant("session" if grant.session else "grant", grant.id)
                return found, self._tool_history(identity, stored)
        return None, self._tool_history(identity, stored)

    async def covers(
        self, grant: Grant, identity: ToolIdentity, arguments: dict[str, Any], origins: ArgumentOrigins = NO_ORIGINS
    ) -> bool:
        """Return whether *grant* currently allows a call to the tool with these arguments and origins."""
        return await self._covers(grant, identity, identity.to_rule_input(arguments, origins), 0.0)

    async def still_applies(self, grant_id: str, identity: ToolIdentity) -> bool:
        """Return whether the grant with this id still applies to the tool, regardless of the arguments.

        The result is False if the grant no longer exists or the store cannot be read.
        """
        stored = await self._load_grants(identity.server)
        newest = _last_event_time(stored)
        grants = (grant for grant in (*self._session_grants, *stored) if grant.id == grant_id)
        is_revoked = grant_id in self._revoked_ids
        return not is_revoked and any(self._applies(grant, identity, newest) for grant in grants)

    async def tool_history(self, identity: ToolIdentity) -> ToolHistory:
        """Return whether the user has allowed the tool before, and what has changed since then.

        Raises StoreError.
        """
        return self._tool_history(identity, await self._grants.list_for_server(identity.server))

    def remember_allowed(self, identity: ToolIdentity) -> None:
        """Remember for `tool_history` that a call to the tool was allowed in this session.

        Call this whether the user, a grant, a rule or auto-approve mode allowed the call.
        """
        self._allowed.add((identity.server, identity.server_digest, identity.tool, identity.digest))

    def _tool_history(self, identity: ToolIdentity, stored: tuple[Grant, ...]) -> ToolHistory:
        grants = [
            grant
            for grant in (*self._session_grants, *stored)
            if grant.server == identity.server and identity.tool in grant.tools
        ]
        known = {grant.tools[identity.tool] for grant in grants}
        allowed = (identity.server, identity.server_digest, identity.tool, identity.digest) in self._allowed
        return ToolHistory(
            first_use=not known and not allowed,
            changed=bool(known) and identity.digest not in known,
            server_changed=bool(grants) and all(grant.server_digest != identity.server_digest for grant in grants),
        )

    async def write_uses(self) -> None:
        """Write the counted uses of grants to the store every 2 seconds until cancelled."""
        try:
            while True:
                await self._use_recorded.wait()
                self._use_recorded = anyio.Event()
                await anyio.sleep(_WRITE_SECONDS)
                await self._write()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()

    def count_use(self, grant: Grant) -> bool:
        """Count one use of a grant; return False if it is a session grant that was revoked in the meantime.

        This is also called for the call that the user allowed by creating the grant.
        """
        if not grant.session:
            self._grants.count_use(grant.id)
            self._use_recorded.set()
            return True
        index = next((index for index, other in enumerate(self._session_grants) if other.id == grant.id), None)
        if index is None:
            return False
        self._session_grants[index] = replace(
            self._session_grants[index], uses=self._session_grants[index].uses + 1, last_used=time.time()
        )
        return True

    async def _write(self) -> None:
        try:
            await self._grants.write_uses()
        except StoreError as error:
            self._on_store_error(error)

    async def _load_grants(self, server: str) -> tuple[Grant, ...]:
        try:
            return await self._grants.list_for_server(server)
        except StoreError as error:
            self._on_store_error(error)
            return ()

    async def _suspend_outdated(self, identity: ToolIdentity, stored: tuple[Grant, ...]) -> None:
        """Suspend stored grants that have expired or are for an earlier definition of the tool.

        A suspended grant does not apply until the user grants it again.
        """
        changed = [
            grant.id
            for grant in stored
            if not grant.suspended
            and grant.server_digest == identity.server_digest
            and grant.tools.get(identity.tool, identity.digest) != identity.digest
        ]
        now = time.time()
        expired = [
            grant.id
            for grant in stored
            if not grant.suspended and grant.rule.expires is not None and grant.rule.expires <= now
        ]
        try:
            for reason, ids in ((CHANGED_REASON, changed), (EXPIRED_REASON, expired)):
                if ids:
                    await self._grants.suspend(ids, reason)
        except StoreError as error:
            self._on_store_error(error)

    async def _covers(self, grant: Grant, identity: ToolIdentity, call: RuleInput, newest: float) -> bool:
        return self._applies(grant, identity, newest) and await self._matcher.allows(grant.rule, call)

    def _applies(self, grant: Grant, identity: ToolIdentity, newest: float) -> bool:
        places = {"conversation": self.conversation.for_call.conversation.reserved_id, "project": self._project_folder}
        return (
            grant.server_digest == identity.server_digest
            and grant.tools.get(identity.tool) == identity.digest
            and grant.account in (None, identity.account)
            and grant.place == places.get(grant.rule.scope, "")
            and (bool(grant.place) or grant.rule.scope == "everywhere")
            and not grant.suspended
            and _is_unexpired(grant, max(newest, grant.created))
        )


def project_folder() -> str:
    """Return the directory in which mcphost was started, or "" if it no longer exists."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _grant_key(grant: Grant) -> tuple[object, ...]:
    return replace(grant.rule, account=None), grant.server_digest, grant.account, grant.place


def _last_event_time(stored: tuple[Grant, ...]) -> float:
    """Return the latest time at which one of these grants was created or used; 0 if there are no grants.

    If the current time is earlier than the result, the clock was set back.
    """
    return max((max(grant.created, grant.last_used or 0.0) for grant in stored), default=0.0)


def _is_unexpired(grant: Grant, newest: float) -> bool:
    """Return whether the grant has not expired.

    *newest* is the latest time at which a grant is known to have been created or used. If the current time is more than
    5 minutes earlier, the clock must have been set back, and a grant with an expiry time counts as expired.
    """
    expires, now = grant.rule.expires, time.time()
    return expires is None or newest - _CLOCK_SLACK <= now < expires


GrantState = Literal["counts", "elsewhere", "suspended"]


class GrantStatus(Struct, frozen=True):
    """A grant and its current `state`; `why` is the reason if the grant does not apply.

    - "counts": the grant applies.
    - "elsewhere": the grant is for another conversation, folder or account, or its server is removed or changed.
    - "suspended": the grant expired or the tool changed; it applies only after the user grants it again.
    """

    grant: Grant
    state: GrantState
    why: str = ""


class FolderAnswerStatus(Struct, frozen=True):
    """The user's stored answer about sharing a folder with a server, and whether it applies.

    `state` and `why` have the same meaning as in GrantStatus.
    """

    answer: FolderAnswer
    state: GrantState
    why: str = ""


class PastCall(Struct, frozen=True):
    """A past tool call by a model; `answer` states whether the previewed rule would cover the call."""

    conversation: str
    title: str
    at: float
    tool: str
    arguments: dict[str, object]
    answer: RuleMatch


class GrantRegistry:
    """Registry for managing the user's grants: list, search and revoke them, and preview what a rule would cover.

    Methods read the store and may take seconds; do not call them while drawing a screen.
    """

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
        """Create a registry; *active_grants* provides the session grants and the open conversation."""
        self._audit = audit
        self._folder_answers = folder_answers
        self._active_grants = active_grants
        self._grants = grants
        self._conversations = conversations
        self._matcher = matcher
        self._servers = servers

    async def list_grants(self, *, server: str = "", text: str = "") -> tuple[GrantStatus, ...]:
        """Return the user's grants: session grants first, then stored ones, both newest first.

        If *server* is not "", only the grants for this server are returned. If *text* is not "", only the grants whose
        details contain it are returned, ignoring case. Raises StoreError.
        """
        stored = await self._grants.list_all()
        return (*self.list_session_grants(server=server, text=text), *self._search(stored, server, text))

    def list_session_grants(self, *, server: str = "", text: str = "") -> tuple[GrantStatus, ...]:
        """Return only the session grants, newest first, without reading the store.

        See `list_grants` for *server* and *text*.
        """
        return self._search(reversed(self._active_grants.session_grants()), server, text)

    def _search(self, grants: Iterable[Grant], server: str, text: str) -> tuple[GrantStatus, ...]:
        wanted = text.casefold()
        return tuple(
            self._status(grant)
            for grant in grants
            if server in ("", grant.server) and (not wanted or wanted in _search_text(grant))
        )

    async def list_folder_answers(self, *, server: str = "", text: str = "") -> tuple[FolderAnswerStatus, ...]:
        """Return the user's stored answers about sharing folders with servers, newest first.

        See `list_grants` for *server* and *text*. Raises StoreError.
        """
        wanted = text.casefold()
        return tuple(
            self._folder_status(answer)
            for answer in await self._folder_answers.list_all()
            if server in ("", answer.server) and wanted in f"{answer.id} {answer.text} folder".casefold()
        )

    async def revoke(self, id_prefix: str, *, who: str = "person") -> Grant | FolderAnswer | ChangeAcceptance:
        """Revoke and return the grant whose id begins with this prefix; *who* is recorded in the audit log.

        A stored grant is revoked for every running mcphost process. If the prefix matches a stored answer about sharing
        a folder, or a decision to accept a server's changes, that answer or decision is revoked instead, and the user
        is asked again when necessary.

        If the audit log cannot be written, the grant is still revoked, and the revocation is recorded later. Raises
        UsageError if no grant or more than one has this prefix, and StoreError.
        """
        if id_prefix.startswith("r"):
            answer = await self._folder_answers.revoke(id_prefix)
            subject = AuditSubject(
                kind="roots",
                server=answer.server,
                name=replace_surrogates(answer.path),
                definition=answer.server_digest,
            )
            self._audit.queue_event(subject, "revoked", who=who, grant=answer.id)
            return answer
        grant = self._servers.change_acceptances.revoke(id_prefix) if id_prefix.startswith("t") else None
        grant = grant or self._active_grants.revoke_session(id_prefix)
        if grant is None:
            await self._grants.write_uses()
            grant = await self._grants.revoke(id_prefix)
            self._active_grants.mark_revoked(grant.id)
        subject = AuditSubject(kind="grant", server=grant.server, name=grant.text, definition=grant.server_digest)
        self._audit.queue_event(subject, "revoked", who=who, grant=grant.id)
        return grant

    async def preview(self, rule: Rule) -> tuple[PastCall, ...]:
        """Return past calls to the rule's server from stored conversations, and whether the rule covers each.

        Returns at most 200 calls, newest first, and only those that could be matched within 5 seconds. Raises
        StoreError.
        """
        calls: list[PastCall] = []
        with anyio.move_on_after(PREVIEW_SECONDS):
            for call in await self._conversations.list_calls(rule.server, MAX_PAST_CALLS):
                calls.append(await self._match_past_call(rule, call))  # noqa: PERF401 - calls matched in time are kept
        return tuple(calls)

    async def match(self, rule: Rule, tool: str, arguments: dict[str, Any]) -> RuleMatch:
        """Return whether the rule would cover a call to *tool* with these arguments.

        Never raises an error. Safe to cancel.
        """
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
        if grant.rule.scope == "conversation" and grant.place != self._active_grants.conversation.current.reserved_id:
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
