"""What the host knows of a connected server: Session, ServerFacts, Responder, Observer."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, TypeVar

from mcphost.data import Data
from mcphost.protocol.asks import Ask, Reply
from mcphost.protocol.lifecycle import Implementation, ServerCapabilities
from mcphost.protocol.revisions import Era, Revision
from mcphost.protocol.wire import Call, Notice

R = TypeVar("R")
NoticeFn = Callable[[Notice], None]


class ServerFacts(Data, frozen=True):
    """What was learnt when connecting; `info` and `instructions` are the server's own claims."""

    revision: Revision
    info: Implementation
    capabilities: ServerCapabilities
    instructions: str = ""

    @property
    def era(self) -> Era:
        """The era of the negotiated revision."""
        return self.revision.era


class Watch(Data, frozen=True):
    """Which changes a listener wants to hear of."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()


class Session(Protocol):
    """One negotiated connection, the same in both eras."""

    @property
    def facts(self) -> ServerFacts:
        """What was learnt when connecting."""
        ...

    async def request(
        self, call: Call[R], *, deadline: float | None = None, on_notice: NoticeFn | None = None
    ) -> R:
        """Send one request and wait for its result.

        `deadline` in seconds (None: the server's default, which progress extends up to its maximum); `on_notice`
        gets progress and log messages of this call, on the event loop, and must not block. Cancelling the caller
        tells the server. Raises Refused, DeadlinePassed, ConnectionLost, MalformedMessage, TooManyRounds, Declined.
        """
        ...

    def changes(self, want: Watch) -> AsyncIterator[Notice]:
        """Changes as they happen, until the connection ends; one reader only."""
        ...

    async def tell(self, notice: Notice) -> None:
        """Send a notification."""
        ...


class AskContext(Data, frozen=True):
    """Which call of ours a server's ask belongs to, as far as the era lets us know."""

    method: str = ""
    detail: str = ""


class Responder(Protocol):
    """Answers what a server asks; capabilities say what it supports."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The client capabilities to declare, in the shape of the newest revision."""
        ...

    async def answer(self, ask: Ask, context: AskContext) -> Reply:
        """The reply; AskDeclined when there is none. Cancelled when the server or the call goes away."""
        ...


class Observer(Protocol):
    """Hears what does not belong to any call; every method returns at once and never raises."""

    def stderr(self, line: str) -> None:
        """One line of the child's error output, not cleaned."""
        ...

    def warn(self, text: str) -> None:
        """Something odd that the session survived, said once per kind."""
        ...
