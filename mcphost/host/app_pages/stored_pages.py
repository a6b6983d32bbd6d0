"""Pages of tool calls from earlier runs, which can be opened if the server is still the same."""

import logging
import time
from collections.abc import Sequence

import anyio.to_thread

from mcphost.errors import ServerError, StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation, call_context
from mcphost.host.app_pages.page_calls import PageCall
from mcphost.host.lifetime import Lifetime
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.page_records import make_stored_call
from mcphost.llm.messages import Message
from mcphost.protocol.tools import CallToolResult
from mcphost.serialization import decode
from mcphost.store.database import Database
from mcphost.store.page_results import PageResultStore, StoredPageCall

_CALL_AGAIN = "Let the model call the tool again."
_log = logging.getLogger(__name__)


class StoredPages:
    """Store of the results of tool calls that have a page, so that later runs can open the page.

    Only calls on the current branch of the open conversation are listed and loaded. If a result must be reviewed,
    it is stored only if the user passes all of it to the model. Calls made by the user are not stored here, but
    with the conversation; see `make_stored_call`.
    """

    def __init__(
        self, database: Database, conversation: ActiveConversation, servers: Servers, lifetime: Lifetime
    ) -> None:
        self._store = PageResultStore(database)
        self._conversation = conversation
        self._servers = servers
        self._lifetime = lifetime

    def keep(self, call: PageCall, *, is_passed: bool = False) -> None:
        """Store the result of a call in the background; do nothing unless the model made the call.

        Call this when the result arrives, and again with *is_passed* if the user has passed all of it to the model.
        A result that the user must review is stored only by the second call, any other result only by the first.
        """
        context, result = call_context.get(), call.result
        if context is None or result is None or call.offered.connection.config.review_results is not is_passed:
            return
        stored = make_stored_call(call.offered, call.arguments, result)
        self._lifetime.start_soon(self._add, context.conversation.id, call.call, stored, name="result of a page")

    async def _add(self, conversation_id: str, call: str, stored: StoredPageCall) -> None:
        try:
            await self._store.add(conversation_id, call, stored, time.time())
        except StoreError as error:
            _log.warning("the result of a call with a page is not stored: %s", error)

    async def list_calls(self) -> tuple[str, ...]:
        """Return the ids of the stored calls on the current branch, oldest first; none if the store fails."""
        try:
            stored = await self._store.list(self._conversation.id) if self._conversation.id else ()
        except StoreError as error:
            _log.warning("the calls with a page cannot be listed: %s", error)
            return ()
        on_branch = await self.find_calls() if stored else frozenset[str]()
        return tuple(call for call in stored if call in on_branch)

    async def find_calls(self) -> frozenset[str]:
        """Return the ids of the calls on the current branch, by the model or by the user, that may have a page."""
        manual = frozenset(call.page for call in self._conversation.current.manual_calls)
        return manual | await anyio.to_thread.run_sync(_find_tool_uses, self._conversation.messages)

    async def load(self, call: str) -> PageCall | None:
        """Return the stored call with this id, or the newest one if *call* is ""; None if there is none.

        Raises ServerError if the call's server or tool is not available or has changed since the call, and StoreError
        if the stored call cannot be read.
        """
        conversation_id, calls = self._conversation.id, await self.list_calls()
        if not call:
            call = next(reversed(calls), "")
        stored = await self._store.load(conversation_id, call) if call in calls else None
        if stored is None or self._conversation.id != conversation_id:
            return None
        result = decode(stored.result, CallToolResult, "stored result")
        return PageCall(call, self._find_tool(stored), stored.arguments, result)

    def _find_tool(self, stored: StoredPageCall) -> OfferedTool:
        """Return the tool of a stored call as its server lists it now.

        Raises ServerError if the server or the tool is not available or has changed since the call; the message gives
        the reason.
        """
        server, tool = stored.server, stored.tool
        try:
            found = self._servers.find(server)
        except UsageError as error:
            raise ServerError(f"The server {server!r} of this call is no longer configured.", _CALL_AGAIN) from error
        if not found.is_ready:
            raise ServerError(f"The server {server!r} of this call is not connected.", "Start it, then try again.")
        if found.digest != stored.server_digest:
            raise ServerError(f"The server {server!r} is not the one of this call: its settings changed.", _CALL_AGAIN)
        if found.account != stored.account:
            raise ServerError(f"The server {server!r} uses another account than during this call.", _CALL_AGAIN)
        listed = found.tool(tool)
        if listed is None or not listed.page.resource_uri:
            raise ServerError(f"The tool {tool!r} of {server!r} no longer has a page.", _CALL_AGAIN)
        if listed.digest != stored.definition or found.tool_changes.is_quarantined(tool):
            raise ServerError(f"The tool {tool!r} of {server!r} changed after this call.", _CALL_AGAIN)
        return OfferedTool(found, listed, found.account)


def _find_tool_uses(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(use.id for message in messages for use in message.tool_uses)
