"""Reuse of read-only tool results after the user goes back in a conversation and the model answers again."""

import hashlib
import logging
import time
from typing import Any, Literal

from mcphost.errors import StoreError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import ActiveGrants, ToolIdentity
from mcphost.serialization import encode
from mcphost.store.reusable_results import RecordedResult, ReusableResultStore

MAX_AGE = 24 * 3600.0
"""Maximum age in seconds of a reused result; a day, because its time is shown without a date."""
ReusePermission = Literal["given", "ask", "revoked"]
_WITHOUT_GRANT = ("rule", "claim", "autonomy", "")
"""Sources of approvals without a grant (see `Approval`), and "" for a source that an earlier version did not record."""
_log = logging.getLogger(__name__)


class ResultReuse:
    """Results of read-only calls that can be reused after the user has gone back in a conversation.

    A result is reused only in the first turn after the user has gone back in the conversation or copied it, and
    only for a call with the same server, account, tool, definition and arguments.
    """

    def __init__(self, active: ActiveConversation, store: ReusableResultStore, grants: ActiveGrants) -> None:
        self._active = active
        self._store = store
        self._grants = grants
        self._source, self._after = "", -1
        self._used: set[str] = set()

    @property
    def is_available(self) -> bool:
        """Whether results may be reused in this turn, because the user has gone back or copied the conversation."""
        return bool(self._source)

    async def begin_turn(self, *, is_allowed: bool) -> None:
        """Prepare for a new turn; call this before the turn's message is added to the conversation.

        If *is_allowed* is false, no results are reused in this turn, even if the user has gone back.
        """
        self._source, self._after = "", -1
        self._used.clear()
        conversation = self._active.current
        if not is_allowed or not conversation.id:
            return
        after = conversation.numbers[-1] if conversation.numbers else 0
        if conversation.numbers and not after:
            return  # the last message is not saved yet
        try:
            if await self._store.has_later(conversation.id, after):
                self._source, self._after = conversation.id, after
            elif (fork := conversation.forked) is not None and fork.length == len(conversation.numbers):
                # Nothing was added to the copy yet: its original has the earlier answer.
                self._source, self._after = fork.source, fork.after
        except StoreError as error:
            _log.warning("recorded results are not available: %s", error)

    async def find(
        self, identity: ToolIdentity, arguments: dict[str, Any], *, only_reviewed: bool = False
    ) -> RecordedResult | None:
        """Return the result of an identical earlier call, or None if there is none that may be reused.

        Each result is returned at most once per turn, oldest first. If *only_reviewed* is true, only results
        that the user reviewed are returned. A result is not returned if the permission for the earlier call was
        revoked. Call `find_permission` before the result is used.
        """
        if not self._source:
            return None
        call = identify_call(identity, arguments)
        try:
            found = await self._store.find(
                self._source, call, after=self._after, since=time.time() - MAX_AGE, used=self._used,
                only_reviewed=only_reviewed,
            )  # fmt: skip
        except StoreError as error:
            _log.warning("a recorded result cannot be read: %s", error)
            return None
        if found is None or await self.find_permission(found, identity) == "revoked":
            return None
        self._used.add(found.part.use_id)
        return found

    async def find_permission(self, found: RecordedResult, identity: ToolIdentity) -> ReusePermission:
        """Return whether a recorded result may be reused.

        "given" means that it may be reused, "revoked" that it may not, and "ask" that the user may have to be asked.
        This depends on what allowed the earlier call:

        - The user, once: "given".
        - A grant: "given" while the grant applies to the tool *identity*, "revoked" after the user has revoked the
          grant, and otherwise "ask".
        - A rule, a trusted claim or auto-approve mode: "ask". `ConsentPolicy.authorize` then decides whether the call
          is allowed now, possibly without asking the user.
        """
        if found.permission == "once":
            return "given"
        if found.permission in _WITHOUT_GRANT:
            return "ask"
        if await self._grants.find_end(found.permission, identity.server) == "revoked":
            return "revoked"
        return "given" if await self._grants.still_applies(found.permission, identity) else "ask"

    async def add(
        self, use_id: str, identity: ToolIdentity, arguments: dict[str, Any], *, permission: str, at: float = 0.0
    ) -> None:
        """Record that the call *use_id* has a result; *at* is the time of the call in seconds since 1970, 0 for now.

        *permission* identifies what allowed the call; see `Approval.permission`. An error from the store is only
        logged; the result is then not available for reuse.
        """
        call = identify_call(identity, arguments)
        try:
            await self._store.add(
                self._active.for_call.conversation.id, use_id, call,
                definition=identity.digest, permission=permission, at=at or time.time(),
            )  # fmt: skip
        except StoreError as error:
            _log.warning("a result is not recorded: %s", error)


def identify_call(identity: ToolIdentity, arguments: dict[str, Any]) -> str:
    """Return a digest of a call; a recorded result is reused only for calls with the same digest.

    The digest covers the server, account, tool, definition and arguments.
    """
    facts = (
        identity.server,
        identity.server_digest,
        identity.account,
        identity.tool,
        identity.digest,
        arguments_digest(arguments),
    )
    return hashlib.sha256(encode(facts)).hexdigest()
