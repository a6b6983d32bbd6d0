"""What stands: grants of this run and stored ones, which of them count for a call, and what they say about a tool."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import StoreError, UsageError
from mcphost.host.consent.rule_matching import Matching
from mcphost.host.consent.tool_identity import Subject
from mcphost.serialization import Data, replace
from mcphost.store.grants import CHANGED, EXPIRED, Grant, Grants

_CLOCK_SLACK = 300
"""Seconds by which clocks differ for honest reasons."""
_WRITE_SECONDS = 2.0
"""How long uses of grants are collected before they are written."""


class Seen(Data, frozen=True):
    """What earlier answers say about a tool: never any, or given to something else than what stands there now."""

    first_use: bool
    changed: bool


class Held(Data, frozen=True):
    """A grant that covers a call; `by` is "session" or "grant"."""

    by: str
    id: str


class Standing:
    """The user's grants as they count here and now."""

    def __init__(
        self, grants: Grants, matching: Matching, conversation: Callable[[], str], tell: Callable[[StoreError], None]
    ) -> None:
        """`conversation` gives the id of the open one.

        `tell` hears of a store that fails: then nothing stored counts as allowed, and nothing else is lost.
        """
        self._grants = grants
        self._matching = matching
        self.conversation = conversation
        self._tell = tell
        self._project = project_folder()
        self._lent: list[Grant] = []
        self._used = anyio.Event()
        self._revoked: set[str] = set()

    def lend(self, grant: Grant) -> Grant:
        """Add a grant that lasts until the program ends, under a new id; it replaces one about the same calls."""
        # "s": the ids of stored grants are hexadecimal, so no prefix can mean one of each.
        kept = replace(grant, id=f"s{secrets.token_hex(4)}", created=time.time(), session=True)
        self._lent = [one for one in self._lent if _about(one) != _about(kept)]
        self._lent.append(kept)
        return kept

    def session_grants(self) -> tuple[Grant, ...]:
        """Return the grants that last until the program ends, oldest first."""
        return tuple(self._lent)

    def revoke_session(self, ident: str) -> Grant | None:
        """Revoke the session grant with this id prefix. Return it; None when no session grant has the prefix.

        Raises UsageError when several have it.
        """
        found = [grant for grant in self._lent if ident and grant.id.startswith(ident)]
        if len(found) > 1:
            raise UsageError(f"{len(found)} grants begin with {ident!r}.", "Type more of the id.")
        self._lent = [grant for grant in self._lent if grant not in found]
        return replace(found[0], revoked=time.time()) if found else None

    def revoked(self, ident: str) -> None:
        """Note that the stored grant with this id was revoked in this process."""
        self._revoked.add(ident)

    def stands(self, ident: str) -> bool:
        """Whether the grant that allowed a call was not revoked in this process since; "" is none, and stands."""
        if ident.startswith("s"):
            return any(one.id == ident for one in self._lent)
        return ident not in self._revoked

    async def give(self, grant: Grant) -> Grant:
        """Keep it. When the store fails it counts until the program ends."""
        places = {"conversation": self.conversation(), "project": self._project}
        grant = replace(grant, place=places.get(grant.rule.scope, ""))
        try:
            return await self._grants.give(grant)
        except StoreError as error:
            self._tell(error)
            return self.lend(grant)

    async def follow(self, server: str, server_digest: str, tool: str, before: str, after: str) -> None:
        """The user keeps a changed tool: what was given to exactly what it was, by digest, holds for what it is."""
        self._lent = [
            replace(grant, tools={**grant.tools, tool: after})
            if (grant.server, grant.server_digest, grant.tools.get(tool)) == (server, server_digest, before)
            else grant
            for grant in self._lent
        ]
        try:
            await self._grants.follow(server, server_digest, tool, before, after)
        except StoreError as error:
            self._tell(error)

    async def find(self, subject: Subject, arguments: dict[str, Any]) -> tuple[Held | None, Seen]:
        """The grant that covers this call, whose use is counted then, and what is known of the tool."""
        stored = await self._stored(subject.server)
        await self._suspend(subject, stored)
        for grant in (*self._lent, *stored):
            if await self._covers(grant, subject, arguments, _newest(stored)) and self._count_use(grant):
                return Held("session" if grant.session else "grant", grant.id), _seen(subject, (*self._lent, *stored))
        return None, _seen(subject, (*self._lent, *stored))

    async def covers(self, grant: Grant, subject: Subject, arguments: dict[str, Any]) -> bool:
        """Whether this grant alone would allow the call now."""
        return await self._covers(grant, subject, arguments, 0.0)

    async def seen(self, subject: Subject) -> Seen:
        """What is known of the tool. Raises StoreError."""
        return _seen(subject, (*self._lent, *await self._grants.of(subject.server)))

    async def write_uses(self) -> None:
        """Write how often grants were used, a little later than they were. Runs until it is cancelled."""
        try:
            while True:
                await self._used.wait()
                self._used = anyio.Event()
                await anyio.sleep(_WRITE_SECONDS)
                await self._write()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()

    def _count_use(self, grant: Grant) -> bool:
        """Count one use of the grant. False: a session grant that was revoked while the call was matched."""
        if not grant.session:
            self._grants.used(grant.id)
            self._used.set()
            return True
        at = next((at for at, one in enumerate(self._lent) if one.id == grant.id), None)
        if at is None:
            return False
        self._lent[at] = replace(self._lent[at], uses=self._lent[at].uses + 1, last_used=time.time())
        return True

    async def _write(self) -> None:
        try:
            await self._grants.write_uses()
        except StoreError as error:
            self._tell(error)

    async def _stored(self, server: str) -> tuple[Grant, ...]:
        try:
            return await self._grants.of(server)
        except StoreError as error:
            self._tell(error)
            return ()

    async def _suspend(self, subject: Subject, stored: tuple[Grant, ...]) -> None:
        """What was given to another definition of the tool, or is over, counts no more, whatever comes later."""
        changed = [
            grant.id
            for grant in stored
            if not grant.suspended
            and grant.server_digest == subject.server_digest
            and grant.tools.get(subject.tool, subject.digest) != subject.digest
        ]
        now = time.time()
        expired = [
            grant.id
            for grant in stored
            if not grant.suspended and grant.rule.expires is not None and grant.rule.expires <= now
        ]
        try:
            for why, idents in ((CHANGED, changed), (EXPIRED, expired)):
                if idents:
                    await self._grants.suspend(idents, why)
        except StoreError as error:
            self._tell(error)

    async def _covers(self, grant: Grant, subject: Subject, arguments: dict[str, Any], newest: float) -> bool:
        places = {"conversation": self.conversation(), "project": self._project}
        bound = (
            grant.server_digest == subject.server_digest
            and grant.tools.get(subject.tool) == subject.digest
            and grant.account in (None, subject.account)
            and grant.place == places.get(grant.rule.scope, "")
            and (bool(grant.place) or grant.rule.scope == "everywhere")
            and not grant.suspended
            and _in_time(grant, max(newest, grant.created))
        )
        return bound and await self._matching.matches(grant.rule, subject.asked(arguments)) == "yes"


def project_folder() -> str:
    """The folder that counts as the project: the one the program was started in; empty when it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def _about(grant: Grant) -> tuple[object, ...]:
    return replace(grant.rule, account=None), grant.server_digest, grant.account, grant.place


def _newest(stored: tuple[Grant, ...]) -> float:
    """When something last happened to a grant: the time cannot be earlier than that."""
    return max((max(grant.created, grant.last_used or 0.0) for grant in stored), default=0.0)


def _in_time(grant: Grant, newest: float) -> bool:
    """Not expired. With a clock that was set back nobody can tell, so what expires does not count."""
    expires, now = grant.rule.expires, time.time()
    return expires is None or newest - _CLOCK_SLACK <= now < expires


def _seen(subject: Subject, grants: tuple[Grant, ...]) -> Seen:
    known = {grant.tools[subject.tool] for grant in grants if subject.tool in grant.tools}
    return Seen(first_use=not known, changed=bool(known) and subject.digest not in known)
