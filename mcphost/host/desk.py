"""Responder for one server: what we declare and how its asks are answered.

Sampling, forms and roots get their own desks here; until then they are declined and not declared, so that a
conforming server does not ask (specification: basic/lifecycle, capability negotiation).
"""

from typing import Any

from mcphost.client.session import AskContext
from mcphost.protocol.asks import Ask, AskDeclined, Reply
from mcphost.protocol.jsonrpc import METHOD_NOT_FOUND


class Desk:
    """Answers one server."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """What we declare."""
        return {}

    async def answer(self, ask: Ask, context: AskContext) -> Reply:
        """Declines what was not declared."""
        return AskDeclined(f"mcphost did not declare support for {ask.METHOD}.", METHOD_NOT_FOUND)
