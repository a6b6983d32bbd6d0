"""What stands: grants of this run and stored ones, which of them count for a call, and what they say about a tool."""

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
"""Seconds by which clocks differ for honest reasons."""
_WRITE_SECONDS = 2.0
"""How long uses of grants are collected before they are written."""


class ToolHistory(Struct, frozen=True):
    """What earlier answers say about a tool: never any, or given to something else than what stands there now."""

    first_use: bool
    changed: bool


class CoveringGrant(Struct, frozen=True):
    """A grant that covers a call; `by` is "session" or "grant"."""

    source: str
    id: str


class ActiveGrants:
    """The user's grants as they count here and now."""

    def __init__(
        self,
        grants: GrantStore,
        matcher: RuleMatcher,
        conversation: Callable[[], str],
        on_store_error: Callable[[StoreError], None],
    ) -> None:
        """`conversation` gives the id of the open one.

        `tell` hears of a store that fails: then nothing stored counts as allowed, and nothing else is lost.
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
        """Add a grant that lasts until the program ends, under a new id; it replaces one about the same calls."""
        # "s": the ids of stored grants are hexadecimal, so no prefix can mean one of each.
        kept = replace(grant, id=f"s{secrets.token_hex(4)}", created=time.time(), session=True)
        self._session_grants = [one for one in self._session_grants if _grant_key(one) != _grant_key(kept)]
        self._session_grants.append(kept)
        return kept

    def session_grants(self) -> tuple[Grant, ...]:
        """Return the grants that last until the program ends, oldest first."""
        return tuple(self._session_grants)

    def revoke_session(self, ident: str) -> Grant | None:
        """Revoke the session grant with this id prefix. Return it; None when no session grant has the prefix.

        Raises UsageError when several have it.
        """
        found = [grant for grant in self._session_grants if ident and grant.id.startswith(ident)]
        if len(found) > 1:
            raise UsageError(f"{len(found)} grants begin with {ident!r}.", "Type more of the id.")
        self._session_grants = [grant for grant in self._session_grants if grant not in found]
        return replace(found[0], revoked=time.time()) if found else None

    def mark_revoked(self, ident: str) -> None:
        """Note that the stored grant with this id was revoked in this process."""
        self._revoked_ids.add(ident)

    def is_active(self, ident: str) -> bool:
        """Whether the grant that allowed a call was not revoked in this process since; "" is none, and stands."""
        if ident.startswith("s"):
            return any(one.id == ident for one in self._session_grants)
        return ident not in self._revoked_ids

    async def grant_persistent(self, grant: Grant) -> Grant:
        """Keep it. When the store fails it counts until the program ends."""
        places = {"conversation": self.conversation_id(), "project": self._project_folder}
        grant = replace(grant, place=places.get(grant.rule.scope, ""))
        try:
            return await self._grants.add(grant)
        except StoreError as error:
            self._on_store_error(error)
            return self.grant_session(grant)

    async def carry_over(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """The user keeps a changed tool: what was given to exactly what it was, by digest, holds for what it is."""
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
        """The grant that covers this call, whose use is counted then, and what is known of the tool."""
        stored = await self._load_grants(identity.server)
        await self._suspend_outdated(identity, stored)
        for grant in (*self._session_grants, *stored):
            if await self._covers(grant, identity, arguments, _last_event_time(stored)) and self._count_use(grant):
                return CoveringGrant("session" if grant.session else "grant", grant.id), _tool_history(
                    identity, (*self._session_grants, *stored)
                )
        return None, _tool_history(identity, (*self._session_grants, *stored))

    async def covers(self, grant: Grant, identity: ToolIdentity, arguments: dict[str, Any]) -> bool:
        """Whether this grant alone would allow the call now."""
        return await self._covers(grant, identity, arguments, 0.0)

    async def tool_history(self, identity: ToolIdentity) -> ToolHistory:
        """What is known of the tool. Raises StoreError."""
        return _tool_history(identity, (*self._session_grants, *await self._grants.list_for_server(identity.server)))

    async def write_uses(self) -> None:
        """Write how often grants were used, a little later than they were. Runs until it is cancelled."""
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
        """Count one use of the grant. False: a session grant that was revoked while the call was matched."""
        if not grant.session:
            self._grants.count_use(grant.id)
            self._use_recorded.set()
            return True
        at = next((at for at, one in enumerate(self._session_grants) if one.id == grant.id), None)
        if at is None:
            return False
        self._session_grants[at] = replace(
            self._session_grants[at], uses=self._session_grants[at].uses + 1, last_used=time.time()
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
        """What was given to another definition of the tool, or is over, counts no more, whatever comes later."""
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
            for why, idents in ((CHANGED_REASON, changed), (EXPIRED_REASON, expired)):
                if idents:
                    await self._grants.suspend(idents, why)
        except StoreError as error:
            self._on_store_error(error)

    async def _covers(self, grant: Grant, identity: ToolIdentity, arguments: dict[str, Any], newest: float) -> bool:
        places = {"conversation": self.conversation_id(), "project": self._project_folder}
        bound = (
            grant.server_digest == identity.server_digest
            and grant.tools.get(identity.tool) == identity.digest
            and grant.account in (None, identity.account)
            and grant.place == places.get(grant.rule.scope, "")
            and (bool(grant.place) or grant.rule.scope == "everywhere")
            and not grant.suspended
            and _is_unexpired(grant, max(newest, grant.created))
        )
        return bound and await self._matcher.match(grant.rule, identity.to_rule_input(arguments)) == "yes"


def project_folder() -> str:
    """The folder that counts as the project: the one the program was started in; empty when it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _grant_key(grant: Grant) -> tuple[object, ...]:
    return replace(grant.rule, account=None), grant.server_digest, grant.account, grant.place


def _last_event_time(stored: tuple[Grant, ...]) -> float:
    """When something last happened to a grant: the time cannot be earlier than that."""
    return max((max(grant.created, grant.last_used or 0.0) for grant in stored), default=0.0)


def _is_unexpired(grant: Grant, newest: float) -> bool:
    """Not expired. With a clock that was set back nobody can tell, so what expires does not count."""
    expires, now = grant.rule.expires, time.time()
    return expires is None or newest - _CLOCK_SLACK <= now < expires


def _tool_history(identity: ToolIdentity, grants: tuple[Grant, ...]) -> ToolHistory:
    known = {grant.tools[identity.tool] for grant in grants if identity.tool in grant.tools}
    return ToolHistory(first_use=not known, changed=bool(known) and identity.digest not in known)
