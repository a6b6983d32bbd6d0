"""Responder for one server: what we declare and how its asks are answered.

Declared is only what somebody can answer: a front end that cannot put a question to anybody has no capability for it
(specification: basic/lifecycle, capability negotiation).
"""

from collections.abc import Callable
from typing import Any

from mcphost.clean import visible
from mcphost.client.session import AskContext
from mcphost.host.elicitation import Elicitation, Tell
from mcphost.host.front import Front
from mcphost.host.questions import FillForm, ReviewReply, ReviewSampling, ShareRoots, VisitUrl
from mcphost.host.roots import Roots, Sharing
from mcphost.host.sampling import Sampling
from mcphost.host.sign_in import OpenUrl
from mcphost.llm.model import ChatModel
from mcphost.protocol.asks import Ask, AskDeclined, CreateMessage, Elicit, ListRoots, Reply, UrlsRequired

WAITING = 50
"""Asks of one server that may be open at once; what comes beyond them is refused without a question."""


class Desks:
    """Makes the desk of each server; all of them share the front, the model and the roots."""

    def __init__(
        self,
        front: Front,
        model: Callable[[], ChatModel | None],
        roots: Roots,
        tell: Tell,
        open_url: OpenUrl | None = None,
    ) -> None:
        """`open_url` shows an address the user agreed to visit; None: whoever is behind the front does that."""
        self.front = front
        self.open_url = open_url
        self.model = model
        self.roots = roots
        self.tell = tell

    def desk(self, server: str) -> "Desk":
        """A desk for that server; it lives as long as the server's entry, over reconnects."""
        return Desk(server, self)


class Desk:
    """Answers one server."""

    def __init__(self, server: str, shared: Desks) -> None:
        self._front = shared.front
        self._elicitation = Elicitation(server, shared.front, shared.tell, shared.open_url)
        self._sampling = Sampling(server, shared.front, shared.model, shared.tell)
        self._sharing = Sharing(server, shared.roots, shared.front)
        self._open = 0

    @property
    def capabilities(self) -> dict[str, Any]:
        """What we declare, in the shape of the newest revision; `client.identity` shapes it for the others.

        `sampling.context` is never there: nothing of the conversation is added to a server's request.
        """
        kinds = self._front.kinds
        declared: dict[str, Any] = {}
        if ShareRoots.KIND in kinds:
            declared["roots"] = {"listChanged": True}
        if {ReviewSampling.KIND, ReviewReply.KIND} <= kinds:
            declared["sampling"] = {"tools": {}}
        modes: dict[str, Any] = {
            name: {} for name, kind in (("form", FillForm), ("url", VisitUrl)) if kind.KIND in kinds
        }
        if modes:
            declared["elicitation"] = modes
        return declared

    async def answer(self, ask: Ask, context: AskContext) -> Reply:
        """Put it to the user and reply; see Responder. Raises nothing of its own."""
        if self._open >= WAITING:
            return AskDeclined(f"{WAITING} questions of this server are open already.")
        self._open += 1
        try:
            why = _why(context)
            match ask:
                case CreateMessage():
                    return await self._sampling.answer(ask, why, context)
                case Elicit():
                    return await self._elicitation.answer(ask, why, context)
                case UrlsRequired():
                    return await self._elicitation.required(ask, why, context)
                case ListRoots():
                    return await self._sharing.answer(why)
        finally:
            self._open -= 1

    def completed(self, elicitation: str) -> None:
        """See Responder."""
        self._elicitation.completed(elicitation)


def _why(context: AskContext) -> str:
    """On whose behalf, in one short sentence; the name is the server's, and cleaned."""
    name = visible(context.detail[:200], keep_newlines=False)
    match context.method:
        case "tools/call":
            return f"its tool {name} runs and asks for it"
        case "resources/read":
            return f"it asks for it before it gives {name}"
        case "prompts/get":
            return f"it asks for it to fill the prompt {name}"
        case _:
            return "it asks without saying for which call"
