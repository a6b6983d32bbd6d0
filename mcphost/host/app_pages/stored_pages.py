"""Pages of calls of an earlier run: the calls are stored, and shown if the server is still the same."""

import logging
import time

from mcphost.errors import ServerError, StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation, call_context
from mcphost.host.app_pages.page_bridge import result_for_page
from mcphost.host.app_pages.page_calls import PageCall
from mcphost.host.lifetime import Lifetime
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import CallToolResult
from mcphost.serialization import Raw, decode, encode
from mcphost.store.database import Database
from mcphost.store.page_results import PageResultStore, StoredPageCall

_CALL_AGAIN = "Let the model call the tool again."
_log = logging.getLogger(__name__)


class StoredPages:
    """The model's calls with a page in the open conversation, also those of earlier runs.

    Results of servers whose results the user reviews are not stored, because the user may withhold them.
    """

    def __init__(
        self, database: Database, conversation: ActiveConversation, servers: Servers, lifetime: Lifetime
    ) -> None:
        self._store = PageResultStore(database)
        self._conversation = conversation
        self._servers = servers
        self._lifetime = lifetime

    def keep(self, call: PageCall) -> None:
        """Store the result of a call of the model in the background; do nothing for other calls."""
        context, connection, result = call_context.get(), call.offered.connection, call.result
        if context is None or result is None or connection.config.review_results:
            return
        stored = StoredPageCall(
            call.server, connection.digest, call.offered.account, call.tool, call.offered.definition.digest,
            call.arguments, Raw(encode(result_for_page(result))),
        )  # fmt: skip
        self._lifetime.start_soon(self._add, context.conversation.id, call.call, stored, name="result of a page")

    async def _add(self, conversation_id: str, call: str, stored: StoredPageCall) -> None:
        try:
            await self._store.add(conversation_id, call, stored, time.time())
        except StoreError as error:
            _log.warning("the result of a call with a page is not stored: %s", error)

    async def list_calls(self) -> tuple[str, ...]:
        """Return the ids of the stored calls of the open conversation, oldest first; none if the store fails."""
        try:
            return await self._store.list(self._conversation.id) if self._conversation.id else ()
        except StoreError as error:
            _log.warning("the calls with a page cannot be listed: %s", error)
            return ()

    async def load(self, call: str) -> PageCall | None:
        """Return the stored call with this id, or the newest one if *call* is ""; None if there is none.

        Raises ServerError if its server or its tool is not the same as during the call, and StoreError.
        """
        conversation_id = self._conversation.id
        if not call:
            call = next(reversed(await self.list_calls()), "")
        stored = await self._store.load(conversation_id, call) if conversation_id and call else None
        if stored is None or self._conversation.id != conversation_id:
            return None
        result = decode(stored.result, CallToolResult, "stored result")
        return PageCall(call, self._find_tool(stored), stored.arguments, result)

    def _find_tool(self, stored: StoredPageCall) -> OfferedTool:
        """Return the tool of a stored call as its server lists it now. Raises ServerError with the difference."""
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
            raise ServerError(f"The tool {tool!r} of {server!r} has no page any more.", _CALL_AGAIN)
        if listed.digest != stored.definition or found.tool_changes.is_quarantined(tool):
            raise ServerError(f"The tool {tool!r} of {server!r} changed after this call.", _CALL_AGAIN)
        return OfferedTool(found, listed, found.account)
