"""Error -32042 of 2025-11-25: the user must visit URLs first; then the call is repeated."""

from typing import Any, cast

from mcphost.client.session import RequestHandler, ServerRequestContext
from mcphost.errors import ConsentDenied, MalformedMessage, RequestRefused
from mcphost.protocol.jsonrpc import URL_ELICITATION_REQUIRED
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ElicitResult, UrlElicitationRequired
from mcphost.serialization import convert, replace

MAX_URL_ROUNDS = 3


class UrlElicitation:
    """The URL elicitations of one call, with a limit of repetitions."""

    def __init__(self, revision: Revision, capabilities: dict[str, Any], handler: RequestHandler) -> None:
        elicitation = capabilities.get("elicitation")
        self._is_supported = (
            revision is Revision.V2025_11_25
            and isinstance(elicitation, dict)
            and "url" in cast("dict[str, Any]", elicitation)
        )
        self._revision = revision
        self._handler = handler
        self._rounds_left = MAX_URL_ROUNDS

    async def resolve(self, error: RequestRefused, context: ServerRequestContext) -> bool:
        """Return whether to repeat the call; False for other errors, or after too many repetitions.

        Raises ConsentDenied if the user does not visit the URL, or cancels the call meanwhile.
        """
        if error.code != URL_ELICITATION_REQUIRED or not self._is_supported or not self._rounds_left:
            return False
        try:
            required = convert(error.data, UrlElicitationRequired, "error -32042")
        except MalformedMessage:
            return False
        if not required.elicitations or any(item.mode != "url" for item in required.elicitations):
            return False
        self._rounds_left -= 1
        reply = await self._handler.answer(required, replace(context, revision=self._revision))
        if isinstance(reply, ElicitResult) and reply.action == "accept":
            return True
        if isinstance(reply, ElicitResult):
            reason = error.message.rstrip(" .")
            raise ConsentDenied(f"{reason}. You did not visit the address, or cancelled, so the call was not repeated.")
        return False
