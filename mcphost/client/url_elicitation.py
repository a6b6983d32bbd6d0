"""Error -32042 of 2025-11-25: a call whose user must visit addresses first; asked about, then the call is repeated."""

from typing import Any, cast

from mcphost.client.session import AskContext, Responder
from mcphost.errors import Declined, MalformedMessage, Refused
from mcphost.protocol.jsonrpc import URL_ELICITATION_REQUIRED
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import ElicitReply, UrlsRequired
from mcphost.serialization import convert, replace

MAX_ROUNDS = 3


class UrlRounds:
    """For one call: how often it was repeated, and what the user said about it."""

    def __init__(self, revision: Revision, declared: dict[str, Any], responder: Responder) -> None:
        elicitation = declared.get("elicitation")
        self._offered = (
            revision is Revision.V2025_11_25
            and isinstance(elicitation, dict)
            and "url" in cast("dict[str, Any]", elicitation)
        )
        self._revision = revision
        self._responder = responder
        self._left = MAX_ROUNDS

    async def visited(self, error: Refused, context: AskContext) -> bool:
        """Whether the call is to be repeated; False when the error is not about addresses, or too often.

        Raises Declined when the user does not go there, or gives the call up meanwhile.
        """
        if error.code != URL_ELICITATION_REQUIRED or not self._offered or not self._left:
            return False
        try:
            asked = convert(error.data, UrlsRequired, "error -32042")
        except MalformedMessage:
            return False
        if not asked.elicitations or any(one.mode != "url" for one in asked.elicitations):
            return False
        self._left -= 1
        reply = await self._responder.answer(asked, replace(context, revision=self._revision))
        if isinstance(reply, ElicitReply) and reply.action == "accept":
            return True
        if isinstance(reply, ElicitReply):
            said = error.message.rstrip(" .")
            raise Declined(f"{said}. You did not go there, or gave it up, so the call was not repeated.")
        return False
