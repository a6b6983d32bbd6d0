"""Active grants: session and stored grants, whether they cover a call, and a tool's history."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import StoreError, UsageError
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.consent.tool_identity import ToolIdentity
from mcphost.serialization import Struct, replace
from mcphost.store.grants import CHANGED_REASON, EXPIRED_REASON, Grant, GrantStore

_CLOCK_SLACK = 300
"""Tolerated difference of clocks, in seconds."""
_WRITE_SECONDS = 2.0
"""Seconds for which uses of grants are collected before they are written."""


class ToolHistory(Struct, frozen=True):
    """The history of a tool: never granted before, or granted to a different definition."""

    first_use: bool
    changed: bool


class CoveringGrant(Struct, frozen=True):
    """A grant that covers a call; `source` is "session" or "grant"."""

    source: str
    id: str


class ActiveGrants:
    """The user's grants that are valid here and now."""

    def __init__(
        self,
        grants: GrantStore,
        matcher: RuleMatcher,
        conversation: Callable[[], str],
        on_store_error: Callable[[StoreError], None],
    ) -> None:
        """*conversation* returns the id of the open conversation.

        *on_store_error* receives failures of the store; stored grants allow nothing then.
        """
        self._grants = grants
        self._matcher = matcher
        self.conversation_id = conversation
        self._on_store_error = on_store_error
        self._project_folder = project_folder()
        self._session_grants: list[Grant] = []
        self._use_recorded = anyio.Event()
        self._revoked_ids: set[str] = set()

    def grant_session(self, grant: Grant) -> Grant:
        """Add a grant for this session under a new id, replacing one for the same calls."""
        # "s": the ids of stored grants are hexadecimal, so no prefix can mean one of each.
        stored = replace(grant, id=f"s{secrets.token_hex(4)}", created=time.time(), session=True)
        self._session_grants = [other for other in self._session_grants if _grant_key(other) != _grant_key(stored)]
        self._session_grants.append(stored)
        return stored

    def session_grants(self) -> tuple[Grant, ...]:
        """Return the grants of this session, oldest first."""
        return tuple(self._session_grants)

    def revoke_session(self, ident: str) -> Grant | None:
        """Revoke the session grant with this id prefix; return it, or None if there is none.

        Raises UsageError when several match.
        """
        matches = [grant for grant in self._session_grants if ident and grant.id.startswith(ident)]
        if len(matches) > 1:
            raise UsageError(f"{len(matches)} grants begin with {ident!r}.", "Use a longer prefix of the id.")
        self._session_grants = [grant for grant in self._session_grants if grant not in matches]
        return replace(matches[0], revoked=time.time()) if matches else None

    def mark_revoked(self, ident: str) -> None:
        """Note that the stored grant with this id was revoked in this process."""
        self._revoked_ids.add(ident)

    def is_active(self, ident: str) -> bool:
        """Return whether the grant was not revoked in this process; "" is no grant and active."""
        if ident.startswith("s"):
            return any(grant.id == ident for grant in self._session_grants)
        return ident not in self._revoked_ids

    async def grant_persistent(self, grant: Grant) -> Grant:
        """Store a grant; if the store fails, grant for this session."""
        places = {"conversation": self.conversation_id(), "project": self._project_folder}
        grant = replace(grant, place=places.get(grant.rule.scope, ""))
        try:
            return await self._grants.add(grant)
        except StoreError as error:
            self._on_store_error(error)
            return self.grant_session(grant)

    async def carry_over(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """Carry grants for exactly the previous definition over to the accepted one."""
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
        self, identity: ToolIdentity, arguments: dict[str, Any]
    ) -> tuple[CoveringGrant | None, ToolHistory]:
        """Return the grant that covers this call, counting its use, and the tool's history."""
        stored = await self._load_grants(identity.server)
        await self._suspend_outdated(identity, stored)
        for grant in (*self._session_grants, *stored):
            if await self._covers(grant, identity, arguments, _last_event_time(stored)) and self._count_use(grant):
                return CoveringGrant("session" if grant.session else "grant", grant.id), _tool_history(
                    identity, (*self._session_grants, *stored)
                )
        return None, _tool_history(identity, (*self._session_grants, *stored))

    async def covers(self, grant: Grant, identity: ToolIdentity, arguments: dict[str, Any]) -> bool:
        """Return whether this grant alone would allow the call now."""
        return await self._covers(grant, identity, arguments, 0.0)

    async def tool_history(self, identity: ToolIdentity) -> ToolHistory:
        """Return the tool's history. Raises StoreError."""
        return _tool_history(identity, (*self._session_grants, *await self._grants.list_for_server(identity.server)))

    async def write_uses(self) -> None:
        """Write the uses of grants with a delay, until cancelled."""
        try:
            while True:
                await self._use_recorded.wait()
                self._use_recorded = anyio.Event()
                await anyio.sleep(_WRITE_SECONDS)
                await self._write()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()

    def _count_use(self, grant: Grant) -> bool:
        """Count one use; return False for a session grant that was revoked during the match."""
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
        """Suspend grants for another definition of the tool, and expired ones, permanently."""
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

    async def _covers(self, grant: Grant, identity: ToolIdentity, arguments: dict[str, Any], newest: float) -> bool:
        places = {"conversation": self.conversation_id(), "project": self._project_folder}
        applies = (
            grant.server_digest == identity.server_digest
            and grant.tools.get(identity.tool) == identity.digest
            and grant.account in (None, identity.account)
            and grant.place == places.get(grant.rule.scope, "")
            and (bool(grant.place) or grant.rule.scope == "everywhere")
            and not grant.suspended
            and _is_unexpired(grant, max(newest, grant.created))
        )
        return applies and await self._matcher.match(grant.rule, identity.to_rule_input(arguments)) == "yes"


def project_folder() -> str:
    """Return the project folder, in which mcphost was started; "" if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _grant_key(grant: Grant) -> tuple[object, ...]:
    return replace(grant.rule, account=None), grant.server_digest, grant.account, grant.place


def _last_event_time(stored: tuple[Grant, ...]) -> float:
    """Return the time of the latest event of a grant; the present time cannot be earlier."""
    return max((max(grant.created, grant.last_used or 0.0) for grant in stored), default=0.0)


def _is_unexpired(grant: Grant, newest: float) -> bool:
    """Return whether the grant is not expired; False if the clock was set back."""
    expires, now = grant.rule.expires, time.time()
    return expires is None or newest - _CLOCK_SLACK <= now < expires


def _tool_history(identity: ToolIdentity, grants: tuple[Grant, ...]) -> ToolHistory:
    known = {grant.tools[identity.tool] for grant in grants if identity.tool in grant.tools}
    return ToolHistory(first_use=not known, changed=bool(known) and identity.digest not in known)
