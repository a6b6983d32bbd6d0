"""Results of read-only tool calls that are used again when an answer is made again, instead of calling the tool."""

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Any

from mcphost.errors import StoreError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import ToolIdentity
from mcphost.serialization import encode
from mcphost.store.recorded_results import RecordedResult, RecordedResultStore

MAX_AGE = 24 * 3600.0
"""Seconds after which a result is not used again, so that the time of day says when it is from."""
_log = logging.getLogger(__name__)


class RecordedResults:
    """Results of read-only calls that the model may get again, while an answer that was given before is made again.

    A result is used again only in the turn that follows going back in the conversation, and only for a call that is
    the same in its server, account, tool, definition and arguments.
    """

    def __init__(
        self, active: ActiveConversation, store: RecordedResultStore, is_grant_active: Callable[[str], bool]
    ) -> None:
        self._active = active
        self._store = store
        self._is_grant_active = is_grant_active
        self._after: int | None = None
        self._used: set[str] = set()

    @property
    def is_available(self) -> bool:
        """Whether an answer is being made again, so that there may be results to use."""
        return self._after is not None

    async def begin_turn(self, *, is_allowed: bool) -> None:
        """Begin a turn, before its message is added; *is_allowed* is whether results may be used again in it."""
        self._after = None
        self._used.clear()
        conversation = self._active.current
        if not is_allowed or not conversation.id:
            return
        after = conversation.numbers[-1] if conversation.numbers else 0
        if conversation.numbers and not after:
            return  # the last message is not saved yet
        try:
            if await self._store.has_later(conversation.id, after):
                self._after = after
        except StoreError as error:
            _log.warning("recorded results are not available: %s", error)

    async def find(self, identity: ToolIdentity, arguments: dict[str, Any]) -> RecordedResult | None:
        """Return the result of the same call if it may be used again, each result once in a turn, oldest first.

        A result whose call a grant allowed is returned only while this grant is valid.
        """
        if self._after is None:
            return None
        call = identify_call(identity, arguments)
        try:
            found = await self._store.find(
                self._active.id, call, after=self._after, since=time.time() - MAX_AGE, used=self._used
            )
        except StoreError as error:
            _log.warning("a recorded result cannot be read: %s", error)
            return None
        if found is None or not self._is_grant_active(found.grant_id):
            return None
        self._used.add(found.part.use_id)
        return found

    async def add(
        self, use_id: str, identity: ToolIdentity, arguments: dict[str, Any], *, grant_id: str, at: float = 0.0
    ) -> None:
        """Record that the call *use_id* had a result; *at* is when the tool was called, if it was not called just now.

        Raises nothing if the store fails; the call is then made again.
        """
        call = identify_call(identity, arguments)
        try:
            await self._store.add(
                self._active.id, use_id, call, definition=identity.digest, grant_id=grant_id, at=at or time.time()
            )
        except StoreError as error:
            _log.warning("a result is not recorded: %s", error)


def identify_call(identity: ToolIdentity, arguments: dict[str, Any]) -> str:
    """Return the digest of all that must be the same for a result to be used again."""
    facts = (
        identity.server,
        identity.server_digest,
        identity.account,
        identity.tool,
        identity.digest,
        arguments_digest(arguments),
    )
    return hashlib.sha256(encode(facts)).hexdigest()
